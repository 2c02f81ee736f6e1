//! No secret is revealed, and the audit log records who did what.

use arrow::array::AsArray;
use tidelake_tests::Flight;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_told_by_any_log_error_metric_or_table() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root").to_str().unwrap().to_owned();
    let (password, log) = (directory.path().join("password"), directory.path().join("log"));
    fs::write(&password, PASSWORD).unwrap();
    let arguments = ["--auth", "on", "--log", "trace", "--admin-password-file", password.to_str().unwrap()];
    let node = Node::new(Server::start_logged(&root, arguments, fs::File::create(&log).unwrap()));
    let mut secrets = vec![PASSWORD.to_owned()];
    let mut told = String::new();
    assert_eq!(node.write(ADA).await, 204);
    for sql in [
        "create database audited",
        "create stable audited.t (ts timestamp, v int) tags (g int)",
        "create user dora",
        "grant read on audited to dora",
        "revoke read on audited from dora",
        "delete from audited.t where ts < 0",
        "drop database audited",
        "drop user dora",
    ] {
        node.rows(ADA, sql).await;
    }
    secrets.push("bob''s own".to_owned());
    secrets.push("bob's own".to_owned());
    node.rows(ADA, "create user bob password 'bob''s own'").await;
    let bob = Who::Basic("bob", "bob's own");
    secrets.push(node.token(bob, "create token t").await);
    let login = node.ask(Who::Nobody, "GET", "/rest/login/bob/bob%27s%20own", "").await;
    secrets.push(login.json()["desc"].as_str().unwrap().to_owned());
    secrets.push("bob%27s%20own".to_owned());
    // Invalid statements of every kind: no response contains a password.
    secrets.extend(["never-told-1", "never-told-2", "never-told-3", "never-told-4", "never-told-5"].map(str::to_owned));
    for sql in [
        "create user bob password 'never-told-1'",
        "create user carol password never-told-2",
        "alter user nobody password 'never-told-3'",
        "alter user bob password 'never-told-4' and more",
        "alter user bob password 'never-told-5",
        "create user carol password 'short'",
    ] {
        let reply = node.sql(ADA, sql).await;
        assert!(reply.status >= 400, "{sql}: {reply:?}");
        told += &reply.body;
    }
    node.rows(ADA, "/* it's */ alter user bob password 'bob''s own' -- it").await;
    let as_name = secrets[3].clone();
    told += &node.sql(Who::Basic(&as_name, ""), "select 1").await.body;
    told += &node.sql(Who::Basic("bob", "never-told-1"), "select 1").await.body;
    told += &node.sql(Who::Bearer(&format!("{}x", secrets[3])), "select 1").await.body;
    told += &node.ask(ADA, "POST", "/write?db=d&u=admin&p=never-told-2", "wrong line").await.body;
    told += &over_flight(&node, &mut secrets).await;
    for sql in ["show users", "show grants", "show tokens", "show queries"] {
        told += &node.sql(ADA, sql).await.body;
    }
    told += &node.ask(ADA, "GET", "/metrics", "").await.body;
    for arguments in [["inspect", "--store", &root], ["check", "--store", &root]] {
        told += &text(&run_with(&arguments, &[], ""));
    }
    node.server.stop();
    let logged = fs::read_to_string(&log).unwrap();
    let audited: Vec<&str> = logged.lines().filter(|line| line.contains("tidelake::audit")).collect();
    for (user, statement) in [
        ("admin", "CREATE USER bob PASSWORD '***'"),
        ("bob", "CREATE TOKEN "),
        ("admin", "action=\"CREATE DATABASE\" object=\"audited\""),
        ("admin", "action=\"CREATE TABLE\" object=\"audited.t\""),
        ("admin", "GRANT "),
        ("admin", "REVOKE "),
        ("admin", "action=\"DELETE\" object=\"audited.t\""),
        ("admin", "action=\"DROP DATABASE\" object=\"audited\""),
        ("admin", "DROP USER "),
    ] {
        let who = format!("user=\"{user}\"");
        let told = audited.iter().any(|line| line.contains(&who) && line.contains(statement));
        assert!(told, "{statement} of {user} is not audited: {}", audited.join("\n"));
    }
    assert!(
        audited.iter().any(|line| line.contains("action=\"AUTHENTICATE\"") && line.contains("outcome=\"refused\"")),
        "failures are audited"
    );
    // Objects in the bucket contain only hashes.
    for file in fs::read_dir(Path::new(&root).join("meta")).unwrap() {
        told += &String::from_utf8_lossy(&fs::read(file.unwrap().path()).unwrap());
    }
    for secret in &secrets {
        // The ID part of a token is not secret.
        let secret = secret.strip_prefix("tl_").map_or(secret.as_str(), |rest| rest.split_once('_').unwrap().1);
        for (place, text) in [("the log", &logged), ("an answer", &told)] {
            if let Some(at) = text.find(secret) {
                panic!(
                    "{place} reveals {secret}: {}",
                    &text[at.saturating_sub(200)..(at + secret.len()).min(text.len())]
                );
            }
        }
    }
}

/// The same invalid statements through Flight: returns the messages, and adds the secrets created.
async fn over_flight(node: &Node, secrets: &mut Vec<String>) -> String {
    let mut told = String::new();
    let mut flight = Flight::connect(&node.server.url()).await;
    told += &flight.client().handshake("bob", "never-told-1").await.unwrap_err().to_string();
    let session = flight.client().handshake("bob", "bob's own").await.unwrap();
    secrets.push(String::from_utf8(session.to_vec()).unwrap());
    let made = flight.query("create token of_flight").await.unwrap();
    secrets.push(made.column(0).as_string::<i32>().value(0).to_owned());
    for sql in [
        "alter user bob password 'never-told-4' and more",
        "alter user bob password 'never-told-5",
        "create user carol password never-told-2",
    ] {
        told += &flight.query(sql).await.unwrap_err();
        told += &flight.client().execute_update(sql.to_owned(), None).await.unwrap_err().to_string();
        // Some are checked only on execution.
        if let Err(error) = flight.client().prepare(sql.to_owned(), None).await {
            told += &error.to_string();
        }
    }
    for wrong in [format!("{}x", secrets[3]), "never-told-3".to_owned()] {
        flight.client().set_token(wrong);
        told += &flight.query("select 1").await.unwrap_err();
    }
    told
}
