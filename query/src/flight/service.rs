//! The RPCs: decodes the command and the session, dispatches the command, encodes its result.
//!
//! `arrow-flight` has a trait for Flight SQL, but it decodes every ticket as a command (InfluxDB's are JSON), refuses GetSchema and
//! cannot set reply headers. So this implements Flight itself.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::datatypes::SchemaRef;
use arrow_flight::{
    Action, ActionType, Criteria, Empty, FlightData, FlightDescriptor, FlightInfo, HandshakeRequest, HandshakeResponse,
    PollInfo, PutResult, SchemaResult, Ticket,
    flight_service_server::FlightService,
    sql::{Any, Command, DoPutUpdateResult},
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use prost::Message;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_format::{Error, Result, auth::LoggedIn};
use tidelake_protocol::http::routes;
use tidelake_routes::Routes;
use tonic::{Request, Response, Status, Streaming, metadata::MetadataMap};

use super::{
    actions,
    cache::{Cache, Key},
    encode::{Messages, messages},
    metadata::Metadata,
    prepared::Kept,
    reply::Calls,
    sessions,
    statements::{flight_info, note},
    status::to_status,
};
use crate::{
    engine::{Engine, Prepared},
    session::Session,
    writer::WriteOutcome,
};

/// Maximum number of bytes of a client message. ADBC sends batches of up to 16 MiB.
pub(super) const MAX_MESSAGE_BYTES: usize = 64 << 20;
/// Maximum number of bytes of all plans between GetFlightInfo and DoGet, and how long a plan waits for its DoGet.
const PLAN_BYTES: usize = 64 << 20;
const PLAN_WAIT: Duration = Duration::from_secs(60);
/// Maximum number of bytes of the cache of cancelled tickets; an entry expires after [`KEEP`].
const CANCELLED: usize = 1 << 16;

/// Maximum number of bytes of all prepared statements and their parameters.
const PREPARED_BYTES: usize = 256 << 20;
/// How long an unused prepared statement is kept. Afterwards its parameters must be bound again.
pub(super) const KEEP: Duration = Duration::from_secs(3_600);

/// How long the reply of a handshake waits for the end of its request stream.
const HANDSHAKE: Duration = Duration::from_secs(5);

type BoxStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// The Flight SQL service over one engine. Cheap to clone.
#[derive(Clone)]
pub struct FlightSql {
    pub(super) engine: Engine,
    /// Plans of GetFlightInfo calls, for the DoGet that follows.
    pub(super) plans: Arc<Cache<Arc<Prepared>>>,
    /// Tickets that were cancelled before their DoGet.
    pub(super) cancelled: Arc<Cache<()>>,
    /// Plans and bound parameters of prepared statements.
    pub(super) prepared: Arc<Cache<Kept>>,
    metadata: Arc<Metadata>,
    random: Arc<Mutex<StdRng>>,
}

/// Routes of the service: the handshake begins a session, every other method requires a user. Rights for a command or action are
/// checked where it runs. Accepts messages of up to 64 MiB.
pub fn routes(engine: Engine) -> Routes {
    let service = Calls::new(FlightSql::new(engine, StdRng::from_os_rng()));
    Routes::new().serve(&routes::FLIGHT_HANDSHAKE, service.clone()).serve(&routes::FLIGHT, service)
}

impl FlightSql {
    /// Creates a service that takes the keys of its handles from `random`.
    pub fn new(engine: Engine, random: StdRng) -> Self {
        Self {
            engine,
            plans: Arc::new(Cache::new(PLAN_BYTES, PLAN_WAIT)),
            cancelled: Arc::new(Cache::new(CANCELLED, KEEP)),
            prepared: Arc::new(Cache::new(PREPARED_BYTES, KEEP)),
            metadata: Arc::new(Metadata::new().expect("the metadata is constant, and tests encode it")),
            random: Arc::new(Mutex::new(random)),
        }
    }

    /// The monotonic clock for expiry in the caches.
    pub(super) fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    /// A new unguessable key.
    pub(super) fn new_key(&self) -> Key {
        self.random.lock().random()
    }

    async fn info(&self, session: Result<Session>, descriptor: FlightDescriptor) -> Result<Response<FlightInfo>> {
        let session = session?;
        match command(&descriptor.cmd)? {
            Command::CommandStatementQuery(c) => self.statement_info(&session, c, descriptor).await,
            Command::CommandPreparedStatementQuery(c) => self.prepared_info(&session, c, descriptor).await,
            other => match self.metadata.schema(&other) {
                Some(schema) => flight_info(&schema, descriptor.cmd.clone(), descriptor).map(Response::new),
                None => Err(unknown(&other)),
            },
        }
    }

    async fn schema(&self, session: Result<Session>, descriptor: FlightDescriptor) -> Result<SchemaRef> {
        let session = session?;
        match command(&descriptor.cmd)? {
            Command::CommandStatementQuery(c) => self.statement_schema(&session, c).await,
            Command::CommandPreparedStatementQuery(c) => self.prepared_schema(&session, &c).await,
            other => self.metadata.schema(&other).ok_or_else(|| unknown(&other)),
        }
    }

    async fn rows(&self, session: Result<Session>, ticket: Ticket) -> Result<Response<Messages>> {
        let session = session?;
        if ticket.ticket.first() == Some(&b'{') {
            return self.influx_rows(&session, &ticket.ticket).await;
        }
        match command(&ticket.ticket)? {
            Command::TicketStatementQuery(c) => self.statement_rows(&session, c).await,
            Command::CommandPreparedStatementQuery(c) => self.prepared_rows(&session, c).await,
            other => match self.metadata.schema(&other) {
                Some(schema) => {
                    let rows = self.metadata.rows(&self.engine, &session, other).await?;
                    Ok(Response::new(messages(schema, stream::iter([Ok(rows)]), Default::default(), None)?))
                }
                None => Err(unknown(&other)),
            },
        }
    }

    /// Runs a DoGet; the query's ID is in the reply's headers, also of an error.
    pub(super) async fn get(&self, request: Request<Ticket>) -> Result<Response<Messages>, Status> {
        let (metadata, extensions, ticket) = request.into_parts();
        let id = self.engine.query_id();
        let session = sessions::session_of(&metadata, &extensions);
        let session = session.map(|session| Session { query_id: Some(id.clone()), ..session });
        let mut reply = self.rows(session, ticket).await.map_err(|e| to_status(&e));
        match &mut reply {
            Ok(reply) => sessions::name(&id, reply.metadata_mut()),
            Err(status) => sessions::name(&id, status.metadata_mut()),
        }
        reply
    }

    async fn put(
        &self,
        session: Result<Session>,
        mut data: Streaming<FlightData>,
    ) -> Result<Response<BoxStream<PutResult>>> {
        let session = session?;
        let missing =
            || Error::invalid("DoPut without a command: expected a descriptor with a command in the first message");
        let first = data.message().await.map_err(|e| super::status::from_flight(e.into()))?.ok_or_else(missing)?;
        let command = command(&first.flight_descriptor.as_ref().ok_or_else(missing)?.cmd)?;
        // The first message may hold the schema as well as the command.
        let data = stream::iter([Ok(first)]).chain(data);
        let (session, outcome) = match command {
            Command::CommandStatementUpdate(c) => {
                let outcome = self.statement_update(&session, c).await?;
                (session, outcome)
            }
            Command::CommandStatementIngest(c) => {
                let outcome = self.ingest(&session, c, data).await?;
                (session, outcome)
            }
            Command::CommandPreparedStatementUpdate(c) => self.prepared_update(&session, c, data).await?,
            Command::CommandPreparedStatementQuery(c) => {
                let bound = self.bind_prepared(&session, c, data).await?;
                return Ok(one(PutResult { app_metadata: bound.encode_to_vec().into() }));
            }
            other => return Err(unknown(&other)),
        };
        Ok(put_result(&session, &outcome))
    }
}

fn put_result(session: &Session, outcome: &WriteOutcome) -> Response<BoxStream<PutResult>> {
    let result = DoPutUpdateResult { record_count: i64::try_from(outcome.affected_rows).unwrap_or(i64::MAX) };
    let mut response = one(PutResult { app_metadata: result.encode_to_vec().into() });
    note(session, outcome, response.metadata_mut());
    response
}

/// Decodes a command.
pub(super) fn command(bytes: &[u8]) -> Result<Command> {
    let bad = || Error::invalid("invalid Flight SQL command");
    let any = Any::decode(bytes).map_err(|e| bad().with("reason", &e).source(e))?;
    Command::try_from(any).map_err(|e| bad().with("reason", &e).source(e))
}

fn unknown(command: &Command) -> Error {
    Error::unsupported("unsupported Flight SQL command for this RPC")
        .with("command", crate::error::shorten(command.type_url()))
}

fn one<T: Send + 'static>(item: T) -> Response<BoxStream<T>> {
    Response::new(stream::iter([Ok(item)]).boxed())
}

