//! TDengine's SQL: lexer, literals, durations, instants, and all statements except queries.
//!
//! Names are lower-cased unless they are quoted with backticks. String literals are quoted with `'…'` or `"…"` and may have
//! escapes such as `\'` and doubled quotes; where [`DoubleQuotes`] quote names, with `'…'` only and without escapes. A time is a
//! number of the database's ticks, a string (see [`parse_instant`]), or `now` or `today()`, plus or minus a duration.

mod access;
mod alter;
mod ddl;
mod delete;
mod duration;
mod foreign;
mod instant;
mod lexer;
mod parameters;
mod quotes;
mod statement;
#[cfg(test)]
mod tests;
mod tokens;
mod understood;
mod update;

pub use ddl::name_list;
pub use duration::{Duration, Unit};
pub use foreign::instead_of;
pub use instant::{FORMS, parse_instant, to_instant};
pub use lexer::{Cursor, Value, comment_end};
pub use parameters::Numbers;
pub use quotes::DoubleQuotes;
pub use statement::{
    AccessStatement, Alter, AlterAction, AlterDatabase, Comparison, CreateDatabase, CreateSubtable, CreateTable,
    Delete, DropTables, Granted, Insert, Kill, Literal, On, Predicate, Statement, TableName, UserChange, parse,
};
pub use tokens::{Token, TokenKind, Tokens, Unreadable};
pub use update::Update;
