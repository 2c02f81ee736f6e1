#![allow(clippy::unwrap_used)]

use std::time::Duration;

use arrow::{array::AsArray, datatypes::Float64Type};

use super::*;
use crate::{
    error::Kind,
    ids::{Position, Version, WriterId},
    layout,
    log::{
        cut,
        tests::{A, B, Place, value_of},
    },
    meta::{Root, tests::root_with_table},
    store::{Created, Store},
};

fn reader(place: &Place) -> SnapshotReader {
    SnapshotReader::new(place.root.clone(), SnapshotOptions::default())
}

fn positions(snapshot: &Snapshot) -> Vec<Position> {
    snapshot.tail.iter().map(|t| t.position).collect()
}

#[tokio::test]
async fn a_snapshot_orders_the_tail_by_time_stamp_and_place() {
    let place = Place::new().await;
    let reader = reader(&place);
    assert!(reader.snapshot(&[]).await.unwrap().tail.is_empty());
    let b0 = place.put(B, 0, 100, 5).await;
    let a0 = place.put(A, 0, 100, 5).await;
    let b1 = place.put(B, 1, 50, 6).await;
    let a1 = place.put(A, 1, 200, 0).await;
    let w0 = place.put(WriterId(1), 0, 100, 4).await;
    let snapshot = reader.snapshot(&[]).await.unwrap();
    // b1 is never before b0.
    assert_eq!(positions(&snapshot), [w0, a0, b0, b1, a1]);
    let values: Vec<f64> = snapshot
        .blocks(place.table)
        .unwrap()
        .map(|(_, b)| b.rows.column(2).as_primitive::<Float64Type>().value(0))
        .collect();
    assert_eq!(values, [w0, a0, b0, b1, a1].map(value_of));
    assert_eq!(snapshot.blocks(TableId(77)).unwrap().count(), 0);
    // A new reader returns the same order.
    assert_eq!(positions(&self::reader(&place).snapshot(&[]).await.unwrap()), positions(&snapshot));
}

#[tokio::test]
async fn a_missing_number_fails_queries_until_it_is_there_again() {
    let place = Place::new().await;
    let reader = reader(&place);
    let a0 = place.put(A, 0, 0, 0).await;
    reader.snapshot(&[]).await.unwrap();
    let a2 = place.put(A, 2, 0, 0).await;
    let b1 = place.put(B, 1, 0, 0).await;
    // For A the next number is requested, which does not exist; the segments of B are listed.
    let snapshot = reader.snapshot(&[]).await.unwrap();
    assert_eq!((positions(&snapshot), snapshot.faults.len()), (vec![a0, b1], 1));
    let fresh = self::reader(&place).snapshot(&[Token::Position(a2)]).await.unwrap();
    assert_eq!((positions(&fresh), fresh.faults.len()), (vec![a0, a2, b1], 2));
    assert_eq!(fresh.blocks(place.table).err().unwrap().kind(), Kind::Corrupt);
    let a1 = place.put(A, 1, 0, 0).await;
    let b0 = place.put(B, 0, 0, 0).await;
    assert_eq!(positions(&reader.snapshot(&[Token::Position(a2)]).await.unwrap()), [a0, a1, a2, b0, b1]);
}

#[tokio::test]
async fn rows_are_in_every_snapshot_while_they_move_from_the_log_to_files() {
    let place = Place::new().await;
    let reader = reader(&place);
    for seq in 0..10 {
        let position = place.put(A, seq, seq as i64, 0).await;
        if seq % 3 == 2 {
            // Another process folds and collects between two reads of this one.
            let other = Root::open(place.store().clone()).await.unwrap();
            let cut = cut(&other, Duration::from_secs(2), u64::MAX).await.unwrap();
            other.commit(&[], |d| cut.apply(d)).await.unwrap();
            for segment in &cut.segments {
                place.store().delete(&layout::log_key(segment.position)).await.unwrap();
            }
        }
        let snapshot = reader.snapshot(&[]).await.unwrap();
        let next = snapshot.catalog.watermark(A).map_or(0, |w| w.next);
        let expected: Vec<_> = (next..=seq).map(|seq| Position { writer: A, seq }).collect();
        assert_eq!(positions(&snapshot), expected);
        for seq in 0..=seq {
            assert!(snapshot.contains(&Token::Position(Position { writer: A, seq })));
        }
        assert!(!snapshot.contains(&Token::Position(Position { seq: seq + 1, ..position })));
    }
}

