//! Baseline for Arrow Flight: compares q1 on the measured server with a bare `arrow-flight` server that holds the batches of the
//! same answer in memory and only sends them. For DoPut, the bare server counts the received rows and drops them.
//!
//! Both servers are separate processes with the same HTTP/2 settings; the same client queries them alternately, over one
//! connection each. The client calls DoGet on the bare server, and GetFlightInfo and DoGet on the measured one. The bare server
//! implements only as much of Flight SQL as drivers need for one statement, and returns the same answer to every statement.

use std::{pin::Pin, process::Stdio, sync::Arc, time::Duration, time::Instant};

use anyhow::{Context, Result, ensure};
use arrow::{
    array::{Array, RecordBatch},
    datatypes::SchemaRef,
    ipc::{
        reader::StreamReader,
        root_as_message,
        writer::{IpcWriteOptions, StreamWriter},
    },
};
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightEndpoint, FlightInfo, HandshakeRequest,
    HandshakeResponse, IpcMessage, PollInfo, PutResult, Result as ActionResult, SchemaAsIpc, SchemaResult, Ticket,
    encode::{DictionaryHandling, FlightDataEncoderBuilder},
    flight_service_server::{FlightService, FlightServiceServer},
    sql::{
        ActionCreatePreparedStatementResult, Any, CommandPreparedStatementQuery, CommandStatementQuery,
        DoPutUpdateResult, ProstMessageExt,
    },
};
use futures::{Stream, TryStreamExt, stream};
use prost::Message;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    process::{Child, Command},
};
use tonic::{Request, Response, Status, Streaming, transport::Server};

use super::{
    flight::{self, Session},
    query::{SAMPLE_RUNS, SAMPLE_TIME},
};
use crate::measure::median;

/// HTTP/2 settings of Tidelake's server, in bytes: stream window, connection window, maximum frame size.
const HTTP2: (u32, u32, u32) = (16 << 20, 32 << 20, 1 << 20);
/// Maximum wait for the bare server to start.
const START_TIME: Duration = Duration::from_secs(30);

/// Times of one statement on the measured server and, alternately, on a bare one.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BareSample {
    /// The statement.
    pub sql: String,
    /// Whether the client requested tags as dictionaries.
    #[serde(default)]
    pub tag_dictionaries: bool,
    /// Rows of the answer.
    pub rows: u64,
    /// Batches of the answer.
    pub batches: u64,
    /// Bytes of the batches' values.
    pub bytes: u64,
    /// Time of each run on the measured server, in milliseconds, from the request to the last batch.
    pub millis: Vec<f64>,
    /// Time of each run on the bare server, in milliseconds.
    pub bare_millis: Vec<f64>,
}

impl BareSample {
    /// Median of the measured server divided by the median of the bare one.
    pub fn ratio(&self) -> f64 {
        median(&self.millis) / median(&self.bare_millis)
    }
}

/// Queries the server at `url` and a bare server (this program, started with `bare-flight`) alternately: at least `repeat` times
/// each, after one unmeasured run, until [`SAMPLE_TIME`] per server or [`SAMPLE_RUNS`] is reached.
///
/// # Errors
/// A statement that fails, an answer without rows, a bare server that does not start or whose answer differs.
pub async fn ask_beside(
    url: &str,
    sql: &str,
    tag_dictionaries: bool,
    repeat: usize,
    timeout: Duration,
) -> Result<BareSample> {
    let mut session = Session::new(flight::connect(url, timeout).await?, timeout);
    if tag_dictionaries {
        session.set_tag_dictionaries();
    }
    let answer = session.query(sql).await?;
    let rows = answer.iter().map(|batch| batch.num_rows() as u64).sum();
    ensure!(rows > 0, "{sql}: expected rows to send, found none");
    let (_bare_process, bare_url) = start(&answer).await?;
    let mut bare = Session::new(flight::connect(&bare_url, timeout).await?, timeout);
    let ticket = Ticket::new("all");
    ensure!(bare.get(ticket.clone()).await? == answer, "the bare server's answer differs from what it was given");

    let (mut millis, mut bare_millis) = (Vec::new(), Vec::new());
    let timed = |begun: Instant| begun.elapsed().as_secs_f64() * 1e3;
    let begun = Instant::now();
    // Alternate, so that other load on the machine affects both alike.
    while millis.len() < repeat.max(1) || (begun.elapsed() < 2 * SAMPLE_TIME && millis.len() < SAMPLE_RUNS) {
        let start = Instant::now();
        let found = session.query(sql).await?;
        millis.push(timed(start));
        drop(found);
        let start = Instant::now();
        let found = bare.get(ticket.clone()).await?;
        bare_millis.push(timed(start));
        drop(found);
    }
    let bytes = answer.iter().map(bytes_of).sum::<Result<u64>>()?;
    let batches = answer.len() as u64;
    Ok(BareSample { sql: sql.to_owned(), tag_dictionaries, rows, batches, bytes, millis, bare_millis })
}

