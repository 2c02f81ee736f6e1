//! Statements, as they are written.

use tidelake_format::{
    Error, Result,
    schema::Role,
    types::{Precision, Type},
};

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement<'a> {
    /// CREATE DATABASE.
    CreateDatabase(CreateDatabase),
    /// DROP DATABASE.
    DropDatabase {
        /// Which.
        name: String,
        /// No error where there is none.
        if_exists: bool,
    },
    /// CREATE STABLE, or CREATE TABLE with a list of columns.
    CreateTable(CreateTable),
    /// CREATE TABLE … USING … TAGS …, several in one statement.
    CreateSubtables(Vec<CreateSubtable>),
    /// INSERT, not yet read beyond its first words.
    Insert(Insert<'a>),
    /// DROP TABLE or DROP STABLE.
    DropTables(DropTables),
    /// ALTER TABLE or ALTER STABLE.
    Alter(Alter),
    /// USE.
    Use(String),
    /// A statement that does not write: a query, SHOW, DESCRIBE, EXPLAIN, …
    Query,
}

/// A table or series, with its database where one is given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableName {
    /// `None` is the session's.
    pub database: Option<String>,
    /// In lower case unless it was quoted.
    pub name: String,
}

/// CREATE DATABASE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateDatabase {
    /// Its name.
    pub name: String,
    /// No error where it exists.
    pub if_not_exists: bool,
    /// PRECISION; `None` is the default.
    pub precision: Option<Precision>,
    /// KEEP in milliseconds; `None` is the default.
    pub keep_ms: Option<i64>,
    /// DURATION in milliseconds; `None` is the default.
    pub partition_ms: Option<i64>,
}

/// CREATE STABLE or CREATE TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    /// Its name.
    pub table: TableName,
    /// No error where it exists.
    pub if_not_exists: bool,
    /// Time first, then fields, then tags (none for a plain table).
    pub columns: Vec<(String, Role, Type)>,
}

/// One subtable of a CREATE TABLE … USING.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateSubtable {
    /// Its name.
    pub table: TableName,
    /// No error where it exists.
    pub if_not_exists: bool,
    /// Its supertable.
    pub using: TableName,
    /// The tags that are given, where they are named; `None` is all, in their order.
    pub tags: Option<Vec<String>>,
    /// Their values.
    pub values: Vec<Literal>,
}

/// DROP TABLE or DROP STABLE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropTables {
    /// Which, each with its own IF EXISTS.
    pub tables: Vec<(TableName, bool)>,
}

/// ALTER TABLE or ALTER STABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct Alter {
    /// Which.
    pub table: TableName,
    /// What.
    pub action: AlterAction,
}

/// What an ALTER does.
#[derive(Debug, Clone, PartialEq)]
pub enum AlterAction {
    /// ADD COLUMN or ADD TAG.
    Add {
        /// Its name.
        name: String,
        /// A field or a tag.
        role: Role,
        /// Its type.
        ty: Type,
    },
}

/// A literal of a statement, not yet typed.
#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    /// NULL.
    Null,
    /// TRUE or FALSE.
    Bool(bool),
    /// A number or a time expression, as written.
    Bare(String),
    /// A quoted string, its escapes resolved.
    Text(String),
    /// `?`.
    Parameter,
}

/// An INSERT statement; [`insert`](super::insert()) reads it against the catalog in one pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Insert<'a> {
    /// The statement.
    pub(crate) sql: &'a str,
    /// Where the first table name stands.
    pub(crate) at: usize,
}

/// Whether the first word of a statement is one that writes.
pub fn writes(_sql: &str) -> bool {
    false
}

/// Parses one statement.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) for a syntax error, naming the text where it lies;
/// [`Kind::Unsupported`](crate::Kind::Unsupported) for a statement of TDengine's that is not done here.
pub fn parse(_sql: &str) -> Result<Statement<'_>> {
    Err(Error::internal("not built yet"))
}
