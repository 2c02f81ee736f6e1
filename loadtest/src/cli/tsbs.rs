//! `tsbs`: loads and queries the workload "cpu-only" of TSBS, optionally beside DuckDB and ClickHouse.

use super::args::{Server, list};
use super::bare;
use super::peers::Adapters;
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tidelake_loadtest::drive::compact::compact;
use tidelake_loadtest::drive::files::live_bytes;
use tidelake_loadtest::drive::tsbs::{Clients, Peer, QuestionSample, ask, load, mixed};
use tidelake_loadtest::drive::{Client, HttpOptions};
use tidelake_loadtest::measure::median;
use tidelake_loadtest::report::Page as _;
use tidelake_loadtest::report::tsbs::TsbsReport;
use tidelake_loadtest::workload::tsbs::{DATABASE, Dialect, Form, NAMES, Question, TABLE, Tsbs};

/// Another engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rival {
    /// DuckDB, with rows in order of arrival and tags as enumerations
    Duckdb,
    /// ClickHouse (chdb), a MergeTree by (hostname, ts)
    Clickhouse,
}

impl Rival {
    /// Name, file name of the adapter, and dialect.
    fn adapter(self) -> (&'static str, &'static str, Dialect) {
        match self {
            Self::Duckdb => ("duckdb", "tsbs_duckdb.py", Dialect::DuckDb),
            Self::Clickhouse => ("clickhouse", "tsbs_clickhouse.py", Dialect::ClickHouse),
        }
    }
}

/// Arguments of `tsbs`.
#[derive(Debug, Args)]
pub(crate) struct CpuOnly {
    #[command(flatten)]
    server: Server,
    /// Servers that report
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    hosts: u32,
    /// Hours of reports per server, one each ten seconds
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    hours: u32,
    /// Random seed; equal seeds give equal rows and questions
    #[arg(long, default_value_t = 123)]
    seed: u64,
    /// Concurrent workers that load
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// Lines per request
    #[arg(long, default_value_t = 5_000)]
    lines_per_request: usize,
    /// Skip loading; query data loaded earlier
    #[arg(long)]
    loaded: bool,
    /// Wait before compaction, in seconds: a fold skips younger segments
    #[arg(long, default_value_t = 6.0)]
    settle: f64,
    /// Minimum runs of each question on each engine
    #[arg(long, default_value_t = 7)]
    repeat: usize,
    /// Only questions whose name contains this text
    #[arg(long)]
    only: Option<String>,
    /// Queries of the concurrent clients together; 0 omits this part
    #[arg(long, default_value_t = 40)]
    mixed_queries: usize,
    /// Numbers of concurrent clients
    #[arg(long, default_value = "1,4")]
    mixed_clients: String,
    /// Also load and query other engines
    #[arg(long)]
    peers: bool,
    /// Other engines
    #[arg(long = "peers-engines", value_enum, value_delimiter = ',', default_values_t = [Rival::Duckdb, Rival::Clickhouse])]
    engines: Vec<Rival>,
    #[command(flatten)]
    adapters: Adapters,
    /// Directory for report.json and report.md
    #[arg(long)]
    out: Option<PathBuf>,
}

impl CpuOnly {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let set = Tsbs { hosts: self.hosts, steps: self.hours * 360, seed: self.seed };
        let (url, http, addresses) = (&self.server.url, self.server.options(), self.server.addresses());
        let questions = self.questions(&set)?;
        let mut report = TsbsReport::new(set);
        if !self.loaded {
            self.load(&set, &mut report).await?;
        }
        report.live_bytes = live_bytes(url, &http, TABLE).await?;
        println!("live files: {} bytes, {:.3} a row", report.live_bytes, report.live_bytes as f64 / set.len() as f64);

