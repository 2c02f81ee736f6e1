//! Decodes wire formats into blocks: line protocol, TDengine statements, OpenTSDB JSON and Arrow batches, checked against the
//! catalog.
//!
//! Everything here is a pure function of its arguments: no I/O, no clock, no panic on any input. Schema changes that a request
//! needs are returned as [`SchemaChange`]s; the caller commits them and decodes again. Invalid rows are returned as
//! [`Rejected`], one by one, and leave no trace in the blocks.

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

/// The form in which rows came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// InfluxDB line protocol, over HTTP or UDP.
    InfluxDb,
    /// OpenTSDB's JSON.
    OpenTsdb,
    /// INSERT statements.
    Sql,
    /// Arrow record batches.
    Arrow,
}

/// Decodes request bodies of one wire format. To add a format, implement this trait in a folder here;
/// [`Ingest::write_body`](crate::write::Ingest::write_body) does the rest.
pub trait Decoder: Clone + Send + Sync + 'static {
    /// The protocol that accepted rows are counted for.
    const PROTOCOL: Protocol;

    /// Decodes a body of rows for a database. `now` is the wall clock in ticks of the database: the time of rows without one,
    /// and the reference for rows older than their table's retention.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a body refused as a whole; an invalid row is in [`Decoded::rejected`] instead.
    fn decode(&self, body: &[u8], lookup: &dyn Lookup, database: &Database, now: i64) -> Result<Decoded>;
}

/// Error texts in the words of the format's own server.
pub(crate) struct Words {
    /// The format's word for a table.
    pub(crate) table: &'static str,
    /// A table cannot have a column of this name and role: `(table, name, role)`.
    pub(crate) bad_column: fn(&str, &str, Role) -> String,
    /// The row is older than its table's retention.
    pub(crate) too_old: &'static str,
}

/// Catalog lookups of a decoder.
pub trait Lookup {
    /// The database of this name: an exact match, else the only match that differs in case alone.
    fn database(&self, name: &str) -> Option<Arc<Database>>;

    /// The supertable of this name in a database, by the same rule.
    fn table(&self, database: DatabaseId, name: &str) -> Option<Arc<Supertable>>;

    /// The series (subtable) of this name in a database, if known without a request to the store.
    fn subtable(&self, database: DatabaseId, name: &str) -> Option<Subtable>;

    /// Limits on schema changes by the rows of one request. Default: those of the format.
    fn limits(&self) -> Limits {
        Limits::default()
    }

    /// The tables of a database that an error may name: those that the caller may read.
    fn readable(&self, _: &Database) -> Vec<Arc<Supertable>> {
        Vec::new()
    }

    /// Number of tables in a database.
    fn table_count(&self, _: DatabaseId) -> usize {
        0
    }

    /// Handling of times that seem to be in another unit.
    fn implausible(&self) -> Implausible {
        Implausible::default()
    }

    /// Checks that the caller may write to a database: others learn nothing about its contents.
    ///
    /// # Errors
    /// [`Kind::Forbidden`](crate::Kind::Forbidden).
    fn check(&self, _: &Database) -> Result<()> {
        Ok(())
    }

    /// The error that the caller gets for a database that does not exist.
    fn missing(&self, name: &str) -> Error {
        Error::not_found(format!("Database not exist: {name}")).because(Reason::DatabaseNotFound)
    }
}

/// Limits on schema changes by the rows of one request.
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
    /// Checks that rows may add one more column to a table.
    ///
    /// # Errors
    /// The reason for the refusal.
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
    /// The reason for the refusal.
    pub fn check_table(&self, name: &str, tables: usize) -> Result<(), String> {
        if tables < self.tables {
            return Ok(());
        }
        let limit = self.tables;
        Err(format!("too many tables: rows may not create more in this database (table: {name}, limit: {limit})"))
    }
}

/// An existing series, with its supertable and tags.
#[derive(Debug, Clone)]
pub struct Subtable {
    /// The series' supertable.
    pub table: Arc<Supertable>,
    /// The series' tags; an absent one is null.
    pub tags: Vec<(ColumnId, Scalar)>,
}

/// Decoded contents of a request.
///
/// If `missing` is not empty, `blocks` is empty: commit the changes and decode the request again.
#[derive(Debug, Default)]
pub struct Decoded {
    /// One block per table, rows in the order of arrival.
    pub blocks: Vec<Block>,
    /// Number of valid lines, points or rows.
    pub accepted: usize,
    /// Number of invalid lines, points or rows.
    pub dropped: usize,
    /// The first of the invalid ones, in the order of the request: at most [`Rejected::MAX_LISTED`].
    pub rejected: Vec<Rejected>,
    /// Schema changes that the valid rows need, merged over the whole request.
    pub missing: Vec<SchemaChange>,
    /// Describes the first time that seems to be in another unit and was accepted nevertheless.
    pub doubtful: Option<String>,
}

/// A rejected line, point or row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The number of the line, point or row in the request, from 1.
    pub line: usize,
    /// The reason, in the words of the protocol's own server if it has any.
    pub reason: String,
    /// The rejected text: a line cut to [`Rejected::MAX_TEXT`] bytes, or the whole JSON of a point.
    pub text: String,
}

/// A schema change that a request needs.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemaChange {
    /// A new table: `(name, role, type)` of its columns, time first.
    CreateTable {
        /// The table's name.
        name: String,
        /// The table's columns.
        columns: Vec<(String, Role, Type)>,
    },
    /// A new column of an existing table.
    AddColumn {
        /// The table's id.
        table: TableId,
        /// The column's name.
        name: String,
        /// A field or a tag.
        role: Role,
        /// The column's type.
        ty: Type,
    },
}

impl Rejected {
    /// Most bytes of a line quoted in a reply.
    pub const MAX_TEXT: usize = 256;
    /// Most rejected rows of a request that are described; further ones are only counted. Otherwise a body of millions of bad
    /// lines would take many times its size.
    pub const MAX_LISTED: usize = 1_000;
    /// Bytes of descriptions in one request after which no further row is described.
    const MAX_LISTED_BYTES: usize = 1 << 20;
}
