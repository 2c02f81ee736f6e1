//! Merges chunks that overlap in time: one row per key, the newest value of each column.
//!
//! Many short chunks are read whole and merged together. Long chunks of one series are read in parallel and merged
//! piecewise as they arrive, so memory grows with their number, not their length.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::concat_batches,
    datatypes::{FieldRef, Schema, SchemaRef, UInt32Type},
};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use futures::{
    StreamExt, TryStreamExt,
    future::try_join_all,
    stream::{self, BoxStream},
};
use tidelake_format::{
    Error, Result,
    ids::ColumnId,
    merge::{merge_sorted, sort_newest},
    rows::{batch_bytes, series_field},
};

use super::{
    output::{Decoded, Run, ticks},
    read::{Asked, Columns, Reading},
    select::{Component, Piece},
    source::Origin,
};
use crate::error::from_datafusion;

/// Rows per batch when chunks are read for a merge.
const BATCH_ROWS: usize = 1 << 16;
/// Rows of a long component held at once; few in tests, whose chunks are short.
const LONG_ROWS: usize = if cfg!(test) { 12 } else { 1 << 17 };

/// Reads components (by rank) and merges each; returns the requested columns, series by series.
///
/// Only the requested columns are read: the newest value of a column depends on no other column, and a row exists if
/// any source has its key. The reservation counts the memory of the batches: keep it until they are consumed.
pub(super) async fn merge(
    reading: &Arc<Reading>,
    components: Vec<Component>,
    asked: &Asked,
) -> Result<(Vec<Decoded>, MemoryReservation)> {
    let columns = &asked.columns;
    let memory = MemoryConsumer::new("SeriesScan merge").register(&reading.memory);
    let (read, schema) = keyed(reading, asked, BATCH_ROWS);
    // Each component counts as a series here, even if a series has several: their times are disjoint and ascending.
    let ranks: Vec<u32> = components.iter().map(|c| c.rank).collect();
    let mut by_source: std::collections::BTreeMap<u32, Vec<(u32, Piece)>> = Default::default();
    for (i, component) in components.into_iter().enumerate() {
        for (source, piece) in component.parts {
            by_source.entry(source).or_default().push((i as u32, piece));
        }
    }
    let mut runs = Vec::new();
    let mut tails = Vec::new();
    for (source, mut parts) in by_source {
        parts.sort_by_key(|(_, p)| p.rows.start);
        // The index of the component replaces the rank while the reader runs.
        let pieces = parts.into_iter().map(|(i, p)| Piece { rank: i, ..p }).collect();
        let batches: Vec<Decoded> = reading.plain(source as usize, pieces, read.clone(), None).try_collect().await?;
        let batches = batches.iter().map(|d| with_series(d, &schema)).collect::<Result<Vec<_>>>()?;
        let rows = concat_batches(&schema, &batches)?;
        if rows.num_rows() == 0 {
            continue;
        }
        // Rows as read, concatenated, and merged.
        memory.try_grow(3 * batch_bytes(&rows)).map_err(from_datafusion)?;
        match reading.sources.list[source as usize].origin {
            Origin::File(_) => runs.push(sort_newest(&[rows], ranks.len())?),
            Origin::Tail(_) => tails.push(rows),
        }
    }
    if !tails.is_empty() {
        // Blocks are newer than every file, and many: merge them among themselves first.
        runs.push(sort_newest(&tails, ranks.len())?);
    }
    let merged = match runs.len() {
        0 => return Ok((Vec::new(), memory)),
        1 => runs.remove(0),
        _ => merge_sorted(&runs)?,
    };
    drop(runs);
    memory.shrink(memory.size().saturating_sub(batch_bytes(&merged)));
    Ok((split(&merged, &ranks, columns, asked.batch_rows)?, memory))
}

/// What to read for a merge by row key, in batches of at most `batch_rows` rows: the time, then the requested columns;
/// and the schema of these with the series in front.
fn keyed(reading: &Reading, asked: &Asked, batch_rows: usize) -> (Asked, SchemaRef) {
    let columns = &asked.columns;
    let fields = columns.schema().fields().iter().zip(columns.ids());
    let fields = fields.filter(|(_, id)| *id != ColumnId::TS).map(|(f, _)| f.clone());
    let fields: Vec<FieldRef> = std::iter::once(reading.time.clone()).chain(fields).collect();
    let schema = Schema::new(std::iter::once(series_field()).chain(fields.iter().cloned()).collect::<Vec<_>>());
    (Asked { columns: Columns::new(fields), batch_rows, ..asked.clone() }, Arc::new(schema))
}

fn with_series(rows: &Decoded, schema: &SchemaRef) -> Result<RecordBatch> {
    let of = rows.runs.iter().flat_map(|r| std::iter::repeat_n(r.rank, r.rows));
    let series: ArrayRef = Arc::new(UInt32Array::from_iter_values(of));
    let all = std::iter::once(series).chain(rows.batch.columns().iter().cloned()).collect();
    Ok(RecordBatch::try_new(schema.clone(), all)?)
}

