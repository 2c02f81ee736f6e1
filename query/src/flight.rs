//! Flight SQL: the service for the JDBC, ADBC, Go and Python drivers, Grafana and Tidelake's shell.
//!
//! This module does not plan or run statements; [`crate::engine`] does. The path of a query: [`service`] (RPC and
//! command) → [`sessions`] (headers and cookie) → [`statements`] or [`prepared`] → engine → [`encode`] → [`reply`].
//!
//! Clients do not depend on state of a node, so any node behind a load balancer can serve any call: tickets and prepared
//! handles carry the statement and its session ([`handle`]), and a cookie carries the session. A node only caches plans and bound
//! parameters of handles, bounded in bytes and in time.

mod actions;
mod cache;
mod decode;
mod encode;
mod guard;
mod handle;
mod ingest;
mod keys;
mod metadata;
mod parameters;
mod prepared;
mod reply;
mod service;
mod sessions;
mod sqlinfo;
mod statements;
mod status;
mod types;

#[cfg(test)]
mod tests;

pub use service::{FlightSql, routes};
pub use status::to_status;

pub(crate) use parameters::bind;
