//! The log above the watermarks: what counts of it, and what a fold takes.

mod fetch;
mod listing;
#[cfg(test)]
pub(crate) mod tests;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

pub(crate) use fetch::{Fetched, VOID_MS, fetch};
pub(crate) use listing::{Listing, Pending};

use crate::{
    error::{Error, Kind, Result},
    ids::WriterId,
    meta::{Catalog, Draft, Root, Watermark},
    snapshot::{Fault, TailSegment},
};

/// A watermark may be forgotten this long after its writer started.
const RETIRED_MS: i64 = 3 * 86_400_000;

/// A bulk ingest without an end is void this long after its first segment.
const ABANDONED_MS: i64 = 86_400_000;

/// A consistent cut of the log for folding: no segment outside it is older than one in it, except those of a
/// writer that is held up by a fault or a missing number.
#[derive(Debug, Clone)]
pub struct Cut {
    /// The base version: the fold applies only if the watermarks it starts from are unchanged.
    pub catalog: Arc<Catalog>,
    /// The segments to fold, oldest first by (time, stamp, writer, number).
    pub segments: Vec<Arc<TailSegment>>,
    /// The watermarks after this fold, of the writers that it moves.
    pub watermarks: Vec<(WriterId, Watermark)>,
    /// Writers whose watermark may be forgotten: started over 3 days ago, all folded, none in the log.
    pub retired: Vec<WriterId>,
    /// Segments that cannot be decoded; they hold up their writers.
    pub faults: Vec<Fault>,
    /// The store's clock before the log was listed.
    pub clock_ms: i64,
}

impl Cut {
    /// Whether there is nothing to fold or forget.
    pub fn is_empty(&self) -> bool {
        self.watermarks.is_empty() && self.retired.is_empty()
    }

    /// As [`Cut::apply`], for a fold that has also looked at the files of its base: applies only if there was no
    /// other fold since.
    ///
    /// # Errors
    /// [`Kind::Conflict`] when another fold has moved any watermark.
    pub fn apply_alone(&self, draft: &mut Draft) -> Result<()> {
        let moved = draft.catalog().watermarks().find(|(writer, w)| self.catalog.watermark(*writer) != Some(w));
        if let Some((writer, _)) = moved {
            return Err(Error::conflict("another fold was committed meanwhile").with("writer", writer));
        }
        self.apply(draft)
    }

    /// Moves the watermarks in the commit of the fold.
    ///
    /// # Errors
    /// [`Kind::Conflict`] when another fold has moved one that this cut starts from.
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

/// Takes a cut: segments older than `margin` before an object put now; of each writer up to its first missing
/// number; the oldest first, about `max_bytes` of them (at least one segment where there is any).
///
/// # Errors
/// [`Kind::Unavailable`]; as [`Root::refresh`]. A segment that cannot be decoded is no error but a fault in the
/// cut.
pub async fn cut(root: &Root, margin: Duration, max_bytes: u64) -> Result<Cut> {
    let mut attempts = 0;
    loop {
        match attempt(root, margin, max_bytes).await {
            // Folded by another and collected since it was listed.
            Err(e) if e.kind() == Kind::NotFound && attempts < 4 => attempts += 1,
            Err(e) if e.kind() == Kind::NotFound => {
                return Err(Error::unavailable("the log moves faster than it can be read").source(e));
            }
            other => return other,
        }
    }
}

async fn attempt(root: &Root, margin: Duration, max_bytes: u64) -> Result<Cut> {
    let store = root.store();
    let clock_ms = store.clock_ms().await?;
    let listing = Listing::read(store).await?;
    let catalog = root.refresh().await?;
    let before_ms = clock_ms.saturating_sub(i64::try_from(margin.as_millis()).unwrap_or(i64::MAX));
    let mut pending = listing.above(&catalog);
    pending.truncate(pending.partition_point(|p| p.time_ms < before_ms));
    bound(&mut pending, max_bytes);

    let mut moved: BTreeMap<WriterId, Watermark> = BTreeMap::new();
    let (mut segments, mut faults) = (Vec::new(), Vec::<Fault>::new());
    for (pending, fetched) in fetch(store, pending).await? {
        let writer = pending.position.writer;
        if faults.iter().any(|f| f.position.writer == writer) {
            continue;
        }
        let start_ms = match &fetched {
            Fetched::Segment(segment) => segment.segment.header.writer_start_ms,
            Fetched::Void { writer_start_ms } => *writer_start_ms,
            Fetched::Fault(fault) => {
                faults.push(fault.clone());
                continue;
            }
        };
        let known = catalog.watermark(writer).or(moved.get(&writer));
        let watermark = Watermark {
            next: pending.position.seq + 1,
            start_ms: known.map_or(start_ms, |w| w.start_ms),
            time_ms: pending.time_ms,
            voids: known.map(|w| w.voids.clone()).unwrap_or_default(),
        };
        moved.insert(writer, watermark);
        if let Fetched::Segment(segment) = fetched {
            segments.push(segment);
        }
    }
    // A bulk ingest is taken whole or not at all.
    for writer in faults.iter().map(|f| f.position.writer).filter(|w| w.is_bulk()) {
        moved.remove(&writer);
        segments.retain(|s| s.position.writer != writer);
    }
    for (writer, began_ms) in listing.abandoned(&catalog, clock_ms.saturating_sub(ABANDONED_MS)) {
        let known = catalog.watermark(writer).cloned().unwrap_or_else(|| Watermark::unfolded(began_ms));
        moved.insert(writer, Watermark { next: u64::MAX, time_ms: known.time_ms.max(began_ms), ..known });
    }
    segments.sort_by_key(|s| s.order());
    let is_retired = |(writer, w): &(WriterId, &Watermark)| {
        clock_ms.saturating_sub(w.start_ms) > RETIRED_MS && !listing.has(*writer)
    };
    let retired = catalog.watermarks().filter(is_retired).map(|(writer, _)| writer).collect();
    Ok(Cut { segments, watermarks: moved.into_iter().collect(), retired, faults, clock_ms, catalog })
}

/// Keeps the oldest up to `max_bytes`, at least one; segments of one time are kept or left together where they
/// fit, since their order is known only once they are read.
fn bound(pending: &mut Vec<Pending>, max_bytes: u64) {
    let mut sum = 0_u64;
    let fits = pending
        .iter()
        .take_while(|p| {
            sum = sum.saturating_add(p.bytes);
            sum <= max_bytes
        })
        .count();
    if fits == pending.len() {
        return;
    }
    let limit = pending[fits].time_ms;
    let whole = pending.partition_point(|p| p.time_ms < limit);
    let mut taken = if whole > 0 { whole } else { fits.max(1) };
    let is_split = |at: usize| {
        let (last, next) = (pending[at - 1].position.writer, pending[at].position.writer);
        last == next && next.is_bulk()
    };
    while taken < pending.len() && is_split(taken) {
        taken += 1;
    }
    pending.truncate(taken);
}
