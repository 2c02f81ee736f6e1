//! Statements without preparation, and the execution of all statements.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{Schema, SchemaRef},
};
use arrow_flight::{
    FlightDescriptor, FlightEndpoint, FlightInfo, Ticket,
    sql::{CommandStatementQuery, CommandStatementUpdate, ProstMessageExt, TicketStatementQuery},
};
use datafusion::{common::runtime::SpawnedTask, execution::SendableRecordBatchStream};
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use serde::Deserialize;
use tidelake_format::{Error, Result};
use tonic::{Response, codegen::Bytes};

use super::{
    encode::{Messages, messages},
    handle::Handle,
    parameters,
    service::FlightSql,
    sessions,
};
use crate::{
    budget,
    engine::{Outcome, Prepared, Statement},
    error::from_datafusion,
    session::Session,
    wire,
    writer::WriteOutcome,
};

/// The schema that a statement's DoGet streams.
pub(super) fn schema_of(prepared: &Prepared) -> SchemaRef {
    match &prepared.kind {
        Statement::Query { schema, .. } => schema.clone(),
        Statement::Update(update) => wire::outcome_schema(update),
    }
}

/// A FlightInfo with a single endpoint without a location: the client fetches from the server it is connected to.
pub(super) fn flight_info(schema: &Schema, ticket: Bytes, descriptor: FlightDescriptor) -> Result<FlightInfo> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket { ticket });
    let info = FlightInfo::new().try_with_schema(schema)?;
    Ok(info.with_endpoint(endpoint).with_descriptor(descriptor).with_ordered(true))
}

/// InfluxDB 3's ticket, which its clients send to DoGet without a GetFlightInfo.
#[derive(Deserialize)]
struct InfluxTicket {
    #[serde(default)]
    database: Option<String>,
    sql_query: String,
    #[serde(default)]
    query_type: Option<String>,
    #[serde(default)]
    params: Option<serde_json::Map<String, serde_json::Value>>,
}

impl FlightSql {
    /// GetFlightInfo of a statement: plans a query and keeps the plan for the DoGet that follows; executes an update.
    pub(super) async fn statement_info(
        &self,
        session: &Session,
        command: CommandStatementQuery,
        descriptor: FlightDescriptor,
    ) -> Result<Response<FlightInfo>> {
        no_transaction(command.transaction_id.as_deref())?;
        let prepared = self.engine.prepare(session, &command.query).await?;
        let handle = Handle::new(self.new_key(), &command.query, session);
        if let Statement::Update(_) = prepared.kind {
            return self.written_info(session, &prepared, Vec::new(), handle, descriptor).await;
        }
        let info = flight_info(&schema_of(&prepared), ticket(&handle), descriptor)?;
        let bytes = plan_bytes(&prepared);
        self.plans.insert(handle.key(), prepared, bytes, self.now());
        Ok(Response::new(info))
    }

    /// Executes an update and puts its outcome into the ticket. It is executed here, not in DoGet, because drivers fetch the
    /// rows of a result only when their user reads them.
    pub(super) async fn written_info(
        &self,
        session: &Session,
        prepared: &Arc<Prepared>,
        bound: Vec<RecordBatch>,
        handle: Handle,
        descriptor: FlightDescriptor,
    ) -> Result<Response<FlightInfo>> {
        let outcome = self.update(session, prepared, bound).await?;
        let ticket = ticket(&handle.with_outcome(&outcome));
        let info = flight_info(&schema_of(prepared), ticket, descriptor)?;
        let mut response = Response::new(info.with_app_metadata(outcome.notices.join("\n")));
        note(session, &outcome, response.metadata_mut());
        Ok(response)
    }

    /// The result schema of a statement, without executing it.
    pub(super) async fn statement_schema(
        &self,
        session: &Session,
        command: CommandStatementQuery,
    ) -> Result<SchemaRef> {
        no_transaction(command.transaction_id.as_deref())?;
        Ok(schema_of(self.engine.prepare(session, &command.query).await?.as_ref()))
    }

