//! Snapshots: one version and the log positions read on top of it; every query runs on exactly one.

use std::{sync::Arc, time::Duration};

use crate::{
    error::{Error, Result},
    ids::{Position, TableId, Token},
    meta::{Catalog, Root},
    rows::Block,
    segment::Segment,
};

/// One segment of the log above the watermarks.
#[derive(Debug, Clone)]
pub struct TailSegment {
    /// Its place.
    pub position: Position,
    /// Its time in the order of segments: last-modified, never less than that of the one before in its writer.
    pub modified_ms: i64,
    /// The size of the object.
    pub bytes: u64,
    /// Its content.
    pub segment: Segment,
}

/// One version and the log on top of it: what a query reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The version.
    pub catalog: Arc<Catalog>,
    /// The segments above its watermarks, oldest first.
    pub tail: Vec<Arc<TailSegment>>,
    /// Segments above its watermarks that could not be decoded; a query that may need them fails.
    pub faults: Vec<Fault>,
}

/// A segment that could not be decoded.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Its place.
    pub position: Position,
    /// Why: [`Kind::Corrupt`](crate::Kind::Corrupt) or [`Kind::Unsupported`](crate::Kind::Unsupported), naming
    /// the key.
    pub error: Arc<Error>,
}

impl Snapshot {
    /// The rows of a table in the tail, oldest first; later ones win over earlier ones and over every file.
    ///
    /// # Errors
    /// [`Kind::Corrupt`](crate::Kind::Corrupt) or [`Kind::Unsupported`](crate::Kind::Unsupported), naming the
    /// key, when a segment that may hold rows of the table could not be decoded.
    pub fn blocks(&self, table: TableId) -> Result<impl Iterator<Item = (&TailSegment, &Block)>> {
        Ok(self
            .tail
            .iter()
            .flat_map(move |t| t.segment.blocks.iter().filter(move |b| b.table == table).map(move |b| (t.as_ref(), b))))
    }

    /// Whether the write or commit that this token stands for is in here.
    pub fn contains(&self, token: &Token) -> bool {
        match token {
            Token::Version(v) => *v <= self.catalog.version,
            Token::Position(p) => {
                self.catalog.watermark(p.writer).is_some_and(|w| p.seq < w.next)
                    || self.tail.iter().any(|t| t.position == *p)
            }
        }
    }
}

/// How a [`SnapshotReader`] reads.
#[derive(Debug, Clone)]
pub struct SnapshotOptions {
    /// How old an answer of the store may be; `None`: 0 on a directory, 1 s elsewhere.
    pub max_staleness: Option<Duration>,
    /// Decoded segments kept in memory beyond those in use, in bytes.
    pub tail_cache_bytes: usize,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self { max_staleness: None, tail_cache_bytes: 256 << 20 }
    }
}

/// Reads snapshots and keeps decoded segments. Cheap to clone; one per process.
#[derive(Debug, Clone)]
pub struct SnapshotReader {
    root: Root,
}

impl SnapshotReader {
    /// A reader of one root.
    pub fn new(root: Root, _options: SnapshotOptions) -> Self {
        Self { root }
    }

    /// The root.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// A snapshot that is at most `max_staleness` old and contains every token.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) "token expired" for a writer that nothing is known of;
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) when a token is not seen in a fresh read.
    pub async fn snapshot(&self, _tokens: &[Token]) -> Result<Arc<Snapshot>> {
        Err(Error::internal("not built yet"))
    }
}
