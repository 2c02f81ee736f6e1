//! `peers`: measures other engines with the same rows and queries, through the adapters of `loadtest/peers`.

use super::args::{Data, list, temporary};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;
use tidelake_loadtest::Devices;
use tidelake_loadtest::drive::Protocol;
use tidelake_loadtest::drive::adapter::Adapter;
use tidelake_loadtest::drive::peers::{measure_fed, measure_server};
use tidelake_loadtest::drive::sample::{PeerLoad, PeerSample};
use tidelake_loadtest::report::{Page as _, Report};
use tidelake_loadtest::workload::answer::Answer;
use tidelake_loadtest::workload::generate::{GROUPS, Order};
use tidelake_loadtest::workload::oracle::Oracle;
use tidelake_loadtest::workload::verify::Verified;
use tidelake_loadtest::workload::verify::{compare, sums_of_q1};
use tidelake_loadtest::workload::{Q1_GROUPS, Question, queries};
use tokio::runtime::Handle;

/// Another engine and its storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// DataFusion over Parquet files
    Datafusion,
    /// DuckDB over Parquet files
    Duckdb,
    /// pyarrow over Parquet files
    Pyarrow,
    /// DuckDB with a table of its own
    DuckdbTable,
    /// ClickHouse inside the adapter's process
    Clickhouse,
    /// InfluxDB 1.6
    Influxdb,
    /// VictoriaMetrics
    Victoriametrics,
    /// QuestDB
    Questdb,
    /// Cassandra 5
    Cassandra,
    /// OpenTSDB 2.4 on HBase
    #[value(name = "opentsdb")]
    OpenTsdb,
}

impl Engine {
    /// Engines that read Parquet files; one adapter serves all of them.
    const FILES: [Self; 3] = [Self::Datafusion, Self::Duckdb, Self::Pyarrow];

    /// Name in command-line arguments.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// File name of the adapter.
    fn adapter(self) -> &'static str {
        match self {
            Self::Datafusion | Self::Duckdb | Self::Pyarrow => "parquet_engines.py",
            Self::DuckdbTable => "duckdb_table.py",
            Self::Clickhouse => "clickhouse.py",
            Self::Influxdb => "influxdb.py",
            Self::Victoriametrics => "victoriametrics.py",
            Self::Questdb => "questdb.py",
            Self::Cassandra => "cassandra_cql.py",
            Self::OpenTsdb => "opentsdb.py",
        }
    }

    /// Whether the engine runs as a server process.
    fn is_server(self) -> bool {
        self == Self::Cassandra || self.protocol().is_some()
    }

    /// Protocol of the load test's clients; `None` for engines that get their rows through the adapter.
    fn protocol(self) -> Option<Protocol> {
        match self {
            Self::Influxdb | Self::Victoriametrics | Self::Questdb => Some(Protocol::Line),
            Self::OpenTsdb => Some(Protocol::OpenTsdb),
            Self::Datafusion
            | Self::Duckdb
            | Self::Pyarrow
            | Self::DuckdbTable
            | Self::Clickhouse
            | Self::Cassandra => None,
        }
    }

    /// Hard limit of the number of rows, so that loading and queries take minutes.
    fn most_rows(self) -> u64 {
        if matches!(self, Self::Cassandra | Self::OpenTsdb) { 1_000_000 } else { u64::MAX }
    }
}

/// Locations of the other engines.
#[derive(Debug, Clone, Args)]
pub(crate) struct Adapters {
    /// Directory of the engines, as installed by `loadtest/peers/install DIR`
    #[arg(long = "peers-dir")]
    dir: Option<PathBuf>,
    /// Python with the packages of loadtest/peers/requirements.txt; by default that of --peers-dir, else python3
    #[arg(long = "peers-python")]
    python: Option<PathBuf>,
    /// Directory of the adapters
    #[arg(long = "peers-adapters", default_value = "loadtest/peers")]
    adapters: PathBuf,
    /// Directory for the engines' data, removed afterwards, and for Parquet files of the same rows with pyarrow's defaults,
    /// reused by later runs
    #[arg(long = "peers-work")]
    work: Option<PathBuf>,
}

impl Adapters {
    /// Returns the command of an adapter, without the adapter's arguments.
    fn command(&self, adapter: &str) -> Command {
        let installed = self.dir.as_ref().map(|dir| dir.join("python/bin/python"));
        let python = self.python.clone().or(installed).unwrap_or_else(|| "python3".into());
        let mut command = Command::new(python);
        command.arg(self.adapters.join(adapter));
        command
    }

