//! Flight SQL: the service that JDBC, ADBC, Go and Python drivers, Grafana and our own shell talk to.
//!
//! Nothing here plans or runs a statement; that is [`crate::engine`]. The path of a query: [`service`] (which RPC,
//! which command) → [`sessions`] (headers and cookie) → [`statements`] or [`prepared`] → engine → [`encode`].
//!
//! The service keeps no state that a client depends on, so any node behind a load balancer may answer any call:
//! tickets and prepared handles carry the statement and its session ([`handle`]), and the session travels in a
//! cookie. What a node holds for handles (plans, bound parameters) is a cache, bounded in bytes and in time.

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
