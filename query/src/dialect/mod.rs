//! SQL as clients send it: TDengine's clauses and literals on top of DataFusion's SQL.
//!
//! Owns the way from text to an analyzed plan; knows nothing of files, snapshots or the wire. The steps:
//! tokens ([`lex`]) → clauses rewritten so that the SQL parser takes them ([`clauses`]) → statement → names
//! resolved, windows and functions rewritten ([`resolve`]) → logical plan ([`planner`]).
//!
//! A table is expected in the session state as schema = database, table = supertable, both by their exact names,
//! with the columns ts, fields, tags and last `tbname` ([`tidelake_format::schema::TBNAME`]).

pub mod duration;
pub mod info;
pub(crate) mod lex;

use arrow::datatypes::Field;
use datafusion::{execution::SessionState, logical_expr::LogicalPlan};
use tidelake_format::{Error, Result};

pub use info::{CatalogInfo, information_schema};

use crate::session::{DoubleQuotes, Session};

/// What a statement does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatementKind {
    /// It gives rows: SELECT, WITH, VALUES, EXPLAIN, SHOW, DESCRIBE. Goes to [`plan`].
    Reads,
    /// It changes the root: INSERT, CREATE, DROP, ALTER, DELETE, … Its text goes to the writer untouched.
    Writes,
    /// `USE db`: the session's database becomes this one (the name as written; find it without case).
    Use(String),
}

/// A statement that was read as text, before any name in it was looked up.
#[derive(Debug, Clone)]
pub struct Parsed {
    /// What it does.
    pub kind: StatementKind,
    /// How many parameters it has (`?`, or the highest `$n`).
    pub parameters: usize,
}

/// A planned statement that reads.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Analyzed, not optimized; parameters are `$1…`.
    pub plan: LogicalPlan,
    /// The final names of the plan's columns, one each: the text of the select list; they may repeat.
    pub names: Vec<String>,
    /// One field per parameter (`$1`, `$2`, …) of the type that drivers can bind ([`parameter_fields`]).
    pub parameters: Vec<Field>,
}

/// Reads one statement.
///
/// # Errors
/// Invalid for text that is empty, holds several statements or has a syntax error: the message names the place
/// (line and column), what was expected and what was found. Unsupported for syntax that is understood and not done.
pub fn parse(_sql: &str, _quotes: DoubleQuotes) -> Result<Parsed> {
    Err(Error::internal("not there yet"))
}

/// Plans a statement of kind [`StatementKind::Reads`]: looks its names up in `info`, its tables in `state`.
///
/// The state was made with [`crate::functions::register`] and holds [`information_schema`] as the schema
/// `information_schema` of its default catalog, with DataFusion's own switched off
/// (`SessionConfig::with_information_schema(false)`).
///
/// # Errors
/// NotFound for a database or table, Invalid for other names and for what does not fit together, Unsupported for
/// what is understood and not done.
pub async fn plan(
    _parsed: &Parsed,
    _state: &SessionState,
    _session: &Session,
    _info: &dyn CatalogInfo,
) -> Result<Planned> {
    Err(Error::internal("not there yet"))
}

/// One field per parameter of a plan, in order, of the types that drivers can bind: Int64 for integers (LIMIT and
/// OFFSET too), Float64 for floats, Timestamp(ms) for instants, Boolean, and Utf8 for all else.
pub fn parameter_fields(_plan: &LogicalPlan, _count: usize) -> Result<Vec<Field>> {
    Err(Error::internal("not there yet"))
}
