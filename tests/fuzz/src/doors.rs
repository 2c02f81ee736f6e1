//! Targets for network input: Flight SQL messages and JSON bodies, passed through the real services.

use std::sync::{Arc, Mutex, PoisonError};

use arrow::{
    array::{Int32Array, RecordBatch, StringArray, TimestampNanosecondArray},
    ipc::writer::IpcWriteOptions,
};
use arrow_flight::{
    Action, FlightData, FlightDescriptor, FlightInfo, Ticket,
    encode::FlightDataEncoderBuilder,
    sql::{
        ActionCreatePreparedStatementRequest, CommandGetDbSchemas, CommandGetSqlInfo, CommandGetTables,
        CommandPreparedStatementQuery, CommandStatementIngest, CommandStatementQuery, ProstMessageExt,
    },
};
use async_trait::async_trait;
use axum::{Router, body::Body, http::Request};
use bytes::{BufMut, Bytes};
use futures::{StreamExt, TryStreamExt, stream::BoxStream};
use http_body_util::BodyExt;
use prost::Message;
use tidelake_format::{Result, auth::Gate, meta::Root, snapshot::SnapshotReader, types::Type};
use tidelake_ingest::decode::arrow as rows;
use tidelake_protocol::sql::Update;
use tidelake_query::{
    engine::{Engine, EngineConfig},
    flight, http,
    session::Session,
    writer::{IngestTarget, WriteOutcome, Writer},
};
use tokio::runtime::Runtime;
use tower::ServiceExt;

use crate::targets::{Tables, Target, database, filled};

