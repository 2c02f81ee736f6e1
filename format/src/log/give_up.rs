//! Gives up a segment that is missing or cannot be read: an operator's decision, recorded as a commit.

use std::fmt;

use super::{Listing, holes::Damage, listing::head};
use crate::{
    error::{Error, Kind, Result},
    ids::{Position, Version},
    layout,
    meta::{Draft, FaultySegment, Root, Watermark},
    segment,
};

/// How often the log is read again because it changed.
const ATTEMPTS: usize = 8;

/// The segment that was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenUp {
    /// Writer and number of the segment.
    pub position: Position,
    /// The version that records the decision.
    pub version: Version,
    /// Whether no object existed at the segment's key.
    pub missing: bool,
}

impl fmt::Display for GivenUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, what) = (layout::log_key(self.position), if self.missing { "is missing" } else { "cannot be read" });
        write!(f, "gave up {key}, which {what}, in version {}: folding continues above it", self.version)
    }
}

/// Gives up the rows of a segment: folding continues above it and queries no longer fail because of it. An intact copy
/// restored at its key still counts. For a segment of a bulk ingest, all rows of the ingest are given up.
///
/// # Errors
/// [`Kind::Invalid`] for a segment that is readable or whose rows are in files; [`Kind::NotFound`] if nothing indicates
/// that the segment existed; [`Kind::Conflict`] when folds keep changing the watermark; [`Kind::Unavailable`].
pub async fn give_up(root: &Root, position: Position) -> Result<GivenUp> {
    let mut attempts = 0;
    loop {
        match attempt(root, position).await {
            Err(e) if e.kind() == Kind::Conflict && attempts < ATTEMPTS => attempts += 1,
            Err(e) if e.context("key").is_none() => return Err(e.with("key", layout::log_key(position))),
            other => return other,
        }
    }
}

async fn attempt(root: &Root, position: Position) -> Result<GivenUp> {
    let Wrong { faulty, start_ms, end, before } = what_is_wrong(root, position).await?;
    let change = |draft: &mut Draft| {
        let known = draft.catalog().watermark(position.writer).cloned();
        if known != before {
            return Err(Error::conflict("the log of this writer was folded meanwhile; try again"));
        }
        let mut watermark = known.unwrap_or_else(|| Watermark::unfolded(start_ms));
        watermark.give_up(faulty.clone());
        watermark.void(end);
        draft.set_watermark(position.writer, watermark);
        Ok(())
    };
    let (_, catalog) = root.commit(&[], change).await?;
    Ok(GivenUp { position, version: catalog.version, missing: faulty.missing })
}

/// A segment to give up.
struct Wrong {
    faulty: FaultySegment,
    /// When the segment's writer started.
    start_ms: i64,
    /// The end segment of the bulk ingest that lacks this segment.
    end: Option<u64>,
    /// The watermark at the time of the check.
    before: Option<Watermark>,
}

async fn what_is_wrong(root: &Root, position: Position) -> Result<Wrong> {
    let (store, key) = (root.store(), layout::log_key(position));
    let read_ms = store.clock_ms().await?;
    for _ in 0..ATTEMPTS {
        let mut listing = Listing::read(store).await?;
        let catalog = root.refresh().await?;
        if catalog.is_folded(position) {
            return Err(Error::invalid("the rows of this segment are in data files: nothing to give up"));
        }
        let before = catalog.watermark(position.writer).cloned();
        let end = position.is_part().then(|| listing.end(position.writer)).flatten();
        if head(store, position).await?.is_some() {
            let (bytes, meta) = match store.get_with_meta(&key).await {
                Err(e) if e.kind() == Kind::NotFound => continue,
                other => other?,
            };
            let error = match segment::decode(&key, &bytes) {
                Ok(segment) if segment.header.position == position => {
                    return Err(Error::invalid("this segment can be read: nothing to give up"));
                }
                Ok(segment) => super::listing::misplaced(&key, position, segment.header.position),
                Err(e) => e,
            };
            let modified_ms = meta.last_modified.timestamp_millis();
            let faulty = FaultySegment {
                modified_ms,
                bytes: meta.size,
                missing: false,
                ..FaultySegment::missing(position.seq, read_ms, segment::tables(position, &bytes), error.to_string())
            };
            return Ok(Wrong { faulty, start_ms: modified_ms, end: None, before });
        }
        if let Some(known) = before.as_ref().and_then(|w| w.faulty(position.seq)) {
            let start_ms = before.as_ref().map_or(0, |w| w.start_ms);
            let faulty = FaultySegment { missing: true, modified_ms: 0, bytes: 0, ..known.clone() };
            return Ok(Wrong { faulty, start_ms, end, before });
        }
        let Some((_, damage)) = listing.confirm(root, &catalog).await? else { continue };
        return match damage.iter().find(|d| d.hole.position == position) {
            Some(damage) => {
                let start_ms = Damage::unfolded(damage).start_ms;
                Ok(Wrong { faulty: damage.faulty(read_ms), start_ms, end, before })
            }
            None => Err(Error::not_found("segment not found: its writer has no later segment")),
        };
    }
    Err(Error::unavailable("the log changes faster than it can be read").with("attempts", ATTEMPTS))
}
