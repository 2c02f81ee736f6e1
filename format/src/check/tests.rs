#![allow(clippy::unwrap_used)]

use std::{path::PathBuf, sync::Arc};

use arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array,
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::*;
use crate::{
    file::{DataFileOptions, DataFileWriter, EncodedFile},
    ids::{FileId, Position, TableId, WriterId},
    meta::FileEntry,
    rollup::RollupOptions,
    rows::{Block, SeriesSet},
    schema::{Role, Supertable},
    segment::{self, Compression, SegmentHeader},
    types::{Precision, Type},
};

/// Buckets of ten rows, in a rollup of every file.
const ROLLUPS: RollupOptions = RollupOptions {
    width_ms: 10_000,
    least_rows: 1,
    least_rows_per_bucket: 0,
    coarse_width_ms: 0,
    least_rows_per_coarse_bucket: 0,
};
/// The length of a partition.
const DAY: i64 = 86_400_000;

/// A root in a directory, so that a test can damage objects.
struct Lake {
    dir: tempfile::TempDir,
    root: Root,
    table: Arc<Supertable>,
}

impl Lake {
    /// Two files in partition 0, one in partition 1, and two segments in the log.
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(Store::open(dir.path().to_str().unwrap(), &[]).unwrap()).await.unwrap();
        let columns = [
            ("ts", Role::Time, Type::Timestamp),
            ("v", Role::Field, Type::Double),
            ("n", Role::Field, Type::BigInt),
            ("note", Role::Field, Type::Binary(None)),
            ("site", Role::Tag, Type::Binary(None)),
        ];
        let columns = columns.map(|(name, role, ty)| (name.to_owned(), role, ty));
        let (table, _) = root
            .commit(&[], |d| {
                let db = d.create_database("plant", Precision::Milli, 3_650 * DAY, DAY)?;
                d.create_table(db.id, "devices", columns.clone())
            })
            .await
            .unwrap();
        let lake = Self { dir, root, table };
        for (partition, seed) in [(0, 1), (0, 2), (1, 3)] {
            let file = lake.encode(partition, seed, None);
            let entry = lake.put(partition, &file).await;
            lake.commit(entry, None).await;
        }
        for seq in 0..2 {
            lake.segment(seq).await;
        }
        lake
    }

    fn store(&self) -> &Store {
        self.root.store()
    }

    fn id(&self) -> TableId {
        self.table.id
    }

    /// Rows of a partition: three series; `odd` replaces one value of `v` of the second.
    fn rows(&self, partition: i64, seed: u64, odd: Option<f64>) -> (SeriesSet, RecordBatch) {
        let mut rng = StdRng::seed_from_u64(seed);
        let (names, lengths) = (["d1", "d2", "d3"], [400, 300, 5]);
        let rows = lengths.iter().sum::<i64>();
        let sites: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("b")]));
        let series_schema = SeriesSet::schema_of(&self.table, Precision::Milli);
        let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(names.to_vec())), sites];
        let series = SeriesSet::try_new(RecordBatch::try_new(series_schema, columns).unwrap()).unwrap();
        let of = lengths.iter().enumerate().flat_map(|(i, n)| std::iter::repeat_n(i as u32, *n as usize));
        let ts = lengths.iter().flat_map(|n| (0..*n).map(|i| partition * DAY + i * 1_000));
        let mut v: Vec<Option<f64>> =
            (0..rows).map(|_| (!rng.random_bool(0.1)).then(|| rng.random_range(-1e3..1e3))).collect();
        v[500] = odd.or(Some(0.5));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from_iter_values(of)),
            Arc::new(TimestampMillisecondArray::from_iter_values(ts)),
            Arc::new(Float64Array::from(v)),
            Arc::new((0..rows).map(|_| Some(rng.random::<i64>())).collect::<Int64Array>()),
            Arc::new((0..rows).map(|i| (i % 3 == 0).then(|| format!("note {i}"))).collect::<StringArray>()),
        ];
        (series, RecordBatch::try_new(Block::rows_schema(&self.table, Precision::Milli), columns).unwrap())
    }

    fn encode(&self, partition: i64, seed: u64, odd: Option<f64>) -> EncodedFile {
        let (series, rows) = self.rows(partition, seed, odd);
        let options = DataFileOptions {
            page_rows: 100,
            page_rows_max: 200,
            row_group_rows: 350,
            row_group_bytes: 256 << 20,
            rollup: Some(ROLLUPS),
        };
        let mut writer = DataFileWriter::new(self.table.clone(), Precision::Milli, options).unwrap();
        writer.write(&series, &rows).unwrap();
        writer.finish().unwrap()
    }

    async fn put(&self, partition: i64, file: &EncodedFile) -> FileEntry {
        let id = || FileId(self.store().ambient().random_id());
        let entry = FileEntry::of(file, partition, id, self.store().ambient().wall_ms());
        let [data, tags, rollup] = self.keys(&entry);
        self.store().create(&data, file.data.clone()).await.unwrap();
        self.store().create(&tags, file.tags.clone()).await.unwrap();
        self.store().create(&rollup, file.rollup.clone().unwrap().bytes).await.unwrap();
        entry
    }

    async fn commit(&self, entry: FileEntry, order: Option<Version>) {
        let add = |d: &mut crate::meta::Draft| {
            let order = order.unwrap_or(d.version());
            d.add_file(self.id(), entry.at(order, order))
        };
        self.root.commit(&[(self.id(), entry.partition)], add).await.unwrap();
    }

    async fn segment(&self, seq: u64) -> String {
        let (series, rows) = self.rows(2, 9, None);
        let position = Position { writer: WriterId(0xa << 120), seq };
        let now = self.store().ambient().wall_ms();
        let header = SegmentHeader { position, writer_start_ms: now, stamp_ns: now, queue_keys: false };
        let block = Block::try_new(self.id(), series, rows).unwrap();
        let key = layout::log_key(position);
        self.store().create(&key, segment::encode(&header, &[block], Compression::Always).unwrap()).await.unwrap();
        key
    }

    fn keys(&self, entry: &FileEntry) -> [String; 3] {
        [
            layout::data_key(self.id(), entry.partition, entry.data.id),
            layout::tags_key(self.id(), entry.partition, entry.tags.id),
            layout::rollup_key(self.id(), entry.partition, entry.rollup.unwrap().id),
        ]
    }

    async fn files(&self, partition: i64) -> Vec<FileEntry> {
        self.root.files(&self.root.catalog(), self.id(), partition).await.unwrap().to_vec()
    }

    fn path(&self, key: &str) -> PathBuf {
        self.dir.path().join(key)
    }

    fn overwrite(&self, key: &str, bytes: &[u8]) {
        std::fs::write(self.path(key), bytes).unwrap();
    }

    /// Opens the store anew, without cached state.
    async fn check(&self) -> CheckReport {
        let store = Store::open(self.dir.path().to_str().unwrap(), &[]).unwrap();
        check(&store, CheckOptions::default()).await.unwrap()
    }

    async fn objects(&self) -> Vec<String> {
        self.store().list("").await.unwrap().into_iter().map(|m| m.location.to_string()).collect()
    }
}

