//! Threads on which statements are planned: what a statement's text can make planning cost must not keep the threads that
//! answer the network.
//!
//! There are few of them. A statement that is still being planned at its deadline is answered then; its thread is free once
//! the rule under way ends ([`StopPlanning`]), and until then no other statement is planned on it.

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
    functions::arithmetic::CheckedArithmetic,
};

/// The most statements that are planned at once, for each thread of the machine.
const PER_THREAD: usize = 2;

/// The threads. Cheap to clone.
#[derive(Clone)]
pub(super) struct Planners(Arc<Semaphore>);

impl Planners {
    pub(super) fn new() -> Self {
        let threads = available_parallelism().map_or(2, usize::from);
        Self(Arc::new(Semaphore::new((threads * PER_THREAD).max(4))))
    }

    /// Plans on one of the threads, within a budget. In a runtime of one thread that is the thread: there planning delays
    /// others, as all work does. The work comes boxed: moving a future of this size costs more than the queries need whose
    /// plans are kept.
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

/// The error of a statement whose planning or execution panicked.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    Error::internal("this statement met a fault of the server; other statements are not affected")
        .with("reason", text.unwrap_or("a panic without a text"))
}

/// DataFusion's rules and our own, with a look at the deadline between them.
pub(super) fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let stop = || Arc::new(StopPlanning) as Arc<dyn OptimizerRule + Send + Sync>;
    let mut rules = Optimizer::new().rules;
    rules.push(Arc::new(CheckedArithmetic));
    rules.into_iter().flat_map(|rule| [stop(), rule]).collect()
}

/// Ends planning at the deadline of the statement, or when it was killed.
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
