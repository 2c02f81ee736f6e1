//! Tests of a server in this process over its ports.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
};

use super::*;
use crate::settings::Layer;

/// The OpenAPI document.
fn document() -> Value {
    tidelake_protocol::http::openapi()
}

/// Method and path of every documented route, with names in place of parameters.
fn routes() -> Vec<(Method, String)> {
    let document = document();
    let paths = document["paths"].as_object().unwrap().clone();
    let of = |(path, item): (String, Value)| {
        let path = path.replace(['{', '}'], "");
        let methods: Vec<String> = item.as_object().unwrap().keys().map(|name| name.to_uppercase()).collect();
        methods
            .into_iter()
            .filter_map(move |name| Some((name.parse::<Method>().ok()?, path.clone())))
            .collect::<Vec<_>>()
    };
    paths
        .into_iter()
        .flat_map(of)
        .filter(|(method, _)| ["GET", "POST", "PUT", "DELETE"].contains(&method.as_str()))
        .collect()
}

struct Node {
    server: Option<Server>,
    client: Client,
    url: String,
    flight: String,
    _directory: tempfile::TempDir,
}

impl Node {
    async fn start(change: impl FnOnce(&mut Layer)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut layer = Layer::default();
        layer.set(&declared::STORE, directory.path().join("root").to_str().unwrap());
        layer.set(&declared::LISTEN, "127.0.0.1:0");
        layer.set(&declared::FLIGHT_LISTEN, "127.0.0.1:0");
        change(&mut layer);
        let server = Server::start(Settings::resolve(None, layer).unwrap(), None).await.unwrap();
        let (url, flight) = (format!("http://{}", server.address), format!("http://{}", server.flight.unwrap()));
        Self { server: Some(server), client: Client::new(), url, flight, _directory: directory }
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    async fn sql(&self, sql: &str) -> (u16, String) {
        let reply = self.request(Method::POST, "/api/v1/sql?format=csv").body(sql.to_owned()).send().await.unwrap();
        (reply.status().as_u16(), reply.text().await.unwrap())
    }

    async fn databases(&self) -> BTreeSet<String> {
        let (status, text) = self.sql("show databases").await;
        assert_eq!(status, 200, "{text}");
        text.lines().map(str::to_owned).collect()
    }

    /// Starts a server with authentication; its administrator's password is [`PASSWORD`].
    async fn start_asking(change: impl FnOnce(&mut Layer)) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("password");
        std::fs::write(&file, PASSWORD).unwrap();
        Self::start(|layer| {
            layer.set(&declared::AUTH, "on");
            layer.set(&declared::ADMIN_PASSWORD_FILE, file.to_str().unwrap());
            change(layer);
        })
        .await
    }

    /// A connection from one of this machine's addresses.
    async fn connect(&self, from: Ipv4Addr) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((from, 0).into()).unwrap();
        socket.connect(self.server.as_ref().unwrap().address).await.unwrap()
    }

    async fn stop(mut self) {
        self.server.take().unwrap().stop().await.unwrap();
    }
}

const PASSWORD: &str = "a password of the admin";

const DROPS: [(&str, &str, &str); 5] = [
    ("POST", "/rest/sql", "drop database d"),
    ("POST", "/api/v1/sql", "q=drop+database+d"),
    ("GET", "/query?q=drop%20database%20d", ""),
    ("POST", "/query?q=drop%20database%20d", ""),
    ("POST", "/api/v1/sql", "create user evil password 'a password of evil' admin"),
];

