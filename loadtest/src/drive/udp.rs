//! Line protocol in UDP datagrams. Datagrams are not acknowledged, so a query counts the rows that arrived.

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

/// Settings of sending.
#[derive(Debug, Clone)]
pub struct UdpOptions {
    /// UDP address of the server, `host:port`; the server must write to the papers' database with precision ms.
    pub to: String,
    /// Server to query for the number of arrived rows.
    pub addresses: Addresses,
    /// Limits of the query client.
    pub http: HttpOptions,
    /// Rows per datagram.
    pub rows_per_datagram: usize,
    /// Rows per second; unlimited by default.
    pub rows_per_second: Option<f64>,
}

/// Numbers of rows sent and arrived.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UdpSample {
    /// Rows sent.
    pub sent: u64,
    /// Rows counted by a query once the count no longer changes.
    pub arrived: u64,
    /// Number of datagrams.
    pub datagrams: u64,
    /// Bytes of the datagrams.
    pub bytes: u64,
    /// Seconds from the first datagram to the last.
    pub seconds: f64,
}

impl UdpSample {
    /// Rows sent per second.
    pub fn sent_per_second(&self) -> f64 {
        self.sent as f64 / self.seconds.max(1e-9)
    }
}

/// Interval of the rate control: the sender checks the clock after this much of its rate.
const TICK: Duration = Duration::from_millis(1);
/// The count is final when it has not changed for `QUIET`, or after `LONGEST`.
const QUIET: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// Sends all rows of `source`, from one socket.
///
/// # Errors
/// A socket that cannot be created, or a failed query.
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
                // ICMP reply to an earlier datagram: no listener. Lost datagrams count as sent.
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

/// Returns the number of stored rows once it no longer changes.
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

/// Returns the number of rows of the papers' supertable.
///
/// # Errors
/// A failed query or an unexpected answer.
pub(super) async fn count(asker: &mut Asker) -> Result<u64> {
    let (raw, _) = asker.ask(&format!("select count(*) from {DATABASE}.{SUPERTABLE};")).await?;
    let answer = raw.into_answer()?;
    match answer.column("count(*)")?.value(0) {
        Value::Int(count) => u64::try_from(count).with_context(|| format!("a count of {count}")),
        other => bail!("expected a count, found {other:?}"),
    }
}
