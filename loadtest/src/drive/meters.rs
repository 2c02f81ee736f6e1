//! Smart meter load: writes the whole data set to a new server pinned to a number of processors, and checks its sums.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::{
    Progress,
    database::create_table,
    http::HttpOptions,
    query::{Addresses, Asker, Door},
    send::{Acknowledgement, Bodies, SendOptions, SendSample, TEXT, send},
    server::{Server, ServerOptions},
};
use crate::{
    measure,
    workload::meters::{CREATE_SUPERTABLE, DATABASE, Feed, Form, Meters, SUMS},
};

/// Settings of the load.
#[derive(Debug, Clone)]
pub struct MetersOptions {
    /// The server's program.
    pub program: PathBuf,
    /// A new directory for the server's root.
    pub root: PathBuf,
    /// Number of processors of the server.
    pub cores: usize,
    /// Protocol.
    pub form: Form,
    /// Concurrent clients.
    pub clients: usize,
    /// Rows per request.
    pub rows_per_request: u32,
}

/// Result of one load.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MetersSample {
    /// Protocol.
    pub form: Form,
    /// Number of processors of the server.
    pub cores: usize,
    /// Processors of the clients, as a `taskset` list.
    pub client_cores: String,
    /// Whether the clients shared the server's processors.
    pub is_shared: bool,
    /// Concurrent clients.
    pub clients: usize,
    /// Rows per request.
    pub rows_per_request: u32,
    /// Acknowledged requests and rows.
    pub sent: SendSample,
    /// Processor time of the server during the load, in seconds.
    pub server_cpu_seconds: f64,
    /// Processor time of the clients, in seconds.
    pub client_cpu_seconds: f64,
    /// Size of the root at the end, in bytes.
    pub stored_bytes: u64,
}

/// Starts a server pinned to the first processors of this machine, pins the clients to the remaining ones (to all if none
/// remain), writes the whole data set, and compares counts and sums with the generator's.
///
/// # Errors
/// More processors than the machine has, a server that does not start, a request that fails, a wrong sum.
pub async fn load(set: Meters, options: &MetersOptions, progress: Progress<'_>) -> Result<MetersSample> {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    ensure!(
        (1..=all).contains(&options.cores),
        "expected 1 to {all} processors for the server, found {}",
        options.cores
    );
    let is_shared = options.cores == all;
    let client_cores = if is_shared { range(0..all) } else { range(options.cores..all) };
    let server = Server::start(&ServerOptions {
        program: options.program.clone(),
        store: options.root.display().to_string(),
        environment: Vec::new(),
        cores: Some(range(0..options.cores)),
    })
    .await?;
    measure::pin(std::process::id(), &client_cores)?;
    let loaded = write(set, options, &server, progress).await;
    measure::pin(std::process::id(), &range(0..all))?;
    let (sent, server_cpu_seconds, client_cpu_seconds) = loaded?;
    let stored_bytes = measure::size(&options.root)?.total().bytes;

    let addresses = Addresses { url: server.url.clone(), flight: None };
    let mut asker = Asker::connect(Door::HttpArrow, &addresses, &HttpOptions::default()).await?;
    asker.set_tokens(&sent.tokens);
    let (answer, _) = asker.ask(SUMS).await?;
    let answer = answer.into_answer()?;
    tokio::task::spawn_blocking(move || set.check(&answer)).await.context("compute the sums")??;
    server.kill().await?;
    Ok(MetersSample {
        form: options.form,
        cores: options.cores,
        client_cores,
        is_shared,
        clients: options.clients,
        rows_per_request: options.rows_per_request,
        sent,
        server_cpu_seconds,
        client_cpu_seconds,
        stored_bytes,
    })
}

/// Formats a range of processors for `taskset -c`.
fn range(cores: std::ops::Range<usize>) -> String {
    if cores.len() == 1 { cores.start.to_string() } else { format!("{}-{}", cores.start, cores.end.saturating_sub(1)) }
}

async fn write(
    set: Meters,
    options: &MetersOptions,
    server: &Server,
    progress: Progress<'_>,
) -> Result<(SendSample, f64, f64)> {
    let http = HttpOptions::default();
    create_table(&server.url, &http, DATABASE, CREATE_SUPERTABLE).await?;
    let clients = options.clients.max(1) as u64;
    let share = |client: u64| 1 + (u64::from(set.subtables) * client / clients) as u32;
    let bodies = (0..clients).map(|client| {
        let mut feed = Feed::new(set, options.form, share(client)..share(client + 1));
        let rows = options.rows_per_request.max(1);
        Box::new(move |body: &mut Vec<u8>| feed.next(rows, body)) as Bodies
    });
    let sending = SendOptions {
        url: server.url.clone(),
        http,
        target: options.form.target(),
        content_type: TEXT,
        acknowledgement: match options.form {
            Form::TdEngine => Acknowledgement::AffectedRows,
            Form::Line => Acknowledgement::Status,
        },
        pace: None,
    };
    let server_id = server.id().context("the server ended")?;
    let (server_before, own_before) = (measure::cpu_seconds(server_id)?, measure::cpu_seconds(std::process::id())?);
    let sent = send(&sending, bodies.collect(), progress).await?;
    ensure!(sent.rows == set.len(), "expected {} acknowledged rows, found {}", set.len(), sent.rows);
    let server_cpu = measure::cpu_seconds(server_id)? - server_before;
    Ok((sent, server_cpu, measure::cpu_seconds(std::process::id())? - own_before))
}