#[tonic::async_trait]
impl FlightService for FlightSql {
    type HandshakeStream = BoxStream<HandshakeResponse>;
    type ListFlightsStream = BoxStream<FlightInfo>;
    type DoGetStream = BoxStream<FlightData>;
    type DoPutStream = BoxStream<PutResult>;
    type DoActionStream = BoxStream<arrow_flight::Result>;
    type ListActionsStream = BoxStream<ActionType>;
    type DoExchangeStream = BoxStream<FlightData>;

    /// Returns the session token that the authentication layer created; where authentication is off, any token is accepted. The
    /// contents of the request stream are ignored, but the reply ends after it: a client that writes into an ended call may wait
    /// forever.
    async fn handshake(
        &self,
        request: Request<Streaming<HandshakeRequest>>,
    ) -> Result<Response<Self::HandshakeStream>, Status> {
        let given = request.metadata().get("authorization").and_then(|v| v.to_str().ok());
        let given = given.and_then(|v| v.strip_prefix("Bearer ")).filter(|t| *t != "None").unwrap_or("anonymous");
        let token = request.extensions().get().map_or(given, |session: &LoggedIn| session.token.as_str()).to_owned();
        let header = format!("Bearer {token}").parse();
        let reply = HandshakeResponse { protocol_version: 0, payload: token.into() };
        let mut requests = request.into_inner();
        let end = async move {
            let all = async { while let Ok(Some(_)) = requests.message().await {} };
            let _ = tokio::time::timeout(HANDSHAKE, all).await;
            None
        };
        let body: BoxStream<_> =
            stream::iter([Ok(reply)]).chain(stream::once(end).filter_map(std::future::ready)).boxed();
        let mut response = Response::new(body);
        if let Ok(header) = header {
            response.metadata_mut().insert("authorization", header);
        }
        Ok(response)
    }

