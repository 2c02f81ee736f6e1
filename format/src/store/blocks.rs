//! Determines which blocks of an object a read touches, and which requests fetch the missing ones.

use std::ops::Range;

use object_store::OBJECT_STORE_COALESCE_DEFAULT;

/// Size of a cached block; the last block of an object is shorter.
///
/// A read is rounded outwards to blocks: by 256 KiB on average, which takes 3 ms at 80 MB/s, compared to 25 ms for the
/// first byte, and is a quarter of the gap up to which near ranges are read together anyway. The size divides the parts
/// in which files are read, so that parts share no block. Smaller blocks would mean more disk reads for the same bytes.
pub(super) const BLOCK_BYTES: u64 = 256 << 10;
/// Maximum gap, in blocks, across which missing blocks are fetched in one request. It never joins two ranges that are
/// read separately without a cache, which rounding has brought up to two blocks closer.
const GAP: u64 = OBJECT_STORE_COALESCE_DEFAULT / BLOCK_BYTES - 2;

/// The length of one block of an object of `size` bytes.
pub(super) fn block_len(size: u64, number: u64) -> u64 {
    size.saturating_sub(number.saturating_mul(BLOCK_BYTES)).min(BLOCK_BYTES)
}

/// The blocks that cover some ranges, ascending, without duplicates.
pub(super) fn touched(ranges: &[Range<u64>]) -> Vec<u64> {
    let of = |range: &Range<u64>| range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES);
    let mut numbers: Vec<u64> = ranges.iter().filter(|range| !range.is_empty()).flat_map(of).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers
}

/// The number of requests that some ranges take without a cache.
pub(super) fn requests(ranges: &[Range<u64>]) -> usize {
    let mut ranges: Vec<&Range<u64>> = ranges.iter().filter(|range| !range.is_empty()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    let (mut count, mut end) = (0, None);
    for range in ranges {
        if end.is_none_or(|end| range.start > end && range.start - end > OBJECT_STORE_COALESCE_DEFAULT) {
            count += 1;
        }
        end = end.max(Some(range.end));
    }
    count
}

/// Runs of blocks that cover the missing ones (ascending): one request each, at most `most` of them.
///
/// Above `most`, the nearest runs are joined. So a read with a cache takes no more requests than without one, and no
/// more bytes except for the rounding.
pub(super) fn runs(missing: &[u64], most: usize) -> Vec<Range<u64>> {
    let gaps = missing.windows(2).map(|pair| pair[1] - pair[0] - 1);
    let mut wide: Vec<u64> = gaps.filter(|gap| *gap > GAP).collect();
    wide.sort_unstable_by_key(|gap| std::cmp::Reverse(*gap));
    wide.truncate(most.saturating_sub(1));
    let mut runs: Vec<Range<u64>> = Vec::with_capacity(wide.len() + 1);
    for number in missing {
        match runs.last_mut() {
            Some(last) if !cut(&mut wide, number - last.end) => last.end = number + 1,
            _ => runs.push(*number..number + 1),
        }
    }
    runs
}

/// Whether a run ends at a gap of this size; if so, removes the gap from `wide`.
fn cut(wide: &mut Vec<u64>, gap: u64) -> bool {
    let found = wide.iter().position(|w| *w == gap);
    found.map(|at| wide.swap_remove(at)).is_some()
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    const B: u64 = BLOCK_BYTES;

    #[test]
    fn reads_are_rounded_outwards_to_blocks() {
        assert!(touched(&[]).is_empty());
        assert!(touched(&[0..0, B..B]).is_empty());
        assert_eq!(touched(&[0..1]), [0]);
        assert_eq!(touched(&[B - 1..B]), [0]);
        assert_eq!(touched(&[B - 1..B + 1]), [0, 1]);
        assert_eq!(touched(&[3 * B..4 * B, 0..1, 3 * B + 7..3 * B + 8]), [0, 3]);
        assert_eq!([0, 1, 2, 3].map(|number| block_len(2 * B + 5, number)), [B, B, 5, 0]);
        assert_eq!((block_len(0, 0), block_len(B, 0), block_len(B, 1)), (0, B, 0));
    }

    #[test]
    fn missing_blocks_are_joined_over_small_gaps_and_never_take_more_requests() {
        assert!(runs(&[], 1).is_empty());
        assert_eq!(runs(&[0, 1, 2, 5], 2), [0..6]);
        assert_eq!(runs(&[0, 1, 2, 6], 2), [0..3, 6..7]);
        assert_eq!(runs(&[0, 1, 2, 8], 1), [0..9]);
        assert_eq!(runs(&[0, 10, 30, 36], 2), [0..11, 30..37]);
        assert_eq!(runs(&[0, 10, 20, 30], 3).len(), 3);
    }

    #[test]
    fn requests_are_counted_as_they_are_sent_without_a_cache() {
        let mut rng = StdRng::seed_from_u64(11);
        for _ in 0..500 {
            let mut ranges = Vec::new();
            for _ in 0..rng.random_range(0..12) {
                let start = rng.random_range(0..40 * B);
                ranges.push(start..start + rng.random_range(1..3 * B));
            }
            let count = std::sync::atomic::AtomicUsize::new(0);
            let fetch = |range: Range<u64>| {
                count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                async move { Ok::<_, ()>(bytes::Bytes::from(vec![0; (range.end - range.start) as usize])) }
            };
            let read = object_store::coalesce_ranges(&ranges, fetch, OBJECT_STORE_COALESCE_DEFAULT);
            assert!(futures::executor::block_on(read).is_ok());
            assert_eq!(requests(&ranges), count.into_inner(), "{ranges:?}");
        }
    }

    #[test]
    fn runs_cover_what_is_missing() {
        let mut rng = StdRng::seed_from_u64(12);
        for _ in 0..2_000 {
            let mut missing: Vec<u64> = (0..rng.random_range(1..40)).map(|_| rng.random_range(0..200)).collect();
            missing.sort_unstable();
            missing.dedup();
            let most = rng.random_range(1..10);
            let runs = runs(&missing, most);
            assert!(runs.len() <= most && runs.windows(2).all(|w| w[0].end + GAP < w[1].start));
            assert!(missing.iter().all(|number| runs.iter().any(|run| run.contains(number))));
            let ends = runs.iter().flat_map(|run| [run.start, run.end - 1]);
            assert!(ends.into_iter().all(|end| missing.contains(&end)));
        }
    }
}
