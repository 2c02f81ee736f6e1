//! `wide`: rows of 32 524 bytes, written to the disk and over links of given bandwidths to an S3 server.

use super::args::{OwnServers, list};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use tidelake_loadtest::distant::Distance;
use tidelake_loadtest::drive::wide::{Line, WideOptions, WideSample, load};
use tidelake_loadtest::report::wide::WideReport;
use tidelake_loadtest::report::{Conditions, Page as _};
use tidelake_loadtest::workload::wide::{PUBLISHED, Wide};

/// Arguments of `wide`.
#[derive(Debug, Args)]
pub(crate) struct WideRows {
    #[command(flatten)]
    servers: OwnServers,
    /// Directory for report.json and report.md
    #[arg(long)]
    out: Option<PathBuf>,
    /// Number of subtables
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    subtables: u32,
    /// Rows per subtable on the disk; the disk's rate is measured with the same number of bytes. The paper used 10 000
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..))]
    rows: u32,
    /// Rows per subtable over the slowest link; faster links get proportionally more, because folding takes its share of a
    /// link only after some seconds
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..))]
    line_rows: u32,
    /// Random seed; equal seeds give equal rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Concurrent writers
    #[arg(long, default_value_t = 16)]
    writers: usize,
    /// Rows per DoPut
    #[arg(long, default_value_t = 100)]
    rows_per_put: u32,
    /// Program of the S3 server versitygw; if given, the rows are also written to it, through a proxy
    #[arg(long, env = "TIDELAKE_VERSITYGW")]
    s3_program: Option<PathBuf>,
    /// Megabytes per second of all uploads to the S3 server together, one measurement each
    #[arg(long, default_value = "50,100,200")]
    upload_megabytes: String,
    /// Time to the first byte of the S3 server's replies, in milliseconds
    #[arg(long, default_value_t = 5)]
    first_byte: u64,
}

impl WideRows {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let mut lines = vec![(self.rows, None)];
        if let Some(program) = &self.s3_program {
            let rates = list::<u64>(&self.upload_megabytes)?;
            let slowest = rates.iter().copied().min().unwrap_or_default().max(1);
            for megabytes in rates {
                let rows = u64::from(self.line_rows).saturating_mul(megabytes) / slowest;
                let (first_byte, rate) = (Duration::from_millis(self.first_byte.max(1)), megabytes.max(1) * 1_000_000);
                let distance = Distance {
                    median: first_byte,
                    p99: first_byte,
                    // Limit only the shared uploads, not single connections and replies.
                    bytes_per_second: 10_000_000_000,
                    upload_bytes_per_second: Some(rate),
                };
                let rows = u32::try_from(rows).unwrap_or(u32::MAX).max(1);
                lines.push((rows, Some(Line { program: program.clone(), distance })));
            }
        }
        let mut report = WideReport { conditions: Conditions::here(), samples: Vec::new() };
        for (rows, line) in lines {
            let set = Wide { subtables: self.subtables, rows, seed: self.seed };
            let directory = self.servers.directory()?;
            let options = WideOptions {
                program: self.servers.program.clone(),
                directory: directory.path().to_owned(),
                writers: self.writers,
                rows_per_put: self.rows_per_put,
                line,
            };
            let sample = load(set, &options).await?;
            report.samples.push(sample);
            let at = report.samples.len() - 1;
            println!("{}", text(&report.samples[at], report.ratio(at)));
        }
        for (disks, rows, [from, to]) in PUBLISHED {
            println!("TDengine, published: {disks} disks {rows} rows/s, {from}-{to} MB/s");
        }
        if let Some(dir) = &self.out {
            report.write(dir)?;
        }
        Ok(())
    }
}

/// Formats a sample as one line, with the ratio of its rate to that of the previous link.
fn text(sample: &WideSample, ratio: Option<f64>) -> String {
    let mega = |bytes: f64| bytes / 1e6;
    let written = sample.written_bytes as f64 / sample.seconds;
    let (limit, target) = (sample.limit().unwrap_or(f64::NAN), sample.line_bytes_per_second.map_or("disk", |_| "line"));
    let ratio = ratio.map(|ratio| format!("; {ratio:.2} times the rate of the line before"));
    format!(
        "{target} of {:.0} MB/s{}{}: {} rows in {:.2} s = {:.0} rows/s, {:.1} MB/s of rows ({:.0} %), {:.1} MB/s written \
         ({:.0} %){}; {} writers, {} rows a DoPut, p50 {:.0} ms, p99 {:.0} ms; processor time {:.2} s of the server, \
         {:.2} s of the clients; counts, sums and a row right",
        mega(limit),
        sample.disk_bytes_per_second.map_or(String::new(), |[before, after]| format!(
            " ({:.0} before, {:.0} after)",
            mega(before),
            mega(after)
        )),
        sample.bare_bytes_per_second.map_or(String::new(), |bare| format!(", a bare server takes {:.0}", mega(bare))),
        sample.rows,
        sample.seconds,
        sample.rows_per_second(),
        mega(sample.bytes_per_second()),
        sample.bytes_per_second() / limit * 100.0,
        mega(written),
        written / limit * 100.0,
        ratio.unwrap_or_default(),
        sample.writers,
        sample.rows_per_put,
        sample.latency.p50_ms,
        sample.latency.p99_ms,
        sample.server_cpu_seconds,
        sample.client_cpu_seconds,
    )
}
