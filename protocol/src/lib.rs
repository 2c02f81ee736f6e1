//! The interface between clients and Tidelake, as plain values: the lexer and statements of SQL, the HTTP routes with the
//! responses of each API, the settings of the server and of the functions, the declaration of metrics, and the names that HTTP, Flight SQL and
//! `information_schema` share.
//!
//! This crate does no I/O, has no async code, and does not execute statements.

pub mod http;
pub mod metrics;
pub mod number;
pub mod settings;
pub mod sql;
pub mod times;

/// Name of the only catalog; its schemas are the databases.
pub const CATALOG: &str = "tidelake";
