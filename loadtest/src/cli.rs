//! Command line: parses arguments, calls the library, prints a table or writes a report.

mod args;
mod bare;
mod beside;
mod cold;
mod collected;
mod devops;
mod functions;
mod growth;
mod matrix;
mod meters;
mod parts;
mod peers;
mod query;
mod queue;
mod run;
mod statements;
mod tsbs;
mod udp;
mod wide;
mod write;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use tidelake_loadtest::report::{Page as _, Report};
use tidelake_loadtest::workload::generate::statements::write_file;
use tidelake_loadtest::workload::generate::{Order, text};

/// Load test: writes and queries the papers' thermohygrometer data over the server's public protocols.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write the data set as the papers' text files, 100 devices a file, or as INSERT statements
    Generate {
        #[command(flatten)]
        data: args::Data,
        /// Directory for the files; created if missing
        #[arg(long, required_unless_present = "statements")]
        dir: Option<PathBuf>,
        /// Write one file of INSERT statements, one per line
        #[arg(long)]
        statements: Option<PathBuf>,
        /// Rows per statement
        #[arg(long, default_value_t = 100)]
        rows_per_statement: usize,
    },
    /// Create database and supertable, and write the data set over one protocol
    Write(write::Write),
    /// Send the data set in UDP datagrams, and count the rows that arrived
    Udp(udp::Udp),
    /// Send the data set in messages of a queue, and wait until all rows have arrived
    Queue(queue::Queue),
    /// Run the papers' queries, or the statements of a file, repeatedly and time them
    Query(query::Query),
    /// Run the statements of a file in order, each once
    Statements(statements::Statements),
    /// Measure writing for every combination of rows per request and clients, as in the papers' tables
    Matrix(matrix::Matrix),
    /// Write, compact, query, verify every answer, measure sizes and write the report
    Run(Box<run::Run>),
    /// Measure other engines with the same rows and queries: over Parquet files, embedded, and servers
    Peers(peers::Peers),
    /// Run q2-q4 on new server processes over a store with simulated latency and bandwidth
    Cold(cold::Cold),
    /// Run q1 alternately on the server and on a bare Arrow Flight server that holds the same batches
    Bare(bare::Bare),
    /// Serve the batches of an Arrow stream, read from standard input, over Arrow Flight
    BareFlight,
    /// Measure the size of a root after folding, merging and garbage collection
    Collected(collected::Collected),
    /// Run q1-q4 on a loaded server, idle and with a concurrent writer that adds later rows
    Beside(beside::Beside),
    /// Load data sets of increasing size through Flight SQL, and run q2-q4 on each
    Growth(growth::Growth),
    /// Write smart meter readings to new servers pinned to one and to two processors
    Meters(meters::SmartMeters),
    /// Write rows of 32 524 bytes, and compare the rate with that of the disk or of the link to a store
    Wide(wide::WideRows),
    /// Load a fleet of servers that report nine measurements, and run the queries of TSBS
    Devops(devops::Devops),
    /// Load servers that report ten integers (TSBS, cpu-only), and run TSBS's and further queries, beside DuckDB and ClickHouse
    Tsbs(Box<tsbs::CpuOnly>),
    /// Write, compact and query through serverless functions only, verify every answer, and compute the cost
    Functions(functions::Functions),
    /// Serve a function URL on this machine
    FunctionUrl(functions::FunctionUrl),
    /// Proxy a server with simulated latency and bandwidth
    Distant(cold::Distant),
    /// Regenerate the Markdown page of a report.json
    Report {
        /// A report.json
        file: PathBuf,
    },
}

impl Command {
    /// Runs the command.
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        match self.what {
            What::Generate { data, dir, statements, rows_per_statement } => {
                let set = data.devices();
                let bar = args::bar(set.len());
                if let Some(dir) = dir {
                    let bytes = text::write_files(&set, &dir, &mut |rows| bar.set_position(rows))?;
                    bar.finish_and_clear();
                    println!("{} rows, {bytes} bytes in {}", set.len(), dir.display());
                }
                if let Some(path) = statements {
                    let tell = &mut |rows| bar.set_position(rows);
                    let count = write_file(&set, Order::Device, rows_per_statement, &path, tell)?;
                    bar.finish_and_clear();
                    println!("{} rows, {count} statements in {}", set.len(), path.display());
                }
                Ok(())
            }
            What::Write(write) => write.run().await,
            What::Udp(udp) => udp.run().await,
            What::Queue(queue) => queue.run().await,
            What::Query(query) => query.run().await,
            What::Statements(statements) => statements.run().await,
            What::Matrix(matrix) => matrix.run().await,
            What::Run(run) => run.run().await,
            What::Peers(peers) => peers.run().await,
            What::Cold(cold) => cold.run().await,
            What::Bare(bare) => bare.run(),
            What::BareFlight => bare::serve().await,
            What::Collected(collected) => collected.run().await,
            What::Beside(beside) => beside.run().await,
            What::Growth(growth) => growth.run().await,
            What::Meters(meters) => meters.run().await,
            What::Wide(wide) => wide.run().await,
            What::Devops(devops) => devops.run().await,
            What::Tsbs(tsbs) => tsbs.run().await,
            What::Functions(functions) => functions.run().await,
            What::FunctionUrl(url) => url.run().await,
            What::Distant(distant) => distant.run().await,
            What::Report { file } => {
                let report = Report::read(&file)?;
                print!("{}", report.markdown());
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_arguments_of_its_own() {
        Command::command().debug_assert();
    }
}
