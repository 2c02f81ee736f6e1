//! Threads of their own for what computes long: those that serve connections only take what comes of it.

use anyhow::Context as _;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::{IDLE_THREAD, TASKS_A_LOOK, blocking_threads};

/// As many threads as there are processors, until this is dropped.
pub(super) struct ComputeThreads(Option<Runtime>);

impl ComputeThreads {
    pub(super) fn start() -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .thread_name("compute")
            .enable_all()
            .max_blocking_threads(blocking_threads())
            .thread_keep_alive(IDLE_THREAD)
            .event_interval(TASKS_A_LOOK)
            .build();
        Ok(Self(Some(runtime.context("cannot start the threads that compute")?)))
    }

    /// `None` once they are gone.
    pub(super) fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for ComputeThreads {
    /// What they still compute is for nobody.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
