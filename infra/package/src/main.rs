//! `cargo xtask package`: builds, strips and checks the functions' zips and the build context of the server's image.
//! `cargo xtask dist`: makes the files of a release.
//! `cargo xtask book`: builds the site of the documents.
//! `cargo xtask api`: compares the public items of the libraries with the lists in `tests/api`.

mod api;
mod book;
mod dist;
mod package;

use std::{
    path::{Path, PathBuf},
    process,
};

use anyhow::Context as _;
use clap::{Args, Parser, Subcommand};

#[derive(Debug, Parser)]
struct Command {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Build the functions' zips and the context of the server's image
    Package(Options),
    /// Build the server; make a tarball, a Debian package, a bill of materials (CycloneDX) and SHA256SUMS
    Dist {
        #[command(flatten)]
        options: Options,
        /// Link the program with Zig for this version of glibc, such as 2.28 [default: that of this machine]
        #[arg(long, value_name = "VERSION", value_parser = dist::glibc, conflicts_with_all = ["no_build", "dev"])]
        glibc: Option<package::Glibc>,
    },
    /// Build the site of the documents and check its links
    Book {
        /// Output directory, which is replaced [default: target/book in the workspace]
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Compare the public items of the libraries with the lists in tests/api
    Api {
        /// Replace the lists
        #[arg(long)]
        write: bool,
        /// Directory of the libraries' JSON files by rustdoc [default: have Cargo make them]
        #[arg(long, value_name = "DIR")]
        documents: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct Options {
    /// Output directory [default: target/package or target/dist in the workspace]
    #[arg(long)]
    out: Option<PathBuf>,
    /// Target triple such as aarch64-unknown-linux-gnu [default: this machine's]
    #[arg(long)]
    target: Option<String>,
    /// Package existing builds
    #[arg(long)]
    no_build: bool,
    /// Package dev profile programs, for tests: larger and slower, without size limits
    #[arg(long)]
    dev: bool,
}

/// The directory of the workspace.
fn workspace() -> anyhow::Result<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    Ok(here.ancestors().nth(2).context("the workspace is above this package")?.to_owned())
}

/// Cargo, to be run in the workspace.
fn cargo(workspace: &Path) -> process::Command {
    let mut cargo = process::Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace);
    cargo
}

/// The directory of builds.
fn target_directory(workspace: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}

fn main() -> anyhow::Result<()> {
    match Command::parse().task {
        Task::Package(Options { out, target, no_build, dev }) => {
            let build = package::Build::new(target, dev)?;
            if !no_build {
                build.run()?;
            }
            build.package(out)
        }
        Task::Dist { options: Options { out, target, no_build, dev }, glibc } => {
            let build = package::Build::new(target, dev)?;
            if !no_build {
                dist::build(&build, glibc)?;
            }
            dist::dist(&build, out)
        }
        Task::Book { out } => book::book(&workspace()?, out),
        Task::Api { write, documents } => api::api(write, documents),
    }
}
