//! A table flushed once a minute for a year, in virtual time: few files, few requests, the same cost at the end as at the
//! start. The default run covers as many minutes as CI has seconds for; `TIDELAKE_YEAR_SEGMENTS=525600` covers all.

use arrow::{
    array::{ArrayRef, Float64Array, RecordBatch, TimestampMillisecondArray, UInt32Array},
    datatypes::DataType,
};
use parking_lot::Mutex;
use tidelake_format::{
    garbage::{Collector, GarbageOptions},
    ids::{Position, TableId, Version, WriterId},
    rows::SeriesSet,
    schema::Role,
    segment::{self, Compression, SegmentHeader},
    snapshot::{SnapshotOptions, SnapshotReader},
    store::StoreCounters,
    types::{Precision, Type},
};

use super::*;

/// 2025-01-01.
const START: i64 = 1_735_689_600_000;
const MINUTE: i64 = 60_000;
const SERIES: usize = 3;
/// Segments in one fold.
const FOLD: u64 = 5;
const WRITER: WriterId = WriterId(0xf << 120);

struct Year {
    store: Store,
    clock: Arc<Hands>,
    compactor: Compactor,
    table: TableId,
}

impl Year {
    async fn new(partition_ms: i64) -> Self {
        let clock = Hands::at(START);
        let store = Store::in_memory().with_ambient(clock.clone());
        let root = Root::open(store.clone()).await.unwrap();
        let columns = [("ts", Role::Time, Type::Timestamp), ("v", Role::Field, Type::Double)];
        let columns = columns.map(|(name, role, ty)| (name.to_owned(), role, ty));
        let (table, _) = root
            .commit(&[], |d| {
                let db = d.create_database("plant", Precision::Milli, 3_650 * DAY, partition_ms)?;
                Ok(d.create_table(db.id, "devices", columns.clone())?.id)
            })
            .await
            .unwrap();
        let compactor = Compactor::new(root, config().compact);
        Self { store, clock, compactor, table }
    }

    fn root(&self) -> &Root {
        &self.compactor.inner.root
    }

    /// Flushes one minute: one row of each series.
    async fn flush(&self, minute: u64) {
        let now = START + minute as i64 * MINUTE;
        self.clock.0.store(now, Ordering::Relaxed);
        let catalog = self.root().catalog();
        let schema =
            tidelake_format::rows::Block::rows_schema(catalog.table_by_id(self.table).unwrap(), Precision::Milli);
        assert_eq!(schema.field(2).data_type(), &DataType::Float64);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from_iter_values(0..SERIES as u32)),
            Arc::new(TimestampMillisecondArray::from(vec![now; SERIES])),
            Arc::new(Float64Array::from_iter_values((0..SERIES).map(|s| minute as f64 + s as f64 / 8.0))),
        ];
        let series = SeriesSet::of_names((0..SERIES).map(|s| format!("d{s}")));
        let rows = RecordBatch::try_new(schema, columns).unwrap();
        let block = tidelake_format::rows::Block::try_new(self.table, series, rows).unwrap();
        let position = Position { writer: WRITER, seq: minute };
        // The store in memory has the machine's clock: a writer of today is never void.
        let header = SegmentHeader { position, writer_start_ms: System.wall_ms(), stamp_ns: now, queue_keys: false };
        let bytes = segment::encode(&header, &[block], Compression::Always).unwrap();
        assert!(self.store.create(&layout::log_key(position), bytes).await.unwrap().is_ours());
    }

    async fn files(&self) -> BTreeMap<i64, usize> {
        let catalog = self.root().refresh().await.unwrap();
        catalog.partitions(self.table).map(|(p, s)| (p, s.files as usize)).collect()
    }

    async fn largest_version(&self) -> u64 {
        self.store.list(layout::META).await.unwrap().iter().map(|m| m.size).max().unwrap()
    }
}

/// A collector that keeps nothing for readers: the year takes minutes.
fn collector(root: &Root) -> Collector {
    let options = GarbageOptions { segments_ms: 0, versions_ms: 0, ..GarbageOptions::default() };
    Collector::new(root.clone(), options)
}

