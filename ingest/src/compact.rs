//! Compaction: fold (log segments → data files), merge (data files → larger ones) and the collection of garbage.
//!
//! `rewrite` turns rows into data files and keeps the books; `fold` and `merge` say which rows, `folding` takes them from segments; `plan` chooses what to
//! merge; `publish` puts the files; `retain` drops partitions beyond KEEP; `tags` lets a series keep the tags that it has. Each commits on its own and applies only if nothing it rests on has changed, so
//! that any number of processes may compact one root.

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

/// How far an on-demand compaction goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompactRequest {
    /// Fold what the log holds, nothing else.
    Fold,
    /// Fold, then do the merges that are due.
    #[default]
    Due,
    /// Fold, then merge every partition down to as few files as their largest size allows.
    Full,
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactReport {
    /// Log segments that were folded.
    pub segments: u64,
    /// Rows read from them.
    pub folded_rows: u64,
    /// Data files that merges replaced.
    pub merged_files: u64,
    /// Rows read from those.
    pub merged_rows: u64,
    /// Rows dropped because a newer row has their key.
    pub duplicates: u64,
    /// Partitions that disappeared because all their time lies beyond KEEP.
    pub expired_partitions: u64,
    /// Rows in those, and rows of the log that belonged there.
    pub expired_rows: u64,
    /// Rows dropped because a delete took them.
    pub deleted: u64,
    /// Data files that were written.
    pub files: u64,
    /// Bytes of data files and tag manifests that were written.
    pub bytes: u64,
}

/// What a compaction that had so much time did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactTurn {
    /// What it did.
    pub report: CompactReport,
    /// Whether its time ended before all that was due was done.
    pub has_more: bool,
}

/// What compaction has yet to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Debt {
    /// Log segments that wait to be folded.
    pub segments: u64,
    /// Their bytes, as they lie in the store.
    pub bytes: u64,
    /// How long the oldest of them has been there: how far data files are behind the log.
    pub oldest: Duration,
    /// Objects in the log whose rows are in files already: they go once garbage is collected.
    pub folded: u64,
    /// Live data files.
    pub files: u64,
    /// How many fewer these would be with one for each partition of each table.
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

/// An orphan sweep lists everything, so it is rare.
const FULL_SWEEP_EVERY: Duration = Duration::from_secs(3_600);
/// A merge that somebody else overtook is tried again this often.
const ATTEMPTS: usize = 10;
/// The longest that an on-demand fold waits for segments to be older than the margin, and for its turn beside others
/// that fold.
const FOLD_WAIT: Duration = Duration::from_secs(30);

/// Folds and merges one root; in one process, one fold and one merge at a time. Cheap to clone.
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
    /// Whether the last fold left what it could have taken.
    is_late: AtomicBool,
    backlog: Arc<Backlog>,
    touched: deletes::Touched,
    established: tags::Established,
}

impl Compactor {
    /// A compactor that does nothing by itself.
    pub fn new(root: Root, config: CompactConfig) -> Self {
        let (folding, merging, folded, is_late, backlog, touched, established) = Default::default();
        let inner = Inner { root, config, folding, merging, folded, is_late, backlog, touched, established };
        Self { inner: Arc::new(inner) }
    }

    /// What this process has put and nobody has folded yet.
    pub(crate) fn backlog(&self) -> &Arc<Backlog> {
        &self.inner.backlog
    }

    /// Starts folding, merging and collecting in the background; abort the tasks to end it.
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
        // A log that cannot be folded keeps no file from being merged.
        let (folded, retained) = (self.inner.fold_all().await, self.inner.retain().await);
        let merged = self.inner.merge_all(extent, None).await;
        let mut report = folded?;
        report.add(&retained?);
        report.add(&merged?.report);
        Ok(report)
    }

    /// Folds what is old enough and, as far as `request` says, drops expired partitions and merges, one step after another.
    /// No step begins after `limit`, and each commits on its own, so that whoever comes next goes on where this ends.
    ///
    /// # Errors
    /// As [`Ingest::compact`](crate::write::Ingest::compact); the other steps are done all the same.
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

    /// The turn of one that folds: no other one of this process does while this is held.
    pub(crate) async fn turn(&self) -> MutexGuard<'_, ()> {
        self.inner.folding.lock().await
    }

    /// Puts rows, the oldest first, into data files of a table that no version names yet. They are read and written as a
    /// fold does it, by whoever has its [turn](Self::turn).
    ///
    /// # Errors
    /// Unavailable when the store does not take them.
    pub(crate) async fn files_of_new(
        &self,
        table: &Arc<Supertable>,
        database: &Arc<Database>,
        position: Position,
        blocks: &Arc<Vec<Block>>,
    ) -> Result<Vec<Published>> {
        self.inner.files_of_new(table, database, position, blocks).await
    }

    /// What is left to be done, by one look at the log.
    ///
    /// # Errors
    /// Unavailable when the store does not answer.
    pub async fn debt(&self) -> Result<Debt> {
        self.inner.debt().await
    }

    /// Deletes what no version needs any more.
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

    /// Whether any segment waits to be folded.
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
            // A look costs a LIST, of which a store with many segments has much to say: only when a fold may be due.
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

    /// Folds what is older than the margin, a cut after another; begins none after `until`.
    async fn fold_until(&self, until: Instant) -> Result<CompactTurn> {
        let _one = self.folding.lock().await;
        let (mut turn, mut lost) = (CompactTurn::default(), 0);
        while self.has_unfolded().await? {
            if Instant::now() >= until {
                turn.has_more = true;
                break;
            }
            match self.fold().await {
                Ok(done) if done.segments == 0 => break, // what is left is too young
                Ok(done) => turn.report.add(&done),
                // Somebody else folded some of them.
                Err(error) if error.kind() == Kind::Conflict && lost < ATTEMPTS => {
                    lost += 1;
                    sleep(Duration::from_millis(20 + self.root.store().ambient().random() % 30)).await;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(turn)
    }

    /// Folds until everything that the log held at the start is folded.
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
                // Somebody else folded some of them.
                Err(error) if error.kind() == Kind::Conflict && !late => (self.root.refresh().await?, false),
                Err(error) => return Err(error),
            };
            // A bulk ingest that misses a part waits for it, for as long as that takes.
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

/// How long folds or merges wait where the store has no space for them: twice as long each time.
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

/// Whether a listed object of the log waits to be folded.
fn is_unfolded(catalog: &Catalog, object: &ObjectMeta) -> bool {
    parse_log(object.location.as_ref()).is_some_and(|p| match catalog.watermark(p.writer) {
        // Another object came in the place of one that was quarantined.
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
            // The store has told, once.
            Kind::Full => tracing::debug!(step, %error, "compaction waits for space in the store"),
            Kind::Conflict | Kind::Unavailable => tracing::info!(step, %error, "compaction did not get through"),
            kind => tracing::error!(step, ?kind, %error, "compaction failed"),
        }
    }
}
