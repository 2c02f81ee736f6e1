//! The clients of the load test.
//!
//! Encoding ([`encode`](crate::workload::generate::encode)) and the HTTP client ([`http`]) are deliberately cheap, because they
//! share the machine with the measured server. Every wait is bounded, and only acknowledged rows are counted.

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
pub mod tsbs;
pub mod udp;
pub mod wide;
pub mod write;

pub use database::{Existing, create_database};
pub use http::{Client, HttpOptions, Reply};
pub use latency::Latencies;
pub use query::{Door, QuerySample};
pub use write::{Durability, Protocol, WriteOptions, WriteSample, write};

/// Callback with the total number of rows acknowledged so far. Called often, so it must be cheap.
pub type Progress<'a> = &'a (dyn Fn(u64) + Send + Sync);
