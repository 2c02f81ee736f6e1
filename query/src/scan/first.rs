//! Reads the newest or the oldest rows first, for `ORDER BY ts DESC LIMIT n`: a sort above the scan needs n rows.
//!
//! Chunks are read in the order of their greatest (or smallest) times, a few at a time. The scan keeps the n first times
//! that it has returned, and ends when no chunk left can have an earlier one in that order. Of a chunk whose rows are all kept it reads
//! n rows at most; long chunks are divided by the page index of their times.

mod rule;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap},
    ops::Range,
    sync::Arc,
};

use arrow::array::BooleanArray;
use datafusion::physical_plan::metrics::Count;
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use tidelake_format::{Error, Result};

pub(crate) use self::rule::ReadFirstRows;
use super::{
    filters::TimeRange,
    narrow::pages_of,
    output::{Decoded, retain, ticks},
    read::{Asked, Reading},
    select::{Component, Keep, Piece},
    source::Origin,
    units::{Unit, merge},
};

/// Chunks read at once.
const MOST_ITEMS: usize = 64;
/// Rows of the chunks read at once, unless a single one has more.
const MOST_ROWS: u64 = 1 << 19;
/// Rows from which a chunk is divided into pages; few in tests, whose chunks are short.
const LONG_ROWS: u64 = if cfg!(test) { 8 } else { 1 << 12 };

/// The rows of a scan that a sort by time needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    /// Number of rows.
    pub(crate) rows: usize,
    /// Whether the newest rows are first.
    pub(crate) descending: bool,
    /// Whether all rows at the last of these times are needed, because the sort has more keys.
    pub(crate) ties: bool,
}

impl First {
    /// Ascends in the order of reading.
    fn key(&self, ts: i64) -> Reverse<i64> {
        // `!` reverses the order without overflow.
        Reverse(if self.descending { ts } else { !ts })
    }

    /// The only rows of a chunk that the scan can need: its rows ascend in time, and no two have the same time.
    fn rows_of(&self, chunk: Range<u64>) -> Range<u64> {
        let most = (chunk.end - chunk.start).min(self.rows as u64);
        if self.descending { chunk.end - most..chunk.end } else { chunk.start..chunk.start + most }
    }

    /// The key of the first row that may be in a time range.
    fn edge(&self, range: TimeRange) -> Reverse<i64> {
        self.key(if self.descending { range.last } else { range.first })
    }
}

/// Returns the rows of one part of a scan, by its index and the number of parts, that a sort needs, and others. Counts the rows that are
/// read.
pub(super) fn read(
    reading: &Arc<Reading>,
    first: First,
    (partition, partitions): (usize, usize),
    asked: Asked,
    rows_read: Count,
) -> BoxStream<'static, Result<Decoded>> {
    let mut items = items(reading, first);
    items.sort_by_key(|item| item.edge);
    let items = items.into_iter().skip(partition).step_by(partitions.max(1)).map(Reverse).collect();
    let top = Top { first, keys: BinaryHeap::new() };
    let run = Run { reading: reading.clone(), asked, rows_read, top, items, current: None };
    stream::try_unfold(run, |mut run| async move { Ok::<_, Error>(run.next().await?.map(|rows| (rows, run))) }).boxed()
}

/// A chunk, or a part of it, that has not been read.
struct Item {
    edge: Reverse<i64>,
    what: What,
}

enum What {
    Plain { source: usize, piece: Piece, is_page: bool },
    Merged(Component),
}

impl PartialEq for Item {
    fn eq(&self, other: &Self) -> bool {
        self.edge == other.edge
    }
}

impl Eq for Item {}

impl PartialOrd for Item {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Item {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.edge.cmp(&other.edge)
    }
}

impl Item {
    fn rows(&self) -> u64 {
        match &self.what {
            What::Plain { piece, .. } => piece.len(),
            What::Merged(component) => component.len(),
        }
    }
}

/// The chunks of a scan.
fn items(reading: &Reading, first: First) -> Vec<Item> {
    let selection = &reading.selection;
    let span = |source: usize, piece: &Piece| {
        let (index, local) = (reading.sources.list[source].index(), piece.local as usize);
        let all = TimeRange { first: index.min_ts[local], last: index.max_ts[local] };
        let hull = selection.ranges(piece.keep).and_then(|ranges| Some((ranges.first()?, ranges.last()?)));
        all.and(hull.map_or(TimeRange::ALL, |(from, to)| TimeRange { first: from.first, last: to.last }))
    };
    let plain = selection.plain.iter().enumerate().flat_map(|(source, pieces)| pieces.iter().map(move |p| (source, p)));
    let plain = plain.map(|(source, piece)| {
        let mut read = piece.clone();
        // A filter, a delete or the time range may drop rows after they are read, so all are read.
        if reading.predicate.is_none() && piece.keep == Keep::All {
            read.rows = first.rows_of(read.rows);
        }
        Item { edge: first.edge(span(source, piece)), what: What::Plain { source, piece: read, is_page: false } }
    });
    let merged = selection.merged.iter().filter_map(|component| {
        let edges = component.parts.iter().map(|(source, piece)| first.edge(span(*source as usize, piece)));
        Some(Item { edge: edges.min()?, what: What::Merged(component.clone()) })
    });
    plain.chain(merged).collect()
}

