//! Prepared statements: create, bind, execute, close.
//!
//! The handle carries the statement, so it outlives this node's cache entry. Bound parameters are kept on the node that received
//! them until they are replaced, the statement is closed, or it is unused for [`super::service::KEEP`].

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{Field, Schema, SchemaRef},
};
use arrow_flight::{
    FlightData, FlightDescriptor, FlightInfo,
    sql::{
        ActionClosePreparedStatementRequest, ActionCreatePreparedStatementRequest, ActionCreatePreparedStatementResult,
        CommandPreparedStatementQuery, CommandPreparedStatementUpdate, DoPutPreparedStatementResult, ProstMessageExt,
    },
};
use futures::{Stream, TryStreamExt};
use prost::Message;
use tidelake_format::{Error, Kind, Result};
use tonic::{Response, Status, codegen::Bytes};

use super::{
    decode::{Bodies, Unpacked, decoded},
    encode::{Messages, schema_message},
    handle::Handle,
    parameters,
    service::FlightSql,
    statements::{flight_info, no_transaction, plan_bytes, schema_of},
};
use crate::{
    engine::{Prepared, Statement},
    session::Session,
    writer::WriteOutcome,
};

/// Maximum number of bytes of one statement's bound parameters on a node.
const BOUND_BYTES: usize = 64 << 20;

/// A node's cache entry for a handle.
#[derive(Clone)]
pub(super) struct Kept {
    prepared: Arc<Prepared>,
    bound: Arc<Vec<RecordBatch>>,
}

impl FlightSql {
    /// CreatePreparedStatement. An update has an empty result schema, by which JDBC distinguishes updates from queries. The
    /// exception is an update that creates a token.
    pub(super) async fn create_prepared(
        &self,
        session: &Session,
        request: ActionCreatePreparedStatementRequest,
    ) -> Result<ActionCreatePreparedStatementResult> {
        no_transaction(request.transaction_id.as_deref())?;
        let prepared = self.engine.prepare(session, &request.query).await?;
        let handle = Handle::new(self.new_key(), &request.query, session);
        let dataset_schema = match &prepared.kind {
            Statement::Query { schema, .. } => schema_message(schema)?,
            Statement::Update(update) if update.creates_token() => schema_message(&schema_of(&prepared))?,
            Statement::Update(_) => Bytes::new(),
        };
        let parameter_schema = match prepared.parameters.is_empty() {
            true => Bytes::new(),
            false => schema_message(&Arc::new(Schema::new(named(&prepared.parameters))))?,
        };
        let kept = Kept { prepared, bound: Arc::default() };
        self.keep(&handle, kept);
        Ok(ActionCreatePreparedStatementResult {
            prepared_statement_handle: handle.encode(),
            dataset_schema,
            parameter_schema,
        })
    }

    /// ClosePreparedStatement: removes the node's entry. Closing twice is not an error; a statement of another user is kept.
    pub(super) fn close_prepared(
        &self,
        session: &Session,
        request: &ActionClosePreparedStatementRequest,
    ) -> Result<()> {
        let handle = Handle::decode(&request.prepared_statement_handle)?;
        let is_theirs = |kept: &Kept| session.principal.may_end(&kept.prepared.principal);
        self.prepared.take_if(&handle.key(), self.now(), is_theirs);
        Ok(())
    }

    /// GetFlightInfo of a prepared statement. An update is executed with its bound parameters.
    pub(super) async fn prepared_info(
        &self,
        call: &Session,
        command: CommandPreparedStatementQuery,
        descriptor: FlightDescriptor,
    ) -> Result<Response<FlightInfo>> {
        let (session, kept) = self.kept(call, &command.prepared_statement_handle).await?;
        if let Statement::Update(_) = kept.prepared.kind {
            let handle = Handle::decode(&command.prepared_statement_handle)?;
            return self.written_info(&session, &kept.prepared, kept.bound.to_vec(), handle, descriptor).await;
        }
        let info = flight_info(&schema_of(&kept.prepared), command.as_any().encode_to_vec().into(), descriptor)?;
        Ok(Response::new(info))
    }

    /// The result schema of a prepared statement, without executing it.
    pub(super) async fn prepared_schema(
        &self,
        call: &Session,
        command: &CommandPreparedStatementQuery,
    ) -> Result<SchemaRef> {
        let (_, kept) = self.kept(call, &command.prepared_statement_handle).await?;
        Ok(schema_of(&kept.prepared))
    }

    /// DoGet of a prepared statement with its bound parameters, which needs no GetFlightInfo before. It executes an update too.
    pub(super) async fn prepared_rows(
        &self,
        call: &Session,
        command: CommandPreparedStatementQuery,
    ) -> Result<Response<Messages>> {
        let (session, kept) = self.kept(call, &command.prepared_statement_handle).await?;
        let answer = self.answer(&session, kept.prepared.clone(), kept.bound.to_vec()).await;
        if answer.as_ref().is_err_and(|e| e.kind() == Kind::Conflict) {
            // A table changed: this execution fails; prepare again, so that the next one announces the new schema.
            let handle = Handle::decode(&command.prepared_statement_handle)?;
            let prepared = self.prepare_of(&session, &handle).await?;
            self.keep(&handle, Kept { prepared, ..kept });
        }
        answer
    }

