//! Merges chunks that overlap in time: one row per key, the newest value of each column.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array},
    compute::concat_batches,
    datatypes::{FieldRef, Schema, UInt32Type},
};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use futures::TryStreamExt;
use tidelake_format::{
    Result,
    ids::ColumnId,
    merge::{merge_sorted, sort_newest},
    rows::{batch_bytes, series_field},
};

use super::{
    output::{Decoded, Run},
    read::{Asked, Columns, Reading},
    select::{Component, Piece},
    source::Origin,
};
use crate::error::from_datafusion;

/// Rows of the batches that chunks are read in before they are merged.
const BATCH_ROWS: usize = 1 << 16;

/// Reads components (by rank) and merges each; gives the asked columns, series by series.
///
/// Only the asked columns are read: a column's newest value depends on no other column, and a row exists when any
/// source has its key. The reservation stands for the memory of the batches: it lives as long as they wait.
pub(super) async fn merge(
    reading: &Arc<Reading>,
    components: Vec<Component>,
    asked: &Asked,
) -> Result<(Vec<Decoded>, MemoryReservation)> {
    let columns = &asked.columns;
    let memory = MemoryConsumer::new("SeriesScan merge").register(&reading.memory);
    let fields: Vec<FieldRef> = columns
        .schema()
        .fields()
        .iter()
        .zip(columns.ids())
        .filter(|(_, id)| *id != ColumnId::TS)
        .map(|(f, _)| f.clone())
        .collect();
    let read = Columns::new(std::iter::once(reading.time.clone()).chain(fields.iter().cloned()).collect());
    let read = Asked { columns: read, batch_rows: BATCH_ROWS, store: asked.store.clone() };
    let series = series_field();
    let schema = Arc::new(Schema::new(
        std::iter::once(series).chain(read.columns.schema().fields().iter().cloned()).collect::<Vec<_>>(),
    ));

    // one component is one series here, even where a series has several: their times are disjoint and ascending
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
        // the place of the component stands in for the rank on the way through the reader
        let pieces = parts.into_iter().map(|(i, p)| Piece { rank: i, ..p }).collect();
        let batches: Vec<Decoded> = reading.plain(source as usize, pieces, read.clone()).try_collect().await?;
        let with_series = batches.into_iter().map(|d| {
            let of = d.runs.iter().flat_map(|r| std::iter::repeat_n(r.rank, r.rows));
            let series: ArrayRef = Arc::new(UInt32Array::from_iter_values(of));
            let all = std::iter::once(series).chain(d.batch.columns().iter().cloned()).collect();
            Ok(RecordBatch::try_new(schema.clone(), all)?)
        });
        let with_series = with_series.collect::<Result<Vec<_>>>()?;
        let rows = concat_batches(&schema, &with_series)?;
        if rows.num_rows() == 0 {
            continue;
        }
        // the rows as read, put together, and as merged
        memory.try_grow(3 * batch_bytes(&rows)).map_err(from_datafusion)?;
        match reading.sources.list[source as usize].origin {
            Origin::File(_) => runs.push(sort_newest(&[rows], ranks.len())?),
            Origin::Tail(_) => tails.push(rows),
        }
    }
    if !tails.is_empty() {
        // blocks are newer than every file, and many: they are merged among themselves first
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

/// Cuts merged rows into batches of the asked columns.
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
