//! Reads units of work: chunks of data files and log blocks, as batches of the requested columns.

use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    task::Poll,
};

use arrow::{
    array::{ArrayRef, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions, new_null_array},
    buffer::BooleanBuffer,
    compute::{CastOptions, cast_with_options, filter_record_batch},
    datatypes::{FieldRef, Schema, SchemaRef},
};
use datafusion::execution::memory_pool::MemoryPool;
use futures::{
    StreamExt, TryStreamExt,
    stream::{self, BoxStream},
};
use tidelake_format::{
    Error, Result,
    file::{CodedBatch, Pages, ReadOptions},
    ids::{ColumnId, TableId},
    schema::field_id,
    store::Store,
};

use super::{
    ends,
    filters::TimeRange,
    merging,
    narrow::narrow,
    output::{Decoded, Run, clip, ticks},
    predicate::Predicate,
    reader::{Reader, Sources},
    select::{End, Keep, Piece, Selection},
    source::{FileSource, Origin},
    tail::SortedBlock,
    units::Unit,
};
use crate::{budget, tracked::next_pass};

/// Units of one partition read from a remote store at once; each holds about half a row group's bytes.
const UNITS_AT_ONCE: usize = 4;

/// State shared by the partitions of one scan.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    /// Loads footers and bytes.
    pub(crate) reader: Arc<Reader>,
    /// Pool for the memory of merges.
    pub(crate) memory: Arc<dyn MemoryPool>,
    /// `database.table`, for display.
    pub(crate) name: String,
    /// The table.
    pub(crate) table: TableId,
    /// The sources of rows.
    pub(crate) sources: Sources,
    /// Wanted series by rank; `None` = all.
    pub(crate) wanted: Option<BooleanArray>,
    /// Which rows are read.
    pub(crate) selection: Selection,
    /// The time column.
    pub(crate) time: FieldRef,
    /// The wanted times.
    pub(crate) range: TimeRange,
    /// The filter on rows, if there is one.
    pub(crate) predicate: Option<Arc<Predicate>>,
    /// The row that tag manifests may answer, of chunks of which one row is selected.
    pub(crate) answered: Option<End>,
}

/// Data columns (time and fields) to read, in this order; each field carries its id.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    schema: SchemaRef,
    /// Whether dictionary-coded numbers stay codes.
    coded: bool,
    /// Whether times may come as [`Times`](tidelake_format::file::Times).
    times: bool,
}

impl Columns {
    /// Creates a list of the time column or fields of a table.
    pub(crate) fn new(fields: Vec<FieldRef>) -> Self {
        Self { schema: Arc::new(Schema::new(fields)), coded: false, times: false }
    }

    /// The same columns, but dictionary-coded numbers may be returned as codes; if `times`, times may be returned
    /// unexpanded.
    pub(crate) fn coded(self, times: bool) -> Self {
        Self { coded: true, times, ..self }
    }

    /// The same columns, followed by others; times are expanded.
    pub(super) fn with(&self, others: impl Iterator<Item = FieldRef>) -> Self {
        let fields = self.schema.fields().iter().cloned().chain(others).collect::<Vec<_>>();
        Self { schema: Arc::new(Schema::new(fields)), times: false, ..*self }
    }

    /// Their schema.
    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Id of each column.
    pub(crate) fn ids(&self) -> impl Iterator<Item = ColumnId> {
        self.schema.fields().iter().map(|f| field_id(f).expect("data columns are made with their ids"))
    }

    /// Index of the time column.
    pub(crate) fn time(&self) -> Option<usize> {
        self.ids().position(|id| id == ColumnId::TS)
    }
}

/// Columns, batch size and store for reading units.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Columns to read.
    pub(crate) columns: Columns,
    /// Maximum rows per batch.
    pub(crate) batch_rows: usize,
    /// Store to read from; it counts the caller's requests.
    pub(crate) store: Store,
    /// Number of the statement, for the use of cached pages.
    pub(super) pass: u64,
}

impl Asked {
    /// Called on a thread of the statement.
    pub(crate) fn new(columns: Columns, batch_rows: usize, store: Store) -> Self {
        let pass = budget::progress().map_or_else(next_pass, |progress| progress.pass());
        Self { columns, batch_rows, store, pass }
    }
}

