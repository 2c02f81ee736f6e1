//! Front ends: each parses and plans the statements of one query language. The engine runs their plans.
//!
//! Only a front end interprets a statement's text. A new language needs a folder here, a variant of [`Language`] and a line in
//! [`of`]. The plan nodes for its clauses are in [`plan`](crate::plan), which all languages share.

mod parameters;
mod shape;
pub mod sql;

use arrow::datatypes::Field;
use async_trait::async_trait;
use datafusion::{execution::SessionState, logical_expr::LogicalPlan};
use tidelake_format::{Error, Result};
use tidelake_protocol::sql::Update;

pub use self::{
    parameters::{column_fields, parameter_fields},
    shape::Shape,
};
use crate::{
    catalog::CatalogInfo,
    session::{Language, Session},
};

/// Parses and plans the statements of one language.
pub(crate) trait Frontend: Send + Sync {
    /// The shape of a query, so that one plan serves all queries that differ only in literals; `None` where it has no shape.
    fn shape(&self, session: &Session, text: &str) -> Option<Shape>;

    /// Parses a text without resolving names.
    ///
    /// # Errors
    /// Invalid with the position of a syntax error, Unsupported for syntax that is recognised but not supported.
    fn read(&self, session: &Session, text: &str) -> Result<Read>;

    /// Number of tokens of a text, from which the memory of its syntax tree and plans is estimated. 0 for an invalid text.
    fn count_tokens(&self, session: &Session, text: &str) -> usize;

    /// Adds the place in the text to an error of planning or running its statement, where the text shows it.
    fn locate(&self, session: &Session, text: &str, error: Error) -> Error;

    /// Whether a statement only lists state of this process, without access to the store. Such a statement needs no permit.
    fn shows_this_node(&self, text: &str) -> bool;
}

/// A parsed statement.
pub(crate) enum Read {
    Query(Box<dyn Query>),
    /// Not a query; the engine or the writer executes it.
    Update(Update),
}

/// A parsed query.
#[async_trait]
pub(crate) trait Query: Send + Sync {
    /// Plans the query. Resolves names in `info` and tables in `state`.
    ///
    /// # Errors
    /// NotFound for a database or table, Invalid for other unknown names and for type or clause errors, Unsupported for syntax
    /// that is recognised but not supported.
    async fn plan(&self, state: &SessionState, session: &Session, info: &dyn CatalogInfo) -> Result<Planned>;
}

/// A planned query.
#[derive(Debug, Clone)]
pub struct Planned {
    /// The analyzed plan, not optimized; parameters are `$1…`.
    pub plan: LogicalPlan,
    /// Result names of the plan's columns, in order: the text of the select list. May have duplicates.
    pub names: Vec<String>,
    /// One field per parameter (`$1`, `$2`, …), of a type that drivers can bind ([`parameter_fields`]).
    pub parameters: Vec<Field>,
}

/// The front end of a language.
pub(crate) fn of(language: Language) -> &'static dyn Frontend {
    match language {
        Language::Sql => &sql::Sql,
    }
}
