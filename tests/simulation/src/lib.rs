//! A deterministic simulation of a root: the real write path, compaction, collection of garbage and readers, on one
//! thread and in virtual time, over a store in memory that fails as stores do.
//!
//! `server` is the store and `network` the way to it, with the faults of a seed; `process` is what runs, dies,
//! freezes and reads skewed clocks; `model` says what may be seen; `read` looks; `actors` do the work;
//! `run` is one seed from its start to its last check.
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
