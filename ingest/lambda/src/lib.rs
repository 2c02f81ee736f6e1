//! The functions of the write path: `ingest-http` and `ingest-queue` put segments, `compact` turns them into data files.
//!
//! [`settings`] reads their variables, [`queue`] turns batches of messages into one segment, [`compact`] does as much as its
//! time allows. The rest is [`tidelake_ingest`], as a server runs it.

pub mod compact;
pub mod queue;
pub mod settings;

use lambda_runtime::Error;

/// Runs a function on the runtime that suits one request at a time: two threads, so that what computes long does not keep
/// the platform waiting. Until then the process has one.
///
/// # Errors
/// When the runtime cannot be started, or the function's own.
pub fn run(function: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    tidelake_lambda::certificates::from_one_file();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).max_blocking_threads(4).enable_all().build()?;
    runtime.block_on(function)
}
