//! Writes rows into data files and keeps the books: every input row is written, or was dropped for a newer row or removed.

use std::{ops::Range, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array},
    compute::{CastOptions, cast_with_options, take_record_batch},
    datatypes::{FieldRef, Schema, SchemaRef},
};
use tidelake_format::{
    Error, Result,
    file::{DataFileOptions, DataFileWriter, EncodedFile},
    ids::ColumnId,
    merge::{Dropped, sort_newest_counted},
    offload::Urgency,
    rollup::RollupOptions,
    rows::{Block, SeriesSet},
    schema::{Database, Supertable, field_id},
};

use crate::config::CompactConfig;

/// Number of rows and their conservation sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Books {
    pub(crate) rows: u64,
    pub(crate) hash: u64,
}

impl Books {
    pub(crate) fn add(&mut self, rows: u64, hash: u64) {
        self.rows += rows;
        self.hash = self.hash.wrapping_add(hash);
    }
}

/// Limits on memory and file sizes, and the urgency of the work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) file_rows: u64,
    pub(crate) file_bytes: usize,
    pub(crate) window_bytes: usize,
    pub(crate) row_group_bytes: usize,
    pub(crate) rollup: Option<RollupOptions>,
    /// The wall clock when the work began.
    pub(crate) now_ms: i64,
    pub(crate) urgency: Urgency,
}

impl Limits {
    pub(crate) fn new(config: &CompactConfig, now_ms: i64, urgency: Urgency) -> Self {
        let CompactConfig { file_rows, file_bytes, window_bytes, row_group_bytes, rollup, .. } = *config;
        let rollup = (rollup.width_ms > 0).then_some(rollup);
        Self { file_rows, file_bytes, window_bytes, row_group_bytes, rollup, now_ms, urgency }
    }

    /// Number of rows of this size that are sorted at once.
    pub(crate) fn window_rows(&self, row_bytes: usize) -> u64 {
        (self.window_bytes / row_bytes.max(1)).clamp(64, 1 << 22) as u64
    }
}

/// Writes sorted rows of one partition into as many files as the largest file size requires.
#[derive(Debug)]
pub(crate) struct Rewriter {
    table: Arc<Supertable>,
    database: Arc<Database>,
    limits: Limits,
    open: Option<DataFileWriter>,
    /// Closed files that were not taken yet.
    files: Vec<EncodedFile>,
    /// Books of the files closed so far.
    written: Books,
    dropped: Dropped,
    removed: Books,
}

impl Rewriter {
    /// The urgency of the work.
    pub(crate) fn urgency(&self) -> Urgency {
        self.limits.urgency
    }

    pub(crate) fn new(table: Arc<Supertable>, database: Arc<Database>, limits: Limits) -> Self {
        Self {
            table,
            database,
            limits,
            open: None,
            files: Vec::new(),
            written: Books::default(),
            dropped: Dropped::default(),
            removed: Books::default(),
        }
    }

    /// Sorts rows of the next series, keeps the newest of each key and writes them. `batches` are oldest first, in the table's
    /// rows schema; their `series` column is an index into `series`.
    pub(crate) fn write(&mut self, series: &SeriesSet, batches: &[RecordBatch]) -> Result<()> {
        if batches.iter().all(|b| b.num_rows() == 0) {
            return Ok(());
        }
        let newest = sort_newest_counted(batches, series)?;
        self.dropped.rows += newest.dropped.rows;
        self.dropped.hash = self.dropped.hash.wrapping_add(newest.dropped.hash);
        let rows = newest.rows.num_rows() as u64;
        let full = |w: &DataFileWriter| {
            w.rows() + rows > self.limits.file_rows || w.buffered_bytes() >= self.limits.file_bytes
        };
        if self.open.as_ref().is_some_and(|w| w.rows() > 0 && full(w)) {
            self.close()?;
        }
        self.writer()?.write(series, &newest.rows)
    }

    /// Declares series without rows, so that they are not forgotten.
    pub(crate) fn declare(&mut self, series: &SeriesSet, rows: &[u64]) -> Result<()> {
        let without: UInt32Array = (0..series.len()).filter(|i| rows[*i] == 0).map(|i| i as u32).collect();
        if without.is_empty() {
            return Ok(());
        }
        self.writer()?.declare(&SeriesSet::try_new(take_record_batch(series.batch(), &without)?)?)
    }

    fn writer(&mut self) -> Result<&mut DataFileWriter> {
        Ok(match &mut self.open {
            Some(writer) => writer,
            open => {
                let Limits { rollup, row_group_bytes, .. } = self.limits;
                let options = DataFileOptions { rollup, row_group_bytes, ..DataFileOptions::default() };
                open.insert(DataFileWriter::new(self.table.clone(), self.database.precision, options)?)
            }
        })
    }

    fn close(&mut self) -> Result<()> {
        if let Some(writer) = self.open.take() {
            let file = writer.finish()?;
            self.written.add(file.rows, file.hash);
            self.files.push(file);
        }
        Ok(())
    }

