//! Checks the audit log lines of every interface. The routes come from the route tables, so a new route without
//! expected lines here fails the test.

#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use arrow::array::{ArrayRef, Float64Array, RecordBatch, TimestampMillisecondArray};
use arrow_flight::{
    Action, CancelFlightInfoRequest, FlightClient,
    sql::{CommandStatementIngest, client::FlightSqlServiceClient},
};
use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode, header},
    middleware::{Next, from_fn},
};
use futures::TryStreamExt;
use parking_lot::Mutex;
use tidelake_format::{
    access::{Right, User, audit, hash_password},
    auth::{Authenticator, Gate, Peer},
    meta::{Draft, Root},
    snapshot::SnapshotReader,
    store::Store,
};
use tidelake_ingest::{config::IngestConfig, decode::line_protocol::LinePrecision, udp::UdpTarget, write::Ingest};
use tidelake_protocol::http::{Route, routes::ALL};
use tidelake_query::engine::{Engine, EngineConfig};
use tidelake_routes::Routes;
use tokio::{
    net::{TcpListener, UdpSocket},
    sync::watch,
};
use tonic::transport::Endpoint;
use tower::ServiceExt as _;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    subscriber::DefaultGuard,
};
use tracing_subscriber::{Layer, layer::Context, layer::SubscriberExt as _};

use super::{
    check, console,
    figures::{Figures, NodeLimits},
    first_user, logging, operations, session, writer,
};

const PASSWORD: &str = "correct horse";
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 9));

/// Audit log lines of this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<BTreeMap<&'static str, String>>>>);

struct Fields<'a>(&'a mut BTreeMap<&'static str, String>);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() == audit::TARGET {
            let mut line = BTreeMap::new();
            event.record(&mut Fields(&mut line));
            self.0.lock().push(line);
        }
    }
}

impl Lines {
    fn start() -> (Self, DefaultGuard) {
        let lines = Self::default();
        let guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(lines.clone()));
        (lines, guard)
    }

    /// Lines since the last call, as user, outcome, action and object.
    fn take(&self) -> Vec<String> {
        self.take_from(&PEER.to_string())
    }

    fn take_from(&self, peer: &str) -> Vec<String> {
        let lines = std::mem::take(&mut *self.0.lock());
        let of = |line: &BTreeMap<&str, String>, name: &str| line.get(name).cloned().unwrap_or_default();
        let told = lines.iter().map(|line| {
            assert_eq!(of(line, "peer"), peer, "{line:?}");
            assert!(!line.values().any(|text| text.contains(PASSWORD)), "{line:?}");
            let (user, outcome) = (of(line, "user"), of(line, "outcome"));
            format!("{user} {outcome} {} {}", of(line, "action"), of(line, "object")).trim().to_owned()
        });
        told.collect()
    }
}

/// A server's routes over a root with the administrator `ada`, and `eve`, who has no rights.
async fn doors() -> (Routes, Gate) {
    let store = Store::in_memory();
    let root = Root::open(store.clone()).await.unwrap();
    let hash = hash_password(PASSWORD).unwrap();
    let add = |draft: &mut Draft| {
        draft.users_mut().add("ada", User::new(Some(hash.clone()), true)?)?;
        draft.users_mut().add("eve", User::new(Some(hash.clone()), false)?)
    };
    root.commit(&[], add).await.unwrap();
    let mut config = IngestConfig::default();
    config.compact.background = false;
    let ingest = Ingest::open(root.clone(), config).await.unwrap();
    let snapshots = Arc::new(SnapshotReader::new(root.clone(), Default::default()));
    let writer = Arc::new(writer::IngestWriter::new(ingest.clone()));
    let engine = Engine::new(root.clone(), snapshots, writer, EngineConfig::default());
    let limits = NodeLimits { connections: 1_000, memory_bytes: 1 << 30, has_disk_cache: false };
    let figures = Figures::new(ingest.clone(), engine.clone(), operations::install_metrics().unwrap(), limits);
    let gate = Gate::Users(Authenticator::new(root.clone()).unwrap());
    let routes = super::routes(
        root,
        ingest,
        engine.clone(),
        tidelake_query::flight::routes(engine),
        figures,
        watch::channel(false).1,
    );
    let routes = routes.merge(check::routes(store)).merge(session::routes(false)).merge(first_user::routes(None));
    (routes.merge(console::routes(|_| None)), gate)
}

