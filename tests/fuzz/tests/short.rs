//! A short run over every target; and a test that earlier requests never change what a request stores.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use bytes::Bytes;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_format::{
    meta::Root,
    snapshot::{SnapshotOptions, SnapshotReader},
    store::Store,
};
use tidelake_ingest::{
    config::{CompactConfig, IngestConfig},
    decode::line_protocol::LinePrecision,
    write::{Durability, Ingest},
};

#[test]
fn no_mutated_input_makes_a_decoder_panic_or_hang() {
    for target in tidelake_fuzz::targets().unwrap() {
        assert!(!target.seeds.is_empty(), "{} has no seeds", target.name);
        let fuzzed = tidelake_fuzz::fuzz(&target, 7, Duration::from_millis(1_500), 20_000).unwrap();
        assert!(fuzzed.accepted >= 1, "{} accepts none of its seeds: {fuzzed:?}", target.name);
        assert!(fuzzed.inputs > fuzzed.accepted || target.name == "line_protocol", "{}: {fuzzed:?}", target.name);
    }
}

/// The rows of a request that a query would see, with their series and columns, in the order of the log.
async fn stored(before: Option<Bytes>, body: Bytes) -> Vec<String> {
    let store = Store::in_memory();
    let root = Root::open(store.clone()).await.unwrap();
    let compact = CompactConfig { background: false, ..CompactConfig::default() };
    let config = IngestConfig { compact, writers: Some(1), ..IngestConfig::default() };
    let ingest = Ingest::open(root.clone(), config).await.unwrap();
    let create = "create database db precision 'ns' keep 73000d";
    ingest.execute(None, create, None).await.unwrap();
    // Tables and columns are there, so that the mutated request cannot choose their types first.
    let schema = Bytes::from_static(b"cpu,host=seed usage=0,n=0i,ok=true,text=\"\" 1");
    ingest.write_line_protocol("db", schema, LinePrecision::Nano, Durability::Stored).await.unwrap();
    if let Some(before) = before {
        let _ = ingest.write_line_protocol("db", before, LinePrecision::Nano, Durability::Stored).await;
    }
    let written = ingest.write_line_protocol("db", body, LinePrecision::Nano, Durability::Stored).await.unwrap();
    assert!(written.rejected.is_empty(), "{written:?}");
    let options = SnapshotOptions { max_staleness: Some(Duration::ZERO), ..SnapshotOptions::default() };
    let snapshot = SnapshotReader::new(root, options).snapshot(&[written.token.unwrap()]).await.unwrap();
    let database = snapshot.catalog.database("db").unwrap();
    let table = snapshot.catalog.table(database.id, "cpu").unwrap();
    let (_, block) = snapshot.blocks(table.id).unwrap().last().unwrap();
    // Columns that the mutated request added are null in these rows: compare the others by name.
    let names = ["series", "ts", "usage", "n", "ok", "text"];
    let mut rows = Vec::new();
    for row in 0..block.rows.num_rows() {
        let mut line = String::new();
        for name in names {
            if let Some(column) = block.rows.column_by_name(name) {
                line += &format!("{name}={:?};", column.slice(row, 1));
            }
        }
        rows.push(line);
    }
    rows.push(format!("{:?}", block.series.names().iter().flatten().collect::<Vec<_>>()));
    rows
}

#[tokio::test]
async fn a_mutated_request_never_changes_what_the_correct_one_stores() {
    let correct = "cpu,host=a usage=1.5,n=3i,ok=t,text=\"x y\" 10\ncpu,host=b usage=2,n=4i 20\ncpu,host=a usage=3 30\n";
    let alone = stored(None, Bytes::from(correct)).await;
    assert_eq!(alone.len(), 4);
    let mut random = StdRng::seed_from_u64(11);
    for _ in 0..40 {
        let mut mutated = correct.as_bytes().to_vec();
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..mutated.len());
            match random.random_range(0..3) {
                0 => mutated[at] = b" ,=\"\\\n\0i\xff"[random.random_range(0..9)],
                1 => drop(mutated.remove(at)),
                _ => mutated.insert(at, b" ,=\"\\\n\0i\xff"[random.random_range(0..9)]),
            }
        }
        let text = String::from_utf8_lossy(&mutated).into_owned();
        assert_eq!(stored(Some(Bytes::from(mutated)), Bytes::from(correct)).await, alone, "after {text:?}");
    }
}
