//! INSERT: values straight into columns.

use arrow::array::RecordBatch;
use chrono_tz::Tz;
use tidelake_format::{Error, Result, ids::DatabaseId, schema::Database};

use super::statement::{CreateSubtable, Insert};
use crate::decode::{Decoded, Lookup};

/// What a statement is read in.
#[derive(Debug, Clone, Copy)]
pub struct Session<'a> {
    /// The database of names that give none.
    pub database: Option<&'a Database>,
    /// The zone of timestamps written without one.
    pub time_zone: Tz,
    /// The wall clock in nanoseconds since the epoch: what `now` means.
    pub now_ns: i64,
}

/// What reading an INSERT gives.
#[derive(Debug)]
pub enum Inserted {
    /// All rows; `rejected` and `missing` are empty.
    Ready(Decoded),
    /// Nothing yet: these series are neither tables nor known to [`Lookup::subtable`]. Find them and read again, or
    /// say that they do not exist.
    Unresolved(Vec<(DatabaseId, String)>),
}

/// Reads an INSERT as a whole: its rows, or the first fault. With parameters it is read once for each of their rows.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) naming row, column, expected and found;
/// [`Kind::NotFound`](crate::Kind::NotFound) naming the database, table or column that does not exist.
pub fn insert(
    _insert: &Insert<'_>,
    _lookup: &dyn Lookup,
    _session: &Session<'_>,
    _parameters: Option<&RecordBatch>,
) -> Result<Inserted> {
    Err(Error::internal("not built yet"))
}

/// The blocks that declare subtables: series without rows. One that exists (by [`Lookup::subtable`]) is passed over
/// with IF NOT EXISTS, else an error.
///
/// # Errors
/// As [`insert`].
pub fn create_subtables(
    _subtables: &[CreateSubtable],
    _lookup: &dyn Lookup,
    _session: &Session<'_>,
) -> Result<Decoded> {
    Err(Error::internal("not built yet"))
}