impl Reading {
    /// Memory of the selected chunks and of the sources held, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        let sources = self.sources.list.iter().map(|s| match &s.origin {
            Origin::File(file) => file.manifest.memory_bytes(),
            Origin::Tail(block) => block.weight,
        });
        self.selection.chunks() * size_of::<Piece>() + sources.sum::<usize>()
    }

    /// Returns the rows of units for which the predicate holds; batches of different units are in any order.
    pub(crate) fn units(self: &Arc<Self>, units: Vec<Unit>, asked: Asked) -> BoxStream<'static, Result<Decoded>> {
        // While one unit waits for a remote store, another is decoded.
        let at_once = if self.reader.store().is_local() { 1 } else { UNITS_AT_ONCE };
        let open = self.opened(&units, asked);
        stream::iter(units).map(open).flatten_unordered(at_once).boxed()
    }

    /// The same, one unit after another.
    pub(super) fn units_in_order(
        self: &Arc<Self>,
        units: Vec<Unit>,
        asked: Asked,
    ) -> BoxStream<'static, Result<Decoded>> {
        let open = self.opened(&units, asked);
        stream::iter(units).map(open).flatten().boxed()
    }

    /// Opens units, and counts their rows for the statement of this thread: all of them now, those of a unit when it has been read.
    fn opened(
        self: &Arc<Self>,
        units: &[Unit],
        asked: Asked,
    ) -> impl FnMut(Unit) -> BoxStream<'static, Result<Decoded>> + use<> {
        let (this, progress) = (self.clone(), budget::progress());
        if let Some(progress) = &progress {
            progress.rows_to_read.fetch_add(units.iter().map(Unit::rows).sum(), Relaxed);
        }
        move |unit| {
            let (rows, progress) = (unit.rows(), progress.clone());
            let read = stream::poll_fn(move |_| {
                if let Some(progress) = &progress {
                    progress.rows_read.fetch_add(rows, Relaxed);
                }
                Poll::Ready(None)
            });
            this.filtered(unit, asked.clone()).chain(read).boxed()
        }
    }

    /// The rows of a unit for which the predicate holds.
    fn filtered(self: &Arc<Self>, unit: Unit, asked: Asked) -> BoxStream<'static, Result<Decoded>> {
        let Some(predicate) = self.predicate.clone() else { return self.unit(unit, asked) };
        let wanted: Vec<usize> = (0..asked.columns.schema().fields().len()).collect();
        let asked = Asked { columns: predicate.with_own(&asked.columns), ..asked };
        let rows = match unit {
            Unit::Plain { source, pieces } if self.is_file(source) && !self.is_clipped(source, &pieces) => {
                self.plain(source, pieces, asked, Some(predicate))
            }
            // A newer row replaces an older one also if the predicate drops it, and rows that are clipped away, such as deleted
            // ones, must not fail the predicate.
            unit => self.unit(unit, asked).map(move |rows| predicate.keep(rows?)).boxed(),
        };
        let of_wanted = move |rows: Result<Decoded>| {
            let Decoded { batch, mut dictionaries, runs, .. } = rows?;
            dictionaries.truncate(wanted.len());
            Ok(Decoded { batch: batch.project(&wanted)?, dictionaries, times: None, runs })
        };
        rows.map(of_wanted).boxed()
    }

    fn is_file(&self, source: usize) -> bool {
        matches!(self.sources.list[source].origin, Origin::File(_))
    }

    /// Whether rows of these chunks are clipped after they are read: files return only those of the scan's time range, but others
    /// are clipped here, and so are those of chunks with other ranges.
    fn is_clipped(&self, source: usize, pieces: &[Piece]) -> bool {
        pieces.iter().any(|p| p.keep != Keep::All && (!self.is_file(source) || p.keep != Keep::IN_RANGE))
    }

    fn unit(self: &Arc<Self>, unit: Unit, asked: Asked) -> BoxStream<'static, Result<Decoded>> {
        match unit {
            Unit::Plain { source, pieces } => self.answered(source, pieces, asked),
            Unit::Merged(components) => {
                let this = self.clone();
                stream::once(async move { merging::merge(&this, components, &asked).await })
                    .map_ok(|(batches, memory)| {
                        let held = move |batch| {
                            let _until_the_last_one = &memory;
                            Ok(batch)
                        };
                        stream::iter(batches.into_iter().map(held))
                    })
                    .try_flatten()
                    .boxed()
            }
            Unit::Long(component) => merging::merge_long(self, component, asked),
        }
    }

    /// Same as [`Reading::plain`], but single rows come from the tag manifest if it answers them.
    fn answered(
        self: &Arc<Self>,
        source: usize,
        pieces: Vec<Piece>,
        asked: Asked,
    ) -> BoxStream<'static, Result<Decoded>> {
        let (Some(end), Origin::File(file)) = (self.answered, &self.sources.list[source].origin) else {
            return self.plain(source, pieces, asked, None);
        };
        let is_single = |piece: &Piece| piece.keep == Keep::All && piece.len() == 1;
        let (single, others): (Vec<Piece>, Vec<Piece>) = pieces.iter().cloned().partition(is_single);
        let rows = single.chunks(asked.batch_rows.max(1));
        let rows = rows.map(|of| ends::row_of_each(&file.manifest, of, end, &asked.columns));
        match rows.collect::<Result<Option<Vec<Decoded>>>>() {
            Err(e) => stream::once(async { Err(e) }).boxed(),
            Ok(None) => self.plain(source, pieces, asked, None),
            Ok(Some(rows)) => {
                let rows = stream::iter(rows.into_iter().map(Ok));
                if others.is_empty() {
                    rows.boxed()
                } else {
                    rows.chain(self.plain(source, others, asked, None)).boxed()
                }
            }
        }
    }

    /// Returns the rows of chunks of one source, by row, clipped to the wanted times. A file returns only rows for which `filter`
    /// holds.
    pub(crate) fn plain(
        self: &Arc<Self>,
        source: usize,
        pieces: Vec<Piece>,
        asked: Asked,
        filter: Option<Arc<Predicate>>,
    ) -> BoxStream<'static, Result<Decoded>> {
        let Asked { columns, batch_rows, .. } = asked.clone();
        let is_ranged = pieces.iter().any(|p| p.keep != Keep::All);
        let clipped = self.is_clipped(source, &pieces);
        if columns.schema().fields().is_empty() && !is_ranged {
            return stream::iter(counted(pieces, batch_rows, columns.schema().clone())).boxed();
        }
        // Clipping needs the times, requested or not.
        let extra = clipped && columns.time().is_none();
        let read = match extra {
            true => {
                let all = std::iter::once(&self.time).chain(columns.schema().fields());
                Columns { coded: columns.coded, ..Columns::new(all.cloned().collect()) }
            }
            // Clipping needs each time expanded.
            false => Columns { times: columns.times && !clipped, ..columns.clone() },
        };
        let this = self.clone();
        let rows = match &self.sources.list[source].origin {
            Origin::File(file) => self.file(file.clone(), pieces, Asked { columns: read.clone(), ..asked }, filter),
            Origin::Tail(block) => tail(block.clone(), pieces, read.clone(), batch_rows),
        };
        let finish = move |(batch, spans): (CodedBatch, Vec<Span>)| {
            let runs = spans.iter().map(|s| Run { rank: s.rank, rows: s.rows }).collect();
            let CodedBatch { rows: batch, dictionaries, times, .. } = batch;
            let decoded = Decoded { batch, dictionaries, times, runs };
            let Some(at) = read.time().filter(|_| clipped) else { return Ok(decoded) };
            let time = decoded.batch.column(at).clone();
            let decoded = clip(decoded, ticks(&time)?, |i| this.selection.ranges(spans[i].keep))?;
            if !extra {
                return Ok(decoded);
            }
            let wanted: Vec<usize> = (1..decoded.batch.num_columns()).collect();
            let dictionaries = decoded.dictionaries.into_iter().skip(1).collect();
            Ok(Decoded { batch: decoded.batch.project(&wanted)?, dictionaries, times: None, runs: decoded.runs })
        };
        rows.map(move |r| r.and_then(&finish)).boxed()
    }

    fn file(
        self: &Arc<Self>,
        file: Arc<FileSource>,
        mut pieces: Vec<Piece>,
        asked: Asked,
        filter: Option<Arc<Predicate>>,
    ) -> BoxStream<'static, Result<(CodedBatch, Vec<Span>)>> {
        let this = self.clone();
        let open = async move {
            let Asked { columns, batch_rows, store, pass } = asked;
            let data = this.reader.data_file(&store, &file).await?;
            for piece in &mut pieces {
                if let Some(ranges) = this.selection.ranges(piece.keep)
                    && let (Some(first), Some(last)) = (ranges.first(), ranges.last())
                {
                    let hull = TimeRange { first: first.first, last: last.last };
                    piece.rows = narrow(&data, piece.rows.clone(), hull);
                }
            }
            pieces.retain(|p| p.len() > 0);
            let is_ranged = pieces.iter().any(|p| p.keep != Keep::All);
            let mut ranges: Vec<std::ops::Range<u64>> = Vec::new();
            for piece in &pieces {
                match ranges.last_mut() {
                    Some(last) if last.end == piece.rows.start => last.end = piece.rows.end,
                    _ => ranges.push(piece.rows.clone()),
                }
            }
            let fields = columns.schema().fields();
            let within = is_ranged.then_some(this.range.first..=this.range.last);
            let filter = filter.map(|filter| filter.of_reader(&columns)).transpose()?;
            let pages = Some(Pages { cache: this.reader.pages().clone(), file: file.entry.data.id, pass });
            let options = ReadOptions { batch_rows, codes: columns.coded, times: columns.times, within, filter, pages };
            let batches = data.read_with(&store, ranges, fields, options)?;
            let mut cursor = Cursor { pieces: pieces.into_iter(), left: None };
            Ok::<_, Error>(batches.map(move |batch| {
                let batch = batch?;
                let rows = batch.kept.as_ref().map_or(batch.rows.num_rows(), BooleanBuffer::len);
                let mut spans = match is_ranged {
                    true => cursor.take_ranges(&batch.ranges)?,
                    false => cursor.take(rows)?,
                };
                if let Some(kept) = &batch.kept {
                    count_kept(&mut spans, kept);
                }
                Ok((batch, spans))
            }))
        };
        stream::once(open).try_flatten().boxed()
    }
}

