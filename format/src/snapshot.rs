//! Snapshots: one version and the log positions read on top of it; every query runs on exactly one.

mod held;
mod id;
mod reader;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use id::{DamagedSegment, SegmentId, SnapshotId};
pub use reader::{SnapshotOptions, SnapshotReader};

use crate::{
    error::Result,
    ids::{TableId, Token},
    log::{Fault, TailSegment},
    meta::{Catalog, Watermark},
    rows::Block,
};

/// One version and the log on top of it: the data that a query reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The version.
    pub catalog: Arc<Catalog>,
    /// The log segments above the watermarks, oldest first.
    pub tail: Vec<Arc<TailSegment>>,
    /// Segments above the watermarks that are missing or could not be decoded; a query that may need one fails.
    pub faults: Vec<Fault>,
    /// Quarantined segments, which folding skipped; a query that may need one fails, unless that is allowed.
    pub quarantined: Vec<Fault>,
}

impl Snapshot {
    /// The rows of a table in the tail, oldest first; later ones win over earlier ones and over every file.
    ///
    /// # Errors
    /// [`Kind::Corrupt`](crate::Kind::Corrupt) or [`Kind::Unsupported`](crate::Kind::Unsupported), naming the
    /// key, when a segment that may hold rows of the table could not be decoded.
    pub fn blocks(&self, table: TableId) -> Result<impl Iterator<Item = (&TailSegment, &Block)>> {
        if let Some(fault) = self.faults.iter().chain(&self.quarantined).find(|f| f.concerns(table)) {
            return Err(fault.to_error());
        }
        Ok(self
            .tail
            .iter()
            .flat_map(move |t| t.segment.blocks.iter().filter(move |b| b.table == table).map(move |b| (t.as_ref(), b))))
    }

    /// Whether the snapshot contains the write or commit identified by a token.
    pub fn contains(&self, token: &Token) -> bool {
        match token {
            Token::Version(v) => *v <= self.catalog.version,
            Token::Position(p) => {
                let counts = |w: &Watermark| p.seq < w.next && !w.is_void(p.seq) && w.faulty(p.seq).is_none();
                self.catalog.watermark(p.writer).is_some_and(counts) || self.tail.iter().any(|t| t.position == *p)
            }
        }
    }
}
