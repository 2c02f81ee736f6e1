//! Writing: requests are decoded on their own task, join the open group, and are acknowledged once the log segment of their
//! group is in the store.
//!
//! A stream of batches too large for one segment bypasses the groups (`bulk`); one into a new table bypasses the log
//! (`staged`).
//!
//! Modules: `rows` (requests of rows) and `batches` (Arrow) decode; `schema` commits missing schema; `budget` bounds buffered
//! bytes, `arriving` each user's share of them in incomplete bodies; `queue` is the open group; `lane` puts it; `series` finds
//! the supertable of a series; `idempotent` answers copies of a request; `activity` counts rows by
//! protocol and table.

mod activity;
mod arriving;
mod batches;
mod budget;
mod bulk;
#[cfg(test)]
mod counts;
pub(crate) mod created;
pub(crate) mod idempotent;
mod lane;
mod queue;
pub(crate) mod rows;
mod schema;
pub(crate) mod series;
mod staged;
mod stamps;
#[cfg(test)]
pub(crate) mod tests;

use std::{panic::AssertUnwindSafe, sync::Arc, thread};

use chrono_tz::Tz;
use futures::FutureExt;
use metrics::{Counter, counter};
use parking_lot::Mutex;
use tidelake_format::{
    Error, Result,
    access::{Principal, Secret},
    ids::{Position, TableId, Token, WriterId},
    meta::{Probe, Root},
    rows::RowCounts,
    snapshot::{SnapshotOptions, SnapshotReader},
    store::Ambient,
};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::oneshot,
    task::JoinHandle,
};

pub use self::batches::{IfAbsent, IfExists, IngestTarget};
pub use self::idempotent::IdempotencyKey;
use self::{
    activity::Activity,
    arriving::Shares,
    idempotent::Mark,
    lane::Lane,
    queue::{Place, Queue, Takes},
    schema::SchemaChanges,
    series::SeriesDirectory,
};
pub(crate) use self::{
    arriving::Share,
    budget::{Budget, Reservation},
};
use crate::{
    compact::{CompactReport, CompactRequest, Compactor, Debt},
    config::{IngestConfig, millis},
    decode::{Rejected, time::Implausible},
    metrics::BODY_BYTES,
};

/// When a request is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// After its rows are in the store.
    #[default]
    Stored,
    /// From the buffer: without a token, and lost in a crash.
    Buffered,
}

/// Result of a request of rows.
#[derive(Debug, Default)]
pub struct Written {
    /// Number of accepted rows (lines, points).
    pub accepted: u64,
    /// The first rejected rows, in the order of the request: at most [`Rejected::MAX_LISTED`], and 100 for a copy of an earlier
    /// request.
    pub rejected: Vec<Rejected>,
    /// Number of rejected rows.
    pub dropped: u64,
    /// Token with which a later query sees the rows; `None` if nothing was stored, or not yet.
    pub token: Option<Token>,
    /// Whether this request was a copy of an earlier one under its idempotency key: nothing was written now.
    pub replayed: bool,
    /// Notices for the client.
    pub notices: Vec<String>,
    /// Number of accepted rows that a later row of the same request replaces; in a stream of batches, a later row of the same
    /// batch.
    pub replaced: u64,
}

impl Written {
    /// Row counts of the reply; `None` for a copy, which does not know them.
    pub fn counts(&self) -> Option<RowCounts> {
        let written = self.accepted.saturating_sub(self.replaced);
        (!self.replayed).then_some(RowCounts { written, replaced: self.replaced, refused: self.dropped })
    }
}

/// Result of a statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executed {
    /// Rows written; 0 for a change of definitions.
    pub affected_rows: u64,
    /// Token with which a later query sees the effect; `None` if there is no effect.
    pub token: Option<Token>,
    /// The database selected by a USE statement.
    pub use_database: Option<String>,
    /// Whether this statement was a copy of an earlier one under its idempotency key: nothing was written now.
    pub replayed: bool,
    /// The text of a created token, returned only this once.
    pub secret: Option<Secret>,
    /// Row counts of an INSERT.
    pub rows: Option<RowCounts>,
    /// Notices for the client.
    pub notices: Vec<String>,
}

