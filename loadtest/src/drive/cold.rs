//! Cold queries: a new server process over a distant store, one question, its answer; again for each run.

use std::{path::PathBuf, sync::Arc, time::Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::{
    http::HttpOptions,
    query::{Addresses, Asker, Door, median},
    server::{Server, ServerOptions},
};
use crate::{
    distant::{self, Distance, Passed},
    oracle::Oracle,
    verify::verify,
    workload::Question,
};

/// What is started, and over what.
#[derive(Debug, Clone)]
pub struct ColdOptions {
    /// The server's program.
    pub program: PathBuf,
    /// The root, `s3://bucket/prefix`.
    pub store: String,
    /// What the server finds in its environment beside this process's: how to sign requests, mostly.
    pub environment: Vec<(String, String)>,
    /// The S3 server of this machine, `host:port`.
    pub s3: String,
    /// How far away it is to seem.
    pub distance: Distance,
    /// Runs of each question.
    pub repeat: usize,
}

/// One question, each time to a new process.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ColdSample {
    /// The question's name.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// Of each run: from the request to the last byte of the answer, in milliseconds.
    pub millis: Vec<f64>,
    /// Of each run: from the start of the process to the last byte of the answer, in milliseconds.
    pub from_start_millis: Vec<f64>,
    /// Of each run: requests to the store for the question, those of the start apart.
    pub requests: Vec<u64>,
    /// Of each run: requests to the store from the start of the process to the answer.
    pub from_start_requests: Vec<u64>,
    /// Of each run: bytes of all of them.
    pub bytes: Vec<u64>,
}

impl ColdSample {
    /// The median of the runs, in milliseconds.
    pub fn median_ms(&self) -> f64 {
        median(&self.millis)
    }
}

/// Asks each question of new processes, and compares every answer with the oracle's.
///
/// # Errors
/// A server that does not start, a statement that fails, a wrong answer.
pub async fn ask_cold(
    options: &ColdOptions,
    questions: &[Question],
    oracle: Option<&Oracle>,
) -> Result<Vec<ColdSample>> {
    let listener = TcpListener::bind("127.0.0.1:0").await.context("listen for the proxy")?;
    let endpoint = format!("http://{}", listener.local_addr()?);
    let passed = Arc::new(Passed::default());
    let (s3, distance, counted) = (options.s3.clone(), options.distance, passed.clone());
    let proxy = tokio::spawn(async move { distant::serve(listener, &s3, distance, 1, counted).await });
    let mut samples = Vec::new();
    for question in questions {
        samples.push(sample(options, question, &endpoint, &passed, oracle).await?);
    }
    proxy.abort();
    Ok(samples)
}

async fn sample(
    options: &ColdOptions,
    question: &Question,
    endpoint: &str,
    passed: &Passed,
    oracle: Option<&Oracle>,
) -> Result<ColdSample> {
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
        let environment = options.environment.iter().cloned();
        let server = Server::start(&ServerOptions {
            program: options.program.clone(),
            store: options.store.clone(),
            environment: environment.chain([("AWS_ENDPOINT_URL".to_owned(), endpoint.to_owned())]).collect(),
            cores: None,
        })
        .await?;
        let before = passed.requests();
        let addresses = Addresses { url: server.url.clone(), flight: None };
        let mut asker = Asker::connect(Door::HttpArrow, &addresses, &HttpOptions::default()).await?;
        let (raw, took) = asker.ask(&sample.sql).await?;
        sample.from_start_millis.push(begun.elapsed().as_secs_f64() * 1e3);
        sample.millis.push(took.as_secs_f64() * 1e3);
        sample.requests.push(passed.requests() - before);
        sample.from_start_requests.push(passed.requests() - requests);
        sample.bytes.push(passed.bytes() - bytes);
        server.kill().await?;
        if let Some(oracle) = oracle {
            verify(oracle, question, &raw.into_answer()?)?;
        }
    }
    Ok(sample)
}
