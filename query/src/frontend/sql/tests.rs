#![allow(clippy::unwrap_used)]
//! Statements over tables in memory, against rows that plain Rust computes.

mod answers;
mod faults;
mod fill;
mod support;
mod tokens;
