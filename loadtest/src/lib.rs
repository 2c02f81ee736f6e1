//! The load test: a client that measures a server over its public protocols and shares no code with it.
//!
//! [`workload`] has the generated rows, the papers' statements and the expected answers. [`drive`] has the clients, the simulated
//! function platform and the other systems; [`distant`] simulates a distant store, [`measure`] reads sizes and memory, [`report`]
//! writes JSON samples and Markdown with the papers' figures for comparison.
//!
//! Used as a library by the `tidelake demo` command and by the end-to-end tests, and as the program
//! `tidelake-loadtest`.

pub mod distant;
pub mod drive;
pub mod measure;
pub mod report;
pub mod workload;

pub use workload::generate::{Device, Devices, Row};
