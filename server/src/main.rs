//! The `tidelake` binary: server, shell, import and export, compaction, inspection, checking, health and a demo.

mod access;
mod allocator;
mod arguments;
mod backup;
mod check;
mod cli;
mod client;
mod compact;
mod demo;
mod give_up;
mod health;
mod inspect;
mod memory;
mod serve;
mod settings;
mod shell;
mod terminal;
mod transfer;

use std::{process::ExitCode, time::Duration};

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// After so many tasks a thread looks whether the network has something for it: between them a query may compute for some
/// milliseconds each.
const TASKS_A_LOOK: u32 = 3;
/// How long a thread for blocking work waits for more of it: what it keeps of freed memory goes with it.
const IDLE_THREAD: Duration = Duration::from_secs(1);

/// The most threads for work that blocks or computes for long: four a processor, eight at least. Each keeps some of its
/// freed memory, and more of them only wait for the same processors and the same disk.
fn blocking_threads() -> usize {
    std::thread::available_parallelism().map_or(8, |n| (4 * n.get()).clamp(8, 64))
}

/// Lets this process have as many files and connections open as it may: shells begin with few.
fn open_many_files() {
    if let Ok((_, most)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // It goes on with fewer where that is not granted.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, most, most);
    }
}

fn main() -> ExitCode {
    open_many_files();
    let cli = cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .max_blocking_threads(blocking_threads())
        .thread_keep_alive(IDLE_THREAD)
        .event_interval(TASKS_A_LOOK)
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => return fail(&anyhow::Error::new(e).context("cannot start the runtime")),
    };
    let result = runtime.block_on(cli::run(cli));
    // Work that ignores its cancellation must not keep the process alive.
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
