//! What is in the log, and which of it counts: of each writer the segments from its watermark on; of the writer of a
//! bulk ingest all of them once its end is there, none before. A number that is missing below one that exists is a
//! [`Hole`].

use std::collections::BTreeMap;

use super::{
    Fault,
    holes::{Above, Hole, MOST_MISSING},
    put_back::{Stamps, Times},
};
use crate::{
    error::{Error, Kind, Result},
    ids::{Position, WriterId},
    layout,
    meta::{Catalog, FaultySegment, Watermark},
    store::{ObjectMeta, Store},
};

/// One segment in a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) modified_ms: i64,
    pub(crate) bytes: u64,
}

impl From<&ObjectMeta> for Listed {
    fn from(meta: &ObjectMeta) -> Self {
        Self { modified_ms: meta.last_modified.timestamp_millis(), bytes: meta.size }
    }
}

/// A segment above its writer's watermark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) position: Position,
    /// Last-modified.
    pub(crate) modified_ms: i64,
    /// Its time in the order of segments: last-modified, never less than that of the one before in its writer; that of the
    /// later ones of its writer where it was put back.
    pub(crate) time_ms: i64,
    pub(crate) bytes: u64,
    /// Whether the version says that its rows do not count: it is void, or quarantined.
    pub(crate) is_void: bool,
    /// Whether a number below it is missing, and nothing says why.
    pub(crate) is_above_hole: bool,
}

impl Pending {
    /// When the segment was first put: for a copy that was put back the computed time, otherwise last-modified.
    pub(crate) fn put_ms(&self) -> i64 {
        self.modified_ms.min(self.time_ms)
    }

    /// Whether both are one object, as far as a list tells.
    pub(crate) fn is_same_object(&self, other: &Pending) -> bool {
        (self.modified_ms, self.bytes) == (other.modified_ms, other.bytes)
    }

    /// What a fold takes down of it that could not decode it.
    pub(super) fn faulty(&self, fault: &Fault, read_ms: i64) -> FaultySegment {
        FaultySegment {
            seq: self.position.seq,
            modified_ms: self.modified_ms,
            bytes: self.bytes,
            reads: 1,
            read_ms,
            tables: fault.tables.clone(),
            error: fault.error.to_string(),
            missing: false,
            given_up: false,
        }
    }
}

/// The log as it was when it was looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listing {
    writers: BTreeMap<WriterId, BTreeMap<u64, Listed>>,
    /// The stamps of segments that were put back, and of those near them.
    stamps: Stamps,
}

impl Listing {
    /// Lists the whole log.
    pub(crate) async fn read(store: &Store) -> Result<Self> {
        Ok(Self::of(&store.list_by_digit(layout::LOG).await?))
    }

    /// The segments among the objects of a list.
    pub(crate) fn of(objects: &[ObjectMeta]) -> Self {
        let mut listing = Self::default();
        for meta in objects {
            if let Some(position) = layout::parse_log(meta.location.as_ref()) {
                listing.writers.entry(position.writer).or_default().insert(position.seq, Listed::from(meta));
            }
        }
        listing
    }

    /// Adds a segment that it lacks.
    pub(super) fn insert(&mut self, position: Position, listed: Listed) {
        self.writers.entry(position.writer).or_default().insert(position.seq, listed);
    }

    /// Records the stamp in the header of a segment.
    pub(super) fn stamp(&mut self, position: Position, stamp_ms: Option<i64>) {
        self.stamps.insert(position, stamp_ms);
    }

    /// Whether a segment is in it.
    pub(crate) fn holds(&self, position: Position) -> bool {
        self.writers.get(&position.writer).is_some_and(|segments| segments.contains_key(&position.seq))
    }

    /// Brings a listing of a directory up to date: reads the names under `log/`, lists the writers that are new
    /// and asks for the next number of those that are known. `catalog` is the last one seen, `faulty` is what could not
    /// be read the last time.
    pub(crate) async fn update(
        &mut self,
        store: &Store,
        names: Vec<String>,
        catalog: &Catalog,
        faulty: &[Position],
    ) -> Result<()> {
        let found: Vec<WriterId> = names.iter().filter_map(|n| n.parse().ok()).collect();
        self.writers.retain(|writer, _| found.contains(writer));
        for writer in found {
            let watermark = catalog.watermark(writer);
            self.ask_next(store, writer, watermark).await?;
            let segments = self.writers.entry(writer).or_default();
            // Another object may have come in the place of one that could not be read, or none.
            let of_reader = faulty.iter().filter(|p| p.writer == writer).map(|p| p.seq);
            for seq in watermark.iter().flat_map(|w| &w.faulty).map(|f| f.seq).chain(of_reader) {
                match head(store, Position { writer, seq }).await? {
                    Some(listed) => segments.insert(seq, listed),
                    None => segments.remove(&seq),
                };
            }
        }
        Ok(())
    }

