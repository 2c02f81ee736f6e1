//! Figures of a server: `/metrics`, `GET /api/v1/node`, its events, `tidelake status`, and the names that rules and dashboards use.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use tidelake_tests::{Http, Server, process};

/// The values of a metric by its labels, as text.
fn values(metrics: &str, name: &str) -> BTreeMap<String, f64> {
    let lines = metrics.lines().filter(|line| !line.starts_with('#'));
    let series = lines.filter_map(|line| line.rsplit_once(' '));
    let of_name = series.filter(|(series, _)| series.split('{').next() == Some(name));
    of_name.map(|(series, value)| (series[name.len()..].to_owned(), value.parse().unwrap())).collect()
}

fn sum(metrics: &str, name: &str) -> f64 {
    values(metrics, name).values().sum()
}

/// Names of metrics in a text, without the suffixes of a histogram's series.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let ours = words.filter(|word| word.starts_with("tidelake_") || word.starts_with("process_"));
    ours.map(|word| word.trim_end_matches("_bucket").to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_written_and_asked_is_what_the_figures_say() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ["--fold-interval", "1h"]);
    let http = Http::new(&server.url());
    let lines: String = (0..30).map(|n| format!("cpu,host=h{} v={n} {}\n", n % 3, 1_700_000_000_000_u64 + n)).collect();
    assert_eq!(http.post("/write?db=d&precision=ms", &[], lines).await.unwrap().status, 204);
    assert_eq!(
        http.post("/write?db=d&precision=ms", &[], "cpu,host=a v=1 1700000000000\ncpu v=\n").await.unwrap().status,
        400
    );
    let point = r#"{"metric":"m","timestamp":1700000000,"value":1,"tags":{"k":"a"}}"#;
    assert_eq!(http.post("/opentsdb/v1/put/json/d", &[], point).await.unwrap().status, 204);
    http.rest_sql("create stable d.more (ts timestamp, v int) tags (k int)").await;
    http.rest_sql("insert into d.extra using d.more tags (1) values (1700000000000000000, 1) (1700000001000000000, 2)")
        .await;
    for _ in 0..3 {
        http.rest_sql("select count(*) from d.cpu").await;
    }

    let node = http.get("/api/v1/node").await.unwrap().json();
    assert_eq!(node["ingest"]["rows_total"], 34, "{node}");
    assert_eq!(node["ingest"]["rejected_total"], 1);
    let of_protocol = |name: &str, key: &str| {
        let found = node["protocols"].as_array().unwrap().iter().find(|one| one["protocol"] == name);
        found.map_or(Value::Null, |found| found[key].clone())
    };
    assert_eq!(of_protocol("influxdb", "rows_total"), 31);
    assert_eq!(of_protocol("influxdb", "requests_total"), 2);
    assert_eq!(of_protocol("opentsdb", "rows_total"), 1);
    assert_eq!(of_protocol("sql", "rows_total"), 2);
    let tables = json!([
        {"database": "d", "table": "cpu", "rows_total": 31},
        {"database": "d", "table": "more", "rows_total": 2},
        {"database": "d", "table": "m", "rows_total": 1},
    ]);
    assert_eq!(node["tables"], tables);
    assert!(node["log"]["segments"].as_u64() >= Some(3) && node["files"]["files"] == 0, "{node}");
    assert!(node["queries"]["ended_total"].as_u64() >= Some(3) && node["alarms"] == json!([]), "{node}");

    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    http.compact("full").await;
    tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
    let node = http.get("/api/v1/node").await.unwrap().json();
    assert_eq!((&node["log"]["segments"], &node["log"]["oldest_seconds"]), (&json!(0), &Value::Null), "{node}");
    assert_eq!((&node["files"]["rows"], &node["files"]["tables"]), (&json!(34), &json!(3)), "{node}");
    assert_eq!(node["compaction"]["fold_rows_total"], 34);

    // The same figures as metrics, each with a help text and a type.
    let metrics = http.get("/metrics").await.unwrap().body;
    assert_eq!(sum(&metrics, "tidelake_ingest_rows_total"), 34.0);
    assert_eq!(values(&metrics, "tidelake_table_rows")["{database=\"d\",table=\"cpu\"}"], 31.0);
    assert_eq!(values(&metrics, "tidelake_table_written_rows_total").values().sum::<f64>(), 34.0);
    assert_eq!(sum(&metrics, "tidelake_file_rows"), 34.0);
    assert!(sum(&metrics, "process_resident_memory_bytes") > 1e6, "{metrics}");
    let described = |kind: &str| -> BTreeSet<&str> {
        let lines = metrics.lines().filter_map(|line| line.strip_prefix(kind));
        lines.filter_map(|line| line.trim_start().split(' ').next()).collect()
    };
    let (helped, typed) = (described("# HELP"), described("# TYPE"));
    let unhelped: Vec<_> = typed.difference(&helped).collect();
    assert!(unhelped.is_empty(), "no HELP: {unhelped:?}");
    for line in metrics.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let name = line.split(['{', ' ']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        assert!(typed.contains(name) || typed.contains(family), "no TYPE: {line}");
    }

    // Rules and the dashboard name only metrics that exist; those with labels may have no value yet,
    // and those of the disk cache need the setting.
    let later =
        ["tidelake_compact_failures_total", "tidelake_disk_cache_blocks_total", "tidelake_disk_cache_bytes_total"];
    let known: BTreeSet<String> = typed.iter().copied().chain(later).map(str::to_owned).collect();
    for (file, text) in [
        ("alerts.yaml", include_str!("../../infra/prometheus/alerts.yaml")),
        ("server.json", include_str!("../../infra/grafana/dashboards/server.json")),
    ] {
        let found = names(text);
        assert!(found.len() > 8, "{file}: {found:?}");
        let unknown: Vec<_> = found.difference(&known).collect();
        assert!(unknown.is_empty(), "{file} names unknown metrics: {unknown:?}");
    }

    // Events, and the screen that they make.
    let events = http.get("/api/v1/node/events?count=1").await.unwrap();
    assert_eq!(events.status, 200);
    let (logged, nodes) = events.body.split_once("event: node\ndata: ").unwrap();
    assert!(logged.contains("event: log\ndata: {\"time\":"), "{logged}");
    let told: Value = serde_json::from_str(nodes.lines().next().unwrap()).unwrap();
    assert_eq!(told["ingest"]["rows_total"], 34);
    let screen = process::run(["status", "--url", &server.url()]);
    let text = String::from_utf8_lossy(&screen.stdout).into_owned();
    assert!(screen.status.success(), "{text}");
    for part in
        ["alarms    none", "34 rows, 1 rejected, 0 lost", "3 of 3 tables in 3 partitions", "d.cpu: 0 rows/s, 31 rows"]
    {
        assert!(text.contains(part), "{part:?} in:\n{text}");
    }
    let raw = process::run(["status", "--url", &server.url(), "--json"]);
    assert_eq!(serde_json::from_slice::<Value>(&raw.stdout).unwrap()["ingest"]["rows_total"], 34);
    // Each line is sent to a client that wants its level and its words, and to no other one.
    let logged = |query: &str| {
        let path = format!("/api/v1/node/events?count=1{query}");
        let http = &http;
        async move {
            let body = http.get(&path).await.unwrap().body;
            body.lines().filter(|line| line.starts_with("data: {\"time\":\"") && line.contains("\"target\":")).count()
        }
    };
    let all = logged("&level=trace").await;
    assert!(all > 0);
    assert_eq!(logged("&words=no+line+has+these").await, 0);
    // Only the audit log has this word, and not all lines are of it.
    let (severe, audit) = (logged("&level=WARN").await, logged("&words=TIDELAKE::audit").await);
    assert!(severe < all && audit > 0 && audit < all, "{severe} and {audit} of {all}");
    for (path, words) in [
        ("/api/v1/node/events?count=0", "count=0"),
        ("/api/v1/node/events?n=1", "n"),
        ("/api/v1/node/events?level=loud", "level=loud"),
    ] {
        let reply = http.get(path).await.unwrap();
        assert!(reply.status == 400 && reply.body.contains(words), "{path}: {reply:?}");
    }
    server.stop();
    let silent = process::run(["status", "--url", "http://127.0.0.1:9"]);
    let told = String::from_utf8_lossy(&silent.stderr).into_owned();
    assert!(!silent.status.success() && told.contains("no server answers at http://127.0.0.1:9"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_figures_ends_when_the_server_stops() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), [] as [&str; 0]);
    let mut reply = reqwest::get(format!("{}/api/v1/node/events", server.url())).await.unwrap();
    let first = reply.chunk().await.unwrap();
    assert!(first.is_some());
    server.stop(); // waits for the end of the process
    while let Ok(Some(_)) = reply.chunk().await {}
}
