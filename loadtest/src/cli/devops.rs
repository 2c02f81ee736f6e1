//! `devops`: the fleet of servers, loaded, measured and asked.

use super::args::Server;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;
use tidelake_loadtest::devops::{DATABASE, Fleet, Form};
use tidelake_loadtest::drive::compact::compact;
use tidelake_loadtest::drive::devops::{FormSample, LoadSample, ask, load};
use tidelake_loadtest::drive::{Client, HttpOptions};
use tidelake_loadtest::measure::{self, Size};

/// Arguments of `devops`.
#[derive(Debug, Args)]
pub(crate) struct Devops {
    #[command(flatten)]
    server: Server,
    /// Servers of the fleet
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    hosts: u32,
    /// Hours that each reports
    #[arg(long, default_value_t = 24)]
    hours: u32,
    /// Chooses the data; equal seeds give equal values
    #[arg(long, default_value_t = 123)]
    seed: u64,
    /// Workers that load, and that ask
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// Lines of a request
    #[arg(long, default_value_t = 5_000)]
    lines_per_request: usize,
    /// Questions of each shape
    #[arg(long, default_value_t = 1_000)]
    questions: usize,
    /// Ask what was loaded before
    #[arg(long)]
    loaded: bool,
    /// Wait before compaction, in seconds: a fold leaves younger segments alone
    #[arg(long, default_value_t = 6.0)]
    settle: f64,
    /// Root directory of the server, to measure sizes
    #[arg(long)]
    root: Option<PathBuf>,
    /// A file for the samples, in JSON
    #[arg(long)]
    out: Option<PathBuf>,
}

/// What was measured.
#[derive(Debug, Serialize)]
struct Measured {
    load: Option<LoadSample>,
    size: Option<Size>,
    forms: Vec<FormSample>,
}

impl Devops {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let fleet = Fleet { hosts: self.hosts, steps: self.hours * 360, seed: self.seed };
        let (url, http) = (&self.server.url, self.server.options());
        let mut measured = Measured { load: None, size: None, forms: Vec::new() };
        if !self.loaded {
            let mut client = Client::new(url, http.clone())?;
            let dropped = format!("drop database if exists {DATABASE}");
            let reply = client.send("POST", "/rest/sql", "text/plain; charset=utf-8", dropped.as_bytes()).await?;
            if !reply.is_success() {
                bail!("{dropped}: {}", reply.excerpt());
            }
            let sample = load(&fleet, url, &http, self.workers, self.lines_per_request).await?;
            println!(
                "{} lines, {} values in {:.2} s = {:.0} values/s, {:.1} MB/s ({} workers, {} lines/request; p50 {:.2} ms, p99 {:.2} ms)",
                sample.lines,
                sample.values,
                sample.seconds,
                sample.values as f64 / sample.seconds,
                sample.bytes as f64 / sample.seconds / 1e6,
                sample.workers,
                sample.lines_per_request,
                sample.latency.p50_ms,
                sample.latency.p99_ms,
            );
            measured.load = Some(sample);
            tokio::time::sleep(Duration::try_from_secs_f64(self.settle).context("--settle takes seconds")?).await;
            let patient = HttpOptions { request_timeout: Duration::from_secs(3_600), ..http.clone() };
            let compacted = compact(url, &patient).await?;
            println!("compacted in {:.2} s", compacted.seconds);
        }
        if let Some(root) = &self.root {
            let size = measure::size(root)?;
            for (name, kind) in size.kinds().into_iter().filter(|(_, kind)| kind.objects > 0) {
                println!("{name:20} {:>6} objects {:>12} bytes", kind.objects, kind.bytes);
            }
            measured.size = Some(size);
        }
        for form in Form::ALL {
            for with_parameters in [false, true] {
                let questions = self.questions;
                let sample = ask(&fleet, form, with_parameters, url, &http, self.workers, questions).await?;
                println!(
                    "{:24} {:10} mean {:>8.2} ms, p50 {:>8.2}, p99 {:>8.2}, {:>8.0}/s",
                    form.name(),
                    if with_parameters { "parameters" } else { "text" },
                    sample.mean_ms,
                    sample.latency.p50_ms,
                    sample.latency.p99_ms,
                    sample.per_second,
                );
                measured.forms.push(sample);
            }
        }
        if let Some(path) = &self.out {
            let json = serde_json::to_string_pretty(&measured)?;
            std::fs::write(path, json + "\n").with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }
}
