//! `devops`: loads, measures and queries the fleet of servers; optionally compares with InfluxDB.

use super::args::Server;
use super::beside::Writer;
use super::peers::{Adapters, Engine};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use tidelake_loadtest::drive::compact::compact;
use tidelake_loadtest::drive::devops::{FormSample, LoadSample, Words, ask, load};
use tidelake_loadtest::drive::files::live_bytes;
use tidelake_loadtest::drive::peers::{served, settled};
use tidelake_loadtest::drive::{self, Client, HttpOptions};
use tidelake_loadtest::measure;
use tidelake_loadtest::report::Page as _;
use tidelake_loadtest::report::fleet::{FleetBeside, FleetReport, FleetRival, values_per_second};
use tidelake_loadtest::workload::devops::{DATABASE, Fleet, Form, MEASUREMENTS};

/// Arguments of `devops`.
#[derive(Debug, Args)]
pub(crate) struct Devops {
    #[command(flatten)]
    server: Server,
    /// Servers of the fleet
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    hosts: u32,
    /// Hours of reports per server
    #[arg(long, default_value_t = 24)]
    hours: u32,
    /// Random seed; equal seeds give equal values
    #[arg(long, default_value_t = 123)]
    seed: u64,
    /// Concurrent workers, for loading and for queries
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// Lines per request
    #[arg(long, default_value_t = 5_000)]
    lines_per_request: usize,
    /// Queries of each shape
    #[arg(long, default_value_t = 1_000)]
    questions: u32,
    /// Skip loading; query data loaded earlier
    #[arg(long)]
    loaded: bool,
    /// Wait before compaction, in seconds: a fold skips younger segments
    #[arg(long, default_value_t = 6.0)]
    settle: f64,
    /// Root directory of the server, to measure sizes
    #[arg(long)]
    root: Option<PathBuf>,
    /// Repeat the query of one host and hour while a writer adds later lines of the same hosts
    #[arg(long)]
    beside: bool,
    #[command(flatten)]
    writer: Writer,
    /// Also load and query InfluxDB, with the same lines, hosts and hours
    #[arg(long)]
    influxdb: bool,
    #[command(flatten)]
    adapters: Adapters,
    /// Directory for report.json and report.md
    #[arg(long)]
    out: Option<PathBuf>,
}

