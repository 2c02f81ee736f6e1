//! Reads the log above the watermarks: determines which segments count and takes the cut that a fold processes.

mod fault;
mod fetch;
mod fits;
mod give_up;
mod holes;
mod listing;
mod put_back;
mod tail;
#[cfg(test)]
pub(crate) mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub use fault::Fault;
pub(crate) use fetch::{Fetched, VOID_MS, fetch_again, fetch_some};
pub use give_up::{GivenUp, give_up};
pub(crate) use listing::{Listing, Pending};
pub use tail::TailSegment;

use fits::fetch_within;

use crate::{
    error::{Error, Kind, Result},
    ids::{Position, WriterId},
    layout::{self, Kept},
    meta::{Catalog, Draft, Root, Watermark},
};

/// How long after its writer's start a watermark may be removed: the writer's segments count for the first two days,
/// and the idempotency key of the last segment may be looked up as long as the key is kept.
const fn retired_ms(watermark: &Watermark) -> i64 {
    VOID_MS + if watermark.queue_keys { Kept::Queue.ms() } else { Kept::Day.ms() }
}

/// A bulk ingest without an end segment is void this long after its first segment.
const ABANDONED_MS: i64 = 86_400_000;

/// A consistent cut of the log for folding: no segment outside the cut is older than one in it. The cut ends before a
/// segment that cannot be decoded and before a missing number below an existing one, until these are quarantined.
#[derive(Debug, Clone)]
pub struct Cut {
    /// The base version: the fold applies only if the watermarks of this version are unchanged.
    pub catalog: Arc<Catalog>,
    /// The segments to fold, oldest first by (time, stamp, writer, number).
    pub segments: Vec<Arc<TailSegment>>,
    /// The new watermarks of the writers whose watermark this fold moves.
    pub watermarks: Vec<(WriterId, Watermark)>,
    /// Writers whose watermark may be removed: started over 3 days ago (17 with keys of queues), all folded, no segment
    /// in the log.
    pub retired: Vec<WriterId>,
    /// Segments that are missing or cannot be decoded; folding stops at the oldest one.
    pub faults: Vec<Fault>,
    /// The store's clock before the log was listed.
    pub clock_ms: i64,
    /// Whether the log holds more segments to fold than the limits of this cut allow.
    pub has_more: bool,
}

impl Cut {
    /// Whether there is nothing to fold and no watermark to remove.
    pub fn is_empty(&self) -> bool {
        self.watermarks.is_empty() && self.retired.is_empty()
    }

    /// As [`Cut::apply`], for a fold that also read the files of its base: applies only if no other fold was committed
    /// since. A new writer with nothing to fold, such as the mark of a statement, is no conflict because it added no
    /// file.
    ///
    /// # Errors
    /// [`Kind::Conflict`] when another fold has moved any watermark.
    pub fn apply_alone(&self, draft: &mut Draft) -> Result<()> {
        let moved = draft.catalog().watermarks().find(|(writer, w)| match self.catalog.watermark(*writer) {
            None => !(writer.is_bulk() && w.next == u64::MAX),
            before => before != Some(w),
        });
        if let Some((writer, _)) = moved {
            return Err(Error::conflict("another fold was committed meanwhile").with("writer", writer));
        }
        self.apply(draft)
    }

    /// Moves the watermarks in the commit of the fold.
    ///
    /// # Errors
    /// [`Kind::Conflict`] when another fold has moved a watermark that this cut starts from.
    pub fn apply(&self, draft: &mut Draft) -> Result<()> {
        for (writer, watermark) in &self.watermarks {
            let (expected, found) = (self.catalog.watermark(*writer), draft.catalog().watermark(*writer));
            if expected != found {
                let next = |w: Option<&Watermark>| w.map_or(0, |w| w.next);
                return Err(Error::conflict("another fold took these segments")
                    .with("writer", writer)
                    .with("expected", next(expected))
                    .with("found", next(found)));
            }
            draft.set_watermark(*writer, watermark.clone());
        }
        for writer in &self.retired {
            if self.catalog.watermark(*writer) == draft.catalog().watermark(*writer) {
                draft.remove_watermark(*writer);
            }
        }
        Ok(())
    }
}

/// Takes a cut: segments older than an object put now by at least `margin`; the oldest first, at most `max_bytes` of
/// them, but at least one segment or one bulk ingest if there is any.
///
/// # Errors
/// [`Kind::Unavailable`]; as [`Root::refresh`]. A segment that cannot be decoded is reported as a fault in the cut, not
/// as an error.
pub async fn cut(root: &Root, margin: Duration, max_bytes: u64) -> Result<Cut> {
    cut_within(root, margin, max_bytes, usize::MAX).await
}

/// [`cut`] with at most `memory_bytes` of decoded rows, but at least one segment or one whole bulk ingest, however
/// large.
///
/// # Errors
/// As [`cut`].
pub async fn cut_within(root: &Root, margin: Duration, max_bytes: u64, memory_bytes: usize) -> Result<Cut> {
    let mut attempts = 0;
    loop {
        match attempt(root, margin, max_bytes, memory_bytes).await {
            // Another process folded and collected the segment after it was listed.
            Err(e) if e.kind() == Kind::NotFound && attempts < 4 => attempts += 1,
            Err(e) if e.kind() == Kind::NotFound => {
                return Err(Error::unavailable("the log moves faster than it can be read").source(e));
            }
            other => return other,
        }
    }
}

