//! One statement from text to a stream of batches.

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
    physical_plan::{execute_stream, execution_plan::reset_plan_states},
};
use futures::FutureExt;
use metrics::counter;
use tidelake_format::{
    Error, Kind, Reason, Result,
    access::{Deed, Privilege},
    meta::Root,
    nearest::nearest,
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
    error::from_datafusion,
    frontend,
    metrics::REFUSED,
    pace::beside_the_runtime,
    scan::{Reader, View},
    session::Session,
    system::{Connections, Queries, System, Underway},
    visible::Visible,
    writer::{WriteOutcome, Writer},
};

/// Which part of the queries' memory kept plans may take beside it.
const PLANS_SHARE: usize = 16;

/// Plans and runs statements over one root; cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
}

struct Inner {
    reader: Arc<Reader>,
    snapshots: Arc<SnapshotReader>,
    writer: Arc<dyn Writer>,
    config: EngineConfig,
    /// Functions, rules and the runtime, shared by every statement's own state.
    base: SessionState,
    plans: Plans,
    planners: Planners,
    system: System,
    admission: Admission,
    stalled: guard::Stalled,
    shares: Shares,
}

/// A statement of more bytes takes milliseconds to parse, and memory is reserved for its plans.
const LONG_TEXT: usize = 16 << 10;
/// The memory of a statement's syntax tree and plans for each of its tokens, about: measured with statements of many columns.
const TOKEN_BYTES: usize = 1 << 10;

/// The place of a statement among those that run.
struct Place {
    /// Above the permit, so that nobody sees it run beside the one that is let in after it.
    underway: Underway,
    /// None while its client takes nothing: then others have their turn.
    permit: Option<Permit>,
}

impl Engine {
    /// An engine over a root.
    pub fn new(root: Root, snapshots: Arc<SnapshotReader>, writer: Arc<dyn Writer>, config: EngineConfig) -> Self {
        budget::inherit();
        let base = state::base(&config);
        let reader = Arc::new(Reader::new(root, config.memory_bytes / 4, snapshots.tail_bytes()));
        let plans = Plans::new(config.memory_bytes / PLANS_SHARE);
        let admission = Admission::new(config.concurrency, config.waiting);
        let stalled = guard::Stalled::new(config.waiting);
        let system = System::new(Queries::new(config.slow), config.variables.clone());
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

    /// The door to the write path for the session.
    ///
    /// # Errors
    /// Invalid for a text that cannot be an idempotency key.
    pub fn writer(&self, session: &Session) -> Result<Arc<dyn Writer>> {
        self.inner.writer.of_request(session)
    }

    /// A name for the next statement, which no other one of any node has: what its session is told by, SHOW QUERIES lists it
    /// and KILL QUERY stops it.
    pub fn query_id(&self) -> Arc<str> {
        self.inner.system.queries.new_id()
    }

    /// Stops the statements under way that came by a handle; whether there were any that the session may know. `is_withdrawn` says
    /// that one which nobody had fetched was withdrawn before: the audit log has one line for both.
    pub(crate) fn cancel(&self, session: &Session, handle: &[u8; 16], is_withdrawn: bool) -> bool {
        let found = self.inner.system.queries.cancel(handle, &session.principal) | is_withdrawn;
        if found {
            Deed { action: "CANCEL QUERY", ..Deed::default() }.record(&session.principal, &Ok(()));
        }
        found
    }

    /// The connections that SHOW CONNECTIONS lists: whoever accepts one says so there.
    pub fn connections(&self) -> &Connections {
        &self.inner.system.connections
    }

    /// The databases and tables as the session sees them: those of a snapshot that holds its tokens.
    ///
    /// # Errors
    /// Unavailable when the store cannot be asked or a token is not to be seen.
    pub async fn catalog(&self, session: &Session) -> Result<Visible> {
        Ok(Visible::new(self.snapshot(session).await?.catalog.clone(), session.principal.clone()))
    }

    /// Parses a statement and, when it reads, plans it, or finds it planned already.
    ///
    /// # Errors
    /// Invalid with the place of a syntax error, or the name that does not exist; Unavailable when it takes longer than a
    /// query may.
    pub async fn prepare(&self, session: &Session, sql: &str) -> Result<Arc<Prepared>> {
        let timeout = self.timeout(session);
        let prepared = tokio::time::timeout(timeout, self.prepare_at_last(session, sql));
        prepared.await.map_err(|_| too_long(timeout))?
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
        // To plan is to compute: it has its place among the queries, and ends by KILL and at the deadline.
        let underway = self.inner.system.queries.begin(session, sql);
        underway.only_prepares();
        let _permit = underway.unless_killed(self.permit(session, sql)).await?;
        underway.plans();
        let budget = self.budget(session, sql, Duration::ZERO, &underway)?;
        underway.unless_killed(self.plan(session, sql, text, &snapshot, &budget)).await
    }

    /// Runs a prepared statement, once per row of `parameters` when it writes; with at most one row when it reads.
    ///
    /// The result has the schema that [`Engine::prepare`] announced.
    ///
    /// # Errors
    /// Invalid for parameters that do not fit, Conflict when the tables changed so that the announced schema does
    /// not hold any more, Unavailable over a limit or a deadline.
    pub async fn run(
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
            return Err(Error::internal("a statement that reads was read as one that writes"));
        };
        let again = self.plan(session, &statement.sql, text, &snapshot, &budget);
        let again = budget.in_time(place.underway.unless_killed(again)).await?;
        match &again.kind {
            Statement::Query { schema: new, .. } if new == schema => {
                self.execute(session, snapshot, &again, parameters, place, budget).await
            }
            _ => Err(Error::conflict("a table of this statement was changed: prepare it again")),
        }
    }

