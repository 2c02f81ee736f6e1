//! Work that takes a thread for long: beside the runtime's threads where it has several, in place where it has one.

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::error::{Error, Result};

/// Runs work that computes for milliseconds or more on a thread for blocking work.
///
/// On a single-threaded runtime it runs in place, before this returns: such a runtime is one function's, which has
/// nothing else to do, or a simulation's, which takes its steps in one order.
///
/// # Errors
/// What the work returns; [`Kind::Internal`](crate::Kind::Internal) when it panicked on another thread.
pub async fn offload<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return work();
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| Error::internal("work on another thread ended early").source(e))?
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_elsewhere() -> bool {
        let here = std::thread::current().id();
        offload(move || Ok(std::thread::current().id() != here)).await.unwrap()
    }

    #[tokio::test]
    async fn a_runtime_of_one_thread_works_in_place() {
        assert!(!is_elsewhere().await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_runtime_of_many_threads_works_beside_them() {
        assert!(is_elsewhere().await);
    }
}
