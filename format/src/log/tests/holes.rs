//! Numbers missing below later ones of their writer: which errors name them, what waits for them, and how they are
//! given up.

use super::*;
use crate::{
    check::{CheckOptions, check},
    ids::Token,
    log::give_up,
    meta::FaultySegment,
    snapshot::{SnapshotOptions, SnapshotReader},
};

/// a0, a1, a2, of which a1 is deleted; b0 before a0 and b1 after a1.
struct Holed {
    place: Place,
    key: String,
    good: Vec<u8>,
    missing: Position,
    /// Segments older than the hole, and segments that may be younger: with a store clock in seconds, a0 and a1 may
    /// have the same time.
    before: [Position; 1],
    after: [Position; 3],
}

impl Holed {
    async fn whole() -> Self {
        let place = Place::new().await;
        let a0 = place.put(A, 0, 0, 0).await;
        let missing = place.put(A, 1, 10, 0).await;
        let a2 = place.put(A, 2, 20, 0).await;
        let b0 = place.put(B, 0, -5, 0).await;
        let b1 = place.put(B, 1, 10, 5).await;
        let key = layout::log_key(missing);
        let good = std::fs::read(place.path(&key)).unwrap();
        Self { place, key, good, missing, before: [b0], after: [a0, b1, a2] }
    }

    async fn new() -> Self {
        let holed = Self::whole().await;
        holed.delete().await;
        holed
    }

    async fn delete(&self) {
        self.place.store().delete(&self.key).await.unwrap();
    }

    fn restore(&self, modified_ms: i64) {
        let path = self.place.path(&self.key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, &self.good).unwrap();
        self.place.touch(&self.key, modified_ms);
    }

    async fn fold(&self) -> Cut {
        let cut = cut(&self.place.root, MARGIN, u64::MAX).await.unwrap();
        fold(&self.place.root, &cut).await.unwrap();
        cut
    }

    /// Folds until the missing number is quarantined.
    async fn quarantine(&self) {
        for _ in 1..FaultySegment::READS {
            self.fold().await;
            let mut watermark = self.place.root.catalog().watermark(A).unwrap().clone();
            watermark.faulty.iter_mut().for_each(|f| f.read_ms -= FaultySegment::READS_APART_MS);
            self.place.root.commit(&[], |d| Ok(d.set_watermark(A, watermark.clone()))).await.unwrap();
        }
        self.fold().await;
    }

    fn reader(&self, allow_quarantined: bool) -> SnapshotReader {
        let options = SnapshotOptions { allow_quarantined, ..SnapshotOptions::default() };
        SnapshotReader::new(self.place.root.clone(), options)
    }

    /// Number of blocks that a query of the table reads, or the key that its error names.
    async fn rows(&self, reader: &SnapshotReader) -> std::result::Result<usize, String> {
        let snapshot = reader.snapshot(&[]).await.unwrap();
        let refused = |e: Error| {
            assert_eq!(e.kind(), Kind::Corrupt, "{e}");
            e.context("key").unwrap().to_owned()
        };
        snapshot.blocks(self.place.table).map(Iterator::count).map_err(refused)
    }

    /// The keys that a check reports as faulty.
    async fn faults(&self) -> Vec<String> {
        let report = check(self.place.store(), CheckOptions::default()).await.unwrap();
        report.faults.into_iter().map(|f| f.key).collect()
    }
}

#[tokio::test]
async fn a_number_that_is_missing_below_a_later_one_fails_queries_and_checks_by_name() {
    let holed = Holed::new().await;
    for allow_quarantined in [false, true] {
        let reader = holed.reader(allow_quarantined);
        for _ in 0..2 {
            assert_eq!(holed.rows(&reader).await, Err(holed.key.clone()));
        }
        let missing = reader.snapshot(&[Token::Position(holed.missing)]).await.unwrap_err();
        assert_eq!((missing.kind(), missing.context("key")), (Kind::Corrupt, Some(holed.key.as_str())));
        reader.snapshot(&holed.after.map(Token::Position)).await.unwrap();
    }
    assert_eq!(holed.faults().await, std::slice::from_ref(&holed.key));
    holed.restore(10);
    assert_eq!(holed.rows(&holed.reader(false)).await, Ok(5));
    assert_eq!(holed.faults().await, [""; 0]);
}