    async fn ask_next(&mut self, store: &Store, writer: WriterId, watermark: Option<&Watermark>) -> Result<()> {
        let next = watermark.map_or(0, |w| w.next);
        // The end of a bulk ingest has a number that nobody can guess; it is listed until that is folded.
        let is_done = writer.is_bulk() && next > Position::END;
        if !writer.is_bulk()
            && let Some(segments) = self.writers.get_mut(&writer)
        {
            let mut seq = first_missing(segments, next);
            // Above a hole the next number is not known: the writer is listed.
            let has_hole = watermark.is_some_and(|w| w.faulty.iter().any(|f| f.missing && f.seq >= next));
            if !has_hole && segments.range(seq..).next().is_none() {
                while let Some(listed) = head(store, Position { writer, seq }).await? {
                    segments.insert(seq, listed);
                    seq += 1;
                }
                return Ok(());
            }
        }
        let listed = if is_done { Vec::new() } else { store.list(&layout::log_prefix(writer)).await? };
        let named = |m: &ObjectMeta| Some((layout::parse_log(m.location.as_ref())?.seq, Listed::from(m)));
        self.writers.insert(writer, listed.iter().filter_map(named).collect());
        Ok(())
    }

    /// Forgets what is folded; false where a watermark has moved past what was looked at, so that the next number
    /// of that writer has to be asked for again.
    pub(crate) fn settle(&mut self, before: &Catalog, now: &Catalog) -> bool {
        let mut is_complete = true;
        for (writer, segments) in &mut self.writers {
            let Some(watermark) = now.watermark(*writer) else { continue };
            if !writer.is_bulk() {
                let asked = first_missing(segments, before.watermark(*writer).map_or(0, |w| w.next));
                // A writer with a hole was listed whole.
                is_complete &= asked >= watermark.next || segments.range(asked..).next().is_some();
            }
            segments.retain(|seq, _| *seq >= watermark.next || watermark.faulty(*seq).is_some());
        }
        is_complete
    }

    /// Bulk ingests of which nothing counts, without an end or with a void one, that began before a moment, and when.
    pub(crate) fn abandoned(&self, catalog: &Catalog, before_ms: i64) -> Vec<(WriterId, i64)> {
        let abandoned = |(writer, segments): (&WriterId, &BTreeMap<u64, Listed>)| {
            let watermark = catalog.watermark(*writer);
            let began_ms = segments.values().map(|s| s.modified_ms).min()?;
            let has_end =
                segments.keys().any(|seq| *seq >= Position::END && watermark.is_none_or(|w| !w.is_void(*seq)));
            let is_over = watermark.is_some_and(|w| w.next > Position::END);
            (writer.is_bulk() && !has_end && !is_over && began_ms < before_ms).then_some((*writer, began_ms))
        };
        self.writers.iter().filter_map(abandoned).collect()
    }

    /// Whether anything of a writer is in the log.
    pub(crate) fn has(&self, writer: WriterId) -> bool {
        self.writers.contains_key(&writer)
    }

    /// The segments that the log went on without: those that cannot be read as long as they are there, and those that
    /// are missing until somebody puts a copy in their place or gives them up.
    pub(crate) fn quarantined(&self, catalog: &Catalog) -> Vec<Fault> {
        let of = |(writer, watermark): (WriterId, &Watermark)| {
            let segments = self.writers.get(&writer);
            let is_open = |f: &&FaultySegment| match segments.and_then(|s| s.get(&f.seq)) {
                Some(listed) => f.is_object(listed.modified_ms, listed.bytes),
                None => f.missing,
            };
            let faulty = watermark.faulty.iter().filter(|f| f.is_quarantined() && !f.given_up);
            let fault = |f: &FaultySegment| Fault::quarantined(Position { writer, seq: f.seq }, f);
            faulty.filter(is_open).map(fault).collect::<Vec<_>>()
        };
        catalog.watermarks().filter(|(_, w)| !w.faulty.is_empty()).flat_map(of).collect()
    }

    /// The number of the end of a bulk ingest, where it is there.
    pub(crate) fn end(&self, writer: WriterId) -> Option<u64> {
        self.writers.get(&writer)?.range(Position::END..).next_back().map(|(seq, _)| *seq)
    }

    /// Every segment, by position.
    pub(crate) fn positions(&self) -> impl Iterator<Item = Position> {
        let of = |(writer, segments): (&WriterId, &BTreeMap<u64, Listed>)| {
            let writer = *writer;
            segments.keys().map(move |seq| Position { writer, seq: *seq }).collect::<Vec<_>>()
        };
        self.writers.iter().flat_map(of)
    }

