//! Folds of a log that is many times larger than the memory of a fold.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
use futures::stream;
use tidelake_format::store::Store;

use crate::{
    compact::CompactRequest,
    config::IngestConfig,
    testing::{config, nano, rows},
    write::{IfAbsent, IfExists, Ingest, IngestTarget},
};

/// Half of the memory available to the folds of these tests.
const EACH: usize = 32 << 20;

async fn put(ingest: &Ingest, table: &str, columns: Vec<(String, ArrayRef)>) {
    let target = IngestTarget {
        database: "db".into(),
        table: table.into(),
        if_absent: IfAbsent::Create,
        if_exists: IfExists::Append,
    };
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    ingest.ingest_batches(target, stream::iter([Ok(batch)])).await.unwrap();
}

fn small() -> IngestConfig {
    let mut config = config();
    config.compact = config.compact.within(2 * EACH);
    config
}

#[tokio::test]
async fn a_log_larger_than_a_fold_may_take_is_folded_in_several_commits_and_keeps_every_row() {
    let store = Store::in_memory();
    let mut config = small();
    config.compact.fold_memory_bytes = 64 << 10;
    config.compact.window_bytes = 16 << 10;
    let ingest = nano(&store, config).await;
    // Series in every segment, rows of several partitions, repeated times.
    for segment in 0..12_i64 {
        let n = 1_000;
        let times = (0..n).map(|i| (i % 500) * 86_400_000_000_000 / 50 + segment / 2);
        let names = (0..n).map(|i| format!("s{}", i % 3));
        let columns: Vec<(String, ArrayRef)> = vec![
            ("ts".into(), Arc::new(TimestampNanosecondArray::from_iter_values(times))),
            ("v".into(), Arc::new(Int64Array::from_iter_values((0..n).map(|i| i + segment * n)))),
            ("tbname".into(), Arc::new(StringArray::from_iter_values(names))),
        ];
        put(&ingest, "m", columns).await;
    }
    let before = rows(&store, "db", "m", &[]).await;
    let version = ingest.root().catalog().version;
    let report = ingest.compact(CompactRequest::Fold).await.unwrap();
    assert_eq!((report.segments, report.folded_rows), (12, 12_000));
    let commits = ingest.root().refresh().await.unwrap().version.0 - version.0;
    assert!(commits >= 4, "{commits}");
    assert_eq!(rows(&store, "db", "m", &[]).await, before);
}

#[tokio::test]
async fn a_long_series_is_cut_by_time_and_the_newest_of_equal_times_wins_across_windows() {
    let store = Store::in_memory();
    let mut config = small();
    config.compact.window_bytes = 4 << 10;
    let ingest = nano(&store, config).await;
    for segment in 0..4_i64 {
        // Descending in every other segment; a third of the times is in all segments.
        let times = |i: i64| if i % 3 == 0 { i } else { i + segment * 10_000 };
        let order: Vec<i64> = if segment % 2 == 0 { (0..3_000).collect() } else { (0..3_000).rev().collect() };
        let columns: Vec<(String, ArrayRef)> = vec![
            ("ts".into(), Arc::new(TimestampNanosecondArray::from_iter_values(order.iter().map(|i| times(*i))))),
            ("v".into(), Arc::new(Int64Array::from_iter_values(order.iter().map(|i| i + segment * 1_000_000)))),
        ];
        put(&ingest, "one", columns).await;
    }
    let before = rows(&store, "db", "one", &[]).await;
    assert_eq!(before.len(), 1_000 + 4 * 2_000);
    ingest.compact(CompactRequest::Fold).await.unwrap();
    assert_eq!(rows(&store, "db", "one", &[]).await, before);
}

#[tokio::test]
async fn a_wide_table_of_narrow_segments_is_folded_window_by_window() {
    let store = Store::in_memory();
    let mut config = small();
    config.compact.window_bytes = 64 << 10;
    let ingest = nano(&store, config).await;
    let columns = (0..200).map(|i| format!("f{i} double")).collect::<Vec<_>>().join(", ");
    ingest.execute(Some("db"), &format!("create table wide (ts timestamp, {columns})"), None).await.unwrap();
    for segment in 0..20_i64 {
        let columns: Vec<(String, ArrayRef)> = vec![
            ("ts".into(), Arc::new(TimestampNanosecondArray::from_iter_values((0..200).map(|i| i * 7)))),
            (format!("f{}", segment * 9), Arc::new(Float64Array::from_iter_values((0..200).map(|i| i as f64)))),
        ];
        put(&ingest, "wide", columns).await;
    }
    let before = rows(&store, "db", "wide", &[]).await;
    assert!(before.len() == 200 && before.values().all(|row| row.len() == 20));
    ingest.compact(CompactRequest::Fold).await.unwrap();
    assert_eq!(rows(&store, "db", "wide", &[]).await, before);
}
