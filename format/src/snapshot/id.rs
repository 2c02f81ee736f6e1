//! The id of a snapshot, with which another process of the same root reads the same rows.

use serde::{Deserialize, Serialize};

use super::Snapshot;
use crate::{
    ids::{Position, TableId, Version},
    log::{Fault, TailSegment},
};

/// The contents of a [`Snapshot`]: one version, and the log segments that are read on top of it.
///
/// A snapshot can be read again by its id while its version and its segments are in the store. Garbage collection
/// deletes versions that newer ones have replaced, and segments that were folded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SnapshotId {
    /// The version.
    pub version: Version,
    /// The log segments, oldest first.
    pub segments: Vec<SegmentId>,
    /// The log segments that could not be read.
    pub damaged: Vec<DamagedSegment>,
}

/// One log segment of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SegmentId {
    /// Writer and number of the segment.
    pub position: Position,
    /// Time in the order of segments, in milliseconds since 1970: [`TailSegment::modified_ms`].
    pub modified_ms: i64,
    /// The size of the object, in bytes.
    pub bytes: u64,
}

/// A log segment missing from a snapshot: a scan of a table that may have rows in it fails.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DamagedSegment {
    /// Writer and number of the segment.
    pub position: Position,
    /// The tables whose rows it holds; `None` if unknown: any table may be among them.
    pub tables: Option<Vec<TableId>>,
}

impl Snapshot {
    /// The id by which other processes can read this snapshot.
    pub fn id(&self) -> SnapshotId {
        let damaged = self.faults.iter().chain(&self.quarantined);
        let damaged = damaged.map(|fault| DamagedSegment { position: fault.position, tables: fault.tables.clone() });
        SnapshotId {
            version: self.catalog.version,
            segments: self.tail.iter().map(|segment| SegmentId::of(segment)).collect(),
            damaged: damaged.collect(),
        }
    }

    /// Whether `id` is the id of this snapshot.
    pub(super) fn is(&self, id: &SnapshotId) -> bool {
        let same_segments = self.tail.len() == id.segments.len()
            && self.tail.iter().zip(&id.segments).all(|(segment, id)| SegmentId::of(segment) == *id);
        let is_damaged =
            |fault: &Fault, id: &DamagedSegment| fault.position == id.position && fault.tables == id.tables;
        let faults = self.faults.iter().chain(&self.quarantined);
        self.catalog.version == id.version
            && same_segments
            && self.faults.len() + self.quarantined.len() == id.damaged.len()
            && faults.zip(&id.damaged).all(|(fault, id)| is_damaged(fault, id))
    }
}

impl SegmentId {
    pub(super) fn of(segment: &TailSegment) -> Self {
        Self { position: segment.position, modified_ms: segment.modified_ms, bytes: segment.bytes }
    }
}
