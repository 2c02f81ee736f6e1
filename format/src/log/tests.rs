#![allow(clippy::unwrap_used)]

mod busy;
mod holes;
mod put_back;
mod quarantine;

use std::{collections::BTreeSet, time::SystemTime};

use arrow::array::{ArrayRef, Float64Array, RecordBatch, TimestampMillisecondArray, UInt32Array};
use object_store::{local::LocalFileSystem, path::Path};

use super::*;
use crate::{
    ids::{Position, TableId, Version},
    layout,
    meta::{Root, tests::root_with_table},
    rows::{Block, SeriesSet},
    segment::{self, Compression, SegmentHeader},
    store::{Ambient, Durable, Store, System},
    types::Precision,
};

pub(crate) const A: WriterId = WriterId(0xa << 124);
pub(crate) const B: WriterId = WriterId(0xb << 124);

/// A root on a directory, where a test can set modification times.
pub(crate) struct Place {
    dir: tempfile::TempDir,
    pub(crate) root: Root,
    pub(crate) table: TableId,
    /// Base of all times in the test.
    pub(crate) epoch_ms: i64,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path().to_str().unwrap(), &[]).unwrap();
        Self::of(dir, store).await
    }

    /// A root in a store whose processes take stamps from their own clocks, as in a bucket.
    pub(crate) async fn without_common_stamps() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let object = LocalFileSystem::new_with_prefix(dir.path()).unwrap();
        Self::of(dir, Store::new(Arc::new(object), Path::default())).await
    }

    async fn of(dir: tempfile::TempDir, store: Store) -> Self {
        let (root, table) = root_with_table(store).await;
        Self { dir, root, table, epoch_ms: System.wall_ms() - 3_600_000 }
    }

    pub(crate) fn store(&self) -> &Store {
        self.root.store()
    }

    /// Puts a segment with one row, whose value identifies it, and with these modification and stamp times.
    pub(crate) async fn put(&self, writer: WriterId, seq: u64, modified_ms: i64, stamp_ns: i64) -> Position {
        let position = Position { writer, seq };
        let (writer_start_ms, stamp_ns) = (self.epoch_ms, self.epoch_ms + stamp_ns);
        self.put_with(SegmentHeader { position, writer_start_ms, stamp_ns, queue_keys: false }, modified_ms).await
    }

    /// As [`Place::put`], with a given header.
    pub(crate) async fn put_with(&self, header: SegmentHeader, modified_ms: i64) -> Position {
        let position = header.position;
        let bytes = segment::encode(&header, &[self.block(value_of(position))], Compression::Always).unwrap();
        self.store().create(&layout::log_key(position), bytes).await.unwrap();
        self.touch(&layout::log_key(position), modified_ms);
        position
    }

    pub(crate) fn block(&self, value: f64) -> Block {
        let catalog = self.root.catalog();
        let schema = Block::rows_schema(catalog.table_by_id(self.table).unwrap(), Precision::Milli);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(vec![0])),
            Arc::new(TimestampMillisecondArray::from(vec![5])),
            Arc::new(Float64Array::from(vec![value])),
        ];
        let rows = RecordBatch::try_new(schema, columns).unwrap();
        Block::try_new(self.table, SeriesSet::of_names(["d1"]), rows).unwrap()
    }

    pub(crate) fn path(&self, key: &str) -> std::path::PathBuf {
        self.dir.path().join(key)
    }

    /// Sets the modification time of an object.
    pub(crate) fn touch(&self, key: &str, modified_ms: i64) {
        let since = std::time::Duration::from_millis((self.epoch_ms + modified_ms) as u64);
        let file = std::fs::File::options().write(true).open(self.path(key)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + since).unwrap();
    }
}

/// The value that [`Place::put`] writes.
pub(crate) fn value_of(position: Position) -> f64 {
    (position.writer.0 >> 124) as f64 * 1_000.0 + position.seq as f64
}

const MARGIN: Duration = Duration::from_secs(2);

fn taken(cut: &Cut) -> Vec<Position> {
    cut.segments.iter().map(|s| s.position).collect()
}

async fn fold(root: &Root, cut: &Cut) -> Result<Arc<Catalog>> {
    Ok(root.commit(&[], |d| cut.apply(d)).await?.1)
}

