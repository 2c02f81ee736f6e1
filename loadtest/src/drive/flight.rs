//! Arrow Flight SQL: statements, and bulk ingest by DoPut.

use super::encode::SCHEMA;
use crate::workload::{DATABASE, SUPERTABLE};
use anyhow::{Context, Result, bail};
use arrow::array::RecordBatch;
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::sql::client::FlightSqlServiceClient;
use arrow_flight::sql::{
    CommandStatementIngest, DoPutUpdateResult, ProstMessageExt, TableDefinitionOptions, TableExistsOption,
    TableNotExistOption,
};
use arrow_flight::{FlightData, FlightDescriptor};
use futures::{Stream, StreamExt, TryStreamExt};
use prost::Message;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// HTTP/2 window of a stream and of the connection, in bytes: large, so that a reader need not wait for round trips.
const WINDOW: u32 = 16 << 20;
/// Largest message that is taken, in bytes.
const MAX_MESSAGE: usize = 256 << 20;

/// Connects to `grpc://host:port` (or `http://`, `grpc+tcp://`).
///
/// # Errors
/// A URL of another scheme, or nobody there within `timeout`.
pub async fn connect(url: &str, timeout: Duration) -> Result<Channel> {
    let address = ["grpc+tcp://", "grpc://", "http://"].iter().find_map(|scheme| url.strip_prefix(scheme));
    let address = address.with_context(|| format!("expected grpc://host:port, found {url:?}"))?;
    let endpoint = Endpoint::from_shared(format!("http://{address}"))
        .with_context(|| format!("{url:?} is no address"))?
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
    /// A session on a connection; each statement has `timeout` from its beginning to its last row.
    pub fn new(channel: Channel, timeout: Duration) -> Self {
        let inner = FlightServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        Self { client: FlightSqlServiceClient::new_from_inner(inner), timeout }
    }

    /// Runs a statement (GetFlightInfo, then DoGet of every endpoint) and reads its rows to the end.
    ///
    /// # Errors
    /// What the server answers, a broken connection, or the timeout.
    pub async fn query(&mut self, sql: &str) -> Result<Vec<RecordBatch>> {
        let timeout = self.timeout;
        let result = tokio::time::timeout(timeout, self.fetch(sql)).await;
        result.map_err(|_| anyhow::anyhow!("no answer within {timeout:?}")).flatten().with_context(|| sql.to_owned())
    }

    async fn fetch(&mut self, sql: &str) -> Result<Vec<RecordBatch>> {
        let info = self.client.execute(sql.to_owned(), None).await.context("GetFlightInfo")?;
        let mut batches = Vec::new();
        for endpoint in info.endpoint {
            let ticket = endpoint.ticket.context("the server gave an endpoint without a ticket")?;
            let mut stream = self.client.do_get(ticket).await.context("DoGet")?;
            while let Some(batch) = stream.try_next().await.context("DoGet")? {
                batches.push(batch);
            }
            if let (true, Some(schema)) = (batches.is_empty(), stream.schema()) {
                batches.push(RecordBatch::new_empty(schema.clone()));
            }
        }
        Ok(batches)
    }

    /// Runs a statement that changes something, and gives the number of rows that it says to have changed.
    ///
    /// # Errors
    /// As for [`Session::query`].
    pub async fn update(&mut self, sql: &str) -> Result<i64> {
        let run = self.client.execute_update(sql.to_owned(), None);
        let result = tokio::time::timeout(self.timeout, run).await;
        result.with_context(|| format!("no answer within {:?}", self.timeout))?.with_context(|| sql.to_owned())
    }
}

/// Appends batches ([`SCHEMA`]) to `db.devices` as one DoPut, and gives the number of rows that the server acknowledged.
///
/// # Errors
/// An error of the stream (the rest is not sent, and the server told to drop what it has), what the server answers, or
/// nothing heard within `timeout` of the beginning.
pub async fn ingest(
    channel: Channel,
    batches: impl Stream<Item = Result<RecordBatch>> + Send + 'static,
    timeout: Duration,
) -> Result<u64> {
    let command = CommandStatementIngest {
        table_definition_options: Some(TableDefinitionOptions {
            if_not_exist: TableNotExistOption::Fail.into(),
            if_exists: TableExistsOption::Append.into(),
        }),
        table: SUPERTABLE.to_owned(),
        schema: Some(DATABASE.to_owned()),
        catalog: None,
        temporary: false,
        transaction_id: None,
        options: Default::default(),
    };
    let failure: Arc<Mutex<Option<anyhow::Error>>> = Arc::default();
    let data = FlightDataEncoderBuilder::new()
        .with_schema(SCHEMA.clone())
        .with_flight_descriptor(Some(FlightDescriptor::new_cmd(command.as_any().encode_to_vec())))
        .build(batches.map_err(|error| arrow_flight::error::FlightError::ExternalError(error.into())));
    // A client cannot send an error: the stream ends, and the reason waits here. Nothing is then counted as acknowledged.
    let keep = failure.clone();
    let messages = data.scan((), move |(), item: Result<FlightData, _>| {
        let message = item
            .map_err(|error| *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(anyhow::Error::from(error)))
            .ok();
        futures::future::ready(message)
    });
    let mut client = FlightServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
    let put = async {
        let mut replies = client.do_put(messages).await.context("DoPut")?.into_inner();
        let mut rows = None;
        while let Some(reply) = replies.try_next().await.context("DoPut")? {
            let result = DoPutUpdateResult::decode(reply.app_metadata).context("the reply to DoPut")?;
            *rows.get_or_insert(0) += result.record_count;
        }
        rows.context("the server ended DoPut without a reply")
    };
    let rows = tokio::time::timeout(timeout, put).await;
    if let Some(error) = failure.lock().unwrap_or_else(PoisonError::into_inner).take() {
        return Err(error);
    }
    let rows = rows.with_context(|| format!("DoPut: no reply within {timeout:?}"))??;
    match u64::try_from(rows) {
        Ok(rows) => Ok(rows),
        Err(_) => bail!("DoPut: the server acknowledged {rows} rows"),
    }
}
