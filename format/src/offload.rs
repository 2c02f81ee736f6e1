//! Runs long computations outside the threads of a multi-threaded runtime, and in place on a single-threaded one.

use std::thread;

use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::oneshot,
};

use crate::error::{Error, Result};

/// Runs work that computes for milliseconds or more on a thread for blocking work.
///
/// On a single-threaded runtime the work runs in place, before this call returns. Such a runtime belongs to a Lambda
/// function, which has no other task, or to a simulation, whose steps have one order.
///
/// # Errors
/// What the work returns; [`Kind::Internal`](crate::Kind::Internal) when it panicked on another thread.
pub async fn offload<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return work();
    }
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| Error::internal("background work ended early").source(e))?
}

/// Priority of a long computation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Runs at the normal priority of threads.
    Now,
    /// Runs at a lower priority, so that queries and writes get the processors first.
    Behind,
}

/// As [`offload`]; with [`Urgency::Behind`] the work runs on a thread of its own, at a lower priority.
///
/// # Errors
/// As [`offload`]; [`Kind::Unavailable`](crate::Kind::Unavailable) when the system gives no thread.
pub async fn offload_by<T: Send + 'static>(
    urgency: Urgency,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if urgency == Urgency::Now || Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
        return offload(work).await;
    }
    let (sender, done) = oneshot::channel();
    let run = move || {
        yield_to_others();
        drop(sender.send(work())); // the receiver may be gone
    };
    thread::Builder::new()
        .name("behind".to_owned())
        .spawn(run)
        .map_err(|e| Error::unavailable("cannot start a background thread").with("reason", &e).source(e))?;
    done.await.map_err(|_| Error::internal("background work ended early"))?
}

/// Increment of the nice value: Linux gives the thread about a tenth of the processor time of a thread with the normal value.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// Lowers the priority of this thread; a refusal by the system is ignored.
#[cfg(target_os = "linux")]
fn yield_to_others() {
    let _ = rustix::process::setpriority_process(None, NICENESS);
}

/// Elsewhere that would be the priority of the process.
#[cfg(not(target_os = "linux"))]
fn yield_to_others() {}

#[cfg(test)]
mod tests {
    use super::*;

    async fn is_elsewhere() -> bool {
        let here = std::thread::current().id();
        let behind = offload_by(Urgency::Behind, move || Ok(std::thread::current().id() != here)).await.unwrap();
        let beside = offload(move || Ok(std::thread::current().id() != here)).await.unwrap();
        assert_eq!(behind, beside);
        beside
    }

    #[cfg(target_os = "linux")]
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn low_priority_work_lowers_only_its_own_thread() {
        let nice = || Ok(rustix::process::getpriority_process(None).unwrap());
        let before = nice().unwrap();
        assert_eq!(offload_by(Urgency::Behind, nice).await.unwrap(), (before + NICENESS).min(19));
        assert_eq!((offload(nice).await.unwrap(), nice().unwrap()), (before, before));
        let lost = offload_by(Urgency::Behind, || -> Result<()> { panic!("as a bug would") }).await;
        assert_eq!(lost.unwrap_err().kind(), crate::Kind::Internal);
    }

    #[tokio::test]
    async fn a_single_threaded_runtime_works_in_place() {
        assert!(!is_elsewhere().await);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn a_multi_threaded_runtime_works_on_another_thread() {
        assert!(is_elsewhere().await);
    }
}