/// A request, and its audit lines when `ada` and when `eve` sends it.
struct Try {
    method: &'static str,
    uri: String,
    body: String,
    ada: Vec<String>,
    eve: Vec<String>,
}

fn attempt(method: &'static str, uri: impl Into<String>, body: impl Into<String>) -> Try {
    Try { method, uri: uri.into(), body: body.into(), ada: Vec::new(), eve: Vec::new() }
}

impl Try {
    fn ada(mut self, lines: &[&str]) -> Self {
        self.ada = lines.iter().map(|line| format!("ada {line}")).collect();
        self
    }

    fn eve(mut self, lines: &[&str]) -> Self {
        self.eve = lines.iter().map(|line| format!("eve {line}")).collect();
        self
    }
}

/// A write that creates the database `name`.
fn creates(uri: impl Into<String>, body: &str, name: &str) -> Try {
    attempt("POST", uri, body)
        .ada(&[&format!("done CREATE DATABASE {name}"), &format!("done CREATE TABLE {name}.m")])
        .eve(&[&format!("refused WRITE {name}")])
}

/// An SQL statement that creates the database `name`.
fn defines(uri: &str, name: &str) -> Try {
    attempt("POST", uri, format!("create database {name}"))
        .ada(&[&format!("done CREATE DATABASE {name}")])
        .eve(&[&format!("refused CREATE DATABASE {name}")])
}

