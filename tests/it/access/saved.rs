//! Saved queries over HTTP: each user has their own, all nodes of a root have the same.

use super::*;

const PATH: &str = "/api/v1/saved-queries";

/// Names and statements of the listed queries.
async fn listed(node: &Node, who: Who<'_>) -> Vec<(String, String)> {
    let reply = node.ask(who, "GET", PATH, "").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let queries = reply.json()["queries"].as_array().unwrap().clone();
    queries.iter().map(|query| (text(&query["name"]), text(&query["statement"]))).collect()
}

async fn save(node: &Node, who: Who<'_>, name: &str, statement: &str) -> Reply {
    node.ask(who, "PUT", &format!("{PATH}/{name}"), &json!({ "statement": statement }).to_string()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_sees_and_changes_only_their_own_saved_queries_on_every_node() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root").to_str().unwrap().to_owned();
    let one = Node::start(&root, directory.path(), &[]);
    let two = Node::start(&root, directory.path(), &[]);
    one.rows(ADA, "create user bob password 'bob''s own'").await;
    let bob = Who::Basic("bob", "bob's own");

    let body = json!({ "statement": "select 1;\nselect 2", "database": "d" }).to_string();
    let saved = one.ask(ADA, "PUT", &format!("{PATH}/my%2Fquery%20%C3%BC"), &body).await;
    assert_eq!(saved.status, 200, "{saved:?}");
    let reply = two.ask(ADA, "GET", PATH, "").await.json();
    assert_eq!(reply["queries"].as_array().unwrap(), &[saved.json()], "the other node lists what this one answered");
    let query = saved.json();
    assert_eq!([&query["name"], &query["owner"], &query["database"]], ["my/query ü", "admin", "d"]);
    assert_eq!(query["statement"], "select 1;\nselect 2");
    let updated = query["updated"].as_str().unwrap();
    let recent = format!("select abs(extract(epoch from now() - timestamp '{updated}')) < 600");
    assert_eq!(one.rows(ADA, &recent).await, [json!([true])], "{updated}");

    // Both nodes save at the same time: nothing is lost.
    let names: Vec<String> = (0..10).map(|number| format!("q{number}")).collect();
    let saves = names.iter().enumerate().map(|(at, name)| save([&one, &two][at % 2], bob, name, name));
    for reply in futures::future::join_all(saves).await {
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    let expected: Vec<_> = names.iter().map(|name| (name.clone(), name.clone())).collect();
    assert_eq!(listed(&one, bob).await, expected);
    assert_eq!(listed(&two, bob).await, expected);

    // The names of ada are unknown to bob, and a restricted token of bob sees none.
    let foreign = two.ask(bob, "DELETE", &format!("{PATH}/my%2Fquery%20%C3%BC"), "").await;
    assert_eq!((foreign.status, &foreign.json()["error"]["kind"]), (404, &json!("not_found")));
    let whole = one.token(bob, "create token whole").await;
    assert_eq!(listed(&two, Who::Bearer(&whole)).await, expected);
    one.rows(ADA, "create database d").await;
    one.rows(ADA, "grant read on d to bob").await;
    let narrow = one.token(bob, "create token narrow with read on d").await;
    for (method, path) in [("GET", PATH.to_owned()), ("DELETE", format!("{PATH}/q1"))] {
        let reply = two.ask(Who::Bearer(&narrow), method, &path, "").await;
        assert_eq!((reply.status, &reply.json()["error"]["kind"]), (403, &json!("forbidden")), "{method}");
    }

    assert_eq!(two.ask(bob, "DELETE", &format!("{PATH}/q0"), "").await.status, 204);
    assert_eq!(listed(&one, bob).await, expected[1..]);
    one.rows(ADA, "drop user bob").await;
    one.rows(ADA, "create user bob password 'bob''s own'").await;
    assert_eq!(listed(&one, bob).await, []);
    assert_eq!(listed(&two, ADA).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_and_wrong_requests_are_answered_with_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root").to_str().unwrap().to_owned();
    // Without authentication all clients have one list.
    let node = Node::new(Server::start(&root, ["--auth", "off"]));
    let first = save(&node, Who::Nobody, "x", "select 1").await.json();
    assert_eq!(first["owner"], Value::Null);
    let send = async |method: &str, name: &str, header: &str, value: &str| {
        let url = format!("{}{PATH}/{name}", node.server.url());
        let request = node.client.request(method.parse().unwrap(), url).header(header, value);
        let reply = request.body(r#"{"statement": "select 2"}"#).send().await.unwrap();
        (reply.status().as_u16(), reply.text().await.unwrap())
    };
    let etag = first["etag"].as_str().unwrap().to_owned();
    let (status, text) = send("PUT", "x", "if-none-match", "*").await;
    assert!(status == 409 && text.contains("a saved query of this name exists (name: x)"), "{status} {text}");
    assert_eq!(send("PUT", "x", "if-match", &etag).await.0, 200);
    let (status, text) = send("DELETE", "x", "if-match", &etag).await;
    assert!(status == 409 && text.contains("changed meanwhile"), "{status} {text}");
    for (header, value) in [("if-match", "7"), ("if-match", "\"x\""), ("if-none-match", "\"7\"")] {
        let (status, text) = send("PUT", "x", header, value).await;
        assert!(status == 400 && text.contains("expected: If-"), "{header}: {value}: {status} {text}");
    }
    assert_eq!(listed(&node, Who::Nobody).await, [("x".to_owned(), "select 2".to_owned())]);

    let long = json!({ "statement": "x".repeat(40 << 10) }).to_string();
    for (path, body, expected) in [
        ("x", "", "invalid body"),
        ("x", r#"{"statement": "s", "sql": "s"}"#, "unknown field `sql`"),
        ("x", r#"{"statement": "  "}"#, "expected: 1 to 32768 bytes, found: 2 bytes"),
        ("x", &long, "found: 40960 bytes"),
        ("%20x", r#"{"statement": "s"}"#, "invalid name of a saved query"),
        ("%FF", r#"{"statement": "s"}"#, "invalid name in the path"),
        ("x?if=1", r#"{"statement": "s"}"#, "unknown query parameter"),
    ] {
        let reply = node.ask(Who::Nobody, "PUT", &format!("{PATH}/{path}"), body).await;
        assert!(reply.status == 400 && reply.body.contains(expected), "{path} {expected}: {reply:?}");
    }
    let reply = save(&node, Who::Nobody, "x", &"x".repeat(300 << 10)).await;
    assert_eq!(reply.status, 413, "{reply:?}");
}
