//! The running statements of this node: listed by `system.queries` and SHOW QUERIES, ended by KILL QUERY. Slow ones are logged at
//! their end.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use datafusion::common::Result as DfResult;
use metrics::{counter, histogram};
use parking_lot::Mutex;
use tidelake_format::{Error, Result, access::Principal};
use tokio_util::sync::CancellationToken;

use crate::{
    budget,
    metrics::{QUERIES, ROWS, SECONDS},
    session::Session,
    tracked::{Progress, STATES},
};

/// Maximum number of bytes of a statement's text that are shown.
const MOST_SQL: usize = 4 << 10;

/// Numbers of statements by state, as SHOW QUERIES lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Waiting in the queue.
    pub waiting: usize,
    /// Running.
    pub running: usize,
    /// Waiting for clients that do not read.
    pub stalled: usize,
    /// Being prepared for a later execution.
    pub planning: usize,
}

/// The running statements. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Queries(Arc<Inner>);

struct Inner {
    /// Statements that take at least this long are logged.
    slow: Option<Duration>,
    /// Random number of this process, part of each statement's ID.
    node: u32,
    next: AtomicU64,
    entries: Mutex<BTreeMap<u64, Arc<Entry>>>,
    schema: SchemaRef,
}

/// A running statement.
struct Entry {
    id: Arc<str>,
    sql: String,
    database: Option<String>,
    principal: Principal,
    handle: Option<[u8; 16]>,
    began: SystemTime,
    clock: Instant,
    progress: Arc<Progress>,
    killed: CancellationToken,
    /// The statement is only prepared. Metrics count its later execution instead.
    prepares: AtomicBool,
}

/// Handle of a running statement. Dropping it ends the listing and records metrics and the slow-query log line.
pub(crate) struct Underway {
    queries: Queries,
    number: u64,
    entry: Arc<Entry>,
}

impl fmt::Debug for Queries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queries").field("node", &self.0.node).finish_non_exhaustive()
    }
}

impl Queries {
    /// Creates an empty list. Statements that take at least `slow` are logged.
    pub(crate) fn new(slow: Option<Duration>) -> Self {
        let time = DataType::Timestamp(TimeUnit::Millisecond, None);
        let schema = Schema::new(vec![
            Field::new("id", DataType::Utf8, false),
            Field::new("state", DataType::Utf8, false),
            Field::new("database", DataType::Utf8, true),
            Field::new("user", DataType::Utf8, true),
            Field::new("started", time, false),
            Field::new("elapsed_ms", DataType::Int64, false),
            Field::new("rows", DataType::Int64, false),
            Field::new("rows_read", DataType::Int64, false),
            Field::new("bytes_read", DataType::Int64, false),
            Field::new("sql", DataType::Utf8, false),
        ]);
        Self(Arc::new(Inner {
            slow,
            node: rand::random(),
            next: AtomicU64::new(1),
            entries: Mutex::default(),
            schema: Arc::new(schema),
        }))
    }

    /// Number of running statements by state.
    pub(crate) fn load(&self) -> Load {
        let mut counts = [0; STATES.len()];
        for entry in self.0.entries.lock().values() {
            counts[usize::from(entry.progress.state.load(Relaxed)).min(STATES.len() - 1)] += 1;
        }
        let [waiting, running, stalled, planning] = counts;
        Load { waiting, running, stalled, planning }
    }

    /// A cluster-unique ID for the next statement.
    pub(crate) fn new_id(&self) -> Arc<str> {
        format!("{:08x}-{}", self.0.node, self.0.next.fetch_add(1, Relaxed)).into()
    }

    /// Registers a statement, with the session's query ID where it has one, else with a new ID.
    pub(crate) fn begin(&self, session: &Session, sql: &str) -> Underway {
        let number = self.0.next.fetch_add(1, Relaxed);
        let entry = Arc::new(Entry {
            id: session.query_id.clone().unwrap_or_else(|| format!("{:08x}-{number}", self.0.node).into()),
            sql: sql[..sql.floor_char_boundary(MOST_SQL)].to_owned(),
            database: session.database.clone(),
            principal: session.principal.clone(),
            handle: session.handle,
            began: SystemTime::now(),
            clock: Instant::now(),
            progress: session.tracked.as_ref().map(|tracked| tracked.progress.clone()).unwrap_or_default(),
            killed: CancellationToken::new(),
            prepares: AtomicBool::new(false),
        });
        self.0.entries.lock().insert(number, entry.clone());
        Underway { queries: self.clone(), number, entry }
    }

    /// Kills the running statements of this ID that `by` may end.
    ///
    /// # Errors
    /// NotFound where no such statement runs on this node.
    pub(crate) fn kill(&self, id: &str, by: &Principal) -> Result<()> {
        let entries = self.0.entries.lock();
        let mut found = entries.values().filter(|entry| *entry.id == *id && entry.is_known_to(by)).peekable();
        if found.peek().is_none() {
            return Err(Error::not_found("no such query is running on this node; SHOW QUERIES lists running queries")
                .with("query", id));
        }
        found.for_each(|entry| entry.kill());
        Ok(())
    }