async fn attempt(root: &Root, margin: Duration, max_bytes: u64, memory_bytes: usize) -> Result<Cut> {
    let store = root.store();
    let clock_ms = store.clock_ms().await?;
    let mut listing = Listing::read(store).await?;
    let catalog = root.refresh().await?;
    let before_ms = clock_ms.saturating_sub(i64::try_from(margin.as_millis()).unwrap_or(i64::MAX));
    let Some((mut pending, damage)) = listing.confirm(root, &catalog).await? else {
        return Err(Error::not_found("the log changed while it was read"));
    };
    pending.truncate(pending.partition_point(|p| p.time_ms < before_ms));
    let all = pending.len();
    bound(&mut pending, max_bytes);
    let fetched = fetch_within(store, pending, (memory_bytes, max_bytes)).await?;
    let has_more = fetched.len() < all;
    // The version was read after the list, so it knows every table and column of the rows, unless the newest version is
    // missing.
    if let Some(error) = fetched.iter().find_map(|(_, fetched)| match fetched {
        Fetched::Segment(segment) => segment.is_after(&catalog).then(|| segment.version_missing(&catalog)),
        _ => None,
    }) {
        return Err(error);
    }
    let mut moved: BTreeMap<WriterId, Watermark> = BTreeMap::new();
    let mut faults = Vec::new();
    // Segments younger than one that cannot be decoded wait: folded first, their rows would permanently rank below the
    // older rows.
    let mut held_ms = i64::MAX;
    for damage in &damage {
        held_ms = held_ms.min(damage.held_ms());
        faults.push(damage.fault.clone());
        let writer = damage.hole.position.writer;
        let known = catalog.watermark(writer).cloned();
        let watermark = moved.entry(writer).or_insert_with(|| known.unwrap_or_else(|| damage.unfolded()));
        // More faults than this are no accident of single objects; an operator has to look.
        if watermark.faulty.len() < holes::MOST_MISSING {
            watermark.failed(damage.faulty(clock_ms));
        }
    }
    for (pending, fetched) in &fetched {
        let Fetched::Fault(fault) = fetched else { continue };
        held_ms = held_ms.min(pending.time_ms);
        faults.push(fault.clone());
        // A segment of a newer release is left for a newer release to fold.
        if fault.error.kind() == Kind::Corrupt {
            let known = catalog.watermark(pending.position.writer).cloned();
            moved
                .entry(pending.position.writer)
                .or_insert_with(|| known.unwrap_or_else(|| Watermark::unfolded(pending.modified_ms)))
                .failed(pending.faulty(fault, clock_ms));
        }
    }
    let mut segments = Vec::new();
    for (pending, fetched) in fetched.into_iter().take_while(|(pending, _)| pending.time_ms < held_ms) {
        let Position { writer, seq } = pending.position;
        let mut queue_keys = false;
        let (start_ms, segment) = match fetched {
            Fetched::Segment(segment) => {
                queue_keys = segment.segment.header.queue_keys;
                (segment.segment.header.writer_start_ms, Some(segment))
            }
            Fetched::Void { writer_start_ms } => (writer_start_ms, None),
            Fetched::Fault(_) => continue,
        };
        let known = catalog.watermark(writer).cloned();
        let watermark = moved.entry(writer).or_insert_with(|| known.unwrap_or_else(|| Watermark::unfolded(start_ms)));
        watermark.next = watermark.next.max(seq + 1);
        watermark.time_ms = pending.time_ms;
        watermark.queue_keys |= queue_keys;
        if segment.is_some() {
            watermark.faulty.retain(|f| f.seq != seq);
        }
        segments.extend(segment);
    }
    moved.retain(|writer, watermark| catalog.watermark(*writer) != Some(watermark));
    for (writer, began_ms) in listing.abandoned(&catalog, clock_ms.saturating_sub(ABANDONED_MS)) {
        let known = catalog.watermark(writer).cloned().unwrap_or_else(|| Watermark::unfolded(began_ms));
        moved.insert(writer, Watermark { next: u64::MAX, time_ms: known.time_ms.max(began_ms), ..known });
    }
    segments.sort_by_key(|s| s.order());
    let is_retired = |(writer, w): &(WriterId, &Watermark)| {
        clock_ms.saturating_sub(w.start_ms) > retired_ms(w) && !listing.has(*writer) && !w.has_open_hole()
    };
    let mut retired: Vec<WriterId> = catalog.watermarks().filter(is_retired).map(|(writer, _)| writer).collect();
    if !retired.is_empty() {
        // Without the watermark, a segment whose deletion is undone by a power loss would count again.
        if let Err(error) = store.sync(layout::LOG).await {
            tracing::warn!(%error, "log sync failed; obsolete watermarks are kept until the next fold");
            retired.clear();
        }
    }
    Ok(Cut { segments, watermarks: moved.into_iter().collect(), retired, faults, clock_ms, has_more, catalog })
}

/// Keeps the oldest segments up to `max_bytes`. Segments of one time are kept or dropped together, since their order is
/// known only once they are read; the first time is always kept.
fn bound(pending: &mut Vec<Pending>, max_bytes: u64) {
    let mut sum = 0_u64;
    let fits = pending
        .iter()
        .take_while(|p| {
            sum = sum.saturating_add(p.bytes);
            sum <= max_bytes
        })
        .count();
    let Some(limit) = pending.get(fits).map(|p| p.time_ms) else { return };
    let whole = pending.partition_point(|p| p.time_ms < limit);
    pending.truncate(if whole > 0 { whole } else { pending.partition_point(|p| p.time_ms <= limit) });
}
