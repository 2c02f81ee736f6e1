//! Lists the log and selects the segments that count: for each writer the segments from its watermark on; for the
//! writer of a bulk ingest all segments once its end segment exists, none before. A number that is missing below an
//! existing one is a [`Hole`].

use std::collections::BTreeMap;

use super::{
    Fault,
    holes::{Above, Hole, MOST_MISSING},
    put_back::{Stamped, Stamps, Times},
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
    /// Time in the order of segments: last-modified, but never less than the time of the previous segment of its
    /// writer; if the segment was put back, a time computed from the stamps of other segments.
    pub(crate) time_ms: i64,
    pub(crate) bytes: u64,
    /// Whether the version declares the rows void, or the segment quarantined.
    pub(crate) is_void: bool,
    /// Whether a number below it is missing for no known reason.
    pub(crate) is_above_hole: bool,
}

impl Pending {
    /// When the segment was first put: for a copy that was put back the computed time, otherwise last-modified.
    pub(crate) fn put_ms(&self) -> i64 {
        self.modified_ms.min(self.time_ms)
    }

    /// Whether both are the same object, judged by last-modified and size.
    pub(crate) fn is_same_object(&self, other: &Pending) -> bool {
        (self.modified_ms, self.bytes) == (other.modified_ms, other.bytes)
    }

    /// The entry that a fold records when it could not decode the segment.
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

/// The contents of the log at the time it was listed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Listing {
    writers: BTreeMap<WriterId, BTreeMap<u64, Listed>>,
    /// The stamps of segments that were put back, and of those they are compared with.
    stamps: Stamps,
    /// Whether the stamps of all writers are in one order.
    has_ordered_stamps: bool,
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

    /// Adds a segment that the list lacks.
    pub(super) fn insert(&mut self, position: Position, listed: Listed) {
        self.writers.entry(position.writer).or_default().insert(position.seq, listed);
    }

    /// Records the stamp in the header of a segment, in nanoseconds.
    pub(super) fn stamp(&mut self, position: Position, stamp_ns: Option<i64>) {
        self.stamps.insert(position, stamp_ns);
    }

    /// Compares segments that were put back by the order of all stamps of the store, if it has one.
    pub(super) fn order_by_stamps(&mut self, store: &Store) {
        self.has_ordered_stamps = store.has_ordered_stamps();
    }

    /// Whether the listing contains a segment.
    pub(crate) fn holds(&self, position: Position) -> bool {
        self.writers.get(&position.writer).is_some_and(|segments| segments.contains_key(&position.seq))
    }