    /// Starts the adapter of an engine with its own store; the returned directory holds the engine's data.
    pub(crate) fn start(&self, engine: Engine, arguments: &[String]) -> Result<(Adapter, TempDir)> {
        if self.dir.is_none() && engine.is_server() {
            bail!("{} needs --peers-dir: install it with loadtest/peers/install", engine.name());
        }
        self.start_file(&engine.name(), engine.adapter(), arguments)
    }

    /// Starts the adapter in a file for the engine of this name; the returned directory holds the engine's data.
    pub(crate) fn start_file(&self, name: &str, file: &str, arguments: &[String]) -> Result<(Adapter, TempDir)> {
        let work = self.work.as_ref().with_context(|| format!("{name} needs --peers-work"))?;
        let work = temporary(Some(work))?;
        let mut command = self.command(file);
        if let Some(dir) = &self.dir {
            command.arg("--engines-dir").arg(dir);
        }
        command.arg("--work").arg(work.path()).args(arguments);
        Ok((Adapter::start(&mut command)?, work))
    }
}

/// Engines to measure.
#[derive(Debug, Clone, Args)]
pub(crate) struct Engines {
    #[command(flatten)]
    adapters: Adapters,
    /// Engines; by default all with --peers-dir, else those over Parquet files
    #[arg(long = "peers-engines", value_enum, value_delimiter = ',')]
    engines: Vec<Engine>,
    /// Maximum rows for engines with a server: fewer devices, each with all its rows
    #[arg(long = "peers-rows", default_value_t = 10_000_000)]
    rows_of_servers: u64,
}

/// Arguments of `peers`.
#[derive(Debug, Args)]
pub(crate) struct Peers {
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    engines: Engines,
    /// Root directory of a Tidelake server, whose data files are read too
    #[arg(long)]
    root: Option<PathBuf>,
    /// Percentages of q2-q4
    #[arg(long, default_value = "10,20,30,40,50,60,70,80,90,100")]
    percent: String,
    /// Runs of each query
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Directory for a report; samples are printed in any case
    #[arg(long)]
    out: Option<PathBuf>,
}

impl Peers {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let mut report = Report::new(self.data.devices(), Order::Device);
        let percents = list(&self.percent)?;
        self.engines.fill(&mut report, None, self.root, percents, self.repeat).await?;
        match &self.out {
            Some(out) => {
                let [json, page] = report.write(out)?;
                println!("{}\n{}", json.display(), page.display());
            }
            None => println!("{}", serde_json::to_string_pretty(&(&report.peer_loads, &report.peers))?),
        }
        match report.verified.wrong.as_slice() {
            [] => Ok(()),
            wrong => bail!("{} answers are wrong or missing:\n{}", wrong.len(), wrong.join("\n")),
        }
    }
}

impl Engines {
    /// Measures the engines, compares their answers with the oracle's, and adds the samples and the result to a report.
    pub(crate) async fn fill(
        &self,
        report: &mut Report,
        oracle: Option<&Oracle>,
        root: Option<PathBuf>,
        percents: Vec<u32>,
        repeat: usize,
    ) -> Result<()> {
        let (engines, set, asked) = (self.clone(), report.data, percents.clone());
        let measure = move || engines.measure(&set, root.as_deref(), &asked, repeat);
        let measured = tokio::task::spawn_blocking(measure).await.context("measure the other engines")??;
        (report.peer_loads, report.peers) = (measured.loads, measured.samples);
        report.verified.wrong.extend(measured.failures);
        let mut sets: Vec<Devices> = Vec::new();
        for set in Engine::value_variants().iter().map(|engine| self.rows_of(*engine, &set)) {
            let asked = report.peers.iter().any(|sample| sample.data_rows == set.len());
            if asked && !sets.contains(&set) {
                sets.push(set);
            }
        }
        for set in sets {
            let made;
            let oracle = match oracle.filter(|oracle| *oracle.devices() == set) {
                Some(oracle) => oracle,
                None => {
                    made =
                        tokio::task::spawn_blocking(move || Oracle::new(set)).await.context("compute the answers")?;
                    &made
                }
            };
            let verified = verify_peers(oracle, &percents, &report.peers);
            report.verified.right += verified.right;
            report.verified.wrong.extend(verified.wrong);
        }
        Ok(())
    }