impl Devops {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let fleet = Fleet { hosts: self.hosts, steps: self.hours * 360, seed: self.seed };
        let (url, http) = (&self.server.url, self.server.options());
        let mut measured = FleetReport::new(fleet);
        if !self.loaded {
            measured.load = Some(self.load(&fleet).await?);
        }
        for measurement in MEASUREMENTS {
            measured.live_bytes += live_bytes(url, &http, &format!("{DATABASE}.{}", measurement.name)).await?;
        }
        println!("live files: {} bytes, {:.3} a value", measured.live_bytes, measured.live_bytes_per_value());
        if let Some(root) = &self.root {
            let size = measure::size(root)?;
            for (name, kind) in size.kinds().into_iter().filter(|(_, kind)| kind.objects > 0) {
                println!("{name:20} {:>6} objects {:>12} bytes", kind.objects, kind.bytes);
            }
            measured.size = Some(size);
        }
        // Warm up with different queries, so that the measured statement texts are new to the server.
        let (asked, others) = (0..self.questions, self.questions..self.questions.saturating_mul(2));
        ask(&fleet, Form::OneHostOneHour, Words::Text, url, &http, self.workers, others).await?;
        for form in Form::ALL {
            for words in [Words::Text, Words::Parameters] {
                let sample = ask(&fleet, form, words, url, &http, self.workers, asked.clone()).await?;
                print_form(words.name(), &sample);
                measured.forms.push(sample);
            }
        }
        if self.beside {
            measured.beside = Some(self.beside(&fleet).await?);
        }
        if self.influxdb {
            let rival = self.influxdb(&fleet).await.context("InfluxDB")?;
            compare(&measured, &rival);
            measured.influxdb = Some(rival);
        }
        if let Some(dir) = &self.out {
            measured.write(dir)?;
        }
        Ok(())
    }

    /// Loads and compacts our server.
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    async fn load(&self, fleet: &Fleet) -> Result<LoadSample> {
        let (url, http) = (&self.server.url, self.server.options());
        let mut client = Client::new(url, http.clone())?;
        let dropped = format!("drop database if exists {DATABASE}");
        let reply = client.send("POST", "/rest/sql", "text/plain; charset=utf-8", dropped.as_bytes()).await?;
        if !reply.is_success() {
            bail!("{dropped}: {}", reply.excerpt());
        }
        let sample = load(fleet, url, &http, self.workers, self.lines_per_request).await?;
        print_load(&sample);
        tokio::time::sleep(Duration::try_from_secs_f64(self.settle).context("--settle: expected seconds")?).await;
        let patient = HttpOptions { request_timeout: Duration::from_secs(3_600), ..http };
        let compacted = compact(url, &patient).await?;
        println!("compacted in {:.2} s", compacted.seconds);
        Ok(sample)
    }

    /// Runs the query of one host and hour with a concurrent writer.
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    async fn beside(&self, fleet: &Fleet) -> Result<FleetBeside> {
        let (url, http) = (&self.server.url, self.server.options());
        let options = self.writer.options(url, http.clone())?;
        let mut writer = drive::beside::writer::Writer::of_fleet(*fleet, &options);
        let lead = self.writer.lead()?;
        writer.beside(async { Ok(tokio::time::sleep(lead).await) }).await?;
        // Queries not used before.
        let questions = self.questions.saturating_mul(2)..self.questions.saturating_mul(3);
        let mut forms = Vec::new();
        for words in [Words::Text, Words::Parameters] {
            let asked = ask(fleet, Form::OneHostOneHour, words, url, &http, self.workers, questions.clone());
            let sample = writer.beside(asked).await?;
            print_form(words.name(), &sample);
            forms.push(sample);
        }
        let writer = writer.stop().await?;
        let rate = writer.rows_per_second();
        println!("beside a writer: {} lines in {:.1} s = {rate:.0} lines/s", writer.rows, writer.seconds);
        Ok(FleetBeside { asked_lines_per_second: options.rows_per_second, writer, forms })
    }

    /// Loads InfluxDB with the same lines, waits for its compaction, and runs the query of one host and hour.
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    async fn influxdb(&self, fleet: &Fleet) -> Result<FleetRival> {
        let http = self.server.options();
        let arguments = ["--load-only", "--database", DATABASE].map(str::to_owned);
        let (mut adapter, work) = self.adapters.start(Engine::Influxdb, &arguments)?;
        let (mut adapter, served) =
            tokio::task::spawn_blocking(move || served(&mut adapter).map(|served| (adapter, served))).await??;
        println!("InfluxDB {}:", served.version);
        let sample = load(fleet, &served.url, &http, self.workers, self.lines_per_request).await?;
        print_load(&sample);
        let (adapter, settled) = tokio::task::spawn_blocking(move || {
            let settled = settled(&mut adapter, None)?;
            anyhow::Ok((adapter, settled))
        })
        .await??;
        println!("settled after {:.1} s: {} bytes on disk", settled.seconds, settled.bytes);
        let (workers, questions) = (self.workers, self.questions);
        let mut form = None;
        // The first run is a warm-up.
        for questions in [questions..questions.saturating_mul(2), 0..questions] {
            let asked = ask(fleet, Form::OneHostOneHour, Words::Influxql, &served.url, &http, workers, questions);
            form = Some(asked.await?);
        }
        let form = form.context("asked twice")?;
        print_form(Words::Influxql.name(), &form);
        tokio::task::spawn_blocking(move || adapter.stop()).await??;
        drop(work);
        let (settle_seconds, disk_bytes) = (settled.seconds, settled.bytes);
        Ok(FleetRival { version: served.version, load: sample, settle_seconds, disk_bytes, form })
    }
}

#[expect(clippy::print_stdout, reason = "a command prints its result")]
fn print_load(sample: &LoadSample) {
    println!(
        "{} lines, {} values in {:.2} s = {:.0} values/s, {:.1} MB/s ({} workers, {} lines/request; p50 {:.2} ms, p99 {:.2} ms)",
        sample.lines,
        sample.values,
        sample.seconds,
        values_per_second(sample),
        sample.bytes as f64 / sample.seconds / 1e6,
        sample.workers,
        sample.lines_per_request,
        sample.latency.p50_ms,
        sample.latency.p99_ms,
    );
}

#[expect(clippy::print_stdout, reason = "a command prints its result")]
fn print_form(words: &str, sample: &FormSample) {
    println!(
        "{:24} {words:10} mean {:>8.2} ms, p50 {:>8.2}, p99 {:>8.2}, {:>8.0}/s",
        sample.form.name(),
        sample.mean_ms,
        sample.latency.p50_ms,
        sample.latency.p99_ms,
        sample.per_second,
    );
}

/// Prints the figures of both systems and their ratios; above 1 is better for Tidelake.
#[expect(clippy::print_stdout, reason = "a command prints its result")]
fn compare(ours: &FleetReport, theirs: &FleetRival) {
    let values = ours.fleet.values() as f64;
    let line = |what: &str, ours: Option<f64>, theirs: f64, more_is_better: bool| {
        let Some(ours) = ours else { return };
        let ratio = if more_is_better { ours / theirs } else { theirs / ours };
        println!("{what:34} Tidelake {ours:>12.3}  InfluxDB {theirs:>12.3}  {ratio:>6.2} times better");
    };
    line("values/s", ours.load.as_ref().map(values_per_second), values_per_second(&theirs.load), true);
    line("bytes/value", Some(ours.live_bytes_per_value()), theirs.disk_bytes as f64 / values, false);
    let one_hour = |parameters| ours.form(Form::OneHostOneHour, parameters).map(|sample| sample.mean_ms);
    line("one host, one hour: mean ms, text", one_hour(false), theirs.form.mean_ms, false);
    line("the same, parameters", one_hour(true), theirs.form.mean_ms, false);
}
