//! Flight SQL client of the shell, import and export.

use std::time::Duration;

use anyhow::Context;
use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::SchemaRef,
};
use arrow_flight::{
    Action, CancelFlightInfoRequest, FlightInfo,
    error::FlightError,
    flight_service_client::FlightServiceClient,
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

/// Time limit for the server's reply to a cancellation.
const CANCEL_WITHIN: Duration = Duration::from_secs(5);
/// Largest message that a Tidelake server sends or accepts, in bytes.
const MESSAGE_BYTES: usize = 64 << 20;

/// A connection that runs one statement at a time.
pub(crate) struct Client {
    flight: FlightSqlServiceClient<Channel>,
    database: Option<String>,
    /// The statement whose rows are being read, once the server has returned its flight.
    running: Option<FlightInfo>,
}

/// Result of a statement.
pub(crate) struct Reply {
    /// Column names and types; empty for a statement that returns no rows.
    pub(crate) schema: SchemaRef,
    /// Notices of the server about the statement.
    pub(crate) notices: Vec<String>,
    /// The rows.
    pub(crate) batches: BoxStream<'static, anyhow::Result<RecordBatch>>,
}

impl Client {
    /// Connects within 10 seconds.
    ///
    /// # Errors
    /// The URL is invalid, or no server answers at it.
    pub(crate) async fn connect(server: &ServerArgs) -> anyhow::Result<Self> {
        let mut endpoint =
            Endpoint::from_shared(server.url.clone()).with_context(|| format!("invalid server URL {}", server.url))?;
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
            endpoint = endpoint.tls_config(config).context("invalid TLS files")?;
        }
        let channel = endpoint
            .connect_timeout(Duration::from_secs(10))
            .initial_stream_window_size(16 << 20)
            .initial_connection_window_size(16 << 20)
            .tcp_nodelay(true)
            .connect()
            .await
            .with_context(|| format!("no server answers at {}; is `tidelake serve` running?", server.url))?;
        let mut client = Self::over(channel);
        client.log_in(server).await?;
        if let Some(database) = &server.database {
            client.use_database(database);
        }
        Ok(client)
    }

    /// A client of the service at the other end of a channel, without credentials.
    pub(crate) fn over(channel: Channel) -> Self {
        let inner = FlightServiceClient::new(channel)
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES);
        Self { flight: FlightSqlServiceClient::new_from_inner(inner), database: None, running: None }
    }

    /// Another client with the same connection and credentials, for statements beside those of this one.
    pub(crate) fn another(&self) -> Self {
        let mut flight = FlightSqlServiceClient::new_from_inner(self.flight.inner().clone());
        if let Some(token) = self.flight.token() {
            flight.set_token(token.clone());
        }
        Self { flight, database: None, running: None }
    }

    /// Authenticates with the given token, or opens a session for the given user.
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

    /// Database of unqualified table names.
    pub(crate) fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Sets the database of unqualified table names.
    pub(crate) fn use_database(&mut self, database: &str) {
        self.flight.set_header("database", database);
        self.database = Some(database.to_owned());
    }

    /// Whether the server has a database of this name that is visible to the user.
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

    /// Cancels the last statement on the server and returns the outcome as an error. While the server plans a statement, or
    /// executes one that writes, the client has no flight to cancel yet: then only the reply is abandoned.
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
            Ok(Ok(())) => anyhow::anyhow!("query cancelled"),
            // The server has already ended the query because this client closed its result.
            Ok(Err(FlightError::Tonic(status))) if status.code() == Code::NotFound => {
                anyhow::anyhow!("query cancelled")
            }
            Ok(Err(error)) => {
                explain_flight(error).context("cancelled; the server did not confirm that the query ended")
            }
            Err(_) => anyhow::anyhow!("cancelled; the server sent no confirmation within {CANCEL_WITHIN:?}"),
        }
    }

    /// Runs one statement and collects all its rows.
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

    /// Sends batches into a table, creating it when it does not exist; returns the number of rows stored.
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

/// Returns the password of a user from `TIDELAKE_PASSWORD`, else from a prompt on the terminal.
///
/// # Errors
/// The variable is not set and there is no terminal.
pub(crate) fn password_of(user: &str) -> anyhow::Result<String> {
    match std::env::var("TIDELAKE_PASSWORD") {
        Ok(password) => Ok(password),
        Err(_) => ask_password(user),
    }
}

/// Prompts for a password without echo.
fn ask_password(user: &str) -> anyhow::Result<String> {
    rpassword::prompt_password(format!("password of {user}: "))
        .context("no password: set TIDELAKE_PASSWORD, or run this at a terminal")
}

/// Extracts the server's message from the client library's `…message: "text"`, which details may follow.
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