/// Rows without codes.
fn plain_batch(rows: RecordBatch) -> CodedBatch {
    CodedBatch { rows, dictionaries: Vec::new(), times: None, ranges: Vec::new(), kept: None }
}

/// Rows of one chunk within a batch.
#[derive(Debug, Clone, Copy)]
struct Span {
    rank: u32,
    keep: Keep,
    rows: usize,
}

/// Counts only the kept rows of spans, and drops spans without such rows.
fn count_kept(spans: &mut Vec<Span>, kept: &BooleanBuffer) {
    let mut start = 0;
    spans.retain_mut(|span| {
        let rows = kept.inner().count_set_bits_offset(kept.offset() + start, span.rows);
        start += span.rows;
        span.rows = rows;
        rows > 0
    });
}

/// Maps rows returned by a reader to their series, in the order of the pieces.
struct Cursor {
    pieces: std::vec::IntoIter<Piece>,
    left: Option<Piece>,
}

impl Cursor {
    fn take(&mut self, rows: usize) -> Result<Vec<Span>> {
        let mut spans = Vec::new();
        let mut wanted = rows as u64;
        while wanted > 0 {
            let Some(mut piece) = self.left.take().or_else(|| self.pieces.next()) else {
                return Err(Error::internal("data file returned more rows than requested").with("more", wanted));
            };
            let taken = wanted.min(piece.len());
            spans.push(Span { rank: piece.rank, keep: piece.keep, rows: taken as usize });
            wanted -= taken;
            piece.rows.start += taken;
            self.left = (piece.len() > 0).then_some(piece);
        }
        Ok(spans)
    }

