//! `write`: one run of writing.

use super::args::{Data, Server, bar_for, durability};
use anyhow::{Context, Result};
use clap::Args;
use std::path::PathBuf;
use tidelake_loadtest::drive::{Durability, Existing, Protocol, WriteOptions, WriteSample, create_database, write};
use tidelake_loadtest::workload::generate::{Order, Source};

/// Settings of writing.
#[derive(Debug, Clone, Args)]
pub(crate) struct Writing {
    /// Protocol
    #[arg(long, value_enum, default_value = "line")]
    pub(crate) protocol: Protocol,
    /// Rows per request
    #[arg(long, default_value_t = 2000)]
    pub(crate) rows_per_request: usize,
    /// Concurrent clients
    #[arg(long, default_value_t = 4)]
    pub(crate) clients: usize,
    /// Row order within one client
    #[arg(long, value_enum, default_value = "device")]
    pub(crate) order: Order,
    /// Ask the server to acknowledge from memory, before rows are in the store
    #[arg(long)]
    pub(crate) no_sync: bool,
}

impl Writing {
    /// Returns the driver's settings.
    pub(crate) fn options(&self, server: &Server) -> WriteOptions {
        let mut options = WriteOptions::new(&server.url);
        options.flight = server.addresses().flight;
        options.protocol = self.protocol;
        options.rows_per_request = self.rows_per_request;
        options.clients = self.clients;
        options.durability = durability(self.no_sync);
        options.http = server.options();
        options
    }
}

/// Arguments of `write`.
#[derive(Debug, Args)]
pub(crate) struct Write {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    data: Data,
    #[command(flatten)]
    writing: Writing,
    /// Write the text files of this directory instead of the generated data
    #[arg(long)]
    files: Option<PathBuf>,
    /// Drop an existing database first
    #[arg(long)]
    drop: bool,
    /// Print the sample as JSON
    #[arg(long)]
    json: bool,
}

impl Write {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let source = match &self.files {
            Some(dir) => Source::directory(dir)?,
            None => Source::Generated(self.data.devices(), self.writing.order),
        };
        let existing = if self.drop { Existing::Drop } else { Existing::Keep };
        let options = self.writing.options(&self.server);
        create_database(&self.server.url, &options.http, existing).await?;
        let sample = load(&source, &options).await?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&sample)?);
        } else {
            println!("{}", line(&sample));
        }
        Ok(())
    }
}

/// Writes the rows and shows a progress bar.
pub(crate) async fn load(source: &Source, options: &WriteOptions) -> Result<WriteSample> {
    let bar = bar_for(source.len());
    let tell = |rows| bar.set_position(rows);
    let writing = write(source, options, &tell);
    let result = match options.protocol {
        // Streams are encoded and sent on separate threads.
        Protocol::Flight => writing.await,
        _ => on_this_thread(writing),
    };
    bar.finish_and_clear();
    result
}

/// Runs the work on a single-threaded runtime: with several threads, each reply is handed over between threads, which costs as
/// much as sending and reading it.
fn on_this_thread<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::task::block_in_place(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("make a runtime")?;
        runtime.block_on(work)
    })
}

/// Formats a sample as one line.
pub(crate) fn line(sample: &WriteSample) -> String {
    format!(
        "{}{}: {} rows in {:.2} s = {:.0} rows/s ({} rows/request, {} clients; p50 {:.2} ms, p99 {:.2} ms; {} requests repeated)",
        sample.protocol.name(),
        if sample.durability == Durability::Buffered { " (no_sync)" } else { "" },
        sample.rows,
        sample.seconds,
        sample.rows_per_second,
        sample.rows_per_request,
        sample.clients,
        sample.latency.p50_ms,
        sample.latency.p99_ms,
        sample.repeated_busy + sample.repeated_broken,
    )
}
