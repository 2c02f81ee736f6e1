//! One statement from text to a stream of batches.

mod admission;
mod guard;
mod memory;
mod plans;
mod spans;
mod state;
mod template;

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{Field, Schema, SchemaRef},
};
use datafusion::{
    common::ScalarValue,
    execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder, context::SQLOptions},
    logical_expr::LogicalPlan,
    physical_plan::{execute_stream, execution_plan::reset_plan_states},
};
use metrics::counter;
use tidelake_format::{
    Error, Result,
    access::{Principal, Privilege},
    ids::Version,
    meta::Root,
    snapshot::{Snapshot, SnapshotReader},
    step,
    steps::stepped,
};
use tokio::runtime::Handle;

pub use self::{
    spans::keep_spans,
    template::{Plan, Template},
};

use self::{
    admission::{Admission, Permit, Who},
    memory::Shares,
    plans::{Executable, Plans},
};
use crate::{
    dialect::{self, Kill, Parsed, Shape, StatementKind},
    error::from_datafusion,
    metrics::REFUSED,
    session::Session,
    system::{Connections, Queries, System, Underway},
    table::{Reader, View, Visible},
    wire::wire_schema,
    writer::{WriteOutcome, Writer},
};

/// The name of the one catalog, whose schemas are the databases.
pub const CATALOG: &str = "tidelake";

/// Which part of the queries' memory kept plans may take beside it.
const PLANS_SHARE: usize = 16;

/// A statement that was parsed, and planned when it reads.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The text, with `?` where it has parameters.
    pub sql: String,
    /// What it does.
    pub kind: Statement,
    /// One field per parameter, in order, of the types that drivers can bind (Int64, Float64, Utf8, Timestamp(ms)).
    pub parameters: Vec<Field>,
    /// The version of the catalog that names and types were looked up in.
    pub version: Version,
    /// By whose rights names were looked up: nobody else runs it as it is.
    pub principal: Principal,
}

impl Prepared {
    /// What the parameters take, about.
    pub(crate) fn parameter_bytes(&self) -> usize {
        PARAMETER_BYTES * self.parameters.len()
    }
}

/// A field with its name.
const PARAMETER_BYTES: usize = size_of::<Field>() + 64;

/// What a prepared statement does.
#[derive(Debug, Clone)]
pub enum Statement {
    /// It reads: the plan and the schema that goes over the wire ([`crate::wire`]).
    Query {
        /// Bound to no snapshot: each run reads a new one.
        plan: Arc<Plan>,
        /// The result's names and wire types.
        schema: SchemaRef,
    },
    /// It writes (the [`Writer`] gets its text), or chooses a database.
    Update,
}

/// What an execution gives.
pub enum Outcome {
    /// Rows, already in wire types and under their final names.
    Rows(SendableRecordBatchStream),
    /// A write.
    Updated(WriteOutcome),
}

impl Prepared {
    /// The template that it is, and the schema of its result.
    fn template(&self) -> Option<(&Template, &SchemaRef)> {
        match &self.kind {
            Statement::Query { plan, schema } => match plan.as_ref() {
                Plan::Template(template) => Some((template, schema)),
                _ => None,
            },
            Statement::Update => None,
        }
    }
}

/// A statement's text, read as far as planning needs it.
enum Text {
    Query(QueryText),
    /// Its number of parameters.
    Update(usize),
}

/// The text of a statement that reads.
enum QueryText {
    /// It was planned before, maybe on another catalog.
    Known(Arc<Prepared>),
    /// It may have the plan of its shape.
    Shaped(Shape),
    Parsed(Box<Parsed>),
}

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
    system: System,
    admission: Admission,
    stalled: guard::Stalled,
    shares: Shares,
}

/// The place of a statement among those that run.
struct Place {
    /// None while its client takes nothing: then others have their turn.
    permit: Option<Permit>,
    underway: Underway,
}

