//! State that an environment of the query function keeps between invocations, and resources it may use.

use std::sync::Arc;

use tidelake_loadtest::distant::{self, Distance, Passed};
use tokio::net::TcpListener;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_warm_query_function_asks_the_store_for_nothing_but_what_is_new() {
    let Some(s3) = S3Server::start() else { return };
    let server = Server::start_with(&s3.root("warm"), ["--max-staleness", "0s"], &s3.environment());
    let http = Http::new(&server.url());
    for part in 0..3 {
        let lines: String = (0..500)
            .map(|n| format!("m,host=h{} v={n}i {}\n", n % 5, 1_700_000_000_000_u64 + part * 500 + n))
            .collect();
        assert_eq!(http.post("/write?db=d&precision=ms", &[], lines).await.unwrap().status, 204);
    }
    // A fold skips segments younger than its margin.
    tokio::time::sleep(Duration::from_millis(6_500)).await;
    http.compact("full").await;

    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (passed, to) = (Arc::new(Passed::default()), s3.address());
    let counted = passed.clone();
    let near = Distance { median: Duration::from_micros(100), p99: Duration::from_micros(200), ..Distance::default() };
    let proxy = tokio::spawn(async move { distant::serve(listener, &to, near, 1, counted).await });
    let sql = "select concat(cast(count(*) as varchar), ' ', cast(sum(v) as varchar)) from d.m where host = 'h1'";
    let expected = json!(format!("300 {}", 3 * (0..100).map(|n| 5 * n + 1).sum::<u64>()));
    for (staleness, most) in [("1h", 0), ("0s", 2)] {
        let settings = [("AWS_ENDPOINT_URL", endpoint.as_str()), ("TIDELAKE_MAX_STALENESS", staleness)];
        let mut reader = start("query-http", 512, &over(&s3, "warm", &settings)).await;
        assert_eq!(value(&mut reader, sql).await, expected);
        for _ in 0..5 {
            let before = passed.requests();
            assert_eq!(value(&mut reader, sql).await, expected);
            let asked = passed.requests() - before;
            // Requests for a newer version and for new log segments.
            assert!(asked <= most, "{asked} requests of a warm function, {staleness} behind at most");
        }
        if staleness == "0s" {
            let line = "m,host=h1 v=1000i 1800000000000";
            assert_eq!(http.post("/write?db=d&precision=ms", &[], line).await.unwrap().status, 204);
            let newer = json!(format!("301 {}", 1_000 + 3 * (0..100).map(|n| 5 * n + 1).sum::<u64>()));
            assert_eq!(value(&mut reader, sql).await, newer);
        }
    }
    proxy.abort();
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_function_spills_what_does_not_fit_into_its_memory() {
    const ROWS: u64 = 2_000_000;
    let Some(s3) = S3Server::start() else { return };
    let mut writer = start("ingest-http", 256, &over(&s3, "spill", &[])).await;
    assert_eq!(post(&mut writer, "/write?db=d&precision=ms", &[], "m v=1i 1700000000000").await.status, 204);
    let mut reader = start("query-http", 256, &over(&s3, "spill", &[("TIDELAKE_QUERY_MEMORY", "64MiB")])).await;
    let sql = format!(
        "select max(r) from (select row_number() over (order by md5(cast(value as varchar))) as r \
         from generate_series(1, {ROWS}))"
    );
    assert_eq!(value(&mut reader, &sql).await, json!(ROWS));
    let plan = post(&mut reader, "/rest/sql", &[], &format!("explain analyze {sql}")).await.text();
    let spilled = plan.split("spill_count=").skip(1).any(|rest| !rest.starts_with('0'));
    assert!(spilled, "{plan}");
}
