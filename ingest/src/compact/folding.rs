//! Writes rows of segments into data files, one window of series at a time: memory beyond the segments does not grow with them.

use std::{collections::BTreeMap, ops::Range, sync::Arc};

use arrow::{
    array::{AsArray, BooleanArray, RecordBatch, UInt32Array},
    compute::take_record_batch,
    datatypes::{SchemaRef, UInt32Type},
};
use tidelake_format::{
    Result,
    file::EncodedFile,
    ids::{Position, TableId},
    merge::{Deletes, content_hash},
    rows::{Block, batch_bytes},
    schema::{Database, Supertable},
};

use super::{
    fold::{OrderedTable, ticks},
    rewrite::{Books, Limits, Rewriter, conform, covers, known_columns, slice, windows},
};

/// Rows hashed at once if they have to be copied for it.
const HASHED: usize = 1 << 14;
/// Assumed width of a text or binary value.
const TEXT_BYTES: usize = 16;

/// Input of a fold for one table.
pub(super) struct Input {
    pub(super) table: Arc<Supertable>,
    pub(super) database: Arc<Database>,
    /// Oldest first.
    pub(super) blocks: Vec<(Position, Block)>,
    pub(super) ordered: Arc<OrderedTable>,
    /// Rows of earlier partitions are left out.
    pub(super) first_kept: i64,
}

/// A file of one partition of one table.
pub(super) struct Folded {
    pub(super) table: TableId,
    pub(super) partition: i64,
    pub(super) file: EncodedFile,
}

/// Rows read, rows dropped for newer ones, rows beyond KEEP, deleted rows.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Counts {
    pub(super) rows: u64,
    pub(super) dropped: u64,
    pub(super) expired: u64,
    pub(super) deleted: u64,
}

/// A fold in progress.
pub(super) struct Folding {
    inputs: std::vec::IntoIter<Input>,
    limits: Limits,
    table: Option<OpenTable>,
    counts: Counts,
}

/// Result of one turn of a fold.
pub(super) struct Turn {
    /// The rest of the fold; `None` when all is done.
    pub(super) rest: Option<Folding>,
    /// Full or complete files, to be put.
    pub(super) files: Vec<Folded>,
    pub(super) counts: Counts,
}

impl Folding {
    pub(super) fn new(inputs: Vec<Input>, limits: Limits) -> Self {
        Self { inputs: inputs.into_iter(), limits, table: None, counts: Counts::default() }
    }

    /// Continues until there are files of some size to put, or all is done.
    ///
    /// # Errors
    /// Internal if the numbers of rows read, written and dropped do not add up: nothing of the fold may be committed.
    pub(super) fn turn(mut self) -> Result<Turn> {
        let (mut files, mut bytes) = (Vec::new(), 0);
        while bytes < self.limits.window_bytes {
            let Some(mut table) = self.table.take() else {
                match self.inputs.next() {
                    Some(input) => self.table = Some(OpenTable::new(input, self.limits, &mut self.counts)?),
                    None => return Ok(Turn { counts: self.counts, rest: None, files }),
                }
                continue;
            };
            let is_open = table.step(&mut self.counts, |folded| {
                bytes += folded.file.data.len() + folded.file.tags.len();
                files.push(folded);
            })?;
            self.table = is_open.then_some(table);
        }
        Ok(Turn { counts: self.counts, rest: Some(self), files })
    }
}

/// Rows of one partition: their row numbers in each block.
#[derive(Default)]
struct Partition {
    places: Vec<(usize, Vec<u32>)>,
    books: Books,
}

/// The table whose rows are being written.
struct OpenTable {
    input: Input,
    limits: Limits,
    schema: SchemaRef,
    /// The blocks with the columns that the table has; `series` is in the table's order.
    rows: Vec<RecordBatch>,
    partitions: std::collections::btree_map::IntoIter<i64, Partition>,
    /// The last partition, which declares the series without rows.
    last: Option<i64>,
    /// Number of rows written per series; 1 if the series need not be declared.
    written: Vec<u64>,
    /// Rows sorted at once.
    window_rows: u64,
    open: Option<OpenPartition>,
}

/// The partition whose rows are being written.
struct OpenPartition {
    partition: i64,
    books: Books,
    windows: std::vec::IntoIter<Range<usize>>,
    /// Number of rows per series.
    counts: Vec<u64>,
    /// Row numbers by block, grouped by window.
    grouped: Vec<Grouped>,
    rewriter: Rewriter,
}

/// Row numbers of one block, in the order of windows.
struct Grouped {
    block: usize,
    places: UInt32Array,
    /// The end of each window in `places`.
    ends: Vec<usize>,
    /// Number of finished windows.
    done: usize,
}