/// Requests of a route with their audit lines.
fn tries(path: &str) -> Option<Vec<Try>> {
    let line = "m,k=a v=1 1";
    let point = r#"{"metric": "m", "timestamp": 1700000000, "value": 1, "tags": {"k": "a"}}"#;
    let administration = |found: Try| {
        let line = format!("refused REQUEST {path}");
        found.eve(&[line.as_str()])
    };
    Some(match path {
        "/health" | "/ready" | "/ping" | "/metrics" | "/api/v1/openapi.json" | "/api/v1/whoami" => {
            vec![attempt("GET", path, "")]
        }
        "/api/v1/login" => vec![attempt("POST", path, "").ada(&["done LOGIN ada"]).eve(&["done LOGIN eve"])],
        "/api/v1/first-user" => vec![attempt("GET", path, ""), attempt("POST", path, "{}")],
        "/api/v1/logout" => vec![attempt("POST", path, "")],
        "/" | "/assets/{*file}" => vec![attempt("GET", "/", ""), attempt("GET", "/assets/x.js", "")],
        "/write" => vec![
            creates("/write?db=w1", line, "w1"),
            attempt("POST", "/write?db=w1", "m,k=a v=1,w=2 1")
                .ada(&["done ADD COLUMN w1.m"])
                .eve(&["refused WRITE w1"]),
            attempt("POST", "/write?db=w1", line).eve(&["refused WRITE w1"]),
        ],
        "/influxdb/v1/write" => vec![creates("/influxdb/v1/write?db=w2", line, "w2")],
        "/api/v2/write" => vec![creates("/api/v2/write?bucket=w3", line, "w3")],
        "/api/put" => vec![creates("/api/put?db=w4", point, "w4")],
        "/opentsdb/v1/put/json/{db}" => vec![creates("/opentsdb/v1/put/json/w5", point, "w5")],
        "/api/v1/import" => {
            let file = "ts,k,v\n1,a,1\n";
            let (uri, audited) = ("/api/v1/import?db=w6&table=t&format=csv&tags=k", "CREATE DATABASE w6");
            vec![
                attempt("POST", format!("{uri}&preview=true"), file).eve(&["refused WRITE w6"]),
                attempt("POST", uri, file)
                    .ada(&[&format!("done {audited}"), "done CREATE TABLE w6.t"])
                    .eve(&["refused WRITE w6"]),
            ]
        }
        "/query" => vec![
            attempt("POST", "/query?q=CREATE+DATABASE+q", "")
                .ada(&["done CREATE DATABASE q"])
                .eve(&["refused CREATE DATABASE q"]),
            attempt("POST", "/query?q=DROP+DATABASE+q", "")
                .ada(&["done DROP DATABASE q"])
                .eve(&["refused DROP DATABASE q"]),
            attempt("POST", "/query?q=SHOW+DATABASES", ""),
        ],
        "/api/v1/sql" => vec![
            defines(path, "s1"),
            attempt("POST", path, "create table s1.t (ts timestamp, v double)")
                .ada(&["done CREATE TABLE s1.t"])
                .eve(&["refused CREATE TABLE s1.t"]),
            attempt("POST", path, "insert into s1.t values (1, 1)").eve(&["refused INSERT s1"]),
            attempt("POST", path, "select * from s1.t").eve(&["refused QUERY s1"]),
            attempt("GET", "/api/v1/sql?q=select+v+from+s1.t", "").eve(&["refused QUERY s1"]),
            attempt("POST", path, "use s1").eve(&["refused USE s1"]),
            attempt("POST", path, "delete from s1.t").ada(&["done DELETE s1.t"]).eve(&["refused DELETE s1.t"]),
            attempt("POST", path, format!("/* {} */ drop table s1.t", "x".repeat(5_000)))
                .ada(&["done DROP TABLE s1.t"])
                .eve(&["refused DROP TABLE s1.t"]),
            attempt("POST", path, format!("create user bob password '{PASSWORD} battery'"))
                .ada(&["done CREATE USER bob"])
                .eve(&["refused CREATE USER bob"]),
            attempt("POST", path, "kill connection 'none'")
                .ada(&["failed KILL CONNECTION none"])
                .eve(&["refused KILL CONNECTION none"]),
            attempt("POST", path, "kill query 'none'")
                .ada(&["failed KILL QUERY none"])
                .eve(&["failed KILL QUERY none"]),
        ],
        "/rest/sql" => vec![defines(path, "r1")],
        "/rest/sql/" => vec![defines(path, "r2")],
        "/rest/sql/{db}" => vec![
            attempt("POST", "/rest/sql/r1", "create table t (ts timestamp, v double)")
                .ada(&["done CREATE TABLE r1.t"])
                .eve(&["refused CREATE TABLE r1.t"]),
        ],
        "/rest/login/{user}/{password}" => {
            vec![attempt("GET", "/rest/login/x/y", "").ada(&["done LOGIN ada"]).eve(&["done LOGIN eve"])]
        }
        "/api/v1/compact" => vec![administration(attempt("POST", path, "").ada(&["done COMPACT /api/v1/compact"]))],
        "/api/v1/check" => vec![administration(attempt("POST", path, "").ada(&["done CHECK /api/v1/check"]))],
        "/api/v1/files" => vec![administration(attempt("GET", "/api/v1/files?table=w1.m", ""))],
        "/api/v1/node" => vec![administration(attempt("GET", path, ""))],
        "/api/v1/node/events" => vec![administration(attempt("GET", "/api/v1/node/events?count=1", ""))],
        "/api/v1/log" => vec![
            administration(attempt("GET", path, "")),
            // Tests have no log.
            administration(
                attempt("PUT", path, "off,tidelake::audit=off").ada(&["failed SET LOG FILTER off,tidelake::audit=off"]),
            ),
        ],
        "/api/v1/queries/{id}/events" => vec![attempt("GET", "/api/v1/queries/none/events", "")],
        "/api/v1/saved-queries" => vec![attempt("GET", path, "")],
        "/api/v1/saved-queries/{name}" => {
            let uri = "/api/v1/saved-queries/one";
            vec![
                attempt("PUT", uri, r#"{"statement": "select 1"}"#)
                    .ada(&["done SAVE QUERY one"])
                    .eve(&["done SAVE QUERY one"]),
                attempt("DELETE", uri, "").ada(&["done DELETE SAVED QUERY one"]).eve(&["done DELETE SAVED QUERY one"]),
            ]
        }
        // The test below calls these by gRPC.
        "/arrow.flight.protocol.FlightService/Handshake" | "/arrow.flight.protocol.FlightService/{*method}" => vec![],
        _ => return None,
    })
}

async fn send(router: &Router, user: Option<&str>, one: &Try) -> StatusCode {
    let mut request = Request::builder().method(one.method).uri(&one.uri).extension(Peer(PEER));
    if let Some(user) = user {
        request = request.header(header::AUTHORIZATION, format!("Token {user}:{PASSWORD}"));
    }
    router.clone().oneshot(request.body(Body::from(one.body.clone())).unwrap()).await.unwrap().status()
}

#[tokio::test]
async fn every_route_of_the_table_has_one_handler() {
    let names = |routes: &mut dyn Iterator<Item = &'static Route>| -> Vec<String> {
        let mut names: Vec<String> = routes.map(|route| format!("{} {}", route.method, route.path)).collect();
        names.sort();
        names
    };
    let (routes, _) = doors().await;
    assert_eq!(names(&mut routes.handled()), names(&mut ALL.into_iter()));
}