    /// DoPut of parameters for later executions.
    pub(super) async fn bind_prepared(
        &self,
        call: &Session,
        command: CommandPreparedStatementQuery,
        data: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
    ) -> Result<DoPutPreparedStatementResult> {
        let (_, kept) = self.kept(call, &command.prepared_statement_handle).await?;
        let handle = Handle::decode(&command.prepared_statement_handle)?;
        let mut bytes = 0;
        let mut bound = Vec::new();
        let mut batches = decoded(data, Bodies::Copied, Unpacked::together(&call.buffer));
        while let Some(batch) = batches.try_next().await? {
            parameters::bind(&kept.prepared, &batch)?;
            bytes += batch.get_array_memory_size();
            if bytes > BOUND_BYTES {
                return Err(Error::invalid("too many parameters bound at once; send them in smaller parts")
                    .with("limit", format!("{BOUND_BYTES} bytes")));
            }
            bound.push(batch);
        }
        self.keep(&handle, Kept { bound: Arc::new(bound), ..kept });
        Ok(DoPutPreparedStatementResult { prepared_statement_handle: Some(command.prepared_statement_handle) })
    }

    /// DoPut of an update, executed once per row of parameters, batch by batch as they arrive.
    pub(super) async fn prepared_update(
        &self,
        call: &Session,
        command: CommandPreparedStatementUpdate,
        data: impl Stream<Item = Result<FlightData, Status>> + Send + 'static,
    ) -> Result<(Session, WriteOutcome)> {
        let (session, kept) = self.kept(call, &command.prepared_statement_handle).await?;
        if kept.prepared.parameters.is_empty() {
            let outcome = self.update(&session, &kept.prepared, Vec::new()).await?;
            return Ok((session, outcome));
        }
        let mut total: Option<WriteOutcome> = None;
        let mut batches = decoded(data, Bodies::Copied, Unpacked::one_by_one(&call.buffer));
        let mut number = 0;
        while let Some(batch) = batches.try_next().await? {
            let outcome = self.update(&session.part(number), &kept.prepared, vec![batch]).await?;
            number += 1;
            let before = total.take().unwrap_or(WriteOutcome { replayed: true, ..WriteOutcome::default() });
            total = Some(before.then(outcome));
        }
        let outcome = match total {
            Some(outcome) => outcome,
            // No batch in this call: use the parameters bound earlier, if any.
            None => self.update(&session, &kept.prepared, kept.bound.to_vec()).await?,
        };
        Ok((session, outcome))
    }

    /// Prepares the statement of a handle. Its decompressed text counts in the statement buffer meanwhile.
    pub(super) async fn prepare_of(&self, session: &Session, handle: &Handle) -> Result<Arc<Prepared>> {
        let mut unpacked = session.buffer.begin();
        unpacked.add(handle.unpacked_bytes()?)?;
        self.engine.prepare(session, &handle.sql()?).await
    }

    /// Caches the entry of a handle, unless the cached entry is of another user: a user must not bind parameters to the statement
    /// of another.
    fn keep(&self, handle: &Handle, kept: Kept) {
        let found = self.prepared.get(&handle.key(), self.now());
        if found.is_some_and(|found| found.prepared.principal.user() != kept.prepared.principal.user()) {
            return;
        }
        let bound: usize = kept.bound.iter().map(RecordBatch::get_array_memory_size).sum();
        let bytes = plan_bytes(&kept.prepared) + bound;
        self.prepared.insert(handle.key(), kept, bytes, self.now());
    }

    /// The session and the cache entry of a handle. Prepares the statement again where this node has no entry.
    async fn kept(&self, call: &Session, handle: &[u8]) -> Result<(Session, Kept)> {
        let handle = Handle::decode(handle)?;
        let session = handle.session(call)?;
        let found = self.prepared.get(&handle.key(), self.now());
        if let Some(kept) = found.filter(|kept| kept.prepared.principal.user() == session.principal.user()) {
            return Ok((session, kept));
        }
        let prepared = self.prepare_of(&session, &handle).await?;
        let kept = Kept { prepared, bound: Arc::default() };
        self.keep(&handle, kept.clone());
        Ok((session, kept))
    }
}

/// The parameters with distinct names `$1`, `$2`, …, in place of the planner's.
fn named(parameters: &[Field]) -> Vec<Field> {
    let name = |(i, field): (usize, &Field)| Field::new(format!("${}", i + 1), field.data_type().clone(), true);
    parameters.iter().enumerate().map(name).collect()
}
