//! Line protocol in UDP datagrams: nobody acknowledges them, so what arrived is counted by asking.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::{
    net::{UdpSocket, lookup_host},
    time::{sleep, sleep_until},
};

use super::{
    Progress,
    http::HttpOptions,
    query::{Addresses, Asker, Door},
};
use crate::{
    workload::answer::Value,
    workload::generate::Source,
    workload::generate::encode::Text,
    workload::{DATABASE, SUPERTABLE},
};

/// How datagrams are sent.
#[derive(Debug, Clone)]
pub struct UdpOptions {
    /// The socket that takes them, `host:port`; its lines go into the papers' database, in milliseconds.
    pub to: String,
    /// Where the server is asked what arrived.
    pub addresses: Addresses,
    /// Bounds of the client that asks.
    pub http: HttpOptions,
    /// Rows of one datagram.
    pub rows_per_datagram: usize,
    /// Rows a second; by default as many as the system takes.
    pub rows_per_second: Option<f64>,
}

/// What was sent, and what became of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UdpSample {
    /// Rows that were sent.
    pub sent: u64,
    /// Rows that a query counts once their number stays the same.
    pub arrived: u64,
    /// Datagrams.
    pub datagrams: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// From the first datagram to the last.
    pub seconds: f64,
}

impl UdpSample {
    /// Rows sent a second.
    pub fn sent_per_second(&self) -> f64 {
        self.sent as f64 / self.seconds.max(1e-9)
    }
}

/// A sender looks at the clock after as much of its pace at most.
const TICK: Duration = Duration::from_millis(1);
/// Rows have arrived when no more did for so long, or after the longest wait.
const QUIET: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Sends all rows of `source`, from one socket.
///
/// # Errors
/// A socket that cannot be made, a server that cannot be asked.
pub async fn send_datagrams(source: &Source, options: &UdpOptions, progress: Progress<'_>) -> Result<UdpSample> {
    let to = lookup_host(&options.to).await.with_context(|| format!("find {}", options.to))?.next();
    let to = to.with_context(|| format!("{} has no address", options.to))?;
    let any = if to.is_ipv6() { "[::]:0" } else { "0.0.0.0:0" };
    let socket = UdpSocket::bind(any).await.context("make a UDP socket")?;
    socket.connect(to).await.with_context(|| format!("send to {to}"))?;
    let mut sample = UdpSample { sent: 0, arrived: 0, datagrams: 0, bytes: 0, seconds: 0.0 };
    let begun = Instant::now();
    let (mut body, mut unseen) = (Vec::new(), 0.0);
    for mut feed in source.feeds(1) {
        loop {
            body.clear();
            let rows = feed.next(options.rows_per_datagram.max(1), &mut |device, rows| {
                Text::Line.push(&mut body, device, rows);
            })?;
            if rows == 0 {
                break;
            }
            match socket.send(&body).await {
                // Nobody listens: the answer to an earlier datagram. It is counted as sent, as any other that is lost.
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => {}
                sent => drop(sent.with_context(|| format!("a datagram of {} bytes", body.len()))?),
            }
            sample.sent += rows as u64;
            sample.datagrams += 1;
            sample.bytes += body.len() as u64;
            if let Some(pace) = options.rows_per_second {
                unseen += rows as f64;
                if unseen >= pace * TICK.as_secs_f64() {
                    unseen = 0.0;
                    progress(sample.sent);
                    let due = begun + Duration::from_secs_f64(sample.sent as f64 / pace);
                    sleep_until(due.into()).await;
                }
            } else if sample.datagrams.is_multiple_of(1_024) {
                progress(sample.sent);
            }
        }
    }
    sample.seconds = begun.elapsed().as_secs_f64();
    sample.arrived = arrived(options).await?;
    Ok(sample)
}

/// The number of rows that are there once it stays the same.
async fn arrived(options: &UdpOptions) -> Result<u64> {
    let mut asker = Asker::connect(Door::HttpJson, &options.addresses, &options.http).await?;
    let until = Instant::now() + LONGEST;
    let mut last = None;
    loop {
        let count = count(&mut asker).await?;
        if last == Some(count) || Instant::now() >= until {
            return Ok(count);
        }
        last = Some(count);
        sleep(QUIET).await;
    }
}

/// The number of rows of the papers' supertable.
///
/// # Errors
/// A server that does not say.
pub(super) async fn count(asker: &mut Asker) -> Result<u64> {
    let (raw, _) = asker.ask(&format!("select count(*) from {DATABASE}.{SUPERTABLE};")).await?;
    let answer = raw.into_answer()?;
    match answer.column("count(*)")?.value(0) {
        Value::Int(count) => u64::try_from(count).with_context(|| format!("a count of {count}")),
        other => bail!("expected a count, found {other:?}"),
    }
}