/// The first keys of the rows returned so far.
struct Top {
    first: First,
    /// The last of them on top.
    keys: BinaryHeap<Reverse<i64>>,
}

impl Top {
    /// Whether rows from this key on may be needed.
    fn needs(&self, key: Reverse<i64>) -> bool {
        match self.keys.peek() {
            Some(last) if self.keys.len() >= self.first.rows => key < *last || self.first.ties && key == *last,
            _ => self.first.rows > 0,
        }
    }

    /// Drops rows that come after the first ones; column `time` has their times.
    fn keep(&mut self, rows: Decoded, time: usize) -> Result<Decoded> {
        let column = rows.batch.column(time).clone();
        let ts = ticks(&column)?;
        for ts in ts {
            let key = self.first.key(*ts);
            if self.keys.len() < self.first.rows {
                self.keys.push(key);
            } else if let Some(mut last) = self.keys.peek_mut().filter(|last| key < **last) {
                *last = key;
            }
        }
        let last = self.keys.peek().copied();
        let mask =
            BooleanArray::from_iter(ts.iter().map(|ts| Some(last.is_none_or(|last| self.first.key(*ts) <= last))));
        retain(rows, &mask)
    }
}

/// State of one partition.
struct Run {
    reading: Arc<Reading>,
    asked: Asked,
    rows_read: Count,
    top: Top,
    /// The next one on top.
    items: BinaryHeap<Reverse<Item>>,
    current: Option<BoxStream<'static, Result<Decoded>>>,
}

impl Run {
    async fn next(&mut self) -> Result<Option<Decoded>> {
        let time = self.asked.columns.time();
        let time = time.ok_or_else(|| Error::internal("time is not read by a scan in the order of time"))?;
        loop {
            if let Some(current) = &mut self.current {
                match current.next().await {
                    Some(rows) => {
                        let rows = rows?;
                        self.rows_read.add(rows.batch.num_rows());
                        return self.top.keep(rows, time).map(Some);
                    }
                    None => self.current = None,
                }
            }
            let units = self.next_units().await?;
            if units.is_empty() {
                return Ok(None);
            }
            self.current = Some(self.reading.units(units, self.asked.clone()));
        }
    }

    /// The next chunks to read; none at the end.
    async fn next_units(&mut self) -> Result<Vec<Unit>> {
        // Each chunk has at least one of the rows that are missing, unless a filter drops it.
        let missing = self.top.first.rows.saturating_sub(self.top.keys.len());
        let most = missing.clamp(8, MOST_ITEMS);
        let (mut taken, mut rows) = (Vec::new(), 0);
        while taken.len() < most && rows < MOST_ROWS {
            let Some(Reverse(item)) = self.items.pop() else { break };
            if !self.top.needs(item.edge) {
                self.items.clear();
                break;
            }
            let parts = self.pages(&item).await?;
            if !parts.is_empty() {
                self.items.extend(parts.into_iter().map(Reverse));
                continue;
            }
            rows += item.rows();
            taken.push(item.what);
        }
        Ok(units(taken))
    }

    /// The pages of a long chunk; none if it is not divided.
    async fn pages(&mut self, item: &Item) -> Result<Vec<Item>> {
        let What::Plain { source, piece, is_page: false } = &item.what else { return Ok(Vec::new()) };
        let Origin::File(file) = &self.reading.sources.list[*source].origin else { return Ok(Vec::new()) };
        if piece.len() < LONG_ROWS {
            return Ok(Vec::new());
        }
        let data = self.reading.reader.data_file(&self.asked.store, file).await?;
        let Some(pages) = pages_of(&data, piece.rows.clone()) else { return Ok(Vec::new()) };
        let hull = self.reading.range;
        let pages = pages.into_iter().filter(|(.., first, last)| hull.meets(*first, *last));
        let page = |(rows, first, last)| Item {
            edge: self.top.first.edge(TimeRange { first, last }.and(hull)),
            what: What::Plain { source: *source, piece: Piece { rows, ..piece.clone() }, is_page: true },
        };
        Ok(pages.map(page).collect())
    }
}

/// Units that read these chunks.
fn units(items: Vec<What>) -> Vec<Unit> {
    let (mut plain, mut merged, mut units) = (BTreeMap::<usize, Vec<Piece>>::new(), Vec::new(), Vec::new());
    for item in items {
        match item {
            What::Plain { source, piece, .. } => plain.entry(source).or_default().push(piece),
            What::Merged(component) => merged.push(component),
        }
    }
    for (source, mut pieces) in plain {
        pieces.sort_by_key(|piece| piece.rows.start);
        units.push(Unit::Plain { source, pieces });
    }
    merged.sort_by_key(|component: &Component| component.rank);
    merge(merged.into_iter(), &mut units);
    units
}
