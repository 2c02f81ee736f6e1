//! Missing numbers in the log of a writer.
//!
//! A writer begins a number only after the previous one is durable. So a number below an existing one was written:
//! either it was deleted, or the list was read while both were put. A request for the missing key together with the
//! newest version distinguishes the two cases.

use futures::{StreamExt, TryStreamExt};

use super::{
    Fault, Pending, VOID_MS,
    listing::{Listed, Listing, head},
};
use crate::{
    error::{Error, Kind, Result},
    ids::Position,
    layout,
    meta::{Catalog, FaultySegment, Root, Watermark},
    segment::{self, SegmentHeader},
    store::Store,
};

/// Maximum number of missing numbers per writer that one reading of the log reports.
pub(crate) const MOST_MISSING: usize = 1_000;
/// Number of missing keys requested concurrently.
const PARALLEL: usize = 16;

/// A number that is missing although its writer has put a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hole {
    /// Writer and number of the missing segment.
    pub(crate) position: Position,
    /// The first existing segment above the hole; for a bulk ingest, its end segment.
    pub(crate) next: Pending,
    /// The time of the segment below the hole, if there is one.
    pub(crate) below_ms: Option<i64>,
}

/// The log above the watermarks of a version.
#[derive(Debug, Clone, Default)]
pub(crate) struct Above {
    /// The segments that count, sorted by (time, writer, number), including those above a hole.
    pub(crate) pending: Vec<Pending>,
    /// The numbers missing in the list.
    pub(crate) holes: Vec<Hole>,
    /// Segments that were put back, and those they are compared with, whose headers have not been read yet.
    pub(super) unread: Vec<Position>,
}

/// A hole that exists in the store, not only in the list.
#[derive(Debug, Clone)]
pub(crate) struct Damage {
    pub(crate) hole: Hole,
    /// When the writer started; an estimate if that is unknown.
    start_ms: i64,
    /// The error that queries return.
    pub(crate) fault: Fault,
}

impl Damage {
    /// The entry that a fold commits for the hole.
    pub(crate) fn faulty(&self, read_ms: i64) -> FaultySegment {
        let Fault { position, tables, error } = &self.fault;
        FaultySegment::missing(position.seq, read_ms, tables.clone(), error.to_string())
    }

    /// The watermark of the writer if it has none yet.
    pub(crate) fn unfolded(&self) -> Watermark {
        Watermark::unfolded(self.start_ms)
    }

    /// No segment of this time or later may be folded before the hole is quarantined: it may be younger than the
    /// missing segment. The missing segment is not older than the segment below it, but may have the same time by the
    /// resolution of the store's clock. If there is no segment below it, its age is unknown.
    pub(crate) fn held_ms(&self) -> i64 {
        let next_ms = self.hole.next.time_ms;
        match self.hole.position.writer.is_bulk() {
            // The rows of a bulk ingest have the time of its end segment.
            true => next_ms,
            false => self.hole.below_ms.map_or(i64::MIN, |below_ms| next_ms.min(below_ms)),
        }
    }
}

impl Listing {
    /// The segments that count on top of a version, and the numbers missing in the store. The list of a directory to
    /// which others write may lack a segment and yet contain later ones of its writer; such segments are added. `None`
    /// if the version has changed since the list was read: read both again.
    ///
    /// # Errors
    /// [`Kind::Unavailable`]; as [`Root::refresh`].
    pub(crate) async fn confirm(
        &mut self,
        root: &Root,
        catalog: &Catalog,
    ) -> Result<Option<(Vec<Pending>, Vec<Damage>)>> {
        self.order_by_stamps(root.store());
        loop {
            let above = self.above(catalog);
            let there = above.unlisted(root.store()).await?;
            if there.is_empty() && above.unread.is_empty() {
                return above.confirmed(root, catalog).await;
            }
            // Each iteration fills holes or reads headers, so the loop ends.
            there.into_iter().for_each(|(position, listed)| self.insert(position, listed));
            for (position, stamp_ns) in above.stamps(root.store()).await? {
                self.stamp(position, stamp_ns);
            }
        }
    }
}