/// Interval between small segments of a busy process on a store behind a network, in milliseconds.
const FLUSH_INTERVAL_MS: u64 = 1_000;
/// Bytes of decoded segments that the series directory caches.
const TAIL_CACHE: usize = 32 << 20;

/// The write path of one process for one root; cheap to clone. Without [`Ingest::shutdown`], buffered rows are lost when the
/// last clone is dropped, as in a crash.
#[derive(Debug, Clone)]
pub struct Ingest {
    pub(crate) shared: Arc<Shared>,
    pub(crate) time_zone: Tz,
    pub(crate) key: Option<IdempotencyKey>,
    /// Mark that the statement's commit leaves; set for messages of a queue.
    pub(crate) mark: Option<Mark>,
    /// The principal of the requests; by default this process itself.
    pub(crate) principal: Principal,
    /// Handling of times that seem to be in another unit.
    implausible: Implausible,
    /// The group of this handle's next request.
    place: Option<Arc<Place>>,
    /// When the requests were sent, in nanoseconds since the epoch; `None` is now.
    sent_ns: Option<i64>,
    /// Earlier writes that this handle's writes must follow.
    after: Vec<Position>,
    tasks: Arc<Tasks>,
}

/// State shared by requests and background tasks.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) root: Root,
    pub(crate) config: Arc<IngestConfig>,
    pub(crate) budget: Budget,
    pub(crate) shares: Shares,
    pub(crate) queue: Arc<Queue>,
    pub(crate) probe: Probe,
    pub(crate) stamps: Arc<stamps::Stamps>,
    pub(crate) schema: SchemaChanges,
    pub(crate) directory: Arc<SeriesDirectory>,
    pub(crate) compactor: Compactor,
    /// Looked up once: each request updates it.
    pub(crate) body_bytes: Counter,
    pub(crate) activity: Arc<Activity>,
}

impl Shared {
    /// The clocks and randomness of this process.
    pub(crate) fn ambient(&self) -> &Arc<dyn Ambient> {
        self.root.store().ambient()
    }
}

/// The tasks of a handle, aborted when its last clone is dropped.
#[derive(Debug, Default)]
struct Tasks {
    lanes: Mutex<Vec<JoinHandle<()>>>,
    background: Mutex<Vec<JoinHandle<()>>>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        for task in self.lanes.get_mut().iter().chain(self.background.get_mut().iter()) {
            task.abort();
        }
    }
}

/// Runs lanes in turn: a panic loses the current group, which is not acknowledged, and a new lane continues.
async fn write_forever(shared: Arc<Shared>, takes: Takes) {
    loop {
        let mut lane = Lane::new(shared.root.clone(), shared.probe.clone(), shared.stamps.clone());
        lane.counts_for(shared.compactor.backlog().clone(), shared.activity.clone());
        let run = lane.run(takes, shared.queue.clone(), shared.config.clone());
        if AssertUnwindSafe(run).catch_unwind().await.is_ok() {
            return;
        }
        tracing::error!("a log writer panicked; another one replaces it");
    }
}

/// Whether a lane has its own thread: on a directory, in a multi-threaded runtime.
fn has_own_thread(root: &Root) -> bool {
    root.store().is_directory() && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}

/// Starts a lane, which runs until its task is aborted. A lane that waits for a disk has its own thread: moving the other tasks
/// of a runtime thread to another thread takes half as long as the disk write.
///
/// # Errors
/// Unavailable if the system cannot start a thread.
fn spawn_lane(shared: Arc<Shared>, takes: Takes) -> Result<JoinHandle<()>> {
    let runtime = Handle::current();
    if !has_own_thread(&shared.root) {
        return Ok(tokio::spawn(write_forever(shared, takes)));
    }
    let (mut running, ended) = oneshot::channel::<()>();
    let lane = async move {
        tokio::select! {
            biased;
            () = running.closed() => (),
            () = write_forever(shared, takes) => (),
        }
    };
    thread::Builder::new()
        .name("log-writer".to_owned())
        .spawn(move || runtime.block_on(lane))
        .map_err(|e| Error::unavailable("cannot start a thread for a log writer").with("reason", &e).source(e))?;
    Ok(tokio::spawn(async move {
        let _ = ended.await; // an error means that the lane ended
    }))
}

