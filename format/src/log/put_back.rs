//! The times of a writer's segments, which order the segments of all writers.
//!
//! The time of a segment is the last-modified time of its object. A segment that was deleted and put back has the
//! last-modified time of the copy, which is too late: its rows are older than those of the later segments of its
//! writer. Its original time is computed from the stamps in the headers of neighbouring segments.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use super::listing::Listed;
use crate::ids::{Position, WriterId};

/// Maximum clock difference between the nodes of one store, in milliseconds: a segment that is later than its successor
/// by less was not put back.
const SKEW_MS: i64 = 1_000;
/// Number of neighbours on each side of a segment that was put back whose stamps give the difference between the
/// store's and the writer's clock.
const NEIGHBOURS: usize = 8;

/// The stamps of segments, milliseconds since the epoch; `None` for a header that cannot be read.
pub(super) type Stamps = BTreeMap<Position, Option<i64>>;

/// The times of the segments of one writer, oldest first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Times {
    /// In the order of the numbers, never descending.
    pub(super) times_ms: Vec<i64>,
    /// Segments whose headers have to be read to compute these times.
    pub(super) unread: BTreeSet<Position>,
}

impl Times {
    /// The time of a segment is its last-modified time, but never less than the time of the previous segment
    /// (`folded_ms` is the time of the last folded one; `i64::MIN` if there is none).
    ///
    /// A segment is later than a later one of its writer for one of two reasons: it was put back, or the store's clock
    /// was set back. The clock was set back if the later segment is also earlier than the previous segment; then only
    /// the order of the numbers is known. Otherwise the segment was put back: its time is that of its stamp, converted
    /// to the store's clock, between the times of the segment below and of the later one. If no stamp gives it, it is
    /// the time of the later one.
    pub(super) fn of<'a>(
        writer: WriterId,
        segments: impl DoubleEndedIterator<Item = (&'a u64, &'a Listed)> + Clone,
        folded_ms: i64,
        stamps: &Stamps,
    ) -> Self {
        let modified_ms = segments.clone().map(|(_, listed)| listed.modified_ms);
        if modified_ms.clone().is_sorted() {
            return Self { times_ms: modified_ms.map(|ms| ms.max(folded_ms)).collect(), unread: BTreeSet::new() };
        }
        let modified: Vec<(Position, i64)> =
            segments.map(|(seq, listed)| (Position { writer, seq: *seq }, listed.modified_ms)).collect();
        let mut times = Self::default();
        let mut below_ms = folded_ms;
        for (at, later_ms) in earliest_later(&modified).into_iter().enumerate() {
            let (position, modified_ms) = modified[at];
            let was_put_back = below_ms <= later_ms && modified_ms > later_ms.saturating_add(SKEW_MS);
            let time_ms = if was_put_back {
                let near = &modified[at.saturating_sub(NEIGHBOURS)..modified.len().min(at + NEIGHBOURS + 1)];
                let unread = near.iter().map(|(position, _)| *position).filter(|p| !stamps.contains_key(p));
                times.unread.extend(unread);
                stamped(position, near, stamps, below_ms..=later_ms).unwrap_or(later_ms)
            } else {
                modified_ms
            };
            below_ms = below_ms.max(time_ms);
            times.times_ms.push(below_ms);
        }
        times
    }
}

/// When a segment was put, computed from its stamp and the difference between the store's and the writer's clock at the
/// nearest segment on each side. If the writer's clock or its stamps jumped in between, or the neighbour was put back
/// as well, the result is usually outside `limits` and is not used. Of two possible results the earlier one is right: a
/// slow request makes a segment seem later.
fn stamped(position: Position, near: &[(Position, i64)], stamps: &Stamps, limits: RangeInclusive<i64>) -> Option<i64> {
    let stamp_of = |position: &Position| stamps.get(position).copied().flatten();
    let own_ms = stamp_of(&position)?;
    let by = |(position, ms): &(Position, i64)| Some(own_ms.saturating_sub(stamp_of(position)?).saturating_add(*ms));
    let is_possible = |ms: &i64| limits.contains(ms);
    let (below, above) = near.split_at(near.partition_point(|(other, _)| *other < position));
    let nearest = [below.iter().rev().filter_map(by).find(is_possible), above.iter().filter_map(by).find(is_possible)];
    nearest.into_iter().flatten().min()
}

/// For each segment the earliest time of the segments above it; `i64::MAX` for the last one.
fn earliest_later(modified: &[(Position, i64)]) -> Vec<i64> {
    let mut later_ms = vec![i64::MAX; modified.len()];
    for at in (1..modified.len()).rev() {
        later_ms[at - 1] = later_ms[at].min(modified[at].1);
    }
    later_ms
}