/// One target per kind of message that a client may send to a query node.
pub(crate) fn doors() -> anyhow::Result<Vec<Target>> {
    let runtime = Arc::new(tokio::runtime::Builder::new_current_thread().enable_all().build()?);
    let door = Door { router: Arc::new(Mutex::new(runtime.block_on(open())?)), runtime };
    let sql = "select devid, avg(temperature) from devices group by devid";
    let query = CommandStatementQuery { query: sql.to_owned(), transaction_id: None };
    let descriptor = FlightDescriptor::new_cmd(query.as_any().encode_to_vec());
    let info = door.first::<FlightInfo>("GetFlightInfo", &descriptor.encode_to_vec());
    let ticket = info.and_then(|info| info.endpoint.first()?.ticket.clone()).unwrap_or_default();
    let create = ActionCreatePreparedStatementRequest { query: "select ? + 1".to_owned(), transaction_id: None };
    let prepared = CommandPreparedStatementQuery { prepared_statement_handle: ticket.ticket.clone() };
    let json = br#"{"database": "db", "sql_query": "select 1", "query_type": "sql"}"#;
    let commands = [
        query.as_any().encode_to_vec(),
        prepared.as_any().encode_to_vec(),
        CommandGetSqlInfo { info: vec![0, 1, 500] }.as_any().encode_to_vec(),
        CommandGetDbSchemas { catalog: None, db_schema_filter_pattern: Some("d%".to_owned()) }.as_any().encode_to_vec(),
        CommandGetTables { include_schema: true, ..CommandGetTables::default() }.as_any().encode_to_vec(),
    ];
    let of = |name, seeds: Vec<Vec<u8>>, door: &Door, run: fn(&Door, &[u8]) -> bool| {
        let door = door.clone();
        Target { name, seeds, run: Box::new(move |input| run(&door, input)) }
    };
    let bodies = [
        br#"{"sql": "select $1 + 1", "params": [1], "format": "csv", "database": "db"}"#.to_vec(),
        br#"{"q": "select * from devices where ts > $1", "db": "db", "params": ["2026-01-01"], "tz": "UTC"}"#.to_vec(),
    ];
    let put = door.runtime.block_on(put())?;
    Ok(vec![
        of("flight_ticket", vec![ticket.ticket.to_vec(), json.to_vec()], &door, |door, input| {
            door.is_ok("DoGet", &Ticket { ticket: Bytes::copy_from_slice(input) }.encode_to_vec())
        }),
        of("flight_command", commands.to_vec(), &door, |door, input| {
            door.is_ok("GetFlightInfo", &FlightDescriptor::new_cmd(input.to_vec()).encode_to_vec())
        }),
        of("flight_action", vec![create.as_any().encode_to_vec()], &door, |door, input| {
            let action = Action { r#type: "CreatePreparedStatement".to_owned(), body: Bytes::copy_from_slice(input) };
            door.is_ok("DoAction", &action.encode_to_vec())
        }),
        of("flight_put", vec![put], &door, |door, input| door.sends("DoPut", input.to_vec()).is_some()),
        of("sql_json", bodies.to_vec(), &door, |door, input| {
            let request = Request::post("/api/v1/sql?db=db").header("content-type", "application/json");
            door.status(request.body(Body::from(input.to_vec()))).is_some_and(|status| status == 200)
        }),
    ])
}

/// A query node without a socket.
#[derive(Clone)]
struct Door {
    runtime: Arc<Runtime>,
    router: Arc<Mutex<Router>>,
}

impl Door {
    fn router(&self) -> Router {
        self.router.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn status(&self, request: axum::http::Result<Request<Body>>) -> Option<u16> {
        let (router, request) = (self.router(), request.ok()?);
        self.runtime.block_on(async {
            let response = router.oneshot(request).await.ok()?;
            let status = response.status().as_u16();
            response.into_body().collect().await.ok()?;
            Some(status)
        })
    }

    /// Response bytes to gRPC frames; `None` for an error.
    fn sends(&self, rpc: &str, frames: Vec<u8>) -> Option<Bytes> {
        let request = Request::post(format!("/arrow.flight.protocol.FlightService/{rpc}"))
            .header("content-type", "application/grpc")
            .header("database", "db")
            .body(Body::from(frames))
            .ok()?;
        let router = self.router();
        self.runtime.block_on(async {
            let response = router.oneshot(request).await.ok()?;
            let early = response.headers().get("grpc-status").cloned();
            let body = response.into_body().collect().await.ok()?;
            let late = body.trailers().and_then(|trailers| trailers.get("grpc-status").cloned());
            (early.or(late)? == "0").then(|| body.to_bytes())
        })
    }

    fn is_ok(&self, rpc: &str, message: &[u8]) -> bool {
        self.sends(rpc, frame(message)).is_some()
    }

    fn first<M: Message + Default>(&self, rpc: &str, message: &[u8]) -> Option<M> {
        M::decode(self.sends(rpc, frame(message))?.get(5..)?).ok()
    }
}

/// A gRPC frame: not compressed, length, message.
fn frame(message: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    out.put_u32(message.len() as u32);
    out.extend_from_slice(message);
    out
}

/// A bulk ingest as a client sends it.
async fn put() -> anyhow::Result<Vec<u8>> {
    let batch = RecordBatch::try_from_iter([
        ("ts", Arc::new(TimestampNanosecondArray::from(vec![1, 2])) as _),
        ("temperature", Arc::new(Int32Array::from(vec![Some(1), None])) as _),
        ("devname", Arc::new(StringArray::from(vec!["a", "b"])) as _),
    ])?;
    let command = CommandStatementIngest { table: "devices".to_owned(), ..CommandStatementIngest::default() };
    let encoded: Vec<FlightData> = FlightDataEncoderBuilder::new()
        .with_options(IpcWriteOptions::default())
        .with_flight_descriptor(Some(FlightDescriptor::new_cmd(command.as_any().encode_to_vec())))
        .build(futures::stream::iter([Ok(batch)]))
        .try_collect()
        .await?;
    Ok(encoded.iter().flat_map(|data| frame(&data.encode_to_vec())).collect())
}

async fn open() -> anyhow::Result<Router> {
    let root = Root::open(filled().await?).await?;
    let snapshots = Arc::new(SnapshotReader::new(root.clone(), Default::default()));
    let config = EngineConfig {
        memory_bytes: 256 << 20,
        partitions: 1,
        timeout: std::time::Duration::from_secs(10),
        concurrency: 1,
        waiting: 1,
        ..EngineConfig::default()
    };
    let engine = Engine::new(root, snapshots, Arc::new(Decoder), config);
    Ok(http::routes(engine.clone()).merge(flight::routes(engine)).behind(&Gate::Off))
}

/// A writer that only decodes.
struct Decoder;

#[async_trait]
impl Writer for Decoder {
    async fn execute(&self, _: Option<&str>, _: &Update, _: Option<RecordBatch>) -> Result<WriteOutcome> {
        Ok(WriteOutcome::default())
    }

    async fn parameters(&self, _: Option<&str>, _: &Update) -> Result<Vec<Option<Type>>> {
        Ok(Vec::new())
    }

    fn of_request(&self, _: &Session) -> Result<Arc<dyn Writer>> {
        Ok(Arc::new(Self))
    }

    async fn ingest(
        &self,
        _: IngestTarget,
        mut batches: BoxStream<'static, Result<RecordBatch>>,
    ) -> Result<WriteOutcome> {
        let (table, database, mut outcome) = (Tables::devices(), database(), WriteOutcome::default());
        while let Some(batch) = batches.next().await.transpose()? {
            outcome.affected_rows += rows::decode(&batch, &table, &database, 0)?.accepted as u64;
        }
        Ok(outcome)
    }
}