    /// Books rows and values that were read and not written: deleted rows, dropped columns.
    pub(crate) fn left_out(&mut self, removed: Books) {
        self.removed.add(removed.rows, removed.hash);
    }

    /// Takes the full files, to be put instead of held in memory. They count only once [`Rewriter::finish`] has balanced the
    /// books.
    pub(crate) fn take(&mut self) -> Vec<EncodedFile> {
        std::mem::take(&mut self.files)
    }

    /// Returns the files that were not taken yet, and the dropped rows.
    ///
    /// # Errors
    /// Internal if the numbers of rows read, written and dropped do not add up: nothing may be committed.
    pub(crate) fn finish(mut self, input: Books) -> Result<(Vec<EncodedFile>, Dropped)> {
        self.close()?;
        let mut output = self.written;
        output.add(self.dropped.rows, self.dropped.hash);
        output.add(self.removed.rows, self.removed.hash);
        if input != output {
            return Err(Error::internal("rewrite aborted: its input and output rows do not balance")
                .with("table", &self.table.name)
                .with("expected", format!("{input:?}"))
                .with("found", format!("{output:?}, including dropped {:?} and {:?}", self.dropped, self.removed)));
        }
        Ok((self.files, self.dropped))
    }
}

/// The columns of rows that a table has, by ID, widened ones cast; `series` is mapped by `ranks`. Columns that the rows lack
/// are left out: as nulls they would take more memory than all others in a wide table.
///
/// # Errors
/// Internal if a column cannot be cast.
pub(crate) fn known_columns(rows: &RecordBatch, ranks: &[u32], schema: &SchemaRef) -> Result<RecordBatch> {
    use arrow::{array::AsArray, datatypes::UInt32Type};
    let has = |f: &FieldRef| rows.schema_ref().fields().iter().skip(1).any(|of| field_id(of) == field_id(f));
    let known = schema.fields().iter().take(1).chain(schema.fields().iter().skip(1).filter(|f| has(f)));
    let known = Arc::new(Schema::new(known.cloned().collect::<Vec<_>>()));
    let of = rows.column(0).as_primitive::<UInt32Type>().values();
    let mapped = UInt32Array::from_iter_values(of.iter().map(|i| ranks[*i as usize]));
    let rows = conform(rows, &known)?;
    let mut columns = rows.columns().to_vec();
    columns[0] = Arc::new(mapped);
    Ok(RecordBatch::try_new(known, columns)?)
}

/// Rows in a table's rows schema: columns by ID, absent ones null, widened ones cast.
///
/// # Errors
/// Internal if a column cannot be cast.
pub(crate) fn conform(rows: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = vec![rows.column(0).clone()];
    for field in schema.fields().iter().skip(1) {
        let id = field_id(field).ok_or_else(|| Error::internal("a column has no id").with("column", field.name()))?;
        let found = rows.schema_ref().fields().iter().skip(1).position(|f| field_id(f) == Some(id));
        columns.push(match found.map(|at| rows.column(at + 1)) {
            None => new_null_array(field.data_type(), rows.num_rows()),
            Some(column) if column.data_type() == field.data_type() => column.clone(),
            Some(column) => {
                let options = CastOptions { safe: false, ..CastOptions::default() };
                cast_with_options(column, field.data_type(), &options)
                    .map_err(|e| Error::internal("cannot widen a column").with("column", field.name()).source(e))?
            }
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    Ok(RecordBatch::try_new_with_options(schema.clone(), columns, &options)?)
}

/// Whether a table still has every column in which a block has values; then the block's own sum is that of its conformed rows.
pub(crate) fn covers(table: &Supertable, block: &Block) -> bool {
    let schema = block.rows.schema();
    let mut fields = schema.fields().iter().zip(block.rows.columns()).skip(1);
    let has = |id: Option<ColumnId>| id.is_some_and(|id| table.column_by_id(id).is_some());
    fields.all(|(f, c)| has(field_id(f)) || c.null_count() == c.len())
}

/// Divides series 0..n into ranges of at most `limit` rows each, but at least one series.
pub(crate) fn windows(rows: &[u64], limit: u64) -> Vec<Range<usize>> {
    let (mut windows, mut start, mut sum) = (Vec::new(), 0, 0u64);
    for (i, n) in rows.iter().enumerate() {
        if i > start && sum + n > limit {
            windows.push(start..i);
            (start, sum) = (i, 0);
        }
        sum += n;
    }
    if start < rows.len() {
        windows.push(start..rows.len());
    }
    windows
}

/// A range of adjacent series of a set.
pub(crate) fn slice(set: &SeriesSet, window: &Range<usize>) -> Result<SeriesSet> {
    SeriesSet::try_new(set.batch().slice(window.start, window.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_cover_every_series_once_within_the_limit_if_possible() {
        assert_eq!(windows(&[5, 5, 5, 20, 1, 0], 10), [0..2, 2..3, 3..4, 4..6]);
        assert_eq!(windows(&[], 10), Vec::<Range<usize>>::new());
    }
}
