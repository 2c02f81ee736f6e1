//! Segments that were deleted and put back, with the last-modified time of the copy: their rows keep their original
//! age.

use super::*;
use crate::snapshot::{SnapshotOptions, SnapshotReader};

/// Nanoseconds per millisecond.
const MS: i64 = 1_000_000;
/// Time at which segments are put back.
const LATE_MS: i64 = 600_000;
const DAY_MS: i64 = 86_400_000;
const C: WriterId = WriterId(0xc << 124);

/// Five segments of A, ten seconds apart, and a segment of B between any two of them.
async fn interleaved(has_common_stamps: bool) -> (Place, Vec<Position>) {
    let place = if has_common_stamps { Place::new().await } else { Place::without_common_stamps().await };
    let mut order = Vec::new();
    for at in 0..9_i64 {
        let writer = if at % 2 == 0 { A } else { B };
        order.push(put(&place, writer, at as u64 / 2, at * 5_000, at * 5_000).await);
    }
    (place, order)
}

/// Puts a segment with a stamp from a clock two hours ahead of the store's.
async fn put(place: &Place, writer: WriterId, seq: u64, modified_ms: i64, stamped_ms: i64) -> Position {
    let stamp_ns = (place.epoch_ms + stamped_ms + 7_200_000) * MS;
    let header = SegmentHeader {
        position: Position { writer, seq },
        writer_start_ms: place.epoch_ms,
        stamp_ns,
        queue_keys: false,
    };
    place.put_with(header, modified_ms).await
}

fn key(seq: u64) -> String {
    layout::log_key(Position { writer: A, seq })
}

/// The order in which queries read the segments.
async fn seen(place: &Place) -> Vec<Position> {
    let reader = SnapshotReader::new(place.root.clone(), SnapshotOptions::default());
    reader.snapshot(&[]).await.unwrap().tail.iter().map(|segment| segment.position).collect()
}

async fn whole_cut(place: &Place) -> Cut {
    cut(&place.root, MARGIN, u64::MAX).await.unwrap()
}

#[tokio::test]
async fn segments_put_back_keep_their_place_among_those_of_other_writers() {
    // Each subset of the first four segments of A; deleting the last segment would leave no hole.
    for copied in 1..16_u64 {
        for (folded, has_common_stamps) in [(false, false), (false, true), (true, false), (true, true)] {
            let (place, order) = interleaved(has_common_stamps).await;
            let mut expected = order.as_slice();
            if folded {
                place.touch(&key(0), 0);
                let first = cut_within(&place.root, MARGIN, 1, usize::MAX).await.unwrap();
                assert_eq!(taken(&first), order[..1]);
                fold(&place.root, &first).await.unwrap();
                expected = &order[1..];
            }
            for seq in (0..4).filter(|seq| copied >> seq & 1 == 1) {
                place.touch(&key(seq), LATE_MS + 1_000 * seq as i64);
            }
            assert_eq!(seen(&place).await, expected, "copied {copied:b}, folded {folded}");
            let cut = whole_cut(&place).await;
            assert_eq!(taken(&cut), expected, "copied {copied:b}, folded {folded}");
            let times = cut.watermarks.iter().map(|(writer, mark)| (*writer, mark.time_ms - place.epoch_ms));
            assert_eq!(times.collect::<Vec<_>>(), [(A, 40_000), (B, 35_000)]);
        }
    }
}

#[tokio::test]
async fn a_segment_put_back_keeps_its_place_when_the_writers_clock_jumped() {
    for jump_ms in [-3_600_000, 3_600_000] {
        for (copied, jumped) in (0..4_u64).flat_map(|copied| (1..5).map(move |jumped| (copied, jumped))) {
            let place = Place::without_common_stamps().await;
            let mut expected = Vec::new();
            for at in 0..10_i64 {
                let (writer, seq) = (if at % 2 == 1 { A } else { B }, at as u64 / 2);
                let jump_ms = if writer == A && seq >= jumped { jump_ms } else { 0 };
                expected.push(put(&place, writer, seq, at * 5_000, at * 5_000 + jump_ms).await);
            }
            place.touch(&key(copied), LATE_MS);
            // Alone on its side of the jump, the first segment is only known to be older than the second one.
            if (copied, jumped) == (0, 1) {
                let at = expected.iter().position(|position| *position == (Position { writer: A, seq: 0 })).unwrap();
                let first = expected.remove(at);
                let seen: Vec<Position> =
                    seen(&place).await.into_iter().filter(|position| *position != first).collect();
                assert_eq!(seen, expected);
                continue;
            }
            assert_eq!(seen(&place).await, expected, "segment {copied} is a copy, the clock jumps before {jumped}");
        }
    }
}

