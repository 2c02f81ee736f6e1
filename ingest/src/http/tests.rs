#![allow(clippy::unwrap_used)]

use std::{io::Write, time::Duration};

use axum::{
    body::Body,
    http::{HeaderMap, Method, Request, StatusCode},
};
use futures::StreamExt as _;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tidelake_format::{
    access::{Grants, Principal, Privileges, Rights, Scope},
    auth::Gate,
    store::{
        Store,
        faults::{Fault, Operation},
    },
};
use tidelake_protocol::http::headers;
use tokio::task::JoinHandle;
use tower::ServiceExt;

use crate::{
    config::IngestConfig,
    testing::{config, memory, nano, open, rows},
    write::Ingest,
};

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
}

async fn send(ingest: &Ingest, method: Method, uri: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Answer {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response =
        super::routes(ingest.clone()).behind(&Gate::Off).oneshot(request.body(body.into()).unwrap()).await.unwrap();
    let (status, headers) = (response.status(), response.headers().clone());
    Answer { status, headers, body: response.into_body().collect().await.unwrap().to_bytes().to_vec() }
}

async fn post(ingest: &Ingest, uri: &str, body: impl Into<Body>) -> Answer {
    send(ingest, Method::POST, uri, &[], body).await
}

fn gzip(text: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(text.as_bytes()).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_write_is_answered_204_with_a_token_and_the_headers_of_influxdb() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    for uri in [
        "/write?db=db&precision=ms",
        "/api/v2/write?org=o&bucket=db/autogen&precision=ms",
        "/influxdb/v1/write?db=db&precision=ms",
    ] {
        let answer = post(&ingest, uri, "cpu,host=a value=1 5").await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::NO_CONTENT, 0), "{uri}");
        let token = answer.header(headers::TOKEN).parse().unwrap();
        assert_eq!(rows(&store, "db", "cpu", &[token]).await.keys().next().unwrap().1, 5_000_000, "{uri}");
        assert!(answer.header("x-influxdb-version").starts_with("1.8"));
        assert!(!answer.header("x-influxdb-build").is_empty() && answer.header("request-id").len() == 36);
    }
}

#[tokio::test]
async fn bodies_are_read_plain_packed_and_in_pieces() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let packed = |text: &str| zstd::encode_all(text.as_bytes(), 1).unwrap();
    let two = [gzip("cpu value=1 2\n"), gzip("cpu value=1 3\n")].concat();
    for (encoding, body) in [
        ("identity", b"cpu value=1 0\n".to_vec()),
        ("gzip", gzip("cpu value=1 1\n")),
        ("GZIP", two),
        ("zstd", packed("cpu value=1 4\n")),
    ] {
        let pieces: Vec<Result<Vec<u8>, std::io::Error>> = body.chunks(7).map(|c| Ok(c.to_vec())).collect();
        let body = Body::from_stream(futures::stream::iter(pieces));
        let answer = send(&ingest, Method::POST, "/write?db=db", &[("content-encoding", encoding)], body).await;
        assert_eq!(answer.status, StatusCode::NO_CONTENT, "{encoding}");
    }
    assert_eq!(rows(&store, "db", "cpu", &[]).await.len(), 5);
}

#[tokio::test]
async fn a_broken_or_unknown_encoding_is_a_client_error() {
    let (_, ingest) = memory().await;
    let mut cut = gzip("cpu value=1 1\n");
    cut.truncate(cut.len() - 6);
    for (encoding, body) in
        [("gzip", b"cpu value=1 1".to_vec()), ("gzip", cut), ("zstd", b"cpu value=1 1".to_vec()), ("br", b"x".to_vec())]
    {
        for uri in ["/write?db=db", "/api/v2/write?bucket=db", "/api/put"] {
            let headers = [("content-encoding", encoding)];
            let answer = send(&ingest, Method::POST, uri, &headers, body.clone()).await;
            assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{uri} {encoding}");
            assert!(answer.json().to_string().contains(encoding), "{:?}", answer.json());
        }
    }
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_with_the_limit_packed_or_not() {
    let store = Store::in_memory();
    let ingest = open(&store, IngestConfig { body_bytes: 2_000, ..config() }).await;
    let text = "cpu value=1 1\n".repeat(200);
    for uri in ["/write?db=db", "/api/v2/write?bucket=db", "/api/put"] {
        let stream = || Body::from_stream(futures::stream::iter([Ok::<_, std::io::Error>(text.clone())]));
        let plain = post(&ingest, uri, text.clone()).await;
        let chunked = post(&ingest, uri, stream()).await;
        let packed = send(&ingest, Method::POST, uri, &[("content-encoding", "gzip")], gzip(&text)).await;
        for answer in [plain, chunked, packed] {
            assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE, "{uri}");
            assert!(answer.json().to_string().contains("2000"), "{:?}", answer.json());
        }
    }
}

