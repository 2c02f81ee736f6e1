//! TDengine's INSERT, read straight into columns, and the literals of other statements as values of columns.
//!
//! The syntax of statements, and that of literals, is [`tidelake_protocol::sql`].

pub mod insert;
mod literal;
mod parameters;
mod typed;

pub use insert::{Described, Inserted, Session, create_subtables, insert, insert_parameters};

pub(crate) use literal::{TypedLiteral, bind};
pub(super) use parameters::value;
pub(crate) use typed::Clock;
pub(super) use typed::Typed;

#[cfg(test)]
mod tests;
