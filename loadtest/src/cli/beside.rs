//! `beside` and `run --beside`: queries with a concurrent writer.

use super::args::{Data, Server};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidelake_loadtest::drive::HttpOptions;
use tidelake_loadtest::drive::beside::writer::WriterOptions;
use tidelake_loadtest::drive::beside::{BesideOptions, BesideSample, ask_beside};
use tidelake_loadtest::measure::median;
use tidelake_loadtest::report::{Page as _, Report};
use tidelake_loadtest::workload::oracle::Oracle;

/// Settings of the writer.
#[derive(Debug, Clone, Args)]
pub(crate) struct Writer {
    /// Rows per second of the concurrent writer
    #[arg(long = "beside-rate", default_value_t = 100_000.0)]
    rate: f64,
    /// How long the concurrent writer runs before the first query, in seconds
    #[arg(long = "beside-lead", default_value_t = 10.0)]
    lead: f64,
}

/// Arguments of `beside`.
#[derive(Debug, Args)]
pub(crate) struct Beside {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    writer: Writer,
    /// Minimum runs of each query
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Existing report.json to add the samples to; its Markdown page is regenerated
    #[arg(long)]
    into: Option<PathBuf>,
}

impl Beside {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let set = self.data.devices();
        let oracle = tokio::task::spawn_blocking(move || Oracle::new(set)).await.context("compute the answers")?;
        let sample = ask(&self.server, &self.writer, &oracle, self.repeat).await?;
        lines(&sample).iter().for_each(|line| println!("{line}"));
        if let Some(path) = &self.into {
            let mut report = Report::read(path)?;
            report.beside = Some(sample);
            report.write(path.parent().unwrap_or(Path::new("")))?;
        }
        Ok(())
    }
}

/// Runs the queries on the idle server and with the writer.
pub(crate) async fn ask(server: &Server, writer: &Writer, oracle: &Oracle, repeat: usize) -> Result<BesideSample> {
    let options = BesideOptions {
        addresses: server.addresses(),
        http: server.options(),
        writer: writer.options(&server.url, server.options())?,
        lead: writer.lead()?,
        repeat: repeat.max(5),
    };
    ask_beside(&options, oracle).await
}

impl Writer {
    /// Writer with two connections and 1000 rows per request.
    pub(crate) fn options(&self, url: &str, http: HttpOptions) -> Result<WriterOptions> {
        ensure!(self.rate > 0.0, "expected --beside-rate above 0, found {}", self.rate);
        let (url, rows_per_second) = (url.to_owned(), self.rate);
        Ok(WriterOptions { url, http, rows_per_second, clients: 2, rows_per_request: 1_000 })
    }

    /// How long the writer runs before the first query.
    pub(crate) fn lead(&self) -> Result<Duration> {
        Duration::try_from_secs_f64(self.lead).context("invalid --beside-lead: expected a number of seconds")
    }
}

/// Formats a sample as one line per query.
pub(crate) fn lines(sample: &BesideSample) -> Vec<String> {
    let (rows, seconds) = (sample.writer.rows, sample.writer.seconds);
    let writer = format!("writer: {rows} rows in {seconds:.1} s = {:.0} rows/s", sample.writer.rows_per_second());
    let questions = sample.questions.iter().map(|question| {
        let part = question.part.name();
        let (quiet, beside) = (median(&question.quiet_millis), median(&question.millis));
        let ratio = question.ratio();
        format!("{:12} {part}: {quiet:.2} ms quiet, {beside:.2} ms beside the writer: {ratio:.2} times", question.name)
    });
    std::iter::once(writer).chain(questions).collect()
}
