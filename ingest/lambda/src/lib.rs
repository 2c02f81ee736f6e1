//! Functions of the write path: `ingest-http` and `ingest-queue` put segments, `compact` turns them into data files.
//!
//! [`settings`] reads their variables, [`queue`] writes a batch of messages as one segment, [`compact`] does as much as its
//! time allows. The rest is [`tidelake_ingest`], as in a server.

pub mod compact;
pub mod queue;
pub mod settings;

use lambda_runtime::Error;

/// Runs a function on a runtime for one request at a time, with two threads, so that long computations do not block
/// communication with the platform. Until then the process has one thread.
///
/// # Errors
/// If the runtime cannot be started, or those of the function.
pub fn run(function: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    tidelake_lambda::certificates::from_one_file();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).max_blocking_threads(4).enable_all().build()?;
    runtime.block_on(function)
}