#[tokio::test]
async fn a_watermark_that_overtakes_a_reader_does_not_hide_what_follows() {
    let place = Place::new().await;
    let reader = reader(&place);
    place.put(A, 0, 0, 0).await;
    reader.snapshot(&[]).await.unwrap();
    // Between two reads of this reader, 0 to 5 are folded and collected; 6 is new.
    for seq in 1..6 {
        place.put(A, seq, 0, 0).await;
    }
    let other = Root::open(place.store().clone()).await.unwrap();
    let cut = cut(&other, Duration::from_secs(2), u64::MAX).await.unwrap();
    let catalog = other.commit(&[], |d| cut.apply(d)).await.unwrap().1;
    let a6 = place.put(A, 6, 0, 0).await;
    for seq in 0..6 {
        place.store().delete(&layout::log_key(Position { writer: A, seq })).await.unwrap();
    }
    let snapshot = reader.snapshot(&[]).await.unwrap();
    assert_eq!((snapshot.catalog.version, positions(&snapshot)), (catalog.version, vec![a6]));
}

#[tokio::test]
async fn a_segment_is_read_once_and_an_idle_snapshot_is_the_same_one() {
    let place = Place::new().await;
    let reader = reader(&place);
    for seq in 0..5 {
        place.put(A, seq, 0, 0).await;
    }
    let first = reader.snapshot(&[]).await.unwrap();
    let before = place.store().counters();
    let second = reader.snapshot(&[]).await.unwrap();
    assert!(Arc::ptr_eq(&first, &second));
    let spent = place.store().counters().since(&before);
    assert_eq!((spent.get, spent.head, spent.list), (1, 1, 1), "N+1, the next number, the names of writers");
    assert_eq!(spent.get_bytes, 0);
    place.put(A, 5, 0, 0).await;
    let third = reader.snapshot(&[]).await.unwrap();
    assert!(Arc::ptr_eq(&third.tail[0], &first.tail[0]));
    assert_eq!(third.tail.len(), 6);
}

#[tokio::test]
async fn a_small_cache_changes_only_which_segments_are_read_again() {
    let place = Place::new().await;
    let options = SnapshotOptions { tail_cache_bytes: 1, ..SnapshotOptions::default() };
    let reader = SnapshotReader::new(place.root.clone(), options);
    for seq in 0..3 {
        place.put(A, seq, 0, 0).await;
    }
    for _ in 0..3 {
        let before = place.store().counters();
        assert_eq!(reader.snapshot(&[]).await.unwrap().tail.len(), 3);
        assert_eq!(place.store().counters().since(&before).get, 4);
    }
}

#[tokio::test]
async fn segments_beyond_the_cache_are_shared_by_snapshots_in_use_and_freed_with_the_last_one() {
    let place = Place::new().await;
    let options = SnapshotOptions { tail_cache_bytes: 1, ..SnapshotOptions::default() };
    let reader = SnapshotReader::new(place.root.clone(), options);
    place.put(A, 0, 0, 0).await;
    let first = reader.snapshot(&[]).await.unwrap();
    assert!(Arc::ptr_eq(&first, &reader.snapshot(&[]).await.unwrap()));
    place.put(A, 1, 0, 0).await;
    let before = place.store().counters();
    let second = reader.snapshot(&[]).await.unwrap();
    assert_eq!(place.store().counters().since(&before).get, 2, "the next version and the new segment");
    assert!(Arc::ptr_eq(&first.tail[0], &second.tail[0]));
    let segments: Vec<_> = second.tail.iter().map(Arc::downgrade).collect();
    drop(first);
    assert!(segments.iter().all(|segment| segment.upgrade().is_some()));
    drop(second);
    assert!(segments.iter().all(|segment| segment.upgrade().is_none()));
}

