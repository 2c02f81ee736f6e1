//! `statements`: runs a file of statements in order, each once.

use super::args::Server;
use anyhow::{Context, Result};
use clap::Args;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::time::Instant;
use tidelake_loadtest::drive::query::{Asker, Door};
use tidelake_loadtest::drive::statements::{KindSample, run};
use tidelake_loadtest::workload::answer::Answer;

/// Arguments of `statements`.
#[derive(Debug, Args)]
pub(crate) struct Statements {
    #[command(flatten)]
    server: Server,
    /// File of statements, one per line; # or -- begins a comment
    file: PathBuf,
    /// Query interface
    #[arg(long, value_enum, default_value = "rest")]
    door: Door,
    /// Print the sample as JSON
    #[arg(long)]
    json: bool,
}

impl Statements {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let file = File::open(&self.file).with_context(|| format!("open {}", self.file.display()))?;
        let mut asker = Asker::connect(self.door, &self.server.addresses(), &self.server.options()).await?;
        let begun = Instant::now();
        let json = self.json;
        let mut tell = |line: u64, answer: &Answer, millis: f64, sql: &str| {
            if !json {
                println!("line {line:<6} {millis:>10.3} ms {:>10} rows  {sql}", answer.rows());
            }
        };
        let sample =
            run(&mut asker, BufReader::new(file), &mut tell).await.with_context(|| self.file.display().to_string())?;
        if json {
            println!("{}", serde_json::to_string_pretty(&sample)?);
            return Ok(());
        }
        println!("{} in {:.2} s", self.door.name(), begun.elapsed().as_secs_f64());
        println!("{}", line("writing", &sample.writes));
        println!("{}", line("others", &sample.others));
        Ok(())
    }
}

fn line(kind: &str, sample: &KindSample) -> String {
    format!(
        "{kind}: {} statements, {} rows in {:.2} s = {:.0} rows/s (p50 {:.2} ms, p99 {:.2} ms)",
        sample.statements,
        sample.rows,
        sample.seconds,
        sample.rows as f64 / sample.seconds.max(1e-9),
        sample.latency.p50_ms,
        sample.latency.p99_ms,
    )
}
