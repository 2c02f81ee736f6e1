//! `matrix`: rows per request × clients.

use super::args::{OwnServers, Server, list};
use super::write::{line, load};
use anyhow::{Context, Result};
use clap::Args;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use tidelake_loadtest::Devices;
use tidelake_loadtest::drive::server::{self, ServerOptions};
use tidelake_loadtest::drive::{Durability, Existing, Protocol, WriteOptions, WriteSample, create_database};
use tidelake_loadtest::measure::sync_ms;
use tidelake_loadtest::report::{Page as _, Report};
use tidelake_loadtest::workload::generate::{Order, Source};

/// Cells to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct Cells {
    /// Protocols
    #[arg(
        long = "matrix-protocols",
        value_enum,
        value_delimiter = ',',
        default_value = "line,tdengine,opentsdb,flight"
    )]
    cell_protocols: Vec<Protocol>,
    /// When the server acknowledges; no-sync is skipped for protocols without it
    #[arg(long = "matrix-durability", value_enum, value_delimiter = ',', default_value = "stored,no-sync")]
    cell_durabilities: Vec<Durability>,
    /// Rows per request
    #[arg(long = "matrix-rows", default_value = "1,10,30,50,80,100,500,1000,2000")]
    sizes: String,
    /// Numbers of clients
    #[arg(long = "matrix-clients", default_value = "1,2,3,4,5,6,7")]
    client_counts: String,
    /// Requests per client in one cell
    #[arg(long = "matrix-requests", default_value_t = 1000)]
    cell_requests: u64,
    /// Maximum rows of one cell, all clients together
    #[arg(long = "matrix-most", default_value_t = 4_000_000)]
    cell_most: u64,
    /// Numbers of clients for bulk loads: each sends one DoPut of many batches of 10 000 rows
    #[arg(long = "matrix-bulk-clients", default_value = "1,2,4")]
    bulk_clients: String,
}

/// Rows per batch of a bulk load.
const BULK_BATCH: usize = 10_000;

/// Maximum rows of one device in a cell.
const DEVICE_ROWS: u64 = 10_000;

/// Returns the data set of one cell: every client has the same number of full requests.
fn cell(rows_per_request: usize, clients: usize, requests: u64, most: u64, seed: u64) -> Devices {
    let (size, clients) = (rows_per_request.max(1) as u64, clients.max(1) as u64);
    let requests = requests.min(most / (size * clients)).max(1);
    let rows = size * requests;
    let devices = rows.div_ceil(DEVICE_ROWS);
    let clamp = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Devices { devices: clamp(devices * clients), rows: clamp(rows / devices), seed }
}

/// Servers that the cells use.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Place<'a> {
    /// One server for all cells. Its database is emptied before each cell; the server meanwhile folds and deletes older data.
    Given(&'a Server),
    /// A new server and root for each cell, as in the papers.
    New { servers: &'a OwnServers, http: &'a Server },
}

impl Cells {
    /// Measures every cell on an empty database and reports each result.
    pub(crate) async fn measure(
        &self,
        place: Place<'_>,
        seed: u64,
        tell: &mut dyn FnMut(&WriteSample),
    ) -> Result<Vec<WriteSample>> {
        let (sizes, clients) = (list::<usize>(&self.sizes)?, list::<usize>(&self.client_counts)?);
        let (mut samples, mut roots) = (Vec::new(), Vec::new());
        for (&protocol, &durability) in
            self.cell_protocols.iter().flat_map(|one| self.cell_durabilities.iter().map(move |two| (one, two)))
        {
            if !protocol.knows(durability) {
                continue;
            }
            for &rows_per_request in &sizes {
                for &clients in &clients {
                    let set = cell(rows_per_request, clients, self.cell_requests, self.cell_most, seed);
                    let mut options = WriteOptions::new("");
                    (options.protocol, options.durability) = (protocol, durability);
                    (options.rows_per_request, options.clients) = (rows_per_request, clients);
                    // Flight acknowledges whole DoPut streams, so one DoPut is one request.
                    options.rows_per_stream = rows_per_request as u64;
                    samples.push(place.fill(options, set, &mut roots, tell).await?);
                }
            }
        }
        Ok(samples)
    }