impl OpenTable {
    fn new(input: Input, limits: Limits, counts: &mut Counts) -> Result<Self> {
        let (table, database) = (&input.table, &input.database);
        let OrderedTable { masks, order, .. } = input.ordered.as_ref();
        // A series that exists has at least one block that no DROP covers.
        let mut exists = vec![false; order.series.len()];
        for (ranks, mask) in order.ranks.iter().zip(masks) {
            let gone = |local: usize| mask.as_ref().is_some_and(|m| m.1.value(local));
            ranks.iter().enumerate().for_each(|(local, rank)| exists[*rank as usize] |= !gone(local));
        }
        let schema = Block::rows_schema(table, database.precision);
        let (mut rows, mut partitions) = (Vec::with_capacity(input.blocks.len()), BTreeMap::new());
        for (at, ((position, block), ranks)) in input.blocks.iter().zip(&order.ranks).enumerate() {
            counts.rows += block.len() as u64;
            let of_table = known_columns(&block.rows, ranks, &schema)?;
            let keep = Deletes::of_segment(table, *position).keep(&block.series, &block.rows)?;
            let of_block = split(&block.rows, keep.as_ref(), database)?;
            let kept: usize = of_block.values().map(Vec::len).sum();
            counts.deleted += (block.len() - kept) as u64;
            let is_whole = of_block.len() == 1 && kept == block.len() && covers(table, block);
            for (partition, places) in of_block {
                if partition < input.first_kept {
                    counts.expired += places.len() as u64;
                    continue;
                }
                // The sum over the block as read also covers the steps since then.
                let hash = match is_whole {
                    true => content_hash(&block.series, &block.rows)?,
                    false => hash_of(&input.ordered, &of_table, &places)?,
                };
                let of_partition: &mut Partition = partitions.entry(partition).or_default();
                of_partition.books.add(places.len() as u64, hash);
                of_partition.places.push((at, places));
            }
            rows.push(of_table);
        }
        // Series that are only declared are named in one file, if necessary one without rows.
        if partitions.is_empty() && exists.contains(&true) {
            let now = limits.now_ms.saturating_mul(database.precision.per_second() / 1_000);
            partitions.entry(database.partition_of(now)).or_default();
        }
        let written = exists.iter().map(|exists| u64::from(!exists)).collect();
        let row_bytes = row_bytes(&schema).max(rows.iter().map(batch_bytes).sum::<usize>() / total(&rows).max(1));
        Ok(Self {
            last: partitions.keys().next_back().copied(),
            partitions: partitions.into_iter(),
            window_rows: limits.window_rows(row_bytes),
            open: None,
            input,
            limits,
            schema,
            rows,
            written,
        })
    }

    /// Writes one window; returns false once the whole table is written.
    fn step(&mut self, counts: &mut Counts, mut put: impl FnMut(Folded)) -> Result<bool> {
        let Some(mut open) = self.open.take() else {
            let Some((partition, rows)) = self.partitions.next() else { return Ok(false) };
            self.open = Some(self.open_partition(partition, rows));
            return Ok(true);
        };
        let (table, partition) = (self.input.table.id, open.partition);
        let mut put = |file| put(Folded { table, partition, file });
        if let Some(window) = open.windows.next() {
            self.write(&mut open, &window)?;
            open.rewriter.take().into_iter().for_each(&mut put);
            self.open = Some(open);
            return Ok(true);
        }
        if Some(partition) == self.last {
            open.rewriter.declare(&self.input.ordered.order.series, &self.written)?;
        }
        let (files, dropped) = open.rewriter.finish(open.books)?;
        counts.dropped += dropped.rows;
        files.into_iter().for_each(put);
        Ok(true)
    }

    fn open_partition(&mut self, partition: i64, rows: Partition) -> OpenPartition {
        let mut counts = vec![0_u64; self.written.len()];
        for (block, places) in &rows.places {
            let series = self.rows[*block].column(0).as_primitive::<UInt32Type>().values();
            places.iter().for_each(|i| counts[series[*i as usize] as usize] += 1);
        }
        self.written.iter_mut().zip(&counts).for_each(|(written, n)| *written += n);
        let windows = windows(&counts, self.window_rows);
        let mut window_of = vec![0_u32; counts.len()];
        for (w, window) in windows.iter().enumerate() {
            window_of[window.clone()].fill(w as u32);
        }
        let group = |(block, places): (usize, Vec<u32>)| {
            let series = self.rows[block].column(0).as_primitive::<UInt32Type>().values();
            group(block, &places, |i| window_of[series[i as usize] as usize] as usize, windows.len())
        };
        let rewriter = Rewriter::new(self.input.table.clone(), self.input.database.clone(), self.limits);
        OpenPartition {
            partition,
            books: rows.books,
            grouped: rows.places.into_iter().map(group).collect(),
            windows: windows.into_iter(),
            counts,
            rewriter,
        }
    }

