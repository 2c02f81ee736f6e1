//! The command line: arguments in, the library's calls, a table or a report out.

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
mod udp;
mod wide;
mod write;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use tidelake_loadtest::report::{Page as _, Report};
use tidelake_loadtest::workload::generate::statements::write_file;
use tidelake_loadtest::workload::generate::{Order, text};

/// Load test: the papers' thermohygrometers, written and asked over the public wire.
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
        /// Directory for the files; made when it is not there
        #[arg(long, required_unless_present = "statements")]
        dir: Option<PathBuf>,
        /// One file of INSERT statements, one a line
        #[arg(long)]
        statements: Option<PathBuf>,
        /// Rows of a statement
        #[arg(long, default_value_t = 100)]
        rows_per_statement: usize,
    },
    /// Create database and supertable, and write the data set over one protocol
    Write(write::Write),
    /// Write the data set in UDP datagrams, and count what arrived
    Udp(udp::Udp),
    /// Write the data set in messages of a queue, and wait until it has arrived
    Queue(queue::Queue),
    /// Ask the papers' questions, or the statements of a file, and time the answers
    Query(query::Query),
    /// Run the statements of a file one by one, each once
    Statements(statements::Statements),
    /// Write with every number of rows per request and of clients, as the papers' tables
    Matrix(matrix::Matrix),
    /// Write, compact, ask, compare every answer, measure sizes and write the report
    Run(Box<run::Run>),
    /// Give the same rows and questions to other engines: over Parquet files, embedded, and servers
    Peers(peers::Peers),
    /// Ask q2-q4 of new server processes over a store that seems far away
    Cold(cold::Cold),
    /// Ask q1 of the server and, in turns, of a bare Arrow Flight server that holds the same batches
    Bare(bare::Bare),
    /// Serve the batches of an Arrow stream on standard input over Arrow Flight
    BareFlight,
    /// Measure what a root takes once everything is folded, merged and collected
    Collected(collected::Collected),
    /// Ask q1-q4 of a loaded server, quiet and beside a writer that adds later rows
    Beside(beside::Beside),
    /// Load data sets that grow tenfold through Flight SQL, and ask q2-q4 of each
    Growth(growth::Growth),
    /// Write smart meters to new servers with one processor and with two
    Meters(meters::SmartMeters),
    /// Write rows of 32 524 bytes, beside what the disk or the line to a store takes
    Wide(wide::WideRows),
    /// Load a fleet of servers that report nine measurements, and ask for it in the words of TSBS
    Devops(devops::Devops),
    /// Write, compact and ask through functions alone, compare every answer, and reckon what it costs
    Functions(functions::Functions),
    /// Serve the URL of a function on this machine
    FunctionUrl(functions::FunctionUrl),
    /// Make a server of this machine seem far away
    Distant(cold::Distant),
    /// Make the Markdown page of a report.json again
    Report {
        /// A report.json
        file: PathBuf,
    },
}

impl Command {
    /// Does what the arguments say.
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
