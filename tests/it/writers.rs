//! Two concurrent writer processes on one root and supertable.

use serde_json::json;
use tidelake_tests::{Flight, Http, S3Server, Server};

/// Number of requests per writer, and of rows per request.
const REQUESTS: usize = 40;
const ROWS: usize = 250;

/// Each process writes its own series and, alternately, the same rows of a shared series.
async fn two_writers(store: &str, environment: &[(&str, String)]) {
    let servers: Vec<_> =
        (0..2).map(|_| Server::start_with(store, ["--fold-interval", "500ms"], environment)).collect();
    // Both create database and table concurrently: one commits, both succeed.
    let writers = servers.iter().enumerate().map(|(number, server)| {
        let http = Http::new(&server.url());
        tokio::spawn(async move {
            for request in 0..REQUESTS {
                let mut body = String::new();
                for row in 0..ROWS {
                    let ts = (request * ROWS + row) as i64;
                    let n = request * ROWS + row;
                    body.push_str(&format!("m,host=w{number} value={n}i {ts}\nm,host=shared value={n}i {ts}\n"));
                }
                let reply = http.post("/write?db=two&precision=ms", &[], body).await.unwrap();
                assert_eq!(reply.status, 204, "{}", reply.body);
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let n = (REQUESTS * ROWS) as i64;
    let expected = ["shared", "w0", "w1"].map(|host| vec![json!(host), json!(n), json!(n * (n - 1) / 2)]);
    let sql = "select host, count(value), sum(value) from two.m group by host order by host";
    // A query without a token may be stale by `max_staleness`: one second on a bucket.
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    for server in &servers {
        assert_eq!(Http::new(&server.url()).sql(sql).await, expected);
    }
    // The same after concurrent compactions by both.
    let compactions = servers.iter().map(|server| {
        let http = Http::new(&server.url());
        tokio::spawn(async move { http.compact("full").await })
    });
    for compaction in compactions.collect::<Vec<_>>() {
        compaction.await.unwrap();
    }
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    for server in &servers {
        assert_eq!(Http::new(&server.url()).sql(sql).await, expected);
        let rows = Flight::connect(&server.url()).await.query("select * from two.m").await.unwrap();
        assert_eq!(rows.num_rows(), 3 * REQUESTS * ROWS);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_on_one_directory_lose_and_double_nothing() {
    let directory = tempfile::tempdir().unwrap();
    two_writers(directory.path().to_str().unwrap(), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_processes_on_one_bucket_lose_and_double_nothing() {
    let Some(s3) = S3Server::start() else { return };
    two_writers(&s3.root("two"), &s3.environment()).await;
}

/// A counter of `/metrics`, summed over its labels.
async fn counter(http: &Http, name: &str) -> f64 {
    let text = http.get("/metrics").await.unwrap().body;
    let values = text.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.rsplit_once(' '));
    values.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "measures a rate, which needs the machine for itself: ./tests/run --long"]
async fn sixteen_processes_write_five_hundred_segments_a_second_and_waste_none() {
    const WRITERS: usize = 16;
    const SECONDS: u64 = 15;
    let Some(s3) = S3Server::start() else { return };
    let (store, environment) = (s3.root("sixteen"), s3.environment());
    let server = || Server::start_with(&store, ["--fold-interval", "1h"], &environment);
    let servers: Vec<_> = (0..WRITERS).map(|_| server()).collect();
    let line = |writer: usize, n: usize| format!("m,host=w{writer} value={n}i {n}");
    for (writer, server) in servers.iter().enumerate() {
        let reply = Http::new(&server.url()).post("/write?db=many&precision=ms", &[], line(writer, 0)).await.unwrap();
        assert_eq!(reply.status, 204, "{}", reply.body);
    }
    let counts = async || {
        let (mut puts, mut segments) = (0.0, 0.0);
        for server in &servers {
            let http = Http::new(&server.url());
            puts += counter(&http, "tidelake_store_requests_total{kind=\"put\"}").await;
            segments += counter(&http, "tidelake_ingest_segments_total").await;
        }
        (puts, segments)
    };
    let before = counts().await;
    let begun = std::time::Instant::now();
    let writers = servers.iter().enumerate().map(|(writer, server)| {
        let http = Http::new(&server.url());
        tokio::spawn(async move {
            let mut sent = 0;
            while begun.elapsed().as_secs() < SECONDS {
                sent += 1;
                let reply = http.post("/write?db=many&precision=ms", &[], line(writer, sent)).await.unwrap();
                assert_eq!(reply.status, 204, "no write fails: {}", reply.body);
            }
            sent
        })
    });
    let mut acknowledged = 0;
    for writer in writers.collect::<Vec<_>>() {
        acknowledged += writer.await.unwrap();
    }
    let rate = acknowledged as f64 / begun.elapsed().as_secs_f64();
    let after = counts().await;
    let (puts, segments) = (after.0 - before.0, after.1 - before.1);
    let wasted = 100.0 * (puts - segments) / segments;
    println!("{acknowledged} acknowledged segments, {rate:.0}/s, {puts} PUTs, {wasted:.2} % of them wasted");
    assert_eq!(segments as usize, acknowledged, "one request a segment");
    assert!(wasted <= 1.0, "{wasted} % of the PUTs were wasted");
    assert!(rate >= 500.0, "{rate} segments/s");
    let found = Http::new(&servers[0].url()).sql("select count(value) from many.m").await;
    assert_eq!(found, vec![vec![json!(acknowledged + WRITERS)]]);
}
