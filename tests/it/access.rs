//! Users, rights and tokens: authentication on every interface.

mod existence;
mod rights;
mod saved;
mod secrets;
mod sessions;
mod tickets;

use std::{
    fs,
    io::Write as _,
    net::SocketAddr,
    path::Path,
    process::{Command, Output, Stdio},
    time::Duration,
};

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tidelake_tests::{Http, Server, process::binary};

const PASSWORD: &str = "s3cret of ada";

/// Credentials of a request.
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

    /// Starts a server with auth on, over a root with an administrator.
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

    /// Runs a statement that must succeed; returns its rows.
    async fn rows(&self, who: Who<'_>, sql: &str) -> Vec<Value> {
        let reply = self.sql(who, sql).await;
        assert_eq!(reply.status, 200, "{who:?} {sql}: {reply:?}");
        reply.json()["data"].as_array().unwrap().clone()
    }

    /// Creates a token; returns its text.
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

/// Runs the binary with standard input.
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

/// Status code of a hand-made gRPC call; the message is arbitrary, because authentication comes first.
async fn call(address: SocketAddr, who: Who<'_>, method: &str) -> (u16, String) {
    let url = format!("http://{address}/arrow.flight.protocol.FlightService/{method}");
    let client = Client::builder().http2_prior_knowledge().timeout(Duration::from_secs(30)).build().unwrap();
    let request = client.post(url).header("content-type", "application/grpc").header("te", "trailers");
    let reply = who.on(request).body(vec![0_u8; 5]).send().await.unwrap();
    let header = |name: &str| reply.headers().get(name).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    (header("grpc-status").parse().unwrap_or(999), header("grpc-message"))
}

