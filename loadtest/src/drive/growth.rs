//! Growth: the same questions of data sets that grow, each loaded through Flight SQL into a server of its own.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, sleep};

use super::{
    Existing, Progress, Protocol, WriteOptions, WriteSample,
    compact::{CompactSample, compact},
    create_database,
    http::HttpOptions,
    query::{Addresses, Asker, Door, QuerySample},
    server::{Server, ServerOptions},
    write::write,
};
use crate::{
    Devices,
    measure::{self, Memory},
    workload::generate::{Order, Source},
    workload::oracle::Oracle,
    workload::queries,
    workload::verify::verify,
};

/// Rows of one Arrow batch.
const BATCH_ROWS: usize = 10_000;
/// Clients that load at once.
const CLIENTS: usize = 4;
/// A fold leaves younger segments alone.
const SETTLE: Duration = Duration::from_secs(6);
/// The longest that a load's stream or a merge of everything may take.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Where one size is measured.
#[derive(Debug, Clone)]
pub struct GrowthOptions {
    /// The server's program.
    pub program: PathBuf,
    /// Its root, empty.
    pub root: PathBuf,
    /// Runs of each question at least.
    pub repeat: usize,
}

/// One size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GrowthSample {
    /// The data set.
    pub data: Devices,
    /// Loading it.
    pub load: WriteSample,
    /// Folding and merging what the background had left.
    pub compact: CompactSample,
    /// The server's memory when everything was folded and merged, and nothing asked yet.
    pub loaded_memory: Memory,
    /// q2 to q4 over all rows, through Flight SQL; all answers were right.
    pub queries: Vec<QuerySample>,
    /// The server's memory at the end.
    pub memory: Memory,
}

/// Loads a data set into a new server, compacts, asks q2 to q4 over all rows and compares the answers with the generator's.
///
/// # Errors
/// A server that does not start, a request that fails, a wrong answer.
pub async fn grow(set: Devices, options: &GrowthOptions, progress: Progress<'_>) -> Result<GrowthSample> {
    let server = Server::start(&ServerOptions {
        program: options.program.clone(),
        store: options.root.display().to_string(),
        environment: Vec::new(),
        cores: None,
    })
    .await?;
    let id = server.id().context("the server ended")?;
    let http = HttpOptions { request_timeout: PATIENCE, ..HttpOptions::default() };
    let flight = server.url.replacen("http://", "grpc://", 1);
    create_database(&server.url, &http, Existing::Drop).await?;
    let writing = WriteOptions {
        flight: Some(flight.clone()),
        protocol: Protocol::Flight,
        rows_per_request: BATCH_ROWS,
        clients: CLIENTS,
        stream_timeout: PATIENCE,
        ..WriteOptions::new(&server.url)
    };
    let load = write(&Source::Generated(set, Order::Device), &writing, progress).await?;
    sleep(SETTLE).await;
    let compact = compact(&server.url, &http).await?;
    let loaded_memory = measure::memory(id)?;

    let oracle = tokio::task::spawn_blocking(move || Oracle::new(set)).await.context("compute the answers")?;
    let addresses = Addresses { url: server.url.clone(), flight: Some(flight) };
    let mut asker = Asker::connect(Door::Flight, &addresses, &http).await?;
    let mut samples = Vec::new();
    for question in queries(100) {
        let (sample, answer) = asker.sample(&question.name(), &question.sql(), options.repeat).await?;
        verify(&oracle, &question, &answer).with_context(|| question.name())?;
        samples.push(sample);
    }
    let memory = measure::memory(id)?;
    server.kill().await?;
    ensure!(load.rows == set.len(), "expected {} rows, {} were acknowledged", set.len(), load.rows);
    Ok(GrowthSample { data: set, load, compact, loaded_memory, queries: samples, memory })
}
