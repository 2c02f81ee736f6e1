//! Threads for planning statements, so that expensive planning does not block the threads that serve the network.
//!
//! Their number is small. A statement that is still being planned at its deadline fails at once; its planner thread becomes
//! free when the current optimizer rule ends ([`StopPlanning`]).

use std::{panic::AssertUnwindSafe, sync::Arc, thread::available_parallelism};

use datafusion::{
    common::{Result as DfResult, tree_node::Transformed},
    logical_expr::LogicalPlan,
    optimizer::{Optimizer, OptimizerConfig, OptimizerRule},
};
use futures::{FutureExt, future::BoxFuture};
use tidelake_format::{Error, Result};
use tokio::{
    runtime::{Handle, RuntimeFlavor},
    sync::Semaphore,
};
use tracing::Instrument as _;

use crate::{
    budget::{self, Budget, Phase, Within},
    functions::{arithmetic::CheckedArithmetic, lists::KeepListsApart},
};

/// Number of statements planned at once per hardware thread.
const PER_THREAD: usize = 2;

/// Limits the number of planner threads. Cheap to clone.
#[derive(Clone)]
pub(super) struct Planners(Arc<Semaphore>);

impl Planners {
    pub(super) fn new() -> Self {
        let threads = available_parallelism().map_or(2, usize::from);
        Self(Arc::new(Semaphore::new((threads * PER_THREAD).max(4))))
    }

    /// Runs planning work on a planner thread, within a budget. On a single-threaded runtime it runs on the current thread and
    /// delays other work. `work` is boxed because moving a future of this size costs more than a query with a cached plan needs.
    ///
    /// # Errors
    /// Those of `work`; Internal when it panics.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        budget: &Budget,
        work: BoxFuture<'static, Result<T>>,
    ) -> Result<T> {
        let work = AssertUnwindSafe(Within::new(budget.clone(), Phase::Plan, work)).catch_unwind();
        let runtime = Handle::current();
        let planned = if runtime.runtime_flavor() == RuntimeFlavor::MultiThread {
            let closed = || Error::unavailable("the server is shutting down");
            let place = self.0.clone().acquire_owned().await.map_err(|_| closed())?;
            let work = work.in_current_span();
            let thread = tokio::task::spawn_blocking(move || {
                let _place = place;
                runtime.block_on(work)
            });
            thread.await.map_err(|_| closed())?
        } else {
            work.await
        };
        planned.map_err(|panic| panicked(panic.as_ref()))?
    }
}

/// The error of a statement that panicked in planning or execution.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    Error::internal("internal error in this statement; other statements are not affected")
        .with("reason", text.unwrap_or("panic without a message"))
}

/// [`KeepListsApart`], DataFusion's optimizer rules and [`CheckedArithmetic`], each preceded by a check of the deadline.
pub(super) fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let stop = || Arc::new(StopPlanning) as Arc<dyn OptimizerRule + Send + Sync>;
    let mut rules = Optimizer::new().rules;
    rules.insert(0, Arc::new(KeepListsApart));
    rules.push(Arc::new(CheckedArithmetic));
    rules.into_iter().flat_map(|rule| [stop(), rule]).collect()
}

/// Ends planning at the statement's deadline or when the statement was killed.
#[derive(Debug)]
struct StopPlanning;

impl OptimizerRule for StopPlanning {
    fn name(&self) -> &str {
        "stop_planning"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> DfResult<Transformed<LogicalPlan>> {
        budget::check()?;
        Ok(Transformed::no(plan))
    }
}
