//! The `tidelake` binary: server, shell, import and export, compaction, inspection, checking, health and a demo.

mod access;
mod allocator;
mod arguments;
mod backup;
mod check;
mod cli;
mod client;
mod compact;
mod console;
mod demo;
mod give_up;
mod health;
mod inspect;
mod shell;
mod status;
mod terminal;
mod transfer;

use std::{process::ExitCode, time::Duration};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the soft limit of open files to the hard limit; the soft limit of a shell is usually low.
fn open_many_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // On failure the process runs with the old limit.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

fn main() -> ExitCode {
    open_many_files();
    let cli = cli::parse();
    let runtime = match tidelake_node::runtime().build() {
        Ok(runtime) => runtime,
        Err(e) => return fail(&anyhow::Error::new(e).context("cannot start the runtime")),
    };
    let result = runtime.block_on(cli::run(cli));
    // Tasks that ignore cancellation must not keep the process alive.
    runtime.shutdown_timeout(Duration::from_secs(5));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => fail(&e),
    }
}

#[expect(clippy::print_stderr, reason = "the last word of a command line program")]
fn fail(error: &anyhow::Error) -> ExitCode {
    let text = format!("{error:#}");
    eprintln!("tidelake: {}", terminal::escaped(&text));
    ExitCode::FAILURE
}
