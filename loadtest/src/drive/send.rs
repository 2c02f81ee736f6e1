//! Clients that send request bodies of any kind of rows, as fast as they are acknowledged or at a given rate.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::time::sleep_until;

use super::{
    Progress,
    http::{Client, HttpOptions, Repeats, Reply},
    latency::{Latencies, Percentiles},
};

/// Content type of line protocol and SQL.
pub const TEXT: &str = "text/plain; charset=utf-8";

/// Appends the next rows to a body and returns their number; 0 at the end.
pub type Bodies = Box<dyn FnMut(&mut Vec<u8>) -> u64 + Send>;

/// Target and rate of the bodies.
#[derive(Debug, Clone)]
pub struct SendOptions {
    /// The HTTP endpoint, `http://host:port`.
    pub url: String,
    /// Limits of the clients.
    pub http: HttpOptions,
    /// Path and query of every request.
    pub target: String,
    /// Content type of the bodies.
    pub content_type: &'static str,
    /// Required acknowledgement.
    pub acknowledgement: Acknowledgement,
    /// Maximum rows per second of each client; unlimited by default.
    pub pace: Option<f64>,
}

/// Reply that acknowledges the rows of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgement {
    /// A success status.
    Status,
    /// A success status without a token: acknowledged from memory, as a token is returned only for stored rows.
    FromMemory,
    /// A TDengine reply whose affected rows equal the rows sent.
    AffectedRows,
}

impl Acknowledgement {
    fn check(self, reply: &Reply, rows: u64) -> Result<()> {
        if !reply.is_success() {
            bail!("{}", reply.excerpt());
        }
        match self {
            Self::Status => {}
            Self::FromMemory => {
                if let Some(token) = &reply.token {
                    bail!("no_sync did not reach the server: expected a reply without a token, found {token:?}");
                }
            }
            Self::AffectedRows => {
                let affected = affected_rows(&reply.body)?;
                if affected != rows {
                    bail!("expected {rows} affected rows, found {affected}: {}", reply.excerpt());
                }
            }
        }
        Ok(())
    }
}

/// Returns the number of affected rows from the TDengine reply to a write statement.
///
/// # Errors
/// A reply of another shape, or one that carries an error (whose HTTP status is 200).
pub fn affected_rows(body: &[u8]) -> Result<u64> {
    #[derive(Deserialize)]
    struct Affected {
        code: i64,
        #[serde(default)]
        desc: String,
        #[serde(default)]
        data: Vec<Vec<serde_json::Value>>,
    }
    let shown = || String::from_utf8_lossy(&body[..body.len().min(300)]).into_owned();
    let reply: Affected =
        serde_json::from_slice(body).with_context(|| format!("expected a TDengine reply, found {}", shown()))?;
    if reply.code != 0 {
        bail!("TDengine error {:#06x}: {}", reply.code, reply.desc);
    }
    let value = reply.data.first().and_then(|row| row.first()).and_then(serde_json::Value::as_u64);
    value.with_context(|| format!("expected a number of affected rows, found {}", shown()))
}

/// Acknowledged requests and rows of one or several clients.
#[derive(Debug, Default)]
pub(super) struct Share {
    pub(super) rows: u64,
    pub(super) requests: u64,
    /// Bytes of the bodies.
    pub(super) bytes: u64,
    pub(super) repeats: Repeats,
    pub(super) latencies: Latencies,
    /// The last read-your-write token of each client that got one.
    pub(super) tokens: Vec<String>,
}

impl Share {
    /// Adds the result of another client.
    pub(super) fn add(&mut self, other: Share) {
        self.rows += other.rows;
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.repeats.busy += other.repeats.busy;
        self.repeats.broken += other.repeats.broken;
        self.latencies.merge(&other.latencies);
        self.tokens.extend(other.tokens);
    }
}

/// One client with its own connection and one request at a time.
pub(super) struct Sender<'a> {
    client: Client,
    options: &'a SendOptions,
}

impl<'a> Sender<'a> {
    /// # Errors
    /// An invalid URL.
    pub(super) fn new(options: &'a SendOptions) -> Result<Self> {
        Ok(Self { client: Client::new(&options.url, options.http.clone())?, options })
    }

