//! Wire text to blocks: line protocol, TDengine statements, OpenTSDB JSON and Arrow batches, checked against the
//! catalog.
//!
//! Everything here is a pure function of its arguments: no I/O, no clock, no panic on any input. What a request
//! needs that the catalog lacks comes back as [`SchemaChange`]s; the caller commits them and decodes again.
//! Rows that are wrong by themselves come back as [`Rejected`], one by one, and leave nothing behind.

pub mod arrow;
pub mod builder;
#[cfg(test)]
mod fixture;
pub mod line_protocol;
pub mod opentsdb;
mod request;
pub mod tdengine;
pub mod time;

use std::sync::Arc;

use tidelake_format::{
    Error, Reason, Result,
    ids::{ColumnId, DatabaseId, TableId},
    rows::Block,
    schema::{Database, Role, Supertable},
    types::{Scalar, Type},
};

use self::time::Implausible;

/// Decodes the bodies of one wire format. A new format is a folder here with an implementation of this trait;
/// [`Ingest::write_body`](crate::write::Ingest::write_body) does the rest.
pub trait Decoder: Clone + Send + Sync + 'static {
    /// Decodes a body whose rows are for a database. `now` is the wall clock in ticks of the database: the time of rows without one,
    /// and what decides which rows are older than their table keeps.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a body that is refused as a whole; a bad row is in [`Decoded::rejected`] instead.
    fn decode(&self, body: &[u8], lookup: &dyn Lookup, database: &Database, now: i64) -> Result<Decoded>;
}

/// What a format's own server says of rows that it refuses.
pub(crate) struct Words {
    /// What a table is called.
    pub(crate) table: &'static str,
    /// A table cannot have a column of this name and role: `(table, name, role)`.
    pub(crate) bad_column: fn(&str, &str, Role) -> String,
    /// The row is older than its table keeps.
    pub(crate) too_old: &'static str,
}

/// What a decoder asks of the catalog.
pub trait Lookup {
    /// The database of this name: exact, else the only one that differs by case alone.
    fn database(&self, name: &str) -> Option<Arc<Database>>;

    /// The supertable of this name in a database, by the same rule.
    fn table(&self, database: DatabaseId, name: &str) -> Option<Arc<Supertable>>;

    /// The series (subtable) of this name in a database, where it is known without asking the store.
    fn subtable(&self, database: DatabaseId, name: &str) -> Option<Subtable>;

    /// How far the rows of one request may widen the schema. Default: as far as the format goes.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// The name of a database's table that is nearest to a misspelt one.
    fn near_table(&self, _: DatabaseId, _: &str) -> Option<String> {
        None
    }

    /// How many tables a database has.
    fn table_count(&self, _: DatabaseId) -> usize {
        0
    }

    /// What is done with times that seem to be in another unit.
    fn implausible(&self) -> Implausible {
        Implausible::default()
    }

    /// That whoever asks may write to a database: what is in it is told to nobody else.
    ///
    /// # Errors
    /// [`Kind::Forbidden`](crate::Kind::Forbidden).
    fn check(&self, _: &Database) -> Result<()> {
        Ok(())
    }

    /// What whoever asks is told of a database that is not there.
    fn missing(&self, name: &str) -> Error {
        Error::not_found(format!("Database not exist: {name}")).because(Reason::DatabaseNotFound)
    }
}

/// How far the rows of one request may widen the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Tables of a database.
    pub tables: usize,
    /// Tables that the rows of one request may create.
    pub new_tables: usize,
    /// Columns of a table, time and tags included.
    pub columns: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { tables: usize::MAX, new_tables: usize::MAX, columns: Supertable::MAX_COLUMNS }
    }
}

impl Limits {
    /// Checks that rows may add one more column to a table of this many columns.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_column(&self, table: &Supertable) -> Result<(), String> {
        if table.columns.len() < self.columns {
            return Ok(());
        }
        let (name, limit) = (&table.name, self.columns);
        Err(format!("too many columns: rows may not add more to this table (table: {name}, limit: {limit})"))
    }

    /// Checks that rows may create a table in a database that has `tables`.
    ///
    /// # Errors
    /// The reason why not.
    pub fn check_table(&self, name: &str, tables: usize) -> Result<(), String> {
        if tables < self.tables {
            return Ok(());
        }
        let limit = self.tables;
        Err(format!("too many tables: rows may not create more in this database (table: {name}, limit: {limit})"))
    }
}

/// A series that exists, and whose it is.
#[derive(Debug, Clone)]
pub struct Subtable {
    /// Its supertable.
    pub table: Arc<Supertable>,
    /// Its tags; one that is absent is null.
    pub tags: Vec<(ColumnId, Scalar)>,
}

/// What a request holds.
///
/// When `missing` is not empty, `blocks` is empty: the changes are to be committed and the request decoded again.
#[derive(Debug, Default)]
pub struct Decoded {
    /// One block per table, rows in the order of arrival.
    pub blocks: Vec<Block>,
    /// How many lines, points or rows are good.
    pub accepted: usize,
    /// How many are not.
    pub dropped: usize,
    /// The first of those, in the order of the request: at most [`Rejected::MAX_LISTED`].
    pub rejected: Vec<Rejected>,
    /// What the good rows need and the catalog lacks, merged over the whole request.
    pub missing: Vec<SchemaChange>,
    /// The first time that seems to be in another unit and was taken nevertheless, in words.
    pub doubtful: Option<String>,
}

/// One line, point or row that was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Its number in the request, from 1: a line, a point or a row.
    pub line: usize,
    /// Why, in the words of the protocol's own server where it has some.
    pub reason: String,
    /// Its text: cut to [`Rejected::MAX_TEXT`] bytes for a line; a point's whole JSON.
    pub text: String,
}

/// A change of the schema that a request needs.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemaChange {
    /// A new table: `(name, role, type)` of its columns, time first.
    CreateTable {
        /// Its name.
        name: String,
        /// Its columns.
        columns: Vec<(String, Role, Type)>,
    },
    /// A new column of an existing table.
    AddColumn {
        /// Whose.
        table: TableId,
        /// Its name.
        name: String,
        /// A field or a tag.
        role: Role,
        /// Its type.
        ty: Type,
    },
}

impl Rejected {
    /// The most bytes of a line that are quoted back.
    pub const MAX_TEXT: usize = 256;
    /// The most refused rows of a request that are described; the others are counted. A body of millions of refused lines would
    /// otherwise take many times its size.
    pub const MAX_LISTED: usize = 1_000;
    /// Once the descriptions of a request have this many bytes, no further row is described.
    const MAX_LISTED_BYTES: usize = 1 << 20;
}
