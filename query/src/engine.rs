//! Executes a statement: from its text to a stream of batches.

mod admission;
mod apart;
mod config;
mod executable;
mod guard;
mod memory;
mod planners;
mod planning;
mod plans;
mod prepared;
mod rescan;
mod scans;
mod state;
mod template;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    execution::{SessionState, SessionStateBuilder},
    physical_plan::{execute_stream, execution_plan::reset_plan_states, stream::RecordBatchStreamAdapter},
};
use futures::{FutureExt, TryStreamExt as _};
use metrics::counter;
use tidelake_format::{
    Error, Kind, Reason, Result,
    access::{Deed, Principal, Privilege},
    meta::Root,
    snapshot::{Snapshot, SnapshotReader},
    step,
    steps::stepped,
};
use tidelake_protocol::sql::{self, Kill, Update};
use tokio::time::Instant;
use tracing::Span;

pub use self::{
    config::EngineConfig,
    prepared::{Outcome, Prepared, Statement},
    template::{Plan, Template},
};
pub use crate::{budget::keep_spans, scan::ScanSpec};

use self::{
    admission::{Admission, Permit, Who},
    memory::Shares,
    planners::{Planners, panicked},
    plans::{Executable, Plans},
    prepared::Text,
};
use crate::{
    budget::{self, Budget, Phase, too_long},
    error::{from_datafusion, to_datafusion},
    frontend,
    metrics::REFUSED,
    pace::beside_the_runtime,
    scan::{Reader, View},
    session::Session,
    system::{self, Connections, Load, Queries, System, Underway},
    tracked::{self, Follower},
    visible::Visible,
    writer::{WriteOutcome, Writer},
};

/// The plan cache may hold this fraction (1/16) of the query memory, in addition to it.
const PLANS_SHARE: usize = 16;

/// Plans and runs statements over one root. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    reader: Arc<Reader>,
    snapshots: Arc<SnapshotReader>,
    writer: Arc<dyn Writer>,
    config: EngineConfig,
    /// Functions, rules and the runtime; the state of each statement is a copy.
    base: SessionState,
    plans: Plans,
    planners: Planners,
    system: System,
    admission: Admission,
    stalled: guard::Stalled,
    shares: Shares,
}

/// A statement text above this many bytes takes milliseconds to parse; memory is reserved for its plans.
const LONG_TEXT: usize = 16 << 10;
/// Approximate memory of a statement's syntax tree and plans per token, measured with statements of many columns.
const TOKEN_BYTES: usize = 1 << 10;

/// A running statement's entry in SHOW QUERIES and its permit.
struct Place {
    /// Declared before the permit and so dropped first: SHOW QUERIES never lists this statement beside the one admitted next.
    underway: Underway,
    /// `None` while the client is stalled: the permit was released to other queries.
    permit: Option<Permit>,
}

impl Engine {
    /// Creates an engine over a root.
    pub fn new(root: Root, snapshots: Arc<SnapshotReader>, writer: Arc<dyn Writer>, config: EngineConfig) -> Self {
        budget::inherit();
        let base = state::base(&config);
        let reader = Reader::new(root, config.memory_bytes / 4, snapshots.tail_bytes(), config.page_bytes);
        let reader = Arc::new(reader);
        // Files change without a new version of the catalog.
        let plans = Plans::new(if config.files.is_some() { 0 } else { config.memory_bytes / PLANS_SHARE });
        let admission = Admission::new(config.concurrency, config.waiting);
        let stalled = guard::Stalled::new(config.waiting);
        let functions = system::functions::table(&base).expect("columns of one length and the types of the schema");
        let system = System::new(Queries::new(config.slow), config.variables.clone(), functions);
        Self {
            inner: Arc::new(Inner {
                reader,
                snapshots,
                writer,
                config,
                base,
                plans,
                planners: Planners::new(),
                system,
                admission,
                stalled,
                shares: Shares::default(),
            }),
        }
    }