/// Bytes of a batch's values. The columns of a received batch share one buffer, so only each column's slice is counted.
fn bytes_of(batch: &RecordBatch) -> Result<u64> {
    let sizes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    sizes.map(|size| Ok(size? as u64)).sum()
}

/// Starts this program as a bare server of `batches`. Dropping the child kills the process.
pub(super) async fn start(batches: &[RecordBatch]) -> Result<(Child, String)> {
    let program = std::env::current_exe().context("find this program")?;
    let mut child = Command::new(&program)
        .arg("bare-flight")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("start {}", program.display()))?;
    let mut input = child.stdin.take().context("the bare server's input")?;
    let output = child.stdout.take().context("the bare server's output")?;
    let bytes = to_ipc(batches)?;
    let served = async {
        input.write_all(&bytes).await.context("send the batches to the bare server")?;
        drop(input);
        let line = BufReader::new(output).lines().next_line().await.context("read the bare server's output")?;
        line.context("the bare server ended before it served")
    };
    let url = tokio::time::timeout(START_TIME, served).await.context("the bare server does not serve")??;
    Ok((child, url))
}

fn to_ipc(batches: &[RecordBatch]) -> Result<Vec<u8>> {
    let schema = batches.first().context("no batch")?.schema();
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    batches.iter().try_for_each(|batch| writer.write(batch))?;
    Ok(writer.into_inner()?)
}

/// Serves the batches of an Arrow IPC stream for every ticket, until the future is dropped.
///
/// # Errors
/// Bytes that are not an Arrow stream, or a listener that fails.
pub async fn serve(listener: TcpListener, ipc: &[u8]) -> Result<()> {
    let reader = StreamReader::try_new(ipc, None).context("expected an Arrow stream of the batches to send")?;
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().context("read the batches to send")?;
    let incoming = stream::unfold(listener, |listener| async move {
        let accepted = listener.accept().await.and_then(|(stream, _)| stream.set_nodelay(true).map(|()| stream));
        Some((accepted, listener))
    });
    let (stream_window, connection_window, frame) = HTTP2;
    Server::builder()
        .initial_stream_window_size(stream_window)
        .initial_connection_window_size(connection_window)
        .max_frame_size(frame)
        .add_service(FlightServiceServer::new(Bare { batches: batches.into() }))
        .serve_with_incoming(incoming)
        .await
        .context("serve the batches")
}

/// Flight service that returns one fixed answer.
struct Bare {
    batches: Arc<[RecordBatch]>,
}

type Sent<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

fn unknown<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not implemented: the bare server supports only its fixed answer and DoPut"))
}

impl Bare {
    fn schema(&self) -> Result<SchemaRef, Status> {
        self.batches.first().map(RecordBatch::schema).ok_or_else(|| Status::not_found("no batch"))
    }
}

#[tonic::async_trait]
impl FlightService for Bare {
    type HandshakeStream = Sent<HandshakeResponse>;
    type ListFlightsStream = Sent<FlightInfo>;
    type DoGetStream = Sent<FlightData>;
    type DoPutStream = Sent<PutResult>;
    type DoExchangeStream = Sent<FlightData>;
    type DoActionStream = Sent<ActionResult>;
    type ListActionsStream = Sent<ActionType>;

    async fn do_get(&self, _: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        let batches = self.batches.clone();
        let schema = self.schema()?;
        let batches = stream::iter((0..batches.len()).map(move |at| Ok(batches[at].clone())));
        // Don't split batches: the measured server sent them in messages of this size.
        let messages = FlightDataEncoderBuilder::new()
            .with_schema(schema)
            .with_max_flight_data_size(usize::MAX)
            .with_dictionary_handling(DictionaryHandling::Resend)
            .build(batches);
        Ok(Response::new(Box::pin(messages.map_err(Status::from))))
    }

