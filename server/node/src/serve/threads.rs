//! Separate threads for long computations, so that the threads that serve connections stay responsive.

use anyhow::Context as _;
use tokio::runtime::{Handle, Runtime};

/// One thread pool for query plans and one for sorts, each with one thread per processor; stopped on drop.
pub(super) struct ComputeThreads {
    plans: Background,
    sorts: Background,
}

impl ComputeThreads {
    pub(super) fn start() -> anyhow::Result<Self> {
        Ok(Self { plans: Background::start("plan")?, sorts: Background::start("sort")? })
    }

    /// Handle of the plan threads; `None` after they stopped.
    pub(super) fn plans(&self) -> Option<Handle> {
        self.plans.handle()
    }

    /// Handle of the sort threads, as [`ComputeThreads::plans`].
    pub(super) fn sorts(&self) -> Option<Handle> {
        self.sorts.handle()
    }
}

/// A runtime that is shut down on drop without waiting for its tasks.
struct Background(Option<Runtime>);

impl Background {
    fn start(name: &str) -> anyhow::Result<Self> {
        let runtime = crate::runtime().thread_name(name).build();
        Ok(Self(Some(runtime.with_context(|| format!("cannot start the compute threads ({name})"))?)))
    }

    fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
