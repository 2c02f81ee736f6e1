//! Writes records to a Tidelake root: decoding, group commit into the log, folding and merging into data files.
//!
//! Path of a record: [`http`], [`udp`] or [`statement`] → [`decode`] → [`mod@write`] → log segment → [`compact`] → data file and tag manifest.

pub mod compact;
pub mod config;
pub mod decode;
pub mod http;
pub mod metrics;
mod scalar;
mod statement;
#[cfg(test)]
mod testing;
pub mod udp;
pub mod write;

pub use tidelake_format::{Error, Kind, Result};