#[tokio::test]
async fn a_reader_names_a_deleted_segment_that_is_not_in_memory() {
    let holed = Holed::whole().await;
    let options = SnapshotOptions { tail_cache_bytes: 1, ..SnapshotOptions::default() };
    let (forgets, keeps) = (SnapshotReader::new(holed.place.root.clone(), options), holed.reader(false));
    for reader in [&forgets, &keeps] {
        assert_eq!(holed.rows(reader).await, Ok(5));
    }
    holed.delete().await;
    assert_eq!(holed.rows(&forgets).await, Err(holed.key.clone()));
    assert_eq!(holed.rows(&keeps).await, Ok(5), "its rows are in memory");
    holed.fold().await;
    holed.rows(&keeps).await.unwrap_or_default();
    assert_eq!(holed.rows(&keeps).await, Err(holed.key.clone()), "a fold looked into the store");
}

#[tokio::test]
async fn a_number_that_was_put_while_the_log_was_listed_is_not_missing() {
    let holed = Holed::new().await;
    let mut listing = Listing::read(holed.place.store()).await.unwrap();
    holed.restore(10);
    let catalog = holed.place.root.catalog();
    let above = listing.above(&catalog);
    assert_eq!(above.holes.iter().map(|h| h.position).collect::<Vec<_>>(), [holed.missing]);
    let (pending, damage) = listing.confirm(&holed.place.root, &catalog).await.unwrap().expect("no version has come");
    let whole = Listing::read(holed.place.store()).await.unwrap().above(&catalog);
    assert!(damage.is_empty() && whole.holes.is_empty(), "{damage:?}");
    assert_eq!(pending, whole.pending);
}

#[tokio::test]
async fn what_is_younger_than_a_missing_segment_waits_until_the_log_goes_on_without_it() {
    let holed = Holed::new().await;
    let first = holed.fold().await;
    assert_eq!(taken(&first), holed.before, "the missing one may be older than b1");
    assert_eq!(first.faults[0].error.context("key"), Some(holed.key.as_str()));
    let again = cut(&holed.place.root, MARGIN, u64::MAX).await.unwrap();
    assert!(again.is_empty() && again.faults.len() == 1, "{again:?}");
    let holed = Holed::new().await;
    holed.quarantine().await;
    let (strict, lenient) = (holed.reader(false), holed.reader(true));
    for folded in [false, true] {
        assert_eq!(holed.rows(&strict).await, Err(holed.key.clone()));
        assert_eq!(holed.rows(&lenient).await, Ok(if folded { 0 } else { 3 }));
        assert_eq!(holed.faults().await, std::slice::from_ref(&holed.key));
        if !folded {
            assert_eq!(taken(&holed.fold().await), holed.after);
        }
    }
    // The missing number is known even if its writer has no object left.
    for seq in [0, 2] {
        holed.place.store().delete(&layout::log_key(Position { writer: A, seq })).await.unwrap();
    }
    assert_eq!(holed.rows(&holed.reader(false)).await, Err(holed.key.clone()));
    assert_eq!(holed.faults().await, std::slice::from_ref(&holed.key));
    holed.restore(30);
    assert_eq!(holed.rows(&strict).await, Ok(1));
    assert_eq!(taken(&holed.fold().await), [holed.missing]);
    assert_eq!(holed.place.root.catalog().watermark(A).unwrap().faulty, []);
}

#[tokio::test]
async fn nothing_is_folded_while_the_first_segment_of_a_writer_is_missing() {
    let place = Place::new().await;
    let first = place.put(A, 0, 10, 0).await;
    let younger = place.put(B, 0, 20, 0).await;
    let next = place.put(A, 1, 30, 0).await;
    let (key, good) = (layout::log_key(first), std::fs::read(place.path(&layout::log_key(first))).unwrap());
    place.store().delete(&key).await.unwrap();
    assert_eq!(taken(&cut(&place.root, MARGIN, u64::MAX).await.unwrap()), [], "b0 may be younger than a0");
    std::fs::write(place.path(&key), good).unwrap();
    place.touch(&key, 10);
    assert_eq!(taken(&cut(&place.root, MARGIN, u64::MAX).await.unwrap()), [first, younger, next]);
}

