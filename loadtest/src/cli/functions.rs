//! `functions` and `function-url`: the papers' data through functions alone, and the URL of one function.

use super::args::{Data, bar};
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;
use tidelake_loadtest::drive::functions::{FunctionsOptions, through_functions};
use tidelake_loadtest::drive::platform;
use tidelake_loadtest::report::functions::FunctionsReport;
use tidelake_loadtest::report::{Conditions, Page as _};
use tidelake_loadtest::workload::oracle::Oracle;

/// Where functions find their store: the root, and what is named `AWS_…` in this process's environment.
fn environment(store: &str) -> Vec<(String, String)> {
    let mut all: Vec<_> = std::env::vars().filter(|(name, _)| name.starts_with("AWS_")).collect();
    all.push(("TIDELAKE_STORE".to_owned(), store.to_owned()));
    let level = std::env::var("TIDELAKE_LOG").unwrap_or_else(|_| "warn".to_owned());
    all.push(("TIDELAKE_LOG".to_owned(), level));
    all
}

/// Arguments of `functions`.
#[derive(Debug, Args)]
pub(crate) struct Functions {
    /// Directory of `cargo xtask package`
    #[arg(long, default_value = "target/package")]
    packages: PathBuf,
    /// The root, such as s3://bucket/prefix; AWS_* in the environment say where and as whom
    #[arg(long)]
    store: String,
    #[command(flatten)]
    data: Data,
    /// Rows of one request
    #[arg(long, default_value_t = 2000)]
    rows_per_request: usize,
    /// Clients and environments at once
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// Runs of each question
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Memory of ingest-http, compact and query-http, in MB
    #[arg(long, value_delimiter = ',', num_args = 3, default_values_t = [256, 1_769, 512])]
    memory: Vec<u32>,
    /// Starts of each function that are timed, twice: with its program in the page cache, and dropped from it
    #[arg(long, default_value_t = 20)]
    starts: usize,
    /// Wait before the starts, in seconds, until what was folded may be collected
    #[arg(long, default_value_t = 62)]
    settle: u64,
    /// A directory for report.json and report.md
    #[arg(long)]
    out: Option<PathBuf>,
}

impl Functions {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let set = self.data.devices();
        let options = FunctionsOptions {
            packages: self.packages,
            environment: environment(&self.store),
            clients: self.clients,
            rows_per_request: self.rows_per_request,
            repeat: self.repeat,
            memory_mb: self.memory.try_into().ok().context("--memory takes three numbers")?,
            settle: Duration::from_secs(self.settle),
            starts: self.starts,
        };
        let conditions = Conditions::here();
        let oracle = tokio::task::spawn_blocking(move || Oracle::new(set)).await.context("compute the answers")?;
        let bar = bar(set.len());
        let sample = through_functions(set, &oracle, &options, &|rows| bar.set_position(rows)).await;
        bar.finish_and_clear();
        let report = FunctionsReport::new(conditions, set, sample?);
        match &self.out {
            Some(dir) => report.write(dir)?.iter().for_each(|path| println!("{}", path.display())),
            None => print!("{}", report.markdown()),
        }
        let wrong = &report.sample.verified.wrong;
        if wrong.is_empty() {
            return Ok(());
        }
        bail!("{} of the answers are wrong:\n{}", wrong.len(), wrong.join("\n"))
    }
}

/// Arguments of `function-url`.
#[derive(Debug, Args)]
pub(crate) struct FunctionUrl {
    /// The function's program
    #[arg(long)]
    program: PathBuf,
    /// The root, such as s3://bucket/prefix; AWS_* in the environment say where and as whom
    #[arg(long)]
    store: String,
    /// Environments at most: more requests at once are told to wait
    #[arg(long, default_value_t = 4)]
    environments: usize,
    /// Memory, in MB
    #[arg(long, default_value_t = 512)]
    memory: u32,
    /// How long an invocation may take, in seconds
    #[arg(long, default_value_t = 30)]
    timeout: u64,
}

impl FunctionUrl {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let timeout = Duration::from_secs(self.timeout);
        let mut environment = environment(&self.store);
        environment
            .extend(std::env::vars().filter(|(name, _)| name.starts_with("TIDELAKE_") && name != "TIDELAKE_LOG"));
        environment.push(("TIDELAKE_STORE".to_owned(), self.store));
        let url =
            platform::FunctionUrl::serve(self.program, self.environments, self.memory, timeout, environment).await?;
        println!("{}", url.url);
        tokio::signal::ctrl_c().await.context("wait for the end")?;
        println!("{}", serde_json::to_string(&url.finish())?);
        Ok(())
    }
}
