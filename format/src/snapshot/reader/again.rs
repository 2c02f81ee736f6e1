//! Reading a snapshot that this or another process has read before.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{StreamExt, stream};

use super::{Kept, SnapshotReader};
use crate::{
    error::{Error, Kind, Result},
    ids::Position,
    layout,
    log::{Fault, TailSegment, fetch_again},
    meta::Catalog,
    snapshot::{DamagedSegment, SegmentId, Snapshot, SnapshotId},
};

/// How long a reader waits for the version of a snapshot that another process has read.
const VERSION_WAIT: Duration = Duration::from_secs(10);
/// Segments that are read at once.
const PARALLEL: usize = 16;

impl SnapshotReader {
    /// The snapshot of a name: the same rows, whatever was written since. Segments that this reader keeps are not read again.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when the version or a segment was deleted since; [`Kind::Invalid`] for a name that no snapshot has;
    /// [`Kind::Unavailable`] when the version is not in the store yet, or the segments do not fit into memory; as
    /// [`Root::refresh`](crate::meta::Root::refresh).
    pub async fn at(&self, id: &SnapshotId) -> Result<Arc<Snapshot>> {
        let current = self.inner.current.lock().as_ref().and_then(super::Current::snapshot);
        if let Some(current) = current.filter(|current| current.is(id)) {
            return Ok(current);
        }
        let catalog = self.version(id).await?;
        if let Some(folded) = id.segments.iter().find(|segment| catalog.is_folded(segment.position)) {
            return Err(Error::invalid(
                "the name of a snapshot has a log segment whose rows are in files of its version",
            )
            .with("key", layout::log_key(folded.position))
            .with("version", id.version));
        }
        let tail = self.segments(&id.segments).await?;
        let faults = id.damaged.iter().map(fault).collect();
        Ok(Arc::new(Snapshot { catalog, tail, faults, quarantined: Vec::new() }))
    }

    async fn version(&self, id: &SnapshotId) -> Result<Arc<Catalog>> {
        let root = self.root();
        let known = root.wait_for(id.version, VERSION_WAIT).await?;
        if known.version == id.version {
            return Ok(known);
        }
        root.at(id.version, &known).await?.ok_or_else(|| gone(Error::not_found("its version was deleted"), id))
    }

    async fn segments(&self, wanted: &[SegmentId]) -> Result<Vec<Arc<TailSegment>>> {
        let kept: HashMap<Position, Arc<TailSegment>> = {
            let reading = self.inner.reading.lock().await;
            let of = |segment: &SegmentId| {
                let kept = reading.kept.get(&segment.position).and_then(Kept::segment)?;
                (SegmentId::of(&kept) == *segment).then_some((segment.position, kept))
            };
            wanted.iter().filter_map(of).collect()
        };
        let store = self.root().store();
        let read = wanted.iter().map(|segment| {
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
            tail.push(segment);
        }
        Ok(tail)
    }
}

/// What a scan of a table that a damaged segment concerns fails with.
fn fault(damaged: &DamagedSegment) -> Fault {
    let error = Error::corrupt("the snapshot was read without a log segment, which could not be read")
        .with("key", layout::log_key(damaged.position));
    Fault { position: damaged.position, tables: damaged.tables.clone(), error: Arc::new(error) }
}

fn gone(because: Error, id: &SnapshotId) -> Error {
    gone_with(because).with("version", id.version)
}

fn gone_with(because: Error) -> Error {
    let key = because.context("key").map(str::to_owned);
    let error = Error::not_found("the snapshot is not in the store any more; take a new one");
    let error = match key {
        Some(key) => error.with("key", key),
        None => error,
    };
    error.source(because)
}