#[tokio::test]
async fn a_cut_takes_old_segments_in_order_and_the_next_one_goes_on() {
    let place = Place::new().await;
    let a0 = place.put(A, 0, 1_000, 0).await;
    let b0 = place.put(B, 0, 500, 0).await;
    let a1 = place.put(A, 1, 700, 0).await;
    let b1 = place.put(B, 1, 1_000, 1).await;
    let cut = cut(&place.root, MARGIN, u64::MAX).await.unwrap();
    // a1 is never before a0; stamps decide between a0 and b1.
    assert_eq!(taken(&cut), [b0, a0, a1, b1]);
    assert_eq!(cut.segments[2].modified_ms, place.epoch_ms + 1_000);
    let mark = |next, time| Watermark { next, time_ms: place.epoch_ms + time, ..Watermark::unfolded(place.epoch_ms) };
    assert_eq!(cut.watermarks, [(A, mark(2, 1_000)), (B, mark(2, 1_000))]);
    let catalog = fold(&place.root, &cut).await.unwrap();
    assert_eq!(catalog.watermark(A), Some(&mark(2, 1_000)));
    // Another fold of the same segments fails.
    assert_eq!(fold(&place.root, &cut).await.unwrap_err().kind(), Kind::Conflict);
    let a2 = place.put(A, 2, 900, 0).await;
    let next = super::cut(&place.root, MARGIN, u64::MAX).await.unwrap();
    assert_eq!((taken(&next), next.segments[0].modified_ms), (vec![a2], place.epoch_ms + 1_000));
    fold(&place.root, &next).await.unwrap();
    assert!(super::cut(&place.root, MARGIN, u64::MAX).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_fold_that_read_files_conflicts_with_another_fold_but_not_with_a_mark() {
    let place = Place::new().await;
    place.put(A, 0, 0, 0).await;
    let cut = cut(&place.root, MARGIN, u64::MAX).await.unwrap();
    let set = async |writer, next| {
        let watermark = Watermark { next, ..Watermark::unfolded(place.epoch_ms) };
        let change = |draft: &mut Draft| {
            draft.set_watermark(writer, watermark.clone());
            Ok(())
        };
        place.root.commit(&[], change).await.unwrap();
    };
    set(WriterId::bulk(7), u64::MAX).await;
    let is_alone =
        async || place.root.commit(&[], |d| cut.apply_alone(d).and(Err::<(), _>(Error::invalid("undone")))).await;
    assert_eq!(is_alone().await.unwrap_err().kind(), Kind::Invalid, "nothing but the mark came");
    set(WriterId::bulk(8), Position::END + 2).await;
    assert_eq!(is_alone().await.unwrap_err().kind(), Kind::Conflict, "a bulk ingest was folded");
}

#[tokio::test]
async fn a_cut_leaves_young_segments_and_waits_for_a_missing_number() {
    let place = Place::new().await;
    let a0 = place.put(A, 0, 0, 0).await;
    let young = place.put(WriterId(7), 0, 3_600_000 - 500, 0).await;
    let first = cut(&place.root, MARGIN, u64::MAX).await.unwrap();
    assert_eq!(taken(&first), [a0]);
    let without_margin = cut(&place.root, Duration::ZERO, u64::MAX).await.unwrap();
    assert_eq!(taken(&without_margin), [a0, young]);
    fold(&place.root, &first).await.unwrap();
    assert!(cut(&place.root, MARGIN, u64::MAX).await.unwrap().is_empty());
    let (a2, b1) = (place.put(A, 2, 0, 0).await, place.put(B, 1, 0, 0).await);
    assert_eq!(taken(&cut(&place.root, MARGIN, u64::MAX).await.unwrap()), []);
    let a1 = place.put(A, 1, 0, 0).await;
    let b0 = place.put(B, 0, 0, 0).await;
    let cut = cut(&place.root, MARGIN, u64::MAX).await.unwrap();
    assert_eq!(taken(&cut).into_iter().collect::<BTreeSet<_>>(), [a1, a2, b0, b1].into());
}

#[tokio::test]
async fn cuts_bounded_in_bytes_take_everything_once_and_never_split_one_time() {
    let place = Place::new().await;
    let mut all = BTreeSet::new();
    for seq in 0..6 {
        for writer in [A, B] {
            all.insert(place.put(writer, seq, seq as i64 * 10, 0).await);
        }
    }
    let size = place.store().head(&layout::log_key(Position { writer: A, seq: 0 })).await.unwrap().size;
    let (mut seen, mut last) = (BTreeSet::new(), i64::MIN);
    for _ in 0..6 {
        let cut = cut(&place.root, MARGIN, size * 3).await.unwrap();
        assert_eq!(cut.segments.len(), 2);
        assert!(cut.segments.iter().all(|s| s.modified_ms > last));
        last = cut.segments[1].modified_ms;
        seen.extend(taken(&cut));
        fold(&place.root, &cut).await.unwrap();
    }
    assert_eq!(seen, all);
    for seq in 6..9 {
        place.put(A, seq, 100, 0).await;
    }
    // A single time that does not fit is split in the order of numbers; at least one segment is taken.
    let cut = cut(&place.root, MARGIN, 1).await.unwrap();
    assert_eq!(taken(&cut), [Position { writer: A, seq: 6 }]);
}

#[tokio::test]
async fn a_segment_written_long_after_its_writer_started_is_void_and_its_number_taken() {
    let place = Place::new().await;
    let a0 = place.put(A, 0, 0, 0).await;
    let header = SegmentHeader {
        position: Position { writer: A, seq: 1 },
        writer_start_ms: place.epoch_ms - 49 * 3_600_000,
        stamp_ns: 0,
        queue_keys: false,
    };
    let bytes = segment::encode(&header, &[place.block(1.0)], Compression::Always).unwrap();
    let key = layout::log_key(header.position);
    place.store().create(&key, bytes).await.unwrap();
    place.touch(&key, 0);
    let a2 = place.put(A, 2, 0, 0).await;
    let cut = cut(&place.root, MARGIN, u64::MAX).await.unwrap();
    assert_eq!(taken(&cut), [a0, a2]);
    assert_eq!(cut.watermarks[0].1.next, 3);
}

#[tokio::test]
async fn a_watermark_is_removed_once_its_segments_are_gone_and_its_keys_have_expired() {
    let place = Place::new().await;
    let day = 86_400_000;
    let mark = |start_ms| Watermark { next: 1, time_ms: start_ms, ..Watermark::unfolded(start_ms) };
    let old = place.epoch_ms - 4 * day;
    let (gone, queues, gone_queues) = (WriterId(1), WriterId(2), WriterId(3));
    let queue = |start_ms| Watermark { queue_keys: true, ..mark(start_ms) };
    place
        .root
        .commit(&[], |d| {
            d.set_watermark(gone, mark(old));
            d.set_watermark(queues, queue(place.epoch_ms - 16 * day));
            d.set_watermark(gone_queues, queue(place.epoch_ms - 18 * day));
            d.set_watermark(A, mark(old));
            d.set_watermark(B, mark(place.epoch_ms));
            Ok(())
        })
        .await
        .unwrap();
    place.put(A, 0, 0, 0).await;
    let cut = cut(&place.root, MARGIN, u64::MAX).await.unwrap();
    assert_eq!((cut.retired.as_slice(), cut.segments.len()), ([gone, gone_queues].as_slice(), 0));
    assert!(!cut.is_empty());
    let catalog = fold(&place.root, &cut).await.unwrap();
    assert_eq!((catalog.version, catalog.watermark(gone)), (Version(3), None));
    assert!(catalog.watermark(A).is_some() && catalog.watermark(queues).is_some());
}

/// A store whose log cannot be synced.
#[derive(Debug)]
struct Unsynced;

#[async_trait::async_trait]
impl Durable for Unsynced {
    async fn sync(&self, prefix: &object_store::path::Path) -> object_store::Result<()> {
        if prefix.as_ref() != layout::LOG {
            return Ok(());
        }
        Err(object_store::Error::Generic { store: "test", source: "a journal may bring segments back".into() })
    }
}

#[tokio::test]
async fn watermarks_are_kept_while_deleted_segments_may_reappear() {
    let store = Store::in_memory();
    let (root, _) = root_with_table(store.clone()).await;
    let old = root.store().ambient().wall_ms() - 4 * 86_400_000;
    let gone = Watermark { next: 1, time_ms: old, ..Watermark::unfolded(old) };
    root.commit(&[], |d| Ok(d.set_watermark(WriterId(1), gone.clone()))).await.unwrap();
    let retired = async |root: &Root| cut(root, MARGIN, u64::MAX).await.unwrap().retired;
    assert_eq!(retired(&root).await, [WriterId(1)]);
    let unsynced = Root::open(store.with_durable(Arc::new(Unsynced))).await.unwrap();
    assert_eq!(retired(&unsynced).await, []);
}

#[tokio::test]
async fn a_bulk_ingest_is_taken_whole_at_the_place_of_its_end_and_not_before() {
    let place = Place::new().await;
    let bulk = WriterId::bulk(7);
    let parts = [place.put(bulk, 0, 0, 0).await, place.put(bulk, 1, 100, 0).await];
    let a0 = place.put(A, 0, 300, 0).await;
    let open = cut(&place.root, MARGIN, u64::MAX).await.unwrap();
    assert_eq!(taken(&open), [a0], "no end, no rows");
    let end = place.put(bulk, Position::END + 2, 500, 0).await;
    let b0 = place.put(B, 0, 600, 0).await;
    for max_bytes in [u64::MAX, 1] {
        let whole = cut(&place.root, MARGIN, max_bytes).await.unwrap();
        let all = [a0, parts[0], parts[1], end, b0];
        assert_eq!(taken(&whole), if max_bytes == 1 { &all[..1] } else { &all[..] });
    }
    fold(&place.root, &open).await.unwrap();
    let small = cut(&place.root, MARGIN, 1).await.unwrap();
    assert_eq!(taken(&small), [parts[0], parts[1], end], "a bound on bytes does not split it");
    let catalog = fold(&place.root, &small).await.unwrap();
    assert_eq!(catalog.watermark(bulk).unwrap().next, Position::END + 3);
    assert_eq!(taken(&cut(&place.root, MARGIN, u64::MAX).await.unwrap()), [b0]);
}

#[tokio::test]
async fn an_end_that_misses_a_part_waits_for_it_and_a_void_one_never_counts() {
    let place = Place::new().await;
    let (late, void) = (WriterId::bulk(1), WriterId::bulk(2));
    let end = place.put(late, Position::END + 2, 500, 0).await;
    let first = place.put(late, 0, 0, 0).await;
    place.put(void, 0, 0, 0).await;
    let gone = place.put(void, Position::END + 1, 500, 0).await;
    let start_ms = place.epoch_ms;
    place.root.commit(&[], |d| Ok(assert!(d.void(gone, start_ms, layout::Kept::Day)))).await.unwrap();
    let waits = cut(&place.root, MARGIN, u64::MAX).await.unwrap();
    assert_eq!((taken(&waits), waits.faults.len()), (vec![], 1));
    let second = place.put(late, 1, 100, 0).await;
    let whole = cut(&place.root, MARGIN, u64::MAX).await.unwrap();
    assert_eq!(taken(&whole), [first, second, end]);
    fold(&place.root, &whole).await.unwrap();
}

#[tokio::test]
async fn a_bulk_ingest_without_an_end_is_void_after_a_day() {
    let place = Place::new().await;
    let (young, old) = (WriterId::bulk(1), WriterId::bulk(2));
    let day = 86_400_000;
    let now_ms = place.root.store().clock_ms().await.unwrap() - place.epoch_ms;
    place.put(young, 0, now_ms - day + 60_000, 0).await;
    place.put(old, 0, now_ms - day - 60_000, 0).await;
    let cut = cut(&place.root, MARGIN, u64::MAX).await.unwrap();
    assert!(cut.segments.is_empty());
    let catalog = fold(&place.root, &cut).await.unwrap();
    assert_eq!((catalog.watermark(young), catalog.watermark(old).unwrap().next), (None, u64::MAX));
    // If its end arrives later, it is below the watermark.
    place.put(old, Position::END + 1, now_ms, 0).await;
    assert!(super::cut(&place.root, MARGIN, u64::MAX).await.unwrap().is_empty());
}

#[tokio::test]
async fn segments_of_one_time_that_do_not_fit_are_taken_in_order_of_their_stamps() {
    let place = Place::new().await;
    let mut all = Vec::new();
    for (writer, seq, stamp_ns) in [(B, 0, 10), (A, 0, 20), (B, 1, 30), (A, 1, 40)] {
        all.push(place.put(writer, seq, 0, stamp_ns).await);
    }
    let mut seen = Vec::new();
    for _ in 0..4 {
        let cut = cut_within(&place.root, MARGIN, u64::MAX, 1).await.unwrap();
        assert_eq!((cut.segments.len(), cut.has_more), (1, seen.len() < 3));
        seen.extend(taken(&cut));
        fold(&place.root, &cut).await.unwrap();
    }
    assert_eq!(seen, all);
}
