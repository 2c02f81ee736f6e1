//! Writing: requests are decoded on their own task, join the open group, and are acknowledged when the log segment
//! of their group is in the store.
//!
//! A stream of batches too large for one segment goes past the groups (`bulk`), one into a new table past the log (`staged`).
//!
//! On the way: `rows` (requests of rows) and `batches` (Arrow) decode; `schema`
//! commits what they lack; `budget` bounds what waits, `arriving` what one user's slow bodies hold of it; `queue` is the open group; `lane` puts it; `series` finds the supertable of a series; `idempotent` answers copies of a request.

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
    ids::{Position, Token},
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
pub(crate) use self::{
    arriving::Share,
    budget::{Budget, Reservation},
};
use self::{
    arriving::Shares,
    idempotent::Mark,
    lane::Lane,
    queue::{Place, Queue, Takes},
    schema::SchemaChanges,
    series::SeriesDirectory,
};
use crate::{
    compact::{CompactReport, CompactRequest, Compactor},
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
    /// From the buffer: no token, and a crash loses it.
    Buffered,
}

/// What a request of rows did.
#[derive(Debug, Default)]
pub struct Written {
    /// Rows (lines, points) that were kept.
    pub accepted: u64,
    /// The first of those that were not, in the order of the request: at most [`Rejected::MAX_LISTED`], and for a copy of an
    /// earlier request 100.
    pub rejected: Vec<Rejected>,
    /// How many were not.
    pub dropped: u64,
    /// What a later query brings to see them; `None` when nothing was stored, or not yet.
    pub token: Option<Token>,
    /// Whether this request was a copy of an earlier one under its idempotency key: nothing was written now.
    pub replayed: bool,
    /// Remarks that the client should see.
    pub notices: Vec<String>,
    /// How many of the rows that were kept a later row of the same request replaces; of a stream of batches, one of the
    /// same batch.
    pub replaced: u64,
}

impl Written {
    /// What became of the rows; `None` of a copy, which does not know.
    pub fn counts(&self) -> Option<RowCounts> {
        let written = self.accepted.saturating_sub(self.replaced);
        (!self.replayed).then_some(RowCounts { written, replaced: self.replaced, refused: self.dropped })
    }
}

/// What a statement did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executed {
    /// Rows written; 0 for a change of definitions.
    pub affected_rows: u64,
    /// What a later query brings to see the effect; `None` when there is none.
    pub token: Option<Token>,
    /// The database that a USE statement chose.
    pub use_database: Option<String>,
    /// Whether this statement was a copy of an earlier one under its idempotency key: nothing was written now.
    pub replayed: bool,
    /// The text of a token that was made, told this once.
    pub secret: Option<Secret>,
    /// What became of the rows of an INSERT.
    pub rows: Option<RowCounts>,
    /// Remarks that the client should see.
    pub notices: Vec<String>,
}

/// Time between two small segments of a busy process where each is a request over a network.
const FLUSH_INTERVAL_MS: u64 = 1_000;
/// Decoded segments that the directory of series keeps in memory, in bytes.
const TAIL_CACHE: usize = 32 << 20;

/// The write path of one process over one root; cheap to clone. Without [`Ingest::shutdown`], what waits is lost with
/// the last clone, as in a crash.
#[derive(Debug, Clone)]
pub struct Ingest {
    pub(crate) shared: Arc<Shared>,
    pub(crate) time_zone: Tz,
    pub(crate) key: Option<IdempotencyKey>,
    /// What the commit of its statement leaves, of a message of a queue.
    pub(crate) mark: Option<Mark>,
    /// Whose requests these are: this process's own until it says otherwise.
    pub(crate) principal: Principal,
    /// What is done with times that seem to be in another unit.
    implausible: Implausible,
    /// The group that the next request of this handle belongs to.
    place: Option<Arc<Place>>,
    /// When its requests were sent, in nanoseconds since the epoch; `None` is now.
    sent_ns: Option<i64>,
    /// Writes that its own come after.
    after: Vec<Position>,
    tasks: Arc<Tasks>,
}

/// What requests and background tasks share.
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
    /// Looked up once: each request changes it.
    pub(crate) body_bytes: Counter,
}

impl Shared {
    /// The clocks and randomness of this process.
    pub(crate) fn ambient(&self) -> &Arc<dyn Ambient> {
        self.root.store().ambient()
    }
}

/// The tasks of a handle: ended when the last clone of it goes.
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

/// One lane after another: a panic costs the group that met it, which nobody acknowledges, and no more.
async fn write_forever(shared: Arc<Shared>, takes: Takes) {
    loop {
        let mut lane = Lane::new(shared.root.clone(), shared.probe.clone(), shared.stamps.clone());
        lane.counts_for(shared.compactor.backlog().clone());
        let run = lane.run(takes, shared.queue.clone(), shared.config.clone());
        if AssertUnwindSafe(run).catch_unwind().await.is_ok() {
            return;
        }
        tracing::error!("a writer of the log met a bug and ended; another one takes its place");
    }
}

/// Whether a lane has a thread of its own: on a directory, where the runtime has several threads.
fn has_own_thread(root: &Root) -> bool {
    root.store().is_directory() && Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}

/// Starts a lane; it ends when its task is aborted. One that waits for a disk has a thread of its own: to hand the other
/// tasks of a thread of the runtime to another one takes half as long as the disk.
///
/// # Errors
/// Unavailable when the system gives no thread.
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
        .map_err(|e| Error::unavailable("no thread for a writer of the log").with("reason", &e).source(e))?;
    Ok(tokio::spawn(async move {
        let _ = ended.await; // an error is its end
    }))
}

