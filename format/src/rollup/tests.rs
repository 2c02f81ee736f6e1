#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use arrow::{
    array::{Float64Array, Int32Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array},
    datatypes::{Float64Type, Int32Type, Int64Type},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    file::{DataFileOptions, DataFileWriter, EncodedFile},
    ids::{DatabaseId, FileId, TableId},
    meta::RollupRef,
    rows::{Block, SeriesSet},
    types::Precision,
};

fn table() -> Supertable {
    let columns = [
        ("ts", Role::Time, Type::Timestamp),
        ("n", Role::Field, Type::Int),
        ("x", Role::Field, Type::Double),
        ("text", Role::Field, Type::Binary(None)),
        ("site", Role::Tag, Type::Binary(None)),
    ];
    let columns = columns.into_iter().map(|(name, role, ty)| (name.to_owned(), role, ty));
    Supertable::new(TableId(1), DatabaseId(0), "devices", columns).unwrap()
}

type Row = (u32, i64, Option<i32>, Option<f64>);

/// Rows of 40 series, some without rows, `step` ms apart on average, some before the epoch.
fn rows(seed: u64, per_series: usize, step: i64) -> Vec<Row> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut rows = Vec::new();
    for series in (0..40).filter(|s| s % 7 != 3) {
        let mut ts = rng.random_range(-3_600_000..3_600_000);
        for _ in 0..rng.random_range(per_series / 2..per_series * 2) {
            ts += rng.random_range(1..2 * step);
            let n = rng.random_bool(0.9).then(|| rng.random_range(-100..100));
            let x = rng.random_bool(0.5).then(|| f64::from(rng.random_range(-1_000..1_000)) / 8.0);
            rows.push((series, ts, n, x));
        }
    }
    rows
}

/// Writes the rows in batches of random lengths.
fn encoded(rows: &[Row], seed: u64) -> EncodedFile {
    let table = Arc::new(table());
    let set = SeriesSet::of_names((0..40).map(|i| format!("d{i:02}")));
    let mut rng = StdRng::seed_from_u64(seed);
    let options = DataFileOptions { row_group_rows: 20_000, ..DataFileOptions::default() };
    let mut writer = DataFileWriter::new(table.clone(), Precision::Milli, options).unwrap();
    let mut rest = rows;
    while !rest.is_empty() {
        let (part, others) = rest.split_at(rng.random_range(1..=rest.len().min(9_000)));
        rest = others;
        let columns: Vec<ArrayRef> = vec![
            Arc::new(part.iter().map(|r| r.0).collect::<UInt32Array>()),
            Arc::new(TimestampMillisecondArray::from_iter_values(part.iter().map(|r| r.1))),
            Arc::new(part.iter().map(|r| r.2).collect::<Int32Array>()),
            Arc::new(part.iter().map(|r| r.3).collect::<Float64Array>()),
            Arc::new(part.iter().map(|r| r.2.map(|n| n.to_string())).collect::<StringArray>()),
        ];
        let batch = RecordBatch::try_new(Block::rows_schema(&table, Precision::Milli), columns).unwrap();
        writer.write(&set, &batch).unwrap();
    }
    writer.finish().unwrap()
}

const KEY: &str = "data/1/0/1.rollup";

async fn opened(file: &EncodedFile) -> (Store, FileEntry, Arc<Rollup>) {
    let (store, mut ids) = (Store::in_memory(), 0..);
    store.create(KEY, file.rollup.clone().unwrap().bytes).await.unwrap();
    let entry = FileEntry::of(file, 0, || FileId(ids.next().unwrap()), 0);
    let rollup = Rollup::open(&store, KEY, &entry).await.unwrap();
    (store, entry, rollup)
}

#[tokio::test]
async fn each_bucket_has_the_aggregates_of_its_rows() {
    check_buckets(&rows(1, 4_000, 1_500), 60_000).await;
}