fn names(report: &CheckReport, key: &str) -> bool {
    report.faults.iter().any(|f| f.key == key)
}

#[tokio::test]
async fn a_sound_root_has_no_findings_and_is_not_changed() {
    let lake = Lake::new().await;
    let before = lake.objects().await;
    let report = lake.check().await;
    assert_eq!((&report.faults, &report.notes), (&vec![], &vec![]));
    assert_eq!((report.version, report.versions, report.segments), (Version(4), 5, 2));
    assert_eq!((report.files, report.rows), (3, 3 * 705));
    assert_eq!(lake.objects().await, before);
}

#[tokio::test]
async fn checking_a_store_without_a_root_is_an_error_and_creates_none() {
    let store = Store::in_memory();
    assert_eq!(check(&store, CheckOptions::default()).await.unwrap_err().kind(), Kind::NotFound);
    assert_eq!(store.list("").await.unwrap(), []);
}

#[tokio::test]
async fn a_flipped_bit_anywhere_is_named_by_the_key_of_its_object() {
    let lake = Lake::new().await;
    let mut rng = StdRng::seed_from_u64(5);
    for key in lake.objects().await {
        let good = std::fs::read(lake.path(&key)).unwrap();
        let random = (0..6).map(|_| rng.random_range(0..good.len())).collect::<Vec<_>>();
        for at in [0, good.len() / 2, good.len() - 1].into_iter().chain(random) {
            let mut bad = good.clone();
            bad[at] ^= 1 << rng.random_range(0..8);
            lake.overwrite(&key, &bad);
            let report = lake.check().await;
            assert!(names(&report, &key), "{key} at {at} of {}: {report:?}", good.len());
        }
        lake.overwrite(&key, &good);
    }
    assert!(lake.check().await.is_sound());
}