/// Every route with a valid request.
const ROUTES: [(&str, &str, &str); 21] = [
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
    ("GET", "/api/v1/queries/none/events", ""),
    ("GET", "/api/v1/saved-queries", ""),
    ("PUT", "/api/v1/saved-queries/one", r#"{"statement": "select 1"}"#),
    ("DELETE", "/api/v1/saved-queries/one", ""),
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
    // One character in the middle of the secret is another one.
    let at = other.len() - 20;
    let replacement = if other.as_bytes()[at] == b'A' { 'B' } else { 'A' };
    let forged = format!("{}{replacement}{}", &other[..at], &other[at + 1..]);
    let ports = [node.server.address, node.server.flight];
    assert_ne!(ports[0], ports[1]);
    for address in ports {
        assert_eq!(call(address, bob, "GetFlightInfo").await.0, 12, "he gets in, with no command: {address}");
    }
    tokio::time::sleep(Duration::from_secs(2)).await; // the short-lived token was created more than 3 s ago
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
    // A session cannot renew itself, and a dropped user's session is invalid for a new user of the same name.
    let again = node.ask(Who::Basic("x", &session), "GET", "/rest/login/x/y", "").await.json()["desc"].clone();
    assert_eq!(again, session.as_str());
    node.rows(ADA, "create user carol password 'the first one'").await;
    let carol =
        node.ask(Who::Basic("carol", "the first one"), "GET", "/rest/login/x/y", "").await.json()["desc"].clone();
    node.rows(ADA, "drop user carol").await;
    node.rows(ADA, "create user carol password 'the second one' admin").await;
    assert_eq!(node.count(Who::Bearer(carol.as_str().unwrap())).await, 401);
    // Of concurrent guesses, only ten and then one per second are checked.
    let guesses = (0..40).map(|n| {
        let password = format!("guess number {n}");
        let node = &node;
        async move { node.ask(Who::Basic("carol", &password), "GET", "/metrics", "").await.body }
    });
    let told = futures::future::join_all(guesses).await;
    let looked_at = told.iter().filter(|body| body.contains("wrong user")).count();
    let refused = told.iter().filter(|body| body.contains("too many wrong passwords")).count();
    assert!(refused >= 20 && looked_at + refused == 40, "{looked_at} of 40 looked at, {refused} refused");
    assert_eq!(node.count(Who::Basic("carol", "the second one")).await, 200, "nobody is locked out");
    // A session ends when the password changes and when the user is disabled.
    node.rows(bob, "alter user bob password 'another one' keep tokens").await;
    assert_eq!((node.count(Who::Bearer(&session)).await, node.count(bob).await), (401, 401));
    let bob = Who::Basic("bob", "another one");
    assert_eq!((node.count(bob).await, node.count(Who::Bearer(&lasting)).await), (200, 200));
    node.rows(ADA, "alter user bob enable 0").await;
    assert_eq!((node.count(bob).await, node.count(Who::Bearer(&lasting)).await), (401, 401));
    node.server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_reads_the_log_of_a_root_without_users_creates_the_first_one_once() {
    let directory = tempfile::tempdir().unwrap();
    let (root, log) = (directory.path().join("root"), directory.path().join("log"));
    let root = root.to_str().unwrap();
    let server = Server::start_logged(root, ["--auth", "on"], std::fs::File::create(&log).unwrap());
    let http = Http::new(&server.url());
    let told = std::fs::read_to_string(&log).unwrap();
    let code = told.split("code=").nth(1).unwrap().split_whitespace().next().unwrap().trim_matches('"');
    assert_eq!(code.len(), 32, "{told}");
    let query = "/api/v1/sql?q=select+1";
    assert_eq!(http.get(query).await.unwrap().status, 401);
    assert_eq!(http.get("/api/v1/first-user").await.unwrap().json()["awaited"], true);

    let body = |code: &str, password: &str| json!({"code": code, "user": "ada", "password": password}).to_string();
    let wrong = code.chars().rev().collect::<String>();
    for (body, status, words) in [
        (body(&wrong, "a long one"), 401, "wrong code"),
        (body("", "a long one"), 401, "wrong code"),
        (body(code, "short"), 400, "at least 8 characters"),
        ("{}".to_owned(), 400, "missing field"),
        ("code".to_owned(), 400, "expected"),
        ("x".repeat(9_000), 413, "length limit"),
    ] {
        let reply = http.post("/api/v1/first-user", &[], body.clone()).await.unwrap();
        assert!(reply.status == status && reply.body.contains(words), "{body}: {reply:?}");
    }
    assert_eq!(http.get("/api/v1/first-user").await.unwrap().json()["awaited"], true);

    // Of two at once, one creates the user.
    let both = [body(code, "a long one"), body(code, "another one")];
    let both = both.map(|body| http.post("/api/v1/first-user", &[], body));
    let mut statuses: Vec<u16> =
        futures::future::join_all(both).await.into_iter().map(|reply| reply.unwrap().status).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
    assert_eq!(http.get("/api/v1/first-user").await.unwrap().json()["awaited"], false);
    let client = reqwest::Client::new();
    let mut admitted = 0;
    for password in ["a long one", "another one"] {
        let reply = client.get(format!("{}/api/v1/node", server.url())).basic_auth("ada", Some(password)).send().await;
        admitted += usize::from(reply.unwrap().status() == 200);
    }
    assert_eq!(admitted, 1);
    let reply = http.post("/api/v1/first-user", &[], body(code, "a long one")).await.unwrap();
    assert_eq!(reply.status, 409);
    server.stop();

    // A later start has users and no code.
    let server = Server::start_logged(root, ["--auth", "on"], std::fs::File::create(&log).unwrap());
    assert!(!std::fs::read_to_string(&log).unwrap().contains("code="));
    assert_eq!(Http::new(&server.url()).get("/api/v1/first-user").await.unwrap().json()["awaited"], false);
    server.stop();

    // A log without warnings does not hide the code.
    let quiet = directory.path().join("quiet");
    let arguments = ["--auth", "on", "--log", "error"];
    let server = Server::start_logged(quiet.to_str().unwrap(), arguments, std::fs::File::create(&log).unwrap());
    let told = std::fs::read_to_string(&log).unwrap();
    let code = told.split("with the code ").nth(1).unwrap().trim();
    let reply = Http::new(&server.url()).post("/api/v1/first-user", &[], body(code, "a long one")).await.unwrap();
    assert_eq!((reply.status, told.lines().count()), (200, 1), "{told}");
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_root_gets_its_first_user_from_who_may_write_to_it_and_a_shell_says_who_asks() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("root").to_str().unwrap().to_owned();
    let refused =
        run_with(&["serve", "--store", &root, "--listen", "0.0.0.0:0"], &[("TIDELAKE_ADMIN_PASSWORD", "short")], "");
    assert!(!refused.status.success() && text(&refused).contains("at least 8 characters"), "{}", text(&refused));

    let access = |arguments: &[&str], input: &str| {
        let all: Vec<&str> = ["access", "--store", &root].into_iter().chain(arguments.iter().copied()).collect();
        run_with(&all, &[], input)
    };
    assert!(
        text(&access(&["create user eve password 'too early'"], ""))
            .contains("the first user must be an administrator")
    );
    assert!(text(&access(&["select 1"], "")).contains("expected a statement about users"));
    let made = access(&["-"], "create user ada password 'of the store' admin\n\ncreate token shell for ada\n");
    assert!(made.status.success(), "{}", text(&made));
    let token = String::from_utf8_lossy(&made.stdout).lines().last().unwrap().to_owned();
    assert!(token.starts_with("tl_"), "{}", text(&made));
    assert!(text(&access(&["drop user ada"], "")).contains("no administrator"));

    // With users the server starts; on a loopback address it authenticates only with --auth on.
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
