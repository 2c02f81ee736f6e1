#![allow(clippy::unwrap_used)]

use super::*;
use crate::workload::generate::{Device, Devices};
use arrow_flight::flight_service_server::{FlightService, FlightServiceServer};
use arrow_flight::sql::server::{FlightSqlService, PeekableFlightDataStream};
use arrow_flight::sql::{CommandStatementQuery, SqlInfo, TicketStatementQuery};
use arrow_flight::utils::flight_data_to_arrow_batch;
use arrow_flight::{FlightEndpoint, FlightInfo, Ticket};
use futures::StreamExt;
use std::sync::{Arc, Mutex};
use tonic::{Request, Response, Status};

/// A server that keeps what is put and gives it back, two endpoints an answer.
#[derive(Clone, Default)]
struct Fake {
    kept: Arc<Mutex<Vec<RecordBatch>>>,
    /// Commands of whole streams.
    commands: Arc<Mutex<Vec<CommandStatementIngest>>>,
    /// Streams that ended otherwise.
    broken: Arc<Mutex<usize>>,
    tokens: Arc<Mutex<Vec<String>>>,
}

#[tonic::async_trait]
impl FlightSqlService for Fake {
    type FlightService = Fake;

    async fn get_flight_info_statement(
        &self,
        query: CommandStatementQuery,
        request: Request<FlightDescriptor>,
    ) -> Result<Response<FlightInfo>, Status> {
        if query.query.contains("nowhere") {
            return Err(Status::invalid_argument("no such table"));
        }
        let token = request.metadata().get(TOKEN_HEADER).and_then(|value| value.to_str().ok());
        self.tokens.lock().unwrap().extend(token.map(str::to_owned));
        let endpoint = |part: &str| {
            let ticket = TicketStatementQuery { statement_handle: part.to_owned().into_bytes().into() };
            FlightEndpoint::new().with_ticket(Ticket::new(ticket.as_any().encode_to_vec()))
        };
        let empty = query.query.contains("none");
        let info = FlightInfo::new().with_endpoint(endpoint(if empty { "none" } else { "even" }));
        Ok(Response::new(if empty { info } else { info.with_endpoint(endpoint("odd")) }))
    }

    async fn do_get_statement(
        &self,
        ticket: TicketStatementQuery,
        _: Request<Ticket>,
    ) -> Result<Response<<Self as FlightService>::DoGetStream>, Status> {
        let kept = self.kept.lock().unwrap().clone();
        let wanted = match &ticket.statement_handle[..] {
            b"even" => 0,
            b"odd" => 1,
            _ => 2,
        };
        let chosen: Vec<_> =
            kept.into_iter().enumerate().filter(|(at, _)| at % 2 == wanted).map(|(_, b)| Ok(b)).collect();
        let stream = FlightDataEncoderBuilder::new().with_schema(SCHEMA.clone()).build(futures::stream::iter(chosen));
        Ok(Response::new(Box::pin(stream.map_err(Status::from))))
    }

    async fn do_put_statement_ingest(
        &self,
        command: CommandStatementIngest,
        request: Request<PeekableFlightDataStream>,
    ) -> Result<i64, Status> {
        // A reset request drops this function where it waits.
        let mut unfinished = Unfinished(Some(self.broken.clone()));
        let mut stream = request.into_inner();
        let (mut batches, mut rows) = (Vec::new(), 0);
        let _schema = stream.next().await;
        while let Some(message) = stream.next().await {
            let message = message.map_err(|error| Status::aborted(error.to_string()))?;
            let batch = flight_data_to_arrow_batch(&message, SCHEMA.clone(), &Default::default());
            let batch = batch.map_err(|error| Status::invalid_argument(error.to_string()))?;
            rows += batch.num_rows() as i64;
            batches.push(batch);
        }
        unfinished.0 = None;
        self.kept.lock().unwrap().extend(batches);
        self.commands.lock().unwrap().push(command);
        Ok(rows)
    }

    async fn register_sql_info(&self, _: i32, _: &SqlInfo) {}
}

/// Counts itself when it is dropped before its work is done.
struct Unfinished(Option<Arc<Mutex<usize>>>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(count) = &self.0 {
            *count.lock().unwrap() += 1;
        }
    }
}

