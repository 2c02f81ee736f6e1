//! Reads a snapshot that this or another process has read before.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{StreamExt, stream};

use super::{Kept, SnapshotReader};
use crate::{
    error::{Error, Kind, Result},
    ids::Position,
    layout,
    log::{Fault, TailSegment, fetch_again},
    meta::{Catalog, FaultySegment, Watermark},
    snapshot::{DamagedSegment, SegmentId, Snapshot, SnapshotId},
};

/// How long a reader waits for the version of a snapshot read by another process.
const VERSION_WAIT: Duration = Duration::from_secs(10);
/// Segments of snapshots that were read again by id.
pub(super) type Again = HashMap<Position, Weak<TailSegment>>;

/// Number of segments read concurrently.
const PARALLEL: usize = 16;

impl SnapshotReader {
    /// Returns the snapshot with this id: the same rows, whatever was written since. Segments in this reader's memory
    /// are not read again. The id must come from [`Snapshot::id`]: a missing segment in it cannot be detected.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when the version or a segment was deleted since; [`Kind::Invalid`] for an id that is not of
    /// any snapshot; [`Kind::Unavailable`] when the version is not in the store yet, or the segments do not fit into
    /// memory; as [`Root::refresh`](crate::meta::Root::refresh).
    pub async fn at(&self, id: &SnapshotId) -> Result<Arc<Snapshot>> {
        let current = self.inner.current.lock().as_ref().and_then(super::Current::snapshot);
        if let Some(current) = current.filter(|current| current.is(id)) {
            return Ok(current);
        }
        let catalog = self.version(id).await?;
        if let Some(segment) = id.segments.iter().find(|segment| !counts(&catalog, segment.position)) {
            return Err(no_name("log segment whose rows do not count on top of its version", id, segment.position));
        }
        let tail = self.segments(&id.segments).await?;
        if let Some([_, segment]) = tail.array_windows().find(|[before, segment]| before.order() >= segment.order()) {
            return Err(no_name("log segment out of order", id, segment.position));
        }
        if let Some(segment) = tail.iter().find(|segment| segment.is_after(&catalog)) {
            return Err(no_name("log segment with columns created after its version", id, segment.position));
        }
        let faults = id.damaged.iter().map(fault).collect();
        Ok(Arc::new(Snapshot { catalog, tail, faults, quarantined: Vec::new() }))
    }

    async fn version(&self, id: &SnapshotId) -> Result<Arc<Catalog>> {
        let root = self.root();
        let known = root.wait_for(id.version, VERSION_WAIT).await?;
        if known.version == id.version {
            return Ok(known);
        }
        root.at(id.version, &known)
            .await?
            .ok_or_else(|| gone(Error::not_found("the version of the snapshot was deleted"), id))
    }

    /// The segments; each is decoded once, however many snapshots use it.
    async fn segments(&self, wanted: &[SegmentId]) -> Result<Vec<Arc<TailSegment>>> {
        let mut again = self.inner.again.lock().await;
        again.retain(|_, segment| segment.strong_count() > 0);
        let kept: HashMap<Position, Arc<TailSegment>> = {
            let reading = self.inner.reading.lock().await;
            let of = |segment: &SegmentId| {
                let read_again = again.get(&segment.position).and_then(Weak::upgrade);
                let kept = read_again.or_else(|| reading.kept.get(&segment.position).and_then(Kept::segment))?;
                (SegmentId::of(&kept) == *segment).then_some((segment.position, kept))
            };
            wanted.iter().filter_map(of).collect()
        };
        let store = self.root().store();
        let read = wanted.iter().copied().map(|segment| {
            let kept = kept.get(&segment.position).cloned();
            async move {
                match kept {
                    Some(kept) => Ok(kept),
                    None => fetch_again(store, segment.position, segment.modified_ms, segment.bytes).await,
                }
            }
        });
        let mut read = stream::iter(read).buffered(PARALLEL);
        let (mut tail, mut bytes) = (Vec::with_capacity(wanted.len()), 0_usize);
        while let Some(segment) = read.next().await {
            let segment = segment.map_err(|e| if e.kind() == Kind::NotFound { gone_with(e) } else { e })?;
            bytes = bytes.saturating_add(segment.memory_bytes());
            if bytes > self.inner.tail_bytes {
                return Err(Error::unavailable("the log segments of the snapshot do not fit into memory")
                    .with("limit_bytes", self.inner.tail_bytes));
            }
            again.insert(segment.position, Arc::downgrade(&segment));
            tail.push(segment);
        }
        Ok(tail)
    }
}

/// Whether the rows of a log segment count on top of a version: no file contains them, and the version does not exclude
/// them.
fn counts(catalog: &Catalog, position: Position) -> bool {
    let is_out = |watermark: &Watermark| {
        let is_quarantined = watermark.faulty(position.seq).is_some_and(FaultySegment::is_quarantined);
        position.seq < watermark.next || watermark.is_void(position.seq) || is_quarantined
    };
    !catalog.watermark(position.writer).is_some_and(is_out)
}

/// The error of an id that does not come from [`Snapshot::id`].
fn no_name(what: &str, id: &SnapshotId, position: Position) -> Error {
    Error::invalid(format!("invalid snapshot id: {what}"))
        .with("key", layout::log_key(position))
        .with("version", id.version)
}

/// The fault that makes scans of the affected tables fail.
fn fault(damaged: &DamagedSegment) -> Fault {
    let error = Error::corrupt("the snapshot lacks a log segment that could not be read")
        .with("key", layout::log_key(damaged.position));
    Fault { position: damaged.position, tables: damaged.tables.clone(), error: Arc::new(error) }
}

fn gone(because: Error, id: &SnapshotId) -> Error {
    gone_with(because).with("version", id.version)
}

fn gone_with(because: Error) -> Error {
    let key = because.context("key").map(str::to_owned);
    let error = Error::not_found("snapshot no longer in the store; take a new one");
    let error = match key {
        Some(key) => error.with("key", key),
        None => error,
    };
    error.source(because)
}
