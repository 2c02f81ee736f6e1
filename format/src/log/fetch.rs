//! Reads and decodes log segments.

use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};

use super::{Fault, Pending, TailSegment, listing::misplaced};
use crate::{
    error::{Error, Kind, Result},
    ids::Position,
    layout,
    offload::offload,
    segment::{self, Segment},
    store::Store,
};

/// Number of segments read concurrently: the minimum for large segments, the maximum for small ones.
const PARALLEL: std::ops::RangeInclusive<usize> = 16..=1_024;
/// Approximate number of bytes read concurrently.
const AT_ONCE_BYTES: u64 = 32 << 20;
/// Upper estimate of a segment's decoded size, as a multiple of its stored size.
const DECODED_TIMES: u64 = 8;
/// Segments up to this size are decoded in place: moving the work to another thread costs more.
const INLINE_BYTES: usize = 64 << 10;
/// A segment modified this long after its writer started is void for every reader.
pub(crate) const VOID_MS: i64 = 2 * 86_400_000;

/// Result of reading a segment.
#[derive(Debug, Clone)]
pub(crate) enum Fetched {
    /// The rows count.
    Segment(Arc<TailSegment>),
    /// The segment was written too long after its writer started, or a commit made it void: its number is taken, its
    /// rows do not count. For a void by commit, the watermark knows the writer's start more accurately.
    Void { writer_start_ms: i64 },
    /// The segment cannot be decoded.
    Fault(Fault),
}

impl Fetched {
    /// Memory of its decoded rows and series, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            Fetched::Segment(segment) => segment.memory_bytes(),
            Fetched::Void { .. } | Fetched::Fault(_) => 0,
        }
    }
}

/// Reads segments in the order of `wanted` until the decoded segments take more than `memory_bytes`; the last segment
/// returned is the one that exceeds the limit. Segments read ahead concurrently take at most about the same amount
/// again.
///
/// # Errors
/// [`Kind::NotFound`] when a segment is gone (folded and collected since it was listed); [`Kind::Unavailable`].
pub(crate) async fn fetch_some(
    store: &Store,
    wanted: &[Pending],
    memory_bytes: usize,
) -> Result<Vec<(Pending, Fetched)>> {
    // A tail of many small segments costs about one round trip, not one per small batch.
    let largest = wanted.iter().map(|p| p.bytes).max().unwrap_or_default().max(1);
    let at_once = AT_ONCE_BYTES.min(memory_bytes as u64 / DECODED_TIMES);
    let least = if at_once < AT_ONCE_BYTES { 1 } else { *PARALLEL.start() };
    let parallel = usize::try_from(at_once / largest).unwrap_or(usize::MAX).clamp(least, *PARALLEL.end());
    let fetches = wanted.iter().copied();
    let fetches = fetches.map(|pending| async move { Ok::<_, Error>((pending, fetch_one(store, &pending).await?)) });
    let mut fetches = futures::stream::iter(fetches).buffered(parallel);
    let (mut fetched, mut bytes) = (Vec::new(), 0_usize);
    while let Some((pending, segment)) = fetches.try_next().await? {
        bytes = bytes.saturating_add(segment.memory_bytes());
        fetched.push((pending, segment));
        if bytes > memory_bytes {
            break;
        }
    }
    Ok(fetched)
}

async fn fetch_one(store: &Store, pending: &Pending) -> Result<Fetched> {
    if pending.is_void {
        return Ok(Fetched::Void { writer_start_ms: pending.modified_ms });
    }
    let key = layout::log_key(pending.position);
    let mut fault = None;
    // A bad read may be a network fault; a second read confirms it.
    for _ in 0..2 {
        match fetch_once(store, &key, pending).await {
            Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::Unsupported) => fault = Some(e),
            other => return other,
        }
    }
    let error = Arc::new(fault.expect("two faults were seen"));
    tracing::warn!(%error, "a log segment cannot be decoded");
    // If the segment's directory is intact, only the tables it names are affected.
    let tables = store.get(&key).await.ok().and_then(|bytes| segment::tables(pending.position, &bytes));
    Ok(Fetched::Fault(Fault { position: pending.position, tables, error }))
}

/// Reads a segment that a snapshot has read before and whose rows count; `modified_ms` is its time in the order of
/// segments.
///
/// # Errors
/// [`Kind::NotFound`] when the segment is gone or another object has replaced it; those of the store, Corrupt and
/// Unsupported.
pub(crate) async fn fetch_again(
    store: &Store,
    position: Position,
    modified_ms: i64,
    bytes: u64,
) -> Result<Arc<TailSegment>> {
    let key = layout::log_key(position);
    let (size, decoded) = get(store, &key, position).await?;
    if size != bytes {
        let replaced = Error::not_found("another object has replaced the log segment");
        return Err(replaced.with("key", key).with("expected_bytes", bytes).with("found_bytes", size));
    }
    Ok(Arc::new(TailSegment::new(position, modified_ms, size, decoded)))
}

/// The size of the object and its decoded content.
async fn get(store: &Store, key: &str, position: Position) -> Result<(u64, Segment)> {
    let bytes = store.get(key).await?;
    let size = bytes.len();
    let decoded = if size <= INLINE_BYTES {
        segment::decode(key, &bytes)?
    } else {
        let key = key.to_owned();
        offload(move || segment::decode(&key, &bytes)).await?
    };
    match decoded.header.position == position {
        true => Ok((size as u64, decoded)),
        false => Err(misplaced(key, position, decoded.header.position)),
    }
}

async fn fetch_once(store: &Store, key: &str, pending: &Pending) -> Result<Fetched> {
    let (size, decoded) = get(store, key, pending.position).await?;
    let header = decoded.header;
    if pending.put_ms().saturating_sub(header.writer_start_ms) > VOID_MS {
        return Ok(Fetched::Void { writer_start_ms: header.writer_start_ms });
    }
    Ok(Fetched::Segment(Arc::new(TailSegment::new(pending.position, pending.time_ms, size, decoded))))
}
