//! Writing: R rows per request × C clients over one protocol.

use super::http::HttpOptions;
use super::latency::Percentiles;
use super::send::{Acknowledgement, SendOptions, Sender, Share, TEXT};
use super::{Progress, flight};
use crate::workload::DATABASE;
use crate::workload::generate::encode::{Batch, Text};
use crate::workload::generate::{Feed, Source};
use anyhow::{Context, Error, Result, bail};
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Write protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// InfluxDB line protocol, `POST /write`.
    Line,
    /// TDengine SQL, `POST /rest/sql/db`.
    #[value(name = "tdengine")]
    TdEngine,
    /// OpenTSDB JSON, `POST /api/put`: two points per row.
    #[value(name = "opentsdb")]
    OpenTsdb,
    /// Arrow batches, Flight SQL ingest by DoPut.
    Flight,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 4] = [Self::Line, Self::TdEngine, Self::OpenTsdb, Self::Flight];

    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::TdEngine => "tdengine",
            Self::OpenTsdb => "opentsdb",
            Self::Flight => "flight",
        }
    }

    /// Whether the protocol supports this durability: only `/write` and `/api/put` have `no_sync`; statements and DoPut are
    /// always acknowledged after the rows are in the store.
    pub fn knows(self, durability: Durability) -> bool {
        match self {
            Self::Line | Self::OpenTsdb => true,
            Self::TdEngine | Self::Flight => durability == Durability::Stored,
        }
    }
}

/// When the server acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// After the rows are in the store: the server's default.
    #[default]
    Stored,
    /// From memory (`no_sync`): a crash may lose acknowledged rows. Only for line protocol and OpenTSDB.
    #[value(name = "no-sync")]
    Buffered,
}

/// Settings of writing.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// The HTTP endpoint, `http://host:port`.
    pub url: String,
    /// The Flight SQL endpoint, `grpc://host:port`; needed only by [`Protocol::Flight`].
    pub flight: Option<String>,
    /// Write protocol.
    pub protocol: Protocol,
    /// Rows per request; for Flight, per Arrow batch.
    pub rows_per_request: usize,
    /// Concurrent clients, each with its own connection and share of the devices.
    pub clients: usize,
    /// When the server acknowledges.
    pub durability: Durability,
    /// Rows per DoPut; the server makes them visible and acknowledges them together. Default 4 194 304.
    pub rows_per_stream: u64,
    /// Limits of the HTTP clients.
    pub http: HttpOptions,
    /// Timeout of one DoPut. Default 600 s.
    pub stream_timeout: Duration,
}

impl WriteOptions {
    /// Defaults: 2000 rows per request, 4 clients, line protocol, acknowledged from the store.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            flight: None,
            protocol: Protocol::Line,
            rows_per_request: 2000,
            clients: 4,
            durability: Durability::Stored,
            rows_per_stream: 4 << 20,
            http: HttpOptions::default(),
            stream_timeout: Duration::from_secs(600),
        }
    }
}

/// Result of one run of writing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct WriteSample {
    /// Write protocol.
    pub protocol: Protocol,
    /// When the server acknowledged.
    pub durability: Durability,
    /// Rows per request.
    pub rows_per_request: usize,
    /// Concurrent clients.
    pub clients: usize,
    /// Rows that the server acknowledged.
    pub rows: u64,
    /// Acknowledged rows per client: the length of the acknowledged prefix of its [`Feed`].
    pub rows_by_client: Vec<u64>,
    /// Requests (DoPut streams for Flight) that were acknowledged.
    pub requests: u64,
    /// Bytes of the request bodies (0 for Flight).
    pub bytes: u64,
    /// Seconds from the first request to the last reply.
    pub seconds: f64,
    /// Acknowledged rows per second.
    pub rows_per_second: f64,
    /// Time from a request to its reply, including retries.
    pub latency: Percentiles,
    /// Requests repeated because the server was busy.
    pub repeated_busy: u64,
    /// Requests repeated because the connection failed.
    pub repeated_broken: u64,
    /// The last read-your-write token of each client that got one.
    pub tokens: Vec<String>,
    /// Time of a bare synced write on the server's disk just before and after, in milliseconds: see
    /// [`sync_ms`](crate::measure::sync_ms).
    #[serde(default)]
    pub sync_ms: Option<[f64; 2]>,
}

/// Writes all rows of `source`.
///
/// # Errors
/// The first client's failure: a refused request, one that stayed unanswered beyond its deadline, a row of a text file
/// that cannot be read. The other clients are not interrupted.
pub async fn write(source: &Source, options: &WriteOptions, progress: Progress<'_>) -> Result<WriteSample> {
    let (sample, failure) = write_until_failure(source, options, progress).await?;
    match failure {
        None => Ok(sample),
        Some(error) => Err(error.context(format!("after {} acknowledged rows", sample.rows))),
    }
}

/// Writes until all rows are acknowledged or every client has ended; a failure comes with what was acknowledged before
/// it, for tests that kill the server.
///
/// # Errors
/// Settings that cannot work.
pub async fn write_until_failure(
    source: &Source,
    options: &WriteOptions,
    progress: Progress<'_>,
) -> Result<(WriteSample, Option<Error>)> {
    if options.rows_per_request == 0 || options.clients == 0 {
        bail!("at least one row a request and one client are needed");
    }
    if !options.protocol.knows(options.durability) {
        bail!("{} has no no_sync: its rows are acknowledged from the store", options.protocol.name());
    }
    let total = AtomicU64::new(0);
    let acknowledged = |rows: u64| progress(total.fetch_add(rows, Relaxed) + rows);
    let start = Instant::now();
    let clients = source.feeds(options.clients).into_iter().map(|feed| {
        let acknowledged = &acknowledged;
        async move {
            let mut share = Share::default();
            let result = match text_of(options.protocol) {
                Some(text) => write_text(text, feed, options, &mut share, acknowledged).await,
                None => write_arrow(feed, options, &mut share, acknowledged).await,
            };
            (share, result.err())
        }
    });
    // All clients run on the calling task: their work is a small part of the server's, and one thread leaves it the rest
    // of the machine. `buffered` keeps their order and polls only those that a reply woke.
    let results = futures::stream::iter(clients).buffered(options.clients).collect().await;
    Ok(gather(options, start.elapsed(), results))
}

