//! Compaction: fold (log segments → data files), merge (data files → larger ones) and garbage collection.
//!
//! `rewrite` writes rows into data files and keeps the books; `fold` and `merge` select the rows, `folding` reads them from
//! segments; `plan` chooses files to merge; `publish` puts the files; `retain` drops partitions beyond KEEP; `tags` preserves
//! the tags of existing series. Each step commits on its own, and only if its inputs are unchanged, so that any number of
//! processes may compact one root.

mod backlog;
mod deletes;
mod fold;
mod folding;
mod merge;
mod plan;
mod publish;
mod retain;
mod rewrite;
mod tags;
#[cfg(test)]
mod tests;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

pub(crate) use backlog::Backlog;
use metrics::counter;
pub(crate) use publish::Published;
use tidelake_format::{
    Kind, Result,
    garbage::{Collected, Sweep, collect},
    ids::Position,
    layout::{self, parse_log},
    meta::{Catalog, Root, Watermark},
    rows::Block,
    schema::{Database, Supertable},
    store::ObjectMeta,
};
use tokio::{
    sync::{Mutex, MutexGuard, Notify},
    task::JoinHandle,
    time::{Instant, interval, sleep},
};

use crate::{
    config::{CompactConfig, millis},
    metrics::COMPACT_FAILURES,
};

/// Extent of an on-demand compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompactRequest {
    /// Fold the log, nothing else.
    Fold,
    /// Fold, then perform the due merges.
    #[default]
    Due,
    /// Fold, then merge every partition into as few files as the largest file size allows.
    Full,
}

/// Result of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactReport {
    /// Folded log segments.
    pub segments: u64,
    /// Rows read from these segments.
    pub folded_rows: u64,
    /// Data files replaced by merges.
    pub merged_files: u64,
    /// Rows read from these files.
    pub merged_rows: u64,
    /// Rows dropped because a newer row has the same key.
    pub duplicates: u64,
    /// Partitions removed because all their time is beyond KEEP.
    pub expired_partitions: u64,
    /// Rows of these partitions, and rows of the log that belong there.
    pub expired_rows: u64,
    /// Rows dropped because a delete covers them.
    pub deleted: u64,
    /// Data files written.
    pub files: u64,
    /// Bytes of data files and tag manifests written.
    pub bytes: u64,
}

/// Result of a compaction with a time limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactTurn {
    /// The work done.
    pub report: CompactReport,
    /// Whether the time ended before all due work was done.
    pub has_more: bool,
}

/// Outstanding work of compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Debt {
    /// Log segments not folded yet.
    pub segments: u64,
    /// Stored bytes of these segments.
    pub bytes: u64,
    /// Age of the oldest of them: how far data files lag behind the log.
    pub oldest: Duration,
    /// Log objects whose rows are in files already; garbage collection deletes them.
    pub folded: u64,
    /// Live data files.
    pub files: u64,
    /// Number of live data files beyond one per partition of each table.
    pub to_merge: u64,
}

impl CompactReport {
    fn add(&mut self, other: &CompactReport) {
        self.segments += other.segments;
        self.folded_rows += other.folded_rows;
        self.merged_files += other.merged_files;
        self.merged_rows += other.merged_rows;
        self.duplicates += other.duplicates;
        self.expired_partitions += other.expired_partitions;
        self.expired_rows += other.expired_rows;
        self.deleted += other.deleted;
        self.files += other.files;
        self.bytes += other.bytes;
    }
}

/// Time between orphan sweeps: a sweep lists everything.
const FULL_SWEEP_EVERY: Duration = Duration::from_secs(3_600);
/// Most retries after a concurrent commit of another process.
const ATTEMPTS: usize = 10;
/// Longest wait of an on-demand fold for segments to pass the margin, and for concurrent folds.
const FOLD_WAIT: Duration = Duration::from_secs(30);

/// Folds and merges one root; each process runs one fold and one merge at a time. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Compactor {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: Root,
    config: CompactConfig,
    folding: Mutex<()>,
    merging: Mutex<()>,
    folded: Notify,
    /// Whether the last fold left segments that it could have taken.
    is_late: AtomicBool,
    backlog: Arc<Backlog>,
    touched: deletes::Touched,
    established: tags::Established,
}

impl Compactor {
    /// A compactor without background tasks.
    pub fn new(root: Root, config: CompactConfig) -> Self {
        let (folding, merging, folded, is_late, backlog, touched, established) = Default::default();
        let inner = Inner { root, config, folding, merging, folded, is_late, backlog, touched, established };
        Self { inner: Arc::new(inner) }
    }

    /// Rows that this process has put and that are not folded yet.
    pub(crate) fn backlog(&self) -> &Arc<Backlog> {
        &self.inner.backlog
    }

    /// Starts folding, merging and garbage collection in the background; abort the tasks to stop them.
    pub(crate) fn spawn(&self) -> Vec<JoinHandle<()>> {
        self.inner.backlog.count();
        let (fold, merge, sweep) = (self.inner.clone(), self.inner.clone(), self.inner.clone());
        vec![
            tokio::spawn(async move { fold.fold_forever().await }),
            tokio::spawn(async move { merge.merge_forever().await }),
            tokio::spawn(async move { sweep.collect_forever().await }),
        ]
    }

