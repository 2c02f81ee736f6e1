//! The log above the watermarks: what a fold takes.

use std::{sync::Arc, time::Duration};

use crate::{
    error::{Error, Result},
    ids::WriterId,
    meta::{Catalog, Root, Watermark},
    snapshot::TailSegment,
};

/// A consistent cut of the log for folding.
#[derive(Debug, Clone)]
pub struct Cut {
    /// The base version: the fold applies only if the watermarks it starts from are unchanged.
    pub catalog: Arc<Catalog>,
    /// The segments to fold, oldest first.
    pub segments: Vec<Arc<TailSegment>>,
    /// The watermarks after this fold, of the writers that it moves.
    pub watermarks: Vec<(WriterId, Watermark)>,
    /// Writers whose watermark may be forgotten: started over 3 days ago, all folded, none in the log.
    pub retired: Vec<WriterId>,
}

/// Takes a cut: segments older than `margin` before an object put now; of each writer up to its first missing
/// number; the oldest first, about `max_bytes` of them (at least one segment where there is any).
///
/// # Errors
/// [`Kind::Corrupt`](crate::Kind::Corrupt), naming the segment; [`Kind::Unavailable`](crate::Kind::Unavailable).
pub async fn cut(_root: &Root, _margin: Duration, _max_bytes: u64) -> Result<Cut> {
    Err(Error::internal("not built yet"))
}
