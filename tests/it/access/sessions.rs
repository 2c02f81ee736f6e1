//! Ends of sessions on all nodes, and effects of a password change.

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
    // A user may end the user's own sessions, an administrator all sessions.
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

#[tokio::test(flavor = "multi_thread")]
async fn a_token_does_not_change_the_password_of_its_user_and_a_new_password_ends_the_tokens() {
    let directory = tempfile::tempdir().unwrap();
    let node = Node::start(directory.path().join("root").to_str().unwrap(), directory.path(), &[]);
    assert_eq!(node.write(ADA).await, 204);
    for sql in ["create user bob password 'bob''s own'", "grant all on d to bob", "create user robot"] {
        node.rows(ADA, sql).await;
    }
    let bob = Who::Basic("bob", "bob's own");
    let (whole, admins) = (node.token(bob, "create token t").await, node.token(ADA, "create token t").await);
    let robots = node.token(ADA, "create token t for robot").await;
    // With a token, even of an administrator, only with the old password.
    for (token, user) in [(&whole, "bob"), (&admins, "admin"), (&robots, "robot")] {
        for old in ["", " old 'wrong one'", " old 'wrong one' keep tokens"] {
            let reply = node.sql(Who::Bearer(token), &format!("alter user {user} password 'taken over'{old}")).await;
            assert!(reply.status == 403 && reply.body.contains("old"), "{user}{old}: {reply:?}");
        }
        assert_eq!(node.sql(Who::Bearer(token), "select 1").await.status, 200, "{user}");
    }
    assert_eq!((node.count(bob).await, node.count(ADA).await), (200, 200), "the passwords are the old ones");
    // Guesses of the old password are throttled like logins.
    let guess = async |n: u32| {
        let sql = format!("alter user bob password 'taken over' old 'guess {n}'");
        node.sql(Who::Bearer(&whole), &sql).await.body
    };
    let told = futures::future::join_all((0..24).map(guess)).await;
    assert!(told.iter().any(|body| body.contains("too many wrong passwords")), "{told:?}");
    // With the password, or a session opened with it, the old password is not needed; KEEP TOKENS keeps tokens.
    node.rows(bob, "alter user bob password 'the second one' keep tokens").await;
    assert_eq!((node.count(bob).await, node.count(Who::Bearer(&whole)).await), (401, 200));
    let session = login(&node, "bob", "the second one").await;
    node.rows(Who::Bearer(&session), "alter user bob password 'the third one'").await;
    assert_eq!((node.count(Who::Bearer(&session)).await, node.count(Who::Bearer(&whole)).await), (401, 401));
    let bob = Who::Basic("bob", "the third one");
    assert!(node.rows(bob, "show tokens").await.is_empty(), "they are gone");
    // An administrator may change others' passwords; setting a first password ends no session.
    node.rows(Who::Bearer(&admins), "alter user robot password 'its first one'").await;
    assert_eq!(node.sql(Who::Bearer(&robots), "select 1").await.status, 200);
    let reply = node.sql(Who::Bearer(&robots), "alter user robot password 'its second one' old 'its first one'").await;
    assert_eq!(reply.status, 200, "{reply:?}");
    assert_eq!(node.sql(Who::Bearer(&robots), "select 1").await.status, 401);
    assert_eq!(node.sql(Who::Basic("robot", "its second one"), "select 1").await.status, 200);
    node.server.stop();
}
