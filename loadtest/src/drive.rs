//! The clients: what a load test sends and how it counts.
//!
//! Encoding is cheap on purpose ([`encode`](crate::workload::generate::encode)), and so is the HTTP client ([`http`]): both share the machine with the
//! server that they measure. Every wait is bounded, and only what the server acknowledged is counted.

pub mod adapter;
pub mod bare;
pub mod beside;
pub mod cold;
pub mod collected;
pub mod compact;
pub mod cost;
pub mod database;
pub mod devops;
#[cfg(test)]
mod fake;
pub mod files;
pub mod flight;
pub mod functions;
pub mod growth;
pub mod http;
pub mod latency;
pub mod meters;
pub mod peers;
pub mod platform;
pub mod query;
pub mod queue;
pub mod sample;
pub mod send;
pub mod server;
pub mod statements;
pub mod udp;
pub mod wide;
pub mod write;

pub use database::{Existing, create_database};
pub use http::{Client, HttpOptions, Reply};
pub use latency::Latencies;
pub use query::{Door, QuerySample};
pub use write::{Durability, Protocol, WriteOptions, WriteSample, write};

/// Hears how many rows have been acknowledged so far, by all clients together. Called often: it should only store.
pub type Progress<'a> = &'a (dyn Fn(u64) + Send + Sync);
