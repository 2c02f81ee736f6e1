//! Rights and limits of authenticated users on all nodes.

use tidelake_tests::{Flight, S3Server, tool};

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn whoever_gets_in_may_do_what_was_granted_and_nothing_else() {
    let Some(python) = tool("TIDELAKE_PYTHON") else { return };
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root").to_str().unwrap().to_owned();
    let node = Node::start(&root, directory.path(), &[]);
    assert_eq!(node.write(ADA).await, 204);
    assert_eq!(node.ask(ADA, "POST", "/write?db=other&precision=ms", "m,host=h v=1 1").await.status, 204);
    for sql in [
        "create user reader with password 'reads only'",
        "create user writer pass 'writes only'",
        "create user owner password 'owns all of it'",
        "grant read on d.* to reader",
        "grant write on d to writer",
        "grant read, write on *.* to owner",
    ] {
        node.rows(ADA, sql).await;
    }
    let reader = Who::Basic("reader", "reads only");
    let writer = Who::Basic("writer", "writes only");
    let owner = Who::Basic("owner", "owns all of it");
    assert_eq!((node.count(reader).await, node.write(reader).await), (200, 403));
    assert_eq!((node.count(writer).await, node.write(writer).await), (403, 204));
    assert_eq!((node.count(owner).await, node.write(owner).await), (200, 204));

    // Each protocol reports it in its own form.
    let forbidden = [
        (reader, "POST", "/api/v2/write?bucket=d&precision=ms", "m,host=h v=1 1", 403, "\"forbidden\""),
        (
            reader,
            "POST",
            "/opentsdb/v1/put/json/d",
            r#"{"metric":"m","timestamp":1,"value":1,"tags":{"host":"h"}}"#,
            403,
            "not authorized",
        ),
        (reader, "POST", "/rest/sql", "insert into d.m1 using d.m tags ('x') values (1700000000001, 1)", 200, "9796"),
        (reader, "POST", "/rest/sql/d", "drop table m", 200, "not authorized to write"),
        (reader, "POST", "/rest/sql/d", "delete from m", 200, "not authorized to write"),
        (
            reader,
            "POST",
            "/rest/sql/d",
            "create stable n (ts timestamp, v int) tags (t int)",
            200,
            "not authorized to write",
        ),
        (writer, "POST", "/rest/sql", "select * from d.m", 200, "not authorized to read"),
        (
            writer,
            "POST",
            "/rest/sql",
            "select * from information_schema.ins_tables union select * from other.m",
            200,
            "not authorized to read",
        ),
        (writer, "POST", "/rest/sql", "create database new", 200, "not authorized to create"),
        (writer, "POST", "/write?db=unknown", "m v=1 1", 403, "not authorized to write"),
        (owner, "POST", "/rest/sql", "drop database d", 200, "only an administrator"),
        (owner, "POST", "/query?q=drop+database+d", "", 200, "only an administrator"),
        (owner, "POST", "/rest/sql", "alter database d keep 10", 200, "only an administrator"),
        (owner, "POST", "/rest/sql", "create user x password 'xxxxxxxx'", 200, "only an administrator"),
        (owner, "POST", "/rest/sql", "grant admin to owner", 200, "only an administrator"),
        (owner, "POST", "/rest/sql", "alter user admin password 'mine now'", 200, "only an administrator"),
        (owner, "POST", "/rest/sql", "create token t for admin", 200, "only an administrator"),
        (owner, "POST", "/rest/sql", "use nowhere", 200, "no such database"),
        (writer, "POST", "/rest/sql", "use other", 200, "not authorized"),
        (owner, "POST", "/api/v1/compact", "", 403, "administrator"),
        (owner, "PUT", "/api/v1/log", "trace", 403, "administrator"),
        (reader, "GET", "/api/v1/files?table=d.m", "", 403, "administrator"),
        (reader, "GET", "/api/v1/node", "", 403, "administrator"),
    ];
    for (who, method, path, body, status, says) in forbidden {
        let reply = node.ask(who, method, path, body).await;
        assert!(reply.status == status && reply.body.contains(says), "{who:?} {path} {body}: {reply:?}");
    }
    // Databases that a user may not read are not listed by any interface.
    for (who, expected) in [(reader, vec!["d"]), (writer, vec![]), (owner, vec!["d", "other"])] {
        let names = |rows: Vec<Value>| rows.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(node.rows(who, "show databases").await), expected, "{who:?}");
        let sql =
            "select distinct table_schema from information_schema.tables where table_type = 'BASE TABLE' order by 1";
        assert_eq!(names(node.rows(who, sql).await), expected, "{who:?}");
    }
    let listed = node.ask(writer, "GET", "/query?q=show+databases", "").await.body;
    assert!(listed.contains("\"d\"") && !listed.contains("other"), "it may write there: {listed}");
    // Cached plans are per user: the same text was planned for a user with the right.
    let sql = "select host, sum(v) from d.m group by host";
    for (who, status) in [(reader, 200), (writer, 403), (owner, 200), (reader, 200), (writer, 403)] {
        assert_eq!(node.sql(who, sql).await.status, status, "{who:?}");
    }
    // Idempotency keys are per user: a user without the right cannot replay another user's request.
    let keyed = |who: Who<'static>| {
        let request = node.client.post(format!("{}/write?db=d&precision=ms", node.server.url()));
        who.on(request).header("idempotency-key", "one").body("m,host=k v=1 1700000000000").send()
    };
    let [first, copy, other] = [keyed(ADA).await, keyed(ADA).await, keyed(Who::Basic("reader", "reads only")).await];
    let told =
        |reply: &reqwest::Response| (reply.status().as_u16(), reply.headers().contains_key("idempotency-replayed"));
    let told = [first, copy, other].map(|reply| told(&reply.unwrap()));
    assert_eq!(told, [(204, false), (204, true), (403, false)]);
    // Nor through a table of another database.
    node.rows(ADA, "create stable other.s (ts timestamp, v int) tags (t int)").await;
    for sql in [
        "create table d.sub using other.s tags (1)",
        "insert into d.sub using other.s tags (1) values (1700000000000, 1)",
    ] {
        let reply = node.ask(writer, "POST", "/rest/sql", sql).await;
        assert!(reply.body.contains("not authorized to write"), "{sql}: {reply:?}");
    }
    for reserved in ["system", "Information_Schema"] {
        let reply = node.sql(ADA, &format!("create database `{reserved}`")).await;
        assert!(reply.status == 400 && reply.body.contains("database name is reserved"), "{reply:?}");
    }
    // A token with grants or an expiry counts as narrowed, even if its grants equal the user's rights.
    for with in ["with read on *.*, write on *.*", "expires in 1h"] {
        let token = node.token(owner, &format!("create token `t{}` {with}", with.len())).await;
        assert_eq!(node.sql(Who::Bearer(&token), "create token wider").await.status, 403, "{with}");
        assert_eq!(node.sql(Who::Bearer(&token), "alter user owner password 'taken over'").await.status, 403, "{with}");
    }
    // Tokens narrow their users' rights, and cannot create wider tokens.
    let narrow = node.token(owner, "create token narrow with read on d, write on other").await;
    let narrow = Who::Bearer(&narrow);
    assert_eq!((node.count(narrow).await, node.write(narrow).await), (200, 403));
    assert_eq!(node.ask(narrow, "POST", "/write?db=other", "m,host=h v=1 1").await.status, 204);
    for sql in
        ["create token wide", "alter user owner password 'taken over'", "drop token narrow", "create user y admin"]
    {
        assert_eq!(node.sql(narrow, sql).await.status, 403, "{sql}");
    }

    let mut flight = Flight::connect(&node.server.url()).await;
    let error = flight.query("select 1").await.unwrap_err();
    assert!(error.contains("no credentials"), "{error}");
    flight.client().handshake("reader", "reads only").await.unwrap();
    assert_eq!(flight.query("select count(*) from d.m").await.unwrap().num_rows(), 1);
    let error = flight.query("select count(*) from other.m").await.unwrap_err();
    assert!(error.contains("not authorized to read"), "{error}");
    let info = flight.client().execute("select host, count(*) from d.m group by host".to_owned(), None).await.unwrap();
    let ticket = info.endpoint[0].ticket.clone().unwrap();
    let mut other = Flight::connect(&node.server.url()).await;
    other.client().handshake("writer", "writes only").await.unwrap();
    let stolen = match other.client().do_get(ticket).await {
        Err(error) => error.to_string(),
        Ok(_) => "rows".to_owned(),
    };
    assert!(stolen.contains("not authorized to read"), "a ticket of another user: {stolen}");

    let adbc = |who: &[&str]| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/python/access.py");
        let url = format!("grpc://{}", node.server.address);
        text(&Command::new(&python).args([script, &url]).args(who).output().unwrap())
    };
    let found = adbc(&["reader", "reads only"]);
    assert!(found.starts_with("[(") && found.contains("not authorized to write"), "{found}");
    let token = node.token(owner, "create token adbc").await;
    let found = adbc(&[&token]);
    assert!(!found.contains("authorized"), "{found}");
    assert!(adbc(&["reader", "wrong"]).contains("wrong user, password or token"));
    assert!(adbc(&[&token[..20]]).contains("UNAUTHENTICATED"));
    node.server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_node_changed_holds_on_another_as_soon_as_it_was_answered() {
    let directory = tempfile::tempdir().unwrap();
    let local = directory.path().join("root").to_str().unwrap().to_owned();
    let Some(s3) = S3Server::start() else { return };
    for (store, options) in [(local, Vec::new()), (s3.root("access"), s3.options())] {
        let options: Vec<String> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let more: Vec<&str> = options.iter().flat_map(|option| ["--store-option", option.as_str()]).collect();
        let (here, there) =
            (Node::start(&store, directory.path(), &more), Node::start(&store, directory.path(), &more));
        assert_eq!(here.write(ADA).await, 204);
        here.rows(ADA, "create user bob password 'bob''s own'").await;
        let bob = Who::Basic("bob", "bob's own");
        for _ in 0..2 {
            assert_eq!(there.count(bob).await, 403);
            here.rows(ADA, "grant read on d to bob").await;
            assert_eq!(there.count(bob).await, 200);
            here.rows(ADA, "revoke all on d from bob").await;
        }
        here.rows(ADA, "grant all to bob").await;
        assert_eq!(there.count(bob).await, 200);
        let token = here.token(bob, "create token mine").await;
        assert_eq!((there.count(Who::Bearer(&token)).await, there.write(Who::Bearer(&token)).await), (200, 204));
        there.rows(bob, "drop token mine").await;
        assert_eq!(here.count(Who::Bearer(&token)).await, 401);
        // A recreated database of the same name is a different database.
        there.rows(ADA, "revoke admin from bob").await;
        there.rows(ADA, "grant write on d to bob").await;
        assert_eq!(here.write(bob).await, 204);
        here.rows(ADA, "drop database d").await;
        here.rows(ADA, "create database d").await;
        assert_eq!((here.write(bob).await, there.write(bob).await), (403, 403));
        there.rows(ADA, "drop user bob").await;
        assert_eq!(here.count(bob).await, 401);
        here.server.stop();
        there.server.stop();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_queries_of_a_user_take_no_more_than_the_users_limits() {
    const ENDLESS: &str =
        "select sum(a.value * b.value) from generate_series(1, 300000) a cross join generate_series(1, 300000) b";
    const LARGE: &str = "select cardinality(array_agg(value)) from generate_series(1, 2000000)";
    let directory = tempfile::tempdir().unwrap();
    let node = Node::start(directory.path().join("root").to_str().unwrap(), directory.path(), &[]);
    node.rows(ADA, "create user bob password 'bob''s own'").await;
    let bob = Who::Basic("bob", "bob's own");
    let limits =
        "select max_queries, max_query_memory, max_query_ms from information_schema.ins_users where name = 'bob'";
    assert_eq!(node.rows(bob, limits).await, [serde_json::json!([null, null, null])]);
    for wrong in
        ["limit", "limit queries", "limit queries four", "limit memory '5XB'", "limit time 3 parsecs", "limit cpu 1"]
    {
        let reply = node.sql(ADA, &format!("alter user bob {wrong}")).await;
        assert!(reply.status == 400 && reply.body.contains("expected"), "{wrong}: {reply:?}");
    }
    assert_eq!(node.sql(bob, "alter user bob limit queries 9").await.status, 403);
    assert_eq!(node.rows(bob, LARGE).await, [serde_json::json!([2_000_000])]);
    node.rows(ADA, "alter user bob limit queries 1, memory '4MiB', time 2s").await;
    assert_eq!(node.rows(ADA, limits).await, [serde_json::json!([1, 4 << 20, 2_000])]);
    // Memory limit: only bob's.
    let reply = node.sql(bob, LARGE).await;
    assert!(reply.status != 200 && reply.body.contains("bob") && reply.body.contains("4194304"), "{reply:?}");
    assert_eq!(node.rows(ADA, LARGE).await, [serde_json::json!([2_000_000])]);
    // Remove only the memory limit; the next queries need about as much memory.
    node.rows(ADA, "alter user bob limit memory 0").await;
    assert_eq!(node.rows(ADA, limits).await, [serde_json::json!([1, null, 2_000])]);
    assert_eq!(node.rows(bob, LARGE).await, [serde_json::json!([2_000_000])]);
    // Time limit, and one concurrent query: the second waits although permits are free.
    let watch = async {
        let mut seen = Vec::new();
        for _ in 0..40 {
            let states = node.rows(ADA, "select state from system.queries where \"user\" = 'bob' order by state").await;
            let states: Vec<String> = states.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect();
            seen.push(states);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        seen
    };
    let (one, other, seen) = tokio::join!(node.sql(bob, ENDLESS), node.sql(bob, ENDLESS), watch);
    for reply in [one, other] {
        assert!(reply.status == 503 && reply.body.contains("longer than its limit (limit: 2s)"), "{reply:?}");
    }
    let both = ["running".to_owned(), "waiting".to_owned()];
    assert!(seen.iter().any(|states| *states == both), "{seen:?}");
    assert!(seen.iter().all(|states| states.iter().filter(|state| *state == "running").count() <= 1), "{seen:?}");
    node.rows(ADA, "alter user bob limit queries 0, time 0").await;
    assert_eq!(node.rows(bob, limits).await, [serde_json::json!([null, null, null])]);
    node.server.stop();
}