        let (mut peers, _directories) = self.start_peers(&set)?;
        report.peer_loads = peers.iter().map(|peer| peer.load.clone()).collect();
        let mut clients = Clients::connect(&addresses, &http).await?;
        for (turn, question) in questions.iter().enumerate() {
            let sample = ask(&set, question, &mut clients, &mut peers, self.repeat, turn).await?;
            println!("{}", line(&sample));
            report.questions.push(sample);
        }
        for question in questions.iter().filter(|question| is_large(question.form)) {
            for tag_dictionaries in [false, true] {
                let sql = question.sql(Dialect::Tidelake);
                let sample = bare::beside(&self.server, &sql, tag_dictionaries, self.repeat)?;
                println!("{}", bare::line(&sample));
                report.bare.push(sample);
            }
        }
        if self.mixed_queries > 0 {
            let questions = Question::mixed(&set, self.mixed_queries);
            let numbers = list(&self.mixed_clients)?;
            // Only DuckDB's connections run statements at the same time.
            let of_duckdb = peers.iter_mut().filter(|peer| peer.name() == "DuckDB");
            let mut of_duckdb: Vec<&mut Peer> = of_duckdb.collect();
            report.mixed = mixed(&questions, &numbers, &addresses, &http, &mut of_duckdb).await?;
            for sample in &report.mixed {
                println!("{}, {} clients: {:.2} queries/s", sample.engine, sample.clients, sample.per_second());
            }
        }
        for peer in peers {
            tokio::task::block_in_place(|| peer.stop())?;
        }
        if let Some(dir) = &self.out {
            report.write(dir)?;
        }
        let differences: Vec<&String> = report.differences().collect();
        match differences.as_slice() {
            [] => Ok(()),
            wrong => {
                wrong.iter().for_each(|text| println!("{text}"));
                bail!("{} answers differ or are missing", wrong.len())
            }
        }
    }

    /// The selected questions.
    fn questions(&self, set: &Tsbs) -> Result<Vec<Question>> {
        let is_selected = |question: &Question| self.only.as_ref().is_none_or(|text| question.name.contains(text));
        let questions: Vec<Question> = Question::all(set).into_iter().filter(is_selected).collect();
        ensure!(!questions.is_empty(), "--only: expected a part of one of {NAMES:?}");
        Ok(questions)
    }

    /// Loads and compacts our server.
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    async fn load(&self, set: &Tsbs, report: &mut TsbsReport) -> Result<()> {
        let (url, http) = (&self.server.url, self.server.options());
        let dropped = format!("drop database if exists {DATABASE}");
        let mut client = Client::new(url, http.clone())?;
        let reply = client.send("POST", "/rest/sql", "text/plain; charset=utf-8", dropped.as_bytes()).await?;
        ensure!(reply.is_success(), "{dropped}: {}", reply.excerpt());
        let sample = load(set, url, &http, self.workers, self.lines_per_request).await?;
        println!(
            "{} rows in {:.2} s = {:.0} rows/s, {:.1} MB/s ({} workers, {} lines/request; p50 {:.2} ms, p99 {:.2} ms)",
            sample.lines,
            sample.seconds,
            sample.lines as f64 / sample.seconds,
            sample.bytes as f64 / sample.seconds / 1e6,
            sample.workers,
            sample.lines_per_request,
            sample.latency.p50_ms,
            sample.latency.p99_ms,
        );
        report.load = Some(sample);
        tokio::time::sleep(Duration::try_from_secs_f64(self.settle).context("--settle: expected seconds")?).await;
        let patient = HttpOptions { request_timeout: Duration::from_secs(3_600), ..http };
        let compacted = compact(url, &patient).await?;
        println!("compacted in {:.2} s", compacted.seconds);
        report.compact = Some(compacted);
        Ok(())
    }

    /// Starts and loads the other engines; the directories hold their data.
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    fn start_peers(&self, set: &Tsbs) -> Result<(Vec<Peer>, Vec<TempDir>)> {
        let (mut peers, mut directories) = (Vec::new(), Vec::new());
        for rival in self.engines.iter().filter(|_| self.peers) {
            let (name, file, dialect) = rival.adapter();
            let (adapter, directory) = self.adapters.start_file(name, file, &[])?;
            directories.push(directory);
            let peer = tokio::task::block_in_place(|| Peer::load(adapter, dialect, set))?;
            let load = &peer.load;
            println!(
                "{} {}: {:.0} rows/s, settled after {:.1} s, {} bytes on disk",
                load.peer,
                load.version,
                load.rows as f64 / load.seconds,
                load.settle_seconds,
                load.disk_bytes
            );
            peers.push(peer);
        }
        Ok((peers, directories))
    }
}

/// Whether the answer is large enough to be compared with a bare Flight server.
fn is_large(form: Form) -> bool {
    form == Form::OneHour || form == Form::HighCpu { is_of_one: false }
}

/// Formats a sample as one line.
fn line(sample: &QuestionSample) -> String {
    let times = sample.timings.iter().map(|timing| format!("{} {:.2}", timing.engine, median(&timing.millis)));
    let rows = sample.timings.first().map_or(0, |timing| timing.rows);
    let differences = if sample.differences.is_empty() { "" } else { "; ANSWERS DIFFER" };
    format!("{:36} {rows:>7} rows, ms: {}{differences}", sample.name, times.collect::<Vec<_>>().join(", "))
}
