//! Columnar builder of one block: rows of one supertable in arrival order, with every value checked on arrival.
//!
//! The caller sets the values of a row, then completes it with [`end_row`](BlockBuilder::end_row) or discards it with
//! [`cancel_row`](BlockBuilder::cancel_row). Columns grow lazily: a column that a row does not set is null there, and takes no
//! space until the next row that sets it.

mod column;
mod series;

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, RecordBatch, UInt32Array},
    datatypes::{FieldRef, Schema},
};
use tidelake_format::{
    Result,
    ids::TableId,
    rows::{Block, SeriesSet, series_field, tbname_field},
    schema::{Column, Supertable},
    types::{Precision, Type},
};

pub use column::{Fault, FieldColumn};
pub use series::{Tag, canonical_name, untagged_name};

use column::timestamps;
use series::SeriesTable;

/// Builds one [`Block`].
#[derive(Debug)]
pub struct BlockBuilder {
    table: TableId,
    time: FieldRef,
    precision: Precision,
    series: SeriesTable,
    row_series: Vec<u32>,
    ts: Vec<i64>,
    columns: Vec<FieldColumn>,
    fields: Vec<FieldRef>,
}

impl BlockBuilder {
    /// An empty builder for rows of a table.
    pub fn new(table: &Supertable, precision: Precision) -> Self {
        Self {
            table: table.id,
            time: table.time().field(precision),
            precision,
            series: SeriesTable::new(precision),
            row_series: Vec::new(),
            ts: Vec::new(),
            columns: Vec::new(),
            fields: Vec::new(),
        }
    }

    /// Number of complete rows.
    pub fn rows(&self) -> usize {
        self.ts.len()
    }

    /// Number of series.
    pub fn series_count(&self) -> usize {
        self.series.len()
    }

    /// Number of field columns in use.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// The index of a field's column; adds the column if it is new to this block.
    pub fn column(&mut self, column: &Column) -> usize {
        let known = self.columns.iter().position(|c| c.id() == column.id);
        known.unwrap_or_else(|| {
            self.columns.push(FieldColumn::new(column.id, column.ty));
            self.fields.push(column.field(self.precision));
            self.columns.len() - 1
        })
    }

    /// Removes columns beyond the first `count`: those that a discarded row added.
    pub fn truncate_columns(&mut self, count: usize) {
        self.columns.truncate(count);
        self.fields.truncate(count);
    }

    /// The type of the column at this index.
    pub fn column_type(&self, at: usize) -> Type {
        self.columns[at].ty()
    }

    /// The name of the column at this index.
    pub fn column_name(&self, at: usize) -> &str {
        self.fields[at].name()
    }

    /// The column at this index, and the number of the unfinished row.
    pub fn cell(&mut self, at: usize) -> (&mut FieldColumn, usize) {
        (&mut self.columns[at], self.ts.len())
    }

    /// The index of a series by name.
    pub fn find_series(&self, name: &str) -> Option<u32> {
        self.series.find(name)
    }

    /// The index of a series; adds it with these tags if it is new. An absent tag is null. An existing series keeps its first
    /// tags.
    pub fn series(&mut self, name: &str, tags: &[(&Column, Tag<'_>)]) -> u32 {
        self.series.intern(name, tags)
    }

    /// Completes the row.
    pub fn end_row(&mut self, series: u32, ts: i64) {
        self.row_series.push(series);
        self.ts.push(ts);
    }

    /// Discards the values set since the last complete row.
    pub fn cancel_row(&mut self) {
        let rows = self.ts.len();
        self.columns.iter_mut().for_each(|c| c.truncate(rows));
    }

    /// Drops every row after the first `rows`, and the unfinished one. Series remain.
    pub fn truncate(&mut self, rows: usize) {
        self.row_series.truncate(rows);
        self.ts.truncate(rows);
        self.cancel_row();
    }

    /// Builds the block.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) if a text is not UTF-8.
    pub fn finish(self) -> Result<Block> {
        let rows = self.ts.len();
        let mut fields = vec![series_field(), self.time];
        let mut arrays: Vec<ArrayRef> =
            vec![Arc::new(UInt32Array::from(self.row_series)), timestamps(self.ts, None, self.precision)];
        for (column, field) in self.columns.into_iter().zip(self.fields) {
            if column.is_empty() {
                continue;
            }
            arrays.push(column.finish(rows, self.precision)?);
            fields.push(field);
        }
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
        Block::try_new(self.table, self.series.finish()?, rows)
    }
}

/// Builds a series set from columns.
fn series_set(tags: Vec<FieldRef>, columns: Vec<ArrayRef>) -> Result<SeriesSet> {
    let fields = [tbname_field()].into_iter().chain(tags).collect::<Vec<_>>();
    SeriesSet::try_new(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

#[cfg(test)]
mod tests;