#[tokio::test]
async fn a_missing_segment_is_given_up_by_a_commit_and_the_rows_above_it_are_there() {
    for quarantined in [false, true] {
        let holed = Holed::new().await;
        let reader = holed.reader(false);
        if quarantined {
            holed.quarantine().await;
        }
        assert_eq!(holed.rows(&reader).await, Err(holed.key.clone()));
        let done = give_up(&holed.place.root, holed.missing).await.unwrap();
        assert!(done.missing && done.version == holed.place.root.catalog().version);
        let rows = if quarantined { 3 } else { 4 };
        for reader in [&reader, &holed.reader(false)] {
            assert_eq!(holed.rows(reader).await, Ok(rows));
            let error = reader.snapshot(&[Token::Position(holed.missing)]).await.unwrap_err();
            assert_eq!(error.kind(), Kind::NotFound, "nobody waits for rows that were given up: {error}");
            reader.snapshot(&holed.after.map(Token::Position)).await.unwrap();
        }
        assert_eq!(holed.faults().await, [""; 0]);
        let expected: BTreeSet<Position> = match quarantined {
            true => holed.after.into(),
            false => holed.before.into_iter().chain(holed.after).collect(),
        };
        assert_eq!(taken(&holed.fold().await).into_iter().collect::<BTreeSet<_>>(), expected);
        // A restored copy counts.
        holed.restore(40);
        assert_eq!(holed.rows(&reader).await, Ok(1));
        assert_eq!(taken(&holed.fold().await), [holed.missing]);
    }
}

#[tokio::test]
async fn only_what_is_missing_or_cannot_be_read_is_given_up() {
    let holed = Holed::whole().await;
    let of = async |position| give_up(&holed.place.root, position).await.unwrap_err().kind();
    assert_eq!(of(holed.missing).await, Kind::Invalid, "it can be read");
    assert_eq!(of(Position { writer: A, seq: 3 }).await, Kind::NotFound, "nothing is above it");
    assert_eq!(of(Position { writer: WriterId(3), seq: 0 }).await, Kind::NotFound);
    holed.fold().await;
    holed.delete().await;
    assert_eq!(of(holed.missing).await, Kind::Invalid, "it is folded");
    let a3 = holed.place.put(A, 3, 50, 0).await;
    std::fs::write(holed.place.path(&layout::log_key(a3)), &holed.good[..9]).unwrap();
    assert_eq!(holed.rows(&holed.reader(false)).await, Err(layout::log_key(a3)));
    assert!(!give_up(&holed.place.root, a3).await.unwrap().missing);
    assert_eq!(holed.rows(&holed.reader(false)).await, Ok(0));
    assert_eq!(holed.faults().await, [""; 0]);
}

#[tokio::test]
async fn a_watermark_with_a_missing_segment_is_kept_until_the_segment_is_given_up() {
    let holed = Holed::new().await;
    let old = holed.place.epoch_ms - 4 * 86_400_000;
    let gone = WriterId(3);
    let missing = FaultySegment { reads: 3, ..FaultySegment::missing(1, old, None, "missing".to_owned()) };
    let mark = Watermark { next: 4, time_ms: old, faulty: vec![missing], ..Watermark::unfolded(old) };
    holed.place.root.commit(&[], |d| Ok(d.set_watermark(gone, mark.clone()))).await.unwrap();
    let retired = async || cut(&holed.place.root, MARGIN, u64::MAX).await.unwrap().retired;
    assert_eq!(retired().await, []);
    give_up(&holed.place.root, Position { writer: gone, seq: 1 }).await.unwrap();
    assert_eq!(retired().await, [gone]);
}

