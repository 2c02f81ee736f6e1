//! Collects what no version needs any more.

use super::Root;
use crate::error::{Error, Result};

/// How much to look at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sweep {
    /// Folded segments, old versions and the files that they removed: lists `meta/` and `log/`.
    Quick,
    /// Also orphans: lists everything.
    Full,
}

/// What a collection deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collected {
    /// Folded log segments.
    pub segments: u64,
    /// Versions of the chain.
    pub versions: u64,
    /// Data files and sidecars that a commit removed.
    pub removed: u64,
    /// Objects that no version names.
    pub orphans: u64,
}

/// Collects garbage: folded segments after 60 s, versions and what their successors removed after an hour,
/// orphans after a day.
///
/// # Errors
/// [`Kind::Unavailable`](crate::Kind::Unavailable); [`Kind::Corrupt`](crate::Kind::Corrupt), naming the key.
pub async fn collect(_root: &Root, _sweep: Sweep) -> Result<Collected> {
    Err(Error::internal("not built yet"))
}
