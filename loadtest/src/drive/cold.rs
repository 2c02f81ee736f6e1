//! Cold queries: each run starts a new server process over a distant store and runs one query.

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::{net::TcpListener, task::JoinHandle};

use super::{
    beside::writer::{Writer, WriterOptions, check_rows},
    http::HttpOptions,
    query::{Addresses, Asker, Door},
    send::SendSample,
    server::{Server, ServerOptions},
};
use crate::{
    distant::{self, Distance, Passed},
    measure::median,
    workload::Question,
    workload::oracle::Oracle,
    workload::verify::verify,
};

/// Settings of the server processes and of the simulated store.
#[derive(Debug, Clone)]
pub struct ColdOptions {
    /// The server's program.
    pub program: PathBuf,
    /// The root, `s3://bucket/prefix`.
    pub store: String,
    /// Additional environment variables of the server, mainly credentials.
    pub environment: Vec<(String, String)>,
    /// The S3 server on this machine, `host:port`.
    pub s3: String,
    /// Simulated distance of the S3 server.
    pub distance: Distance,
    /// Runs of each query.
    pub repeat: usize,
}

/// Times of one query, each run on a new process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ColdSample {
    /// Query name.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// Per run: time from the request to the last byte of the answer, in milliseconds.
    pub millis: Vec<f64>,
    /// Per run: time from the start of the process to the last byte of the answer, in milliseconds.
    pub from_start_millis: Vec<f64>,
    /// Per run: store requests for the query, without those of the start.
    pub requests: Vec<u64>,
    /// Per run: store requests from the start of the process to the answer.
    pub from_start_requests: Vec<u64>,
    /// Per run: bytes of all those requests.
    pub bytes: Vec<u64>,
}

impl ColdSample {
    /// The median of the runs, in milliseconds.
    pub fn median_ms(&self) -> f64 {
        median(&self.millis)
    }
}

/// A running proxy that simulates the distance; stops when dropped.
struct Proxy {
    endpoint: String,
    passed: Arc<Passed>,
    task: JoinHandle<Result<()>>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Proxy {
    async fn start(options: &ColdOptions, seed: u64) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("listen for the proxy")?;
        let endpoint = format!("http://{}", listener.local_addr()?);
        let passed = Arc::new(Passed::default());
        let (s3, distance, counted) = (options.s3.clone(), options.distance, passed.clone());
        let task = tokio::spawn(async move { distant::serve(listener, &s3, distance, seed, counted).await });
        Ok(Self { endpoint, passed, task })
    }

    /// Starts a server process whose store is behind the proxy.
    async fn server(&self, options: &ColdOptions) -> Result<Server> {
        let environment = options.environment.iter().cloned();
        Server::start(&ServerOptions {
            program: options.program.clone(),
            store: options.store.clone(),
            environment: environment.chain([("AWS_ENDPOINT_URL".to_owned(), self.endpoint.clone())]).collect(),
            cores: None,
        })
        .await
    }
}

/// Runs each query on new processes and compares every answer with the oracle's.
///
/// # Errors
/// A server that does not start, a statement that fails, a wrong answer.
pub async fn ask_cold(
    options: &ColdOptions,
    questions: &[Question],
    oracle: Option<&Oracle>,
) -> Result<Vec<ColdSample>> {
    let proxy = Proxy::start(options, 1).await?;
    let mut samples = Vec::new();
    for question in questions {
        samples.push(sample(options, question, &proxy, oracle, None).await?);
    }
    Ok(samples)
}

/// Runs [`ask_cold`] while a separate process, at the same distance from the store, ingests later rows of the same devices.
/// Row counts must lie between the acknowledged and the sent rows. `lead` is how long the writer runs before the first query.
///
/// # Errors
/// Those of [`ask_cold`] and of the writer, or an answer without rows acknowledged before the query.
pub async fn ask_cold_beside(
    options: &ColdOptions,
    writer: WriterOptions,
    lead: Duration,
    questions: &[Question],
    oracle: &Oracle,
) -> Result<(SendSample, Vec<ColdSample>)> {
    let [proxy, of_writer] = [Proxy::start(options, 1).await?, Proxy::start(options, 2).await?];
    let server = of_writer.server(options).await?;
    let mut writer = Writer::of_devices(*oracle.devices(), &WriterOptions { url: server.url.clone(), ..writer });
    writer.beside(async { Ok(tokio::time::sleep(lead).await) }).await?;
    let mut samples = Vec::new();
    for question in questions {
        samples.push(sample(options, question, &proxy, Some(oracle), Some(&mut writer)).await?);
    }
    let written = writer.stop().await?;
    server.kill().await?;
    Ok((written, samples))
}

async fn sample(
    options: &ColdOptions,
    question: &Question,
    proxy: &Proxy,
    oracle: Option<&Oracle>,
    mut writer: Option<&mut Writer>,
) -> Result<ColdSample> {
    let passed = &proxy.passed;
    let mut sample = ColdSample {
        name: question.name(),
        sql: question.sql(),
        millis: Vec::new(),
        from_start_millis: Vec::new(),
        requests: Vec::new(),
        from_start_requests: Vec::new(),
        bytes: Vec::new(),
    };
    for _ in 0..options.repeat.max(1) {
        let (requests, bytes, begun) = (passed.requests(), passed.bytes(), Instant::now());
        // A new process lists the log while it starts.
        let least = writer.as_ref().map_or(0, |writer| writer.acknowledged());
        let server = proxy.server(options).await?;
        let before = passed.requests();
        let addresses = Addresses { url: server.url.clone(), flight: None };
        let mut asker = Asker::connect(Door::HttpArrow, &addresses, &HttpOptions::default()).await?;
        let (raw, took) = match &mut writer {
            Some(writer) => writer.beside(asker.ask(&sample.sql)).await?,
            None => asker.ask(&sample.sql).await?,
        };
        let most = writer.as_ref().map(|writer| writer.begun());
        sample.from_start_millis.push(begun.elapsed().as_secs_f64() * 1e3);
        sample.millis.push(took.as_secs_f64() * 1e3);
        sample.requests.push(passed.requests() - before);
        sample.from_start_requests.push(passed.requests() - requests);
        sample.bytes.push(passed.bytes() - bytes);
        server.kill().await?;
        let Some(oracle) = oracle else { continue };
        let answer = raw.into_answer()?;
        match most {
            None => verify(oracle, question, &answer)?,
            Some(most) => check_rows(oracle, question, &answer, least, most)?,
        }
    }
    Ok(sample)
}
