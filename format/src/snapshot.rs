//! Snapshots: one version and the log positions read on top of it; every query runs on exactly one.

mod held;
mod reader;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use reader::{SnapshotOptions, SnapshotReader};

use crate::{
    error::{Error, Result},
    ids::{Position, TableId, Token},
    layout,
    meta::{Catalog, FaultySegment, Watermark},
    rows::{Block, batch_bytes},
    schema::field_id,
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
    memory_bytes: usize,
    /// For each block its table and the first id that is beyond those of its columns.
    columns: Vec<(TableId, u32)>,
}

impl TailSegment {
    /// A segment of the log.
    pub(crate) fn new(position: Position, modified_ms: i64, bytes: u64, segment: Segment) -> Self {
        let memory = |b: &Block| batch_bytes(&b.rows) + batch_bytes(b.series.batch());
        let end = |b: &Block| {
            let (rows, series) = (b.rows.schema_ref(), b.series.batch().schema_ref());
            let ids = rows.fields().iter().chain(series.fields().iter().skip(1)).filter_map(|f| field_id(f));
            ids.map(|id| id.0 + 1).max().unwrap_or_default()
        };
        let memory_bytes = segment.blocks.iter().map(memory).sum();
        let columns = segment.blocks.iter().map(|b| (b.table, end(b))).collect();
        Self { position, modified_ms, bytes, segment, memory_bytes, columns }
    }

    /// Whether it has rows of a table, or of columns, that came after a version.
    pub(crate) fn is_after(&self, catalog: &Catalog) -> bool {
        self.columns.iter().any(|(table, end)| catalog.is_before(*table, *end))
    }

    /// The error of a version that does not know what these rows are of, although it was asked for after they were put:
    /// whoever wrote them went by a later version, which is not in the store any more.
    pub(crate) fn version_missing(&self, catalog: &Catalog) -> Error {
        Error::corrupt("the newest version is missing: the log has rows of a table or column that came after this one")
            .with("key", layout::meta_key(catalog.version.next()))
            .with("expected", "a later version")
            .with("found", layout::log_key(self.position))
    }

    /// The key by which segments are ordered, oldest first: (time, stamp, position).
    pub fn order(&self) -> (i64, i64, Position) {
        (self.modified_ms, self.segment.header.stamp_ns, self.position)
    }

    /// Memory of the decoded rows and series, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}

/// One version and the log on top of it: what a query reads.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The version.
    pub catalog: Arc<Catalog>,
    /// The segments above its watermarks, oldest first.
    pub tail: Vec<Arc<TailSegment>>,
    /// Segments above its watermarks that are missing or could not be decoded; a query that may need them fails.
    pub faults: Vec<Fault>,
    /// Segments that the log went on without; a query that may need them fails, unless that is allowed.
    pub quarantined: Vec<Fault>,
}

/// A segment that could not be decoded.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Its place.
    pub position: Position,
    /// The tables whose rows it holds; `None` where that cannot be told: any may be among them.
    pub tables: Option<Vec<TableId>>,
    /// Why: [`Kind::Corrupt`](crate::Kind::Corrupt) or [`Kind::Unsupported`](crate::Kind::Unsupported), naming
    /// the key.
    pub error: Arc<Error>,
}

impl Fault {
    /// That of a segment in quarantine.
    pub(crate) fn quarantined(position: Position, faulty: &FaultySegment) -> Self {
        let what = match faulty.missing {
            true => "a log segment is missing below later ones of its writer, and the log went on without it",
            false => "a log segment is quarantined: it could not be read",
        };
        let error = Error::corrupt(what).with("key", layout::log_key(position)).with("found", &faulty.error);
        Self { position, tables: faulty.tables.clone(), error: Arc::new(error) }
    }

    /// Whether it may hold rows of a table.
    pub fn concerns(&self, table: TableId) -> bool {
        self.tables.as_ref().is_none_or(|tables| tables.contains(&table))
    }

    /// The error again, to return.
    pub fn to_error(&self) -> Error {
        self.error.copied().source(self.error.clone())
    }
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

    /// Whether the write or commit that this token stands for is in here.
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