    /// Compacts on demand.
    pub(crate) async fn run(&self, request: CompactRequest) -> Result<CompactReport> {
        let extent = match request {
            CompactRequest::Fold => return self.inner.fold_all().await,
            CompactRequest::Due => plan::Extent::Due,
            CompactRequest::Full => plan::Extent::Full,
        };
        // A log that cannot be folded does not prevent merges.
        let (folded, retained) = (self.inner.fold_all().await, self.inner.retain().await);
        let merged = self.inner.merge_all(extent, None).await;
        let mut report = folded?;
        report.add(&retained?);
        report.add(&merged?.report);
        Ok(report)
    }

    /// Folds segments that are old enough and, depending on `request`, drops expired partitions and merges, step by step. No
    /// step begins after `limit`, and each commits on its own, so that the next call continues where this one ends.
    ///
    /// # Errors
    /// As [`Ingest::compact`](crate::write::Ingest::compact); the other steps are performed nevertheless.
    pub async fn run_within(&self, request: CompactRequest, limit: Duration) -> Result<CompactTurn> {
        let until = Instant::now() + limit;
        let folded = self.inner.fold_until(until).await;
        let extent = match request {
            CompactRequest::Fold => return folded,
            CompactRequest::Due => plan::Extent::Due,
            CompactRequest::Full => plan::Extent::Full,
        };
        let (retained, merged) = (self.inner.retain().await, self.inner.merge_all(extent, Some(until)).await);
        let (mut turn, retained, merged) = (folded?, retained?, merged?);
        turn.report.add(&retained);
        turn.report.add(&merged.report);
        turn.has_more |= merged.has_more;
        Ok(turn)
    }

    /// Takes the turn to fold: no other fold of this process runs while the guard is held.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.inner.folding.lock().await
    }

    /// Puts rows, oldest first, into data files of a table that no version references yet. They are read and written as in a
    /// fold, by the holder of the [turn](Self::turn).
    ///
    /// # Errors
    /// Unavailable if the store does not accept them.
    pub(crate) async fn files_of_new(
        &self,
        table: &Arc<Supertable>,
        database: &Arc<Database>,
        position: Position,
        blocks: &Arc<Vec<Block>>,
    ) -> Result<Vec<Published>> {
        self.inner.files_of_new(table, database, position, blocks).await
    }

    /// Outstanding work, found by one LIST of the log.
    ///
    /// # Errors
    /// Unavailable if the store does not respond.
    pub async fn debt(&self) -> Result<Debt> {
        self.inner.debt().await
    }

    /// Deletes objects that no version needs any more.
    ///
    /// # Errors
    /// As [`Collector::collect`](tidelake_format::garbage::Collector::collect).
    pub async fn collect(&self, sweep: Sweep) -> Result<Collected> {
        collect(&self.inner.root, sweep).await
    }
}

impl Inner {
    fn wall_ms(&self) -> i64 {
        self.root.store().ambient().wall_ms()
    }

    fn margin(&self) -> Duration {
        let default = if self.root.store().is_directory() { 2_000 } else { 5_000 };
        millis(self.config.fold_margin_ms.unwrap_or(default))
    }

    /// Whether any segment is not folded yet.
    async fn has_unfolded(&self) -> Result<bool> {
        let catalog = self.root.refresh().await?;
        Ok(self.root.store().list(layout::LOG).await?.iter().any(|object| is_unfolded(&catalog, object)))
    }

    async fn debt(&self) -> Result<Debt> {
        let catalog = self.root.refresh().await?;
        let log = self.root.store().list(layout::LOG).await?;
        let now_ms = self.wall_ms();
        let mut debt = Debt { folded: log.len() as u64, ..Debt::default() };
        for object in log.iter().filter(|object| is_unfolded(&catalog, object)) {
            debt.folded -= 1;
            let age_ms = now_ms.saturating_sub(object.last_modified.timestamp_millis()).max(0);
            debt.segments += 1;
            debt.bytes += object.size;
            debt.oldest = debt.oldest.max(Duration::from_millis(age_ms.unsigned_abs()));
        }
        for table in catalog.databases().flat_map(|database| catalog.tables(database.id)) {
            for (_, partition) in catalog.partitions(table.id) {
                debt.files += partition.files;
                debt.to_merge += partition.files.saturating_sub(1);
            }
        }
        Ok(debt)
    }