#[tokio::test]
async fn buckets_of_rows_that_are_few_a_minute_have_an_hour() {
    check_buckets(&rows(1, 4_000, 12_000), 3_600_000).await;
}

async fn check_buckets(rows: &[Row], width: i64) {
    let file = encoded(rows, 2);
    let (store, _, rollup) = opened(&file).await;
    assert_eq!(rollup.width_ticks(), width);
    let mut expected: BTreeMap<(u32, i64), Vec<Row>> = BTreeMap::new();
    for row in rows {
        expected.entry((row.0, row.1.div_euclid(width) * width)).or_default().push(*row);
    }
    let (table, field) = (table(), |i: usize| ColumnId(i as u32));
    assert_eq!((field(1), field(2), field(3)), (table.columns[1].id, table.columns[2].id, table.columns[3].id));
    let read = async |i, what| rollup.aggregate(&store, field(i), what).await.unwrap();
    let n = [read(1, Aggregate::Count).await.unwrap(), read(1, Aggregate::Sum).await.unwrap()];
    let n_ends = [read(1, Aggregate::Min).await.unwrap(), read(1, Aggregate::Max).await.unwrap()];
    let x = [read(2, Aggregate::Sum).await.unwrap(), read(2, Aggregate::Min).await.unwrap()];
    let texts = read(3, Aggregate::Count).await.unwrap();
    for absent in [(1, Aggregate::First), (3, Aggregate::Min), (3, Aggregate::Sum), (9, Aggregate::Count)] {
        assert!(read(absent.0, absent.1).await.is_none(), "{absent:?}");
    }
    // The index of a series in the file: series with rows, in order.
    let mut names: Vec<u32> = rows.iter().map(|r| r.0).collect();
    names.dedup();
    assert_eq!(names.len(), file.manifest.len());
    let (mut seen, mut row) = (0, 0);
    for (place, series) in names.iter().enumerate() {
        assert_eq!(rollup.first_row()[rollup.buckets(place).start], file.manifest.first_row()[place]);
        for bucket in rollup.buckets(place) {
            let of = &expected[&(*series, rollup.starts()[bucket])];
            assert_eq!(rollup.first_row()[bucket], row);
            row += of.len() as u64;
            let values: Vec<i64> = of.iter().filter_map(|r| r.2.map(i64::from)).collect();
            let get = |a: &ArrayRef| a.is_valid(bucket).then(|| a.as_primitive::<Int64Type>().value(bucket));
            let get32 = |a: &ArrayRef| a.is_valid(bucket).then(|| a.as_primitive::<Int32Type>().value(bucket).into());
            assert_eq!(n[0].as_primitive::<UInt64Type>().value(bucket), values.len() as u64);
            assert_eq!(texts.as_primitive::<UInt64Type>().value(bucket), values.len() as u64);
            assert_eq!(get(&n[1]), (!values.is_empty()).then(|| values.iter().sum()));
            assert_eq!(get32(&n_ends[0]), values.iter().min().copied());
            assert_eq!(get32(&n_ends[1]), values.iter().max().copied());
            let values: Vec<f64> = of.iter().filter_map(|r| r.3).collect();
            let get = |a: &ArrayRef| a.is_valid(bucket).then(|| a.as_primitive::<Float64Type>().value(bucket));
            // Multiples of one eighth add up exactly.
            assert_eq!(get(&x[0]), (!values.is_empty()).then(|| values.iter().sum()));
            assert_eq!(get(&x[1]), values.iter().copied().reduce(f64::min));
            seen += 1;
        }
    }
    assert_eq!((seen, row), (expected.len(), rows.len() as u64));
    assert_eq!(rollup.starts().len(), seen);
}

