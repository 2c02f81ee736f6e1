//! Arrow Flight SQL: statements, and bulk ingest by DoPut.

mod put;

use super::http::{LEVELS_HEADER, TOKEN_HEADER};
use crate::workload::generate::encode::SCHEMA;
use crate::workload::{DATABASE, SUPERTABLE};
use anyhow::{Context, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    CommandStatementIngest, DoPutUpdateResult, ProstMessageExt, TableDefinitionOptions, TableExistsOption,
    TableNotExistOption,
};
use arrow_flight::{FlightDescriptor, Ticket};
use futures::{Stream, TryStreamExt};
use prost::Message;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// HTTP/2 window of a stream and of the connection, in bytes; large enough that the reader does not wait for round trips.
const WINDOW: u32 = 16 << 20;
/// Maximum size of a received message, in bytes.
const MAX_MESSAGE: usize = 256 << 20;

/// Connects to `grpc://host:port` (or `http://`, `grpc+tcp://`).
///
/// # Errors
/// A URL of another scheme, or no connection within `timeout`.
pub async fn connect(url: &str, timeout: Duration) -> Result<Channel> {
    let address = ["grpc+tcp://", "grpc://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let address = address.with_context(|| format!("expected grpc://host:port, found {url:?}"))?;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .with_context(|| format!("invalid address {url:?}"))?
        .connect_timeout(timeout)
        .tcp_nodelay(true)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW);
    endpoint.connect().await.with_context(|| format!("connect to {url}"))
}

/// A Flight SQL client on one connection.
#[derive(Debug)]
pub struct Session {
    client: FlightSqlServiceClient<Channel>,
    timeout: Duration,
}

impl Session {
    /// Creates a session on a connection; `timeout` limits each statement up to its last row.
    pub fn new(channel: Channel, timeout: Duration) -> Self {
        let inner = FlightServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        Self { client: FlightSqlServiceClient::new_from_inner(inner), timeout }
    }

    /// Sets the read-your-write tokens sent with every later statement, which then sees the writes of these tokens.
    pub fn set_tokens(&mut self, tokens: &[String]) {
        self.client.set_header(TOKEN_HEADER, tokens.join(","));
    }

    /// Sets the default database of later statements.
    pub fn set_database(&mut self, database: &str) {
        self.client.set_header("database", database);
    }

    /// Sets the levels that may answer aggregates of later statements.
    pub fn set_levels(&mut self, levels: &str) {
        self.client.set_header(LEVELS_HEADER, levels);
    }

    /// Requests tags as dictionaries in the answers of later statements.
    pub fn set_tag_dictionaries(&mut self) {
        self.client.set_header("tag-encoding", "dictionary");
    }

    /// Runs a statement (GetFlightInfo, then DoGet of every endpoint) and reads its rows to the end.
    ///
    /// # Errors
    /// An error of the server, a broken connection, or the timeout.
    pub async fn query(&mut self, sql: &str) -> Result<Vec<RecordBatch>> {
        let timeout = self.timeout;
        let result = tokio::time::timeout(timeout, self.fetch(sql)).await;
        result.map_err(|_| anyhow::anyhow!("no answer within {timeout:?}")).flatten().with_context(|| sql.to_owned())
    }

    async fn fetch(&mut self, sql: &str) -> Result<Vec<RecordBatch>> {
        let info = self.client.execute(sql.to_owned(), None).await.context("GetFlightInfo")?;
        let mut batches = Vec::new();
        for endpoint in info.endpoint {
            let ticket = endpoint.ticket.context("the server returned an endpoint without a ticket")?;
            self.read(ticket, &mut batches).await?;
        }
        Ok(batches)
    }

    async fn read(&mut self, ticket: Ticket, batches: &mut Vec<RecordBatch>) -> Result<()> {
        let mut stream = self.client.do_get(ticket).await.context("DoGet")?;
        while let Some(batch) = stream.try_next().await.context("DoGet")? {
            batches.push(batch);
        }
        if let (true, Some(schema)) = (batches.is_empty(), stream.schema()) {
            batches.push(RecordBatch::new_empty(schema.clone()));
        }
        Ok(())
    }

    /// Reads all batches of a ticket (DoGet without GetFlightInfo).
    ///
    /// # Errors
    /// As for [`Session::query`].
    pub async fn get(&mut self, ticket: Ticket) -> Result<Vec<RecordBatch>> {
        let (timeout, mut batches) = (self.timeout, Vec::new());
        let result = tokio::time::timeout(timeout, self.read(ticket, &mut batches)).await;
        result.map_err(|_| anyhow::anyhow!("no answer within {timeout:?}"))??;
        Ok(batches)
    }

    /// Runs an update statement and returns the number of affected rows that the server reports.
    ///
    /// # Errors
    /// As for [`Session::query`].
    pub async fn update(&mut self, sql: &str) -> Result<i64> {
        let run = self.client.execute_update(sql.to_owned(), None);
        let result = tokio::time::timeout(self.timeout, run).await;
        result.with_context(|| format!("no answer within {:?}", self.timeout))?.with_context(|| sql.to_owned())
    }
}

/// Appends batches ([`SCHEMA`]) to `db.devices` in one DoPut, and returns the number of acknowledged rows.
///
/// # Errors
/// As for [`ingest_into`].
pub async fn ingest(
    channel: Channel,
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    timeout: Duration,
) -> Result<u64> {
    ingest_into([DATABASE, SUPERTABLE], SCHEMA.clone(), channel, batches, timeout).await
}

/// Appends batches of one schema to a table (database and name) in one DoPut, and returns the number of acknowledged rows.
///
/// # Errors
/// An error of the stream (the call is then reset, and the server stores nothing), an error of the server, or no reply within
/// `timeout`.
pub async fn ingest_into(
    [database, table]: [&str; 2],
    schema: SchemaRef,
    channel: Channel,
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    timeout: Duration,
) -> Result<u64> {
    let command = CommandStatementIngest {
        table_definition_options: Some(TableDefinitionOptions {
            if_not_exist: TableNotExistOption::Fail.into(),
            if_exists: TableExistsOption::Append.into(),
        }),
        table: table.to_owned(),
        schema: Some(database.to_owned()),
        catalog: None,
        temporary: false,
        transaction_id: None,
        options: Default::default(),
    };
    // The call reports an error of the stream only as a status, so the original error is kept here.
    let failure = Arc::new(Mutex::new(None));
    let keep = failure.clone();
    let batches = batches.map_err(move |error| {
        let text = format!("{error:#}");
        *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        FlightError::Tonic(Box::new(tonic::Status::aborted(text)))
    });
    let messages = FlightDataEncoderBuilder::new()
        .with_schema(schema)
        .with_flight_descriptor(Some(FlightDescriptor::new_cmd(command.as_any().encode_to_vec())))
        .build(batches);
    let put = async {
        let mut replies = put::do_put(channel, messages).await.context("DoPut")?;
        let mut rows = None;
        while let Some(reply) = replies.try_next().await.context("DoPut")? {
            let result = DoPutUpdateResult::decode(reply.app_metadata).context("the reply to DoPut")?;
            *rows.get_or_insert(0) += result.record_count;
        }
        rows.context("the server ended DoPut without a reply")
    };
    let done = tokio::time::timeout(timeout, put).await;
    if let Some(error) = failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    let rows = done.with_context(|| format!("DoPut: no reply within {timeout:?}"))??;
    u64::try_from(rows).with_context(|| format!("DoPut: the server acknowledged {rows} rows"))
}

#[cfg(test)]
mod tests;