#[tokio::test]
async fn on_a_directory_a_segment_put_back_keeps_the_place_of_its_stamp_when_stamps_are_ahead_of_the_clock() {
    // The stamps of all segments are within a microsecond, which says nothing about the ten seconds between them.
    for copied in 0..4_u64 {
        let place = Place::new().await;
        let mut expected = Vec::new();
        for at in 0..9_i64 {
            let (writer, seq) = (if at % 2 == 0 { A } else { B }, at as u64 / 2);
            expected.push(place.put(writer, seq, at * 5_000, 600_000 * MS + at).await);
        }
        place.touch(&key(copied), LATE_MS);
        assert_eq!(seen(&place).await, expected, "segment {copied} is a copy");
        assert_eq!(taken(&whole_cut(&place).await), expected, "segment {copied} is a copy");
    }
}

#[tokio::test]
async fn on_a_directory_a_segment_put_back_is_later_than_those_acknowledged_before_it_was_begun() {
    let place = Place::new().await;
    let a0 = place.put(A, 0, 0, 10).await;
    // Begun before the copy, and slow: put after a segment that was begun later.
    let slow = place.put(B, 0, 30_000, 20).await;
    let before = place.put(C, 0, 5_000, 30).await;
    let copy = place.put(A, 1, LATE_MS, 40).await;
    let after = place.put(C, 1, 20_000, 50).await;
    let a2 = place.put(A, 2, 40_000, 60).await;
    assert_eq!(seen(&place).await, [a0, before, copy, after, slow, a2]);
}

#[tokio::test]
async fn a_segment_put_back_without_a_header_is_as_old_as_the_next_one() {
    let (place, order) = interleaved(true).await;
    std::fs::write(place.path(&key(1)), b"torn").unwrap();
    place.touch(&key(1), LATE_MS);
    let cut = whole_cut(&place).await;
    assert_eq!(cut.faults.iter().map(|f| f.position).collect::<Vec<_>>(), order[2..3]);
    // The cut takes the segments older than the next segment of A, except those of the same time.
    assert_eq!(taken(&cut), [&order[..2], &order[3..4]].concat());
}

#[tokio::test]
async fn segments_keep_the_order_of_their_numbers_when_the_store_clock_was_set_back() {
    let place = Place::new().await;
    let mut expected = Vec::new();
    for (seq, modified_ms) in [10_000, 20_000, 30_000, 5_000, 6_000].into_iter().enumerate() {
        expected.push(put(&place, A, seq as u64, modified_ms, 10_000 * seq as i64).await);
    }
    assert_eq!(seen(&place).await, expected);
    // The first segment is folded with its own time.
    let mut watermark = Watermark::unfolded(place.epoch_ms);
    (watermark.next, watermark.time_ms) = (1, place.epoch_ms + 10_000);
    place.root.commit(&[], |d| Ok(d.set_watermark(A, watermark.clone()))).await.unwrap();
    let cut = whole_cut(&place).await;
    assert_eq!(taken(&cut), expected[1..]);
    let times: Vec<i64> = cut.segments.iter().map(|s| s.modified_ms - place.epoch_ms).collect();
    assert_eq!(times, [20_000, 30_000, 30_000, 30_000]);
}

#[tokio::test]
async fn a_segment_that_is_put_back_days_later_counts() {
    let place = Place::new().await;
    let start_ms = -4 * DAY_MS;
    let mut expected = Vec::new();
    for seq in 0..3 {
        let modified_ms = start_ms + 1_000 * seq as i64;
        let (writer_start_ms, stamp_ns) = (place.epoch_ms + start_ms, (place.epoch_ms + modified_ms) * MS);
        let header =
            SegmentHeader { position: Position { writer: A, seq }, writer_start_ms, stamp_ns, queue_keys: false };
        expected.push(place.put_with(header, modified_ms).await);
    }
    place.touch(&key(1), 0);
    assert_eq!(seen(&place).await, expected);
    assert_eq!(taken(&whole_cut(&place).await), expected);
}
