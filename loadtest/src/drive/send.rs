//! Clients that send bodies of rows of any kind, as fast as they are acknowledged or at a given pace.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::time::sleep_until;

use super::{
    Progress,
    http::{Client, HttpOptions},
    latency::{Latencies, Percentiles},
    write::affected_rows,
};

/// Fills a body with its next rows and says how many they are; none when there is nothing more to send.
pub type Bodies = Box<dyn FnMut(&mut Vec<u8>) -> u64 + Send>;

/// Where bodies go, and how fast.
#[derive(Debug, Clone)]
pub struct SendOptions {
    /// The HTTP endpoint, `http://host:port`.
    pub url: String,
    /// Bounds of the clients.
    pub http: HttpOptions,
    /// Path and query of every request.
    pub target: String,
    /// Whether bodies are TDengine statements, whose reply counts the rows.
    pub is_statement: bool,
    /// Rows a second of each client at most; by default as many as are acknowledged.
    pub pace: Option<f64>,
}

/// What was sent and acknowledged.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SendSample {
    /// Rows that the server acknowledged.
    pub rows: u64,
    /// Requests that were acknowledged.
    pub requests: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// From the first request to the last reply.
    pub seconds: f64,
    /// Time from a request to its reply, repetitions included.
    pub latency: Percentiles,
    /// Requests repeated because the server was busy or the connection failed.
    pub repeated: u64,
    /// The last read-your-write token of each client that got one.
    pub tokens: Vec<String>,
}

impl SendSample {
    /// Rows acknowledged a second.
    pub fn rows_per_second(&self) -> f64 {
        self.rows as f64 / self.seconds.max(1e-9)
    }
}

/// Sends all bodies, each client on a task and a connection of its own with one request at a time.
///
/// # Errors
/// The first request that the server refuses, acknowledges in part, or leaves without an answer beyond the deadline; the
/// other clients end then.
pub async fn send(options: &SendOptions, clients: Vec<Bodies>, progress: Progress<'_>) -> Result<SendSample> {
    let begun = Instant::now();
    let (sender, mut acknowledged) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = tokio::task::JoinSet::new();
    for bodies in clients {
        tasks.spawn(client(options.clone(), bodies, sender.clone()));
    }
    drop(sender);
    let (mut latencies, mut sum, mut heard) = (Latencies::default(), SendSample::default(), 0);
    loop {
        let done = tokio::select! {
            Some(more) = acknowledged.recv() => {
                heard += more;
                progress(heard);
                continue;
            }
            Some(done) = tasks.join_next() => done,
            else => break,
        };
        let (share, of_client) = done.context("a client ended")??;
        latencies.merge(&of_client);
        sum.rows += share.rows;
        sum.requests += share.requests;
        sum.bytes += share.bytes;
        sum.repeated += share.repeated;
        sum.tokens.extend(share.tokens);
        sum.seconds = begun.elapsed().as_secs_f64();
    }
    sum.latency = latencies.percentiles();
    Ok(sum)
}

async fn client(
    options: SendOptions,
    mut bodies: Bodies,
    acknowledged: tokio::sync::mpsc::UnboundedSender<u64>,
) -> Result<(SendSample, Latencies)> {
    let mut client = Client::new(&options.url, options.http)?;
    let (mut share, mut latencies, mut body) = (SendSample::default(), Latencies::default(), Vec::new());
    let begun = tokio::time::Instant::now();
    loop {
        body.clear();
        let rows = bodies(&mut body);
        if rows == 0 {
            return Ok((share, latencies));
        }
        if let Some(pace) = options.pace {
            sleep_until(begun + Duration::from_secs_f64(share.rows as f64 / pace)).await;
        }
        let start = Instant::now();
        let sent = client.send_again("POST", &options.target, "text/plain; charset=utf-8", &body).await;
        let (reply, repeats) = sent?;
        latencies.record(start.elapsed());
        if !reply.is_success() {
            bail!("POST {}: {}", options.target, reply.excerpt());
        }
        if options.is_statement {
            let affected = affected_rows(&reply.body)?;
            anyhow::ensure!(affected == rows, "expected {rows} affected rows, found {affected}: {}", reply.excerpt());
        }
        share.rows += rows;
        share.requests += 1;
        share.bytes += body.len() as u64;
        share.repeated += repeats.busy + repeats.broken;
        share.tokens = reply.token.into_iter().chain(share.tokens).take(1).collect();
        let _ = acknowledged.send(rows); // nobody listens once another client has failed
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::fake::{no_content, reply, serve};
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// So many bodies of two rows each.
    fn bodies(mut left: u64) -> Bodies {
        Box::new(move |body| {
            if left == 0 {
                return 0;
            }
            left -= 1;
            body.extend_from_slice(b"one\ntwo");
            2
        })
    }

    fn options(url: &str) -> SendOptions {
        let (http, target) = (HttpOptions::default(), "/write?db=x".to_owned());
        SendOptions { url: url.to_owned(), http, target, is_statement: false, pace: None }
    }

    #[tokio::test]
    async fn every_body_is_sent_once_and_a_paced_client_takes_its_time() {
        let fake = serve(|number, _| no_content(&format!("x-tidelake-token: {number}\r\n"))).await;
        let heard = AtomicU64::new(0);
        let progress = |rows| heard.store(rows, Relaxed);
        let clients = vec![bodies(3), bodies(0), bodies(4)];
        let sample = send(&options(&fake.url), clients, &progress).await.unwrap();
        assert_eq!((sample.rows, sample.requests, sample.bytes), (14, 7, 49));
        assert_eq!((sample.tokens.len(), sample.latency.count, heard.load(Relaxed)), (2, 7, 14));
        assert!(fake.requests.lock().unwrap().iter().all(|request| request.line == "POST /write?db=x"));

        let paced = SendOptions { pace: Some(20.0), ..options(&fake.url) };
        let sample = send(&paced, vec![bodies(3), bodies(3)], &|_| ()).await.unwrap();
        // The third body of each client is due after four rows.
        assert!((0.2..5.0).contains(&sample.seconds), "{sample:?}");
    }

    #[tokio::test]
    async fn a_refused_body_and_a_statement_that_took_fewer_rows_are_errors() {
        let fake = serve(|number, _| if number < 2 { no_content("") } else { reply(400, "", "no such field") }).await;
        let error = send(&options(&fake.url), vec![bodies(9)], &|_| ()).await.unwrap_err();
        assert!(format!("{error:#}").contains("no such field"), "{error:#}");
        let fake = serve(|_, _| reply(200, "", "{\"code\":0,\"data\":[[1]]}")).await;
        let statements = SendOptions { is_statement: true, ..options(&fake.url) };
        let error = send(&statements, vec![bodies(9)], &|_| ()).await.unwrap_err();
        assert!(format!("{error:#}").contains("expected 2 affected rows, found 1"), "{error:#}");
    }
}
