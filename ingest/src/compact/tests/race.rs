//! Concurrent writes, deletes, drops, folds and merges: every series is as its own client left it.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicBool, Ordering},
};

use futures::future::join_all;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_format::{Kind, store::Store};

use super::DAY;
use crate::{
    compact::CompactRequest,
    testing::{config, open, read},
    write::Ingest,
};

/// Rows of one series: time → value.
type Rows = BTreeMap<i64, i64>;

async fn run(ingest: &Ingest, sql: &str) {
    ingest.execute(Some("db"), sql, None).await.unwrap_or_else(|e| panic!("{e}: {sql}"));
}

/// One client, which waits for each reply: writes, deletes by time, name and tag, and sometimes drops its series.
async fn client(ingest: Ingest, number: i64, seed: u64, with_drops: bool) -> Rows {
    let (mut rng, mut rows) = (StdRng::seed_from_u64(seed), Rows::new());
    for step in 0..25 {
        let (a, b) = (rng.random_range(0..60), rng.random_range(0..60));
        // Two partitions.
        let at = |s: i64| (s % 2) * DAY + s * 1_000;
        match rng.random_range(0..if with_drops { 12 } else { 11 }) {
            0..=6 => {
                let chosen: Vec<i64> = (0..rng.random_range(1..20)).map(|_| at(rng.random_range(0..60))).collect();
                let values: Vec<String> = chosen.iter().map(|ts| format!("({ts}, {step})")).collect();
                run(&ingest, &format!("insert into d{number} using s tags({number}) values {}", values.join(" ")))
                    .await;
                rows.extend(chosen.into_iter().map(|ts| (ts, step)));
            }
            7..=10 => {
                let (from, to) = (at(a).min(at(b)), at(a).max(at(b)));
                let of = match rng.random_range(0..3) {
                    0 => format!("s where tbname = 'd{number}' and"),
                    1 => format!("s where site = {number} and"),
                    _ if rows.is_empty() => continue, // it may not exist yet
                    _ => format!("d{number} where"),
                };
                run(&ingest, &format!("delete from {of} ts >= {from} and ts <= {to}")).await;
                rows.retain(|ts, _| !(from..=to).contains(ts));
            }
            _ => {
                run(&ingest, &format!("drop table if exists d{number}")).await;
                rows.clear();
            }
        }
    }
    rows
}

async fn compactor(ingest: Ingest, over: &AtomicBool, requests: &[CompactRequest]) {
    for request in requests.iter().cycle() {
        if over.load(Ordering::Relaxed) {
            return;
        }
        match ingest.compact(*request).await {
            Ok(_) => {}
            Err(e) if matches!(e.kind(), Kind::Conflict | Kind::Unavailable) => {}
            Err(e) => panic!("{request:?}: {e}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writes_deletes_drops_folds_and_merges_at_once_leave_each_series_as_its_client_left_it() {
    use CompactRequest::{Due, Fold, Full};
    for seed in 0..3 {
        let store = Store::in_memory();
        let first = open(&store, config()).await;
        run(&first, "create database db duration 1d keep 73000d").await;
        run(&first, "create stable s(ts timestamp, v int) tags(site int)").await;
        let processes = [first.clone(), open(&store, config()).await, open(&store, config()).await];
        let over = AtomicBool::new(false);
        let clients = async {
            let all = (0..6).map(|n| client(processes[n % 3].clone(), n as i64, 100 * seed + n as u64, n >= 4));
            let rows = join_all(all).await;
            over.store(true, Ordering::Relaxed);
            rows
        };
        let (rows, (), ()) = tokio::join!(
            clients,
            compactor(processes[1].clone(), &over, &[Fold, Due, Full]),
            compactor(open(&store, config()).await, &over, &[Fold, Full]),
        );
        let expected: BTreeMap<(String, i64), String> = rows
            .iter()
            .enumerate()
            .flat_map(|(n, rows)| rows.iter().map(move |(ts, v)| ((format!("d{n}"), *ts), v.to_string())))
            .collect();
        assert!(expected.len() > 20, "seed {seed}: {}", expected.len());
        for state in ["as it is", "compacted"] {
            let (found, held) = read(&store, "db", "s", &[]).await;
            let values: BTreeMap<_, _> = found.into_iter().map(|(key, row)| (key, row["v"].clone())).collect();
            let wrong: Vec<_> = expected
                .keys()
                .chain(values.keys())
                .filter(|key| values.get(*key) != expected.get(*key))
                .map(|key| (key, values.get(key), expected.get(key)))
                .collect();
            assert!(wrong.is_empty(), "seed {seed}, {state}: {wrong:?}");
            if state == "compacted" {
                let live: std::collections::BTreeSet<_> = expected.keys().cloned().collect();
                assert_eq!((held.in_files, held.tombstones), (live, 0), "seed {seed}");
            }
            first.compact(Full).await.unwrap();
        }
    }
}