    /// DoGet of a statement's ticket. A ticket may be used again; then the statement is planned again.
    pub(super) async fn statement_rows(
        &self,
        call: &Session,
        ticket: TicketStatementQuery,
    ) -> Result<Response<Messages>> {
        let handle = Handle::decode(&ticket.statement_handle)?;
        let session = handle.session(call)?;
        if let Some(outcome) = handle.outcome()? {
            return updated(&session, &outcome);
        }
        if self.cancelled.get(&handle.key(), self.now()).is_some() {
            return Err(budget::killed());
        }
        let is_theirs = |plan: &Arc<Prepared>| plan.principal == session.principal;
        let prepared = match self.plans.take_if(&handle.key(), self.now(), is_theirs) {
            Some(prepared) => prepared,
            None => self.prepare_of(&session, &handle).await?,
        };
        self.answer(&session, prepared, Vec::new()).await
    }

    /// DoGet of an InfluxDB 3 ticket.
    pub(super) async fn influx_rows(&self, call: &Session, ticket: &[u8]) -> Result<Response<Messages>> {
        let ticket: InfluxTicket = serde_json::from_slice(ticket).map_err(|e| {
            Error::invalid("invalid JSON ticket: expected \"sql_query\" and optionally \"database\"")
                .with("reason", &e)
                .source(e)
        })?;
        let language = ticket.query_type.as_deref().map(str::parse).transpose()?;
        if ticket.params.is_some_and(|p| !p.is_empty()) {
            return Err(Error::unsupported(
                "named parameters in a JSON ticket are not supported; prepare the statement with '?' instead",
            ));
        }
        let mut session = call.clone();
        session.language = language.unwrap_or_default();
        session.database = ticket.database.filter(|d| !d.is_empty()).or(session.database);
        match self.engine.query(&session, &ticket.sql_query).await?.1 {
            Outcome::Rows(rows) => {
                Ok(Response::new(messages(rows.schema(), batches(rows), Bytes::new(), session.ipc_compression)?))
            }
            Outcome::Updated(outcome) => updated(&session, &outcome),
        }
    }

    /// DoPut of an update.
    pub(super) async fn statement_update(
        &self,
        session: &Session,
        command: CommandStatementUpdate,
    ) -> Result<WriteOutcome> {
        no_transaction(command.transaction_id.as_deref())?;
        let prepared = self.engine.prepare(session, &command.query).await?;
        if let Statement::Update(update) = &prepared.kind
            && update.creates_token()
        {
            return Err(Error::invalid("CREATE TOKEN returns a row: execute it as a query, not as an update"));
        }
        self.update(session, &prepared, Vec::new()).await
    }

    /// Runs a statement and streams its result: the rows of a query, one result after another per row of parameters, or the outcome
    /// of an update.
    pub(super) async fn answer(
        &self,
        session: &Session,
        prepared: Arc<Prepared>,
        bound: Vec<RecordBatch>,
    ) -> Result<Response<Messages>> {
        if let Statement::Update(_) = prepared.kind {
            let outcome = self.update(session, &prepared, bound).await?;
            return updated(session, &outcome);
        }
        let mut rows = single_rows(&prepared, bound)?.into_iter();
        let first = match self.engine.run(session, &prepared, rows.next().flatten()).await? {
            Outcome::Rows(rows) => rows,
            Outcome::Updated(outcome) => return updated(session, &outcome),
        };
        let schema = first.schema();
        let (engine, session, compression) = (self.engine.clone(), session.clone(), session.ipc_compression);
        let later = stream::iter(rows).then(move |row| {
            let (engine, session, prepared) = (engine.clone(), session.clone(), prepared.clone());
            // In a separate task, so that a permit acquired while the client is not reading is released again.
            let running = SpawnedTask::spawn(async move { engine.run(&session, &prepared, row).await });
            async move {
                match running.await.map_err(|e| Error::internal("query task failed").source(e))?? {
                    Outcome::Rows(rows) => Ok(batches(rows)),
                    Outcome::Updated(_) => Err(Error::internal("a query returned an update count")),
                }
            }
        });
        let all = batches(first).chain(later.try_flatten());
        Ok(Response::new(messages(schema, all, Bytes::new(), compression)?))
    }

