//! Other engines: loads the same rows into them, and measures and queries them through their adapters.

use super::{
    HttpOptions, Protocol, WriteOptions,
    adapter::{Adapter, Event},
    sample::{PeerLoad, PeerSample},
    write,
};
use crate::workload::generate::{
    Device, Devices, Order, Source,
    encode::{Batch, SCHEMA},
};
use anyhow::{Context, Result, bail, ensure};
use arrow::ipc::writer::StreamWriter;
use std::{
    io::{BufWriter, ErrorKind, Write},
    time::Duration,
};
use tokio::runtime::Handle;

/// Rows per request to a server, and concurrent clients.
const ROWS_PER_REQUEST: usize = 1_000;
const CLIENTS: usize = 4;
/// Maximum waits: for a server to start, for rows to be stored and compacted, for all runs of one query.
const START_TIME: Duration = Duration::from_secs(300);
const SETTLE_TIME: Duration = Duration::from_secs(7_200);
const ANSWER_TIME: Duration = Duration::from_secs(3_600);
/// Rows per batch to an engine inside an adapter.
const BATCH_ROWS: usize = 1 << 16;

/// Description of an engine's server, from the adapter's first line.
#[derive(Debug, Clone)]
pub struct Served {
    /// The engine.
    pub peer: String,
    /// Its version.
    pub version: String,
    /// `http://127.0.0.1:port`.
    pub url: String,
}

/// State of an engine's settled store.
#[derive(Debug, Clone, Copy)]
pub struct Settled {
    /// Seconds from the last row's reply until the store had settled.
    pub seconds: f64,
    /// Disk usage in bytes.
    pub bytes: u64,
}

/// Waits until the adapter's server accepts requests.
///
/// # Errors
/// The adapter fails, or is silent for too long.
pub fn served(adapter: &mut Adapter) -> Result<Served> {
    match adapter.next(START_TIME)? {
        Some(Event::Ready { peer, version, url }) => Ok(Served { peer, version, url }),
        other => bail!("expected event \"ready\", found {other:?}"),
    }
}

/// Reports to the adapter that all rows are written, and waits until the store has settled.
///
/// # Errors
/// The adapter fails or is silent for too long; the store holds another number of rows.
pub fn settled(adapter: &mut Adapter, rows: Option<u64>) -> Result<Settled> {
    adapter.say("loaded")?;
    match adapter.next(SETTLE_TIME)? {
        Some(Event::Settled { rows: found, seconds, bytes, .. }) => {
            expect_rows(rows, found)?;
            Ok(Settled { seconds, bytes })
        }
        other => bail!("expected event \"settled\", found {other:?}"),
    }
}

fn expect_rows(wanted: Option<u64>, found: Option<u64>) -> Result<()> {
    if let Some((wanted, found)) = wanted.zip(found) {
        ensure!(wanted == found, "the engine was sent {wanted} rows and holds {found}");
    }
    Ok(())
}

/// Writes to a server over a protocol, waits until its store has settled, and collects the answers. Blocks.
///
/// # Errors
/// A refused write; the adapter fails or is silent for too long.
pub fn measure_server(
    mut adapter: Adapter,
    set: &Devices,
    protocol: Protocol,
    runtime: &Handle,
) -> Result<(PeerLoad, Vec<PeerSample>)> {
    let Served { peer, version, url } = served(&mut adapter)?;
    let mut options = WriteOptions::new(url);
    options.protocol = protocol;
    options.rows_per_request = ROWS_PER_REQUEST;
    options.clients = CLIENTS;
    options.http = HttpOptions { request_timeout: Duration::from_secs(300), ..HttpOptions::default() };
    let source = Source::Generated(*set, Order::Device);
    let written = runtime.block_on(write(&source, &options, &|_| ())).with_context(|| format!("write to {peer}"))?;
    let Settled { seconds, bytes } = settled(&mut adapter, Some(set.len()))?;
    let load = PeerLoad {
        peer,
        version,
        rows: written.rows,
        seconds: written.seconds,
        clients: CLIENTS,
        rows_per_request: ROWS_PER_REQUEST,
        settle_seconds: seconds,
        disk_bytes: bytes,
        in_process: false,
    };
    Ok((load, answers(&mut adapter, set)?))
}

/// Sends rows to an adapter that loads them into its engine, and collects load statistics and answers. An adapter that reads
/// Parquet files reports no load. Blocks.
///
/// # Errors
/// The adapter fails or is silent for too long.
pub fn measure_fed(mut adapter: Adapter, set: &Devices) -> Result<(Option<PeerLoad>, Vec<PeerSample>)> {
    let input = adapter.take_input().context("the adapter has no standard input")?;
    let sent = *set;
    let feeder = std::thread::spawn(move || feed(&sent, input));
    let mut wait = SETTLE_TIME;
    let (mut load, mut samples) = (None, Vec::new());
    while let Some(event) = adapter.next(wait)? {
        match event {
            Event::Answer(sample) => samples.push(PeerSample { data_rows: set.len(), ..sample }),
            Event::Settled { rows, seconds, bytes, load: Some(taken) } => {
                expect_rows(Some(set.len()), rows)?;
                load = Some(PeerLoad {
                    peer: taken.peer,
                    version: taken.version,
                    rows: set.len(),
                    seconds: taken.seconds,
                    clients: taken.clients,
                    rows_per_request: taken.rows_per_request,
                    settle_seconds: seconds,
                    disk_bytes: bytes,
                    in_process: taken.clients == 0,
                });
            }
            other => bail!("expected answers, found {other:?}"),
        }
        wait = ANSWER_TIME;
    }
    match feeder.join() {
        Ok(fed) => fed.context("send rows to the adapter")?,
        Err(_) => bail!("the thread that sends rows to the adapter panicked"),
    }
    Ok((load, samples))
}

fn answers(adapter: &mut Adapter, set: &Devices) -> Result<Vec<PeerSample>> {
    let mut samples = Vec::new();
    while let Some(event) = adapter.next(ANSWER_TIME)? {
        match event {
            Event::Answer(sample) => samples.push(PeerSample { data_rows: set.len(), ..sample }),
            other => bail!("expected answers, found {other:?}"),
        }
    }
    Ok(samples)
}

/// Sends all rows as an Arrow stream. An adapter that needs no rows closes the pipe, which is not an error.
fn feed(set: &Devices, to: impl Write) -> Result<()> {
    let result = try_feed(set, to);
    match &result {
        Err(error) => {
            let broken = error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
            let text = format!("{error:#}");
            let closed = broken.map(std::io::Error::kind).any(|kind| kind == ErrorKind::BrokenPipe);
            if closed || text.contains("Broken pipe") { Ok(()) } else { result }
        }
        Ok(()) => Ok(()),
    }
}

fn try_feed(set: &Devices, to: impl Write) -> Result<()> {
    let mut writer = StreamWriter::try_new(BufWriter::with_capacity(1 << 20, to), &SCHEMA)?;
    let (mut batch, mut rows, mut held) = (Batch::default(), Vec::new(), 0);
    for devid in set.ids() {
        rows.clear();
        set.extend(devid, 0..set.rows, &mut rows);
        batch.push(&Device::numbered(devid), &rows);
        held += rows.len();
        if held >= BATCH_ROWS || devid == set.devices {
            writer.write(&batch.finish()?)?;
            held = 0;
        }
    }
    writer.finish()?;
    Ok(())
}

#[cfg(test)]
mod tests;
