//! Growth: the same queries over data sets of increasing size, each loaded through Flight SQL into a new server.

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

/// Rows per Arrow batch.
const BATCH_ROWS: usize = 10_000;
/// Concurrent loading clients.
const CLIENTS: usize = 4;
/// Wait before compaction: a fold skips younger segments.
const SETTLE: Duration = Duration::from_secs(6);
/// Maximum duration of a load stream or of a full merge.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// Settings of the measurement of one size.
#[derive(Debug, Clone)]
pub struct GrowthOptions {
    /// The server's program.
    pub program: PathBuf,
    /// Empty directory for the root.
    pub root: PathBuf,
    /// Minimum runs of each query.
    pub repeat: usize,
}

/// Result for one size.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GrowthSample {
    /// The data set.
    pub data: Devices,
    /// Result of loading.
    pub load: WriteSample,
    /// Final fold and merge after the background compaction.
    pub compact: CompactSample,
    /// The server's memory after the merge, before the first query.
    pub loaded_memory: Memory,
    /// Times of q2 to q4 over all rows, through Flight SQL; all answers were correct.
    pub queries: Vec<QuerySample>,
    /// The server's memory at the end.
    pub memory: Memory,
}

/// Loads a data set into a new server, compacts, runs q2 to q4 over all rows and compares the answers with the oracle's.
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
    ensure!(load.rows == set.len(), "expected {} acknowledged rows, found {}", set.len(), load.rows);
    Ok(GrowthSample { data: set, load, compact, loaded_memory, queries: samples, memory })
}