    /// The writer for requests of the session.
    ///
    /// # Errors
    /// Invalid for an invalid idempotency key.
    pub fn writer(&self, session: &Session) -> Result<Arc<dyn Writer>> {
        self.inner.writer.of_request(session)
    }

    /// A cluster-unique ID for the next statement; returned to the client, listed by SHOW QUERIES, accepted by KILL QUERY.
    pub fn query_id(&self) -> Arc<str> {
        self.inner.system.queries.new_id()
    }

    /// Lets clients follow a statement of this ID until the result is dropped.
    ///
    /// # Errors
    /// Conflict if another running statement of the user has the ID.
    pub(crate) fn track(&self, id: Arc<str>, principal: &Principal) -> Result<tracked::Underway> {
        self.inner.system.tracking.begin(id, principal)
    }

    /// Follows a statement that `by` may end.
    ///
    /// # Errors
    /// NotFound if there is none of this ID; Unavailable with too many followers.
    pub(crate) fn follow(&self, id: &str, by: &Principal) -> Result<Follower> {
        self.inner.system.tracking.follow(id, by)
    }

    /// Cancels the running statements of a handle. Returns whether one was cancelled that the session's principal may end, or
    /// `is_withdrawn`: a statement of the handle that no client had fetched was withdrawn. Both together write one audit line.
    pub(crate) fn cancel(&self, session: &Session, handle: &[u8; 16], is_withdrawn: bool) -> bool {
        let found = self.inner.system.queries.cancel(handle, &session.principal) | is_withdrawn;
        if found {
            Deed { action: "CANCEL QUERY", ..Deed::default() }.record(&session.principal, &Ok(()));
        }
        found
    }

    /// The connections that SHOW CONNECTIONS lists. The server registers each accepted connection there.
    pub fn connections(&self) -> &Connections {
        &self.inner.system.connections
    }

    /// Numbers of statements by state.
    pub fn load(&self) -> Load {
        self.inner.system.queries.load()
    }

    /// Bytes of decoded pages of data files in memory.
    pub fn page_bytes(&self) -> usize {
        self.inner.reader.pages().bytes()
    }

    /// Bytes of the query memory that statements have reserved.
    pub fn reserved_bytes(&self) -> usize {
        self.inner.base.runtime_env().memory_pool.reserved()
    }

    /// The engine's configuration.
    pub fn config(&self) -> &EngineConfig {
        &self.inner.config
    }

    /// The databases and tables that the session may see, from a snapshot that includes the writes of the session's tokens.
    ///
    /// # Errors
    /// Unavailable when the store cannot be reached or the write of a token is not visible.
    pub async fn catalog(&self, session: &Session) -> Result<Visible> {
        Ok(Visible::new(self.snapshot(session).await?.catalog.clone(), session.principal.clone()))
    }

    /// Parses a statement. A query is planned too, or its plan is taken from the plan cache.
    ///
    /// # Errors
    /// Invalid with the position of a syntax error, or with the name that does not exist; Unavailable at the query timeout.
    pub async fn prepare(&self, session: &Session, sql: &str) -> Result<Arc<Prepared>> {
        let timeout = self.timeout(session);
        let prepared = tokio::time::timeout(timeout, self.prepare_at_last(session, sql));
        let prepared = prepared.await.map_err(|_| too_long(timeout))?;
        prepared.map_err(|error| located(session, sql, error))
    }

    async fn prepare_at_last(&self, session: &Session, sql: &str) -> Result<Arc<Prepared>> {
        let text = match self.read(session, sql)? {
            Text::Query(text) => text,
            Text::Update(update) if update.parameters() == 0 => {
                return Ok(Arc::new(Prepared::update(update, Vec::new(), session)));
            }
            Text::Update(update) => {
                let types = self.writer(session)?.parameters(session.database.as_deref(), &update).await?;
                return Ok(Arc::new(Prepared::update(update, frontend::column_fields(&types), session)));
            }
        };
        let snapshot = self.snapshot(session).await?;
        let text = match self.planned_already(session, sql, text, &snapshot) {
            Ok(prepared) => return Ok(prepared),
            Err(text) => text,
        };
        // Planning needs a permit like a running query, and ends at KILL and at the deadline.
        let underway = self.inner.system.queries.begin(session, sql);
        underway.only_prepares();
        let _permit = underway.unless_killed(self.permit(session, sql)).await?;
        underway.plans();
        let budget = self.budget(session, sql, Duration::ZERO, &underway)?;
        underway.unless_killed(self.plan(session, sql, text, &snapshot, &budget)).await
    }

