//! A Flight SQL connection as the shell, import and export use it.

use std::time::Duration;

use anyhow::Context;
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use arrow_flight::{
    FlightInfo,
    error::FlightError,
    sql::{
        CommandStatementIngest, TableDefinitionOptions, TableExistsOption, TableNotExistOption,
        client::FlightSqlServiceClient,
    },
};
use futures::{Stream, StreamExt, TryStreamExt, stream::BoxStream};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use crate::cli::ServerArgs;

/// The largest message that a server of ours sends or takes, in bytes.
const MESSAGE_BYTES: usize = 64 << 20;

/// One connection; statements run one at a time.
pub(crate) struct Client {
    flight: FlightSqlServiceClient<Channel>,
    database: Option<String>,
}

/// What a statement gave.
pub(crate) struct Reply {
    /// Names and types; empty for a statement that gives no rows.
    pub(crate) schema: SchemaRef,
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
        let mut client = Self { flight: FlightSqlServiceClient::new_from_inner(inner), database: None };
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
        let password = match std::env::var("TIDELAKE_PASSWORD") {
            Ok(password) => password,
            Err(_) => ask_password(user)?,
        };
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

    /// Runs one statement, reading or writing.
    pub(crate) async fn execute(&mut self, sql: &str) -> anyhow::Result<Reply> {
        let info = self.flight.execute(sql.to_owned(), None).await.map_err(explain)?;
        let schema = info.clone().try_decode_schema()?;
        let batches = self.batches(info).await?;
        Ok(Reply { schema: schema.into(), batches })
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