fn gather(
    options: &WriteOptions,
    took: Duration,
    results: Vec<(Share, Option<Error>)>,
) -> (WriteSample, Option<Error>) {
    let mut sum = Share::default();
    let (mut rows_by_client, mut failure) = (Vec::new(), None);
    for (share, error) in results {
        rows_by_client.push(share.rows);
        sum.add(share);
        failure = failure.or(error);
    }
    let sample = WriteSample {
        protocol: options.protocol,
        durability: options.durability,
        rows_per_request: options.rows_per_request,
        clients: options.clients,
        rows: sum.rows,
        rows_by_client,
        requests: sum.requests,
        bytes: sum.bytes,
        seconds: took.as_secs_f64(),
        rows_per_second: sum.rows as f64 / took.as_secs_f64().max(1e-9),
        latency: sum.latencies.percentiles(),
        repeated_busy: sum.repeats.busy,
        repeated_broken: sum.repeats.broken,
        tokens: sum.tokens,
        sync_ms: None,
    };
    (sample, failure)
}

fn text_of(protocol: Protocol) -> Option<Text> {
    match protocol {
        Protocol::Line => Some(Text::Line),
        Protocol::TdEngine => Some(Text::TdEngine),
        Protocol::OpenTsdb => Some(Text::OpenTsdb),
        Protocol::Flight => None,
    }
}

/// Where text goes, and what acknowledges it in the way that was asked for.
fn send_options(text: Text, options: &WriteOptions) -> SendOptions {
    let (no_sync, by_status) = match options.durability {
        Durability::Stored => ("", Acknowledgement::Status),
        Durability::Buffered => ("&no_sync=true", Acknowledgement::FromMemory),
    };
    let (target, content_type, acknowledgement) = match text {
        Text::Line => (format!("/write?db={DATABASE}&precision=ms{no_sync}"), TEXT, by_status),
        Text::TdEngine => (format!("/rest/sql/{DATABASE}?req_id=1"), TEXT, Acknowledgement::AffectedRows),
        Text::OpenTsdb => (format!("/api/put?db={DATABASE}{no_sync}"), "application/json", by_status),
    };
    let (url, http) = (options.url.clone(), options.http.clone());
    SendOptions { url, http, target, content_type, acknowledgement, pace: None }
}

async fn write_text(
    text: Text,
    mut feed: Feed,
    options: &WriteOptions,
    share: &mut Share,
    acknowledged: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    let to = send_options(text, options);
    let (mut sender, mut body) = (Sender::new(&to)?, Vec::new());
    loop {
        body.clear();
        text.begin(&mut body);
        let rows = feed.next(options.rows_per_request, &mut |device, rows| text.push(&mut body, device, rows))?;
        if rows == 0 {
            return Ok(());
        }
        text.end(&mut body);
        sender.send(&body, rows as u64, share).await?;
        acknowledged(rows as u64);
    }
}

async fn write_arrow(
    mut feed: Feed,
    options: &WriteOptions,
    share: &mut Share,
    acknowledged: &(dyn Fn(u64) + Sync),
) -> Result<()> {
    let url = options.flight.as_deref().context("no Flight SQL endpoint given")?;
    let channel = flight::connect(url, options.http.request_timeout).await?;
    let per_stream = usize::try_from(options.rows_per_stream.max(1)).unwrap_or(usize::MAX);
    loop {
        let start = Instant::now();
        // Batches are made while the stream runs; the feed comes back when it has ended.
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        let per_request = options.rows_per_request;
        let produce = tokio::task::spawn_blocking(move || {
            let mut sent = 0;
            while sent < per_stream {
                let mut batch = Batch::default();
                let wanted = per_request.min(per_stream - sent);
                let made = feed.next(wanted, &mut |device, rows| batch.push(device, rows));
                let rows = made.as_ref().copied().unwrap_or(0);
                let item = made.and_then(|rows| if rows == 0 { Ok(None) } else { Ok(Some(batch.finish()?)) });
                let Some(item) = item.transpose() else { break };
                sent += rows;
                let failed = item.is_err();
                if sender.blocking_send(item).is_err() || failed {
                    break;
                }
            }
            (feed, sent)
        });
        let mut receiver = receiver;
        let Some(first) = receiver.recv().await else { return Ok(()) };
        let rest = futures::stream::unfold(receiver, |mut receiver| async move {
            receiver.recv().await.map(|batch| (batch, receiver))
        });
        let batches = futures::stream::iter([first]).chain(rest);
        let rows = flight::ingest(channel.clone(), batches, options.stream_timeout).await?;
        let (returned, sent) = produce.await.context("the producer of batches ended")?;
        feed = returned;
        if rows != sent as u64 {
            bail!("DoPut of {sent} rows: the server acknowledged {rows}");
        }
        share.latencies.record(start.elapsed());
        share.rows += rows;
        share.requests += 1;
        acknowledged(rows);
    }
}

#[cfg(test)]
mod tests;
