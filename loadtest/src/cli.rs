//! The command line: arguments in, the library's calls, a table or a report out.

mod args;
mod cold;
mod devops;
mod matrix;
mod parts;
mod peers;
mod query;
mod run;
mod write;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::path::PathBuf;
use tidelake_loadtest::generate::text;
use tidelake_loadtest::report::Report;

/// Load test: the papers' thermohygrometers, written and asked over the public wire.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Write the data set as the papers' text files, 100 devices a file
    Generate {
        #[command(flatten)]
        data: args::Data,
        /// Directory for the files; made when it is not there
        #[arg(long)]
        dir: PathBuf,
    },
    /// Create database and supertable, and write the data set over one protocol
    Write(write::Write),
    /// Ask the papers' questions, or the statements of a file, and time the answers
    Query(query::Query),
    /// Write with every number of rows per request and of clients, as the papers' tables
    Matrix(matrix::Matrix),
    /// Write, compact, ask, compare every answer, measure sizes and write the report
    Run(Box<run::Run>),
    /// Give the same rows and questions to other engines: over Parquet files, embedded, and servers
    Peers(peers::Peers),
    /// Ask q2-q4 of new server processes over a store that seems far away
    Cold(cold::Cold),
    /// Load a fleet of servers that report nine measurements, and ask for it in the words of TSBS
    Devops(devops::Devops),
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
            What::Generate { data, dir } => {
                let set = data.devices();
                let bar = args::bar(set.len());
                let bytes = text::write_files(&set, &dir, &mut |rows| bar.set_position(rows))?;
                bar.finish_and_clear();
                println!("{} rows, {bytes} bytes in {}", set.len(), dir.display());
                Ok(())
            }
            What::Write(write) => write.run().await,
            What::Query(query) => query.run().await,
            What::Matrix(matrix) => matrix.run().await,
            What::Run(run) => run.run().await,
            What::Peers(peers) => peers.run().await,
            What::Cold(cold) => cold.run().await,
            What::Devops(devops) => devops.run().await,
            What::Distant(distant) => distant.run().await,
            What::Report { file } => {
                let report = Report::read(&file)?;
                print!("{}", tidelake_loadtest::report::markdown(&report));
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
