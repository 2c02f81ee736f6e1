//! `kill -9` while rows come in: what was acknowledged is there after a restart.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use tidelake_tests::{Http, S3Server, Server};

const CLIENTS: usize = 4;
const ROWS: usize = 200;
const ROUNDS: usize = 3;

/// Kills the server in the middle of a load, several times, and asks each time for every acknowledged row.
async fn killed_under_load(store: &str, environment: &[(&str, String)]) {
    // (client, number of the request) of every acknowledged request; row r of request n of client c has ts n·ROWS+r.
    let acknowledged = Arc::new(Mutex::new(Vec::<(usize, usize)>::new()));
    for round in 0..ROUNDS {
        let server = Server::start_with(store, ["--fold-interval", "300ms"], environment);
        let stop = Arc::new(AtomicBool::new(false));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (http, stop, acknowledged) = (Http::new(&server.url()), stop.clone(), acknowledged.clone());
                tokio::spawn(async move {
                    for request in (round * 100_000).. {
                        if stop.load(Ordering::Relaxed) {
                            return;
                        }
                        let mut body = String::new();
                        for row in 0..ROWS {
                            let ts = request * ROWS + row;
                            body.push_str(&format!("k,client={client} n={ts}i {ts}\n"));
                        }
                        match http.post("/write?db=crash&precision=ms", &[], body).await {
                            Ok(reply) if reply.status == 204 => acknowledged.lock().unwrap().push((client, request)),
                            Ok(reply) => panic!("refused: {} {}", reply.status, reply.body),
                            // The server is gone: whether this request was stored is unknown, and it was not acknowledged.
                            Err(_) => return,
                        }
                    }
                })
            })
            .collect();
        // Long enough for folds to be under way.
        tokio::time::sleep(std::time::Duration::from_millis(3_500)).await;
        server.kill();
        stop.store(true, Ordering::Relaxed);
        for client in clients {
            client.await.unwrap();
        }
        let server = Server::start_with(store, ["--fold-interval", "300ms"], environment);
        let so_far = acknowledged.lock().unwrap().clone();
        assert_all_there(&server, &so_far).await;
        server.kill();
    }
    assert!(acknowledged.lock().unwrap().len() * ROWS > 10_000, "the load was too small to show anything");
}

async fn assert_all_there(server: &Server, acknowledged: &[(usize, usize)]) {
    let http = Http::new(&server.url());
    for client in 0..CLIENTS {
        let sql = format!("select n from crash.k where client='{client}' order by n");
        let found: Vec<i64> = http.sql(&sql).await.iter().map(|row| row[0].as_i64().unwrap()).collect();
        assert!(found.windows(2).all(|w| w[0] < w[1]), "a row of client {client} is there twice");
        for request in acknowledged.iter().filter(|(c, _)| *c == client).map(|(_, request)| request) {
            for row in 0..ROWS {
                let n = (request * ROWS + row) as i64;
                assert!(found.binary_search(&n).is_ok(), "acknowledged row {n} of client {client} is lost");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_rows_survive_kill_9_on_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    killed_under_load(directory.path().to_str().unwrap(), &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_rows_survive_kill_9_on_a_bucket() {
    let Some(s3) = S3Server::start() else { return };
    killed_under_load(&s3.root("crash"), &s3.environment()).await;
}