    /// Returns the data set of an engine; for a server as many devices as the limit allows, but at least one per group.
    fn rows_of(&self, engine: Engine, set: &Devices) -> Devices {
        if !engine.is_server() {
            return *set;
        }
        let most = self.rows_of_servers.min(engine.most_rows());
        let fit = u32::try_from(most / u64::from(set.rows).max(1)).unwrap_or(u32::MAX);
        Devices { devices: set.devices.min(fit.max(GROUPS)), ..*set }
    }

    /// Measures the engines one after the other. Engines over Parquet read the data files of `root` and, if a work directory is
    /// given, files of the same rows with pyarrow's defaults. Blocks.
    ///
    /// # Errors
    /// The engines over Parquet files fail. Failures of other engines are returned with the results.
    fn measure(&self, set: &Devices, root: Option<&Path>, percents: &[u32], repeat: usize) -> Result<Measured> {
        let chosen = match self.engines.as_slice() {
            [] if self.adapters.dir.is_some() => Engine::value_variants(),
            [] => &Engine::FILES,
            chosen => chosen,
        };
        let percents: Vec<String> = percents.iter().map(u32::to_string).collect();
        let asked = ["--percent", &percents.join(","), "--repeat", &repeat.to_string()].map(str::to_owned);
        let mut measured = Measured::default();
        let files: Vec<String> =
            chosen.iter().filter(|engine| Engine::FILES.contains(engine)).map(|engine| engine.name()).collect();
        if !files.is_empty() {
            let adapter = self.start_over_files(set, root, &files.join(","), &asked)?;
            measured.samples.extend(measure_fed(adapter, set)?.1);
        }
        for engine in chosen.iter().filter(|engine| !Engine::FILES.contains(engine)) {
            match self.measure_one(*engine, set, &asked) {
                Ok((load, samples)) => {
                    measured.loads.extend(load);
                    measured.samples.extend(samples);
                }
                Err(error) => measured.failures.push(format!("{}: {error:#}", engine.name())),
            }
        }
        Ok(measured)
    }

    /// Measures an engine with its own store.
    fn measure_one(
        &self,
        engine: Engine,
        set: &Devices,
        asked: &[String],
    ) -> Result<(Option<PeerLoad>, Vec<PeerSample>)> {
        let (adapter, _work) = self.adapters.start(engine, asked)?;
        let set = self.rows_of(engine, set);
        if let Some(protocol) = engine.protocol() {
            let (load, samples) = measure_server(adapter, &set, protocol, &Handle::current())?;
            return Ok((Some(load), samples));
        }
        measure_fed(adapter, &set)
    }

    fn start_over_files(&self, set: &Devices, root: Option<&Path>, engines: &str, asked: &[String]) -> Result<Adapter> {
        let mut command = self.adapters.command(Engine::FILES[0].adapter());
        command.args(asked).args(["--engines", engines]);
        if let Some(root) = root {
            command.arg("--root").arg(root);
        }
        if let Some(work) = &self.adapters.work {
            command.arg("--work").arg(work.join(format!("w1-{}x{}-seed{}", set.devices, set.rows, set.seed)));
        }
        Adapter::start(&mut command)
    }
}

/// Results of the engines.
#[derive(Debug, Default)]
struct Measured {
    loads: Vec<PeerLoad>,
    samples: Vec<PeerSample>,
    /// Failed engines with their errors.
    failures: Vec<String>,
}

/// Compares the answers over one data set with the oracle's, so that no figure comes from a wrong answer.
fn verify_peers(oracle: &Oracle, percents: &[u32], samples: &[PeerSample]) -> Verified {
    let mut verified = Verified::default();
    let q1 = Q1_GROUPS.iter().map(|&group| Question::Q1 { group });
    for question in q1.chain(percents.iter().flat_map(|&percent| queries(percent))) {
        let name = question.name();
        let of_question = samples.iter().filter(|sample| sample.name == name);
        let of_question: Vec<_> = of_question.filter(|sample| sample.data_rows == oracle.devices().len()).collect();
        if of_question.is_empty() {
            continue;
        }
        let expected = match question {
            Question::Q1 { group } => sums_of_q1(oracle, group),
            _ => oracle.answer(&question),
        };
        for sample in of_question {
            let rows: Vec<serde_json::Value> = sample.rows.iter().cloned().map(serde_json::Value::Array).collect();
            let found = Answer::from_json(expected.names.clone(), &[], &rows);
            match found.and_then(|found| compare(&expected, &found)) {
                Ok(()) => verified.right += 1,
                Err(error) => verified.wrong.push(format!("{}, {}: {error:#}", sample.peer, sample.name)),
            }
        }
    }
    verified
}

#[cfg(test)]
mod tests;
