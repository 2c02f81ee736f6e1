//! `functions` and `function-url`: the papers' data through serverless functions only; a function URL.

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

/// Environment of the functions: the root, and the `AWS_…` variables of this process.
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
    /// Directory with the packages made by `cargo xtask package`
    #[arg(long, default_value = "target/package")]
    packages: PathBuf,
    /// Root, such as s3://bucket/prefix; endpoint and credentials come from AWS_* variables
    #[arg(long)]
    store: String,
    #[command(flatten)]
    data: Data,
    /// Rows per request
    #[arg(long, default_value_t = 2000)]
    rows_per_request: usize,
    /// Concurrent clients and function environments
    #[arg(long, default_value_t = 4)]
    clients: usize,
    /// Runs of each query
    #[arg(long, default_value_t = 3)]
    repeat: usize,
    /// Memory of ingest-http, compact and query-http, in MB
    #[arg(long, value_delimiter = ',', num_args = 3, default_values_t = [256, 1_769, 512])]
    memory: Vec<u32>,
    /// Timed starts of each function, once with its program in the page cache and once with it dropped
    #[arg(long, default_value_t = 20)]
    starts: usize,
    /// Wait before the starts, in seconds, until folded segments can be collected
    #[arg(long, default_value_t = 62)]
    settle: u64,
    /// Directory for report.json and report.md
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
            memory_mb: self.memory.try_into().ok().context("invalid --memory: expected three numbers")?,
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
    /// Root, such as s3://bucket/prefix; endpoint and credentials come from AWS_* variables
    #[arg(long)]
    store: String,
    /// Maximum environments; further concurrent requests get status 429
    #[arg(long, default_value_t = 4)]
    environments: usize,
    /// Memory, in MB
    #[arg(long, default_value_t = 512)]
    memory: u32,
    /// Timeout of an invocation, in seconds
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
        tokio::signal::ctrl_c().await.context("wait for Ctrl-C")?;
        println!("{}", serde_json::to_string(&url.finish())?);
        Ok(())
    }
}
