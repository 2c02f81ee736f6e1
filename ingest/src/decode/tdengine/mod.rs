//! TDengine's statements that write: DDL into values, INSERT straight into columns.
//!
//! Names are compared and stored in lower case unless they stand in backticks. Texts stand in `'…'` or `"…"`, with
//! `\'` and doubled quotes; where [`DoubleQuotes`] hold names, in `'…'` alone and without escapes; a timestamp is an integer in the database's precision, a text in the session's zone or
//! with an offset, or `now`, `today()` and either plus or minus a duration.

mod access;
mod alter;
mod ddl;
mod delete;
pub mod insert;
mod lexer;
mod literal;
mod parameters;
pub mod statement;
mod typed;
mod understood;

pub use insert::{Described, Inserted, Session, create_subtables, insert, insert_parameters};
pub use statement::{
    AccessStatement, Alter, AlterAction, AlterDatabase, Comparison, CreateDatabase, CreateSubtable, CreateTable,
    Delete, DropTables, Granted, Insert, Literal, On, Predicate, Statement, TableName, UserChange, parse, writes,
};

pub(super) use parameters::value;
pub(crate) use typed::Clock;

#[cfg(test)]
mod tests;
