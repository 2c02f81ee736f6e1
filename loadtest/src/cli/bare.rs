//! `bare` and `bare-flight`: compares q1 with a bare Flight server; runs that server.

use super::args::Server;
use anyhow::{Context, Result};
use clap::Args;
use std::io::{Read, Write};
use tidelake_loadtest::drive::bare::{self, BareSample};
use tidelake_loadtest::measure::median;
use tidelake_loadtest::workload::Question;
use tokio::net::TcpListener;

/// Minimum runs per server: a ratio of two medians needs more runs than a single median.
const MIN_RUNS: usize = 15;

/// Arguments of `bare`.
#[derive(Debug, Args)]
pub(crate) struct Bare {
    #[command(flatten)]
    server: Server,
    /// Minimum runs per server
    #[arg(long, default_value_t = MIN_RUNS)]
    repeat: usize,
    /// Group of q1
    #[arg(long, default_value_t = 0)]
    group: u32,
}

impl Bare {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) fn run(self) -> Result<()> {
        println!("{}", line(&ask(&self.server, self.group, self.repeat)?));
        Ok(())
    }
}

/// Runs q1 of one group on the server and on a bare one.
pub(crate) fn ask(server: &Server, group: u32, repeat: usize) -> Result<BareSample> {
    beside(server, &Question::Q1 { group }.sql(), false, repeat.max(MIN_RUNS))
}

/// Runs a statement on the server and on a bare one, from a single-threaded client as for other statements. Must be called on a
/// multi-threaded runtime.
pub(crate) fn beside(server: &Server, sql: &str, tag_dictionaries: bool, repeat: usize) -> Result<BareSample> {
    tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start a client")?;
        let flight = server.addresses().flight.context("no Flight SQL endpoint given")?;
        let timeout = server.options().request_timeout;
        runtime.block_on(bare::ask_beside(&flight, sql, tag_dictionaries, repeat, timeout))
    })
}

/// Formats a sample as one line.
pub(crate) fn line(sample: &BareSample) -> String {
    format!(
        "{}{} {} rows in {} batches: {:.2} ms, a bare Flight server {:.2} ms: {:.3} times ({} runs each)",
        sample.sql,
        if sample.tag_dictionaries { ", tags as dictionaries:" } else { "" },
        sample.rows,
        sample.batches,
        median(&sample.millis),
        median(&sample.bare_millis),
        sample.ratio(),
        sample.millis.len(),
    )
}

/// `bare-flight`: serves the batches of an Arrow stream read from standard input, and prints the server's address.
#[expect(clippy::print_stdout, reason = "a command prints its result")]
pub(crate) async fn serve() -> Result<()> {
    let mut ipc = Vec::new();
    std::io::stdin().read_to_end(&mut ipc).context("read the batches from standard input")?;
    let listener = TcpListener::bind("127.0.0.1:0").await.context("listen")?;
    println!("grpc://{}", listener.local_addr()?);
    std::io::stdout().flush().context("print the address")?;
    bare::serve(listener, &ipc).await
}
