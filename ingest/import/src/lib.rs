//! Reads files as rows of a table: CSV, NDJSON, Parquet and line protocol.
//!
//! The command line and the HTTP route for imports share this crate; neither a client nor a server is part of it.
//!
//! Path of a file: [`input`] (bytes, decompressed; [`ranges`] of remote files) → [`source`] (columns, types, batches of rows) → [`roles`] (time, tags,
//! fields) → [`shape`] (the batches that the table takes) → [`check`] (wrong rows and repeated keys, before anything is
//! written). [`preview`] describes the result for a person. [`lines`] and [`trial`] do the same for line protocol, whose lines
//! name their own tables, tags and fields.

pub mod check;
pub mod input;
pub mod keys;
pub mod lines;
pub mod preview;
pub mod progress;
pub mod ranges;
pub mod roles;
pub mod shape;
pub mod source;
pub mod table;
pub mod trial;
mod value;
pub mod words;

pub use tidelake_format::{Error, Kind, Result};

/// The error with the place where it occurred before its message.
pub fn at(place: impl std::fmt::Display, error: &Error) -> Error {
    Error::new(error.kind(), format!("{place}: {error}"))
}