    /// The same for rows of the file, ascending.
    fn take_ranges(&mut self, ranges: &[std::ops::Range<u64>]) -> Result<Vec<Span>> {
        let mut spans = Vec::new();
        for range in ranges {
            let mut wanted = range.clone();
            while !wanted.is_empty() {
                let Some(mut piece) = self.left.take().or_else(|| self.pieces.next()) else {
                    return Err(Error::internal("data file returned rows that were not requested")
                        .with("found", format!("{wanted:?}")));
                };
                // Rows before these are not in the time range.
                piece.rows.start = piece.rows.start.max(wanted.start);
                let end = piece.rows.end.min(wanted.end);
                if piece.rows.start < end {
                    spans.push(Span { rank: piece.rank, keep: piece.keep, rows: (end - piece.rows.start) as usize });
                    piece.rows.start = end;
                    wanted.start = end;
                }
                self.left = (piece.rows.start < piece.rows.end).then_some(piece);
            }
        }
        Ok(spans)
    }
}

/// Returns batches without columns: only row counts and their series.
fn counted(pieces: Vec<Piece>, batch_rows: usize, schema: SchemaRef) -> impl Iterator<Item = Result<Decoded>> {
    let mut left: u64 = pieces.iter().map(Piece::len).sum();
    let mut cursor = Cursor { pieces: pieces.into_iter(), left: None };
    std::iter::from_fn(move || {
        let rows = left.min(batch_rows as u64) as usize;
        left -= rows as u64;
        (rows > 0).then(|| {
            let runs = cursor.take(rows)?.into_iter().map(|s| Run { rank: s.rank, rows: s.rows }).collect();
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(schema.clone(), Vec::new(), &options)?;
            Ok(Decoded { batch, dictionaries: Vec::new(), times: None, runs })
        })
    })
}