impl Ingest {
    /// Starts writers under new IDs and, if the settings say so, background compaction.
    ///
    /// # Errors
    /// Invalid, listing all invalid settings; Unavailable if the system cannot start a thread.
    pub async fn open(root: Root, config: IngestConfig) -> Result<Ingest> {
        config.check()?;
        let implausible = config.implausible_times;
        let config = Arc::new(config);
        let options = SnapshotOptions {
            max_staleness: Some(std::time::Duration::ZERO),
            tail_cache_bytes: TAIL_CACHE.min(config.tail_bytes / 4),
            tail_bytes: config.tail_bytes,
            ..SnapshotOptions::default()
        };
        let reader = SnapshotReader::new(root.clone(), options);
        let default = if root.store().is_local() { 0 } else { FLUSH_INTERVAL_MS };
        let flush_interval = millis(config.flush_interval_ms.unwrap_or(default));
        let regroup = has_own_thread(&root) && flush_interval.is_zero() && config.writers.is_none_or(|n| n == 1);
        let shared = Arc::new(Shared {
            budget: Budget::new(config.buffer_bytes, millis(config.buffer_wait_ms)),
            shares: Shares::new(config.buffer_bytes, millis(config.buffer_wait_ms)),
            queue: Arc::new(Queue::new(config.group_bytes, flush_interval, regroup)),
            probe: Probe::new(root.clone()),
            stamps: Arc::default(),
            schema: SchemaChanges::new(root.clone(), schema::limits(&config)),
            directory: Arc::new(SeriesDirectory::new(reader, config.series_names)),
            compactor: Compactor::new(root.clone(), config.compact.clone()),
            body_bytes: counter!(BODY_BYTES),
            activity: Arc::new(Activity::new()),
            root,
            config,
        });
        let tasks = Tasks::default();
        // Two small files at once slow a disk down; for large ones, the second lane writes while the first encodes.
        let on_directory = [Takes::Any, Takes::Plenty];
        let takes = match shared.config.writers {
            None if shared.root.store().is_directory() => on_directory.to_vec(),
            // Small segments cost the same number of requests as with four lanes; large ones use the network while others are
            // encoded or confirmed.
            None => [[Takes::Any; 4], [Takes::Plenty; 4]].concat(),
            Some(writers) => vec![Takes::Any; writers],
        };
        for takes in takes {
            tasks.lanes.lock().push(spawn_lane(shared.clone(), takes)?);
        }
        if shared.config.compact.background {
            tasks.background.lock().extend(shared.compactor.spawn());
        }
        Ok(Self {
            shared,
            time_zone: Tz::UTC,
            key: None,
            mark: None,
            principal: Principal::PROCESS,
            implausible,
            place: None,
            sent_ns: None,
            after: Vec::new(),
            tasks: Arc::new(tasks),
        })
    }

    /// A handle that reads timestamps without a zone in this zone. Default: UTC.
    #[must_use]
    pub fn in_time_zone(&self, time_zone: Tz) -> Self {
        Self { time_zone, ..self.clone() }
    }

    /// A handle for one request under an idempotency key: of all copies of the request, sent to any process within a day, one
    /// is written, and the others get its reply. Such a request is acknowledged when its rows are in the store, never from the
    /// buffer; it costs one more GET and one more PUT. DELETE and changes of definitions ignore the key, unless it is that of a
    /// queue message.
    #[must_use]
    pub fn with_key(&self, key: Option<IdempotencyKey>) -> Self {
        Self { key, ..self.clone() }
    }

    /// A handle for a statement whose commit leaves a mark.
    pub(crate) fn marking(&self, mark: Mark) -> Self {
        Self { mark: Some(mark), ..self.clone() }
    }

    /// A handle for requests of a principal, with that principal's rights.
    #[must_use]
    pub fn for_principal(&self, principal: Principal) -> Self {
        Self { principal, ..self.clone() }
    }

    /// A handle for requests with their own rule for times that seem to be in another unit.
    #[must_use]
    pub fn with_implausible(&self, implausible: Implausible) -> Self {
        Self { implausible, ..self.clone() }
    }

    /// The rule for times that seem to be in another unit.
    pub fn implausible(&self) -> Implausible {
        self.implausible
    }

    /// A handle for one part of a request that is written in parts, with an idempotency key of its own if the request has one.
    #[must_use]
    pub fn for_part(&self, part: u64) -> Self {
        self.with_key(self.key.as_ref().map(|key| key.part(part)))
    }

