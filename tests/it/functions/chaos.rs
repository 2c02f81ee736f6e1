//! Function environments are killed, frozen, timed out and invoked twice: no acknowledged row is lost or duplicated.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};
use tidelake_loadtest::drive::platform::{Outcome, http_event, http_reply, signal};
use tidelake_tests::{Http, S3Server, Server};
use tokio::sync::mpsc;

use super::{failures, over, post, sqs, start, value};

/// Number of `ingest-http` environments, each with its own client.
const ENVIRONMENTS: usize = 8;
/// Rows of one request.
const ROWS: u64 = 50;
/// Timeout of an invocation.
const TIMEOUT: Duration = Duration::from_millis(2_500);
/// Duration of a temporary freeze.
const STANDSTILL: Duration = Duration::from_millis(200);
const START_MS: u64 = 1_700_000_000_000;

/// Minimum duration of the writes: on a slow machine clients continue until enough events have happened.
fn duration() -> Duration {
    let seconds = std::env::var("TIDELAKE_CHAOS_SECONDS").map_or(20, |text| text.parse().expect("seconds"));
    Duration::from_secs(seconds)
}

/// Maximum additional wait for enough events.
const PATIENCE: Duration = Duration::from_secs(600);

/// Acknowledged state of a client: number of rows of its host, and the token of the last.
struct Acknowledged {
    host: usize,
    rows: u64,
    token: String,
}

/// Counts of events by kind.
#[derive(Debug, Default)]
struct Happened {
    acknowledged: AtomicU64,
    ended: AtomicU64,
    timed_out: AtomicU64,
    again: AtomicU64,
    /// Number of checks of acknowledged rows by the reader.
    looks: AtomicU64,
    folded_rows: AtomicU64,
}

impl Happened {
    /// Whether each kind of event has happened often enough for the test to mean something.
    fn is_enough(&self) -> bool {
        let at_least = |count: &AtomicU64, least| count.load(Relaxed) >= least;
        at_least(&self.acknowledged, 500)
            && at_least(&self.ended, 10)
            && at_least(&self.timed_out, 5)
            && at_least(&self.again, 50)
            && at_least(&self.looks, 50)
            && at_least(&self.folded_rows, 1)
    }
}

/// Disturbs a process during or just after its work.
fn disturb(process: u32, random: &mut StdRng) -> Option<tokio::task::JoinHandle<()>> {
    let act = random.random_range(0..100);
    let delay = Duration::from_micros(random.random_range(0..12_000));
    let signals: &[&str] = match act {
        0..6 => &["KILL"],
        // Frozen until killed by the timeout.
        6..8 => &["STOP"],
        8..14 => &["STOP", "CONT"],
        _ => return None,
    };
    Some(tokio::task::spawn_blocking(move || {
        std::thread::sleep(delay);
        for (number, name) in signals.iter().enumerate() {
            if number > 0 {
                std::thread::sleep(STANDSTILL);
            }
            // It may have ended already.
            let _ = signal(process, name);
        }
    }))
}

