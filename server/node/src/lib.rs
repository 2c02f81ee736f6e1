//! What one process of Tidelake is: its settings, the root that it opens, the write and the query path over it, and the
//! listeners before them. `tidelake serve`, its other commands and `tidelake demo` run it.
//!
//! The functions are other processes: each has one path alone, behind the platform's own listener. They share the settings
//! that [`tidelake_protocol::settings`] declares.

mod memory;
pub mod serve;
pub mod settings;

use std::time::Duration;

use tokio::runtime::Builder;

/// A thread looks whether the network has something for it after this many tasks: between them a query may compute for some
/// milliseconds each.
const TASKS_A_LOOK: u32 = 3;
/// How long a thread for blocking work waits for more of it: what it keeps of freed memory is freed with it.
const IDLE_THREAD: Duration = Duration::from_secs(1);

/// A runtime with the threads of this process, which the caller names and builds.
pub fn runtime() -> Builder {
    let mut builder = Builder::new_multi_thread();
    builder
        .enable_all()
        .max_blocking_threads(blocking_threads())
        .thread_keep_alive(IDLE_THREAD)
        .event_interval(TASKS_A_LOOK);
    builder
}

/// The most threads for work that blocks or computes for long: four a processor, eight at least. Each keeps some of its
/// freed memory, and more of them only wait for the same processors and the same disk.
fn blocking_threads() -> usize {
    std::thread::available_parallelism().map_or(8, |n| (4 * n.get()).clamp(8, 64))
}
