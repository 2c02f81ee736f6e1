//! End-to-end tests: the real binary, real clients, a third-party S3 server.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]

mod access;
mod bad_input;
mod cli;
mod clients;
mod cold;
mod crash;
mod dependencies;
mod dialect;
mod documents;
mod engines;
mod english;
mod extremes;
mod figures;
mod fixtures;
mod folders;
mod functions;
mod import;
mod layering;
mod limits;
mod loadtest;
mod mistakes;
mod modes;
mod operations;
mod queries;
mod soak;
mod statements;
mod store_contract;
mod system;
mod tls;
mod traces;
mod w1;
mod writers;
