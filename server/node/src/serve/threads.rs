//! Threads of their own for what computes long: those that serve connections only take what comes of it.

use anyhow::Context as _;
use tokio::runtime::{Handle, Runtime};

/// For plans, and apart from them for the tasks of sorts, as many threads as there are processors, until this is dropped.
pub(super) struct ComputeThreads {
    plans: Background,
    sorts: Background,
}

impl ComputeThreads {
    pub(super) fn start() -> anyhow::Result<Self> {
        Ok(Self { plans: Background::start("plan")?, sorts: Background::start("sort")? })
    }

    /// `None` once they are gone.
    pub(super) fn plans(&self) -> Option<Handle> {
        self.plans.handle()
    }

    /// As [`ComputeThreads::plans`].
    pub(super) fn sorts(&self) -> Option<Handle> {
        self.sorts.handle()
    }
}

/// A runtime; what it still computes when it is dropped is for nobody.
struct Background(Option<Runtime>);

impl Background {
    fn start(name: &str) -> anyhow::Result<Self> {
        let runtime = crate::runtime().thread_name(name).build();
        Ok(Self(Some(runtime.with_context(|| format!("cannot start the threads that compute ({name})"))?)))
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
