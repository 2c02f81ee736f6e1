//! The `tidelake` binary: server, shell, import and export, compaction, inspection, checking and a demo.

mod check;
mod cli;
mod client;
mod compact;
mod demo;
mod inspect;
mod memory;
mod serve;
mod settings;
mod shell;
mod transfer;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The most threads for work that blocks or computes for long.
const BLOCKING_THREADS: usize = 64;

fn main() -> ExitCode {
    let cli = cli::Cli::parse();
    // Each thread for blocking work keeps some memory of its own; more of them than this only wait for the same disk.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().max_blocking_threads(BLOCKING_THREADS).enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => return fail(&anyhow::Error::new(e).context("cannot start the runtime")),
    };
    let result = runtime.block_on(cli::run(cli));
    // Work that ignores its cancellation must not keep the process alive.
    runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&e),
    }
}

#[expect(clippy::print_stderr, reason = "the last word of a command line program")]
fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("tidelake: {error:#}");
    ExitCode::FAILURE
}