#[tokio::test]
async fn a_log_that_does_not_fit_into_memory_is_refused_without_being_read_again_until_more_is_folded() {
    let place = Place::new().await;
    let one = {
        place.put(A, 0, 0, 0).await;
        reader(&place).snapshot(&[]).await.unwrap().tail[0].memory_bytes()
    };
    let options = SnapshotOptions { tail_bytes: 3 * one, ..SnapshotOptions::default() };
    let small = SnapshotReader::new(place.root.clone(), options);
    for seq in 1..3 {
        place.put(A, seq, 0, 0).await;
    }
    assert_eq!(small.snapshot(&[]).await.unwrap().tail.len(), 3);
    for seq in 3..8 {
        place.put(A, seq, 0, 0).await;
    }
    for expected in [1, 0] {
        let before = place.store().counters();
        assert_eq!(small.snapshot(&[]).await.unwrap_err().kind(), Kind::Unavailable);
        let segments = place.store().counters().since(&before).get - 1;
        assert!(segments <= 5 * expected, "{segments}");
    }
    let cut = crate::log::cut(&place.root, Duration::ZERO, u64::MAX).await.unwrap();
    place.root.commit(&[], |d| cut.apply(d)).await.unwrap();
    assert_eq!(small.snapshot(&[]).await.unwrap().tail.len(), 0);
    place.put(A, 8, 0, 0).await;
    assert_eq!(small.snapshot(&[]).await.unwrap().tail.len(), 1);
}

#[tokio::test]
async fn a_corrupt_segment_fails_the_query_that_needs_it_by_name() {
    let place = Place::new().await;
    let reader = reader(&place);
    place.put(A, 0, 0, 0).await;
    let a1 = place.put(A, 1, 0, 0).await;
    let key = layout::log_key(a1);
    let good = std::fs::read(place.path(&key)).unwrap();
    std::fs::write(place.path(&key), &good[..good.len() - 3]).unwrap();
    let snapshot = reader.snapshot(&[]).await.unwrap();
    assert_eq!((snapshot.tail.len(), snapshot.faults.len()), (1, 1));
    let e = snapshot.blocks(place.table).err().unwrap();
    assert_eq!((e.kind(), e.context("key")), (Kind::Corrupt, Some(key.as_str())));
    // Its directory is intact and names no other table.
    assert_eq!(snapshot.blocks(TableId(77)).unwrap().count(), 0);
    let e = reader.snapshot(&[Token::Position(a1)]).await.unwrap_err();
    assert_eq!(e.kind(), Kind::Corrupt);
    // A segment under the key of another one is a fault too.
    let b0 = layout::log_key(Position { writer: B, seq: 0 });
    place.store().create(&b0, good.into()).await.unwrap();
    let faults = reader.snapshot(&[]).await.unwrap().faults.clone();
    assert_eq!(faults.len(), 2);
    let misplaced = faults.iter().find(|f| f.error.context("key") == Some(&b0)).unwrap();
    assert!(misplaced.concerns(TableId(77)), "nobody knows what should be there");
}

#[tokio::test]
async fn tokens_are_seen_expired_or_not_there() {
    let place = Place::new().await;
    let reader = reader(&place);
    let a0 = place.put(A, 0, 0, 0).await;
    for token in [Token::Version(Version(1)), Token::Position(a0)] {
        assert!(reader.snapshot(&[token]).await.unwrap().contains(&token));
    }
    let unknown = Token::Position(Position { writer: B, seq: 0 });
    let e = reader.snapshot(&[unknown]).await.unwrap_err();
    assert_eq!(e.kind(), Kind::NotFound);
    assert!(e.message().starts_with("token expired"));
    for token in [Token::Version(Version(2)), Token::Position(Position { seq: 1, ..a0 })] {
        assert_eq!(reader.snapshot(&[token]).await.unwrap_err().kind(), Kind::Unavailable);
    }
}

