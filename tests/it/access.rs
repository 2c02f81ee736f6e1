//! Users, rights and tokens: who gets in on every interface, what they may do, and that no secret is told.

use std::{
    fs,
    io::Write as _,
    net::SocketAddr,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use tidelake_tests::{Flight, S3Server, Server, process::binary, tool};

const PASSWORD: &str = "s3cret of ada";

/// How a request says who sends it.
#[derive(Debug, Clone, Copy)]
enum Who<'a> {
    Nobody,
    Basic(&'a str, &'a str),
    Bearer(&'a str),
}

impl Who<'_> {
    fn on(self, request: RequestBuilder) -> RequestBuilder {
        match self {
            Who::Nobody => request,
            Who::Basic(user, password) => request.basic_auth(user, Some(password)),
            Who::Bearer(token) => request.bearer_auth(token),
        }
    }
}

const ADA: Who<'_> = Who::Basic("admin", PASSWORD);

/// A reply.
#[derive(Debug)]
struct Reply {
    status: u16,
    body: String,
}

impl Reply {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

struct Node {
    server: Server,
    client: Client,
}

impl Node {
    fn new(server: Server) -> Self {
        let client = Client::builder().timeout(Duration::from_secs(60)).build().unwrap();
        Self { server, client }
    }

    /// A server that asks who comes, over a root with the administrator.
    fn start(store: &str, directory: &Path, more: &[&str]) -> Self {
        let file = directory.join("password");
        fs::write(&file, format!("{PASSWORD}\n")).unwrap();
        let file = file.to_str().unwrap().to_owned();
        let arguments = ["--auth", "on", "--admin-password-file", &file];
        Self::new(Server::start(store, arguments.into_iter().chain(more.iter().copied())))
    }

    async fn ask(&self, who: Who<'_>, method: &str, path: &str, body: &str) -> Reply {
        let method: Method = method.parse().unwrap();
        let request = self.client.request(method, format!("{}{path}", self.server.url())).body(body.to_owned());
        let reply = who.on(request).send().await.unwrap();
        Reply { status: reply.status().as_u16(), body: reply.text().await.unwrap() }
    }

    async fn sql(&self, who: Who<'_>, sql: &str) -> Reply {
        self.ask(who, "POST", "/api/v1/sql?format=json", sql).await
    }

    /// Runs a statement that has to succeed; its rows.
    async fn rows(&self, who: Who<'_>, sql: &str) -> Vec<Value> {
        let reply = self.sql(who, sql).await;
        assert_eq!(reply.status, 200, "{who:?} {sql}: {reply:?}");
        reply.json()["data"].as_array().unwrap().clone()
    }

    /// Makes a token; its text.
    async fn token(&self, who: Who<'_>, sql: &str) -> String {
        self.rows(who, sql).await[0][0].as_str().unwrap().to_owned()
    }

    async fn count(&self, who: Who<'_>) -> u16 {
        self.sql(who, "select count(*) from d.m").await.status
    }