#[tokio::test]
async fn every_route_leaves_a_line_for_what_it_changes_and_whom_it_refuses() {
    let (lines, _guard) = Lines::start();
    let (routes, gate) = doors().await;
    let rights: BTreeMap<&str, Right> = routes.handled().map(|route| (route.path, route.right)).collect();
    let router = routes.behind(&gate);
    for (path, right) in rights {
        let tries = tries(path).unwrap_or_else(|| panic!("say here what {path} leaves in the audit log"));
        for one in tries {
            let told = format!("{} {} {}", one.method, one.uri, &one.body[one.body.len().saturating_sub(60)..]);
            send(&router, Some("eve"), &one).await;
            assert_eq!(lines.take(), one.eve, "eve: {told}");
            send(&router, None, &one).await;
            let unknown: &[&str] = if right == Right::Open { &[] } else { &["refused AUTHENTICATE"] };
            let found = lines.take();
            let found: Vec<&str> = found.iter().map(|line| line.strip_prefix("x ").unwrap_or(line)).collect();
            assert_eq!(found, unknown, "nobody: {told}");
            send(&router, Some("ada"), &one).await;
            assert_eq!(lines.take(), one.ada, "ada: {told}");
        }
    }
    send(&router, Some("eve"), &attempt("GET", "/no/such/path", "")).await;
    assert_eq!(lines.take(), Vec::<String>::new());
}

