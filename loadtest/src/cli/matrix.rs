//! `matrix`: rows per request × clients.

use super::args::{Server, durability, list};
use super::write::{line, load};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use tidelake_loadtest::Devices;
use tidelake_loadtest::drive::{Existing, Protocol, WriteOptions, WriteSample, create_database};
use tidelake_loadtest::generate::{Order, Source};
use tidelake_loadtest::report::Report;

/// Which cells are measured.
#[derive(Debug, Clone, Args)]
pub(crate) struct Cells {
    /// Protocols
    #[arg(long = "matrix-protocols", value_enum, value_delimiter = ',', default_value = "line,tdengine")]
    cell_protocols: Vec<Protocol>,
    /// Rows per request
    #[arg(long = "matrix-rows", default_value = "1,10,30,50,80,100,500,1000,2000")]
    sizes: String,
    /// Numbers of clients
    #[arg(long = "matrix-clients", default_value = "1,2,3,4,5,6,7")]
    client_counts: String,
    /// Requests of each client in one cell
    #[arg(long = "matrix-requests", default_value_t = 1000)]
    cell_requests: u64,
    /// Most rows that one cell writes, all clients together
    #[arg(long = "matrix-most", default_value_t = 4_000_000)]
    cell_most: u64,
}

/// Rows of one device in a cell, where there are as many.
const DEVICE_ROWS: u64 = 10_000;

/// The data of one cell: every client has the same number of whole requests.
fn cell(rows_per_request: usize, clients: usize, requests: u64, most: u64, seed: u64) -> Devices {
    let (size, clients) = (rows_per_request.max(1) as u64, clients.max(1) as u64);
    let requests = requests.min(most / (size * clients)).max(1);
    let rows = size * requests;
    let devices = rows.div_ceil(DEVICE_ROWS);
    let clamp = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Devices { devices: clamp(devices * clients), rows: clamp(rows / devices), seed }
}

impl Cells {
    /// Measures every cell, each on an empty database, telling each one's result.
    pub(crate) async fn measure(
        &self,
        server: &Server,
        no_sync: bool,
        seed: u64,
        tell: &mut dyn FnMut(&WriteSample),
    ) -> Result<Vec<WriteSample>> {
        let (sizes, clients) = (list::<usize>(&self.sizes)?, list::<usize>(&self.client_counts)?);
        let mut samples = Vec::new();
        for &protocol in &self.cell_protocols {
            for &size in &sizes {
                for &clients in &clients {
                    let set = cell(size, clients, self.cell_requests, self.cell_most, seed);
                    let mut options = WriteOptions::new(&server.url);
                    options.flight = server.addresses().flight;
                    options.protocol = protocol;
                    options.rows_per_request = size;
                    options.clients = clients;
                    options.durability = durability(no_sync);
                    options.http = server.options();
                    create_database(&server.url, &options.http, Existing::Drop).await?;
                    let sample = load(&Source::Generated(set, Order::Device), &options).await?;
                    tell(&sample);
                    samples.push(sample);
                }
            }
        }
        Ok(samples)
    }
}

/// Arguments of `matrix`.
#[derive(Debug, Args)]
pub(crate) struct Matrix {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    cells: Cells,
    /// Ask the server to acknowledge from memory, before rows are in the store
    #[arg(long)]
    no_sync: bool,
    /// Chooses the data
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
        report.matrix = self.cells.measure(&self.server, self.no_sync, self.seed, tell).await?;
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
