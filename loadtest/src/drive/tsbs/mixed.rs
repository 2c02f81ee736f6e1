//! Throughput of concurrent clients that run a fixed list of questions.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use anyhow::{Context, Result};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};

use super::{ANSWER_TIME, Peer};
use crate::{
    drive::{
        http::HttpOptions,
        query::{Addresses, Asker, Door},
    },
    measure::busy_seconds,
    workload::tsbs::{Dialect, Question},
};

/// Result of one engine with a number of clients.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MixedSample {
    /// The engine.
    pub engine: String,
    /// Concurrent clients.
    pub clients: usize,
    /// Number of statements, of all clients together.
    pub questions: usize,
    /// Seconds from the first statement to the last answer.
    pub seconds: f64,
    /// Processors of the machine that were busy meanwhile, on average: those of clients, engine and everything else.
    pub busy: f64,
}

impl MixedSample {
    /// Statements per second.
    pub fn per_second(&self) -> f64 {
        self.questions as f64 / self.seconds.max(1e-9)
    }
}

/// Runs the questions on Tidelake, through Flight SQL, and on a peer, each with every number of clients in turn. Each client
/// takes the next question of the list when it has the answer to its last. Must be called on a multi-threaded runtime.
///
/// # Errors
/// A statement that fails, no answer in time.
pub async fn mixed(
    questions: &[Question],
    clients: &[usize],
    addresses: &Addresses,
    options: &HttpOptions,
    peers: &mut [&mut Peer],
) -> Result<Vec<MixedSample>> {
    let statements: Arc<[String]> = questions.iter().map(|question| question.sql(Dialect::Tidelake)).collect();
    let mut samples = Vec::new();
    let sample = |engine: &str, clients, seconds: f64, before: f64| {
        anyhow::Ok(MixedSample {
            engine: engine.to_owned(),
            clients,
            questions: questions.len(),
            seconds,
            busy: (busy_seconds()? - before) / seconds.max(1e-9),
        })
    };
    for clients in clients.iter().copied() {
        let before = busy_seconds()?;
        let run = of_tidelake(&statements, clients, addresses, options);
        let seconds = tokio::time::timeout(ANSWER_TIME, run).await;
        let seconds = seconds.with_context(|| format!("{clients} clients: no answer within {ANSWER_TIME:?}"))??;
        samples.push(sample("Tidelake, flight", clients, seconds, before)?);
        for peer in peers.iter_mut() {
            let before = busy_seconds()?;
            let seconds = tokio::task::block_in_place(|| peer.mixed(questions, clients))?;
            samples.push(sample(peer.name(), clients, seconds, before)?);
        }
    }
    Ok(samples)
}

async fn of_tidelake(
    statements: &Arc<[String]>,
    clients: usize,
    addresses: &Addresses,
    options: &HttpOptions,
) -> Result<f64> {
    let connections = (0..clients.max(1)).map(|_| Asker::connect(Door::Flight, addresses, options));
    let connections = try_join_all(connections).await?;
    let (begun, next) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let tasks = connections.into_iter().map(|mut client| {
        let (statements, next) = (statements.clone(), next.clone());
        tokio::spawn(async move {
            while let Some(sql) = statements.get(next.fetch_add(1, Ordering::Relaxed)) {
                client.ask(sql).await?;
            }
            anyhow::Ok(())
        })
    });
    for done in try_join_all(tasks).await? {
        done?;
    }
    Ok(begun.elapsed().as_secs_f64())
}
