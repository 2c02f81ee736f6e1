//! The server is killed under load, also during folds and merges: after a restart each acknowledged row is present exactly
//! once.
//!
//! `TIDELAKE_CRASH_ROUNDS` sets the number of kills (`./tests/run --long` uses 200).

use std::{
    ops::Range,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_tests::{Http, S3Server, Server, powerloss, tool};

const CLIENTS: usize = 4;
/// Maximum number of rows per request.
const ROWS: usize = 500;
/// Maximum number of requests per client and round.
const REQUESTS: usize = 20_000;

fn rounds() -> usize {
    std::env::var("TIDELAKE_CRASH_ROUNDS").map_or(4, |n| n.parse().expect("TIDELAKE_CRASH_ROUNDS is a number"))
}

/// A store whose server is killed, and the effect on the store.
struct Scene<'a> {
    store: String,
    environment: Vec<(&'static str, String)>,
    /// Rows of one request.
    rows: usize,
    /// Number of acknowledged rows after which a round ends, with some delay.
    acknowledged: usize,
    /// Called after each kill, before the next start.
    aftermath: Box<dyn Fn() + 'a>,
}

/// Per client, the times of the first rows of the requests acknowledged in a round.
type Acknowledged = Vec<Vec<usize>>;

/// Times of the rows of a round: row r of request q has ts = n = start + q·ROWS + r.
fn span(round: usize) -> Range<usize> {
    round * REQUESTS * ROWS..(round + 1) * REQUESTS * ROWS
}

/// Condition that selects a round's rows: a database created by line protocol has nanosecond precision.
fn within(round: usize) -> String {
    let Range { start, end } = span(round);
    format!("ts >= {start}000000 and ts < {end}000000")
}

/// Loads until enough rows are acknowledged, then kills the server at a random moment, mostly during compaction.
async fn round(scene: &Scene<'_>, round: usize, rng: &mut StdRng) -> Acknowledged {
    let server = Server::start_with(&scene.store, ["--fold-interval", "200ms"], &scene.environment);
    let stop = Arc::new(AtomicBool::new(false));
    let acknowledged = Arc::new(Mutex::new(vec![Vec::new(); CLIENTS]));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|client| {
            let (http, stop, acknowledged) = (Http::new(&server.url()), stop.clone(), acknowledged.clone());
            let rows = scene.rows;
            tokio::spawn(async move {
                for request in 0..REQUESTS {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let first = span(round).start + request * ROWS;
                    let body: String =
                        (first..first + rows).map(|n| format!("k,client={client} n={n}i {n}\n")).collect();
                    match http.post("/write?db=crash&precision=ms", &[], body).await {
                        Ok(reply) if reply.status == 204 => acknowledged.lock().unwrap()[client].push(first),
                        Ok(reply) => panic!("refused: {} {}", reply.status, reply.body),
                        // The server was killed: this request was not acknowledged, and whether it was stored is unknown.
                        Err(_) => return,
                    }
                }
            })
        })
        .collect();
    let sum = || acknowledged.lock().unwrap().iter().map(Vec::len).sum::<usize>() * scene.rows;
    let begun = std::time::Instant::now();
    while sum() < scene.acknowledged {
        assert!(begun.elapsed() < Duration::from_secs(60), "only {} rows acknowledged in a minute", sum());
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // folds run in the background; two of three kills also hit a full merge
    if rng.random_range(0..3) > 0 {
        let http = Http::new(&server.url());
        tokio::spawn(async move { http.post("/api/v1/compact?until=full", &[], "").await });
    }
    tokio::time::sleep(Duration::from_millis(rng.random_range(0..700))).await;
    server.kill();
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    (scene.aftermath)();
    acknowledged.lock().unwrap().clone()
}

/// Checks that every acknowledged row of a round is present and none twice; returns (rows, sum of n) per client with rows.
async fn all_there(http: &Http, round: usize, rows: usize, acknowledged: &Acknowledged) -> Vec<(i64, i64)> {
    let mut there = Vec::new();
    for (client, requests) in acknowledged.iter().enumerate() {
        let sql = format!("select n from crash.k where client='{client}' and {} order by n", within(round));
        let found: Vec<i64> = http.sql(&sql).await.iter().map(|row| row[0].as_i64().unwrap()).collect();
        assert!(found.windows(2).all(|w| w[0] < w[1]), "round {round}: a row of client {client} is there twice");
        for n in requests.iter().flat_map(|first| (*first..first + rows).map(|n| n as i64)) {
            assert!(found.binary_search(&n).is_ok(), "round {round}: acknowledged row {n} of client {client} is lost");
        }
        if !found.is_empty() {
            there.push((found.len() as i64, found.iter().sum()));
        }
    }
    there
}

/// (rows, sum of n) per client with rows in a round.
async fn totals(http: &Http, round: usize) -> Vec<(i64, i64)> {
    let sql = "select client, count(n), sum(n) from crash.k";
    let sql = format!("{sql} where {} group by client order by client", within(round));
    let number = |value: &serde_json::Value| value.as_i64().or_else(|| value.as_str()?.parse().ok()).unwrap();
    http.sql(&sql).await.iter().map(|row| (number(&row[1]), number(&row[2]))).collect()
}

async fn dies_again_and_again(scene: Scene<'_>) {
    let seed = std::env::var("TIDELAKE_CRASH_SEED").map_or(1, |s| s.parse().expect("TIDELAKE_CRASH_SEED is a number"));
    let mut rng = StdRng::seed_from_u64(seed);
    let mut history: Vec<Vec<(i64, i64)>> = Vec::new();
    for at in 0..rounds() {
        let acknowledged = round(&scene, at, &mut rng).await;
        let server = Server::start_with(&scene.store, ["--fold-interval", "200ms"], &scene.environment);
        let http = Http::new(&server.url());
        history.push(all_there(&http, at, scene.rows, &acknowledged).await);
        for (round, there) in history.iter().enumerate() {
            assert_eq!(
                totals(&http, round).await,
                *there,
                "round {round} is another one after the death of round {at}"
            );
        }
        server.kill();
        (scene.aftermath)();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_rows_survive_kill_9_on_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let store = directory.path().to_str().unwrap().to_owned();
    dies_again_and_again(Scene {
        store,
        environment: Vec::new(),
        rows: ROWS,
        acknowledged: 10_000,
        aftermath: Box::new(|| ()),
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_rows_survive_kill_9_on_a_bucket() {
    let Some(s3) = S3Server::start() else { return };
    let (store, environment) = (s3.root("crash"), s3.environment());
    dies_again_and_again(Scene { store, environment, rows: ROWS, acknowledged: 10_000, aftermath: Box::new(|| ()) })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_rows_survive_a_loss_of_power() {
    loses_power_again_and_again(ROWS, 10_000).await;
}

/// Enough requests that their segments are synced through a journal, if the file system supports one.
#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_rows_of_many_small_requests_survive_a_loss_of_power() {
    let journals = loses_power_again_and_again(1, 1_000).await;
    let mut stat = std::process::Command::new("stat");
    let kind = stat.args(["--file-system", "--format=%T"]).arg(std::env::temp_dir()).output().unwrap();
    let kind = String::from_utf8_lossy(&kind.stdout);
    assert!(journals > 0 || !(kind.contains("ext") || kind.contains("xfs")), "no journal was left behind on {kind}");
}

/// Returns the number of journal files left by the power losses.
async fn loses_power_again_and_again(rows: usize, acknowledged: usize) -> usize {
    let Some(library) = tool("TIDELAKE_POWERLOSS") else { return usize::MAX };
    let all = tempfile::tempdir().unwrap();
    let [root, journal, left] = ["root", "journal", "left"].map(|name| all.path().join(name));
    for directory in [&root, &journal] {
        std::fs::create_dir(directory).unwrap();
    }
    let journals = AtomicUsize::new(0);
    // unsynced data is lost; the rest becomes the new root and is durable
    let aftermath = || {
        powerloss::restore(&journal, &root, &left).unwrap();
        std::fs::remove_dir_all(&root).unwrap();
        std::fs::remove_dir_all(&journal).unwrap();
        std::fs::rename(&left, &root).unwrap();
        let found = std::fs::read_dir(root.join("log/.journal")).map_or(0, Iterator::count);
        journals.fetch_add(found, Ordering::Relaxed);
        std::fs::create_dir(&journal).unwrap();
        powerloss::seed(&journal, &root).unwrap();
    };
    let text = |path: &Path| path.to_str().unwrap().to_owned();
    let environment = vec![("LD_PRELOAD", library), (powerloss::JOURNAL, text(&journal))];
    let store = text(&root);
    dies_again_and_again(Scene { store, environment, rows, acknowledged, aftermath: Box::new(aftermath) }).await;
    journals.into_inner()
}