    fn write(&self, open: &mut OpenPartition, window: &Range<usize>) -> Result<()> {
        let series = slice(&self.input.ordered.order.series, window)?;
        let places: Vec<(usize, UInt32Array)> = open.grouped.iter_mut().filter_map(Grouped::next).collect();
        let is_large = window.len() == 1 && open.counts[window.start] > self.window_rows;
        let pieces = if is_large { self.by_time(&places)? } else { vec![places] };
        for piece in pieces {
            let mut batches = Vec::with_capacity(piece.len());
            for (block, places) in &piece {
                let taken = take_record_batch(&self.rows[*block], places)?;
                batches.push(conform(&rebase(&taken, window.start as u32)?, &self.schema)?);
            }
            open.rewriter.write(&series, &batches)?;
        }
        Ok(())
    }

    /// Cuts the rows of one series into pieces of about a window each, oldest first; rows of one time are in one piece.
    fn by_time(&self, places: &[(usize, UInt32Array)]) -> Result<Vec<Vec<(usize, UInt32Array)>>> {
        let mut all: Vec<(i64, u32, u32)> = Vec::new();
        for (at, (block, places)) in places.iter().enumerate() {
            let ticks = ticks(&self.rows[*block])?;
            all.extend(places.values().iter().map(|i| (ticks[*i as usize], at as u32, *i)));
        }
        // Rows of one time keep their order of arrival: within a block, that of the row numbers.
        all.sort_unstable();
        let (mut pieces, mut start) = (Vec::new(), 0);
        while start < all.len() {
            let full = start + (self.window_rows as usize).min(all.len() - start);
            let end = full + all[full..].iter().take_while(|row| row.0 == all[full - 1].0).count();
            let mut of_block: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            all[start..end].iter().for_each(|(_, at, i)| of_block.entry(*at).or_default().push(*i));
            let piece = of_block.into_iter().map(|(at, rows)| (places[at as usize].0, UInt32Array::from(rows)));
            pieces.push(piece.collect());
            start = end;
        }
        Ok(pieces)
    }
}

impl Grouped {
    /// The rows of the next window, if any.
    fn next(&mut self) -> Option<(usize, UInt32Array)> {
        let start = if self.done == 0 { 0 } else { self.ends[self.done - 1] };
        let end = self.ends[self.done];
        self.done += 1;
        (start < end).then(|| (self.block, self.places.slice(start, end - start)))
    }
}

/// Groups row numbers by window, stably: a counting sort.
fn group(block: usize, places: &[u32], window_of: impl Fn(u32) -> usize, windows: usize) -> Grouped {
    let mut ends = vec![0_usize; windows];
    places.iter().for_each(|i| ends[window_of(*i)] += 1);
    let (mut next, mut sum) = (Vec::with_capacity(windows), 0);
    for end in &mut ends {
        next.push(sum);
        sum += *end;
        *end = sum;
    }
    let mut grouped = vec![0_u32; places.len()];
    for i in places {
        let at = &mut next[window_of(*i)];
        grouped[*at] = *i;
        *at += 1;
    }
    Grouped { block, places: UInt32Array::from(grouped), ends, done: 0 }
}

/// Row numbers by the partition of their time, without rows that are not kept.
fn split(rows: &RecordBatch, keep: Option<&BooleanArray>, database: &Database) -> Result<BTreeMap<i64, Vec<u32>>> {
    let ticks = ticks(rows)?;
    let kept = (0..rows.num_rows()).filter(|i| keep.is_none_or(|keep| keep.value(*i))).map(|i| i as u32);
    let (Some(min), Some(max)) = (ticks.iter().min(), ticks.iter().max()) else { return Ok(BTreeMap::new()) };
    let (first, last) = (database.partition_of(*min), database.partition_of(*max));
    let mut places: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    if first == last {
        places.insert(first, kept.collect());
    } else {
        kept.for_each(|i| places.entry(database.partition_of(ticks[i as usize])).or_default().push(i));
    }
    places.retain(|_, places| !places.is_empty());
    Ok(places)
}

/// The conservation sum of some rows, whose series are in the table's order.
fn hash_of(ordered: &OrderedTable, rows: &RecordBatch, places: &[u32]) -> Result<u64> {
    let mut sum = 0_u64;
    for places in places.chunks(HASHED) {
        let taken = take_record_batch(rows, &UInt32Array::from(places.to_vec()))?;
        sum = sum.wrapping_add(content_hash(&ordered.order.series, &taken)?);
    }
    Ok(sum)
}

/// Approximate bytes of a row with every column of a table.
fn row_bytes(schema: &SchemaRef) -> usize {
    schema.fields().iter().map(|f| f.data_type().primitive_width().unwrap_or(TEXT_BYTES)).sum()
}

fn total(rows: &[RecordBatch]) -> usize {
    rows.iter().map(RecordBatch::num_rows).sum()
}

/// Rows with series numbers relative to the start of a window.
fn rebase(rows: &RecordBatch, start: u32) -> Result<RecordBatch> {
    let series = rows.column(0).as_primitive::<UInt32Type>().unary::<_, UInt32Type>(|s| s - start);
    let mut columns = rows.columns().to_vec();
    columns[0] = Arc::new(series);
    Ok(RecordBatch::try_new(rows.schema(), columns)?)
}
