#![allow(clippy::unwrap_used)]
//! Statements over in-memory tables, compared with rows computed in plain Rust.

mod answers;
mod faults;
mod fill;
mod functions;
mod support;
mod tokens;