/// Writes rows of one host until the end, retrying each request until it is acknowledged; returns their number.
async fn client(
    host: usize,
    settings: Vec<(&'static str, String)>,
    until: Instant,
    happened: Arc<Happened>,
    told: mpsc::Sender<Acknowledged>,
) -> u64 {
    let mut random = StdRng::seed_from_u64(host as u64);
    let mut function = start("ingest-http", 256, &settings).await;
    function.timeout = TIMEOUT;
    let (mut rows, mut before) = (0, None);
    while Instant::now() < until || !happened.is_enough() {
        assert!(Instant::now() < until + PATIENCE, "{happened:?}");
        let lines: String = (rows..rows + ROWS).map(|n| format!("m,host=h{host} v={n}i {}\n", START_MS + n)).collect();
        let event = http_event("POST", "/write?db=chaos&precision=ms", &[], lines.as_bytes());
        let token = loop {
            let disturbed = disturb(function.id(), &mut random);
            let outcome = function.invoke(&event).await.unwrap();
            if let Some(disturbed) = disturbed {
                disturbed.await.unwrap();
            }
            match outcome {
                Outcome::Answered(bytes) => {
                    let reply = http_reply(&bytes).unwrap();
                    assert_eq!(reply.status, 204, "{}", reply.text());
                    break reply.token().unwrap().to_owned();
                }
                // Retry the same rows, as a client without a response does.
                Outcome::Ended => happened.ended.fetch_add(1, Relaxed),
                Outcome::TimedOut => happened.timed_out.fetch_add(1, Relaxed),
                Outcome::Failed(error) => panic!("{error}"),
            };
        };
        rows += ROWS;
        happened.acknowledged.fetch_add(1, Relaxed);
        // The reader checks as many as it can.
        let _ = told.try_send(Acknowledged { host, rows, token });
        if random.random_range(0..10) == 0 {
            // Repeats this or the previous event.
            let again = before.as_ref().filter(|_| random.random_bool(0.5)).unwrap_or(&event);
            function.invoke(again).await.unwrap();
            happened.again.fetch_add(1, Relaxed);
        }
        before = Some(event);
    }
    rows
}

/// Folds as on a schedule, and is sometimes killed meanwhile.
async fn compactor(settings: Vec<(&'static str, String)>, ends: Arc<AtomicBool>, happened: Arc<Happened>) {
    let mut random = StdRng::seed_from_u64(99);
    let mut function = start("compact", 512, &settings).await;
    while !ends.load(Relaxed) {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let process = function.id();
        let delay = Duration::from_millis(random.random_range(0..400));
        let kills = random.random_range(0..4) == 0;
        let killed = tokio::task::spawn_blocking(move || {
            std::thread::sleep(delay);
            kills.then(|| signal(process, "KILL"))
        });
        if let Outcome::Answered(bytes) = function.invoke(&json!({"task": "compact"})).await.unwrap() {
            let folded = serde_json::from_slice::<Value>(&bytes).unwrap()["folded_rows"].as_u64().unwrap();
            happened.folded_rows.fetch_add(folded, Relaxed);
        }
        killed.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn eight_environments_that_die_and_freeze_lose_nothing_and_double_nothing() {
    let Some(s3) = S3Server::start() else { return };
    let (until, happened) = (Instant::now() + duration(), Arc::new(Happened::default()));
    let (told, mut heard) = mpsc::channel(4);
    let mut clients = Vec::new();
    for host in 0..ENVIRONMENTS {
        let settings = over(&s3, "chaos", &[]);
        clients.push(tokio::spawn(client(host, settings, until, Arc::clone(&happened), told.clone())));
    }
    drop(told);
    let ends = Arc::new(AtomicBool::new(false));
    let folding = tokio::spawn(compactor(over(&s3, "chaos", &[]), Arc::clone(&ends), Arc::clone(&happened)));

    // A query with the token sees acknowledged rows at once, although the reader may otherwise be a second behind.
    let mut reader = start("query-http", 512, &over(&s3, "chaos", &[("TIDELAKE_MAX_STALENESS", "1s")])).await;
    while let Some(Acknowledged { host, rows, token }) = heard.recv().await {
        let sql = format!("select count(*) from chaos.m where host = 'h{host}'");
        let reply = post(&mut reader, "/rest/sql", &[("x-tidelake-token", &token)], &sql).await.json().unwrap();
        let found = reply["data"][0][0].as_u64().unwrap_or_else(|| panic!("{sql}: {reply}"));
        assert!(found >= rows, "expected {rows} rows of h{host} at least, found {found}");
        happened.looks.fetch_add(1, Relaxed);
    }
    let mut expected = Vec::new();
    for (host, client) in clients.into_iter().enumerate() {
        let rows = client.await.unwrap();
        // A database created by a write has nanosecond precision.
        let [first, last] = [START_MS, START_MS + rows - 1].map(|ms| ms * 1_000_000);
        expected.push(json!([format!("h{host}"), rows, rows * (rows - 1) / 2, first, last]));
    }
    ends.store(true, Relaxed);
    folding.await.unwrap();
    println!("{happened:?}");

    let sql = "select host, count(*), sum(v), cast(min(ts) as bigint), cast(max(ts) as bigint) from chaos.m \
               group by host order by host";
    let mut reader = start("query-http", 512, &over(&s3, "chaos", &[("TIDELAKE_MAX_STALENESS", "0s")])).await;
    let reply = post(&mut reader, "/rest/sql", &[], sql).await.json().unwrap();
    assert_eq!(reply["data"], json!(expected), "{reply}");
    let server = Server::start_with(&s3.root("chaos"), ["--fold-interval", "1h"], &s3.environment());
    let http = Http::new(&server.url());
    assert_eq!(json!(http.rest_sql(sql).await), json!(expected));
    tokio::time::sleep(Duration::from_secs(6)).await;
    http.compact("full").await;
    assert_eq!(json!(http.rest_sql(sql).await), json!(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_copy_that_was_frozen_at_any_step_changes_nothing_with_dedup() {
    let Some(s3) = S3Server::start() else { return };
    let more = [("TIDELAKE_QUEUE_DATABASE", "q"), ("TIDELAKE_QUEUE_PRECISION", "ms"), ("TIDELAKE_DEDUP", "true")];
    let settings = over(&s3, "frozen", &more);
    let mut reader = start("query-http", 512, &over(&s3, "frozen", &[("TIDELAKE_MAX_STALENESS", "0s")])).await;
    let mut first = start("ingest-queue", 512, &settings).await;
    let mut second = start("ingest-queue", 512, &settings).await;
    let (mut late, mut held_off) = (0, 0);
    const STEPS: u64 = 30;
    for step in 0..STEPS {
        let (a, b) = (format!("m,step=s{step} v=1 {START_MS}"), format!("m,step=s{step} v=2 {START_MS}"));
        let (a, b) = (sqs(&[(&format!("a{step}"), &a)]), sqs(&[(&format!("b{step}"), &b)]));
        let process = first.id();
        let frozen = tokio::task::spawn_blocking(move || {
            std::thread::sleep(Duration::from_micros(step * 300));
            signal(process, "STOP").unwrap();
        });
        let thawed = Arc::new(AtomicBool::new(false));
        let others = async {
            frozen.await.unwrap();
            // The platform times out and redelivers elsewhere; then the rows are overwritten.
            let is_written = failures(second.invoke(&a).await.unwrap()).is_empty();
            if is_written {
                assert!(failures(second.invoke(&b).await.unwrap()).is_empty());
            }
            thawed.store(true, Relaxed);
            signal(process, "CONT").unwrap();
            is_written
        };
        let ended_thawed = async {
            let outcome = first.invoke(&a).await.unwrap();
            assert!(failures(outcome).is_empty());
            thawed.load(Relaxed)
        };
        let (is_written, is_late) = tokio::join!(others, ended_thawed);
        if !is_written {
            // Frozen between its claim and its rows, the first copy blocks the second, which is redelivered.
            held_off += 1;
            assert!(is_late);
            assert!(failures(second.invoke(&a).await.unwrap()).is_empty());
            assert!(failures(second.invoke(&b).await.unwrap()).is_empty());
            assert!(failures(first.invoke(&a).await.unwrap()).is_empty());
        }
        late += u64::from(is_late);
        let sql = format!("select v from q.m where step = 's{step}'");
        assert_eq!(value(&mut reader, &sql).await, 2.0, "frozen after {} us", step * 300);
    }
    println!("{late} of {STEPS} first copies ended after the second, {held_off} of them held it off");
    assert!(late >= 3, "{late} first copies were frozen before they ended");

    tokio::time::sleep(Duration::from_secs(6)).await;
    let mut compact = start("compact", 512, &over(&s3, "frozen", &[])).await;
    let Outcome::Answered(_) = compact.invoke(&json!({"task": "full"})).await.unwrap() else { panic!("not folded") };
    let sums = "select concat(cast(count(*) as varchar), ' ', cast(sum(v) as varchar)) from q.m";
    assert_eq!(value(&mut reader, sums).await, json!(format!("{STEPS} {}.0", 2 * STEPS)));
}