    /// Brings the listing of a directory up to date: takes the writers named under `log/`, lists new writers and
    /// requests the next number of known ones. `catalog` is the last catalog read; `faulty` are the segments that could
    /// not be read last time.
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
            // The object of a faulty segment may have been replaced or removed.
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
        // The number of a bulk ingest's end cannot be predicted, so the writer is listed until the end is folded.
        let is_done = writer.is_bulk() && next > Position::END;
        if !writer.is_bulk()
            && let Some(segments) = self.writers.get_mut(&writer)
        {
            let mut seq = first_missing(segments, next);
            // Above a hole the next number is unknown, so the writer is listed.
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

    /// Removes folded segments. Returns false if a watermark has moved past the last number requested, so that the next
    /// number of that writer must be requested again.
    pub(crate) fn settle(&mut self, before: &Catalog, now: &Catalog) -> bool {
        let mut is_complete = true;
        for (writer, segments) in &mut self.writers {
            let Some(watermark) = now.watermark(*writer) else { continue };
            if !writer.is_bulk() {
                let asked = first_missing(segments, before.watermark(*writer).map_or(0, |w| w.next));
                // A writer with a hole was listed completely.
                is_complete &= asked >= watermark.next || segments.range(asked..).next().is_some();
            }
            segments.retain(|seq, _| *seq >= watermark.next || watermark.faulty(*seq).is_some());
        }
        is_complete
    }

    /// Bulk ingests that began before `before_ms` and of which no row counts because their end is absent or void; with
    /// the time of their start.
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

    /// Whether the log has any segment of a writer.
    pub(crate) fn has(&self, writer: WriterId) -> bool {
        self.writers.contains_key(&writer)
    }

    /// The segments that folding skipped: unreadable ones as long as the object exists, and missing ones until a copy
    /// is put back or they are given up.
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

    /// The number of the end segment of a bulk ingest, if it exists.
    pub(crate) fn end(&self, writer: WriterId) -> Option<u64> {
        self.writers.get(&writer)?.range(Position::END..).next_back().map(|(seq, _)| *seq)
    }

    /// The positions of all segments, sorted.
    pub(crate) fn positions(&self) -> impl Iterator<Item = Position> {
        let of = |(writer, segments): (&WriterId, &BTreeMap<u64, Listed>)| {
            let writer = *writer;
            segments.keys().map(move |seq| Position { writer, seq: *seq }).collect::<Vec<_>>()
        };
        self.writers.iter().flat_map(of)
    }

    /// The segments that count on top of a version, sorted by (time, writer, number), and the numbers missing below
    /// them.
    pub(crate) fn above(&self, catalog: &Catalog) -> Above {
        let mut above = Above::default();
        let stamped = match self.has_ordered_stamps {
            true => Stamped::InOneOrder { segments: &self.writers },
            false => Stamped::ByClock,
        };
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
            let times = Times::of(*writer, segments.range(expected..), below_ms, &self.stamps, stamped);
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

/// Whether folding skips a number even if its segment is missing.
fn is_passed(watermark: Option<&Watermark>, seq: u64) -> bool {
    watermark.is_some_and(|w| w.is_void(seq) || w.faulty(seq).is_some_and(FaultySegment::is_quarantined))
}

/// The segments below the watermark whose quarantined object has been replaced by another object.
fn replaced(
    writer: WriterId,
    segments: &BTreeMap<u64, Listed>,
    watermark: Option<&Watermark>,
) -> impl Iterator<Item = Pending> {
    watermark.into_iter().flat_map(|w| w.faulty.iter().map(move |f| (w, f.seq))).filter_map(move |(watermark, seq)| {
        let Listed { modified_ms, bytes } = *segments.get(&seq)?;
        let counts = seq < watermark.next && !watermark.is_quarantined(seq, modified_ms, bytes);
        let position = Position { writer, seq };
        // The segment is at most as old as the last folded one.
        let time_ms = watermark.time_ms;
        counts.then_some(Pending { position, modified_ms, time_ms, bytes, is_void: false, is_above_hole: false })
    })
}

/// The segments of a bulk ingest, all with the time of its end segment; none if the end is absent, folded or void.
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
    // The end is put after all parts. So an absent part existed, unless this list was read page by page during the
    // ingest.
    let is_missing = |seq: &u64| !segments.contains_key(seq) && !is_passed(watermark, *seq);
    let next = Pending { is_above_hole: true, ..pending((end, last)) };
    let hole = |seq| Hole { position: Position { writer, seq }, next, below_ms: None };
    above.holes.extend((0..count).filter(is_missing).take(MOST_MISSING).map(hole));
}

/// The segment as the store has it now; `None` if it does not exist.
pub(super) async fn head(store: &Store, position: Position) -> Result<Option<Listed>> {
    match store.head(&layout::log_key(position)).await {
        Ok(meta) => Ok(Some(Listed::from(&meta))),
        Err(e) if e.kind() == Kind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// The first missing number from `next` on.
fn first_missing(segments: &BTreeMap<u64, Listed>, next: u64) -> u64 {
    segments
        .range(next..)
        .zip(next..)
        .find(|((seq, _), expected)| **seq != *expected)
        .map_or_else(|| next + segments.range(next..).count() as u64, |(_, expected)| expected)
}

/// The error of a segment stored under the key of another segment.
pub(crate) fn misplaced(key: &str, expected: Position, found: Position) -> Error {
    Error::corrupt("log segment stored under the key of another segment")
        .with("key", key)
        .with("expected", expected)
        .with("found", found)
}