#[tokio::test]
async fn a_torn_object_and_an_absent_one_are_named() {
    let lake = Lake::new().await;
    let newest = layout::meta_key(Version(4));
    for key in lake.objects().await {
        let good = std::fs::read(lake.path(&key)).unwrap();
        lake.overwrite(&key, &good[..good.len() / 2]);
        assert!(names(&lake.check().await, &key), "{key} torn");
        std::fs::remove_file(lake.path(&key)).unwrap();
        let report = lake.check().await;
        if key.starts_with("data/") {
            assert!(report.faults.iter().any(|f| f.key == key && f.what.contains("absent")), "{key}: {report:?}");
        } else if key != newest && key.starts_with("meta/") {
            // Holds no section of the newest version: it may have been collected.
            assert!(report.is_sound(), "{key}: {report:?}");
        }
        lake.overwrite(&key, &good);
    }
    assert!(lake.check().await.is_sound());
}

#[tokio::test]
async fn two_objects_that_changed_places_are_both_named() {
    let lake = Lake::new().await;
    let files = lake.files(0).await;
    let ([data_a, tags_a, rollup_a], [data_b, tags_b, rollup_b]) = (lake.keys(&files[0]), lake.keys(&files[1]));
    let log: Vec<String> = lake.objects().await.into_iter().filter(|k| k.starts_with("log/")).collect();
    for (a, b) in [(&data_a, &data_b), (&tags_a, &tags_b), (&rollup_a, &rollup_b), (&log[0], &log[1])] {
        let (of_a, of_b) = (std::fs::read(lake.path(a)).unwrap(), std::fs::read(lake.path(b)).unwrap());
        lake.overwrite(a, &of_b);
        lake.overwrite(b, &of_a);
        let report = lake.check().await;
        assert!(names(&report, a) && names(&report, b), "{a}, {b}: {report:?}");
        lake.overwrite(a, &of_a);
        lake.overwrite(b, &of_b);
    }
    // Both objects of both files are swapped: only the entries in the chain reveal it.
    let all = [(&data_a, &data_b), (&tags_a, &tags_b)];
    for (a, b) in all {
        let (of_a, of_b) = (std::fs::read(lake.path(a)).unwrap(), std::fs::read(lake.path(b)).unwrap());
        lake.overwrite(a, &of_b);
        lake.overwrite(b, &of_a);
    }
    let report = lake.check().await;
    assert!(names(&report, &data_a) && names(&report, &data_b), "{report:?}");
}