impl Ingest {
    /// Starts writers under new ids and, when the settings say so, background compaction.
    ///
    /// # Errors
    /// Invalid, naming every setting that cannot work; Unavailable when the system gives no thread.
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
            root,
            config,
        });
        let tasks = Tasks::default();
        // A disk that gets two small files at once takes longer for each; one that gets large ones need not wait for
        // their encoding.
        let on_directory = [Takes::Any, Takes::Plenty];
        let takes = match shared.config.writers {
            None if shared.root.store().is_directory() => on_directory.to_vec(),
            // Small segments cost as many requests as before; large ones fill the line while others are encoded or answered.
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

    /// The same handle, for statements whose timestamps without a zone mean this one. UTC otherwise.
    #[must_use]
    pub fn in_time_zone(&self, time_zone: Tz) -> Self {
        Self { time_zone, ..self.clone() }
    }

    /// The same handle, for one request under an idempotency key: of all copies of it, sent to whatever process within
    /// a day, one is written, and the others get its answer. Such a request is acknowledged when its rows are in the
    /// store, never from the buffer; it costs one GET and one PUT more. A DELETE and changes of definitions take no notice of
    /// it, unless it is the key of a message of a queue.
    #[must_use]
    pub fn with_key(&self, key: Option<IdempotencyKey>) -> Self {
        Self { key, ..self.clone() }
    }

    /// The same handle, for a statement whose commit leaves a mark.
    pub(crate) fn marking(&self, mark: Mark) -> Self {
        Self { mark: Some(mark), ..self.clone() }
    }

    /// The same handle, for requests of somebody: what that one may not do is refused.
    #[must_use]
    pub fn for_principal(&self, principal: Principal) -> Self {
        Self { principal, ..self.clone() }
    }

    /// The same handle, for requests that say themselves what is done with times that seem to be in another unit.
    #[must_use]
    pub fn with_implausible(&self, implausible: Implausible) -> Self {
        Self { implausible, ..self.clone() }
    }

    /// Whose requests these are.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// The same handle, for a request that was sent at a time, in milliseconds since the epoch: rows without a time get that
    /// one, NOW in a statement means it, and rows are refused only if they were past retention then. So a request that
    /// comes again writes the same rows. Requests of one millisecond are kept apart by their ids, as far as the database's
    /// precision goes.
    #[must_use]
    pub fn sent_at(&self, sent_ms: i64, id: &str) -> Self {
        const NS: u64 = 1_000_000;
        let apart = xxhash_rust::xxh3::xxh3_64(id.as_bytes()) % NS;
        let sent_ns = sent_ms.saturating_mul(NS as i64).saturating_add(apart as i64);
        Self { sent_ns: Some(sent_ns), ..self.clone() }
    }

    /// Handles for requests that share one segment as far as it is large enough, the rows of each newer than those of the
    /// handles before it: nothing is put until each of them has made one request and that waits for the store, or the handle
    /// is gone. So the requests are made at the same time, and a handle is dropped once its request is answered.
    ///
    /// There is one for each of `orders`. Of requests of one order, those after one that [failed](Ingest::failed) are refused
    /// as Unavailable; what was put before may yet fail, together with those after it.
    #[must_use]
    pub fn together(&self, orders: &[Option<&str>]) -> Vec<Self> {
        let places = Queue::hold(&self.shared.queue, orders).into_iter();
        places.map(|place| Self { place: Some(Arc::new(place)), ..self.clone() }).collect()
    }

    /// Says that the request of this handle was not written, or not all of it; to be said before the handle is dropped.
    pub fn failed(&self) {
        if let Some(place) = &self.place {
            place.failed();
        }
    }

    /// The time that is NOW to the requests of this handle, in nanoseconds since the epoch.
    pub(crate) fn now_ns(&self) -> i64 {
        self.sent_ns.unwrap_or_else(|| self.shared.ambient().wall_ns())
    }

    /// The root that it writes to.
    pub fn root(&self) -> &Root {
        &self.shared.root
    }

    /// Its settings.
    pub fn config(&self) -> &IngestConfig {
        &self.shared.config
    }

    /// Counts bytes of a body that has not come whole in the share of its user.
    ///
    /// # Errors
    /// Unavailable when the share is used up.
    pub(crate) async fn hold_share(&self, share: &mut Share, bytes: usize) -> Result<()> {
        self.shared.shares.grow(self.principal.user(), share, bytes).await
    }

    /// The bound on what requests hold in memory.
    pub(crate) fn budget(&self) -> &Budget {
        &self.shared.budget
    }

    /// Folds and merges now, as far as the request says; with the background task at most one of them at a time.
    ///
    /// # Errors
    /// Unavailable when the store does not answer, Corrupt naming the object that is.
    pub async fn compact(&self, request: CompactRequest) -> Result<CompactReport> {
        self.shared.compactor.run(request).await
    }

    /// Refuses new requests, writes those that wait and ends the background tasks; gives up on a store that does not
    /// answer within the time that a request would wait for it.
    pub async fn shutdown(&self) {
        self.shared.queue.close();
        let background = std::mem::take(&mut *self.tasks.background.lock());
        background.iter().for_each(JoinHandle::abort);
        let lanes = std::mem::take(&mut *self.tasks.lanes.lock());
        let until = tokio::time::Instant::now() + millis(self.shared.config.confirm_ms);
        for mut task in lanes {
            if tokio::time::timeout_at(until, &mut task).await.is_err() {
                tracing::error!("the store does not answer; rows that were not acknowledged are given up");
                task.abort();
            }
        }
    }
}