    /// The principal of the requests.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// A handle for a request sent at a given time, in milliseconds since the epoch: that is the time of rows without one and
    /// of NOW in a statement, and rows are rejected only if they were past retention then. So a redelivered request writes the
    /// same rows. Requests of the same millisecond are distinguished by their IDs, as far as the database's precision allows.
    #[must_use]
    pub fn sent_at(&self, sent_ms: i64, id: &str) -> Self {
        const NS: u64 = 1_000_000;
        let apart = xxhash_rust::xxh3::xxh3_64(id.as_bytes()) % NS;
        let sent_ns = sent_ms.saturating_mul(NS as i64).saturating_add(apart as i64);
        Self { sent_ns: Some(sent_ns), ..self.clone() }
    }

    /// Handles for requests that share one segment if it is large enough, with the rows of each newer than those of the handles
    /// before it. Nothing is put until each handle has made one request that waits for the store, or is dropped. So make the
    /// requests concurrently, and drop a handle once its request is answered.
    ///
    /// Returns one handle per entry of `orders`. After a request that [failed](Ingest::failed), later requests of the same
    /// order are refused as Unavailable; a request put earlier may still fail, together with those after it.
    #[must_use]
    pub fn together(&self, orders: &[Option<&str>]) -> Vec<Self> {
        let places = Queue::hold(&self.shared.queue, orders).into_iter();
        places.map(|place| Self { place: Some(Arc::new(place)), ..self.clone() }).collect()
    }

    /// Reports that the request of this handle was not written, or not in full; call it before the handle is dropped.
    pub fn failed(&self) {
        if let Some(place) = &self.place {
            place.failed();
        }
    }

    /// The value of NOW for this handle's requests, in nanoseconds since the epoch.
    pub(crate) fn now_ns(&self) -> i64 {
        self.sent_ns.unwrap_or_else(|| self.shared.ambient().wall_ns())
    }

    /// The root that this handle writes to.
    pub fn root(&self) -> &Root {
        &self.shared.root
    }

    /// The settings of the write path.
    pub fn config(&self) -> &IngestConfig {
        &self.shared.config
    }

    /// Counts bytes of an incomplete body in its user's share.
    ///
    /// # Errors
    /// Unavailable if the share is exhausted.
    pub(crate) async fn hold_share(&self, share: &mut Share, bytes: usize) -> Result<()> {
        self.shared.shares.grow(self.principal.user(), share, bytes).await
    }

    /// The bound on memory held by requests.
    pub(crate) fn budget(&self) -> &Budget {
        &self.shared.budget
    }

    /// Folds and merges now, as far as requested; at most one run at a time, background runs included.
    ///
    /// # Errors
    /// Unavailable if the store does not respond, Corrupt naming the corrupt object.
    pub async fn compact(&self, request: CompactRequest) -> Result<CompactReport> {
        self.shared.compactor.run(request).await
    }

    /// The outstanding work of folds and merges, found by one LIST of the log.
    ///
    /// # Errors
    /// Unavailable if the store does not respond.
    pub async fn debt(&self) -> Result<Debt> {
        self.shared.compactor.debt().await
    }

    /// Rows that this process has stored, by table, the most first. Of at most 10 000 tables.
    pub fn rows_by_table(&self) -> Vec<(TableId, u64)> {
        self.shared.activity.by_table()
    }

    /// The log writers of this process, past ones included.
    pub fn writers(&self) -> Vec<WriterId> {
        self.shared.stamps.writers()
    }

    /// Refuses new requests, writes the pending ones and ends the background tasks. Waits for the store no longer than a
    /// request would.
    pub async fn shutdown(&self) {
        self.shared.queue.close();
        let background = std::mem::take(&mut *self.tasks.background.lock());
        background.iter().for_each(JoinHandle::abort);
        let lanes = std::mem::take(&mut *self.tasks.lanes.lock());
        let until = tokio::time::Instant::now() + millis(self.shared.config.confirm_ms);
        for mut task in lanes {
            if tokio::time::timeout_at(until, &mut task).await.is_err() {
                tracing::error!("the store does not respond; unacknowledged rows are dropped");
                task.abort();
            }
        }
    }
}
