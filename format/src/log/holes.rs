//! Numbers that are missing in the log of a writer.
//!
//! A writer puts its numbers one after another and begins a number only after the one before is durable. So a number
//! below one that exists was there: it is missing because somebody deleted it, or because the list was read while both
//! were put. A request for the missing key and the newest version tell the two apart.

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

/// The most missing numbers of one writer that one look at the log tells of.
pub(crate) const MOST_MISSING: usize = 1_000;
/// How many missing keys are asked for at once.
const PARALLEL: usize = 16;

/// A number that is missing although its writer has put a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hole {
    /// The place where nothing is.
    pub(crate) position: Position,
    /// The first segment above it that exists; the end, for a bulk ingest.
    pub(crate) next: Pending,
    /// The time of the segment below it, where there is one.
    pub(crate) below_ms: Option<i64>,
}

/// What is above the watermarks of a version.
#[derive(Debug, Clone, Default)]
pub(crate) struct Above {
    /// The segments that count, by (time, writer, number), those above a hole as well.
    pub(crate) pending: Vec<Pending>,
    /// The numbers that are missing in this list.
    pub(crate) holes: Vec<Hole>,
    /// Segments that were put back, or that such ones are compared with, whose headers were not read yet.
    pub(super) unread: Vec<Position>,
}

/// A hole that is none of the list but of the store.
#[derive(Debug, Clone)]
pub(crate) struct Damage {
    pub(crate) hole: Hole,
    /// When its writer started, as far as that is known.
    start_ms: i64,
    /// What queries are answered.
    pub(crate) fault: Fault,
}

impl Damage {
    /// What a fold commits of it.
    pub(crate) fn faulty(&self, read_ms: i64) -> FaultySegment {
        let Fault { position, tables, error } = &self.fault;
        FaultySegment::missing(position.seq, read_ms, tables.clone(), error.to_string())
    }

    /// The watermark of its writer where there is none yet.
    pub(crate) fn unfolded(&self) -> Watermark {
        Watermark::unfolded(self.start_ms)
    }

    /// Nothing of this time or later may be folded before the hole is quarantined: it may be younger than what is missing.
    /// What is missing is not older than the segment below it, may be as old to the tick of the store, and of any age where
    /// nothing is known below it.
    pub(crate) fn held_ms(&self) -> i64 {
        let next_ms = self.hole.next.time_ms;
        match self.hole.position.writer.is_bulk() {
            // The rows of a bulk ingest are as old as its end.
            true => next_ms,
            false => self.hole.below_ms.map_or(i64::MIN, |below_ms| next_ms.min(below_ms)),
        }
    }
}

impl Listing {
    /// The segments that count on top of a version, and the numbers that are missing in the store. A list of a directory
    /// that others write to may lack a segment and have later ones of its writer: such segments are added to it. `None`
    /// where the version has changed since the list: look again.
    ///
    /// # Errors
    /// [`Kind::Unavailable`]; as [`Root::refresh`].
    pub(crate) async fn confirm(
        &mut self,
        root: &Root,
        catalog: &Catalog,
    ) -> Result<Option<(Vec<Pending>, Vec<Damage>)>> {
        loop {
            let above = self.above(catalog);
            let there = above.unlisted(root.store()).await?;
            if there.is_empty() && above.unread.is_empty() {
                return above.confirmed(root, catalog).await;
            }
            // Each turn fills holes or reads headers: there is an end.
            there.into_iter().for_each(|(position, listed)| self.insert(position, listed));
            for (position, stamp_ms) in above.stamps(root.store()).await? {
                self.stamp(position, stamp_ms);
            }
        }
    }
}

impl Above {
    /// The segments at the places of holes, which the list lacks.
    ///
    /// # Errors
    /// [`Kind::Unavailable`].
    async fn unlisted(&self, store: &Store) -> Result<Vec<(Position, Listed)>> {
        let places: Vec<Position> = self.holes.iter().map(|hole| hole.position).collect();
        let asked = places.into_iter().map(|at| async move { Ok::<_, Error>((at, head(store, at).await?)) });
        let found: Vec<_> = futures::stream::iter(asked).buffered(PARALLEL).try_collect().await?;
        Ok(found.into_iter().filter_map(|(at, listed)| Some((at, listed?))).collect())
    }

    /// The stamps of the segments whose headers were not read, milliseconds.
    ///
    /// # Errors
    /// [`Kind::Unavailable`].
    async fn stamps(&self, store: &Store) -> Result<Vec<(Position, Option<i64>)>> {
        let reads = self.unread.clone().into_iter().map(|at| async move {
            let header = header(store, at).await?;
            Ok::<_, Error>((at, header.map(|header| header.stamp_ns / 1_000_000)))
        });
        futures::stream::iter(reads).buffered(PARALLEL).try_collect().await
    }

    /// The same, after the store was asked for each number that is missing, and has none of them.
    async fn confirmed(self, root: &Root, catalog: &Catalog) -> Result<Option<(Vec<Pending>, Vec<Damage>)>> {
        let Self { mut pending, holes, .. } = self;
        if holes.is_empty() {
            return Ok(Some((pending, Vec::new())));
        }
        let store = root.store();
        // Folded and collected since the list: the newest version knows.
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
            // What was put so late is void, above the numbers of a writer that is forgotten.
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

/// The error that names a hole.
fn error(hole: &Hole) -> Error {
    Error::corrupt(
        "a log segment is missing below later ones of its writer; put it back, or give it up with `tidelake give-up` or the statement GIVE UP",
    )
    .with("key", layout::log_key(hole.position))
    .with("found", layout::log_key(hole.next.position))
}

fn changed(before: &Catalog, now: &Catalog, position: Position) -> bool {
    before.watermark(position.writer) != now.watermark(position.writer)
}

/// The header of a segment, where it can be read.
async fn header(store: &Store, position: Position) -> Result<Option<SegmentHeader>> {
    match store.get_range(&layout::log_key(position), 0..segment::HEADER as u64).await {
        Ok(bytes) => Ok(segment::header(&bytes).filter(|h| h.position == position)),
        Err(e) if matches!(e.kind(), Kind::Unavailable) => Err(e),
        Err(_) => Ok(None),
    }
}