    async fn write(&self, who: Who<'_>) -> u16 {
        self.ask(who, "POST", "/write?db=d&precision=ms", "m,host=h v=1 1700000000000").await.status
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Runs the binary with something at its standard input.
fn run_with(arguments: &[&str], environment: &[(&str, &str)], input: &str) -> Output {
    let mut child = Command::new(binary())
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The code of a call of gRPC, made by hand: any message will do, as nobody looks at it before who sent it.
async fn call(address: SocketAddr, who: Who<'_>, method: &str) -> (u16, String) {
    let url = format!("http://{address}/arrow.flight.protocol.FlightService/{method}");
    let client = Client::builder().http2_prior_knowledge().timeout(Duration::from_secs(30)).build().unwrap();
    let request = client.post(url).header("content-type", "application/grpc").header("te", "trailers");
    let reply = who.on(request).body(vec![0_u8; 5]).send().await.unwrap();
    let header = |name: &str| reply.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    (header("grpc-status").parse().unwrap_or(999), header("grpc-message"))
}

/// Every route that a request may take, with one that is right.
const ROUTES: [(&str, &str, &str); 17] = [
    ("POST", "/write?db=d&precision=ms", "m,host=h v=1 1700000000000"),
    ("POST", "/influxdb/v1/write?db=d&precision=ms", "m,host=h v=1 1700000000000"),
    ("POST", "/api/v2/write?bucket=d&precision=ms", "m,host=h v=1 1700000000000"),
    ("POST", "/api/put", r#"{"metric":"x","timestamp":1700000000,"value":1,"tags":{"host":"h"}}"#),
    ("POST", "/opentsdb/v1/put/json/d", r#"{"metric":"x","timestamp":1700000000,"value":1,"tags":{"host":"h"}}"#),
    ("GET", "/query?q=show+databases", ""),
    ("POST", "/query?q=show+databases", ""),
    ("GET", "/api/v1/sql?q=select+1", ""),
    ("POST", "/api/v1/sql", "select 1"),
    ("POST", "/rest/sql", "select 1"),
    ("POST", "/rest/sql/d", "select 1"),
    ("GET", "/rest/login/admin/wrong", ""),
    ("GET", "/metrics", ""),
    ("POST", "/api/v1/compact?until=fold", ""),
    ("GET", "/api/v1/files?table=d.m", ""),
    ("GET", "/api/v1/log", ""),
    ("PUT", "/api/v1/log", "info"),
];

const METHODS: [&str; 10] = [
    "Handshake",
    "ListFlights",
    "GetFlightInfo",
    "PollFlightInfo",
    "GetSchema",
    "DoGet",
    "DoPut",
    "DoExchange",
    "DoAction",
    "ListActions",
];

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gets_in_unknown_on_any_interface() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root").to_str().unwrap().to_owned();
    let node = Node::start(&root, directory.path(), &["--flight-listen", "127.0.0.1:0"]);
    assert_eq!(node.write(ADA).await, 204);
    node.rows(ADA, "create user bob password 'bob''s own'").await;
    node.rows(ADA, "grant all on d to bob").await;
    let bob = Who::Basic("bob", "bob's own");
    let session = node.ask(Who::Nobody, "GET", "/rest/login/bob/bob%27s%20own", "").await.json()["desc"].clone();
    let session = session.as_str().unwrap().to_owned();
    let brief = node.token(bob, "create token brief expires in 3s").await;
    let lasting = node.token(bob, "create token lasting").await;
    let dropped = node.token(bob, "create token dropped").await;
    for good in [bob, Who::Bearer(&session), Who::Bearer(&lasting), Who::Basic("anybody", &lasting)] {
        assert_eq!((node.count(good).await, node.write(good).await), (200, 204), "{good:?}");
    }
    node.rows(bob, "drop token dropped").await;
    let other = node.token(ADA, "create token other for admin").await;
    let forged = format!("{}{}", &other[..other.len() - 2], "AA");
    let ports = [node.server.address, node.server.flight];
    assert_ne!(ports[0], ports[1]);
    for address in ports {
        assert_eq!(call(address, bob, "GetFlightInfo").await.0, 12, "he gets in, with no command: {address}");
    }
    tokio::time::sleep(Duration::from_secs(2)).await; // the brief one was made more than 3 s ago
    let strangers = [
        Who::Nobody,
        Who::Basic("admin", "wrong"),
        Who::Basic("eve", PASSWORD),
        Who::Bearer("anonymous"),
        Who::Bearer(&forged),
        Who::Bearer(&brief),
        Who::Bearer(&dropped),
    ];
    for who in strangers {
        for (method, path, body) in ROUTES {
            let reply = node.ask(who, method, path, body).await;
            assert_eq!(reply.status, 401, "{who:?} {method} {path}: {reply:?}");
            let found = reply.json();
            let shape = match path {
                p if p.starts_with("/rest/") => found["code"] == 0x357 && found["desc"].is_string(),
                p if p.starts_with("/api/v2/") => found["code"] == "unauthorized",
                p if p.starts_with("/api/put") || p.starts_with("/opentsdb") => found["error"]["code"] == 401,
                p if p.starts_with("/write") || p.starts_with("/influxdb") || p.starts_with("/query") => {
                    found["error"].is_string()
                }
                _ => found["error"]["kind"] == "unauthenticated",
            };
            assert!(shape, "{method} {path}: {found}");
        }
        for (method, address) in METHODS.iter().flat_map(|method| ports.map(|port| (method, port))) {
            let (code, message) = call(address, who, method).await;
            assert_eq!(code, 16, "{who:?} {method} at {address}: {message}");
        }
    }
    for open in ["/health", "/ready", "/ping"] {
        assert!(node.ask(Who::Nobody, "GET", open, "").await.status < 300, "{open}");
    }
    // A session is not renewed by itself, and one of a user who is gone is nothing to another of that name.
    let again = node.ask(Who::Basic("x", &session), "GET", "/rest/login/x/y", "").await.json()["desc"].clone();
    assert_eq!(again, session.as_str());
    node.rows(ADA, "create user carol password 'the first one'").await;
    let carol =
        node.ask(Who::Basic("carol", "the first one"), "GET", "/rest/login/x/y", "").await.json()["desc"].clone();
    node.rows(ADA, "drop user carol").await;
    node.rows(ADA, "create user carol password 'the second one' admin").await;
    assert_eq!(node.count(Who::Bearer(carol.as_str().unwrap())).await, 401);
    // However many guess at once, only so many are looked at.
    let guesses = (0..40).map(|n| {
        let password = format!("guess number {n}");
        let node = &node;
        async move { node.ask(Who::Basic("carol", &password), "GET", "/metrics", "").await.body }
    });
    let told = futures::future::join_all(guesses).await;
    let looked_at = told.iter().filter(|body| body.contains("wrong user")).count();
    assert!(looked_at <= 11, "{looked_at} of 40");
    // Someone who came in a session is out once the password changes, and when disabled.
    node.rows(bob, "alter user bob password 'another one'").await;
    assert_eq!((node.count(Who::Bearer(&session)).await, node.count(bob).await), (401, 401));
    let bob = Who::Basic("bob", "another one");
    assert_eq!((node.count(bob).await, node.count(Who::Bearer(&lasting)).await), (200, 200));
    node.rows(ADA, "alter user bob enable 0").await;
    assert_eq!((node.count(bob).await, node.count(Who::Bearer(&lasting)).await), (401, 401));
    node.server.stop();
}

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

    // Each protocol says so in its own words.
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
        (writer, "POST", "/write?db=unknown", "m v=1 1", 403, "not authorized to create"),
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
    ];
    for (who, method, path, body, status, says) in forbidden {
        let reply = node.ask(who, method, path, body).await;
        assert!(reply.status == status && reply.body.contains(says), "{who:?} {path} {body}: {reply:?}");
    }
    // What somebody may not read is not listed, by whatever way.
    for (who, expected) in [(reader, vec!["d"]), (writer, vec![]), (owner, vec!["d", "other"])] {
        let names = |rows: Vec<Value>| rows.iter().map(|row| row[0].as_str().unwrap().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(node.rows(who, "show databases").await), expected, "{who:?}");
        let sql =
            "select distinct table_schema from information_schema.tables where table_type = 'BASE TABLE' order by 1";
        assert_eq!(names(node.rows(who, sql).await), expected, "{who:?}");
    }
    let listed = node.ask(writer, "GET", "/query?q=show+databases", "").await.body;
    assert!(listed.contains("\"d\"") && !listed.contains("other"), "it may write there: {listed}");
    // A plan is its user's: the same text was planned for the one who may.
    let sql = "select host, sum(v) from d.m group by host";
    for (who, status) in [(reader, 200), (writer, 403), (owner, 200), (reader, 200), (writer, 403)] {
        assert_eq!(node.sql(who, sql).await.status, status, "{who:?}");
    }
    // What was done under a key of one user is nothing to another, who may not do it.
    let keyed = |who: Who<'static>| {
        let request = node.client.post(format!("{}/write?db=d&precision=ms", node.server.url()));
        who.on(request).header("idempotency-key", "one").body("m,host=k v=1 1700000000000").send()
    };
    let [first, copy, other] = [keyed(ADA).await, keyed(ADA).await, keyed(Who::Basic("reader", "reads only")).await];
    let told =
        |reply: &reqwest::Response| (reply.status().as_u16(), reply.headers().contains_key("idempotency-replayed"));
    let told = [first, copy, other].map(|reply| told(&reply.unwrap()));
    assert_eq!(told, [(204, false), (204, true), (403, false)]);
    // Nor by the table of another database.
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
        assert!(reply.status == 400 && reply.body.contains("schema of every root"), "{reply:?}");
    }
    // A token that is no wider than its user is one that was narrowed all the same, and so is one that ends.
    for with in ["with read on *.*, write on *.*", "expires in 1h"] {
        let token = node.token(owner, &format!("create token `t{}` {with}", with.len())).await;
        assert_eq!(node.sql(Who::Bearer(&token), "create token wider").await.status, 403, "{with}");
        assert_eq!(node.sql(Who::Bearer(&token), "alter user owner password 'taken over'").await.status, 403, "{with}");
    }
    // Tokens narrow their users, and make no wider ones.
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
    assert!(error.contains("this takes a token"), "{error}");
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
        // A database of the same name is another one.
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
    // Memory: bob's, and nobody else's.
    let reply = node.sql(bob, LARGE).await;
    assert!(reply.status != 200 && reply.body.contains("bob") && reply.body.contains("4194304"), "{reply:?}");
    assert_eq!(node.rows(ADA, LARGE).await, [serde_json::json!([2_000_000])]);
    // Time, and one at once: the other one waits, though there are places.
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
        assert!(reply.status == 503 && reply.body.contains("longer than a query may (limit: 2s)"), "{reply:?}");
    }
    let both = ["running".to_owned(), "waiting".to_owned()];
    assert!(seen.iter().any(|states| *states == both), "{seen:?}");
    assert!(seen.iter().all(|states| states.iter().filter(|state| *state == "running").count() <= 1), "{seen:?}");
    // Taken away one by one.
    node.rows(ADA, "alter user bob limit memory 0").await;
    assert_eq!(node.rows(ADA, limits).await, [serde_json::json!([1, null, 2_000])]);
    assert_eq!(node.rows(bob, LARGE).await, [serde_json::json!([2_000_000])]);
    node.server.stop();
}

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
    secrets.push("bob''s own".to_owned());
    secrets.push("bob's own".to_owned());
    node.rows(ADA, "create user bob password 'bob''s own'").await;
    let bob = Who::Basic("bob", "bob's own");
    secrets.push(node.token(bob, "create token t").await);
    let login = node.ask(Who::Nobody, "GET", "/rest/login/bob/bob%27s%20own", "").await;
    secrets.push(login.json()["desc"].as_str().unwrap().to_owned());
    secrets.push("bob%27s%20own".to_owned());
    // Wrong in every way: texts of passwords are in none of the answers.
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
    for sql in ["show users", "show grants", "show tokens", "show queries"] {
        told += &node.sql(ADA, sql).await.body;
    }
    told += &node.ask(ADA, "GET", "/metrics", "").await.body;
    for arguments in [["inspect", "--store", &root], ["check", "--store", &root]] {
        told += &text(&run_with(&arguments, &[], ""));
    }
    node.server.stop();
    let logged = fs::read_to_string(&log).unwrap();
    assert!(
        logged.contains("tidelake::audit") && logged.contains("CreateUser { name: \\\"bob\\\""),
        "nothing is audited"
    );
    assert!(logged.contains("a request was refused"), "failures are audited");
    // What programs that look into the bucket find is hashed, too.
    for file in fs::read_dir(Path::new(&root).join("meta")).unwrap() {
        told += &String::from_utf8_lossy(&fs::read(file.unwrap().path()).unwrap());
    }
    for secret in &secrets {
        // The part of a token that names it is no secret.
        let secret = secret.strip_prefix("tl_").map_or(secret.as_str(), |rest| rest.split_once('_').unwrap().1);
        for (place, text) in [("the log", &logged), ("an answer", &told)] {
            if let Some(at) = text.find(secret) {
                panic!(
                    "{place} tells {secret}: {}",
                    &text[at.saturating_sub(200)..(at + secret.len()).min(text.len())]
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_gets_its_first_user_from_who_may_write_to_it_and_a_shell_says_who_asks() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root").to_str().unwrap().to_owned();
    let refused = run_with(&["serve", "--store", &root, "--listen", "0.0.0.0:0"], &[], "");
    let message = text(&refused);
    assert!(!refused.status.success() && message.contains("TIDELAKE_ADMIN_PASSWORD"), "{message}");
    let refused =
        run_with(&["serve", "--store", &root, "--listen", "0.0.0.0:0"], &[("TIDELAKE_ADMIN_PASSWORD", "short")], "");
    assert!(!refused.status.success() && text(&refused).contains("at least 8 characters"), "{}", text(&refused));

    let access = |arguments: &[&str], input: &str| {
        let all: Vec<&str> = ["access", "--store", &root].into_iter().chain(arguments.iter().copied()).collect();
        run_with(&all, &[], input)
    };
    assert!(
        text(&access(&["create user eve password 'too early'"], "")).contains("the first user is an administrator")
    );
    assert!(text(&access(&["select 1"], "")).contains("expected a statement about users"));
    let made = access(&["-"], "create user ada password 'of the store' admin\n\ncreate token shell for ada\n");
    assert!(made.status.success(), "{}", text(&made));
    let token = String::from_utf8_lossy(&made.stdout).lines().last().unwrap().to_owned();
    assert!(token.starts_with("tl_"), "{}", text(&made));
    assert!(text(&access(&["drop user ada"], "")).contains("no administrator"));

    // With users there a server starts, on this machine alone only if it is told to ask.
    let server = Server::start(&root, ["--auth", "on"]);
    let url = server.url();
    let shell = |who: &[&str], environment: &[(&str, &str)]| {
        let all: Vec<&str> =
            ["sql", "--url", &url, "--command", "select 6 * 7 as n"].into_iter().chain(who.iter().copied()).collect();
        run_with(&all, environment, "")
    };
    for (who, environment) in [
        (vec!["--token", &token], vec![]),
        (vec![], vec![("TIDELAKE_TOKEN", token.as_str())]),
        (vec!["--user", "ada"], vec![("TIDELAKE_PASSWORD", "of the store")]),
    ] {
        let found = shell(&who, &environment);
        assert!(found.status.success() && text(&found).contains("42"), "{who:?}: {}", text(&found));
    }
    for (who, environment) in [
        (vec![], vec![]),
        (vec!["--token", "tl_0000000000000000_x"], vec![]),
        (vec!["--user", "ada"], vec![("TIDELAKE_PASSWORD", "wrong")]),
    ] {
        let found = shell(&who, &environment);
        assert!(!found.status.success() && text(&found).contains("token"), "{who:?}: {}", text(&found));
    }
    server.stop();
}