    /// The segments that count on top of a version, by (time, writer, number), and the numbers that are missing
    /// below them.
    pub(crate) fn above(&self, catalog: &Catalog) -> Above {
        let mut above = Above::default();
        for (writer, segments) in &self.writers {
            let watermark = catalog.watermark(*writer);
            above.pending.extend(replaced(*writer, segments, watermark));
            if writer.is_bulk() {
                bulk(*writer, segments, watermark, &mut above);
                continue;
            }
            let mut below_ms = watermark.map_or(i64::MIN, |w| w.time_ms);
            let mut expected = watermark.map_or(0, |w| w.next);
            let mut missing = 0;
            let times = Times::of(*writer, segments.range(expected..), below_ms, &self.stamps);
            above.unread.extend(times.unread);
            for ((seq, listed), time_ms) in segments.range(expected..).zip(times.times_ms) {
                let Listed { modified_ms, bytes } = *listed;
                let is_void = watermark.is_some_and(|w| w.is_void(*seq) || w.is_quarantined(*seq, modified_ms, bytes));
                let gap = (expected..*seq).filter(|n| !is_passed(watermark, *n));
                let gap: Vec<u64> = gap.take(MOST_MISSING - missing).collect();
                missing += gap.len();
                let position = Position { writer: *writer, seq: *seq };
                let is_above_hole = missing > 0;
                let pending = Pending { position, modified_ms, time_ms, bytes, is_void, is_above_hole };
                let below = (below_ms > i64::MIN).then_some(below_ms);
                let hole = |seq| Hole { position: Position { writer: *writer, seq }, next: pending, below_ms: below };
                above.holes.extend(gap.into_iter().map(hole));
                above.pending.push(pending);
                expected = seq + 1;
                below_ms = time_ms;
            }
        }
        above.pending.sort_unstable_by_key(|p| (p.time_ms, p.position));
        above
    }
}

/// Whether the log goes on without a number, also when there is nothing at its place.
fn is_passed(watermark: Option<&Watermark>, seq: u64) -> bool {
    watermark.is_some_and(|w| w.is_void(seq) || w.faulty(seq).is_some_and(FaultySegment::is_quarantined))
}

/// The segments of a writer that are folded but for one object in their place that was quarantined, and that another
/// one has come for.
fn replaced(
    writer: WriterId,
    segments: &BTreeMap<u64, Listed>,
    watermark: Option<&Watermark>,
) -> impl Iterator<Item = Pending> {
    watermark.into_iter().flat_map(|w| w.faulty.iter().map(move |f| (w, f.seq))).filter_map(move |(watermark, seq)| {
        let Listed { modified_ms, bytes } = *segments.get(&seq)?;
        let counts = seq < watermark.next && !watermark.is_quarantined(seq, modified_ms, bytes);
        let position = Position { writer, seq };
        // It is as old as the last folded one at most.
        let time_ms = watermark.time_ms;
        counts.then_some(Pending { position, modified_ms, time_ms, bytes, is_void: false, is_above_hole: false })
    })
}

/// The segments of a bulk ingest, all at the place of its end; none without it, when it is folded, or void.
fn bulk(writer: WriterId, segments: &BTreeMap<u64, Listed>, watermark: Option<&Watermark>, above: &mut Above) {
    let Some((end, last)) = segments.range(Position::END..).next_back() else { return };
    if watermark.is_some_and(|w| *end < w.next || w.is_void(*end)) {
        return;
    }
    let parts = segments.range(..Position::END);
    let pending = |(seq, listed): (&u64, &Listed)| Pending {
        position: Position { writer, seq: *seq },
        modified_ms: last.modified_ms,
        time_ms: last.modified_ms,
        bytes: listed.bytes,
        is_void: watermark.is_some_and(|w| w.is_quarantined(*seq, listed.modified_ms, listed.bytes)),
        is_above_hole: false,
    };
    let count = end - Position::END;
    let is_whole = parts.clone().count() as u64 == count && parts.clone().zip(0..).all(|((seq, _), n)| *seq == n);
    if is_whole {
        above.pending.extend(parts.chain([(end, last)]).map(pending));
        return;
    }
    // The end is put after all parts: one that is absent was there, unless this list was read page by page meanwhile.
    let is_missing = |seq: &u64| !segments.contains_key(seq) && !is_passed(watermark, *seq);
    let next = Pending { is_above_hole: true, ..pending((end, last)) };
    let hole = |seq| Hole { position: Position { writer, seq }, next, below_ms: None };
    above.holes.extend((0..count).filter(is_missing).take(MOST_MISSING).map(hole));
}

/// A segment as the store tells of it now; nothing where there is none.
pub(super) async fn head(store: &Store, position: Position) -> Result<Option<Listed>> {
    match store.head(&layout::log_key(position)).await {
        Ok(meta) => Ok(Some(Listed::from(&meta))),
        Err(e) if e.kind() == Kind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// The first number from `next` on that is missing.
fn first_missing(segments: &BTreeMap<u64, Listed>, next: u64) -> u64 {
    segments
        .range(next..)
        .zip(next..)
        .find(|((seq, _), expected)| **seq != *expected)
        .map_or_else(|| next + segments.range(next..).count() as u64, |(_, expected)| expected)
}

/// The error of a segment that is where another should be.
pub(crate) fn misplaced(key: &str, expected: Position, found: Position) -> Error {
    Error::corrupt("a log segment under another's key").with("key", key).with("expected", expected).with("found", found)
}