    /// Runs an update once per bound row, or once when it has no parameters.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a query.
    pub(super) async fn update(
        &self,
        session: &Session,
        prepared: &Arc<Prepared>,
        bound: Vec<RecordBatch>,
    ) -> Result<WriteOutcome> {
        if prepared.parameters.is_empty() {
            return self.update_once(session, prepared, None).await;
        }
        if bound.is_empty() {
            return Err(unbound(prepared));
        }
        let mut total: Option<WriteOutcome> = None;
        for (i, batch) in bound.into_iter().filter(|b| b.num_rows() > 0).enumerate() {
            let bound = parameters::bind(prepared, &batch)?;
            let outcome = self.update_once(&session.part(i), prepared, Some(bound)).await?;
            total = Some(match total {
                Some(before) => before.then(outcome),
                None => outcome,
            });
        }
        Ok(total.unwrap_or_default())
    }

    async fn update_once(
        &self,
        session: &Session,
        prepared: &Arc<Prepared>,
        bound: Option<RecordBatch>,
    ) -> Result<WriteOutcome> {
        if let Statement::Query { .. } = prepared.kind {
            return Err(Error::invalid("statement returns rows: execute it as a query, not as an update"));
        }
        match self.engine.run(session, prepared, bound).await? {
            Outcome::Updated(outcome) => Ok(outcome),
            Outcome::Rows(_) => Err(Error::internal("an update returned rows")),
        }
    }
}

/// The ticket of a handle.
fn ticket(handle: &Handle) -> Bytes {
    TicketStatementQuery { statement_handle: handle.encode() }.as_any().encode_to_vec().into()
}

/// Estimated bytes of a cached plan, from its text and its parameters, as a short text may have many parameters.
pub(super) fn plan_bytes(prepared: &Prepared) -> usize {
    16_384 + 16 * prepared.sql.len() + prepared.parameter_bytes()
}

/// Converts the engine's stream to one with Tidelake's errors.
fn batches(rows: SendableRecordBatchStream) -> stream::BoxStream<'static, Result<RecordBatch>> {
    rows.map_err(from_datafusion).boxed()
}

fn updated(session: &Session, outcome: &WriteOutcome) -> Result<Response<Messages>> {
    let batch = wire::outcome_row(outcome)?;
    let token = outcome.token.map(|t| Bytes::from(t.to_string())).unwrap_or_default();
    let mut response = Response::new(messages(batch.schema(), stream::iter([Ok(batch)]), token, None)?);
    note(session, outcome, response.metadata_mut());
    Ok(response)
}

/// Adds the headers of an update to the reply: token and counts, and a new session cookie after USE.
pub(super) fn note(session: &Session, outcome: &WriteOutcome, reply: &mut tonic::metadata::MetadataMap) {
    sessions::hand_out(outcome, reply);
    if let Some(database) = &outcome.use_database {
        let session = Session { database: Some(database.clone()), ..session.clone() };
        sessions::remember(&session, reply);
    }
}

/// The bound rows as single-row batches: a query runs once per row, or once without parameters.
fn single_rows(prepared: &Arc<Prepared>, bound: Vec<RecordBatch>) -> Result<Vec<Option<RecordBatch>>> {
    if prepared.parameters.is_empty() {
        return Ok(vec![None]);
    }
    let mut rows = Vec::new();
    for batch in bound {
        let batch = parameters::bind(prepared, &batch)?;
        rows.extend((0..batch.num_rows()).map(|row| Some(batch.slice(row, 1))));
    }
    if rows.is_empty() { Err(unbound(prepared)) } else { Ok(rows) }
}

fn unbound(prepared: &Prepared) -> Error {
    Error::invalid("no values are bound to the statement's parameters, or they have expired: bind them again")
        .with("expected", format!("{} parameters", prepared.parameters.len()))
}

/// # Errors
/// [`Kind::Unsupported`](crate::Kind::Unsupported) when the call belongs to a transaction.
pub(super) fn no_transaction(id: Option<&[u8]>) -> Result<()> {
    match id {
        Some(id) if !id.is_empty() => {
            Err(Error::unsupported("transactions are not supported: each statement is its own transaction"))
        }
        _ => Ok(()),
    }
}