#[tokio::test]
async fn a_segment_days_late_of_a_removed_writer_does_not_indicate_missing_ones() {
    let place = Place::new().await;
    place.put(A, 5, 3 * 86_400_000, 0).await;
    let snapshot = SnapshotReader::new(place.root.clone(), SnapshotOptions::default()).snapshot(&[]).await.unwrap();
    assert_eq!((snapshot.tail.len(), snapshot.blocks(place.table).unwrap().count()), (0, 0));
    let cut = cut(&place.root, Duration::ZERO, u64::MAX).await.unwrap();
    assert!(cut.is_empty() && cut.faults.is_empty(), "{cut:?}");
    assert!(check(place.store(), CheckOptions::default()).await.unwrap().is_sound());
}

#[tokio::test]
async fn a_bulk_ingest_that_lost_a_part_fails_queries_by_name_until_it_is_given_up_as_a_whole() {
    for quarantined in [false, true] {
        let place = Place::new().await;
        let bulk = WriterId::bulk(7);
        for seq in [0, 1, Position::END + 2] {
            place.put(bulk, seq, 0, 0).await;
        }
        let missing = Position { writer: bulk, seq: 1 };
        let key = layout::log_key(missing);
        place.store().delete(&key).await.unwrap();
        let reader = SnapshotReader::new(place.root.clone(), SnapshotOptions::default());
        let refused = async || {
            let snapshot = reader.snapshot(&[]).await.unwrap();
            snapshot.blocks(place.table).map(Iterator::count).map_err(|e| e.context("key").unwrap().to_owned())
        };
        assert_eq!(refused().await, Err(key.clone()));
        let named = async || {
            let token = Token::Position(Position { writer: bulk, seq: Position::END + 2 });
            let error = reader.snapshot(&[token]).await.map(|_| ()).unwrap_err();
            (error.kind(), error.context("key").map(str::to_owned))
        };
        assert_eq!(named().await, (Kind::Corrupt, Some(key.clone())), "who brings the token of the ingest");
        for _ in 0..if quarantined { FaultySegment::READS } else { 0 } {
            let cut = cut(&place.root, MARGIN, u64::MAX).await.unwrap();
            fold(&place.root, &cut).await.unwrap();
            let mut watermark = place.root.catalog().watermark(bulk).unwrap().clone();
            watermark.faulty.iter_mut().for_each(|f| f.read_ms -= FaultySegment::READS_APART_MS);
            place.root.commit(&[], |d| Ok(d.set_watermark(bulk, watermark.clone()))).await.unwrap();
            assert_eq!(refused().await, Err(key.clone()));
            assert_eq!(named().await, (Kind::Corrupt, Some(key.clone())));
        }
        give_up(&place.root, missing).await.unwrap();
        assert_eq!(refused().await, Ok(0));
        assert_eq!(named().await, (Kind::NotFound, None), "nobody waits for rows that were given up");
        assert!(cut(&place.root, MARGIN, u64::MAX).await.unwrap().faults.is_empty());
        assert!(check(place.store(), CheckOptions::default()).await.unwrap().is_sound());
    }
}

#[tokio::test]
async fn rows_of_a_table_whose_version_is_gone_are_said_to_be_that_and_never_folded() {
    let place = Place::new().await;
    let newest = place.root.catalog().version;
    place.put(A, 0, 0, 0).await;
    place.store().delete(&layout::meta_key(newest)).await.unwrap();
    let root = Root::open(place.store().clone()).await.unwrap();
    assert!(root.catalog().version < newest);
    let key = layout::meta_key(root.catalog().version.next());
    let reader = SnapshotReader::new(root.clone(), SnapshotOptions::default());
    for error in [
        reader.snapshot(&[]).await.map(|_| ()).unwrap_err(),
        cut(&root, MARGIN, u64::MAX).await.map(|_| ()).unwrap_err(),
    ] {
        assert_eq!((error.kind(), error.context("key")), (Kind::Corrupt, Some(key.as_str())), "{error}");
        assert!(error.message().starts_with("the newest version is missing"), "{error}");
    }
    let report = check(place.store(), CheckOptions::default()).await.unwrap();
    assert_eq!(report.faults.into_iter().map(|f| f.key).collect::<Vec<_>>(), [key]);
}
