//! Arrow batches.

use arrow::{array::RecordBatch, datatypes::Schema};
use tidelake_format::{
    Error, Result,
    schema::{Database, Role, Supertable},
    types::Type,
};

use super::Decoded;

/// Decodes a batch whose columns are found in `table` by name. `now` is in ticks of the database.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid), naming row, column, expected and found; nothing of the batch is taken.
pub fn decode(_batch: &RecordBatch, _table: &Supertable, _database: &Database, _now: i64) -> Result<Decoded> {
    Err(Error::internal("not built yet"))
}

/// The columns of the table that a batch of this schema creates: `(name, role, type)`, time first.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) when there is no time column or a type has no counterpart.
pub fn infer_table(_schema: &Schema) -> Result<Vec<(String, Role, Type)>> {
    Err(Error::internal("not built yet"))
}
