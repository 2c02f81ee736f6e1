//! Statements without preparation, and the answer to any statement that runs.

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
    encode::{FlightStream, messages},
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

/// A FlightInfo with the one endpoint that clients want: no location, which means "where you asked".
pub(super) fn flight_info(schema: &Schema, ticket: Bytes, descriptor: FlightDescriptor) -> Result<FlightInfo> {
    let endpoint = FlightEndpoint::new().with_ticket(Ticket { ticket });
    let info = FlightInfo::new().try_with_schema(schema)?;
    Ok(info.with_endpoint(endpoint).with_descriptor(descriptor).with_ordered(true))
}

/// InfluxDB 3's ticket, which its clients send straight to DoGet.
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
    /// GetFlightInfo of a statement: plans it, and keeps the plan for the DoGet that follows; one that writes is executed.
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

    /// Executes a statement that writes, and puts what it did into the ticket: drivers ask for the rows of a result only
    /// when their user does, and the statement was executed nevertheless.
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

    /// The schema of a statement, which is not executed.
    pub(super) async fn statement_schema(
        &self,
        session: &Session,
        command: CommandStatementQuery,
    ) -> Result<SchemaRef> {
        no_transaction(command.transaction_id.as_deref())?;
        Ok(schema_of(self.engine.prepare(session, &command.query).await?.as_ref()))
    }

    /// DoGet of a statement's ticket; a ticket may be used again, then the statement is planned again.
    pub(super) async fn statement_rows(
        &self,
        call: &Session,
        ticket: TicketStatementQuery,
    ) -> Result<Response<FlightStream>> {
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
    pub(super) async fn influx_rows(&self, call: &Session, ticket: &[u8]) -> Result<Response<FlightStream>> {
        let ticket: InfluxTicket = serde_json::from_slice(ticket).map_err(|e| {
            Error::invalid("a JSON ticket holds \"sql_query\" and perhaps \"database\"").with("reason", &e).source(e)
        })?;
        let language = ticket.query_type.as_deref().map(str::parse).transpose()?;
        if ticket.params.is_some_and(|p| !p.is_empty()) {
            return Err(Error::unsupported(
                "named parameters in a JSON ticket; prepare the statement with '?' instead",
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
            return Err(Error::invalid("CREATE TOKEN gives a row, the token: execute it as a query"));
        }
        self.update(session, &prepared, Vec::new()).await
    }

    /// Runs a statement and streams what it gives: rows, one result per row of parameters after the other, or the
    /// number of rows that it wrote.
    pub(super) async fn answer(
        &self,
        session: &Session,
        prepared: Arc<Prepared>,
        bound: Vec<RecordBatch>,
    ) -> Result<Response<FlightStream>> {
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
            // In a task of its own: a place that it comes by while the client takes nothing is given away again.
            let running = SpawnedTask::spawn(async move { engine.run(&session, &prepared, row).await });
            async move {
                match running.await.map_err(|e| Error::internal("a query was broken off").source(e))?? {
                    Outcome::Rows(rows) => Ok(batches(rows)),
                    Outcome::Updated(_) => Err(Error::internal("a statement that reads has written")),
                }
            }
        });
        let all = batches(first).chain(later.try_flatten());
        Ok(Response::new(messages(schema, all, Bytes::new(), compression)?))
    }

    /// Runs a statement that writes, once per bound row, or once when it has no parameters.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a statement that reads.
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
            return Err(Error::invalid("the statement gives rows; execute it as a query, not as an update"));
        }
        match self.engine.run(session, prepared, bound).await? {
            Outcome::Updated(outcome) => Ok(outcome),
            Outcome::Rows(_) => Err(Error::internal("a statement that writes has given rows")),
        }
    }
}

/// The ticket of a handle.
fn ticket(handle: &Handle) -> Bytes {
    TicketStatementQuery { statement_handle: handle.encode() }.as_any().encode_to_vec().into()
}

/// What a cached plan weighs: a guess, by its text and its parameters, of which a short text may have many.
pub(super) fn plan_bytes(prepared: &Prepared) -> usize {
    16_384 + 16 * prepared.sql.len() + prepared.parameter_bytes()
}

/// Ours, out of the engine's.
fn batches(rows: SendableRecordBatchStream) -> stream::BoxStream<'static, Result<RecordBatch>> {
    rows.map_err(from_datafusion).boxed()
}

fn updated(session: &Session, outcome: &WriteOutcome) -> Result<Response<FlightStream>> {
    let batch = wire::outcome_row(outcome)?;
    let token = outcome.token.map(|t| Bytes::from(t.to_string())).unwrap_or_default();
    let mut response = Response::new(messages(batch.schema(), stream::iter([Ok(batch)]), token, None)?);
    note(session, outcome, response.metadata_mut());
    Ok(response)
}

/// Tells the client in headers what a write means for its later calls.
pub(super) fn note(session: &Session, outcome: &WriteOutcome, reply: &mut tonic::metadata::MetadataMap) {
    sessions::hand_out(outcome, reply);
    if let Some(database) = &outcome.use_database {
        let session = Session { database: Some(database.clone()), ..session.clone() };
        sessions::remember(&session, reply);
    }
}

/// The bound rows one by one: a query runs once for each, or once without.
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
    Error::invalid("the statement has parameters and no values are bound to them (or they have expired: bind again)")
        .with("expected", format!("{} parameters", prepared.parameters.len()))
}

/// # Errors
/// [`Kind::Unsupported`](crate::Kind::Unsupported) when the call belongs to a transaction.
pub(super) fn no_transaction(id: Option<&[u8]>) -> Result<()> {
    match id {
        Some(id) if !id.is_empty() => Err(Error::unsupported("transactions: each statement is one of its own")),
        _ => Ok(()),
    }
}