#[tokio::test]
async fn bad_lines_are_reported_in_influxdbs_words_and_the_others_written() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let answer = post(&ingest, "/write?db=db", "bad line").await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        answer.json(),
        json!({ "error": "unable to parse 'bad line': invalid field format, expected measurement,tag=value field=value time" })
    );
    assert_eq!(
        answer.header("x-influxdb-error"),
        "unable to parse 'bad line': invalid field format, expected measurement,tag=value field=value time"
    );

    let body = "cpu value=1 1\nbad line\ncpu value=2 2";
    let answer = post(&ingest, "/write?db=db", body).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    let text = "partial write: line 2: unable to parse 'bad line': invalid field format, expected measurement,tag=value field=value time dropped=1";
    assert_eq!(answer.json(), json!({ "error": text }));
    assert!(!answer.header(headers::TOKEN).is_empty());
    let answer = post(&ingest, "/api/v2/write?bucket=db", body).await;
    assert_eq!(answer.status, StatusCode::BAD_REQUEST);
    assert_eq!((&answer.json()["code"], &answer.json()["message"]), (&json!("invalid"), &json!(text)));
    assert_eq!(answer.json()["errors"][0]["line"], 2);
    assert_eq!(rows(&store, "db", "cpu", &[]).await.len(), 2);

    let answer = post(&ingest, "/write?db=db", "cpu value=\"text\" 3").await;
    let error = answer.json()["error"].as_str().unwrap().to_owned();
    assert!(
        error.starts_with("partial write: field type conflict: input field \"value\" on measurement \"cpu\""),
        "{error}"
    );
    assert!(error.ends_with(" dropped=1"), "{error}");
}

#[tokio::test]
async fn missing_required_parameters_are_reported() {
    let store = Store::in_memory();
    let ingest = open(&store, IngestConfig { auto_create_database: false, ..config() }).await;
    for (uri, status, text) in [
        ("/write", 400, "database is required"),
        ("/write?db=", 400, "database is required"),
        ("/write?db=nodb", 404, r#"database not found: "nodb""#),
        ("/write?db=nodb&precision=fortnight", 400, "invalid precision"),
        ("/api/v2/write", 400, "bucket is required"),
        ("/api/v2/write?bucket=nodb", 404, "database not found"),
    ] {
        let answer = post(&ingest, uri, "cpu value=1").await;
        assert_eq!(answer.status.as_u16(), status, "{uri}");
        let json = answer.json();
        let found = json["error"].as_str().or(json["message"].as_str()).unwrap();
        assert!(found.contains(text), "{uri}: {found}");
    }
    assert_eq!(send(&ingest, Method::GET, "/write?db=db", &[], "").await.status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_full_buffer_makes_every_client_come_back() {
    let store = Store::in_memory();
    let ingest = open(&store, IngestConfig { buffer_wait_ms: 1, ..config() }).await;
    let _held = ingest.reserve(ingest.config().buffer_bytes).await.unwrap();
    let v1 = post(&ingest, "/write?db=db", "cpu value=1 1").await;
    assert_eq!((v1.status.as_u16(), v1.json()), (500, json!({ "error": "timeout" })));
    for uri in ["/api/v2/write?bucket=db", "/api/put"] {
        let answer = post(&ingest, uri, "cpu value=1 1").await;
        assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, "1"), "{uri}");
    }
}

#[tokio::test]
async fn a_no_sync_write_is_accepted_without_a_token() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let answer = post(&ingest, "/write?db=db&no_sync=true", "cpu value=1 1").await;
    assert_eq!((answer.status.as_u16(), answer.header(headers::TOKEN)), (204, ""));
    ingest.shutdown().await;
    assert_eq!(rows(&store, "db", "cpu", &[]).await.len(), 1);
}

