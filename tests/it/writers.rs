//! Two writer processes on one root, at once, on the same supertable.

use serde_json::json;
use tidelake_tests::{Flight, Http, S3Server, Server};

/// Requests of each writer and rows of each request.
const REQUESTS: usize = 40;
const ROWS: usize = 250;

/// Each process writes its own series and, in turns, the same rows of a shared one.
async fn two_writers(store: &str, environment: &[(&str, String)]) {
    let servers: Vec<_> =
        (0..2).map(|_| Server::start_with(store, ["--fold-interval", "500ms"], environment)).collect();
    // Both create the database and the table at once: one wins, both succeed.
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
    for server in &servers {
        assert_eq!(Http::new(&server.url()).sql(sql).await, expected);
    }
    // The same after everything is folded and merged, by both at once.
    let compactions = servers.iter().map(|server| {
        let http = Http::new(&server.url());
        tokio::spawn(async move { http.compact("full").await })
    });
    for compaction in compactions.collect::<Vec<_>>() {
        compaction.await.unwrap();
    }
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