    /// Runs a prepared statement: an update once per row of `parameters`, a query with at most one row of them.
    ///
    /// The result has the schema that [`Engine::prepare`] announced.
    ///
    /// # Errors
    /// Invalid for parameters that do not match, Conflict when a table changed so that the result no longer has the announced
    /// schema, Unavailable over a limit or a deadline.
    pub async fn run(
        &self,
        session: &Session,
        statement: &Arc<Prepared>,
        parameters: Option<RecordBatch>,
    ) -> Result<Outcome> {
        let outcome = Box::pin(self.run_prepared(session, statement, parameters)).await;
        outcome.map_err(|error| located(session, &statement.sql, error))
    }

    async fn run_prepared(
        &self,
        session: &Session,
        statement: &Arc<Prepared>,
        parameters: Option<RecordBatch>,
    ) -> Result<Outcome> {
        let schema = match &statement.kind {
            Statement::Query { schema, .. } => schema,
            Statement::Update(update) => return self.update(session, update, parameters).await,
        };
        let underway = self.inner.system.queries.begin(session, &statement.sql);
        let permit = underway.unless_killed(self.permit(session, &statement.sql)).await?;
        underway.runs();
        let snapshot = underway.unless_killed(self.snapshot(session)).await?;
        let budget = self.budget(session, &statement.sql, Duration::ZERO, &underway)?;
        let place = Place { underway, permit: Some(permit) };
        if snapshot.catalog.version == statement.version && session.principal == statement.principal {
            return self.execute(session, snapshot, statement, parameters, place, budget).await;
        }
        let Text::Query(text) = self.read(session, &statement.sql)? else {
            return Err(Error::internal("a query was parsed as an update"));
        };
        let again = self.plan(session, &statement.sql, text, &snapshot, &budget);
        let again = budget.in_time(place.underway.unless_killed(again)).await?;
        match &again.kind {
            Statement::Query { schema: new, .. } if new == schema => {
                self.execute(session, snapshot, &again, parameters, place, budget).await
            }
            _ => Err(Error::conflict("a table of this statement changed: prepare the statement again")),
        }
    }

    /// Prepares and runs a statement without parameters on one snapshot.
    ///
    /// # Errors
    /// As [`Engine::prepare`] and [`Engine::run`].
    pub async fn query(&self, session: &Session, sql: &str) -> Result<(Arc<Prepared>, Outcome)> {
        let outcome = Box::pin(self.query_text(session, sql)).await;
        outcome.map_err(|error| located(session, sql, error))
    }

    async fn query_text(&self, session: &Session, sql: &str) -> Result<(Arc<Prepared>, Outcome)> {
        let began = Instant::now();
        let text = match self.read(session, sql)? {
            Text::Query(text) => text,
            Text::Update(update) => {
                let outcome = self.update(session, &update, None).await?;
                return Ok((Arc::new(Prepared::update(update, Vec::new(), session)), outcome));
            }
        };
        let read_for = began.elapsed();
        let underway = self.inner.system.queries.begin(session, sql);
        let permit = underway.unless_killed(self.permit(session, sql)).await?;
        underway.runs();
        let snapshot = underway.unless_killed(self.snapshot(session)).await?;
        let budget = self.budget(session, sql, read_for, &underway)?;
        let prepared = underway.unless_killed(self.plan(session, sql, text, &snapshot, &budget));
        let prepared = budget.in_time(prepared).await?;
        let place = Place { underway, permit: Some(permit) };
        let outcome = self.execute(session, snapshot, &prepared, None, place, budget).await?;
        Ok((prepared, outcome))
    }