#[tokio::test]
async fn opentsdb_points_are_summarized_as_requested() {
    let (_, ingest) = memory().await;
    let good = r#"{"metric":"sys.cpu","timestamp":1763600000,"value":18,"tags":{"host":"web01"}}"#;
    let bad = r#"{"metric":"sys.cpu","timestamp":1763600000,"value":"x","tags":{"host":"web01"}}"#;
    let both = format!("[{good},{bad}]");
    assert_eq!(post(&ingest, "/api/put", good).await.status, StatusCode::NO_CONTENT);
    assert_eq!(post(&ingest, "/opentsdb/v1/put/json/other", good).await.status, StatusCode::NO_CONTENT);
    assert!(
        ingest.root().catalog().database("opentsdb").is_some() && ingest.root().catalog().database("other").is_some()
    );
    let packed =
        send(&ingest, Method::POST, "/api/put?details=true", &[("content-encoding", "gzip")], gzip(good)).await;
    assert_eq!((packed.status.as_u16(), packed.json()), (200, json!({ "success": 1, "failed": 0, "errors": [] })));
    let summary = post(&ingest, "/api/put?summary", both.clone()).await;
    assert_eq!((summary.status.as_u16(), summary.json()), (400, json!({ "success": 1, "failed": 1 })));
    let details = post(&ingest, "/api/put?details", both.clone()).await;
    assert_eq!(details.json()["errors"][0]["datapoint"], serde_json::from_str::<Value>(bad).unwrap());
    let plain = post(&ingest, "/api/put", both).await;
    assert_eq!((plain.status.as_u16(), &plain.json()["error"]["code"]), (400, &json!(400)));
    for (uri, body) in [("/api/put", "{"), ("/opentsdb/v1/put/json/%ff", good)] {
        let broken = post(&ingest, uri, body).await;
        assert_eq!((broken.status.as_u16(), &broken.json()["error"]["code"]), (400, &json!(400)), "{uri}");
    }
}

#[tokio::test]
async fn the_database_statements_of_influxdbs_clients_are_answered() {
    let (_, ingest) = memory().await;
    let get = |uri: &'static str| send(&ingest, Method::GET, uri, &[], "");
    let empty = get("/query?q=show%20databases").await;
    let series = |values: Value| json!({ "results": [{ "statement_id": 0, "series": [{ "name": "databases", "columns": ["name"], "values": values }] }] });
    assert_eq!((empty.status.as_u16(), empty.json()), (200, series(json!([]))));
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let created = send(&ingest, Method::POST, "/query", &form, "q=CREATE+DATABASE+%22telegraf%22").await;
    assert_eq!((created.status.as_u16(), created.json()), (200, json!({ "results": [{ "statement_id": 0 }] })));
    let with = post(&ingest, "/query?consistency=all&q=CREATE%20DATABASE%20x%20WITH%20REPLICATION%201", "").await;
    assert_eq!(with.status, 200);
    let both = series(json!([["telegraf"], ["x"]]));
    assert_eq!(get("/query?q=SHOW%20DATABASES").await.json(), both);
    // Any web page can make a browser send a GET.
    for uri in [
        "/query?q=CREATE%20DATABASE%20y",
        "/query?q=drop+database+x",
        "/query?q=show+databases;drop+database+x",
        "/query?q=create+database+x",
    ] {
        let refused = get(uri).await;
        assert_eq!((refused.status.as_u16(), refused.header("allow")), (405, "POST"), "{uri}");
        assert!(refused.json()["error"].as_str().unwrap().contains("by POST"), "{uri}: {:?}", refused.json());
        assert_eq!(get("/query?q=SHOW%20DATABASES").await.json(), both, "{uri}");
    }
    assert_eq!(
        post(&ingest, "/query?q=drop+database+x", "").await.json(),
        json!({ "results": [{ "statement_id": 0 }] })
    );
    assert_eq!(get("/query?q=SHOW%20DATABASES").await.json(), series(json!([["telegraf"]])));
    for (uri, text) in
        [("/query", "missing required parameter"), ("/query?q=select%201", "error parsing query: found select")]
    {
        let answer = get(uri).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{uri}");
        assert!(answer.json()["error"].as_str().unwrap().contains(text), "{:?}", answer.json());
    }
}