    /// Kills the running statements of a handle that `by` may end. Returns whether there were any.
    pub(crate) fn cancel(&self, handle: &[u8; 16], by: &Principal) -> bool {
        let entries = self.0.entries.lock();
        let mut found = false;
        for entry in entries.values().filter(|entry| entry.handle.as_ref() == Some(handle) && entry.is_known_to(by)) {
            entry.kill();
            found = true;
        }
        found
    }

    /// One row for each statement that `by` may end.
    pub(crate) fn table(&self, by: &Principal) -> DfResult<RecordBatch> {
        let entries = self.0.entries.lock();
        let entries: Vec<Arc<Entry>> = entries.values().filter(|entry| entry.is_known_to(by)).cloned().collect();
        let texts = |of: fn(&Entry) -> Option<&str>| -> ArrayRef {
            Arc::new(entries.iter().map(|entry| of(entry)).collect::<StringArray>())
        };
        let numbers = |of: fn(&Entry) -> u64| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values(
                entries.iter().map(|entry| i64::try_from(of(entry)).unwrap_or(i64::MAX)),
            ))
        };
        let started = entries.iter().map(|entry| {
            let since = entry.began.duration_since(UNIX_EPOCH).unwrap_or_default();
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        });
        let columns: Vec<ArrayRef> = vec![
            texts(|entry| Some(&entry.id)),
            texts(|entry| STATES.get(usize::from(entry.progress.state.load(Relaxed))).copied()),
            texts(|entry| entry.database.as_deref()),
            texts(|entry| entry.principal.user()),
            Arc::new(TimestampMillisecondArray::from_iter_values(started)),
            numbers(|entry| u64::try_from(entry.clock.elapsed().as_millis()).unwrap_or(u64::MAX)),
            numbers(|entry| entry.progress.rows.load(Relaxed)),
            numbers(|entry| entry.progress.rows_read.load(Relaxed)),
            numbers(|entry| entry.progress.bytes_read.load(Relaxed)),
            texts(|entry| Some(&entry.sql)),
        ];
        Ok(RecordBatch::try_new(self.0.schema.clone(), columns)?)
    }
}

impl Underway {
    /// Awaits a part of the statement, until the statement is killed.
    ///
    /// # Errors
    /// Those of the part; Conflict when the statement was killed.
    pub(crate) async fn unless_killed<T>(&self, part: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.entry.killed.cancelled() => Err(budget::killed()),
            done = part => done,
        }
    }

    /// Resolves when the statement was killed.
    pub(crate) fn killed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.entry.killed.clone().cancelled_owned()
    }

    /// A token that is cancelled when the statement is killed.
    pub(crate) fn token(&self) -> CancellationToken {
        self.entry.killed.clone()
    }

    /// The counts of the statement's work.
    pub(crate) fn progress(&self) -> Arc<Progress> {
        self.entry.progress.clone()
    }

    /// Marks the statement as only prepared: metrics count its later execution instead.
    pub(crate) fn only_prepares(&self) {
        self.entry.prepares.store(true, Relaxed);
    }

    /// The statement has a permit and runs.
    pub(crate) fn runs(&self) {
        self.entry.progress.state.store(1, Relaxed);
    }

    /// The statement has a permit and is only planned.
    pub(crate) fn plans(&self) {
        self.entry.progress.state.store(3, Relaxed);
    }

    /// The statement released its permit because its client stalled.
    pub(crate) fn stalls(&self) {
        self.entry.progress.state.store(2, Relaxed);
    }

    /// Counts rows sent to the client.
    pub(crate) fn sent(&self, rows: usize) {
        self.entry.progress.rows.fetch_add(rows as u64, Relaxed);
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.queries.0.entries.lock().remove(&self.number);
        let (entry, took) = (&self.entry, self.entry.clock.elapsed());
        let rows = entry.progress.rows.load(Relaxed);
        if !entry.prepares.load(Relaxed) {
            counter!(QUERIES).increment(1);
            counter!(ROWS).increment(rows);
            histogram!(SECONDS).record(took.as_secs_f64());
        }
        if self.queries.0.slow.is_some_and(|slow| took >= slow) {
            let (id, user, database, sql) =
                (&*entry.id, entry.principal.user(), entry.database.as_deref(), entry.sql.as_str());
            let (took_ms, killed) = (took.as_millis() as u64, entry.killed.is_cancelled());
            tracing::warn!(target: "tidelake::slow", query = id, user, database, took_ms, rows, killed, sql, "slow query");
        }
    }
}

impl Entry {
    fn kill(&self) {
        self.progress.killed.store(true, Relaxed);
        self.killed.cancel();
    }

    fn is_known_to(&self, principal: &Principal) -> bool {
        principal.may_end(&self.principal)
    }
}