    /// Executes a statement that is not a query: the engine itself KILL and USE, the writer any other.
    async fn update(&self, session: &Session, update: &Update, parameters: Option<RecordBatch>) -> Result<Outcome> {
        let outcome = match update.statement() {
            sql::Statement::Use(name) => self.choose(session, name).await?,
            sql::Statement::Kill(kill) => {
                let killed = match kill {
                    Kill::Query(id) => self.inner.system.queries.kill(id, &session.principal),
                    Kill::Connection(id) => self.inner.system.connections.kill(id, &session.principal),
                };
                update.statement().deed(None).record(&session.principal, &killed);
                killed?;
                WriteOutcome { affected_rows: 1, ..WriteOutcome::default() }
            }
            _ => {
                let writer = self.writer(session)?;
                let write = AssertUnwindSafe(writer.execute(session.database.as_deref(), update, parameters));
                write.catch_unwind().await.map_err(|panic| fault(panic.as_ref()))??
            }
        };
        Ok(Outcome::Updated(outcome))
    }

    /// USE: resolves the new database of the session.
    async fn choose(&self, session: &Session, name: &str) -> Result<WriteOutcome> {
        let catalog = self.snapshot(session).await?.catalog.clone();
        let missing = || {
            let error = Error::not_found("no such database").because(Reason::DatabaseNotFound).with("database", name);
            let readable = catalog.databases().filter(|database| session.principal.knows(database));
            let error = error.suggest(name, readable.map(|database| database.name.as_str()));
            session.principal.missing(Privilege::Read, name, error)
        };
        let database = catalog.database(name).ok_or_else(missing)?;
        if !session.principal.knows(database) {
            let checked = session.principal.check(Privilege::Read, database);
            Deed::new("USE", &database.name).record_refusal(&session.principal, &checked);
            checked?;
        }
        Ok(WriteOutcome { use_database: Some(database.name.clone()), ..WriteOutcome::default() })
    }

    /// Starts a query with the cached physical plan for this snapshot, or a new one. The stream holds the permit and ends at
    /// the deadline.
    async fn execute(
        &self,
        session: &Session,
        snapshot: Arc<Snapshot>,
        statement: &Arc<Prepared>,
        parameters: Option<RecordBatch>,
        place: Place,
        budget: Budget,
    ) -> Result<Outcome> {
        let Statement::Query { schema, .. } = &statement.kind else {
            return Err(Error::internal("expected a query, found an update"));
        };
        let step = step!("query");
        let executable = self.executable(session, snapshot, statement, parameters, &budget);
        let executable = place.underway.unless_killed(stepped(step.clone(), executable));
        let executable = budget.in_time(executable).await?;
        let outcome = self.start(session, executable, schema.clone(), place, step, budget)?;
        let (session, sql) = (session.clone(), statement.sql.clone());
        Ok(match outcome {
            Outcome::Rows(rows) => {
                let placed = move |error| {
                    let error = located(&session, &sql, from_datafusion(error));
                    // Without the error beneath, which DataFusion takes for the root, and which has no place.
                    to_datafusion(if error.context("line").is_some() { error.copied() } else { error })
                };
                Outcome::Rows(Box::pin(RecordBatchStreamAdapter::new(rows.schema(), rows.map_err(placed))))
            }
            updated => updated,
        })
    }