#[tokio::test]
async fn ping_is_204_by_get_and_head() {
    let (_, ingest) = memory().await;
    for method in [Method::GET, Method::HEAD] {
        let answer = send(&ingest, method, "/ping", &[], "").await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::NO_CONTENT, 0));
        assert!(!answer.header("x-influxdb-version").is_empty());
    }
    let verbose = send(&ingest, Method::GET, "/ping?verbose=true", &[], "").await;
    assert!(verbose.json()["version"].is_string());
    let of_go = send(&ingest, Method::GET, "/ping?wait_for_leader=1s", &[], "").await;
    assert_eq!(of_go.status, StatusCode::NO_CONTENT);
    let unknown = send(&ingest, Method::GET, "/ping?verbos=true", &[], "").await;
    assert_eq!(unknown.status, StatusCode::BAD_REQUEST);
    assert!(unknown.json()["error"].as_str().unwrap().contains("verbose"));
}

/// A body that begins with some bytes and never ends.
fn unending(begin: Vec<u8>) -> Body {
    let begin = futures::stream::once(async { Ok::<_, std::io::Error>(begin) });
    Body::from_stream(begin.chain(futures::stream::pending()))
}

/// Sends a user's request in the background, and lets it proceed as far as it can.
async fn begin(ingest: &Ingest, principal: &Principal, length: usize, body: Body) -> JoinHandle<StatusCode> {
    let mut request = Request::post("/write?db=db").header("content-length", length).body(body).unwrap();
    request.extensions_mut().insert(principal.clone());
    let answer = super::routes(ingest.clone()).behind(&Gate::Decided).oneshot(request);
    let task = tokio::spawn(async move { answer.await.unwrap().status() });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    task
}

#[tokio::test(start_paused = true)]
async fn announced_bytes_reserve_nothing_and_incomplete_bodies_of_one_user_leave_half_to_others() {
    const MIB: usize = 1 << 20;
    let store = Store::in_memory();
    let limits = IngestConfig { buffer_bytes: 4 * MIB, body_bytes: MIB, group_bytes: MIB, ..config() };
    let ingest = nano(&store, limits).await;
    let database = ingest.root().catalog().database("db").unwrap().id;
    let grants: Grants = [(Scope::Database(database), Privileges::ALL)].into();
    let user = |name: &str| Principal::new(name, Rights::Granted(grants.clone()));
    let (ada, bob) = (user("ada"), user("bob"));
    let write = |principal: &Principal| {
        let (ingest, principal) = (ingest.clone(), principal.clone());
        async move {
            let body = Body::from("cpu value=1 1");
            begin(&ingest, &principal, 13, body).await.await.unwrap()
        }
    };
    // Enough bodies to fill the buffer by their announced lengths; one byte of each has arrived.
    let mut slow = Vec::new();
    for _ in 0..8 {
        slow.push(begin(&ingest, &ada, MIB, unending(vec![b'#'])).await);
    }
    assert_eq!(write(&bob).await, StatusCode::NO_CONTENT);
    assert_eq!(write(&ada).await, StatusCode::NO_CONTENT);
    // Enough bodies to fill the buffer; almost all of each has arrived.
    for _ in 0..8 {
        slow.push(begin(&ingest, &ada, MIB, unending(vec![b'#'; MIB - 10_000])).await);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(write(&bob).await, StatusCode::NO_CONTENT);
    let large = begin(&ingest, &bob, MIB, Body::from([&b"cpu value=2 2\n"[..], &vec![b'#'; MIB - 14]].concat())).await;
    assert_eq!(large.await.unwrap(), StatusCode::NO_CONTENT);
    let refused = slow.iter().filter(|task| task.is_finished()).count();
    assert!((6..8).contains(&refused), "two of eight are in the user's half: {refused}");
    slow.iter().for_each(JoinHandle::abort);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_write_is_refused_before_the_body_has_come() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let nobody = Principal::new("nobody", Rights::Granted(Grants::new()));
    for target in
        ["/write?db=db", "/write?db=new", "/api/v2/write?bucket=db", "/api/put?db=db", "/opentsdb/v1/put/json/db"]
    {
        let mut request = Request::post(target).header("content-length", 1 << 20).body(unending(vec![b'#'])).unwrap();
        request.extensions_mut().insert(nobody.clone());
        let answer = tokio::time::timeout(
            Duration::from_secs(10),
            super::routes(ingest.clone()).behind(&Gate::Decided).oneshot(request),
        );
        assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::FORBIDDEN, "{target}");
    }
    let no_new = open(&store, IngestConfig { auto_create_database: false, ..config() }).await;
    let request = Request::post("/write?db=new").body(unending(vec![b'#'])).unwrap();
    let answer =
        tokio::time::timeout(Duration::from_secs(10), super::routes(no_new).behind(&Gate::Off).oneshot(request));
    assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_misspelt_parameter_is_refused_by_name_and_those_of_known_clients_are_taken() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let point = r#"{"metric":"cpu2","timestamp":1700000000,"value":1,"tags":{"host":"a"}}"#;
    for (uri, found, nearest) in [
        ("/write?db=db&precison=ms", "precison", "precision"),
        ("/write?databse=db", "databse", "db"),
        ("/influxdb/v1/write?db=db&ttl=5", "ttl", ""),
        ("/api/v2/write?bucket=db&percision=ms", "percision", "precision"),
        ("/api/put?db=db&detials", "detials", "details"),
        ("/opentsdb/v1/put/json/db?sumary", "sumary", "summary"),
        ("/query?q=show+databases&epcoh=ms", "epcoh", "epoch"),
        ("/query?q=show+databases&epoch=minutes", "minutes", "ms"),
    ] {
        let answer = post(&ingest, uri, if uri.contains("put") { point } else { "cpu value=1 1" }).await;
        let text = answer.json().to_string();
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{uri}: {text}");
        assert!(text.contains(&format!("found: {found}")) && text.contains(nearest), "{uri}: {text}");
    }
    let catalog = ingest.root().refresh().await.unwrap();
    let database = catalog.database("db").unwrap().id;
    assert!(catalog.table(database, "cpu").is_none() && catalog.table(database, "cpu2").is_none());
    for (uri, body) in [
        ("/write?consistency=all&db=db&precision=ns&rp=&u=a&p=b", "cpu value=1 1"),
        ("/api/v2/write?org=o&orgID=1&bucket=db&precision=ns&token=t", "cpu value=1 1"),
        ("/api/put?db=db&summary&details&sync&sync_timeout=60000", point),
        ("/query?db=&rp=&epoch=&pretty=true&chunked=true&chunk_size=100&params=%7B%7D&q=show+databases&u=a&p=b", ""),
        ("/query?consistency=all", "q=show+databases&epoch=ns"),
    ] {
        let answer = post(&ingest, uri, body).await;
        assert!(answer.status.is_success(), "{uri}: {:?}", String::from_utf8_lossy(&answer.body));
    }
    let refused = post(&ingest, "/query", "q=show+databases&databse=x").await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST, "a form has the same names");
}