/// Limits of the engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Memory of all queries together, in bytes; they spill beyond it.
    pub memory_bytes: usize,
    /// Threads of one query's scan and aggregation.
    pub partitions: usize,
    /// The longest a query may take.
    pub timeout: std::time::Duration,
    /// Queries at once; more wait.
    pub concurrency: usize,
    /// Queries that wait for their turn; more are refused.
    pub waiting: usize,
    /// Queries that take longer are logged; `None` = none.
    pub slow: Option<std::time::Duration>,
    /// The settings that SHOW VARIABLES tells administrators, without secrets.
    pub variables: Vec<(String, String)>,
    /// Where sorts run the tasks that they start: hundreds at once compute for milliseconds each, and what is in one queue
    /// with them waits. `None` = where the query runs.
    pub sort_threads: Option<Handle>,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            memory_bytes: 256 << 20,
            partitions: 1,
            timeout: std::time::Duration::from_secs(300),
            concurrency: 16,
            waiting: 160,
            slow: None,
            variables: Vec::new(),
            sort_threads: None,
        }
    }
}

impl Engine {
    /// An engine over a root.
    pub fn new(root: Root, snapshots: Arc<SnapshotReader>, writer: Arc<dyn Writer>, config: EngineConfig) -> Self {
        let base = state::base(&config);
        let reader = Arc::new(Reader::new(root, config.memory_bytes / 4));
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

    /// Stops the statements under way that came by a handle; whether there were any that the session may know.
    pub(crate) fn cancel(&self, session: &Session, handle: &[u8; 16]) -> bool {
        let found = self.inner.system.queries.cancel(handle, &session.principal);
        if found {
            tracing::info!(target: "tidelake::audit", user = session.principal.user(), "a query was cancelled");
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
    /// Invalid with the place of a syntax error, or the name that does not exist.
    pub async fn prepare(&self, session: &Session, sql: &str) -> Result<Arc<Prepared>> {
        let text = match self.read(session, sql)? {
            Text::Query(text) => text,
            Text::Update(0) => return Ok(Arc::new(update(sql, Vec::new()))),
            Text::Update(_) => {
                let types = self.writer(session)?.parameters(session.database.as_deref(), sql).await?;
                return Ok(Arc::new(update(sql, dialect::column_fields(&types))));
            }
        };
        self.plan(session, sql, text, &self.snapshot(session).await?).await
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
        let Statement::Query { schema, .. } = &statement.kind else {
            return self.update(session, &statement.sql, parameters).await;
        };
        let underway = self.inner.system.queries.begin(session, &statement.sql);
        let permit = underway.unless_killed(self.permit(session, &statement.sql)).await?;
        underway.runs();
        let snapshot = underway.unless_killed(self.snapshot(session)).await?;
        let place = Place { permit: Some(permit), underway };
        if snapshot.catalog.version == statement.version && session.principal == statement.principal {
            return self.execute(session, snapshot, statement, parameters, place).await;
        }
        let Text::Query(text) = self.read(session, &statement.sql)? else {
            return Err(Error::internal("a statement that reads was read as one that writes"));
        };
        let again = self.plan(session, &statement.sql, text, &snapshot).await?;
        match &again.kind {
            Statement::Query { schema: new, .. } if new == schema => {
                self.execute(session, snapshot, &again, parameters, place).await
            }
            _ => Err(Error::conflict("a table of this statement was changed: prepare it again")),
        }
    }

    /// Prepares and runs a statement without parameters, on one snapshot.
    ///
    /// # Errors
    /// As [`Engine::prepare`] and [`Engine::run`].
    pub async fn query(&self, session: &Session, sql: &str) -> Result<(Arc<Prepared>, Outcome)> {
        let Text::Query(text) = self.read(session, sql)? else {
            let outcome = self.update(session, sql, None).await?;
            return Ok((Arc::new(update(sql, Vec::new())), outcome));
        };
        let underway = self.inner.system.queries.begin(session, sql);
        let permit = underway.unless_killed(self.permit(session, sql)).await?;
        underway.runs();
        let snapshot = underway.unless_killed(self.snapshot(session)).await?;
        let prepared = underway.unless_killed(self.plan(session, sql, text, &snapshot)).await?;
        let outcome =
            self.execute(session, snapshot, &prepared, None, Place { permit: Some(permit), underway }).await?;
        Ok((prepared, outcome))
    }

    async fn update(&self, session: &Session, sql: &str, parameters: Option<RecordBatch>) -> Result<Outcome> {
        let parsed = dialect::parse(sql, session.double_quotes)?;
        let name = match parsed.kind {
            StatementKind::Use(name) => name,
            StatementKind::Kill(kill) => {
                let user = session.principal.user();
                match kill {
                    Kill::Query(id) => {
                        self.inner.system.queries.kill(&id, &session.principal)?;
                        tracing::info!(target: "tidelake::audit", user, query = id, "a query was killed");
                    }
                    Kill::Connection(id) => {
                        self.inner.system.connections.kill(&id, &session.principal)?;
                        tracing::info!(target: "tidelake::audit", user, connection = id, "a connection was killed");
                    }
                }
                return Ok(Outcome::Updated(WriteOutcome { affected_rows: 1, ..WriteOutcome::default() }));
            }
            StatementKind::Reads | StatementKind::Writes => {
                let outcome = self.writer(session)?.execute(session.database.as_deref(), sql, parameters).await?;
                return Ok(Outcome::Updated(outcome));
            }
        };
        let catalog = self.snapshot(session).await?.catalog.clone();
        let database = catalog
            .database(&name)
            .ok_or_else(|| Error::not_found("there is no such database").with("database", &name))?;
        if !session.principal.knows(database.id) {
            session.principal.check(Privilege::Read, database)?;
        }
        Ok(Outcome::Updated(WriteOutcome { use_database: Some(database.name.clone()), ..WriteOutcome::default() }))
    }

    /// Reads a text as far as planning needs it.
    fn read(&self, session: &Session, sql: &str) -> Result<Text> {
        if let Some(known) = self.inner.plans.prepared(session, sql) {
            return Ok(Text::Query(QueryText::Known(known)));
        }
        if let Some(shape) = dialect::shape(sql, session.double_quotes) {
            return Ok(Text::Query(QueryText::Shaped(shape)));
        }
        let parsed = dialect::parse(sql, session.double_quotes)?;
        Ok(match parsed.kind {
            StatementKind::Reads => Text::Query(QueryText::Parsed(Box::new(parsed))),
            _ => Text::Update(parsed.parameters),
        })
    }

    /// Plans a statement that reads, or finds it planned for the catalog of this snapshot already.
    async fn plan(
        &self,
        session: &Session,
        sql: &str,
        text: QueryText,
        snapshot: &Arc<Snapshot>,
    ) -> Result<Arc<Prepared>> {
        let shape = match text {
            QueryText::Known(known) if known.version == snapshot.catalog.version => return Ok(known),
            QueryText::Known(_) => dialect::shape(sql, session.double_quotes),
            QueryText::Shaped(shape) => Some(shape),
            QueryText::Parsed(parsed) => return self.plan_parsed(session, sql, &parsed, snapshot).await,
        };
        if let Some(shape) = shape
            && let Some(prepared) = self.plan_by_shape(session, sql, &shape, snapshot).await
        {
            return Ok(prepared);
        }
        self.plan_parsed(session, sql, &dialect::parse(sql, session.double_quotes)?, snapshot).await
    }

    async fn plan_parsed(
        &self,
        session: &Session,
        sql: &str,
        parsed: &Parsed,
        snapshot: &Arc<Snapshot>,
    ) -> Result<Arc<Prepared>> {
        let (view, state) = self.state(session, snapshot.clone());
        let prepared = Arc::new(stepped(step!("plan"), plan(sql, parsed, session, &view, &state)).await?);
        self.inner.plans.keep(session, &prepared);
        Ok(prepared)
    }

    /// Puts the literals of a statement into the plan of its shape; `None` where that cannot be planned, or a literal
    /// is not of its column's type: then its own text is planned, or gives the error.
    async fn plan_by_shape(
        &self,
        session: &Session,
        sql: &str,
        shape: &Shape,
        snapshot: &Arc<Snapshot>,
    ) -> Option<Arc<Prepared>> {
        let known = self.inner.plans.prepared(session, &shape.sql);
        let version = snapshot.catalog.version;
        let general = match known.filter(|k| k.version == version) {
            Some(known) => known,
            None => {
                let parsed = dialect::parse(&shape.sql, session.double_quotes).ok()?;
                self.plan_parsed(session, &shape.sql, &parsed, snapshot).await.ok()?
            }
        };
        let (template, schema) = general.template()?;
        let values = shape.values(template.types(), session.time_zone)?;
        let kind = Statement::Query { plan: Arc::new(Plan::Instance(general.clone(), values)), schema: schema.clone() };
        let principal = session.principal.clone();
        let prepared = Arc::new(Prepared { sql: sql.to_owned(), kind, parameters: Vec::new(), version, principal });
        self.inner.plans.keep(session, &prepared);
        Some(prepared)
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
    ) -> Result<Outcome> {
        let Statement::Query { schema, .. } = &statement.kind else {
            return Err(Error::internal("only a statement that reads is executed here"));
        };
        let own = session.principal.limits().time_ms.map(std::time::Duration::from_millis);
        let timeout = own.map_or(self.inner.config.timeout, |own| own.min(self.inner.config.timeout));
        let deadline = tokio::time::Instant::now() + timeout;
        let step = step!("query");
        let executable = self.executable(session, snapshot, statement, parameters);
        let executable = place.underway.unless_killed(stepped(step.clone(), executable));
        let executable = tokio::time::timeout_at(deadline, executable);
        let executable = executable.await.map_err(|_| guard::too_long(timeout))??;
        let plan = reset_plan_states(executable.plan).map_err(from_datafusion)?;
        let stream = step.in_scope(|| execute_stream(plan, executable.context)).map_err(from_datafusion)?;
        let turns = guard::Turns {
            admission: self.inner.admission.clone(),
            stalled: self.inner.stalled.clone(),
            principal: session.principal.clone(),
        };
        let guard = guard::Guard::new(stream, schema.clone(), place, step, guard::Until { deadline, timeout }, turns);
        Ok(Outcome::Rows(Box::pin(guard)))
    }

    /// The physical plan of a statement on a snapshot of the same catalog.
    async fn executable(
        &self,
        session: &Session,
        snapshot: Arc<Snapshot>,
        statement: &Arc<Prepared>,
        parameters: Option<RecordBatch>,
    ) -> Result<Executable> {
        let Statement::Query { plan, .. } = &statement.kind else {
            return Err(Error::internal("only a statement that reads is executed here"));
        };
        let kept = statement.parameters.is_empty();
        if kept && let Some(known) = self.inner.plans.executable(session, statement, &snapshot) {
            return Ok(known);
        }
        let values = if kept { Vec::new() } else { values(statement, parameters)? };
        let executable = match plan.as_ref() {
            Plan::Optimized(plan) => {
                let (_, state) = self.state(session, snapshot.clone());
                let plan = state.query_planner().create_physical_plan(plan, &state).await.map_err(from_datafusion)?;
                Executable { plan, context: state.task_ctx(), rescan: None }
            }
            Plan::Instance(general, values) => self.instance(session, &snapshot, general, values.clone()).await?,
            Plan::Template(template) => match template.exact(&values) {
                Some(exact) => return self.instance(session, &snapshot, statement, exact).await,
                None => {
                    let plan = template.bind_inexact(values).map_err(from_datafusion)?;
                    return self.optimized(session, snapshot, &plan).await;
                }
            },
            Plan::Analyzed(plan) if kept => return self.optimized(session, snapshot, plan).await,
            Plan::Analyzed(plan) => {
                let plan = plan.clone().with_param_values(values).map_err(from_datafusion)?;
                return self.optimized(session, snapshot, &plan).await;
            }
        };
        self.inner.plans.keep_executable(session, statement, &snapshot, &executable);
        Ok(executable)
    }

    /// The physical plan of an analyzed plan without parameters.
    async fn optimized(&self, session: &Session, snapshot: Arc<Snapshot>, plan: &LogicalPlan) -> Result<Executable> {
        let (_, state) = self.state(session, snapshot);
        let plan = state.create_physical_plan(plan).await.map_err(from_datafusion)?;
        Ok(Executable { plan, context: state.task_ctx(), rescan: None })
    }

    /// The physical plan of a template with values of exactly its types: the one made for the last values with another
    /// scan, where these differ in nothing else.
    async fn instance(
        &self,
        session: &Session,
        snapshot: &Arc<Snapshot>,
        general: &Arc<Prepared>,
        values: Vec<ScalarValue>,
    ) -> Result<Executable> {
        let (template, _) = general.template().ok_or_else(|| Error::internal("values, and no place for them"))?;
        let known = self.inner.plans.executable(session, general, snapshot);
        if let Some(Executable { context, rescan: Some(rescan), .. }) = known
            && let Some(plan) = rescan.with(&values).await.map_err(from_datafusion)?
        {
            return Ok(Executable { plan, context, rescan: None });
        }
        let (_, state) = self.state(session, snapshot.clone());
        let plan = template.bind(values).map_err(from_datafusion)?;
        let plan = state.query_planner().create_physical_plan(&plan, &state).await.map_err(from_datafusion)?;
        let mut executable = Executable { plan, context: state.task_ctx(), rescan: None };
        if let Some(rescan) = template.rescan(state, &executable.plan) {
            executable.rescan = Some(Arc::new(rescan));
            self.inner.plans.keep_executable(session, general, snapshot, &executable);
            executable.rescan = None;
        }
        Ok(executable)
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

    /// Waits for a place among the running queries; refuses when too many wait already.
    /// A place for a statement. Whoever looks for the query to kill does not wait for it to end.
    async fn permit(&self, session: &Session, sql: &str) -> Result<Permit> {
        if dialect::shows_this_node(sql) {
            return Ok(Permit::beside());
        }
        let entered = self.inner.admission.enter(Who::of(&session.principal), self.inner.config.timeout).await;
        if entered.is_err() {
            counter!(REFUSED).increment(1);
        }
        entered
    }
}

/// Plans a statement that reads and settles the schema of its result.
async fn plan(sql: &str, parsed: &Parsed, session: &Session, view: &View, state: &SessionState) -> Result<Prepared> {
    let planned = dialect::plan(parsed, state, session, view).await?;
    // whatever came through the dialect: no query may change the session, the disk or the catalog
    let reading = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    reading.verify_plan(&planned.plan).map_err(from_datafusion)?;
    let fields = planned.plan.schema().fields();
    if fields.len() != planned.names.len() {
        return Err(Error::internal("a plan has another number of columns than names")
            .with("expected", planned.names.len())
            .with("found", fields.len()));
    }
    let named = fields.iter().zip(planned.names).map(|(f, name)| f.as_ref().clone().with_name(name));
    let schema = wire_schema(&Schema::new(named.collect::<Vec<_>>()));
    let plan = Arc::new(Plan::new(planned.plan, planned.parameters.len(), state).map_err(from_datafusion)?);
    Ok(Prepared {
        sql: sql.to_owned(),
        kind: Statement::Query { plan, schema },
        parameters: planned.parameters,
        version: view.snapshot.catalog.version,
        principal: session.principal.clone(),
    })
}

fn update(sql: &str, parameters: Vec<Field>) -> Prepared {
    let (version, principal) = (Version::default(), Principal::ANYONE);
    Prepared { sql: sql.to_owned(), kind: Statement::Update, parameters, version, principal }
}

/// The one row of parameters of a query, as `$1…`.
fn values(statement: &Prepared, parameters: Option<RecordBatch>) -> Result<Vec<ScalarValue>> {
    let expected = statement.parameters.len();
    let wrong = |found: String| {
        Err(Error::invalid("a query takes one row with one value for each parameter")
            .with("expected", format!("1 row x {expected}"))
            .with("found", found))
    };
    let Some(batch) = parameters else { return wrong("none".to_owned()) };
    if batch.num_rows() != 1 || batch.num_columns() != expected {
        return wrong(format!("{} rows x {}", batch.num_rows(), batch.num_columns()));
    }
    let values = batch.columns().iter().map(|c| ScalarValue::try_from_array(c, 0));
    values.collect::<Result<_, _>>().map_err(from_datafusion)
}

#[cfg(test)]
mod tests;