/// Starts a server that lives as long as the runtime, and gives its URL.
async fn start() -> (Fake, String) {
    let fake = Fake::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("grpc://{}", listener.local_addr().unwrap());
    let service = FlightServiceServer::new(fake.clone());
    let incoming = futures::stream::unfold(listener, |listener| async move {
        Some((listener.accept().await.map(|(stream, _)| stream), listener))
    });
    tokio::spawn(tonic::transport::Server::builder().add_service(service).serve_with_incoming(incoming));
    (fake, url)
}

const TIMEOUT: Duration = Duration::from_secs(10);

fn batches(set: &Devices) -> Vec<RecordBatch> {
    let batch = |devid| {
        let mut batch = crate::workload::generate::encode::Batch::default();
        batch.push(&Device::numbered(devid), &set.rows(devid));
        batch.finish().unwrap()
    };
    set.ids().map(batch).collect()
}

#[tokio::test]
async fn what_is_put_is_acknowledged_and_comes_back_from_every_endpoint() {
    let (fake, url) = start().await;
    let channel = connect(&url, TIMEOUT).await.unwrap();
    let sent = batches(&Devices { devices: 5, rows: 100, seed: 1 });
    let stream = futures::stream::iter(sent.clone()).map(Ok);
    assert_eq!(ingest(channel.clone(), stream, TIMEOUT).await.unwrap(), 500);
    let command = fake.commands.lock().unwrap()[0].clone();
    assert_eq!((command.table.as_str(), command.schema.as_deref()), ("devices", Some("db")));
    assert_eq!(*fake.kept.lock().unwrap(), sent);

    let mut session = Session::new(channel, TIMEOUT);
    session.set_tokens(&["a".into(), "b".into()]);
    let found = session.query("select * from db.devices").await.unwrap();
    assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 500);
    assert_eq!(*fake.tokens.lock().unwrap(), ["a,b"]);
    let empty = session.query("select none").await.unwrap();
    assert_eq!((empty.len(), empty[0].num_rows(), empty[0].schema()), (1, 0, SCHEMA.clone()));
    let error = format!("{:#}", session.query("select 1 from nowhere").await.unwrap_err());
    assert!(error.contains("no such table") && error.contains("select 1 from nowhere"), "{error}");
}

#[tokio::test]
async fn a_stream_with_an_error_is_broken_off_and_nothing_of_it_is_kept() {
    let (fake, url) = start().await;
    let channel = connect(&url, TIMEOUT).await.unwrap();
    let sent = batches(&Devices { devices: 2, rows: 100, seed: 1 });
    let failure = futures::stream::once(async {
        // Late enough for the server to have seen the rows before it.
        tokio::time::sleep(Duration::from_millis(100)).await;
        Err(anyhow::anyhow!("testdata0.csv line 7").context("outer"))
    });
    let items = futures::stream::iter(sent).map(Ok).chain(failure);
    let error = ingest(channel, items, TIMEOUT).await.unwrap_err();
    assert!(format!("{error:#}").contains("testdata0.csv line 7"), "{error:#}");
    for _ in 0..200 {
        if *fake.broken.lock().unwrap() == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(*fake.broken.lock().unwrap(), 1);
    assert!(fake.kept.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_client_writes_its_share_in_streams_of_the_chosen_length() {
    let (fake, url) = start().await;
    let set = Devices { devices: 6, rows: 50, seed: 3 };
    let mut options = crate::drive::WriteOptions::new("http://127.0.0.1:1");
    options.flight = Some(url);
    options.protocol = crate::drive::Protocol::Flight;
    (options.clients, options.rows_per_request, options.rows_per_stream) = (2, 20, 60);
    let source = crate::workload::generate::Source::Generated(set, crate::workload::generate::Order::Time);
    let sample = crate::drive::write(&source, &options, &|_| ()).await.unwrap();
    assert_eq!((sample.rows, sample.requests, sample.rows_by_client), (300, 6, vec![150, 150]));
    let kept = fake.kept.lock().unwrap();
    let sizes: Vec<usize> = kept.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(sizes.iter().sum::<usize>(), 300);
    assert!(sizes.iter().all(|&size| size == 20 || size == 10), "{sizes:?}");
}