#[tokio::test(flavor = "multi_thread")]
async fn no_web_page_of_another_origin_and_no_rebound_name_reaches_any_route_of_a_local_server() {
    let node = Node::start(|_| ()).await;
    assert_eq!(node.sql("create database d").await.0, 200);
    let before = node.databases().await;
    let page = [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")];
    let image = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")];
    let rebound = [("host", "evil.example:8086"), ("sec-fetch-site", "same-origin")];
    let attacks: [&[(&str, &str)]; 4] = [&page, &page[..1], &image, &rebound];
    for attack in attacks {
        let on = |request: RequestBuilder| attack.iter().fold(request, |request, (n, v)| request.header(*n, *v));
        for (method, path) in routes() {
            let reply = on(node.request(method.clone(), &path)).body("select 1").send().await.unwrap();
            assert_eq!(reply.status(), 403, "{attack:?} {method} {path}");
            assert_eq!(reply.headers()["x-content-type-options"], "nosniff");
            assert!(!reply.headers().contains_key("access-control-allow-origin"), "{attack:?} {method} {path}");
            let body: Value = reply.json().await.unwrap();
            let message =
                ["/error/message", "/error", "/desc", "/message"].iter().find_map(|at| body.pointer(at)?.as_str());
            let message = message.unwrap_or_else(|| panic!("{method} {path}: {body}"));
            assert!(message.contains("allowed_hosts") || message.contains("cors_origins"), "{path}: {message}");
        }
        for (method, path, body) in DROPS {
            let reply = on(node.request(method.parse().unwrap(), path)).header("content-type", "text/plain").body(body);
            assert_eq!(reply.send().await.unwrap().status(), 403, "{attack:?} {path}");
        }
        for base in [&node.url, &node.flight] {
            let url = format!("{base}/arrow.flight.protocol.FlightService/DoAction");
            let reply = on(node.client.post(url)).header("content-type", "application/grpc-web").send().await.unwrap();
            assert_eq!(reply.headers()["grpc-status"], "7", "{attack:?} {base}");
        }
    }
    assert_eq!(node.databases().await, before);
    assert!(!node.sql("show users").await.1.contains("evil"));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_changes_by_get_and_pages_of_named_origins_may_read() {
    let node = Node::start(|layer| {
        layer.set(&declared::CORS_ORIGINS, "https://app.example/, http://localhost:3000");
        layer.set(&declared::ALLOWED_HOSTS, "db.example");
    })
    .await;
    assert_eq!(node.sql("create database d").await.0, 200);
    let before = node.databases().await;
    for statement in
        ["drop database d", "create database e", "create user evil password 'a password of evil' admin", "use d"]
    {
        for path in ["/query", "/api/v1/sql"] {
            let target = format!("{path}?q={}", statement.replace(' ', "+"));
            let reply = node.request(Method::GET, &target).send().await.unwrap();
            let is_refused = reply.status() == 405 && reply.headers()["allow"] == "POST";
            assert!(is_refused || (path == "/query" && reply.status() == 400), "{path} {statement}: {reply:?}");
        }
    }
    assert_eq!(node.databases().await, before);
    let from = |request: RequestBuilder| request.header("origin", "https://app.example").header("host", "db.example");
    let reply = from(node.request(Method::POST, "/api/v1/sql")).body("select 1").send().await.unwrap();
    assert_eq!(
        (reply.status().as_u16(), &reply.headers()["access-control-allow-origin"]),
        (200, &"https://app.example".parse().unwrap())
    );
    let asked = from(node.request(Method::OPTIONS, "/api/v1/sql")).header("access-control-request-method", "POST");
    let reply = asked.send().await.unwrap();
    assert_eq!((reply.status().as_u16(), reply.headers().contains_key("access-control-allow-methods")), (204, true));
    let mut wrong = Layer::default();
    wrong.set(&declared::CORS_ORIGINS, "*");
    assert!(Settings::resolve(None, wrong).unwrap_err().to_string().contains("cors_origins: expected origins"));
    let mut wrong = Layer::default();
    wrong.set(&declared::ALLOWED_HOSTS, "http://db.example");
    assert!(Settings::resolve(None, wrong).unwrap_err().to_string().contains("allowed_hosts: expected names"));
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_asks_who_sends_a_request_is_reached_by_any_name_and_gives_browsers_no_dialog() {
    let node = Node::start_asking(|_| ()).await;
    let ask = |agent: &str| {
        node.request(Method::GET, "/api/v1/sql?q=select+1").header("host", "db.example").header("user-agent", agent)
    };
    let known = ask("curl/8").basic_auth("admin", Some(PASSWORD)).send().await.unwrap();
    assert_eq!(known.status(), 200);
    for (agent, scheme) in [("Wget/1.21", "Basic"), ("Mozilla/5.0 (X11; Linux x86_64)", "Bearer")] {
        let reply = ask(agent).send().await.unwrap();
        assert_eq!(reply.status(), 401);
        assert!(reply.headers()["www-authenticate"].to_str().unwrap().starts_with(scheme), "{agent}");
    }
    let page = ask("Mozilla/5.0").header("origin", "https://evil.example").send().await.unwrap();
    assert_eq!(page.status(), 403);
    node.stop().await;
}

/// Another address of this machine.
fn local(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, last)
}

/// A client that keeps its own HTTP/2 connection.
fn keeping(from: Ipv4Addr) -> Client {
    let builder = Client::builder().http2_prior_knowledge().local_address(IpAddr::from(from)).pool_idle_timeout(None);
    builder.timeout(Duration::from_secs(20)).build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_of_one_client_leave_places_to_others_and_end_by_themselves() {
    let node = Node::start_asking(|layer| {
        layer.set(&declared::MAX_CONNECTIONS, "4");
        layer.set(&declared::MAX_CLIENT_CONNECTIONS, "2");
        layer.set(&declared::IDLE_TIMEOUT, "2s");
    })
    .await;
    let health = format!("{}/health", node.url);
    let hold = |from: u8| {
        let (client, health) = (keeping(local(from)), health.clone());
        async move { client.get(health).send().await.map(|reply| (reply.status().as_u16(), client)) }
    };
    // Per address: the maximum number of connections, which would stay open as long as the client keeps them.
    let mut held = vec![hold(2).await.unwrap(), hold(2).await.unwrap()];
    assert!(hold(2).await.is_err(), "a third connection of one address is closed");
    held.push(hold(3).await.unwrap());
    assert!(held.iter().all(|(status, _)| *status == 200));
    // Idle connections are closed, even if they answer pings.
    let mut answered = false;
    for _ in 0..60 {
        answered = hold(2).await.is_ok();
        if answered {
            break;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    assert!(answered, "idle connections were kept");
    drop(held);

    // Per user: the same maximum from all addresses together.
    let metrics = format!("{}/metrics", node.url);
    let ask = |from: u8| {
        let (client, metrics) = (keeping(local(from)), metrics.clone());
        async move {
            let reply = client.get(metrics).basic_auth("admin", Some(PASSWORD)).send().await;
            reply.map(|reply| (reply.status().as_u16(), client))
        }
    };
    let held = [ask(4).await.unwrap(), ask(5).await.unwrap()];
    assert!(held.iter().all(|(status, _)| *status == 200));
    assert_eq!(ask(6).await.unwrap().0, 503, "a third connection of one user is refused");
    assert_eq!(hold(7).await.unwrap().0, 200);
    node.stop().await;
}

/// Sends bytes and reads until the server has answered or closed the connection.
async fn converse(mut stream: TcpStream, bytes: &[u8]) -> String {
    // An early close by the server is a valid outcome.
    let _ = stream.write_all(bytes).await;
    let (mut reply, mut buffer) = (Vec::new(), [0; 4_096]);
    while let Ok(Ok(n)) = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut buffer)).await {
        reply.extend_from_slice(&buffer[..n]);
        if n == 0 || reply.windows(5).any(|w| w == b"0\r\n\r\n") {
            break;
        }
    }
    String::from_utf8_lossy(&reply).into_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_of_a_named_network_says_whose_a_connection_is_and_nobody_else_may() {
    let node = Node::start(|layer| layer.set(&declared::PROXY_PROTOCOL, "127.0.0.2/32")).await;
    let request = "POST /api/v1/sql?format=csv HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 16\r\n\r\nshow connections";
    let proxied = format!("PROXY TCP4 192.0.2.7 10.0.0.1 4660 8086\r\n{request}");
    let reply = converse(node.connect(local(2)).await, proxied.as_bytes()).await;
    assert!(reply.contains("192.0.2.7:4660") && !reply.contains("127.0.0.2"), "{reply}");
    let local_one = [&b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0"[..], request.as_bytes()].concat();
    let reply = converse(node.connect(local(2)).await, &local_one).await;
    assert!(reply.contains("127.0.0.2"), "{reply}");
    assert_eq!(converse(node.connect(local(2)).await, request.as_bytes()).await, "");
    let reply = converse(node.connect(local(1)).await, request.as_bytes()).await;
    assert!(reply.contains("127.0.0.1:"), "{reply}");
    let reply = converse(node.connect(local(1)).await, proxied.as_bytes()).await;
    assert!(!reply.contains("192.0.2.7"), "{reply}");
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_that_are_announced_and_do_not_come_stop_no_writes() {
    let node = Node::start_asking(|layer| layer.set(&declared::INGEST_BUFFER, "16MiB")).await;
    let ask = |request: RequestBuilder| async move {
        let reply = request.basic_auth("admin", Some(PASSWORD)).send().await.unwrap();
        (reply.status().as_u16(), reply.text().await.unwrap())
    };
    let write = || ask(node.request(Method::POST, "/write?db=d").body("m v=1 1"));
    assert_eq!(write().await.0, 204);
    for sql in [
        "create user ada password 'a password of ada'",
        "grant write on d.* to ada",
        "create user nobody password 'a password of nobody'",
    ] {
        let (status, text) = ask(node.request(Method::POST, "/api/v1/sql").body(sql)).await;
        assert_eq!(status, 200, "{text}");
    }
    let mut slow = Vec::new();
    for (user, password) in [("ada", "a password of ada"), ("nobody", "a password of nobody")] {
        for _ in 0..4 {
            let target = format!("/write?db=d&u={user}&p={}", password.replace(' ', "%20"));
            let head = format!("POST {target} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\nm", 8 << 20);
            let mut stream = node.connect(local(1)).await;
            stream.write_all(head.as_bytes()).await.unwrap();
            slow.push(stream);
        }
    }
    // Wait until these requests wait for their bodies.
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(write().await, (204, String::new()));
    }
    drop(slow);
    node.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_logs_in_by_a_cookie_and_changes_nothing_without_its_csrf_token() {
    let node = Node::start_asking(|_| ()).await;
    let ask = |request: RequestBuilder| async move {
        let reply = request.send().await.unwrap();
        let cookie = reply.headers().get("set-cookie").map(|value| value.to_str().unwrap().to_owned());
        (reply.status().as_u16(), cookie, reply.json::<Value>().await.unwrap_or_default())
    };
    let whoami = || node.request(Method::GET, "/api/v1/whoami");
    let log_in = || node.request(Method::POST, "/api/v1/login");
    let sql = |text: &str| node.request(Method::POST, "/api/v1/sql").body(text.to_owned());
    assert_eq!(ask(whoami()).await.0, 401);
    let (status, cookie, _) = ask(log_in().basic_auth("admin", Some("wrong"))).await;
    assert_eq!((status, cookie), (401, None));

    let (status, cookie, page) = ask(log_in().basic_auth("admin", Some(PASSWORD))).await;
    let cookie = cookie.unwrap();
    assert_eq!((status, &page["user"], &page["admin"]), (200, &"admin".into(), &true.into()));
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    let (_, session) = pair.split_once('=').unwrap();
    assert_eq!(attributes, "Path=/; Max-Age=42900; HttpOnly; SameSite=Strict");
    let csrf = page["csrf"].as_str().unwrap();
    assert!(!csrf.contains(session) && !session.contains(csrf));

    let by_cookie = |request: RequestBuilder| request.header("cookie", format!("theme=dark; {pair}"));
    let (status, _, found) = ask(by_cookie(whoami())).await;
    assert_eq!((status, &found), (200, &page));
    assert_eq!(ask(by_cookie(node.request(Method::GET, "/api/v1/sql?q=select+1"))).await.0, 200);
    for header in [None, Some(""), Some("x"), Some(session)] {
        let request = by_cookie(sql("create database d"));
        let (status, _, error) =
            ask(header.into_iter().fold(request, |request, csrf| request.header("x-tidelake-csrf", csrf))).await;
        assert_eq!(status, 403, "{header:?}");
        assert!(error.to_string().contains("CSRF token"), "{error}");
    }
    assert_eq!(ask(by_cookie(sql("create database d")).header("x-tidelake-csrf", csrf)).await.0, 200);
    // A token of the client's own needs no further proof, whatever the browser adds.
    assert_eq!(ask(by_cookie(sql("drop database d")).bearer_auth(session)).await.0, 200);

    let (status, cookie, _) = ask(by_cookie(node.request(Method::POST, "/api/v1/logout"))).await;
    assert_eq!(
        (status, cookie.unwrap().as_str()),
        (204, "tidelake_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Strict")
    );
    assert_eq!(ask(by_cookie(sql("rotate sessions")).header("x-tidelake-csrf", csrf)).await.0, 200);
    assert_eq!(ask(by_cookie(whoami())).await.0, 401, "the session has ended");
    node.stop().await;

    let open = Node::start(|_| ()).await;
    let expected = serde_json::json!({ "user": null, "admin": true, "authentication": false, "csrf": null });
    for request in [open.request(Method::GET, "/api/v1/whoami"), open.request(Method::POST, "/api/v1/login")] {
        assert_eq!(ask(request.header("cookie", "tidelake_session=x")).await, (200, None, expected.clone()));
    }
    open.stop().await;
}
