//! What lies in a Tidelake root and how it changes: keys, log segments, data files, tag manifests, the chain.
//!
//! `SPEC.md` beside this crate is the same in bytes. Nothing here knows SQL, HTTP or Flight.

pub mod error;
pub mod ids;
pub mod rows;
pub mod schema;
pub mod types;

pub use error::{Error, Kind, Result};
