//! Segments that cannot be decoded: what waits for them, and what continues without them.

use super::*;
use crate::{
    garbage::{Collector, GarbageOptions, Sweep},
    ids::Token,
    meta::FaultySegment,
    snapshot::{SnapshotOptions, SnapshotReader},
};

/// a0, a faulty a1, a2; b0 before a1 and b1 after it.
struct Torn {
    place: Place,
    key: String,
    good: Vec<u8>,
    before: [Position; 2],
    faulty: Position,
    after: [Position; 2],
}

impl Torn {
    async fn new() -> Self {
        let place = Place::new().await;
        let a0 = place.put(A, 0, 0, 0).await;
        let faulty = place.put(A, 1, 10, 0).await;
        let a2 = place.put(A, 2, 20, 0).await;
        let b0 = place.put(B, 0, 5, 0).await;
        let b1 = place.put(B, 1, 10, 5).await;
        let key = layout::log_key(faulty);
        let good = std::fs::read(place.path(&key)).unwrap();
        let torn = Self { place, key, good, before: [a0, b0], faulty, after: [b1, a2] };
        torn.tear();
        torn
    }

    /// Truncates the segment so that its directory stays readable.
    fn tear(&self) {
        std::fs::write(self.place.path(&self.key), &self.good[..self.good.len() - 3]).unwrap();
        self.place.touch(&self.key, 10);
    }

    async fn fold(&self) -> Cut {
        let cut = cut(&self.place.root, MARGIN, u64::MAX).await.unwrap();
        fold(&self.place.root, &cut).await.unwrap();
        cut
    }

    /// Makes the last failed read appear older by the minimum interval.
    async fn wait(&self) {
        let mut watermark = self.place.root.catalog().watermark(A).unwrap().clone();
        watermark.faulty.iter_mut().for_each(|f| f.read_ms -= FaultySegment::READS_APART_MS);
        let set = |d: &mut Draft| {
            d.set_watermark(A, watermark.clone());
            Ok(())
        };
        self.place.root.commit(&[], set).await.unwrap();
    }

    /// Folds until the segment is quarantined.
    async fn quarantine(&self) {
        for _ in 1..FaultySegment::READS {
            self.fold().await;
            self.wait().await;
        }
        self.fold().await;
    }

    fn known(&self) -> Option<FaultySegment> {
        self.place.root.catalog().watermark(A).and_then(|w| w.faulty(1).cloned())
    }

    fn reader(&self, allow_quarantined: bool) -> SnapshotReader {
        let options = SnapshotOptions { allow_quarantined, ..SnapshotOptions::default() };
        SnapshotReader::new(self.place.root.clone(), options)
    }
}

#[tokio::test]
async fn what_is_younger_than_a_faulty_segment_waits_until_that_is_quarantined() {
    let torn = Torn::new().await;
    let first = torn.fold().await;
    assert_eq!(taken(&first), torn.before, "b1 is of the same millisecond, and may be younger");
    assert_eq!(first.faults.len(), 1);
    assert_eq!(first.faults[0].error.context("key"), Some(torn.key.as_str()));
    assert_eq!(torn.known().unwrap().reads, 1);
    // A read immediately afterwards is not counted.
    let again = cut(&torn.place.root, MARGIN, u64::MAX).await.unwrap();
    assert!(again.is_empty() && again.faults.len() == 1, "{again:?}");
    for reads in 2..=FaultySegment::READS {
        torn.wait().await;
        assert!(taken(&torn.fold().await).is_empty());
        assert_eq!(torn.known().unwrap().reads, reads);
    }
    let after = torn.fold().await;
    assert_eq!((taken(&after), after.faults.len()), (torn.after.to_vec(), 0));
    assert_eq!(torn.place.root.catalog().watermark(A).unwrap().next, 3);
    assert!(torn.known().unwrap().is_quarantined(), "it is known for as long as its writer is");
}

#[tokio::test]
async fn a_segment_that_can_be_read_after_all_is_folded_in_its_place() {
    let torn = Torn::new().await;
    torn.fold().await;
    std::fs::write(torn.place.path(&torn.key), &torn.good).unwrap();
    torn.place.touch(&torn.key, 10);
    let whole = torn.fold().await;
    assert_eq!(taken(&whole), [torn.faulty, torn.after[0], torn.after[1]]);
    assert_eq!(torn.known(), None);
}

