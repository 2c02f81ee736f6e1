//! The command line.

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};

use tidelake_node::serve;
use tidelake_protocol::settings as declared;

use crate::{
    access, allocator, arguments::StoreArgs, backup, check, compact, console, demo, give_up, health, inspect, shell,
    status, transfer,
};

/// A time-series database whose bucket is the database.
#[derive(Debug, Parser)]
#[command(name = "tidelake", version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve HTTP and Flight SQL over a directory or a bucket
    Serve(StoreArgs),
    /// Start a server with the generated W1 data set, run the benchmark queries, then keep serving
    Demo(demo::DemoArgs),
    /// Open an interactive SQL shell over Flight SQL
    Sql(shell::ShellArgs),
    /// Import a CSV, NDJSON, line protocol or Parquet file into a server
    Import(transfer::ImportArgs),
    /// Export a table or query result to a CSV, NDJSON, line protocol or Parquet file
    Export(transfer::ExportCommand),
    /// Fold the log into data files and merge them now
    Compact(StoreArgs),
    /// Copy a consistent snapshot of all acknowledged rows to another location and verify it; servers may keep running
    Backup(backup::BackupArgs),
    /// Restore a backup into an empty location and verify it
    Restore(backup::RestoreArgs),
    /// Change users, rights and tokens of a root without a server
    Access(access::AccessArgs),
    /// Check that a server is healthy; exit code 1 if it is not
    Health(health::HealthArgs),
    /// Show the load, lag, memory and alarms of a server on one screen; exit code 1 if an alarm is critical
    Status(status::StatusArgs),
    /// Show databases, tables, files, tag manifests and sizes of a root
    Inspect(inspect::InspectArgs),
    /// Verify every checksum, invariant and aggregate of a root; exit code 1 if a fault is found
    Check(check::CheckArgs),
    /// Give up log segments that are missing or unreadable: their rows are lost, queries work again
    GiveUp(give_up::GiveUpArgs),
}

/// Parses the command line. The help hides values of environment variables: they may be keys, tokens or passwords.
pub(crate) fn parse() -> Cli {
    // clap prints the error and exits with the status of its kind.
    Cli::from_arg_matches(&command().get_matches()).unwrap_or_else(|error| error.exit())
}

fn command() -> clap::Command {
    let hidden = |command: clap::Command| command.mut_args(|argument| argument.hide_env_values(true));
    hidden(Cli::command()).mut_subcommands(hidden)
}

/// Runs the chosen command to its end.
pub(crate) async fn run(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        Command::Serve(args) => {
            let settings = args.read()?;
            allocator::fit_to(settings.get(&declared::MEMORY));
            serve::run(settings, console::assets).await
        }
        Command::Demo(args) => demo::run(args).await,
        Command::Sql(args) => shell::run(args).await,
        Command::Import(args) => transfer::import(args).await,
        Command::Export(args) => transfer::export(args).await,
        Command::Compact(args) => {
            let settings = args.settings()?;
            allocator::fit_to(settings.get(&declared::MEMORY));
            compact::run(settings).await
        }
        Command::Backup(args) => backup::backup(args).await,
        Command::Restore(args) => backup::restore(args).await,
        Command::Access(args) => access::run(args).await,
        Command::Health(args) => health::run(args).await,
        Command::Status(args) => status::run(args).await,
        Command::Inspect(args) => inspect::run(args).await,
        Command::Check(args) => check::run(args).await,
        Command::GiveUp(args) => give_up::run(args).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_help_shows_the_value_of_a_variable() {
        for subcommand in command().get_subcommands() {
            for argument in subcommand.get_arguments().filter(|argument| argument.get_env().is_some()) {
                assert!(argument.is_hide_env_values_set(), "{} {}", subcommand.get_name(), argument.get_id());
            }
        }
    }

    #[test]
    fn settings_of_a_file_that_nobody_named_can_be_turned_off() {
        let parsed = Cli::from_arg_matches(&command().get_matches_from(["tidelake", "serve", "--config", "none"]));
        let Ok(Cli { command: Command::Serve(args) }) = parsed else { panic!("it serves") };
        assert_eq!(args.read().unwrap().found_file, None);
    }
}
