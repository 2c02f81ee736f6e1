//! The workload of TSBS: loads the rows, runs the questions on Tidelake and, through adapters, on other engines, and compares
//! the answers.

mod mixed;
mod peer;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::{
    devops::{LoadSample, load_lines},
    http::HttpOptions,
    query::{Addresses, Asker, Door, SAMPLE_RUNS, SAMPLE_TIME},
};
use crate::{
    measure::median,
    workload::tsbs::{DATABASE, Dialect, Digest, Feed, Question, Tsbs, expected},
};

pub use mixed::{MixedSample, mixed};
pub use peer::Peer;

/// Query interfaces of Tidelake that are timed.
pub const DOORS: [Door; 3] = [Door::Flight, Door::FlightDictionaries, Door::HttpArrow];
/// Maximum wait for all runs of one statement, and for all statements of concurrent clients.
const ANSWER_TIME: Duration = Duration::from_secs(1_800);

/// Runs of one question on one engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The engine; for Tidelake with the query interface.
    pub engine: String,
    /// The statement.
    pub sql: String,
    /// Rows of the answer.
    pub rows: u64,
    /// Time of each run in order, in milliseconds, from the request to the complete answer in Arrow; one run before is not
    /// counted.
    pub millis: Vec<f64>,
    /// Why the statement failed.
    pub error: Option<String>,
}

impl Timing {
    /// Median of all runs, in milliseconds; NaN if the statement failed.
    pub fn median_ms(&self) -> f64 {
        median(&self.millis)
    }
}

/// One question on every engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuestionSample {
    /// The question's name.
    pub name: String,
    /// The engines: first Tidelake's query interfaces, then the others.
    pub timings: Vec<Timing>,
    /// Number of equal pairs of answers: each engine with the generator, and Tidelake with each other engine.
    pub equal: u64,
    /// The other pairs, each with its first difference, and statements that failed.
    pub differences: Vec<String>,
}

/// Writes all rows as line protocol: each worker writes its own hosts, one request at a time.
///
/// # Errors
/// A refused request, or no reply in time.
pub async fn load(
    set: &Tsbs,
    url: &str,
    options: &HttpOptions,
    workers: usize,
    lines_per_request: usize,
) -> Result<LoadSample> {
    let lines_of = |hosts| {
        let mut feed = Feed::new(*set, hosts);
        move |lines, body: &mut Vec<u8>| feed.next(lines, body)
    };
    load_lines(DATABASE, set.hosts, lines_of, url, options, workers, lines_per_request).await
}

/// Tidelake's clients, each with one kept connection.
#[derive(Debug)]
pub struct Clients(Vec<(Door, Asker)>);

impl Clients {
    /// Connects one client for each of [`DOORS`].
    ///
    /// # Errors
    /// An invalid address, or no connection.
    pub async fn connect(addresses: &Addresses, options: &HttpOptions) -> Result<Self> {
        let mut clients = Vec::new();
        for door in DOORS {
            clients.push((door, Asker::connect(door, addresses, options).await?));
        }
        Ok(Self(clients))
    }
}

/// Runs a statement through one client: once uncounted, then at least `repeat` times and until [`SAMPLE_TIME`] or
/// [`SAMPLE_RUNS`] is reached.
async fn time(client: &mut Asker, question: &Question, repeat: usize) -> Result<(Vec<f64>, Digest)> {
    let sql = question.sql(Dialect::Tidelake);
    client.ask(&sql).await?;
    let (begun, mut millis) = (Instant::now(), Vec::new());
    loop {
        let start = Instant::now();
        let batches = client.ask(&sql).await?.0.into_batches()?;
        millis.push(start.elapsed().as_secs_f64() * 1e3);
        let is_sampled = begun.elapsed() >= SAMPLE_TIME || millis.len() >= SAMPLE_RUNS;
        if millis.len() >= repeat.max(1) && is_sampled {
            let (columns, is_ordered) = question.columns();
            return Ok((millis, Digest::of_batches(columns, is_ordered, &batches)?));
        }
    }
}

/// Runs one question on all engines in an order that `turn` rotates, and compares the answers. Statements that fail are part of
/// the sample. Must be called on a multi-threaded runtime, because peers block.
///
/// # Errors
/// An adapter that fails or is silent for too long.
pub async fn ask(
    set: &Tsbs,
    question: &Question,
    clients: &mut Clients,
    peers: &mut [Peer],
    repeat: usize,
    turn: usize,
) -> Result<QuestionSample> {
    let engines = clients.0.len() + peers.len();
    let mut found: Vec<Option<(Timing, Option<Digest>)>> = vec![None; engines];
    for place in 0..engines {
        let at = (place + turn) % engines;
        found[at] = Some(match at.checked_sub(clients.0.len()) {
            None => {
                let (door, client) = &mut clients.0[at];
                let result = time(client, question, repeat).await;
                timing(&format!("Tidelake, {}", door.name()), question.sql(Dialect::Tidelake), result)
            }
            Some(peer) => {
                let peer = &mut peers[peer];
                tokio::task::block_in_place(|| peer.ask(question, repeat))?
            }
        });
    }
    let (timings, digests): (Vec<_>, Vec<_>) = found.into_iter().flatten().unzip();
    let mut sample = QuestionSample { name: question.name.to_owned(), timings, equal: 0, differences: Vec::new() };
    let expected = expected(set, question).context("compute the expected answer")?;
    for (timing, digest) in sample.timings.iter().zip(&digests) {
        let name = format!("{}: {}", question.name, timing.engine);
        let Some(digest) = digest else {
            let error = timing.error.as_deref().unwrap_or_default();
            sample.differences.push(format!("{name} failed: {error}"));
            continue;
        };
        let is_peer = !timing.engine.starts_with("Tidelake");
        let ours = digests[0].as_ref().filter(|_| is_peer).map(|ours| ("Tidelake", ours));
        for (other, wanted) in [("the generator", &expected)].into_iter().chain(ours) {
            match wanted.compare(digest) {
                Ok(()) => sample.equal += 1,
                Err(error) => sample.differences.push(format!("{name} against {other}: {error:#}")),
            }
        }
    }
    Ok(sample)
}

/// Combines the result of a statement's runs with its engine.
fn timing(engine: &str, sql: String, result: Result<(Vec<f64>, Digest)>) -> (Timing, Option<Digest>) {
    let (millis, digest, error) = match result {
        Ok((millis, digest)) => (millis, Some(digest), None),
        Err(error) => (Vec::new(), None, Some(format!("{error:#}"))),
    };
    let rows = digest.as_ref().map_or(0, |digest| digest.rows);
    (Timing { engine: engine.to_owned(), sql, rows, millis, error }, digest)
}

#[cfg(test)]
mod tests;
