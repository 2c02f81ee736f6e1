//! `cold` and `distant`: queries on new processes over a simulated distant store; the proxy that simulates it.

use super::args::Data;
use super::beside::Writer;
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tidelake_loadtest::distant::{self, Distance, Passed};
use tidelake_loadtest::drive::HttpOptions;
use tidelake_loadtest::drive::beside::writer::WriterOptions;
use tidelake_loadtest::drive::cold::{ColdOptions, ColdSample, ask_cold, ask_cold_beside};
use tidelake_loadtest::report::{self, Page as _, Report};
use tidelake_loadtest::workload::oracle::Oracle;
use tidelake_loadtest::workload::{Function, Question};
use tokio::net::TcpListener;

/// Simulated latency and bandwidth of the store.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Away {
    /// Median time to the first byte of a reply, in milliseconds
    #[arg(long, default_value_t = 25.0)]
    first_byte: f64,
    /// 99th percentile of the time to the first byte of a reply, in milliseconds
    #[arg(long, default_value_t = 90.0)]
    first_byte_p99: f64,
    /// Megabytes per second of one connection
    #[arg(long, default_value_t = 80.0)]
    megabytes: f64,
    /// Megabytes per second of all uploads together; unlimited by default
    #[arg(long)]
    upload_megabytes: Option<f64>,
}

impl Away {
    fn distance(&self) -> Result<Distance> {
        ensure!(
            self.first_byte > 0.0 && self.first_byte_p99 >= self.first_byte && self.megabytes > 0.0,
            "expected 0 < --first-byte <= --first-byte-p99 and 0 < --megabytes"
        );
        let ms = |ms: f64| Duration::try_from_secs_f64(ms / 1e3).context("expected a time in milliseconds");
        let bytes_per_second = (self.megabytes * 1e6) as u64;
        let upload_bytes_per_second = self.upload_megabytes.map(|megabytes| (megabytes.max(1e-3) * 1e6) as u64);
        Ok(Distance {
            median: ms(self.first_byte)?,
            p99: ms(self.first_byte_p99)?,
            bytes_per_second,
            upload_bytes_per_second,
        })
    }
}

/// Arguments of `distant`.
#[derive(Debug, Args)]
pub(crate) struct Distant {
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: String,
    /// Server to forward to, host:port
    #[arg(long)]
    to: String,
    #[command(flatten)]
    away: Away,
}

impl Distant {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let listener = TcpListener::bind(&self.listen).await.with_context(|| format!("listen on {}", self.listen))?;
        println!("http://{}", listener.local_addr()?);
        let passed = Arc::new(Passed::default());
        tokio::select! {
            done = distant::serve(listener, &self.to, self.away.distance()?, 1, passed.clone()) => done?,
            _ = tokio::signal::ctrl_c() => {}
        }
        println!("{} requests, {} bytes", passed.requests(), passed.bytes());
        Ok(())
    }
}

/// Arguments of `cold`.
#[derive(Debug, Args)]
pub(crate) struct Cold {
    /// The server's program
    #[arg(long, default_value = "tidelake")]
    program: PathBuf,
    /// Root with the data set, s3://bucket/prefix; the AWS_* variables are passed to the server
    #[arg(long)]
    store: String,
    /// S3 server that holds the root, host:port
    #[arg(long)]
    s3: String,
    #[command(flatten)]
    away: Away,
    #[command(flatten)]
    data: Data,
    /// New processes per query
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Percentages of q2-q4
    #[arg(long, default_value = "100")]
    percent: String,
    /// Query again while another process ingests rows into the root
    #[arg(long, conflicts_with = "unverified")]
    beside: bool,
    #[command(flatten)]
    writer: Writer,
    /// Skip the verification of answers
    #[arg(long)]
    unverified: bool,
    /// Existing report.json to add the samples to; its Markdown page is regenerated
    #[arg(long)]
    into: Option<PathBuf>,
}

impl Cold {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let (distance, set) = (self.away.distance()?, self.data.devices());
        let percents: Vec<u32> = super::args::list(&self.percent)?;
        let questions: Vec<Question> = percents
            .into_iter()
            .flat_map(|percent| {
                let average = Question::Q2 { function: Function::Avg, percent };
                [average, Question::Q3 { percent }, Question::Q4 { percent }]
            })
            .collect();
        let oracle = match self.unverified {
            true => None,
            false => Some(tokio::task::spawn_blocking(move || Oracle::new(set)).await.context("compute the answers")?),
        };
        let options = ColdOptions {
            program: self.program,
            store: self.store,
            environment: Vec::new(),
            s3: self.s3,
            distance,
            repeat: self.repeat,
        };
        let samples = ask_cold(&options, &questions, oracle.as_ref()).await?;
        samples.iter().for_each(|sample| println!("{}", line(sample)));
        let beside = match oracle.as_ref().filter(|_| self.beside) {
            None => None,
            Some(oracle) => {
                let lead = self.writer.lead()?;
                // Each request waits for the distant store, so more clients are needed than with a local directory.
                let writer = WriterOptions { clients: 100, ..self.writer.options("", HttpOptions::default())? };
                let asked_rows_per_second = writer.rows_per_second;
                let (writer, samples) = ask_cold_beside(&options, writer, lead, &questions, oracle).await?;
                let rate = writer.rows_per_second();
                println!("beside a writer: {} rows in {:.1} s = {rate:.0} rows/s", writer.rows, writer.seconds);
                samples.iter().for_each(|sample| println!("{}", line(sample)));
                Some(report::ColdBeside { asked_rows_per_second, writer, samples })
            }
        };
        if let Some(path) = &self.into {
            let mut report = Report::read(path)?;
            report.cold = Some(report::Cold {
                first_byte_ms: self.away.first_byte,
                first_byte_p99_ms: self.away.first_byte_p99,
                bytes_per_second: distance.bytes_per_second,
                samples,
                beside,
            });
            report.write(path.parent().unwrap_or(Path::new("")))?;
        }
        Ok(())
    }
}

fn line(sample: &ColdSample) -> String {
    let most = |counts: &[u64]| counts.iter().max().copied().unwrap_or_default();
    let all: Vec<String> = sample.millis.iter().map(|ms| format!("{ms:.0}")).collect();
    format!(
        "{:12} {:>7.1} ms (from the start of the process {:.1}); at most {} requests, {} with those of the start; {} bytes; runs {}",
        sample.name,
        sample.median_ms(),
        tidelake_loadtest::measure::median(&sample.from_start_millis),
        most(&sample.requests),
        most(&sample.from_start_requests),
        most(&sample.bytes),
        all.join(" "),
    )
}
