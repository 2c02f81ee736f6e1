//! The load test: a client that measures a server over its public wire and shares no code with it.
//!
//! [`workload`] is what is sent and what must come back: generated rows, the papers' statements, the right answers. [`drive`] has the
//! clients, the simulated platform of functions and the other systems; [`distant`] puts a store at a distance, [`measure`] reads sizes and
//! memory, [`report`] writes JSON samples and Markdown beside the papers' figures.
//!
//! Used as a library by the `tidelake demo` command and by the end-to-end tests, and as the program
//! `tidelake-loadtest`.

pub mod distant;
pub mod drive;
pub mod measure;
pub mod report;
pub mod workload;

pub use workload::generate::{Device, Devices, Row};