    /// Always empty: flights are created by statements.
    async fn list_flights(&self, _: Request<Criteria>) -> Result<Response<Self::ListFlightsStream>, Status> {
        Ok(Response::new(stream::empty().boxed()))
    }

    async fn get_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<FlightInfo>, Status> {
        let (metadata, extensions, descriptor) = request.into_parts();
        self.info(sessions::session_of(&metadata, &extensions), descriptor).await.map_err(|e| to_status(&e))
    }

    /// Returns the complete FlightInfo at once: planning is too short for polling.
    async fn poll_flight_info(&self, request: Request<FlightDescriptor>) -> Result<Response<PollInfo>, Status> {
        let info = self.get_flight_info(request).await?;
        Ok(info.map(|info| PollInfo {
            info: Some(info),
            flight_descriptor: None,
            progress: Some(1.0),
            expiration_time: None,
        }))
    }

    async fn get_schema(&self, request: Request<FlightDescriptor>) -> Result<Response<SchemaResult>, Status> {
        let (metadata, extensions, descriptor) = request.into_parts();
        let schema = self.schema(sessions::session_of(&metadata, &extensions), descriptor).await;
        let schema = schema.map_err(|e| to_status(&e))?;
        let info = FlightInfo::new().try_with_schema(&schema).map_err(|e| to_status(&e.into()))?;
        Ok(Response::new(SchemaResult { schema: info.schema }))
    }

    async fn do_get(&self, request: Request<Ticket>) -> Result<Response<Self::DoGetStream>, Status> {
        Ok(self.get(request).await?.map(|messages| messages.map_ok(FlightData::from).boxed()))
    }

    async fn do_put(&self, request: Request<Streaming<FlightData>>) -> Result<Response<Self::DoPutStream>, Status> {
        let (metadata, extensions, data) = request.into_parts();
        self.put(sessions::session_of(&metadata, &extensions), data).await.map_err(|e| to_status(&e))
    }

    async fn do_action(&self, request: Request<Action>) -> Result<Response<Self::DoActionStream>, Status> {
        let (metadata, extensions, action) = request.into_parts();
        let mut reply = MetadataMap::new();
        let act = async {
            let session = sessions::session_of(&metadata, &extensions)?;
            self.act(&session, &action, &mut reply).await
        };
        let body = act.await.map_err(|e| to_status(&e))?;
        let results: BoxStream<_> = stream::iter(body.map(|body| Ok(arrow_flight::Result { body }))).boxed();
        let mut response = Response::new(results);
        *response.metadata_mut() = reply;
        Ok(response)
    }

    async fn list_actions(&self, _: Request<Empty>) -> Result<Response<Self::ListActionsStream>, Status> {
        Ok(Response::new(stream::iter(actions::list().into_iter().map(Ok)).boxed()))
    }

    async fn do_exchange(&self, _: Request<Streaming<FlightData>>) -> Result<Response<Self::DoExchangeStream>, Status> {
        Err(Status::unimplemented("DoExchange is not part of Flight SQL"))
    }
}
