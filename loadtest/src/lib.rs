//! The load test: a client that measures a server over its public wire and shares no code with it.
//!
//! The path: [`generate`] (the papers' devices) → [`drive`] (HTTP and Flight SQL clients) → a server →
//! [`workload`] (the papers' statements) → [`oracle`] and [`verify`] (are the answers right?) → [`measure`] (sizes
//! and memory) → [`report`] (JSON samples, Markdown beside the papers' figures).
//!
//! Used as a library by the `tidelake demo` command and by the end-to-end tests, and as the program
//! `tidelake-loadtest`.

pub mod answer;
pub mod devops;
pub mod distant;
pub mod drive;
pub mod generate;
pub mod measure;
pub mod meters;
pub mod oracle;
pub mod report;
pub mod verify;
pub mod wide;
pub mod workload;

pub use generate::{Device, Devices, Row};
