//! A Tidelake node process: settings, root, write path, query path and listeners. Used by `tidelake serve`, `tidelake
//! demo` and the other commands.
//!
//! The cloud functions are separate processes: each has a single path behind the platform's listener. They share the
//! settings declared in [`tidelake_protocol::settings`].

pub mod local;
mod memory;
pub mod serve;
pub mod settings;

use std::time::Duration;

use tokio::runtime::Builder;

/// A worker thread polls the network after this number of tasks; each task may compute for some milliseconds.
const TASKS_A_LOOK: u32 = 3;
/// Idle time after which a blocking thread ends; that releases the freed memory it caches.
const IDLE_THREAD: Duration = Duration::from_secs(1);

/// A runtime builder with this process's thread settings; the caller sets the name and builds it.
pub fn runtime() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder
        .enable_all()
        .max_blocking_threads(blocking_threads())
        .thread_keep_alive(IDLE_THREAD)
        .event_interval(TASKS_A_LOOK);
    builder
}

/// Maximum number of threads for blocking or long-computing work: four per processor, at least eight. Each thread
/// caches some freed memory, and more threads would only compete for the same processors and disk.
fn blocking_threads() -> usize {
    std::thread::available_parallelism().map_or(8, |n| (4 * n.get()).clamp(8, 64))
}
