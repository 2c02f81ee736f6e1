//! The statements under way on this node: `system.queries` and SHOW QUERIES tell of them, KILL QUERY stops one. Those that
//! took long are logged at their end.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
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
};

/// The most bytes of a statement that are shown.
const MOST_SQL: usize = 4 << 10;

/// What a statement does: waits for its place, runs, waits for its client, or is planned for an execution to come.
const STATES: [&str; 4] = ["waiting", "running", "stalled", "planning"];

/// The statements under way. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Queries(Arc<Inner>);

struct Inner {
    /// Statements that take longer are logged.
    slow: Option<Duration>,
    /// Tells the statements of this process from those of others.
    node: u32,
    next: AtomicU64,
    entries: Mutex<BTreeMap<u64, Arc<Entry>>>,
    schema: SchemaRef,
}

/// What is known of a statement under way.
struct Entry {
    id: Arc<str>,
    sql: String,
    database: Option<String>,
    principal: Principal,
    handle: Option<[u8; 16]>,
    began: SystemTime,
    clock: Instant,
    /// One of [`STATES`].
    state: AtomicU8,
    /// Rows that went out so far.
    rows: AtomicU64,
    killed: CancellationToken,
    /// It is prepared for a later execution, which is what counts.
    prepares: AtomicBool,
}

/// A statement under way, until this is dropped.
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
    /// None yet.
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

    /// A name for the next statement, which no other one of any node has.
    pub(crate) fn new_id(&self) -> Arc<str> {
        format!("{:08x}-{}", self.0.node, self.0.next.fetch_add(1, Relaxed)).into()
    }

    /// A statement comes, under the session's name for it where there is one.
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
            state: AtomicU8::new(0),
            rows: AtomicU64::new(0),
            killed: CancellationToken::new(),
            prepares: AtomicBool::new(false),
        });
        self.0.entries.lock().insert(number, entry.clone());
        Underway { queries: self.clone(), number, entry }
    }

    /// Stops a statement of somebody.
    ///
    /// # Errors
    /// NotFound where none of this id that they may know is under way here.
    pub(crate) fn kill(&self, id: &str, by: &Principal) -> Result<()> {
        let entries = self.0.entries.lock();
        let mut found = entries.values().filter(|entry| *entry.id == *id && entry.is_known_to(by)).peekable();
        if found.peek().is_none() {
            return Err(
                Error::not_found("no such query is under way on this node; SHOW QUERIES lists them").with("query", id)
            );
        }
        found.for_each(|entry| entry.killed.cancel());
        Ok(())
    }

    /// Stops the statements that came by a handle; whether there were any of somebody.
    pub(crate) fn cancel(&self, handle: &[u8; 16], by: &Principal) -> bool {
        let entries = self.0.entries.lock();
        let mut found = false;
        for entry in entries.values().filter(|entry| entry.handle.as_ref() == Some(handle) && entry.is_known_to(by)) {
            entry.killed.cancel();
            found = true;
        }
        found
    }

    /// One row for each that somebody may know.
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
            texts(|entry| STATES.get(usize::from(entry.state.load(Relaxed))).copied()),
            texts(|entry| entry.database.as_deref()),
            texts(|entry| entry.principal.user()),
            Arc::new(TimestampMillisecondArray::from_iter_values(started)),
            numbers(|entry| u64::try_from(entry.clock.elapsed().as_millis()).unwrap_or(u64::MAX)),
            numbers(|entry| entry.rows.load(Relaxed)),
            texts(|entry| Some(&entry.sql)),
        ];
        Ok(RecordBatch::try_new(self.0.schema.clone(), columns)?)
    }
}

impl Underway {
    /// Does a part of the statement, unless it was killed before the part is done.
    ///
    /// # Errors
    /// Those of the part; Conflict when it was killed.
    pub(crate) async fn unless_killed<T>(&self, part: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            biased;
            () = self.entry.killed.cancelled() => Err(budget::killed()),
            done = part => done,
        }
    }

    /// Resolves when it was killed.
    pub(crate) fn killed(&self) -> impl Future<Output = ()> + Send + 'static {
        self.entry.killed.clone().cancelled_owned()
    }

    /// Cancelled when it was killed.
    pub(crate) fn token(&self) -> CancellationToken {
        self.entry.killed.clone()
    }

    /// It is planned and no more: its execution will be counted, and this is not.
    pub(crate) fn only_prepares(&self) {
        self.entry.prepares.store(true, Relaxed);
    }

    /// It has its place among those that run.
    pub(crate) fn runs(&self) {
        self.entry.state.store(1, Relaxed);
    }

    /// It has its place, and is planned there and no more.
    pub(crate) fn plans(&self) {
        self.entry.state.store(3, Relaxed);
    }

    /// It gave its place away, as its client takes nothing.
    pub(crate) fn stalls(&self) {
        self.entry.state.store(2, Relaxed);
    }

    /// Rows go out.
    pub(crate) fn sent(&self, rows: usize) {
        self.entry.rows.fetch_add(rows as u64, Relaxed);
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        self.queries.0.entries.lock().remove(&self.number);
        let (entry, took) = (&self.entry, self.entry.clock.elapsed());
        let rows = entry.rows.load(Relaxed);
        if !entry.prepares.load(Relaxed) {
            counter!(QUERIES).increment(1);
            counter!(ROWS).increment(rows);
            histogram!(SECONDS).record(took.as_secs_f64());
        }
        if self.queries.0.slow.is_some_and(|slow| took >= slow) {
            let (id, user, database, sql) =
                (&*entry.id, entry.principal.user(), entry.database.as_deref(), entry.sql.as_str());
            let (took_ms, killed) = (took.as_millis() as u64, entry.killed.is_cancelled());
            tracing::warn!(target: "tidelake::slow", query = id, user, database, took_ms, rows, killed, sql, "a slow query");
        }
    }
}

impl Entry {
    fn is_known_to(&self, principal: &Principal) -> bool {
        principal.may_end(&self.principal)
    }
}
