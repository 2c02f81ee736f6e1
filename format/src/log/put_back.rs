//! The times of a writer's segments, which order the segments of all writers.
//!
//! The time of a segment is the last-modified time of its object. A segment that was deleted and put back has the
//! last-modified time of the copy, which is too late: its rows are older than those of the later segments of its
//! writer. A time that orders it as its original time did is computed from the stamps in the headers of segments.

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

/// The stamps of segments, nanoseconds since the epoch; `None` for a header that cannot be read.
pub(super) type Stamps = BTreeMap<Position, Option<i64>>;

/// What the stamps of a store say about the times of segments.
#[derive(Debug, Clone, Copy)]
pub(super) enum Stamped<'a> {
    /// Differences between the stamps of one writer are differences of time: each process takes stamps from its clock.
    ByClock,
    /// The stamps of all writers are in one order, as on a directory: a segment that was begun after another one was
    /// acknowledged has the greater stamp. Stamps may be ahead of every clock, and then their differences say nothing.
    InOneOrder {
        /// The last-modified times of the segments of all writers.
        segments: &'a BTreeMap<WriterId, BTreeMap<u64, Listed>>,
    },
}

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
    /// the order of the numbers is known. Otherwise the segment was put back: its time is that of its stamp, between
    /// the times of the segment below and of the later one. If no stamp gives it, it is the time of the later one.
    pub(super) fn of<'a>(
        writer: WriterId,
        segments: impl DoubleEndedIterator<Item = (&'a u64, &'a Listed)> + Clone,
        folded_ms: i64,
        stamps: &Stamps,
        stamped: Stamped<'_>,
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
                let limits = below_ms..=later_ms;
                let (near, time_of): (Vec<(Position, i64)>, TimeOf) = match stamped {
                    Stamped::ByClock => {
                        let near = &modified[at.saturating_sub(NEIGHBOURS)..modified.len().min(at + NEIGHBOURS + 1)];
                        (near.to_vec(), by_clock)
                    }
                    Stamped::InOneOrder { segments } => (meanwhile(position, segments, &limits), by_order),
                };
                let needed = near.iter().map(|(position, _)| *position).chain([position]);
                times.unread.extend(needed.filter(|p| !stamps.contains_key(p)));
                time_of(position, &near, stamps, limits).unwrap_or(later_ms)
            } else {
                modified_ms
            };
            below_ms = below_ms.max(time_ms);
            times.times_ms.push(below_ms);
        }
        times
    }
}

/// Computes the time of a segment that was put back from its stamp, from other segments with their last-modified times,
/// and from the first and last possible time; `None` if no stamp gives it.
type TimeOf = fn(Position, &[(Position, i64)], &Stamps, RangeInclusive<i64>) -> Option<i64>;

/// The segments of other writers with a last-modified time within `limits`.
fn meanwhile(
    position: Position,
    segments: &BTreeMap<WriterId, BTreeMap<u64, Listed>>,
    limits: &RangeInclusive<i64>,
) -> Vec<(Position, i64)> {
    let others = segments.iter().filter(|(writer, _)| **writer != position.writer);
    let of = |(writer, of): (&WriterId, &BTreeMap<u64, Listed>)| {
        let writer = *writer;
        let within = of.iter().filter(|(_, listed)| limits.contains(&listed.modified_ms));
        within.map(|(seq, listed)| (Position { writer, seq: *seq }, listed.modified_ms)).collect::<Vec<_>>()
    };
    others.flat_map(of).collect()
}

/// The time of the first segment of another writer with a greater stamp. Segments that were acknowledged before this
/// one was begun are not later: whatever has a greater stamp was put after them. Segments that were begun after this
/// one was acknowledged are not earlier, and at the same time their greater stamps order them behind it.
fn by_order(
    position: Position,
    others: &[(Position, i64)],
    stamps: &Stamps,
    limits: RangeInclusive<i64>,
) -> Option<i64> {
    let stamp_of = |position: &Position| stamps.get(position).copied().flatten();
    let own = stamp_of(&position)?;
    let after = others.iter().filter(|(other, _)| stamp_of(other).is_some_and(|stamp| stamp > own));
    Some(after.map(|(_, ms)| *ms).fold(*limits.end(), i64::min))
}

/// When a segment was put, computed from its stamp and the difference between the store's and the writer's clock at the
/// nearest segment on each side. If the writer's clock or its stamps jumped in between, or the neighbour was put back
/// as well, the result is usually outside `limits` and is not used. Of two possible results the earlier one is right: a
/// slow request makes a segment seem later.
fn by_clock(position: Position, near: &[(Position, i64)], stamps: &Stamps, limits: RangeInclusive<i64>) -> Option<i64> {
    let stamp_ms = |position: &Position| Some(stamps.get(position).copied().flatten()? / 1_000_000);
    let own_ms = stamp_ms(&position)?;
    let by = |(position, ms): &(Position, i64)| Some(own_ms.saturating_sub(stamp_ms(position)?).saturating_add(*ms));
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
