//! TDengine's INSERT, parsed straight into columns, and literals of other statements converted to column values.
//!
//! The syntax of statements and literals is in [`tidelake_protocol::sql`].

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
