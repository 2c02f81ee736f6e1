//! `run`: the whole load test, from an empty database to the report.

use super::args::{Data, Server, list};
use super::matrix::{Cells, Place};
use super::{bare, beside, parts, peers, query, write};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidelake_loadtest::drive::compact::compact;
use tidelake_loadtest::drive::files::link_live;
use tidelake_loadtest::drive::{Existing, HttpOptions, create_database};
use tidelake_loadtest::measure;
use tidelake_loadtest::report::{Page as _, Report};
use tidelake_loadtest::workload::generate::Source;
use tidelake_loadtest::workload::oracle::Oracle;
use tidelake_loadtest::workload::{DATABASE, SUPERTABLE};

/// Arguments of `run`.
#[derive(Debug, Args)]
pub(crate) struct Run {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    writing: write::Writing,
    #[command(flatten)]
    questions: query::Questions,
    /// Measure the write matrix first
    #[arg(long)]
    matrix: bool,
    #[command(flatten)]
    cells: Cells,
    /// Wait before compaction, in seconds: a fold skips younger segments
    #[arg(long, default_value_t = 6.0)]
    settle: f64,
    /// Root directory of the server, to measure sizes and to give its data files to other engines
    #[arg(long)]
    root: Option<PathBuf>,
    /// Process id of the server, to measure its memory
    #[arg(long)]
    server_pid: Option<u32>,
    /// Also run q2-q4 over parts of the time span and by scan only, and compare q1 with a bare Flight server
    #[arg(long)]
    parts: bool,
    /// Finally also run q1-q4 with a concurrent writer
    #[arg(long)]
    beside: bool,
    #[command(flatten)]
    writer: beside::Writer,
    /// Also measure other engines with the same rows and queries
    #[arg(long)]
    peers: bool,
    #[command(flatten)]
    engines: peers::Engines,
    /// Directory for the report
    #[arg(long)]
    out: PathBuf,
}

impl Run {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let set = self.data.devices();
        let mut report = Report::new(set, self.writing.order);
        let http = self.server.options();
        let url = &self.server.url;
        if self.matrix {
            let tell = &mut |sample: &_| println!("{}", write::line(sample));
            report.matrix = self.cells.measure(Place::Given(&self.server), set.seed, tell).await?;
            report.bulk = self.cells.bulk(Place::Given(&self.server), set.seed, tell).await?;
        }
        create_database(url, &http, Existing::Drop).await.context("create the database")?;
        let loaded =
            write::load(&Source::Generated(set, self.writing.order), &self.writing.options(&self.server)).await?;
        println!("{}", write::line(&loaded));
        report.load = Some(loaded);

        let pause = Duration::try_from_secs_f64(self.settle).context("--settle: expected seconds")?;
        tokio::time::sleep(pause).await;
        // Compaction of a large data set takes longer than any other request.
        let patient = HttpOptions { request_timeout: Duration::from_secs(3600), ..http.clone() };
        let compacted = compact(url, &patient).await?;
        println!("compacted in {:.2} s: {}", compacted.seconds, compacted.reply);
        report.compact = Some(compacted);

        let oracle = tokio::task::spawn_blocking(move || Oracle::new(set)).await.context("compute the answers")?;
        let (samples, verified) = query::ask(&self.server, &self.questions, Some(&oracle))?;
        println!("{} answers right, {} wrong", verified.right, verified.wrong.len());
        (report.queries, report.verified) = (samples, verified);

        if self.parts {
            let (samples, verified) = parts::ask(&self.server, set, self.questions.repeat).await?;
            println!("{} answers about parts right, {} wrong", verified.right, verified.wrong.len());
            report.parts = samples;
            report.verified.right += verified.right;
            report.verified.wrong.extend(verified.wrong);
            let sample = bare::ask(&self.server, 0, self.questions.repeat)?;
            println!("{}", bare::line(&sample));
            report.bare = Some(sample);
        }

        let live = empty_directory_in(&self.out)?;
        if let Some(root) = &self.root {
            let table = format!("{DATABASE}.{SUPERTABLE}");
            link_live(url, &http, &table, root, &live).await.context("find the live files")?;
            report.live_size = Some(measure::size(&live)?);
            report.size = Some(measure::size(root)?);
        }
        report.server_memory = self.server_pid.map(measure::memory).transpose()?;
        if self.peers {
            let percents = list(&self.questions.percent)?;
            let root = self.root.as_ref().map(|_| live.clone());
            self.engines.fill(&mut report, Some(&oracle), root, percents, self.questions.repeat).await?;
        }
        if self.beside {
            let sample = beside::ask(&self.server, &self.writer, &oracle, self.questions.repeat).await?;
            beside::lines(&sample).iter().for_each(|line| println!("{line}"));
            report.beside = Some(sample);
        }
        std::fs::remove_dir_all(&live).with_context(|| live.display().to_string())?;
        let [json, page] = report.write(&self.out)?;
        println!("{}\n{}", json.display(), page.display());
        if report.verified.wrong.is_empty() {
            return Ok(());
        }
        bail!("{} answers are wrong; see {}", report.verified.wrong.len(), page.display())
    }
}

/// Creates an empty directory for links in the report's directory.
fn empty_directory_in(out: &Path) -> Result<PathBuf> {
    let live = out.join("live-files");
    if live.exists() {
        std::fs::remove_dir_all(&live).with_context(|| live.display().to_string())?;
    }
    std::fs::create_dir_all(&live).with_context(|| live.display().to_string())?;
    Ok(live)
}
