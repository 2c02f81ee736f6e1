//! What clients and Tidelake say to each other, as values: the SQL that both the write path and queries read, the routes of
//! HTTP with the answers of each API, the settings of the server and of the functions, and the names that HTTP, Flight SQL and
//! `information_schema` share.
//!
//! Nothing here reads a file, waits, or knows how a statement is executed.

pub mod http;
pub mod number;
pub mod settings;
pub mod sql;
pub mod times;

/// The name of the one catalog, whose schemas are the databases.
pub const CATALOG: &str = "tidelake";