#[tokio::test]
async fn a_wrong_aggregate_under_a_right_checksum_is_named_with_its_column_and_series() {
    let lake = Lake::new().await;
    let entry = lake.files(1).await.remove(0);
    let [data, tags, _] = lake.keys(&entry);
    let good = std::fs::read(lake.path(&tags)).unwrap();
    for odd in [0.25, 1e9, -1e9, f64::NAN] {
        lake.overwrite(&tags, &lake.encode(1, 3, Some(odd)).tags);
        let report = lake.check().await;
        let wrong = |f: &&Finding| f.key == tags && f.what.contains("sum of column 1 of series d2");
        assert!(report.faults.iter().any(|f| wrong(&f)), "{odd}: {report:?}");
        assert!(!names(&report, &data));
    }
    lake.overwrite(&tags, &good);
    // The rows are wrong: they differ from the manifest and the sum in the chain.
    lake.overwrite(&data, &lake.encode(1, 3, Some(7.0)).data);
    let report = lake.check().await;
    assert!(names(&report, &data), "{report:?}");
}

#[tokio::test]
async fn a_wrong_aggregate_of_a_rollup_is_named_with_its_column_and_bucket() {
    for odd in [0.25, 1e9, f64::NAN] {
        let lake = Lake::new().await;
        let file = EncodedFile { rollup: lake.encode(2, 3, Some(odd)).rollup, ..lake.encode(2, 3, None) };
        let entry = lake.put(2, &file).await;
        let [data, tags, rollup] = lake.keys(&entry);
        lake.commit(entry, None).await;
        let report = lake.check().await;
        let wrong = |f: &&Finding| f.key == rollup && f.what.contains("sum of column 1 in the bucket at");
        assert!(report.faults.iter().any(|f| wrong(&f)), "{odd}: {report:?}");
        assert!(!names(&report, &data) && !names(&report, &tags));
    }
}

#[tokio::test]
async fn an_entry_that_does_not_fit_its_objects_is_named() {
    let changes: [(&str, fn(&mut FileEntry)); 5] = [
        ("conservation sum", |f| f.hash ^= 1),
        ("number of rows", |f| f.rows += 1),
        ("number of series", |f| f.series += 1),
        ("another time", |f| f.max_ts += 1),
        ("another size", |f| f.tags.bytes += 1),
    ];
    for (what, change) in changes {
        let lake = Lake::new().await;
        let mut entry = lake.put(2, &lake.encode(2, 7, None)).await;
        change(&mut entry);
        let keys = lake.keys(&entry);
        lake.commit(entry, None).await;
        let report = lake.check().await;
        assert!(report.faults.iter().any(|f| f.what.contains(what) && keys.contains(&f.key)), "{what}: {report:?}");
        assert!(report.faults.iter().all(|f| keys.contains(&f.key)), "{what}: {report:?}");
    }
}

#[tokio::test]
async fn one_key_in_two_files_of_one_order_is_named() {
    let lake = Lake::new().await;
    let order = lake.files(0).await[0].order;
    let entry = lake.put(0, &lake.encode(0, 8, None)).await;
    let key = lake.keys(&entry);
    lake.commit(entry, Some(order)).await;
    let report = lake.check().await;
    assert_eq!(report.faults.len(), 1, "{report:?}");
    assert!(report.faults[0].what.contains("same key") && report.faults[0].key.ends_with(".parquet"), "{key:?}");
}

#[tokio::test]
async fn orphans_and_foreign_objects_are_noted() {
    let lake = Lake::new().await;
    let orphan = lake.keys(&lake.put(0, &lake.encode(0, 4, None)).await);
    lake.store().create("data/readme.txt", "foreign".into()).await.unwrap();
    let report = lake.check().await;
    assert!(report.is_sound(), "{report:?}");
    let noted = |key: &str| report.notes.iter().any(|n| n.key == key);
    assert!(orphan.iter().all(|key| noted(key)) && noted("data/readme.txt"), "{report:?}");
    assert_eq!(report.notes.len(), orphan.len() + 1, "{report:?}");
}

#[tokio::test]
async fn a_segment_that_is_missing_below_a_later_one_is_a_fault() {
    let lake = Lake::new().await;
    let beyond = lake.segment(3).await;
    let report = lake.check().await;
    let [fault] = &report.faults[..] else { panic!("{report:?}") };
    assert!(fault.key.ends_with('2') && fault.found.as_ref() == Some(&beyond), "{report:?}");
}