    /// Starts a physical plan. The stream holds `place` and ends at the deadline.
    fn start(
        &self,
        session: &Session,
        executable: Executable,
        schema: SchemaRef,
        place: Place,
        step: Span,
        budget: Budget,
    ) -> Result<Outcome> {
        let apart = self.inner.config.compute_threads.as_ref().filter(|_| executable.is_long);
        let started = step.in_scope(|| {
            let plan_schema = executable.plan.schema();
            let start = || {
                let plan = reset_plan_states(executable.plan)?;
                execute_stream(plan, executable.context)
            };
            let start = || match apart {
                Some(threads) => Ok(apart::run(threads, plan_schema, start)),
                None => start(),
            };
            catch_unwind(AssertUnwindSafe(|| budget.enter(Phase::Execute, start)))
        });
        let stream = started.map_err(|panic| fault(panic.as_ref()))?.map_err(from_datafusion)?;
        let turns = guard::Turns {
            admission: self.inner.admission.clone(),
            stalled: self.inner.stalled.clone(),
            principal: session.principal.clone(),
        };
        let guard = guard::Guard::new(stream, schema, place, step, budget, turns);
        Ok(Outcome::Rows(Box::pin(guard)))
    }

    /// The query timeout of the session.
    fn timeout(&self, session: &Session) -> Duration {
        let own = session.principal.limits().time_ms.map(Duration::from_millis);
        own.map_or(self.inner.config.timeout, |own| own.min(self.inner.config.timeout))
    }

    /// The budget of a statement from its permit on. `read_for`, the time spent parsing its text, counts towards the timeout.
    fn budget(&self, session: &Session, sql: &str, read_for: Duration, underway: &Underway) -> Result<Budget> {
        let runtime = self.inner.base.runtime_env();
        let limited = self.inner.shares.limited(&session.principal, runtime);
        let pool = limited.as_ref().unwrap_or(runtime).memory_pool.clone();
        let timeout = self.timeout(session);
        let deadline = Instant::now() + timeout.saturating_sub(read_for);
        let budget = Budget::new(pool, deadline, timeout, underway.token()).counting(underway.progress());
        if sql.len() <= LONG_TEXT {
            return Ok(budget);
        }
        let tokens = beside_the_runtime(|| frontend::of(session.language).count_tokens(session, sql));
        budget.for_plans_of(tokens * TOKEN_BYTES)
    }

    async fn snapshot(&self, session: &Session) -> Result<Arc<Snapshot>> {
        self.inner.snapshots.snapshot(&session.tokens).await
    }

    /// The view and session state of one statement on one snapshot.
    fn state(&self, session: &Session, snapshot: Arc<Snapshot>) -> (Arc<View>, SessionState) {
        let view = Arc::new(View::new(snapshot, self.inner.reader.clone(), session.principal.clone()));
        let base = &self.inner.base;
        // Before the session's settings are applied: the builder recreates functions with the configuration of the base.
        let limited = self.inner.shares.limited(&session.principal, base.runtime_env());
        let limited = limited
            .map(|runtime| SessionStateBuilder::new_from_existing(base.clone()).with_runtime_env(runtime).build());
        let base = limited.as_ref().unwrap_or(base);
        let files = self.inner.config.files.as_ref();
        let state = state::of_statement(base, session, &view, &self.inner.system, files);
        (view, state)
    }

    /// Waits for a permit. Fails when the queue is full. A statement that only lists what runs on this node needs no permit, so
    /// that a user can find the query to kill.
    async fn permit(&self, session: &Session, sql: &str) -> Result<Permit> {
        if frontend::of(session.language).shows_this_node(sql) {
            return Ok(Permit::beside());
        }
        let entered = self.inner.admission.enter(Who::of(&session.principal), self.inner.config.timeout).await;
        if entered.is_err() {
            counter!(REFUSED).increment(1);
        }
        entered
    }
}

/// An error with its place in the statement, where the text shows it.
pub(crate) fn located(session: &Session, sql: &str, error: Error) -> Error {
    frontend::of(session.language).locate(session, sql, error)
}

/// The error of a statement that panicked; it is logged too.
fn fault(panic: &(dyn std::any::Any + Send)) -> Error {
    let error = panicked(panic);
    log_fault(&error);
    error
}

fn log_fault(error: &Error) {
    if error.kind() == Kind::Internal {
        tracing::error!(?error, "internal error in a statement");
    }
}

#[cfg(test)]
mod tests;
