//! A log segment with decoded rows.

use crate::{
    error::Error,
    ids::{Position, TableId},
    layout,
    meta::Catalog,
    rows::{Block, held_bytes},
    schema::field_id,
    segment::Segment,
};

/// A log segment above the watermarks.
#[derive(Debug, Clone)]
pub struct TailSegment {
    /// Writer and number of the segment.
    pub position: Position,
    /// Time in the order of segments: last-modified, but never less than the time of the previous segment of its
    /// writer.
    pub modified_ms: i64,
    /// The size of the object.
    pub bytes: u64,
    /// The decoded content.
    pub segment: Segment,
    memory_bytes: usize,
    /// For each block its table and the highest column id plus one.
    columns: Vec<(TableId, u32)>,
}

impl TailSegment {
    /// Creates the decoded segment.
    pub(crate) fn new(position: Position, modified_ms: i64, bytes: u64, segment: Segment) -> Self {
        let end = |b: &Block| {
            let (rows, series) = (b.rows.schema_ref(), b.series.batch().schema_ref());
            let ids = rows.fields().iter().chain(series.fields().iter().skip(1)).filter_map(|f| field_id(f));
            ids.map(|id| id.0 + 1).max().unwrap_or_default()
        };
        let memory_bytes = held_bytes(&segment.blocks);
        let columns = segment.blocks.iter().map(|b| (b.table, end(b))).collect();
        Self { position, modified_ms, bytes, segment, memory_bytes, columns }
    }

    /// Whether the segment has rows of a table, or of columns, created after a version.
    pub(crate) fn is_after(&self, catalog: &Catalog) -> bool {
        self.columns.iter().any(|(table, end)| catalog.is_before(*table, *end))
    }

    /// The error for a version that lacks the table or a column of these rows although it was read after the rows were
    /// put: their writer used a later version, which is no longer in the store.
    pub(crate) fn version_missing(&self, catalog: &Catalog) -> Error {
        Error::corrupt(
            "the newest version is missing: the log has rows of a table or column created after this version",
        )
        .with("key", layout::meta_key(catalog.version.next()))
        .with("expected", "a later version")
        .with("found", layout::log_key(self.position))
    }

    /// The sort key of segments, oldest first: (time, stamp, position).
    pub fn order(&self) -> (i64, i64, Position) {
        (self.modified_ms, self.segment.header.stamp_ns, self.position)
    }

    /// Memory of the decoded rows and series, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }
}