/// Returns the rows of a log block in memory.
fn tail(
    block: Arc<SortedBlock>,
    pieces: Vec<Piece>,
    columns: Columns,
    batch_rows: usize,
) -> BoxStream<'static, Result<(CodedBatch, Vec<Span>)>> {
    let start = || {
        let rows = block_columns(&block, &columns)?;
        let (Some(first), Some(last)) = (pieces.first(), pieces.last()) else { return Ok(rows.slice(0, 0)) };
        let (from, to) = (first.rows.start as usize, last.rows.end as usize);
        let rows = rows.slice(from, to - from);
        if pieces.iter().map(Piece::len).sum::<u64>() == (to - from) as u64 {
            return Ok(rows);
        }
        let mut mask = BooleanBufferBuilder::new(to - from);
        for piece in &pieces {
            mask.append_n(piece.rows.start as usize - from - mask.len(), false);
            mask.append_n(piece.len() as usize, true);
        }
        Ok(filter_record_batch(&rows, &BooleanArray::new(mask.finish(), None))?)
    };
    let rows = match start() {
        Ok(rows) => rows,
        Err(e) => return stream::once(async { Err(e) }).boxed(),
    };
    let mut cursor = Cursor { pieces: pieces.into_iter(), left: None };
    let mut at = 0;
    let batches = std::iter::from_fn(move || {
        let n = (rows.num_rows() - at).min(batch_rows);
        let batch = rows.slice(at, n);
        at += n;
        (n > 0).then(|| cursor.take(n).map(|spans| (plain_batch(batch), spans)))
    });
    stream::iter(batches).boxed()
}

/// The requested columns of a block: absent columns are null, those of an older type are cast.
fn block_columns(block: &SortedBlock, columns: &Columns) -> Result<RecordBatch> {
    let schema = block.rows.schema();
    let rows = block.rows.num_rows();
    let column = |(id, field): (ColumnId, &FieldRef)| -> Result<ArrayRef> {
        let Some(at) = schema.fields().iter().skip(1).position(|f| field_id(f) == Some(id)) else {
            return Ok(new_null_array(field.data_type(), rows));
        };
        let values = block.rows.column(at + 1);
        if values.data_type() == field.data_type() {
            return Ok(values.clone());
        }
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        Ok(cast_with_options(values, field.data_type(), &strict)?)
    };
    let arrays = columns.ids().zip(columns.schema().fields()).map(column).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(columns.schema().clone(), arrays, &options)?)
}
