//! A Flight SQL connection as the shell, import and export use it.

use std::time::Duration;

use anyhow::Context;
use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::SchemaRef,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, FlightInfo,
    error::FlightError,
    sql::{
        CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
        client::FlightSqlServiceClient,
    },
};
use futures::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use prost::Message;
use tonic::{
    Code,
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use crate::arguments::ServerArgs;

/// How long the server has to say that it ended a query.
const CANCEL_WITHIN: Duration = Duration::from_secs(5);
/// The largest message that a server of ours sends or takes, in bytes.
const MESSAGE_BYTES: usize = 64 << 20;

/// One connection; statements run one at a time.
pub(crate) struct Client {
    flight: FlightSqlServiceClient<Channel>,
    database: Option<String>,
    /// The statement whose rows are being read, if the server has named it.
    running: Option<FlightInfo>,
}

/// What a statement gave.
pub(crate) struct Reply {
    /// Names and types; empty for a statement that gives no rows.
    pub(crate) schema: SchemaRef,
    /// What the server remarks on the statement.
    pub(crate) notices: Vec<String>,
    /// The rows.
    pub(crate) batches: BoxStream<'static, anyhow::Result<RecordBatch>>,
}

impl Client {
    /// Connects within 10 seconds.
    ///
    /// # Errors
    /// When the address is no URL or nobody answers there.
    pub(crate) async fn connect(server: &ServerArgs) -> anyhow::Result<Self> {
        let mut endpoint = Endpoint::from_shared(server.url.clone())
            .with_context(|| format!("{} is no URL of a server", server.url))?;
        if server.url.starts_with("https://") {
            let (ca, identity) = server.tls.read()?;
            let mut config = ClientTlsConfig::new();
            config = match ca {
                Some(pem) => config.ca_certificate(Certificate::from_pem(pem)),
                None => config.with_webpki_roots(),
            };
            if let Some((certificate, key)) = identity {
                config = config.identity(Identity::from_pem(certificate, key));
            }
            endpoint = endpoint.tls_config(config).context("the files of TLS cannot be used")?;
        }
        let channel = endpoint
            .connect_timeout(Duration::from_secs(10))
            .initial_stream_window_size(16 << 20)
            .initial_connection_window_size(16 << 20)
            .tcp_nodelay(true)
            .connect()
            .await
            .with_context(|| format!("no server answers at {}; is `tidelake serve` running?", server.url))?;
        let inner = arrow_flight::flight_service_client::FlightServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES);
        let mut client = Self { flight: FlightSqlServiceClient::new_from_inner(inner), database: None, running: None };
        client.log_in(server).await?;
        if let Some(database) = &server.database {
            client.use_database(database);
        }
        Ok(client)
    }

    /// Brings the token that was given, or the one of a session of the user who was named.
    async fn log_in(&mut self, server: &ServerArgs) -> anyhow::Result<()> {
        if let Some(token) = &server.token {
            self.flight.set_token(token.expose().to_owned());
            return Ok(());
        }
        let Some(user) = &server.user else { return Ok(()) };
        let password = password_of(user)?;
        self.flight.handshake(user, &password).await.map_err(explain)?;
        Ok(())
    }

    /// The database of unqualified tables.
    pub(crate) fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Chooses the database of unqualified tables.
    pub(crate) fn use_database(&mut self, database: &str) {
        self.flight.set_header("database", database);
        self.database = Some(database.to_owned());
    }

    /// Whether the server has a database of this name that the user may know of.
    ///
    /// # Errors
    /// As for [`Client::execute`].
    pub(crate) async fn knows_database(&mut self, name: &str) -> anyhow::Result<bool> {
        let databases = self.collect("show databases").await?;
        let names = databases.iter().filter_map(|batch| batch.columns().first()?.as_string_opt::<i32>());
        Ok(names.flat_map(|names| names.iter().flatten()).any(|known| known.eq_ignore_ascii_case(name)))
    }

    /// Runs one statement, reading or writing.
    pub(crate) async fn execute(&mut self, sql: &str) -> anyhow::Result<Reply> {
        self.running = None;
        let info = self.flight.execute(sql.to_owned(), None).await.map_err(explain)?;
        self.running = Some(info.clone());
        let schema = info.clone().try_decode_schema()?;
        let notices = String::from_utf8_lossy(&info.app_metadata).lines().map(str::to_owned).collect();
        let batches = self.batches(info).await?;
        Ok(Reply { schema: schema.into(), notices, batches })
    }

    /// Cancels the statement that was last executed, on the server as well, and says what became of it. While a statement is
    /// planned, or while one that writes is executed, the server has not named it yet: then only its answer is given up.
    pub(crate) async fn cancel(&mut self) -> anyhow::Error {
        let Some(info) = self.running.take() else {
            return anyhow::anyhow!("cancelled; a statement that writes may have been executed");
        };
        let action = Action::new("CancelFlightInfo", CancelFlightInfoRequest::new(info).encode_to_vec());
        let asked = async {
            let mut reply = self.flight.do_action(action).await?;
            while reply.message().await?.is_some() {}
            Ok::<_, FlightError>(())
        };
        match tokio::time::timeout(CANCEL_WITHIN, asked).await {
            Ok(Ok(())) => anyhow::anyhow!("the query was cancelled"),
            // The server has ended it before: this client has closed its result.
            Ok(Err(FlightError::Tonic(status))) if status.code() == Code::NotFound => {
                anyhow::anyhow!("the query was cancelled")
            }
            Ok(Err(error)) => {
                explain_flight(error).context("cancelled; the server did not say that it ended the query")
            }
            Err(_) => anyhow::anyhow!("cancelled; the server did not say in {CANCEL_WITHIN:?} that it ended the query"),
        }
    }

    /// Runs one statement and keeps all its rows.
    pub(crate) async fn collect(&mut self, sql: &str) -> anyhow::Result<Vec<RecordBatch>> {
        self.execute(sql).await?.batches.try_collect().await
    }

    async fn batches(&mut self, info: FlightInfo) -> anyhow::Result<BoxStream<'static, anyhow::Result<RecordBatch>>> {
        let mut streams = Vec::new();
        for endpoint in info.endpoint {
            let ticket = endpoint.ticket.context("the server sent an endpoint without a ticket")?;
            streams.push(self.flight.do_get(ticket).await.map_err(explain)?.map_err(explain_flight));
        }
        Ok(futures::stream::iter(streams).flatten().boxed())
    }

    /// Sends batches into a table, creating it when it does not exist; returns the rows that were stored.
    pub(crate) async fn ingest(
        &mut self,
        table: &str,
        batches: impl Stream<Item = Result<RecordBatch, FlightError>> + Send + 'static,
    ) -> anyhow::Result<i64> {
        let command = CommandStatementIngest {
            table_definition_options: Some(TableDefinitionOptions {
                if_not_exist: TableNotExistOption::Create.into(),
                if_exists: TableExistsOption::Append.into(),
            }),
            table: table.to_owned(),
            schema: self.database.clone(),
            catalog: None,
            temporary: false,
            transaction_id: None,
            options: Default::default(),
        };
        self.flight.execute_ingest(command, batches).await.map_err(explain)
    }
}