#[tokio::test]
async fn every_action_of_flight_leaves_a_line_for_what_it_changes_and_whom_it_refuses() {
    let (lines, _guard) = Lines::start();
    let (routes, gate) = doors().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    // The listener sets the source of requests.
    let from = from_fn(|mut request: axum::extract::Request, next: Next| async move {
        request.extensions_mut().insert(Peer(PEER));
        next.run(request).await
    });
    let router = routes.behind(&gate).layer(from);
    tokio::spawn(axum::serve(listener, router).into_future());
    let connect = async |user: &str| {
        let channel = Endpoint::new(format!("http://{address}")).unwrap().connect().await.unwrap();
        let mut client = FlightSqlServiceClient::new(channel);
        client.handshake(user, PASSWORD).await.unwrap();
        client
    };
    let mut ada = connect("ada").await;
    let mut eve = connect("eve").await;
    assert_eq!(lines.take(), ["ada done LOGIN ada", "eve done LOGIN eve"]);
    let sql = |text: &str| text.to_owned();
    assert!(eve.execute(sql("create database f"), None).await.is_err());
    ada.execute(sql("create database f"), None).await.unwrap();
    assert!(eve.execute_update(sql("create table f.t (ts timestamp, v double)"), None).await.is_err());
    ada.execute_update(sql("create table f.t (ts timestamp, v double)"), None).await.unwrap();
    assert!(eve.execute(sql("select * from f.t"), None).await.is_err());
    assert_eq!(
        lines.take(),
        [
            "eve refused CREATE DATABASE f",
            "ada done CREATE DATABASE f",
            "eve refused CREATE TABLE f.t",
            "ada done CREATE TABLE f.t",
            "eve refused QUERY f",
        ]
    );
    let batch = RecordBatch::try_from_iter([
        ("ts", Arc::new(TimestampMillisecondArray::from(vec![1_784_000_000_000, 1_784_000_000_001])) as ArrayRef),
        ("v", Arc::new(Float64Array::from(vec![1.0, 2.0])) as ArrayRef),
    ])
    .unwrap();
    let ingest = |table: &str| CommandStatementIngest {
        table: table.to_owned(),
        schema: Some("f".to_owned()),
        table_definition_options: Some(arrow_flight::sql::TableDefinitionOptions {
            if_not_exist: arrow_flight::sql::TableNotExistOption::Create.into(),
            if_exists: arrow_flight::sql::TableExistsOption::Append.into(),
        }),
        ..CommandStatementIngest::default()
    };
    let put = || futures::stream::iter([Ok(batch.clone())]);
    assert!(eve.execute_ingest(ingest("made"), put()).await.is_err());
    ada.execute_ingest(ingest("made"), put()).await.unwrap();
    ada.execute_ingest(ingest("made"), put()).await.unwrap();
    assert_eq!(lines.take(), ["eve refused WRITE f.made", "ada done CREATE TABLE f.made"]);
    let listed: Vec<String> = {
        let mut request = tonic::Request::new(arrow_flight::Empty {});
        let token = format!("Bearer {}", ada.token().unwrap());
        request.metadata_mut().insert("authorization", token.parse().unwrap());
        let actions = ada.inner_mut().list_actions(request).await.unwrap().into_inner();
        actions.map_ok(|action| action.r#type).try_collect().await.unwrap()
    };
    for name in listed {
        let expected: &[&str] = match name.as_str() {
            // Prepared statements are tested above; sessions and handles affect only their client.
            "CreatePreparedStatement"
            | "ClosePreparedStatement"
            | "SetSessionOptions"
            | "GetSessionOptions"
            | "CloseSession" => &[],
            // There is no running query to cancel.
            "CancelFlightInfo" | "CancelQuery" => &[],
            other => panic!("say here what the action {other} leaves in the audit log"),
        };
        let mut request = tonic::Request::new(Action { r#type: name.clone(), body: bytes::Bytes::new() });
        let token = format!("Bearer {}", eve.token().unwrap());
        request.metadata_mut().insert("authorization", token.parse().unwrap());
        let _ = eve.inner_mut().do_action(request).await;
        assert_eq!(lines.take(), expected, "{name}");
    }
    // Cancels a query whose result has not been fetched.
    let info = ada.execute(sql("select 41 + 1"), None).await.unwrap();
    let mut client = FlightClient::new_from_inner(ada.inner().clone());
    client.add_header("authorization", &format!("Bearer {}", ada.token().unwrap())).unwrap();
    client.cancel_flight_info(CancelFlightInfoRequest::new(info)).await.unwrap();
    assert_eq!(lines.take(), ["ada done CANCEL QUERY"]);
}

#[tokio::test]
async fn datagrams_leave_a_line_for_what_they_create() {
    let (lines, _guard) = Lines::start();
    let mut config = IngestConfig::default();
    config.compact.background = false;
    let ingest = Ingest::open(Root::open(Store::in_memory()).await.unwrap(), config).await.unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (address, (stop, stopped)) = (socket.local_addr().unwrap(), watch::channel(false));
    let target = UdpTarget { database: "udp".to_owned(), precision: LinePrecision::Nano };
    let serving = tokio::spawn(tidelake_ingest::udp::serve(socket, ingest, target, stopped));
    let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    client.send_to(b"m,k=a v=1 1", address).await.unwrap();
    // Received datagrams are written before the listener ends.
    stop.send_replace(true);
    serving.await.unwrap();
    let expected = ["service:udp done CREATE DATABASE udp", "service:udp done CREATE TABLE udp.m"];
    assert_eq!(lines.take_from(""), expected);
}

/// Captures written lines.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn no_filter_silences_the_audit_log_but_that_of_the_settings() {
    let log = |settings: &str, later: &str| {
        let written = Written::default();
        let to = written.clone();
        let (filter, handle) =
            tracing_subscriber::reload::Layer::new(tracing_subscriber::EnvFilter::try_new(settings).unwrap());
        let lines = move || {
            let to = to.clone();
            tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || to.clone()).boxed()
        };
        let subscriber = tracing_subscriber::registry().with(logging::layers(lines, filter, settings));
        tracing::subscriber::with_default(subscriber, || {
            handle.reload(tracing_subscriber::EnvFilter::try_new(later).unwrap()).unwrap();
            tracing::info!(target: "tidelake::audit", "one");
            tracing::info!(target: "tidelake_ingest", "two");
        });
        let text = String::from_utf8(written.0.lock().clone()).unwrap();
        (text.matches("one").count(), text.matches("two").count())
    };
    assert_eq!(log("info", "off,tidelake::audit=off"), (1, 0));
    assert_eq!(log("info", "tidelake::audit=off"), (1, 0));
    assert_eq!(log("off", "info"), (1, 1));
    assert_eq!(log("info,tidelake::audit=off", "info,tidelake::audit=trace"), (0, 1));
}