impl Above {
    /// The segments that exist at the holes although the list lacks them.
    ///
    /// # Errors
    /// [`Kind::Unavailable`].
    async fn unlisted(&self, store: &Store) -> Result<Vec<(Position, Listed)>> {
        let places: Vec<Position> = self.holes.iter().map(|hole| hole.position).collect();
        let asked = places.into_iter().map(|at| async move { Ok::<_, Error>((at, head(store, at).await?)) });
        let found: Vec<_> = futures::stream::iter(asked).buffered(PARALLEL).try_collect().await?;
        Ok(found.into_iter().filter_map(|(at, listed)| Some((at, listed?))).collect())
    }

    /// The stamps, in nanoseconds, of the segments whose headers have not been read.
    ///
    /// # Errors
    /// [`Kind::Unavailable`].
    async fn stamps(&self, store: &Store) -> Result<Vec<(Position, Option<i64>)>> {
        let reads = self.unread.clone().into_iter().map(|at| async move {
            let header = header(store, at).await?;
            Ok::<_, Error>((at, header.map(|header| header.stamp_ns)))
        });
        futures::stream::iter(reads).buffered(PARALLEL).try_collect().await
    }

    /// Confirms the holes after the store has been asked for each missing number and has none of them.
    async fn confirmed(self, root: &Root, catalog: &Catalog) -> Result<Option<(Vec<Pending>, Vec<Damage>)>> {
        let Self { mut pending, holes, .. } = self;
        if holes.is_empty() {
            return Ok(Some((pending, Vec::new())));
        }
        let store = root.store();
        // The segments may have been folded and collected since the list was read; the newest version shows that.
        let now = root.refresh().await?;
        if holes.iter().any(|hole| changed(catalog, &now, hole.position)) {
            return Ok(None);
        }
        let mut damage: Vec<Damage> = Vec::new();
        let mut late = Vec::new();
        for hole in holes {
            let Position { writer, .. } = hole.position;
            if late.contains(&writer) {
                continue;
            }
            let watermark = catalog.watermark(writer);
            let known = watermark
                .map(|w| w.start_ms)
                .or(damage.last().filter(|d| d.hole.position.writer == writer).map(|d| d.start_ms));
            let start_ms = match known {
                Some(start_ms) => Some(start_ms),
                None => header(store, hole.next.position).await?.map(|header| header.writer_start_ms),
            };
            // A segment put this late is void: it is above the numbers of a writer whose watermark was removed.
            if start_ms.is_some_and(|start_ms| hole.next.put_ms().saturating_sub(start_ms) > VOID_MS) {
                late.push(writer);
                continue;
            }
            let tables = watermark.and_then(|w| w.faulty(hole.position.seq)).and_then(|f| f.tables.clone());
            let fault = Fault { position: hole.position, tables, error: error(&hole).into() };
            damage.push(Damage { hole, start_ms: start_ms.unwrap_or(hole.next.modified_ms), fault });
        }
        pending.retain(|p| !(p.is_above_hole && late.contains(&p.position.writer)));
        Ok(Some((pending, damage)))
    }
}

/// The error that reports a hole.
fn error(hole: &Hole) -> Error {
    Error::corrupt(
        "log segment missing: its writer has put later ones; put it back, or give it up with `tidelake give-up` or the statement GIVE UP",
    )
    .with("key", layout::log_key(hole.position))
    .with("found", layout::log_key(hole.next.position))
}

fn changed(before: &Catalog, now: &Catalog, position: Position) -> bool {
    before.watermark(position.writer) != now.watermark(position.writer)
}

/// The header of a segment; `None` if it cannot be read.
async fn header(store: &Store, position: Position) -> Result<Option<SegmentHeader>> {
    match store.get_range(&layout::log_key(position), 0..segment::HEADER as u64).await {
        Ok(bytes) => Ok(segment::header(&bytes).filter(|h| h.position == position)),
        Err(e) if matches!(e.kind(), Kind::Unavailable) => Err(e),
        Err(_) => Ok(None),
    }
}
