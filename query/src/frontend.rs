//! Front ends: each reads the texts of one query language and plans them. The engine runs what any of them planned.
//!
//! A front end is the only code that looks at a text. A new language is a folder here, a variant of [`Language`] and a line in [`of`];
//! what its clauses mean is in [`plan`](crate::plan), which all languages share.

mod parameters;
mod shape;
pub mod sql;

use arrow::datatypes::Field;
use async_trait::async_trait;
use datafusion::{execution::SessionState, logical_expr::LogicalPlan};
use tidelake_format::Result;
use tidelake_protocol::sql::Update;

pub use self::{
    parameters::{column_fields, parameter_fields},
    shape::Shape,
};
use crate::{
    catalog::CatalogInfo,
    session::{Language, Session},
};

/// Reads and plans the texts of one language.
pub(crate) trait Frontend: Send + Sync {
    /// The shape of a query, by which one plan serves all queries that differ only in literals; `None` where it has none.
    fn shape(&self, session: &Session, text: &str) -> Option<Shape>;

    /// Reads a text, without looking any name up.
    ///
    /// # Errors
    /// Invalid with the place of a syntax error, Unsupported for syntax that is understood and not done.
    fn read(&self, session: &Session, text: &str) -> Result<Read>;

    /// The number of tokens of a text: the memory of its syntax tree and its plans depends on it. 0 for a text that is no statement.
    fn count_tokens(&self, session: &Session, text: &str) -> usize;

    /// Whether a statement asks only for what this process knows without the store: it needs no place among the queries.
    fn shows_this_node(&self, text: &str) -> bool;
}

/// What a text was read as.
pub(crate) enum Read {
    Query(Box<dyn Query>),
    /// Not a query; the engine or the writer executes it.
    Update(Update),
}

/// A query that was read.
#[async_trait]
pub(crate) trait Query: Send + Sync {
    /// Plans it: looks its names up in `info`, its tables in `state`.
    ///
    /// # Errors
    /// NotFound for a database or table, Invalid for other names and for what does not fit together, Unsupported for what is understood
    /// and not done.
    async fn plan(&self, state: &SessionState, session: &Session, info: &dyn CatalogInfo) -> Result<Planned>;
}

/// A planned query.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Analyzed, not optimized; parameters are `$1…`.
    pub plan: LogicalPlan,
    /// The final names of the plan's columns, one each: the text of the select list; they may repeat.
    pub names: Vec<String>,
    /// One field per parameter (`$1`, `$2`, …) of the type that drivers can bind ([`parameter_fields`]).
    pub parameters: Vec<Field>,
}

/// The front end of a language.
pub(crate) fn of(language: Language) -> &'static dyn Frontend {
    match language {
        Language::Sql => &sql::Sql,
    }
}