#[tokio::test]
async fn what_a_newer_release_wrote_is_waited_for_and_never_quarantined() {
    let torn = Torn::new().await;
    let mut newer = torn.good.clone();
    // The format version follows the magic bytes.
    newer[8] = 99;
    std::fs::write(torn.place.path(&torn.key), &newer).unwrap();
    torn.place.touch(&torn.key, 10);
    let first = torn.fold().await;
    assert_eq!(first.faults[0].error.kind(), Kind::Unsupported, "{:?}", first.faults);
    assert_eq!((taken(&first), torn.known()), (torn.before.to_vec(), None));
    assert!(cut(&torn.place.root, MARGIN, u64::MAX).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_query_that_may_need_a_quarantined_segment_fails_by_name_unless_that_is_allowed() {
    let torn = Torn::new().await;
    torn.quarantine().await;
    for folded in [false, true] {
        if folded {
            torn.fold().await;
        }
        let (strict, lenient) = (torn.reader(false), torn.reader(true));
        for _ in 0..2 {
            let snapshot = strict.snapshot(&[]).await.unwrap();
            let e = snapshot.blocks(torn.place.table).err().unwrap();
            assert_eq!((e.kind(), e.context("key")), (Kind::Corrupt, Some(torn.key.as_str())));
            assert!(snapshot.blocks(TableId(77)).is_ok(), "its directory is whole, and names no other table");
            let again = strict.snapshot(&[]).await.unwrap();
            assert!(Arc::ptr_eq(&snapshot, &again), "plans are kept as long as the snapshot is");
            let rows = lenient.snapshot(&[]).await.unwrap().blocks(torn.place.table).unwrap().count();
            assert_eq!(rows, if folded { 0 } else { 2 });
        }
        // The token of the faulty segment fails in either case.
        for reader in [&strict, &lenient] {
            assert!(reader.snapshot(&[Token::Position(torn.faulty)]).await.is_err());
            reader.snapshot(&torn.after.map(Token::Position)).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_quarantined_segment_is_never_collected_and_fails_nothing_once_somebody_deleted_it() {
    let torn = Torn::new().await;
    torn.quarantine().await;
    torn.fold().await;
    let options = GarbageOptions { segments_ms: 0, ..GarbageOptions::default() };
    let collector = Collector::new(torn.place.root.clone(), options);
    tokio::time::sleep(Duration::from_millis(5)).await;
    for _ in 0..2 {
        collector.collect(Sweep::Full).await.unwrap();
    }
    let left: Vec<String> =
        torn.place.store().list(layout::LOG).await.unwrap().iter().map(|m| m.location.to_string()).collect();
    assert_eq!(left, std::slice::from_ref(&torn.key));
    let reader = torn.reader(false);
    assert!(reader.snapshot(&[]).await.unwrap().blocks(torn.place.table).is_err());
    torn.place.store().delete(&torn.key).await.unwrap();
    assert_eq!(reader.snapshot(&[]).await.unwrap().blocks(torn.place.table).unwrap().count(), 0);
}

#[tokio::test]
async fn another_object_in_the_place_of_a_quarantined_one_counts() {
    let torn = Torn::new().await;
    torn.quarantine().await;
    torn.fold().await;
    let (known, fresh) = (torn.reader(false), torn.reader(false));
    assert!(known.snapshot(&[]).await.unwrap().blocks(torn.place.table).is_err());
    std::fs::write(torn.place.path(&torn.key), &torn.good).unwrap();
    torn.place.touch(&torn.key, 30);
    for reader in [&known, &fresh] {
        let snapshot = reader.snapshot(&[Token::Position(torn.faulty)]).await.unwrap();
        assert_eq!(snapshot.blocks(torn.place.table).unwrap().count(), 1);
    }
    let restored = torn.fold().await;
    assert_eq!((taken(&restored), torn.known()), (vec![torn.faulty], None));
    assert_eq!(torn.place.root.catalog().watermark(A).unwrap().next, 3);
    for reader in [&known, &fresh] {
        let snapshot = reader.snapshot(&[Token::Position(torn.faulty)]).await.unwrap();
        assert_eq!(snapshot.blocks(torn.place.table).unwrap().count(), 0, "folded");
    }
    assert!(cut(&torn.place.root, MARGIN, u64::MAX).await.unwrap().is_empty());
}

#[tokio::test]
async fn another_object_counts_at_once_for_who_knew_the_quarantined_one() {
    let torn = Torn::new().await;
    torn.quarantine().await;
    // The segment is quarantined but not yet below the watermark.
    let reader = torn.reader(true);
    assert_eq!(reader.snapshot(&[]).await.unwrap().tail.len(), 2);
    std::fs::write(torn.place.path(&torn.key), &torn.good).unwrap();
    torn.place.touch(&torn.key, 10);
    let snapshot = reader.snapshot(&[Token::Position(torn.faulty)]).await.unwrap();
    assert_eq!(snapshot.blocks(torn.place.table).unwrap().count(), 3);
}

#[tokio::test]
async fn another_object_is_read_at_once_by_who_could_not_read_the_one_before() {
    let torn = Torn::new().await;
    let reader = torn.reader(false);
    let table = torn.place.table;
    let refused = reader.snapshot(&[]).await.unwrap().blocks(table).map(|blocks| blocks.count());
    assert_eq!(refused.unwrap_err().context("key"), Some(torn.key.as_str()));
    std::fs::write(torn.place.path(&torn.key), &torn.good).unwrap();
    torn.place.touch(&torn.key, 10);
    assert_eq!(reader.snapshot(&[]).await.unwrap().blocks(table).unwrap().count(), 5);
}
