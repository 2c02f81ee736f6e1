//! `growth`: queries over data sets of increasing size.

use super::args::{OwnServers, bar, list};
use super::write;
use anyhow::{Context, Result};
use clap::Args;
use std::path::{Path, PathBuf};
use tidelake_loadtest::Devices;
use tidelake_loadtest::drive::growth::{GrowthOptions, GrowthSample, grow};
use tidelake_loadtest::report::{Page as _, Report};

/// Arguments of `growth`.
#[derive(Debug, Args)]
pub(crate) struct Growth {
    #[command(flatten)]
    servers: OwnServers,
    /// Numbers of devices, one measurement each
    #[arg(long, default_value = "1000,10000,100000")]
    devices: String,
    /// Rows per device, one per second
    #[arg(long, default_value_t = 10_000)]
    rows: u32,
    /// Random seed; equal seeds give equal rows
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Minimum runs of each query
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// JSON file for the samples
    #[arg(long)]
    out: Option<PathBuf>,
    /// Existing report.json to add the samples to; its Markdown page is regenerated
    #[arg(long)]
    into: Option<PathBuf>,
}

impl Growth {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let mut samples = Vec::new();
        for devices in list::<u32>(&self.devices)? {
            let set = Devices { devices, rows: self.rows, seed: self.seed };
            let root = self.servers.directory()?;
            let options = GrowthOptions {
                program: self.servers.program.clone(),
                root: root.path().to_owned(),
                repeat: self.repeat,
            };
            let bar = bar(set.len());
            let sample = grow(set, &options, &|rows| bar.set_position(rows)).await;
            bar.finish_and_clear();
            let sample = sample.with_context(|| format!("{} rows", set.len()))?;
            println!("{}", line(&sample));
            samples.push(sample);
        }
        if let Some(path) = &self.out {
            let json = serde_json::to_string_pretty(&samples)?;
            std::fs::write(path, json + "\n").with_context(|| format!("write {}", path.display()))?;
        }
        if let Some(path) = &self.into {
            let mut report = Report::read(path)?;
            report.growth = samples;
            report.write(path.parent().unwrap_or(Path::new("")))?;
        }
        Ok(())
    }
}

fn line(sample: &GrowthSample) -> String {
    let queries = sample.queries.iter().map(|query| format!("{} {:.2} ms", query.name, query.median_ms()));
    format!(
        "{}\ncompacted in {:.2} s; {}; memory of the server {:.0} MB at its peak ({:.0} MB before the questions); answers right",
        write::line(&sample.load),
        sample.compact.seconds,
        queries.collect::<Vec<_>>().join(", "),
        sample.memory.peak as f64 / 1e6,
        sample.loaded_memory.peak as f64 / 1e6,
    )
}
