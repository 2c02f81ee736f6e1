//! Functions: the real programs under the Runtime API, over an S3 server; the `tidelake` binary reads their rows.

mod chaos;
mod w1;
mod warm;

use std::{net::UdpSocket, time::Duration};

use serde_json::{Value, json};
use tidelake_loadtest::drive::platform::{Function, HttpReply, Outcome};
use tidelake_tests::{Http, S3Server, Server, functions::program};

/// The variables of a function over a root.
fn over<'a>(s3: &S3Server, prefix: &str, more: &[(&'a str, &str)]) -> Vec<(&'a str, String)> {
    let mut all = s3.environment();
    all.push(("TIDELAKE_STORE", s3.root(prefix)));
    all.push(("TIDELAKE_LOG", "warn".to_owned()));
    all.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
    all
}

async fn start(name: &str, memory_mb: u32, environment: &[(&str, String)]) -> Function {
    Function::start(&program(name), memory_mb, environment).await.unwrap()
}

async fn post(function: &mut Function, target: &str, headers: &[(&str, &str)], body: &str) -> HttpReply {
    function.http("POST", target, headers, body.as_bytes()).await.unwrap()
}

/// Requests of every protocol: target, headers, body.
const REQUESTS: [(&str, &[(&str, &str)], &str); 16] = [
    ("/write?db=a&precision=ms", &[], "cpu,host=h1 usage=1.5,n=2i 1700000000000\ncpu,host=h2 usage=2 1700000000001"),
    ("/write?db=a&precision=ms", &[], "cpu,host=h1 usage=2.5 1700000000002\nnonsense\ncpu,host=h1 usage=\"x\" 1"),
    ("/write?db=a&precision=ms&no_sync=true", &[], "cpu,host=h1 usage=3.5 1700000000003"),
    ("/write", &[], "cpu v=1"),
    ("/write?db=a&precision=hours", &[], "cpu v=1"),
    ("/api/v2/write?bucket=a/autogen&precision=s", &[], "cpu,host=h3 usage=4 1700000004"),
    ("/api/v2/write?bucket=a&precision=s", &[], "cpu,host=h3 usage=\"four\" 1700000004"),
    ("/api/put?db=a", &[], "{\"metric\":\"temp\",\"timestamp\":1700000000,\"value\":21.5,\"tags\":{\"room\":\"x\"}}"),
    ("/api/put?db=a&details", &[], "[{\"metric\":\"temp\",\"timestamp\":1700000001,\"value\":\"warm\",\"tags\":{}}]"),
    ("/rest/sql", &[], "create database w precision 'ms'"),
    ("/rest/sql", &[], "create database w precision 'ms'"),
    ("/rest/sql/w", &[], "create stable m (ts timestamp, v int) tags (site int)"),
    ("/rest/sql/w", &[], "insert into d1 using m tags (1) values (1700000000000, 1) (1700000000001, 2)"),
    ("/rest/sql", &[("database", "w")], "insert into d1 values (1700000000002, 3)"),
    ("/rest/sql/w", &[], "insert into nowhere values (1, 1)"),
    ("/query?q=create+database+made", &[], ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn a_function_answers_every_write_as_the_server_does() {
    let Some(s3) = S3Server::start() else { return };
    let server = Server::start_with(&s3.root("server"), ["--max-staleness", "0s"], &s3.environment());
    let http = Http::new(&server.url());
    let mut function = start("ingest-http", 512, &over(&s3, "function", &[])).await;
    for (target, headers, body) in REQUESTS {
        let expected = http.post(target, headers, body).await.unwrap();
        let found = post(&mut function, target, headers, body).await;
        assert_eq!((found.status, found.text()), (expected.status, expected.body.clone()), "{target}: {body}");
        let is_written = expected.token.is_some() || target.contains("no_sync");
        assert_eq!(found.token().is_some(), is_written, "{target}: {body}: a function acknowledges from the store");
    }
    let ping = function.http("GET", "/ping", &[], b"").await.unwrap();
    assert_eq!((ping.status, ping.headers.contains_key("x-influxdb-version")), (204, true));
    for sql in ["select 1", "inzert into d1 values (1, 1)"] {
        let refused = post(&mut function, "/rest/sql", &[], sql).await.json().unwrap();
        assert!(refused["code"] != 0 && refused["desc"].as_str().unwrap().contains("query endpoint"), "{refused}");
    }

    // Both roots have the same content, read by the binary and by the query function.
    let other = Server::start_with(&s3.root("function"), ["--max-staleness", "0s"], &s3.environment());
    let other = Http::new(&other.url());
    let mut reader = start("query-http", 1_024, &over(&s3, "function", &[("TIDELAKE_MAX_STALENESS", "0s")])).await;
    for sql in [
        "select host, ts, usage, n from a.cpu order by host, ts",
        "select * from a.temp order by ts",
        "select tbname, ts, v from w.m order by ts",
    ] {
        let expected = http.post("/rest/sql", &[], sql).await.unwrap();
        let same = other.post("/rest/sql", &[], sql).await.unwrap();
        let found = post(&mut reader, "/rest/sql", &[], sql).await;
        let answer = found.json().unwrap();
        assert!(answer["code"] == 0 && answer["rows"].as_u64() > Some(0), "{sql}: {answer}");
        assert_eq!(
            (same.body.as_str(), found.text().as_str()),
            (expected.body.as_str(), expected.body.as_str()),
            "{sql}"
        );
    }
    let refused = post(&mut reader, "/rest/sql/w", &[], "insert into d1 values (1, 1)").await.json().unwrap();
    assert!(refused["desc"].as_str().unwrap().contains("only reads"), "{refused}");
}

/// An event of SQS with these messages.
fn sqs(messages: &[(&str, &str)]) -> Value {
    let records = messages.iter().map(|(id, body)| {
        json!({
            "messageId": id, "receiptHandle": "h", "body": body, "attributes": {"ApproximateReceiveCount": "1"},
            "messageAttributes": {}, "md5OfBody": "", "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:us-east-1:000000000000:rows", "awsRegion": "us-east-1"
        })
    });
    json!({ "Records": records.collect::<Vec<_>>() })
}

fn failures(outcome: Outcome) -> Vec<String> {
    let Outcome::Answered(bytes) = outcome else { panic!("{outcome:?}") };
    let reply: Value = serde_json::from_slice(&bytes).unwrap();
    let items = reply["batchItemFailures"].as_array().unwrap().iter();
    items.map(|item| item["itemIdentifier"].as_str().unwrap().to_owned()).collect()
}

/// The single value of a statement, from the query function.
async fn value(reader: &mut Function, sql: &str) -> Value {
    let reply = post(reader, "/rest/sql", &[], sql).await.json().unwrap();
    assert_eq!(reply["code"], 0, "{sql}: {reply}");
    reply["data"][0][0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_comes_again_changes_what_was_overwritten_only_without_dedup() {
    let Some(s3) = S3Server::start() else { return };
    for (dedup, expected) in [("false", 1.0), ("true", 2.0)] {
        let more = [("TIDELAKE_QUEUE_DATABASE", "q"), ("TIDELAKE_QUEUE_PRECISION", "ms"), ("TIDELAKE_DEDUP", dedup)];
        let settings = over(&s3, dedup, &more);
        let mut queue = start("ingest-queue", 512, &settings).await;
        let mut reader = start("query-http", 512, &over(&s3, dedup, &[("TIDELAKE_MAX_STALENESS", "0s")])).await;
        let (a, b) = (sqs(&[("a", "m v=1 1700000000000")]), sqs(&[("b", "m v=2 1700000000000")]));
        assert!(failures(queue.invoke(&a).await.unwrap()).is_empty());
        // Redelivered at once: no effect.
        assert!(failures(queue.invoke(&a).await.unwrap()).is_empty());
        assert_eq!(value(&mut reader, "select v from q.m").await, 1.0);
        assert!(failures(queue.invoke(&b).await.unwrap()).is_empty());
        assert_eq!(value(&mut reader, "select v from q.m").await, 2.0);
        // Redelivered in another environment after its rows were overwritten.
        let mut other = start("ingest-queue", 512, &settings).await;
        assert!(failures(other.invoke(&a).await.unwrap()).is_empty());
        assert_eq!(value(&mut reader, "select v from q.m").await, expected, "dedup {dedup}");
        assert_eq!(value(&mut reader, "select count(*) from q.m").await, 1);
        let poison = sqs(&[("good", "m v=3 1700000000003"), ("bad", "m v="), ("fine", "m v=4 1700000000004")]);
        assert_eq!(failures(queue.invoke(&poison).await.unwrap()), ["bad"]);
        assert_eq!(value(&mut reader, "select count(*) from q.m").await, 3);
    }
}

/// Documents that the platform's trace daemon receives until an invocation has been answered.
fn traced(daemon: &UdpSocket) -> Vec<Value> {
    let (mut buffer, mut documents) = (vec![0; 65_536], Vec::new());
    while let Ok(n) = daemon.recv(&mut buffer) {
        let text = std::str::from_utf8(&buffer[..n]).unwrap();
        documents.push(serde_json::from_str(text.split_once('\n').unwrap().1).unwrap());
    }
    documents
}

#[tokio::test(flavor = "multi_thread")]
async fn the_platforms_trace_shows_the_steps_of_an_invocation_and_each_request_to_the_store() {
    let Some(s3) = S3Server::start() else { return };
    let daemon = UdpSocket::bind("127.0.0.1:0").unwrap();
    daemon.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let address = daemon.local_addr().unwrap().to_string();
    let settings = over(&s3, "traced", &[("AWS_XRAY_DAEMON_ADDRESS", &address), ("TIDELAKE_MAX_STALENESS", "0s")]);
    let mut writer = start("ingest-http", 512, &settings).await;
    let mut reader = start("query-http", 512, &settings).await;
    let mut compact = start("compact", 512, &settings).await;
    let is_put_to = |document: &Value, under: &str| {
        let key = document["annotations"]["key"].as_str().unwrap_or_default();
        document["aws"]["operation"] == "PutObject" && key.starts_with(under)
    };
    let line = "cpu,host=h1 secret=1.5 1700000000000";
    for is_first in [true, false] {
        assert_eq!(post(&mut writer, "/write?db=a&precision=ms", &[], line).await.status, 204);
        let documents = traced(&daemon);
        let segment = documents.iter().find(|d| d["name"] == "segment").unwrap_or_else(|| panic!("{documents:?}"));
        assert_eq!(segment["parent_id"], "53995c3f42cd8ad8");
        assert_eq!(segment["annotations"], json!({"rows": 1}));
        let put = documents.iter().filter(|d| is_put_to(d, "log/")).collect::<Vec<_>>();
        let [put] = put.as_slice() else { panic!("one segment is one PUT: {documents:?}") };
        assert_eq!((&put["parent_id"], &put["name"]), (&segment["id"], &json!("S3")));
        let commits = documents.iter().filter(|d| is_put_to(d, "meta/")).count();
        assert_eq!(commits > 0, is_first, "a new table is a commit: {documents:?}");
        for document in &documents {
            assert_eq!(document["trace_id"], "1-5bef4de7-ad49b0e87f6ef6c87fc2e700");
            assert!(document["start_time"].as_f64() <= document["end_time"].as_f64(), "{document}");
            assert_eq!(document["fault"], Value::Null, "{document}");
        }
        assert!(!format!("{documents:?}").contains("secret"), "rows are not in traces");
    }
    assert_eq!(value(&mut reader, "select count(secret) from a.cpu").await, 1);
    let documents = traced(&daemon);
    for name in ["snapshot", "plan", "query"] {
        assert!(documents.iter().any(|d| d["name"] == name), "{name}: {documents:?}");
    }
    assert!(!format!("{documents:?}").contains("secret"), "statements are not in traces");
    // A fold skips segments younger than its margin.
    tokio::time::sleep(Duration::from_secs(6)).await;
    let Outcome::Answered(done) = compact.invoke(&json!({"task": "fold"})).await.unwrap() else { panic!() };
    let documents = traced(&daemon);
    let fold = documents.iter().find(|d| d["name"] == "fold").unwrap_or_else(|| panic!("{done:?}: {documents:?}"));
    let file = documents.iter().find(|d| is_put_to(d, "data/")).unwrap_or_else(|| panic!("{documents:?}"));
    assert_eq!(file["parent_id"], fold["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_functions_wrote_is_folded_and_merged_by_a_function_and_read_by_all() {
    let Some(s3) = S3Server::start() else { return };
    let mut writers = Vec::new();
    for _ in 0..2 {
        writers.push(start("ingest-http", 256, &over(&s3, "w", &[])).await);
    }
    for round in 0..10 {
        for (i, writer) in writers.iter_mut().enumerate() {
            let lines: String =
                (0..100).map(|n| format!("m,host=h{i} v={n}i {}\n", 1_700_000_000_000_u64 + round * 100 + n)).collect();
            assert_eq!(post(writer, "/write?db=d&precision=ms", &[], &lines).await.status, 204);
        }
    }
    let mut reader = start("query-http", 512, &over(&s3, "w", &[("TIDELAKE_MAX_STALENESS", "0s")])).await;
    let sums = "select concat(cast(count(*) as varchar), ' ', cast(sum(v) as varchar)) from d.m";
    let expected = json!(format!("2000 {}", 20 * 99 * 100 / 2));
    assert_eq!(value(&mut reader, sums).await, expected);

    // A fold skips segments younger than five seconds.
    tokio::time::sleep(std::time::Duration::from_secs(6)).await;
    let mut compact = start("compact", 512, &over(&s3, "w", &[])).await;
    let done = match compact.invoke(&json!({"task": "compact"})).await.unwrap() {
        Outcome::Answered(bytes) => serde_json::from_slice::<Value>(&bytes).unwrap(),
        outcome => panic!("{outcome:?}"),
    };
    assert_eq!(
        (&done["segments"], &done["folded_rows"], &done["has_more"]),
        (&json!(20), &json!(2_000), &json!(false))
    );
    assert_eq!(value(&mut reader, sums).await, expected);
    let failed = compact.invoke(&json!({"task": "shrink"})).await.unwrap();
    assert!(matches!(&failed, Outcome::Failed(error) if error.to_string().contains("sweep")), "{failed:?}");

    let server = Server::start_with(&s3.root("w"), [] as [&str; 0], &s3.environment());
    assert_eq!(Http::new(&server.url()).sql(sums).await, [[expected]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_to_hand_on_is_behind_a_link_or_streamed() {
    let Some(s3) = S3Server::start() else { return };
    let mut writer = start("ingest-http", 512, &over(&s3, "large", &[])).await;
    const ROWS: u64 = 120_000;
    for part in 0..4 {
        let rows = (part * ROWS / 4)..((part + 1) * ROWS / 4);
        let lines: String = rows.map(|n| format!("m,host=h{} v={n}i {}\n", n % 7, 1_700_000_000_000_u64 + n)).collect();
        assert_eq!(post(&mut writer, "/write?db=d&precision=ms", &[], &lines).await.status, 204);
    }
    let fresh = ("TIDELAKE_MAX_STALENESS", "0s");
    let mut reader = start("query-http", 512, &over(&s3, "large", &[fresh])).await;
    let sql = "select host, v, 'a text that is the same in each row, and makes the answer larger' as filler from d.m";
    let reply = post(&mut reader, "/rest/sql", &[], sql).await;
    assert_eq!(reply.status, 303, "{}", reply.text());
    let told = reply.json().unwrap();
    assert_eq!(told["location"], reply.headers["location"]);
    let linked = reqwest::get(&reply.headers["location"]).await.unwrap();
    assert_eq!((linked.status().as_u16(), linked.content_length()), (200, told["bytes"].as_u64()));
    let linked = linked.text().await.unwrap();

    let mut streaming = start("query-http", 512, &over(&s3, "large", &[fresh, ("TIDELAKE_RESPONSE", "stream")])).await;
    let streamed = post(&mut streaming, "/rest/sql", &[], sql).await;
    assert_eq!(streamed.status, 200);
    for text in [linked, streamed.text()] {
        let answer: Value = serde_json::from_str(&text).unwrap();
        let mut found: Vec<(u64, String)> = Vec::new();
        for row in answer["data"].as_array().unwrap() {
            found.push((row[1].as_u64().unwrap(), row[0].as_str().unwrap().to_owned()));
        }
        found.sort_unstable();
        let expected: Vec<(u64, String)> = (0..ROWS).map(|n| (n, format!("h{}", n % 7))).collect();
        assert!(found == expected, "{} rows", found.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_function_without_settings_says_what_it_lacks() {
    for name in ["ingest-http", "ingest-queue", "compact", "query-http"] {
        let output = std::process::Command::new(program(name))
            .env_clear()
            .env("TIDELAKE_AUTO_CREATE_DATABASE", "perhaps")
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains("TIDELAKE_STORE"), "{name}: {told}");
    }
}