#[tokio::test]
async fn a_stale_snapshot_is_reused_within_the_limit_and_a_token_forces_a_read() {
    let (root, _) = root_with_table(Store::in_memory()).await;
    let options = SnapshotOptions { max_staleness: Some(Duration::from_secs(60)), ..SnapshotOptions::default() };
    let reader = SnapshotReader::new(root.clone(), options);
    let first = reader.snapshot(&[]).await.unwrap();
    let writer = Root::open(root.store().clone()).await.unwrap();
    let (_, catalog) = writer.commit(&[], |d| Ok(d.renew())).await.unwrap();
    let before = root.store().counters();
    assert!(Arc::ptr_eq(&reader.snapshot(&[]).await.unwrap(), &first));
    assert_eq!(root.store().counters(), before);
    let token = Token::Version(catalog.version);
    assert_eq!(reader.snapshot(&[token]).await.unwrap().catalog.version, catalog.version);
    let fresh = SnapshotReader::new(root, SnapshotOptions::default());
    let (_, catalog) = writer.commit(&[], |d| Ok(d.renew())).await.unwrap();
    assert_eq!(fresh.snapshot(&[]).await.unwrap().catalog.version, catalog.version);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_acknowledged_segment_is_in_every_later_snapshot_while_folds_run() {
    let place = Arc::new(Place::new().await);
    let reader = reader(&place);
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let folder = tokio::spawn({
        let (place, stop) = (place.clone(), stop.clone());
        async move {
            let root = Root::open(place.store().clone()).await.unwrap();
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let cut = cut(&root, Duration::ZERO, 3_000).await.unwrap();
                root.commit(&[], |d| cut.apply(d)).await.unwrap();
                for segment in &cut.segments {
                    place.store().delete(&layout::log_key(segment.position)).await.unwrap();
                }
                tokio::task::yield_now().await;
            }
        }
    });
    let writers = (1..4_u128).map(|n| {
        let (place, reader) = (place.clone(), reader.clone());
        tokio::spawn(async move {
            for seq in 0..40 {
                let position = Position { writer: WriterId(n << 124), seq };
                let header = crate::segment::SegmentHeader {
                    position,
                    writer_start_ms: place.epoch_ms,
                    stamp_ns: place.epoch_ms + seq as i64,
                    queue_keys: false,
                };
                let bytes =
                    crate::segment::encode(&header, &[place.block(0.0)], crate::segment::Compression::Always).unwrap();
                let created = place.store().create(&layout::log_key(position), bytes).await.unwrap();
                assert_eq!(created, Created::New);
                let snapshot = reader.snapshot(&[]).await.unwrap();
                for seq in 0..=seq {
                    assert!(snapshot.contains(&Token::Position(Position { seq, ..position })), "{position}");
                }
                let next = |w| snapshot.catalog.watermark(w).map_or(0, |m| m.next);
                assert!(snapshot.tail.iter().all(|t| t.position.seq >= next(t.position.writer)), "a row twice");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    folder.await.unwrap();
}

/// One request in eight fails, half of these after taking effect. Every failure message contains the seed.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn faults_of_the_store_lose_nothing_that_was_acknowledged() {
    use crate::store::faults::Fault as Injected;
    let seed = 20_261_120_u64;
    let place = Place::new().await;
    let n = std::sync::atomic::AtomicU64::new(seed);
    let store = place.store().with_faults(move |_| {
        let n = n.fetch_add(1, std::sync::atomic::Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match (n >> 40) % 16 {
            0 => Injected::Refused,
            1 => Injected::LostReply,
            _ => Injected::None,
        }
    });
    let root = loop {
        match Root::open(store.clone()).await {
            Ok(root) => break root,
            Err(e) => assert_eq!(e.kind(), Kind::Unavailable, "seed {seed}: {e}"),
        }
    };
    let reader = SnapshotReader::new(root.clone(), SnapshotOptions::default());
    let (mut failed, mut folded) = (0, 0);
    for seq in 0..60 {
        let position = Position { writer: A, seq };
        let header = crate::segment::SegmentHeader {
            position,
            writer_start_ms: place.epoch_ms,
            stamp_ns: seq as i64,
            queue_keys: false,
        };
        let bytes =
            crate::segment::encode(&header, &[place.block(value_of(position))], crate::segment::Compression::Always)
                .unwrap();
        assert!(store.create(&layout::log_key(position), bytes).await.unwrap().is_ours(), "seed {seed}");
        let snapshot = loop {
            match reader.snapshot(&[Token::Position(position)]).await {
                Ok(snapshot) => break snapshot,
                Err(e) => assert_eq!(e.kind(), Kind::Unavailable, "seed {seed}: {e}"),
            }
            failed += 1;
        };
        for seq in 0..=seq {
            assert!(snapshot.contains(&Token::Position(Position { seq, ..position })), "seed {seed}");
        }
        if seq % 5 == 4 {
            let before = folded;
            for _ in 0..1_000 {
                if let Ok(cut) = cut(&root, Duration::ZERO, u64::MAX).await
                    && !cut.is_empty()
                    && root.commit(&[], |d| cut.apply(d)).await.is_ok()
                {
                    folded += 1;
                    break;
                }
            }
            assert_eq!(folded, before + 1, "seed {seed}");
        }
    }
    // No call failed: temporary failures are retried.
    assert_eq!((failed, folded), (0, 12), "seed {seed}");
}

#[tokio::test]
async fn another_reader_reads_a_snapshot_by_id_after_writes_and_folds() {
    let place = Place::new().await;
    let reader = reader(&place);
    for (writer, seq, modified) in [(B, 0, 100), (A, 0, 100), (B, 1, 50), (A, 1, 200)] {
        place.put(writer, seq, modified, 0).await;
    }
    let snapshot = reader.snapshot(&[]).await.unwrap();
    let name = serde_json::to_string(&snapshot.id()).unwrap();
    place.put(A, 2, 300, 0).await;
    let values = |snapshot: &Snapshot| -> Vec<f64> {
        let blocks = snapshot.blocks(place.table).unwrap();
        blocks.map(|(_, b)| b.rows.column(2).as_primitive::<Float64Type>().value(0)).collect()
    };
    // Another process, which has read nothing yet; and one that has the segments in memory.
    for other in [self::reader(&place), reader.clone()] {
        let again = other.at(&serde_json::from_str(&name).unwrap()).await.unwrap();
        assert_eq!((again.catalog.version, values(&again)), (snapshot.catalog.version, values(&snapshot)));
        assert_eq!(again.id(), snapshot.id());
    }
    // Segments in memory are not read again.
    let newest = reader.snapshot(&[]).await.unwrap();
    let before = place.store().counters();
    assert!(Arc::ptr_eq(&reader.at(&newest.id()).await.unwrap(), &newest));
    assert!(Arc::ptr_eq(&reader.at(&snapshot.id()).await.unwrap().tail[0], &snapshot.tail[0]));
    assert_eq!(place.store().counters().since(&before).get_bytes, 0);
    // The rows are in files now, but the segments still exist: the id is still valid.
    let other = Root::open(place.store().clone()).await.unwrap();
    let cut = cut(&other, Duration::from_secs(2), u64::MAX).await.unwrap();
    let (_, folded) = other.commit(&[], |d| cut.apply(d)).await.unwrap();
    let fresh = self::reader(&place);
    assert_eq!(values(&fresh.at(&snapshot.id()).await.unwrap()), values(&snapshot));
    // Snapshots in use share their segments, which are read once.
    let (one, two) = (fresh.at(&snapshot.id()).await.unwrap(), fresh.at(&snapshot.id()).await.unwrap());
    assert!(one.tail.iter().zip(&two.tail).all(|(a, b)| Arc::ptr_eq(a, b)));
    let mut reversed = snapshot.id();
    reversed.segments.reverse();
    let mut twice = snapshot.id();
    twice.segments.insert(1, twice.segments[0]);
    for wrong in [reversed, twice] {
        assert_eq!(fresh.at(&wrong).await.unwrap_err().kind(), Kind::Invalid);
    }
    // On top of the version that has their rows in files, these segments do not count.
    let wrong = SnapshotId { version: folded.version, ..snapshot.id() };
    assert_eq!(fresh.at(&wrong).await.unwrap_err().kind(), Kind::Invalid);
    for segment in &cut.segments {
        place.store().delete(&layout::log_key(segment.position)).await.unwrap();
    }
    let e = self::reader(&place).at(&snapshot.id()).await.unwrap_err();
    assert_eq!((e.kind(), e.to_string().contains("take a new one")), (Kind::NotFound, true));
}

#[tokio::test]
async fn a_snapshot_id_lists_damaged_segments_and_rejects_replaced_objects() {
    let place = Place::new().await;
    let reader = reader(&place);
    place.put(A, 0, 0, 0).await;
    let a1 = place.put(A, 1, 0, 0).await;
    let key = layout::log_key(a1);
    let good = std::fs::read(place.path(&key)).unwrap();
    std::fs::write(place.path(&key), &good[..good.len() - 3]).unwrap();
    let id = reader.snapshot(&[]).await.unwrap().id();
    assert_eq!((id.segments.len(), id.damaged.len()), (1, 1));
    // The segment is intact again: the rows that the snapshot lacked must not appear silently.
    std::fs::write(place.path(&key), &good).unwrap();
    let again = self::reader(&place).at(&id).await.unwrap();
    let e = again.blocks(place.table).err().unwrap();
    assert_eq!((e.kind(), e.context("key")), (Kind::Corrupt, Some(key.as_str())));
    assert_eq!(again.blocks(TableId(77)).unwrap().count(), 0);
    assert_eq!(again.id(), id);
    let mut whole = self::reader(&place).snapshot(&[]).await.unwrap().id();
    whole.segments[0].bytes += 1;
    assert_eq!(self::reader(&place).at(&whole).await.unwrap_err().kind(), Kind::NotFound);
}
