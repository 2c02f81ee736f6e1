//! The columnar builder of one block: rows of one supertable in arrival order, every value checked as it comes.
//!
//! A row is built by setting values and then [`end_row`](BlockBuilder::end_row), or given up with
//! [`cancel_row`](BlockBuilder::cancel_row), which leaves nothing of it. Columns grow lazily: a column that a row
//! does not set is null there, and costs nothing until the next row that sets it.

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
    /// An empty builder of a table's rows.
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

    /// How many rows are complete.
    pub fn rows(&self) -> usize {
        self.ts.len()
    }

    /// How many series there are.
    pub fn series_count(&self) -> usize {
        self.series.len()
    }

    /// How many field columns are in use.
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// The place of a field's column, added when it is new to this block.
    pub fn column(&mut self, column: &Column) -> usize {
        let known = self.columns.iter().position(|c| c.id() == column.id);
        known.unwrap_or_else(|| {
            self.columns.push(FieldColumn::new(column.id, column.ty));
            self.fields.push(column.field(self.precision));
            self.columns.len() - 1
        })
    }

    /// Forgets the columns added since there were `count`: those of a row that was given up.
    pub fn truncate_columns(&mut self, count: usize) {
        self.columns.truncate(count);
        self.fields.truncate(count);
    }

    /// The type of the column at this place.
    pub fn column_type(&self, at: usize) -> Type {
        self.columns[at].ty()
    }

    /// The name of the column at this place.
    pub fn column_name(&self, at: usize) -> &str {
        self.fields[at].name()
    }

    /// The column at this place, and the row that is being built.
    pub fn cell(&mut self, at: usize) -> (&mut FieldColumn, usize) {
        (&mut self.columns[at], self.ts.len())
    }

    /// The index of a series by name.
    pub fn find_series(&self, name: &str) -> Option<u32> {
        self.series.find(name)
    }

    /// The index of a series, added with these tags when it is new; an absent tag is null. A series that is there
    /// keeps the tags it came with.
    pub fn series(&mut self, name: &str, tags: &[(&Column, Tag<'_>)]) -> u32 {
        self.series.intern(name, tags)
    }

    /// Completes the row.
    pub fn end_row(&mut self, series: u32, ts: i64) {
        self.row_series.push(series);
        self.ts.push(ts);
    }

    /// Gives up the values set since the last complete row.
    pub fn cancel_row(&mut self) {
        let rows = self.ts.len();
        self.columns.iter_mut().for_each(|c| c.truncate(rows));
    }

    /// Drops every row after the first `rows`, values of an unfinished one included. Series stay.
    pub fn truncate(&mut self, rows: usize) {
        self.row_series.truncate(rows);
        self.ts.truncate(rows);
        self.cancel_row();
    }

    /// The block.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) when a text is not UTF-8.
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

/// Wraps columns as a series set.
fn series_set(tags: Vec<FieldRef>, columns: Vec<ArrayRef>) -> Result<SeriesSet> {
    let fields = [tbname_field()].into_iter().chain(tags).collect::<Vec<_>>();
    SeriesSet::try_new(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

#[cfg(test)]
mod tests;