    /// Prepares and runs a statement without parameters, on one snapshot.
    ///
    /// # Errors
    /// As [`Engine::prepare`] and [`Engine::run`].
    pub async fn query(&self, session: &Session, sql: &str) -> Result<(Arc<Prepared>, Outcome)> {
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

    /// Executes a statement that is not a query: KILL and USE here, others by the writer.
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

    /// USE: the database of this name becomes the session's.
    async fn choose(&self, session: &Session, name: &str) -> Result<WriteOutcome> {
        let catalog = self.snapshot(session).await?.catalog.clone();
        let missing = || {
            let error = Error::not_found("no such database").because(Reason::DatabaseNotFound).with("database", name);
            let readable = catalog.databases().filter(|database| session.principal.knows(database));
            let names: Vec<&str> = readable.map(|database| database.name.as_str()).collect();
            let error = match nearest(name, &names) {
                Some(near) => error.with("did you mean", near),
                None => error,
            };
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

    /// Plans physically, unless that was done on this snapshot before, and starts: the stream holds the permit and
    /// ends at the deadline.
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
            return Err(Error::internal("only a statement that reads is executed here"));
        };
        let step = step!("query");
        let executable = self.executable(session, snapshot, statement, parameters, &budget);
        let executable = place.underway.unless_killed(stepped(step.clone(), executable));
        let executable = budget.in_time(executable).await?;
        self.start(session, executable, schema.clone(), place, step, budget)
    }

    /// Starts a physical plan: the stream holds the place and ends at the deadline.
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

    /// The longest that a query of the session may take.
    fn timeout(&self, session: &Session) -> Duration {
        let own = session.principal.limits().time_ms.map(Duration::from_millis);
        own.map_or(self.inner.config.timeout, |own| own.min(self.inner.config.timeout))
    }

    /// What a statement that has its place may use from now on; the time that its text took to parse counts too.
    fn budget(&self, session: &Session, sql: &str, read_for: Duration, underway: &Underway) -> Result<Budget> {
        let runtime = self.inner.base.runtime_env();
        let limited = self.inner.shares.limited(&session.principal, runtime);
        let pool = limited.as_ref().unwrap_or(runtime).memory_pool.clone();
        let timeout = self.timeout(session);
        let deadline = Instant::now() + timeout.saturating_sub(read_for);
        let budget = Budget::new(pool, deadline, timeout, underway.token());
        if sql.len() <= LONG_TEXT {
            return Ok(budget);
        }
        let tokens = beside_the_runtime(|| frontend::of(session.language).count_tokens(session, sql));
        budget.for_plans_of(tokens * TOKEN_BYTES)
    }

    async fn snapshot(&self, session: &Session) -> Result<Arc<Snapshot>> {
        self.inner.snapshots.snapshot(&session.tokens).await
    }

    /// The state of one statement on one snapshot.
    fn state(&self, session: &Session, snapshot: Arc<Snapshot>) -> (Arc<View>, SessionState) {
        let view = Arc::new(View::new(snapshot, self.inner.reader.clone(), session.principal.clone()));
        let base = &self.inner.base;
        // Before the session's own settings: building makes functions anew, with what they find.
        let limited = self.inner.shares.limited(&session.principal, base.runtime_env());
        let limited = limited
            .map(|runtime| SessionStateBuilder::new_from_existing(base.clone()).with_runtime_env(runtime).build());
        let state = state::of_statement(limited.as_ref().unwrap_or(base), session, &view, &self.inner.system);
        (view, state)
    }

    /// A place for a statement, which waits for one among the running queries and is refused when too many wait already.
    /// Whoever looks for the query to kill does not wait for it to end.
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

/// The error of a statement that panicked, which goes to the log as well.
fn fault(panic: &(dyn std::any::Any + Send)) -> Error {
    let error = panicked(panic);
    log_fault(&error);
    error
}

fn log_fault(error: &Error) {
    if error.kind() == Kind::Internal {
        tracing::error!(?error, "a statement met a fault of the server");
    }
}

#[cfg(test)]
mod tests;