#[tokio::test]
async fn a_wrong_method_is_405_with_the_routes_error_format_and_its_methods() {
    let (_, ingest) = memory().await;
    for (method, uri, allow, at) in [
        (Method::GET, "/write?db=db", "POST", "/error"),
        (Method::PUT, "/api/v2/write?bucket=db", "POST", "/message"),
        (Method::GET, "/api/put", "POST", "/error/message"),
        (Method::DELETE, "/query?q=show+databases", "GET,HEAD,POST", "/error"),
    ] {
        let answer = send(&ingest, method.clone(), uri, &[], "").await;
        assert_eq!((answer.status, answer.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, allow), "{method} {uri}");
        let body = answer.json();
        assert!(body.pointer(at).unwrap().as_str().unwrap().contains("Allow"), "{method} {uri}: {body}");
        assert!(!answer.header("x-influxdb-version").is_empty(), "{method} {uri}");
    }
}

#[tokio::test]
async fn every_door_answers_507_with_the_cause_while_the_store_has_no_space() {
    let inner = Store::in_memory();
    nano(&inner, config()).await;
    let store = inner.with_faults(|request| match request.operation {
        Operation::Put if request.key.starts_with("log") || request.key.starts_with("meta") => Fault::Full,
        _ => Fault::None,
    });
    let ingest = open(&store, config()).await;
    let point = json!({"metric": "m", "timestamp": 1_700_000_000, "value": 1, "tags": {"h": "a"}}).to_string();
    for (uri, body) in
        [("/write?db=db", "m v=1"), ("/api/v2/write?bucket=db", "m v=1"), ("/opentsdb/v1/put/json/db", point.as_str())]
    {
        let answer = post(&ingest, uri, body.to_owned()).await;
        assert_eq!(answer.status, StatusCode::INSUFFICIENT_STORAGE, "{uri}");
        assert_eq!(answer.header("retry-after"), "10", "{uri}");
        assert!(String::from_utf8_lossy(&answer.body).contains("no space left"), "{uri}: {}", answer.json());
    }
}
