//! Half an hour of mixed load: memory stays below its limit and does not grow, and no row is lost.
//!
//! `TIDELAKE_SOAK_MINUTES` sets another length.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use tidelake_tests::{Flight, Http, Server};

/// Number of writing clients; each has its own devices.
const WRITERS: usize = 2;
const DEVICES: usize = 500;
/// Rows per request: two per device.
const ROWS: usize = 2 * DEVICES;
/// Interval of a writer's requests: 100 000 rows per second in total.
const PACE: Duration = Duration::from_millis(20);
/// Number of querying clients.
const READERS: usize = 2;
/// Maximum resident memory of the server in MiB, with 128 MiB of buffers, 128 MiB of log and 64 MiB of pages in memory, and 256 MiB
/// for queries.
const LIMIT_MIB: u64 = 1_024;
/// Maximum growth of the median from the second to the last third: a merge is a peak, a leak persists.
const GROWTH: f64 = 1.1;

/// Resident memory of a process, in KiB: (now, peak).
fn resident(process: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Delay in seconds of the rows of one device in a hundred.
const LATE: u64 = 3_600;

/// Sends one request per [`PACE`] until the end; counts the acknowledged ones.
async fn write(http: Http, writer: usize, end: Instant, requests: Arc<AtomicU64>) {
    let mut pace = tokio::time::interval(PACE);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    for request in 0_u64.. {
        pace.tick().await;
        if Instant::now() > end {
            return;
        }
        let mut body = String::with_capacity(ROWS * 64);
        for row in 0..ROWS {
            let (device, ts) = (writer * DEVICES + row % DEVICES, request * 2 + (row / DEVICES) as u64);
            let ts = if row % 100 == 99 { ts.saturating_sub(LATE) } else { ts };
            body.push_str(&format!("d,dev=d{device},site=s{} a={}i,b={}.5 {ts}\n", device % 10, row % 7, ts % 50));
        }
        if request % 500 == 250 {
            // invalid lines do not affect the others
            body.push_str("d,dev=x a=notanumber 1\n,,,\n");
        }
        let reply = http.post("/write?db=soak&precision=s", &[], body).await.unwrap();
        let expected = if request % 500 == 250 { 400 } else { 204 };
        assert_eq!(reply.status, expected, "{}", reply.body);
        requests.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs queries in sequence until the end.
async fn read(server: String, reader: usize, end: Instant, asked: Arc<AtomicUsize>) {
    let mut flight = Flight::connect(&server).await;
    let mut at = reader;
    while Instant::now() < end {
        let site = at % 10;
        let statements = [
            "select count(*), min(ts), max(ts) from soak.d".to_owned(),
            "select site, avg(b), max(a) from soak.d group by site order by site".to_owned(),
            format!("select count(a), sum(b) from soak.d where site = 's{site}' interval(1m)"),
            format!("select * from soak.d where dev = 'd{at}' order by ts desc limit 100"),
            format!("select dev, last(a) from soak.d where site = 's{site}' group by dev"),
            format!("select sum(b) from soak.d where site = 's{site}' and a > 3"),
        ];
        let sql = &statements[at % statements.len()];
        flight.query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert!(flight.query("select nothing from soak.d").await.is_err());
        asked.fetch_add(1, Ordering::Relaxed);
        at += 1;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes half an hour: ./tests/run --long"]
async fn half_an_hour_of_mixed_load_stays_within_its_memory() {
    let minutes: u64 = std::env::var("TIDELAKE_SOAK_MINUTES").map_or(30, |m| m.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let buffers = ["--ingest-buffer", "128MiB", "--tail-cache", "128MiB", "--page-cache", "64MiB"];
    let limits = [&buffers[..], &["--query-memory", "256MiB", "--log", "warn"]].concat();
    let server = Server::start(directory.path().to_str().unwrap(), limits);
    let http = Http::new(&server.url());
    let first = http.post("/write?db=soak&precision=s", &[], "d,dev=first,site=s0 a=1i,b=1.5 0").await.unwrap();
    assert_eq!(first.status, 204, "{}", first.body);

    let begun = Instant::now();
    let end = begun + Duration::from_secs(minutes * 60);
    let requests: Vec<_> = (0..WRITERS).map(|_| Arc::new(AtomicU64::new(0))).collect();
    let asked = Arc::new(AtomicUsize::new(0));
    let writers = requests.iter().enumerate().map(|(w, of)| tokio::spawn(write(http.clone(), w, end, of.clone())));
    let readers = (0..READERS).map(|r| tokio::spawn(read(server.url(), r, end, asked.clone())));
    let clients: Vec<_> = writers.chain(readers).collect();
    let mut samples = Vec::new();
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_secs(2)).await;
        samples.push(resident(server.id()).0);
    }
    for client in clients {
        client.await.unwrap();
    }
    let third = samples.len() / 3;
    let median = |samples: &[u64]| {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default() as f64 / 1024.0
    };
    let (middle, last) = (median(&samples[third..2 * third]), median(&samples[2 * third..]));
    let peak = resident(server.id()).1 / 1024;
    let requests: Vec<u64> = requests.iter().map(|of| of.load(Ordering::Relaxed)).collect();
    println!(
        "{} rows and {} queries in {:.0} s; resident {middle:.0} MiB in the second third, {last:.0} MiB in the last \
         (medians), at most {peak} MiB ever",
        requests.iter().sum::<u64>() * ROWS as u64,
        asked.load(Ordering::Relaxed),
        begun.elapsed().as_secs_f64(),
    );
    assert!(peak <= LIMIT_MIB, "{peak} MiB");
    assert!(last <= middle * GROWTH, "memory grows: {middle} MiB, then {last} MiB");
    // each request has two instants per device; those of a late device coincide during its first hour
    let late = DEVICES as u64 / 100;
    let keys = |n: &u64| (DEVICES as u64 - late) * 2 * n + late * (2 * n).saturating_sub(LATE).max(1);
    let found = http.sql("select count(*), count(distinct dev) from soak.d").await;
    let found: Vec<u64> = found[0].iter().map(|v| v.as_u64().unwrap()).collect();
    assert_eq!(found, [1 + requests.iter().map(keys).sum::<u64>(), (WRITERS * DEVICES) as u64 + 1]);
}
