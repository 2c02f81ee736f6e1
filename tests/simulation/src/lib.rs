//! Deterministic simulation of a root: the real write path, compaction, garbage collection and readers, on one thread
//! and in virtual time, over a store in memory with realistic faults.
//!
//! `server` is the store and `network` the connection to it, with the faults of a seed; `process` models processes that
//! freeze, die and have skewed clocks; `model` defines the allowed reads; `read` reads; `actors` do the work; `run`
//! runs one seed.
#![cfg(feature = "virtual-time")]

pub mod actors;
pub mod model;
pub mod network;
pub mod process;
pub mod read;
pub mod run;
pub mod server;
#[cfg(test)]
mod tests;
pub mod world;
