//! `cargo xtask package`: the zips of the functions and the context of the server's image, built, made small and checked.

mod package;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
struct Command {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build the functions and the server, and put them into zips and the context of an image
    Package {
        /// Where they go: target/package in the workspace by default
        #[arg(long)]
        out: Option<PathBuf>,
        /// A target triple such as aarch64-unknown-linux-gnu; this machine's by default
        #[arg(long)]
        target: Option<String>,
        /// Take what was built before, and build nothing
        #[arg(long)]
        no_build: bool,
        /// Package the programs of the profile dev, which tests run: larger and slower, and without limits of size
        #[arg(long)]
        dev: bool,
    },
}

fn main() -> anyhow::Result<()> {
    match Command::parse().task {
        Task::Package { out, target, no_build, dev } => {
            let build = package::Build::new(target, dev)?;
            if !no_build {
                build.run()?;
            }
            build.package(out)
        }
    }
}