    /// Measures DoPut streams of many batches, as bulk loaders send them, if Flight is among the protocols.
    pub(crate) async fn bulk(
        &self,
        place: Place<'_>,
        seed: u64,
        tell: &mut dyn FnMut(&WriteSample),
    ) -> Result<Vec<WriteSample>> {
        let (mut samples, mut roots) = (Vec::new(), Vec::new());
        if !self.cell_protocols.contains(&Protocol::Flight) {
            return Ok(samples);
        }
        for clients in list::<usize>(&self.bulk_clients)? {
            let mut options = WriteOptions::new("");
            options.protocol = Protocol::Flight;
            (options.rows_per_request, options.clients) = (BULK_BATCH, clients);
            let set = cell(BULK_BATCH, clients, u64::MAX, self.cell_most, seed);
            samples.push(place.fill(options, set, &mut roots, tell).await?);
        }
        Ok(samples)
    }
}

impl Place<'_> {
    /// Writes the set into an empty database and sets the endpoints in `options`. A root created here is added to `roots` and
    /// deleted after the last cell: on some file systems (ext4 without a journal), creating files is slower for minutes after
    /// many deletions, which would distort later cells.
    async fn fill(
        self,
        options: WriteOptions,
        set: Devices,
        roots: &mut Vec<TempDir>,
        tell: &mut dyn FnMut(&WriteSample),
    ) -> Result<WriteSample> {
        let sample = match self {
            Self::Given(given) => fill(given, options, set).await?,
            Self::New { servers, http } => {
                let root = servers.directory()?;
                let started = server::Server::start(&ServerOptions {
                    program: servers.program.clone(),
                    store: root.path().display().to_string(),
                    environment: Vec::new(),
                    cores: None,
                })
                .await?;
                let waits = options.durability == Durability::Stored;
                let before = if waits { Some(sync(root.path()).await?) } else { None };
                let sample =
                    fill(&Server { url: started.url.clone(), flight: None, ..http.clone() }, options, set).await;
                started.kill().await?;
                let sync_ms = match before {
                    Some(before) => Some([before, sync(root.path()).await?]),
                    None => None,
                };
                roots.push(root);
                WriteSample { sync_ms, ..sample? }
            }
        };
        tell(&sample);
        Ok(sample)
    }
}

/// Measures the time of a bare synced write in the parent directory of a root.
async fn sync(root: &Path) -> Result<f64> {
    let beside = root.parent().unwrap_or(root).to_owned();
    tokio::task::spawn_blocking(move || sync_ms(&beside)).await.context("measure the disk")?
}

async fn fill(server: &Server, mut options: WriteOptions, set: Devices) -> Result<WriteSample> {
    (options.url, options.flight) = (server.url.clone(), server.addresses().flight);
    options.http = server.options();
    create_database(&server.url, &options.http, Existing::Drop).await?;
    load(&Source::Generated(set, Order::Device), &options).await
}

/// Arguments of `matrix`.
#[derive(Debug, Args)]
pub(crate) struct Matrix {
    #[command(flatten)]
    server: Server,
    /// Measure each cell on a new server with its own root, instead of the server at --url
    #[arg(long)]
    new_servers: bool,
    #[command(flatten)]
    own: OwnServers,
    #[command(flatten)]
    cells: Cells,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for the report
    #[arg(long)]
    out: Option<PathBuf>,
}

impl Matrix {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let mut report = Report::new(Devices { devices: 0, rows: 0, seed: self.seed }, Order::Device);
        let tell = &mut |sample: &WriteSample| println!("{}", line(sample));
        let place = if self.new_servers {
            Place::New { servers: &self.own, http: &self.server }
        } else {
            Place::Given(&self.server)
        };
        report.matrix = self.cells.measure(place, self.seed, tell).await?;
        report.bulk = self.cells.bulk(place, self.seed, tell).await?;
        if let Some(out) = &self.out {
            let [json, page] = report.write(out)?;
            println!("{}\n{}", json.display(), page.display());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_of_a_cell_has_the_same_number_of_whole_requests() {
        for size in [1, 10, 30, 50, 80, 100, 500, 1000, 2000] {
            for clients in 1..=7 {
                let set = cell(size, clients, 1000, 4_000_000, 1);
                let per_client = set.len() / clients as u64;
                assert!(u64::from(set.devices).is_multiple_of(clients as u64));
                assert!(set.len() <= 4_000_000 && per_client >= 100, "{size} × {clients}: {set:?}");
                // Rounding to whole devices may cost a part of one request.
                assert!(per_client.abs_diff(1000 * size as u64) < size as u64 || set.len() > 3_900_000, "{set:?}");
            }
        }
    }
}