    /// Sends one body, and adds it to `share` once all its rows are acknowledged.
    ///
    /// # Errors
    /// The server refuses it, acknowledges it in part, or does not answer before the deadline.
    pub(super) async fn send(&mut self, body: &[u8], rows: u64, share: &mut Share) -> Result<()> {
        let SendOptions { target, content_type, acknowledgement, .. } = self.options;
        let start = Instant::now();
        let (reply, repeats) = self.client.send_again("POST", target, content_type, body).await?;
        share.latencies.record(start.elapsed());
        acknowledgement.check(&reply, rows).with_context(|| format!("POST {target}"))?;
        share.repeats.busy += repeats.busy;
        share.repeats.broken += repeats.broken;
        share.rows += rows;
        share.requests += 1;
        share.bytes += body.len() as u64;
        if let Some(token) = reply.token {
            share.tokens = vec![token];
        }
        Ok(())
    }
}

/// Result of sending.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SendSample {
    /// Rows that the server acknowledged.
    pub rows: u64,
    /// Requests that were acknowledged.
    pub requests: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Seconds from the first request to the last reply.
    pub seconds: f64,
    /// Time from a request to its reply, including retries.
    pub latency: Percentiles,
    /// Requests repeated because the server was busy or the connection failed.
    pub repeated: u64,
    /// The last read-your-write token of each client that got one.
    pub tokens: Vec<String>,
}

impl SendSample {
    /// Acknowledged rows per second.
    pub fn rows_per_second(&self) -> f64 {
        self.rows as f64 / self.seconds.max(1e-9)
    }
}

/// Sends all bodies; each client has its own task and connection, and sends one request at a time.
///
/// # Errors
/// The first request that the server refuses, acknowledges in part, or does not answer before the deadline; the other clients
/// are then stopped.
pub async fn send(options: &SendOptions, clients: Vec<Bodies>, progress: Progress<'_>) -> Result<SendSample> {
    let begun = Instant::now();
    let (sender, mut acknowledged) = tokio::sync::mpsc::unbounded_channel();
    let mut tasks = tokio::task::JoinSet::new();
    for bodies in clients {
        tasks.spawn(client(options.clone(), bodies, sender.clone()));
    }
    drop(sender);
    let (mut sum, mut seconds, mut heard) = (Share::default(), 0.0, 0);
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
        sum.add(done.context("a client ended")??);
        seconds = begun.elapsed().as_secs_f64();
    }
    Ok(SendSample {
        rows: sum.rows,
        requests: sum.requests,
        bytes: sum.bytes,
        seconds,
        latency: sum.latencies.percentiles(),
        repeated: sum.repeats.busy + sum.repeats.broken,
        tokens: sum.tokens,
    })
}

async fn client(
    options: SendOptions,
    mut bodies: Bodies,
    acknowledged: tokio::sync::mpsc::UnboundedSender<u64>,
) -> Result<Share> {
    let (mut sender, mut share, mut body) = (Sender::new(&options)?, Share::default(), Vec::new());
    let begun = tokio::time::Instant::now();
    loop {
        body.clear();
        let rows = bodies(&mut body);
        if rows == 0 {
            return Ok(share);
        }
        if let Some(pace) = options.pace {
            sleep_until(begun + Duration::from_secs_f64(share.rows as f64 / pace)).await;
        }
        sender.send(&body, rows, &mut share).await?;
        let _ = acknowledged.send(rows); // the receiver is dropped once another client has failed
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::fake::{no_content, reply, serve};
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// Bodies of two rows each.
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
        SendOptions {
            url: url.to_owned(),
            http: HttpOptions::default(),
            target: "/write?db=x".to_owned(),
            content_type: "text/plain",
            acknowledgement: Acknowledgement::Status,
            pace: None,
        }
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
        let statements = SendOptions { acknowledgement: Acknowledgement::AffectedRows, ..options(&fake.url) };
        let error = send(&statements, vec![bodies(9)], &|_| ()).await.unwrap_err();
        assert!(format!("{error:#}").contains("expected 2 affected rows, found 1"), "{error:#}");
    }
}