/// The password of a user: from the environment, else from a person at a terminal.
///
/// # Errors
/// When there is neither.
pub(crate) fn password_of(user: &str) -> anyhow::Result<String> {
    match std::env::var("TIDELAKE_PASSWORD") {
        Ok(password) => Ok(password),
        Err(_) => ask_password(user),
    }
}

/// Asks a person at a terminal, without showing what is typed.
fn ask_password(user: &str) -> anyhow::Result<String> {
    rpassword::prompt_password(format!("password of {user}: "))
        .context("no password: set TIDELAKE_PASSWORD, or run this at a terminal")
}

/// The server's own words, without the client library's wrapping: `…message: "words"`, of which details may follow.
fn explain(error: impl std::fmt::Display) -> anyhow::Error {
    let text = error.to_string();
    let quoted = text.split_once("message: \"").map(|(_, rest)| rest);
    let end = |rest: &str| rest.find("\", details").or_else(|| rest.rfind('"'));
    let message = quoted.and_then(|rest| rest.get(..end(rest)?)).unwrap_or(&text);
    anyhow::anyhow!("{}", message.replace("\\\"", "\"").replace("\\n", "\n"))
}

fn explain_flight(error: FlightError) -> anyhow::Error {
    match error {
        FlightError::Tonic(status) => anyhow::anyhow!("{}", status.message()),
        other => explain(other),
    }
}
