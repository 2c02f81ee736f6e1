//! `meters`: the smart meters, written to servers with one processor, two, ….

use super::args::{OwnServers, bar, list};
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use tidelake_loadtest::drive::meters::{MetersOptions, MetersSample, load};
use tidelake_loadtest::report::meters::MetersReport;
use tidelake_loadtest::report::{Conditions, Page as _};
use tidelake_loadtest::workload::meters::{Form, Meters, published};

/// Arguments of `meters`.
#[derive(Debug, Args)]
pub(crate) struct SmartMeters {
    #[command(flatten)]
    servers: OwnServers,
    /// Directory for report.json and report.md
    #[arg(long)]
    out: Option<PathBuf>,
    /// Number of meters, each a subtable
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    subtables: u32,
    /// Readings per meter
    #[arg(long, default_value_t = 1_000_000)]
    rows: u32,
    /// Random seed; equal seeds give equal readings
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Protocol
    #[arg(long, value_enum, value_delimiter = ',', default_value = "tdengine,line")]
    forms: Vec<Form>,
    /// Numbers of processors of the server, one measurement each
    #[arg(long, default_value = "1,2")]
    cores: String,
    /// Concurrent clients
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// Rows per request
    #[arg(long, default_value_t = 2_000)]
    rows_per_request: u32,
}

impl SmartMeters {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let set = Meters { subtables: self.subtables, rows: self.rows, seed: self.seed };
        let mut report = MetersReport { conditions: Conditions::here(), data: set, samples: Vec::new() };
        for form in self.forms {
            for cores in list::<usize>(&self.cores)? {
                let root = self.servers.directory()?;
                let options = MetersOptions {
                    program: self.servers.program.clone(),
                    root: root.path().to_owned(),
                    cores,
                    form,
                    clients: self.clients,
                    rows_per_request: self.rows_per_request,
                };
                let bar = bar(set.len());
                let sample = load(set, &options, &|rows| bar.set_position(rows)).await;
                bar.finish_and_clear();
                let sample = sample.with_context(|| format!("{} on {cores} processors", form.name()))?;
                println!("{}", line(&sample, report.ratio(&sample)));
                report.samples.push(sample);
            }
        }
        if let Some(dir) = &self.out {
            report.write(dir)?;
        }
        Ok(())
    }
}

/// Formats a sample as one line, with the ratio of its rate to that of the first sample of its protocol.
fn line(sample: &MetersSample, ratio: Option<f64>) -> String {
    let rate = sample.sent.rows_per_second();
    let ratio = ratio.map(|ratio| format!(", {ratio:.2} times the first's"));
    let theirs = published(sample.cores).map_or(String::new(), |(rows, megabytes)| {
        format!("; TDengine, published: {rows} rows/s, {megabytes} MB/s to disk")
    });
    format!(
        "{}: server on {} of the processors, clients on {} ({}): {} rows in {:.2} s = {rate:.0} rows/s{}; {:.1} MB/s \
         stored; processor time {:.2} s of the server ({:.0} rows each), {:.2} s of the clients; p50 {:.2} ms, p99 {:.2} ms; \
         counts and sums right{theirs}",
        sample.form.name(),
        sample.cores,
        sample.client_cores,
        if sample.is_shared { "shared" } else { "their own" },
        sample.sent.rows,
        sample.sent.seconds,
        ratio.unwrap_or_default(),
        sample.stored_bytes as f64 / 1e6 / sample.sent.seconds,
        sample.server_cpu_seconds,
        sample.sent.rows as f64 / sample.server_cpu_seconds.max(0.01),
        sample.client_cpu_seconds,
        sample.sent.latency.p50_ms,
        sample.sent.latency.p99_ms,
    )
}