    async fn handshake(
        &self,
        _: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        unknown()
    }

    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        unknown()
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        // Metadata commands of drivers are rejected: only statements are supported.
        let command =
            Any::decode(request.get_ref().cmd.as_ref()).map_err(|e| Status::invalid_argument(e.to_string()))?;
        if !(command.is::<CommandStatementQuery>() || command.is::<CommandPreparedStatementQuery>()) {
            return unknown();
        }
        let info = FlightInfo::new().try_with_schema(self.schema()?.as_ref());
        let info = info.map_err(|e| Status::internal(e.to_string()))?;
        let endpoint = FlightEndpoint::new().with_ticket(Ticket::new("all"));
        Ok(Response::new(info.with_endpoint(endpoint).with_descriptor(request.into_inner())))
    }

    async fn poll_flight_info(&self, _: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        unknown()
    }

    async fn get_schema(&self, _: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        unknown()
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        let (mut messages, mut record_count) = (request.into_inner(), 0);
        while let Some(message) = messages.message().await? {
            let header = root_as_message(&message.data_header).map_err(|e| Status::invalid_argument(e.to_string()))?;
            record_count += header.header_as_record_batch().map_or(0, |batch| batch.length());
        }
        let app_metadata = DoPutUpdateResult { record_count }.encode_to_vec().into();
        Ok(Response::new(Box::pin(stream::iter([Ok(PutResult { app_metadata })]))))
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        unknown()
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let body = match request.into_inner().r#type.as_str() {
            "CreatePreparedStatement" => {
                let (schema, options) = (self.schema()?, IpcWriteOptions::default());
                let schema = IpcMessage::try_from(SchemaAsIpc::new(&schema, &options));
                let result = ActionCreatePreparedStatementResult {
                    prepared_statement_handle: "all".into(),
                    dataset_schema: schema.map_err(|e| Status::internal(e.to_string()))?.0,
                    parameter_schema: Default::default(),
                };
                Some(ActionResult { body: result.as_any().encode_to_vec().into() })
            }
            "ClosePreparedStatement" => None,
            _ => return unknown(),
        };
        Ok(Response::new(Box::pin(stream::iter(body.map(Ok)))))
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        unknown()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::workload::generate::encode::Batch;
    use crate::workload::generate::{Device, Devices};

    #[tokio::test]
    async fn a_bare_server_sends_the_very_batches_that_it_was_given_and_knows_nothing_else() {
        let set = Devices { devices: 3, rows: 1_000, seed: 1 };
        let batch = |devid| {
            let mut batch = Batch::default();
            batch.push(&Device::numbered(devid), &set.rows(devid));
            batch.finish().unwrap()
        };
        let batches: Vec<RecordBatch> = set.ids().map(batch).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("grpc://{}", listener.local_addr().unwrap());
        let ipc = to_ipc(&batches).unwrap();
        let served = tokio::spawn(async move { serve(listener, &ipc).await });
        let timeout = Duration::from_secs(10);
        let mut session = Session::new(flight::connect(&url, timeout).await.unwrap(), timeout);
        for _ in 0..2 {
            let found = session.get(Ticket::new("all")).await.unwrap();
            assert_eq!(found, batches);
            // ts, temperature, humidity, devid, the name (five letters and an offset, of which there is one more), devgroup.
            let row = 8 + 4 + 4 + 4 + 5 + 4 + 4;
            assert_eq!(bytes_of(&found[0]).unwrap(), 1_000 * row + 4);
        }
        assert_eq!(session.query("select whatever").await.unwrap(), batches);
        let (schema, sent) = (batches[0].schema(), stream::iter(batches.into_iter().map(Ok)));
        let channel = flight::connect(&url, timeout).await.unwrap();
        assert_eq!(flight::ingest_into(["db", "t"], schema, channel, sent, timeout).await.unwrap(), 3_000);
        served.abort();
    }

    #[tokio::test]
    async fn what_is_no_arrow_stream_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let error = serve(listener, b"select").await.unwrap_err();
        assert!(error.to_string().contains("Arrow stream"), "{error:#}");
    }
}