#[tokio::test]
async fn totals_are_the_aggregates_of_all_rows_of_a_bucket() {
    let rows = rows(5, 3_000, 1_500);
    let (store, _, rollup) = opened(&encoded(&rows, 6)).await;
    let totals = Totals::new(&rollup).unwrap();
    let mut expected: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
    for row in &rows {
        expected.entry(row.1.div_euclid(60_000) * 60_000).or_default().push(*row);
    }
    assert_eq!(totals.starts(), expected.keys().copied().collect::<Vec<_>>());
    let of = async |field, what| {
        let values = rollup.aggregate(&store, ColumnId(field), what).await.unwrap().unwrap();
        totals.aggregate(&rollup, what, &values)
    };
    let counts = of(1, Aggregate::Count).await.unwrap();
    let sums = of(1, Aggregate::Sum).await.unwrap();
    let ends = [of(1, Aggregate::Min).await.unwrap(), of(1, Aggregate::Max).await.unwrap()];
    let floats = of(2, Aggregate::Sum).await.unwrap();
    assert!(of(2, Aggregate::Min).await.is_none(), "extremes of floats");
    let mut before = 0;
    for (at, rows) in expected.values().enumerate() {
        assert_eq!(totals.first_row()[at], before);
        before += rows.len() as u64;
        let n: Vec<i32> = rows.iter().filter_map(|r| r.2).collect();
        let x: Vec<f64> = rows.iter().filter_map(|r| r.3).collect();
        assert_eq!(counts.as_primitive::<UInt64Type>().value(at), n.len() as u64);
        let sum = sums.is_valid(at).then(|| sums.as_primitive::<Int64Type>().value(at));
        assert_eq!(sum, (!n.is_empty()).then(|| n.iter().map(|n| i64::from(*n)).sum()));
        let end = |a: &ArrayRef| a.is_valid(at).then(|| a.as_primitive::<Int32Type>().value(at));
        assert_eq!((end(&ends[0]), end(&ends[1])), (n.iter().min().copied(), n.iter().max().copied()));
        let sum = floats.is_valid(at).then(|| floats.as_primitive::<Float64Type>().value(at));
        assert_eq!(sum, (!x.is_empty()).then(|| x.iter().sum()), "eighths add up exactly");
    }
    assert_eq!(totals.first_row().last(), Some(&before));
}

#[tokio::test]
async fn buckets_that_lie_far_apart_have_no_totals() {
    let mut rows = rows(7, 3_000, 1_500);
    let last = rows.last_mut().unwrap();
    last.1 += ((1 << 20) + 200) * 60_000;
    let (_, _, rollup) = opened(&encoded(&rows, 8)).await;
    assert!(Totals::new(&rollup).is_none());
}

#[test]
fn a_small_file_and_one_of_sparse_rows_have_none() {
    assert!(encoded(&rows(3, 1_000, 1_000), 1).rollup.is_none());
    assert!(encoded(&rows(4, 4_000, 60_000), 1).rollup.is_none(), "sixty rows an hour");
}

#[tokio::test]
async fn a_rollup_of_another_file_is_refused_by_name() {
    let file = encoded(&rows(5, 4_000, 1_500), 1);
    let (store, entry, _) = opened(&file).await;
    let rollup = entry.rollup.unwrap();
    for other in [
        FileEntry { rows: entry.rows + 1, ..entry.clone() },
        FileEntry { series: entry.series - 1, ..entry.clone() },
        FileEntry { rollup: Some(RollupRef { width: 1_000, ..rollup }), ..entry.clone() },
    ] {
        let e = Rollup::open(&store, KEY, &other).await.unwrap_err();
        assert_eq!((e.kind(), e.context("key")), (crate::Kind::Corrupt, Some(KEY)));
    }
    store.create("data/1/0/2.rollup", file.data.clone()).await.unwrap();
    let bytes = file.data.len() as u64;
    let other = FileEntry { rollup: Some(RollupRef { bytes, ..rollup }), ..entry };
    let e = Rollup::open(&store, "data/1/0/2.rollup", &other).await.unwrap_err();
    assert_eq!(e.context("found"), Some("different bucket length"));
}
