//! What ends a session, on every node.

use tidelake_tests::Flight;

use super::*;

async fn login(node: &Node, user: &str, password: &str) -> String {
    let reply = node.ask(Who::Basic(user, password), "GET", "/rest/login/x/y", "").await;
    reply.json()["desc"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn rotate_ends_the_sessions_of_a_user_or_all_on_every_node_and_leaves_tokens_and_passwords() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root").to_str().unwrap().to_owned();
    let (here, there) = (Node::start(&root, directory.path(), &[]), Node::start(&root, directory.path(), &[]));
    assert_eq!(here.write(ADA).await, 204);
    for sql in ["create user bob password 'bob''s own'", "grant all on d to bob"] {
        here.rows(ADA, sql).await;
    }
    let bob = Who::Basic("bob", "bob's own");
    let token = here.token(bob, "create token t").await;
    let (first, second) = (login(&here, "bob", "bob's own").await, login(&there, "bob", "bob's own").await);
    let admin = login(&there, "admin", PASSWORD).await;
    for node in [&here, &there] {
        for session in [&first, &second, &admin] {
            assert_eq!(node.count(Who::Bearer(session)).await, 200);
        }
    }
    // Everybody may end their own, an administrator those of all.
    for sql in ["rotate sessions", "rotate sessions for admin"] {
        assert_eq!(here.sql(bob, sql).await.status, 403, "{sql}");
    }
    assert_eq!(here.sql(ADA, "rotate sessions for nobody").await.status, 404);
    here.rows(Who::Bearer(&first), "rotate sessions for bob").await;
    for node in [&here, &there] {
        let counts = [&first, &second, &admin].map(|session| node.count(Who::Bearer(session)));
        assert_eq!(futures::future::join_all(counts).await, [401, 401, 200]);
    }
    let mut flight = Flight::connect(&there.server.url()).await;
    flight.client().handshake("bob", "bob's own").await.unwrap();
    assert!(flight.query("select count(*) from d.m").await.is_ok());
    here.rows(ADA, "ROTATE SESSIONS").await;
    assert!(flight.query("select count(*) from d.m").await.unwrap_err().contains("wrong user, password or token"));
    for node in [&here, &there] {
        assert_eq!(node.count(Who::Bearer(&admin)).await, 401);
        assert_eq!((node.count(bob).await, node.count(Who::Bearer(&token)).await), (200, 200));
        let again = login(node, "bob", "bob's own").await;
        assert_eq!((here.count(Who::Bearer(&again)).await, there.count(Who::Bearer(&again)).await), (200, 200));
    }
    here.server.stop();
    there.server.stop();
}