    async fn fold_forever(&self) {
        let mut ticks = interval(millis(self.config.interval_ms));
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let put_bytes = || self.root.store().counters().put_bytes;
        let (mut looked, mut put) = (Instant::now(), put_bytes());
        let (mut has_more, mut pause) = (false, Pause::default());
        loop {
            if !has_more {
                ticks.tick().await;
            }
            // A check costs a LIST, which is large in a store with many segments: only when a fold may be due.
            let much = put_bytes().saturating_sub(put) >= self.config.fold_bytes;
            if !pause.left().is_zero() {
                continue;
            }
            if !much && !has_more && looked.elapsed() < millis(self.config.fold_age_ms) {
                continue;
            }
            (looked, put) = (Instant::now(), put_bytes());
            let step = async {
                let looked = Instant::now();
                if !self.has_unfolded().await? {
                    self.backlog.folded_until(looked);
                    return Ok(false);
                }
                let _one = self.folding.lock().await;
                self.fold().await?;
                self.folded.notify_one();
                // A fold takes only as much as its memory allows: the next one begins at once.
                Ok(self.is_late.load(Relaxed))
            };
            let folded = step.await;
            pause.after(&folded);
            has_more = *folded.as_ref().unwrap_or(&false);
            failed("fold", folded.map(|_| ()));
        }
    }

    async fn collect_forever(&self) {
        let mut swept = Instant::now();
        loop {
            sleep(millis(self.config.collect_ms)).await;
            let sweep = if swept.elapsed() >= FULL_SWEEP_EVERY { Sweep::Full } else { Sweep::Quick };
            if sweep == Sweep::Full {
                swept = Instant::now();
            }
            failed("collect", collect(&self.root, sweep).await.map(|_| ()));
        }
    }

    /// Folds segments older than the margin, cut by cut; begins no cut after `until`.
    async fn fold_until(&self, until: Instant) -> Result<CompactTurn> {
        let _one = self.folding.lock().await;
        let (mut turn, mut lost) = (CompactTurn::default(), 0);
        while self.has_unfolded().await? {
            if Instant::now() >= until {
                turn.has_more = true;
                break;
            }
            match self.fold().await {
                Ok(done) if done.segments == 0 => break, // the remaining segments are too young
                Ok(done) => turn.report.add(&done),
                // Another process folded some of them.
                Err(error) if error.kind() == Kind::Conflict && lost < ATTEMPTS => {
                    lost += 1;
                    sleep(Duration::from_millis(20 + self.root.store().ambient().random() % 30)).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(turn)
    }

    /// Folds until everything that was in the log at the start is folded.
    async fn fold_all(&self) -> Result<CompactReport> {
        let _one = self.folding.lock().await;
        let start = Instant::now();
        let mut wanted = Vec::new();
        for object in self.root.store().list(layout::LOG).await? {
            wanted.extend(parse_log(object.location.as_ref()).filter(|p| !p.is_part()));
        }
        let mut report = CompactReport::default();
        loop {
            let late = start.elapsed() > self.margin() + FOLD_WAIT;
            let (catalog, folded) = match self.fold().await {
                Ok(done) => {
                    report.add(&done);
                    (self.root.catalog(), done.segments > 0)
                }
                // Another process folded some of them.
                Err(error) if error.kind() == Kind::Conflict && !late => (self.root.refresh().await?, false),
                Err(error) => return Err(error),
            };
            // Don't wait for a bulk ingest with a missing part: it waits for the part indefinitely.
            let waits = |p: &Position, w: &Watermark| {
                p.seq >= w.next && !(p.writer.is_bulk() && (w.is_void(p.seq) || w.has_hole()))
            };
            wanted.retain(|p| catalog.watermark(p.writer).is_none_or(|w| waits(p, w)));
            if wanted.is_empty() || (late && !folded) {
                return Ok(report);
            }
            if !folded {
                sleep(Duration::from_millis(20 + self.root.store().ambient().random() % 30)).await;
            }
        }
    }
}

/// Wait of folds or merges while the store has no space for them; doubles each time.
#[derive(Debug, Default)]
struct Pause {
    last: Duration,
    until: Option<Instant>,
}

impl Pause {
    const FIRST: Duration = Duration::from_secs(5);
    const LONGEST: Duration = Duration::from_secs(120);

    fn after<T>(&mut self, result: &Result<T>) {
        if result.as_ref().is_err_and(|e| e.kind() == Kind::Full) {
            self.last = (self.last * 2).clamp(Self::FIRST, Self::LONGEST);
            self.until = Some(Instant::now() + self.last);
        } else {
            *self = Self::default();
        }
    }

    fn left(&self) -> Duration {
        self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(Instant::now()))
    }
}

/// Whether a listed log object is not folded yet.
fn is_unfolded(catalog: &Catalog, object: &ObjectMeta) -> bool {
    parse_log(object.location.as_ref()).is_some_and(|p| match catalog.watermark(p.writer) {
        // Another object replaced a quarantined one.
        Some(w) if p.seq < w.next => {
            !catalog.is_folded(p) && !w.is_quarantined(p.seq, object.last_modified.timestamp_millis(), object.size)
        }
        _ => !p.is_part(),
    })
}

fn failed(step: &'static str, result: Result<()>) {
    if let Err(error) = result {
        counter!(COMPACT_FAILURES, "step" => step).increment(1);
        match error.kind() {
            // The store has logged this, once.
            Kind::Full => tracing::debug!(step, %error, "compaction is waiting for space in the store"),
            Kind::Conflict | Kind::Unavailable => tracing::info!(step, %error, "compaction step failed; will retry"),
            kind => tracing::error!(step, ?kind, %error, "compaction failed"),
        }
    }
}
