//! Store requests of a query: their number, the number of dependent round trips, and when the last request begins.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rand::{SeedableRng, rngs::StdRng};
use tidelake_format::{
    snapshot::{SnapshotOptions, SnapshotReader},
    store::faults::{Fault, round_trips},
};

use super::{World, batches, batches_in, lines, session};
use crate::{
    Kind,
    engine::{Engine, EngineConfig},
    session::Session,
    writer::ReadOnlyWriter,
};

/// Duration of every request; much longer than the computation between requests.
const TRIP: Duration = Duration::from_millis(1_500);

#[tokio::test]
async fn a_cold_query_over_a_thousand_segments_takes_four_round_trips_before_its_data() {
    let (mut world, mut rng) = (World::regular().await, StdRng::seed_from_u64(5));
    world.file(&mut rng).await;
    for _ in 0..1_000 {
        world.segment(&mut rng).await;
    }
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    let late = world.root.store().with_faults(move |request| {
        seen.lock().push((Instant::now(), request.key.to_owned()));
        Fault::Late(TRIP)
    });
    let options = SnapshotOptions { max_staleness: Some(Duration::from_secs(600)), ..SnapshotOptions::default() };
    let snapshots = Arc::new(SnapshotReader::open(late, options).await.unwrap());
    let timeout = Duration::from_secs(600);
    let config = EngineConfig {
        memory_bytes: 256 << 20,
        partitions: 1,
        timeout,
        concurrency: 1,
        waiting: 1,
        ..EngineConfig::default()
    };
    let engine = Engine::new(snapshots.root().clone(), snapshots, Arc::new(ReadOnlyWriter), config);
    let sql = "select tbname, cast(ts as bigint), a from t";
    let found = lines(&engine, sql).await;
    assert_eq!(found.len(), world.rows.len());

    let is_data = |key: &String| key.ends_with(".parquet");
    let cold = std::mem::take(&mut *requests.lock());
    let first = cold.iter().filter(|(_, key)| is_data(key)).map(|(start, _)| *start).min().unwrap();
    let before = cold.iter().filter(|(start, key)| *start < first && !is_data(key));
    let trips = round_trips(before.map(|(start, _)| *start).collect(), TRIP);
    assert!(trips <= 4, "{trips} round trips before the data");
    assert!(cold.iter().filter(|(_, key)| key.starts_with("log/")).count() >= 1_000);
    let mut keys: Vec<&String> = cold.iter().map(|(_, key)| key).filter(|key| !is_data(key)).collect();
    keys.sort();
    let asked = keys.len();
    keys.dedup();
    assert_eq!(keys.len(), asked, "only data is requested twice");

    batches(&engine, sql).await.unwrap();
    batches(&engine, "select g, avg(b), count(*) from t where s = 'x' group by g").await.unwrap();
    let warm = requests.lock();
    assert!(warm.iter().all(|(_, key)| is_data(key)), "{warm:?}");
}

/// Reasons why a query stops early.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stop {
    ClientGoes,
    Killed,
    Deadline,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_query_sends_no_requests_after_100_ms() {
    const FILES: usize = 60;
    let (mut world, mut rng) = (World::regular().await, StdRng::seed_from_u64(7));
    for _ in 0..FILES {
        world.file(&mut rng).await;
    }
    let asked = Arc::new(AtomicUsize::new(0));
    let seen = asked.clone();
    let late = world.root.store().with_faults(move |request| {
        seen.fetch_add(1, SeqCst);
        if request.key.ends_with(".parquet") { Fault::Late(Duration::from_millis(50)) } else { Fault::None }
    });
    let fresh = async |timeout| {
        let snapshots = Arc::new(SnapshotReader::open(late.clone(), SnapshotOptions::default()).await.unwrap());
        let config = EngineConfig { timeout, ..EngineConfig::default() };
        Engine::new(snapshots.root().clone(), snapshots, Arc::new(ReadOnlyWriter), config)
    };
    let (long, sql) = (Duration::from_secs(60), "select * from t");
    let engine = fresh(long).await;
    asked.store(0, SeqCst);
    let began = Instant::now();
    batches(&engine, sql).await.unwrap();
    let (all, took) = (asked.load(SeqCst), began.elapsed());

    for stop in [Stop::ClientGoes, Stop::Killed, Stop::Deadline] {
        let engine = fresh(if stop == Stop::Deadline { took / 4 } else { long }).await;
        asked.store(0, SeqCst);
        let session = Session { query_id: Some(engine.query_id()), ..session() };
        let (of, named) = (engine.clone(), session.clone());
        let running = tokio::spawn(async move { batches_in(&of, &named, sql).await });
        if stop != Stop::Deadline {
            tokio::time::sleep(took / 4).await;
        }
        match stop {
            Stop::ClientGoes => running.abort(),
            Stop::Killed => {
                let kill = format!("kill query '{}'", session.query_id.as_deref().unwrap());
                engine.query(&session, &kill).await.unwrap();
            }
            Stop::Deadline => assert_eq!(running.await.unwrap().unwrap_err().kind(), Kind::Unavailable),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        let then = asked.load(SeqCst);
        assert!((1..all).contains(&then), "{stop:?}: {then} requests of {all} before it stopped");
        tokio::time::sleep(took).await;
        assert_eq!(asked.load(SeqCst), then, "{stop:?}");
    }
}
