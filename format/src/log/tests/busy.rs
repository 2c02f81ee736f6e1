//! Reads a log while segments are written to it.

use std::{sync::atomic::AtomicBool, time::Instant};

use super::*;
use crate::snapshot::{SnapshotOptions, SnapshotReader};

/// Minimum number of segments that the writer puts.
const SEGMENTS: u64 = 2_000;
/// Minimum number of reads of the log.
const LOOKS: u64 = 20;
/// Time limit of the test.
const PATIENCE: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cuts_and_snapshots_work_while_a_writer_puts_segments_into_a_directory() {
    let place = Arc::new(Place::new().await);
    let looked = Arc::new(AtomicBool::new(false));
    let (of_writer, ends) = (place.clone(), looked.clone());
    let writer = tokio::spawn(async move {
        let (mut seq, begun) = (0, Instant::now());
        while (seq < SEGMENTS || !ends.load(std::sync::atomic::Ordering::Relaxed)) && begun.elapsed() < PATIENCE {
            let position = Position { writer: A, seq };
            let header = SegmentHeader {
                position,
                writer_start_ms: of_writer.epoch_ms,
                stamp_ns: seq as i64,
                queue_keys: false,
            };
            let bytes = segment::encode(&header, &[of_writer.block(1.0)], Compression::Always).unwrap();
            of_writer.store().create(&layout::log_key(position), bytes).await.unwrap();
            seq += 1;
        }
        seq
    });
    let mut last = 0;
    for _ in 0..LOOKS {
        let cut = cut(&place.root, Duration::ZERO, u64::MAX).await.unwrap();
        assert!(cut.faults.is_empty(), "{:?}", cut.faults);
        let seqs: Vec<u64> = cut.segments.iter().map(|s| s.position.seq).collect();
        assert!(seqs.iter().copied().eq(0..seqs.len() as u64), "a cut has the numbers of a writer without a hole");
        assert!(seqs.len() as u64 >= last, "{} after {last}", seqs.len());
        last = seqs.len() as u64;
        let reader = SnapshotReader::new(place.root.clone(), SnapshotOptions::default());
        let snapshot = reader.snapshot(&[]).await.unwrap();
        assert!(snapshot.faults.is_empty() && snapshot.tail.len() as u64 >= last, "{:?}", snapshot.faults);
    }
    looked.store(true, std::sync::atomic::Ordering::Relaxed);
    let put = writer.await.unwrap();
    let all = cut(&place.root, Duration::ZERO, u64::MAX).await.unwrap();
    assert!(put >= SEGMENTS && all.segments.len() as u64 <= put, "{} of {put}", all.segments.len());
}
