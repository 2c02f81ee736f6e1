//! Executes queries: supertables as DataFusion tables, front ends for query languages, Flight SQL and HTTP.
//!
//! Path of a query: [`flight`] or [`http`] → [`session`] → [`engine`] → [`frontend`] → [`scan`] (tag manifests, row
//! ranges, the log's tail) → DataFusion → wire.

mod budget;
pub mod buffer;
pub mod catalog;
mod conditions;
pub mod engine;
pub mod error;
pub mod files;
#[cfg(test)]
mod fixture;
pub mod flight;
pub mod frontend;
pub mod functions;
pub mod http;
mod levels;
mod libc;
pub mod metrics;
mod pace;
mod plan;
mod preempt;
pub(crate) mod request;
mod scan;
pub mod session;
mod sizes;
pub mod system;
mod tracked;
mod type_names;
pub mod visible;
pub mod wire;
pub mod writer;

pub use tidelake_format::{Error, Kind, Result};
