#![allow(clippy::unwrap_used)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tidelake_format::{
    layout,
    store::faults::{Fault, Operation, Request},
};
use tidelake_ingest::{
    config::IngestConfig,
    decode::line_protocol::LinePrecision,
    write::{Durability, Ingest},
};

use tidelake_lambda::testing::context;

use super::*;

fn function(store: &Store) -> CompactFunction {
    let config = CompactConfig { fold_margin_ms: Some(0), merge_files: 2, ..crate::settings::compaction(512 << 20) };
    CompactFunction::new(store.clone(), config, None, Box::leak(Box::new(Telemetry::silent())))
}

/// Writes so many segments of one row each.
async fn segments(store: &Store, count: u64) {
    let config = IngestConfig {
        compact: CompactConfig { background: false, ..CompactConfig::default() },
        ..IngestConfig::default()
    };
    let ingest = Ingest::open(Root::open(store.clone()).await.unwrap(), config).await.unwrap();
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    for n in 0..count {
        let line = Bytes::from(format!("m,host=h{n} v={n} {}", now_ms + u128::from(n)));
        ingest.write_line_protocol("db", line, LinePrecision::Milli, Durability::Stored).await.unwrap();
    }
    ingest.shutdown().await;
    // A fold takes what is older than the millisecond in which it begins.
    tokio::time::sleep(Duration::from_millis(3)).await;
}

#[tokio::test]
async fn an_invocation_folds_what_is_there_and_the_next_one_finds_nothing() {
    let store = Store::in_memory();
    segments(&store, 5).await;
    let function = function(&store);
    let scheduled = json!({"source": "aws.events", "detail-type": "Scheduled Event"});
    let done = function.compact(scheduled, &context(30_000)).await.unwrap();
    assert_eq!((done.segments, done.folded_rows, done.has_more), (5, 5, false));
    let debt = Compactor::new(Root::open(store.clone()).await.unwrap(), function.config.clone()).debt().await.unwrap();
    assert_eq!((debt.segments, debt.folded, debt.files), (0, 5, 1), "folded ones stay for a while");
    let done = function.compact(json!({}), &context(30_000)).await.unwrap();
    assert_eq!(done, Done::new(&CompactReport::default(), 0, false));
    // What two folds made is merged once there are two files of a size; another environment may do that.
    segments(&store, 3).await;
    let done = self::function(&store).compact(json!({"task": "compact"}), &context(30_000)).await.unwrap();
    assert_eq!((done.segments, done.merged_rows), (3, 8));
    assert!(done.merged_files >= 2, "{done:?}");
}

#[tokio::test]
async fn without_time_nothing_is_begun_and_there_is_more_to_do() {
    let store = Store::in_memory();
    segments(&store, 2).await;
    let function = function(&store);
    function.compact(json!({"task": "collect"}), &context(30_000)).await.unwrap();
    let done = function.compact(json!({}), &context(0)).await;
    // Opened already, it has no time left for a step.
    let done = done.unwrap();
    assert_eq!((done.segments, done.has_more), (0, true));
    let done = function.compact(json!({"task": "fold", "turn": 1}), &context(30_000)).await.unwrap();
    assert_eq!((done.segments, done.has_more), (2, false));
    assert_eq!(store.list(layout::LOG).await.unwrap().len(), 2, "folded segments stay for a minute");
}

#[tokio::test]
async fn a_collection_that_takes_longer_than_there_is_time_goes_on_later() {
    let plain = Store::in_memory();
    segments(&plain, 2).await;
    let late = |request: &Request<'_>| match request.operation {
        Operation::List => Fault::Late(Duration::from_millis(400)),
        _ => Fault::None,
    };
    let function = function(&plain.clone().with_faults(late));
    function.compact(json!({"task": "fold"}), &context(30_000)).await.unwrap();
    for task in ["collect", "sweep"] {
        let done = function.compact(json!({"task": task}), &context(300)).await.unwrap();
        assert!(done.has_more, "{task}: {done:?}");
        let done = function.compact(json!({"task": task}), &context(30_000)).await.unwrap();
        assert!(!done.has_more, "{task}: {done:?}");
    }
}

#[tokio::test]
async fn an_unknown_task_is_refused_with_those_that_are_known() {
    let function = function(&Store::in_memory());
    let error = function.compact(json!({"task": "shrink"}), &context(30_000)).await.unwrap_err().to_string();
    assert!(error.contains("sweep") && error.contains("shrink"), "{error}");
}