fn requests(spent: &StoreCounters) -> u64 {
    spent.put + spent.get + spent.head + spent.list + spent.delete
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "figures for a person to see")]
async fn a_year_of_flushes_each_minute_keeps_few_files_at_constant_cost() {
    let segments: u64 = std::env::var("TIDELAKE_YEAR_SEGMENTS").map_or(5_000, |n| n.parse().unwrap());
    let partition_ms = if segments > 100_000 { 10 * DAY } else { DAY };
    let year = Year::new(partition_ms).await;
    let inner = &year.compactor.inner;
    let (mut most_files, mut merged, mut costs, mut sizes) = (0, CompactReport::default(), Vec::new(), Vec::new());
    for minute in 0..segments {
        year.flush(minute).await;
        if minute % FOLD != FOLD - 1 {
            continue;
        }
        // Segments put in the same millisecond as the fold's clock are left for the next fold.
        sleep(Duration::from_millis(2)).await;
        let before = year.store.counters();
        let folded = inner.fold().await.unwrap();
        assert_eq!((folded.segments, folded.duplicates), (FOLD, 0));
        costs.push(requests(&year.store.counters().since(&before)));
        merged.add(&inner.merge_all(plan::Extent::Due, None).await.unwrap().report);
        if (minute / FOLD).is_multiple_of(40) {
            collector(year.root()).collect(Sweep::Quick).await.unwrap();
            sizes.push(year.largest_version().await);
            most_files = year.files().await.into_values().max().unwrap().max(most_files);
        }
    }
    // The last partition becomes quiet.
    year.clock.0.fetch_add(DAY, Ordering::Relaxed);
    merged.add(&inner.merge_all(plan::Extent::Due, None).await.unwrap().report);
    collector(year.root()).collect(Sweep::Quick).await.unwrap();
    let files = year.files().await;
    let rows = segments * SERIES as u64;
    eprintln!(
        "{segments} segments: {} partitions, {} files, at most {most_files} in one; {:.1} times rewritten, {} bytes a \
         fold; versions of at most {} bytes; folds of {} to {} requests",
        files.len(),
        files.values().sum::<usize>(),
        merged.merged_rows as f64 / rows as f64,
        merged.bytes / costs.len() as u64,
        sizes.iter().max().unwrap(),
        costs.iter().min().unwrap(),
        costs.iter().max().unwrap(),
    );
    let catalog = year.root().catalog();
    assert_eq!(catalog.partitions(year.table).map(|(_, s)| s.rows).sum::<u64>(), rows);
    assert!(files.values().all(|n| *n <= 2), "{files:?}");
    assert!(most_files <= 40, "{most_files} files at once in one partition");
    // Files this small are in the lowest level: rewriting them costs requests, not bytes.
    assert!(merged.bytes <= (8 << 10) * costs.len() as u64, "{merged:?}");
    assert!(merged.merged_files <= costs.len() as u64 * 5 / 4, "{merged:?}");
    // The cost of a commit does not grow with history.
    let (early, late) = (&costs[costs.len() / 10..costs.len() / 5], &costs[costs.len() * 9 / 10..]);
    let mean = |costs: &[u64]| costs.iter().sum::<u64>() as f64 / costs.len() as f64;
    assert!(mean(late) <= mean(early) + 1.0, "{} requests a fold, then {}", mean(early), mean(late));
    assert!(sizes.iter().all(|size| *size < 256 << 10), "{sizes:?}");

    one_day(&year, segments).await;
    let checked = tidelake_format::check::check(&year.store, Default::default()).await.unwrap();
    assert!(checked.is_sound() && checked.rows == rows, "{checked:?}");
}

/// Requests that a new node makes until it can read the rows of one day.
async fn one_day(year: &Year, segments: u64) {
    let listed = Arc::new(Mutex::new(Vec::new()));
    let seen = listed.clone();
    let store = year.store.with_faults(move |request| {
        if request.operation == Operation::List {
            seen.lock().push(request.key.to_owned());
        }
        Fault::None
    });
    let before = store.counters();
    let root = Root::open(store.clone()).await.unwrap();
    let snapshot = SnapshotReader::new(root.clone(), SnapshotOptions::default()).snapshot(&[]).await.unwrap();
    let catalog = &snapshot.catalog;
    let middle = START + segments as i64 / 2 * MINUTE;
    let (from, to) = (middle - DAY / 2, middle + DAY / 2);
    let (mut files, mut rows) = (0, 0u64);
    let touched = catalog.partitions(year.table).filter(|(_, s)| s.min_ts < to && from <= s.max_ts);
    for (partition, _) in touched.collect::<Vec<_>>() {
        for file in root.files(catalog, year.table, partition).await.unwrap().iter() {
            if file.min_ts >= to || file.max_ts < from {
                continue;
            }
            let (data, tags) = (
                layout::data_key(year.table, partition, file.data.id),
                layout::tags_key(year.table, partition, file.tags.id),
            );
            tidelake_format::tags::TagManifest::decode(&tags, &store.get(&tags).await.unwrap()).unwrap();
            rows += tidelake_format::file::DataFile::open(&store, &data, file.data.bytes).await.unwrap().rows();
            files += 1;
        }
    }
    let spent = store.counters().since(&before);
    assert!(rows >= DAY as u64 / MINUTE as u64 * SERIES as u64, "{rows} rows in {files} files");
    assert!(requests(&spent) <= 10, "{spent:?} for {files} files");
    assert!(listed.lock().iter().all(|key| key == "meta" || key == "log"), "{:?}", listed.lock());
    assert!(snapshot.tail.is_empty() && catalog.version > Version(0));
}
