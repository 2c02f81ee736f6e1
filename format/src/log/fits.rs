//! Selects the part of the log that one fold takes: the oldest segments that fit into its memory.

use super::{Fetched, Pending, fetch::fetch_some};
use crate::{
    error::{Kind, Result},
    layout,
    segment::header,
    store::Store,
};

/// Length of the segment header prefix that contains the stamp, in bytes.
const HEADER: u64 = 56;

/// Reads the oldest segments of `pending` (sorted by time) up to `memory_bytes` of decoded rows and `max_bytes` of
/// objects, but at least one segment or one whole bulk ingest. `pending` exceeds `max_bytes` only if the segments of
/// its first time alone do.
///
/// Segments of one time are taken together if they fit. Otherwise those with the smallest stamps are taken, so that no
/// remaining segment is older than a taken one.
///
/// # Errors
/// As [`fetch_some`].
pub(super) async fn fetch_within(
    store: &Store,
    pending: Vec<Pending>,
    (memory_bytes, max_bytes): (usize, u64),
) -> Result<Vec<(Pending, Fetched)>> {
    if stored(&pending) <= max_bytes {
        let mut fetched = fetch_some(store, &pending, memory_bytes).await?;
        if sum(&fetched) <= memory_bytes {
            return Ok(fetched);
        }
        let limit = pending[fetched.len() - 1].time_ms;
        let whole = pending.partition_point(|p| p.time_ms < limit);
        if whole > 0 {
            fetched.truncate(whole);
            return Ok(fetched);
        }
    }
    let Some(time_ms) = pending.first().map(|p| p.time_ms) else { return Ok(Vec::new()) };
    let moment = &pending[..pending.partition_point(|p| p.time_ms <= time_ms)];
    let mut stamped = Vec::with_capacity(moment.len());
    for pending in moment {
        stamped.push((stamp_of(store, pending).await?, *pending));
    }
    stamped.sort_by_key(|(stamp, pending)| (*stamp, pending.position));
    let ordered: Vec<Pending> = stamped.into_iter().map(|(_, pending)| pending).collect();
    let (mut taken, mut bytes) = (Vec::new(), 0_usize);
    let mut rest = ordered.as_slice();
    while let Some(first) = rest.first() {
        let of_unit = |p: &&Pending| first.position.writer.is_bulk() && p.position.writer == first.position.writer;
        let (unit, after) = rest.split_at(rest.iter().take_while(of_unit).count().max(1));
        if !taken.is_empty() && stored(&ordered[..ordered.len() - after.len()]) > max_bytes {
            break;
        }
        // A unit that does not fit is read once and discarded.
        let left = if taken.is_empty() { usize::MAX } else { memory_bytes.saturating_sub(bytes) };
        let read = fetch_some(store, unit, left).await?;
        bytes = bytes.saturating_add(sum(&read));
        if bytes > memory_bytes && !taken.is_empty() {
            break;
        }
        taken.extend(read);
        rest = after;
    }
    Ok(taken)
}

fn stored(pending: &[Pending]) -> u64 {
    pending.iter().map(|p| p.bytes).fold(0, u64::saturating_add)
}

fn sum(fetched: &[(Pending, Fetched)]) -> usize {
    fetched.iter().map(|(_, f)| f.memory_bytes()).fold(0, usize::saturating_add)
}

/// The stamp of a segment; `i64::MIN` if it cannot be read, so that a faulty segment is processed first.
async fn stamp_of(store: &Store, pending: &Pending) -> Result<i64> {
    if pending.is_void {
        return Ok(i64::MIN);
    }
    match store.get_range(&layout::log_key(pending.position), 0..HEADER.min(pending.bytes)).await {
        Ok(bytes) => Ok(header(&bytes).map_or(i64::MIN, |header| header.stamp_ns)),
        Err(e) if e.kind() == Kind::Corrupt => Ok(i64::MIN),
        Err(e) => Err(e),
    }
}
