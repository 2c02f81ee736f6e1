//! `tidelake-loadtest`: the load test's commands. See [`tidelake_loadtest`] for the library.

mod cli;

use clap::Parser;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    cli::Command::parse().run().await
}
