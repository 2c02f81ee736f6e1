//! Costs of writing and snapshots in store requests, and the time that many concurrent processes take.

#![allow(clippy::unwrap_used)]

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures::future::join_all;
use parking_lot::Mutex;
use tidelake_format::{
    meta::Root,
    snapshot::{SnapshotOptions, SnapshotReader},
    store::{
        Ambient, Store, StoreCounters, System,
        faults::{Fault, round_trips},
    },
};
use tokio::time::Instant;

use crate::{
    config::IngestConfig,
    decode::line_protocol::LinePrecision,
    testing::{config, nano, open, rows},
    write::{Durability, Ingest},
};

/// A wall clock that a test advances: ages are the larger of both clocks' differences.
#[derive(Debug, Default)]
struct Hands(AtomicI64);

impl Hands {
    fn pass(&self, ms: i64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Ambient for Hands {
    fn wall_ns(&self) -> i64 {
        System.wall_ns() + self.0.load(Ordering::SeqCst) * 1_000_000
    }

    fn random(&self) -> u64 {
        System.random()
    }
}

fn in_memory() -> (Store, Arc<Hands>) {
    let hands = Arc::new(Hands::default());
    (Store::in_memory().with_ambient(hands.clone()), hands)
}

async fn line(ingest: &Ingest, text: String) {
    let body = Bytes::from(text);
    let written = ingest.write_line_protocol("db", body, LinePrecision::Nano, Durability::Stored).await.unwrap();
    assert!(written.rejected.is_empty(), "{written:?}");
}

fn one_writer() -> IngestConfig {
    IngestConfig { writers: Some(1), ..config() }
}

#[tokio::test]
async fn a_batch_is_one_put_and_at_most_one_probe_each_two_seconds() {
    let (store, hands) = in_memory();
    let ingest = nano(&store, one_writer()).await;
    line(&ingest, "cpu value=0 1".to_owned()).await;
    let (before, start) = (store.counters(), hands.wall_ms());
    for i in 0..100 {
        line(&ingest, format!("cpu value={i} {i}")).await;
        hands.pass(100);
    }
    let spent = store.counters().since(&before);
    let probes = (hands.wall_ms() - start) as u64 / 2_000 + 1;
    assert_eq!((spent.put, spent.list, spent.delete, spent.head), (100, 0, 0, 0), "{spent:?}");
    assert!((1..=probes).contains(&spent.get), "{spent:?}, at most {probes} probes");
}

#[tokio::test]
async fn new_versions_cost_one_read_each_up_to_three_then_a_list() {
    let (store, hands) = in_memory();
    let ingest = nano(&store, one_writer()).await;
    let other = open(&store, one_writer()).await;
    line(&ingest, "cpu value=0 1".to_owned()).await;
    for (commits, gets, lists) in [(1, 2, 0), (2, 3, 0), (40, 5, 1)] {
        for i in 0..commits {
            line(&other, format!("t{commits}_{i} value=1 1")).await;
        }
        hands.pass(3_000);
        let before = store.counters();
        line(&ingest, "cpu value=1 2".to_owned()).await;
        let spent = store.counters().since(&before);
        assert_eq!((spent.put, spent.list, spent.head), (1, lists, 0), "{commits}: {spent:?}");
        assert!(spent.get <= gets, "{commits} commits: {spent:?}, at most {gets} reads");
    }
}

#[tokio::test]
async fn a_commit_is_one_put_and_reads_only_when_its_base_is_stale() {
    let store = Store::in_memory();
    let ingest = nano(&store, one_writer()).await;
    let (a, b) = (ingest.root().clone(), Root::open(store.clone()).await.unwrap());
    let spent = |before: &StoreCounters| store.counters().since(before);
    let before = store.counters();
    a.commit(&[], |draft| Ok(draft.renew())).await.unwrap();
    assert_eq!(spent(&before).requests(), 1);
    // The base of `b` is one version behind: its PUT is refused, it reads the existing version and newer ones, and puts again.
    let before = store.counters();
    b.commit(&[], |draft| Ok(draft.renew())).await.unwrap();
    let stale = spent(&before);
    assert_eq!((stale.put, stale.list), (2, 0), "{stale:?}");
    assert!(stale.get <= 3, "{stale:?}");
}

#[tokio::test]
async fn a_cold_snapshot_over_a_thousand_segments_takes_four_round_trips_and_a_fresh_one_is_free() {
    const TRIP: Duration = Duration::from_millis(1_500);
    let (store, hands) = in_memory();
    let ingest = nano(&store, one_writer()).await;
    for i in 0..1_000 {
        line(&ingest, format!("cpu value={i} {i}")).await;
    }
    let starts = Arc::new(Mutex::new(Vec::new()));
    let seen = starts.clone();
    let late = store.with_faults(move |_| {
        seen.lock().push(Instant::now());
        Fault::Late(TRIP)
    });
    let root = Root::open(late.clone()).await.unwrap();
    let options = SnapshotOptions { max_staleness: Some(Duration::from_secs(60)), ..SnapshotOptions::default() };
    let reader = SnapshotReader::new(root, options);
    let snapshot = reader.snapshot(&[]).await.unwrap();
    assert_eq!(snapshot.tail.len(), 1_000);
    let starts: Vec<_> = starts.lock().iter().map(|at| at.into_std()).collect();
    assert!(starts.len() > 1_000);
    let trips = round_trips(starts, TRIP);
    assert!(trips <= 4, "{trips} round trips one after another");
    let before = late.counters();
    for _ in 0..100 {
        reader.snapshot(&[]).await.unwrap();
    }
    assert_eq!(late.counters().since(&before).requests(), 0);
    // Later one LIST and one probe; no segment is read twice.
    hands.pass(61_000);
    reader.snapshot(&[]).await.unwrap();
    let spent = late.counters().since(&before);
    assert_eq!((spent.list, spent.get, spent.requests()), (1, 1, 2), "{spent:?}");
}

/// Starts this many processes at once, each with its own table or field, and waits for the last reply.
async fn crowd(store: &Store, processes: usize) -> Duration {
    let start = Instant::now();
    let all = (0..processes).map(|i| {
        let store = store.clone();
        tokio::spawn(async move {
            let root = Root::open(store).await.unwrap();
            let ingest = Ingest::open(root, one_writer()).await.unwrap();
            let text = match i % 2 {
                0 => format!("shared f{i}=1 {i}"),
                _ => format!("t{i} value=1 {i}"),
            };
            line(&ingest, text).await;
        })
    });
    join_all(all).await.into_iter().for_each(|ended| ended.unwrap());
    start.elapsed()
}

/// Ten seconds on an otherwise idle machine (`TIDELAKE_IDLE_MACHINE`); elsewhere the same work may have to wait for the
/// processor.
fn limit() -> Duration {
    Duration::from_secs(if std::env::var_os("TIDELAKE_IDLE_MACHINE").is_some() { 10 } else { 120 })
}

#[tokio::test]
async fn a_hundred_functions_that_create_tables_and_fields_at_once_all_succeed() {
    let store = Store::in_memory();
    nano(&store, one_writer()).await;
    let late = store.with_faults(|_| Fault::Late(Duration::from_millis(10)));
    let took = crowd(&late, 100).await;
    assert!(took <= limit(), "{took:?}");
    assert_eq!(rows(&store, "db", "shared", &[]).await.len(), 50);
    for i in (1..100).step_by(2) {
        assert_eq!(rows(&store, "db", &format!("t{i}"), &[]).await.len(), 1);
    }
}

#[tokio::test]
async fn a_hundred_handles_on_a_directory_all_succeed() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
    nano(&store, one_writer()).await;
    let took = crowd(&store, 100).await;
    assert!(took <= limit(), "{took:?}");
    assert_eq!(rows(&store, "db", "shared", &[]).await.len(), 50);
}