/// Merges the chunks of one component as they are read.
pub(super) fn merge_long(
    reading: &Arc<Reading>,
    component: Component,
    asked: Asked,
) -> BoxStream<'static, Result<Decoded>> {
    let (read, schema) = keyed(reading, &asked, (LONG_ROWS / component.parts.len()).max(1));
    let chunk = |(source, piece): (u32, Piece)| Chunk {
        is_tail: matches!(reading.sources.list[source as usize].origin, Origin::Tail(_)),
        // The index of the series among the merged series.
        batches: reading.plain(source as usize, vec![Piece { rank: 0, ..piece }], read.clone(), None),
        rows: RecordBatch::new_empty(schema.clone()),
    };
    let long = Long {
        chunks: component.parts.into_iter().map(chunk).collect(),
        memory: MemoryConsumer::new("SeriesScan merge").register(&reading.memory),
        schema,
        rank: component.rank,
        asked,
    };
    let next = |mut long: Long| async move { Ok::<_, Error>(long.next().await?.map(|rows| (rows, long))) };
    let merged = stream::try_unfold(long, next);
    merged.map_ok(|batches| stream::iter(batches.into_iter().map(Ok::<_, Error>))).try_flatten().boxed()
}

/// A component merged while it is read.
struct Long {
    /// Oldest first; chunks of log blocks are last.
    chunks: Vec<Chunk>,
    memory: MemoryReservation,
    schema: SchemaRef,
    rank: u32,
    asked: Asked,
}

/// Rows of one source, by time.
struct Chunk {
    is_tail: bool,
    batches: BoxStream<'static, Result<Decoded>>,
    /// Read, not yet merged.
    rows: RecordBatch,
}

impl Long {
    /// Merges the rows up to the earliest of the last times read from the chunks: no chunk has more rows up to that
    /// time.
    async fn next(&mut self) -> Result<Option<Vec<Decoded>>> {
        let spent = self.chunks.iter_mut().filter(|chunk| chunk.rows.num_rows() == 0);
        try_join_all(spent.map(|chunk| chunk.read(&self.schema))).await?;
        self.chunks.retain(|chunk| chunk.rows.num_rows() > 0);
        // Rows as read, concatenated for this step, and merged.
        let held: usize = self.chunks.iter().map(|chunk| batch_bytes(&chunk.rows)).sum();
        self.memory.try_resize(3 * held).map_err(from_datafusion)?;
        let mut until = i64::MAX;
        for chunk in &self.chunks {
            until = until.min(chunk.times()?.last().copied().unwrap_or(until));
        }
        let (mut runs, mut tails) = (Vec::new(), Vec::new());
        for chunk in &mut self.chunks {
            let rows = chunk.take(until)?;
            match chunk.is_tail {
                _ if rows.num_rows() == 0 => {}
                true => tails.push(rows),
                false => runs.push(rows),
            }
        }
        if !tails.is_empty() {
            runs.push(sort_newest(&tails, 1)?);
        }
        if runs.is_empty() {
            return Ok(None);
        }
        split(&merge_sorted(&runs)?, &[self.rank], &self.asked.columns, self.asked.batch_rows).map(Some)
    }
}

impl Chunk {
    /// Reads the next rows; leaves `rows` empty at the end.
    async fn read(&mut self, schema: &SchemaRef) -> Result<()> {
        while self.rows.num_rows() == 0 {
            let Some(rows) = self.batches.try_next().await? else { break };
            self.rows = with_series(&rows, schema)?;
        }
        Ok(())
    }

    fn times(&self) -> Result<&[i64]> {
        ticks(self.rows.column(1))
    }

    /// Takes the rows up to and including a time.
    fn take(&mut self, until: i64) -> Result<RecordBatch> {
        let n = self.times()?.partition_point(|time| *time <= until);
        let rows = self.rows.slice(0, n);
        self.rows = self.rows.slice(n, self.rows.num_rows() - n);
        Ok(rows)
    }
}

/// Splits merged rows into batches of the requested columns.
fn split(merged: &RecordBatch, ranks: &[u32], columns: &Columns, batch_rows: usize) -> Result<Vec<Decoded>> {
    let mut next = 2;
    let places: Vec<usize> = columns
        .ids()
        .map(|id| {
            if id == ColumnId::TS {
                return 1;
            }
            next += 1;
            next - 1
        })
        .collect();
    let of = merged.column(0).as_primitive::<UInt32Type>().values();
    let mut out = Vec::new();
    let mut start = 0;
    while start < merged.num_rows() {
        let rows = (merged.num_rows() - start).min(batch_rows);
        let arrays: Vec<ArrayRef> = places.iter().map(|at| merged.column(*at).slice(start, rows)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(columns.schema().clone(), arrays, &options)?;
        let mut runs: Vec<Run> = Vec::new();
        for part in of[start..start + rows].chunk_by(|a, b| a == b) {
            runs.push(Run { rank: ranks[part[0] as usize], rows: part.len() });
        }
        out.push(Decoded { batch, dictionaries: Vec::new(), times: None, runs });
        start += rows;
    }
    Ok(out)
}
