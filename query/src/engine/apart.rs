//! Runs plans with long polls on other threads than those that serve connections.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    task::{Context, Poll},
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{Result, runtime::SpawnedTask},
    execution::SendableRecordBatchStream,
    physical_plan::stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use tidelake_format::Error;
use tokio::{runtime::Handle, sync::mpsc};

use crate::error::to_datafusion;

/// Number of ready batches queued for the client.
const READY: usize = 1;

/// Returns the batches of a plan that a task starts and polls on `threads`. The task inherits the budget of the current thread's
/// statement. Dropping the stream drops the plan at once on the dropping thread, as the task may be far back in a run queue.
pub(super) fn run(
    threads: &Handle,
    schema: SchemaRef,
    start: impl FnOnce() -> Result<SendableRecordBatchStream> + Send + 'static,
) -> SendableRecordBatchStream {
    let (ready, batches) = mpsc::channel(READY);
    let running = Arc::<Running>::default();
    let client = Client(running.clone());
    let work = async move {
        match start() {
            Ok(plan) => *running.plan.lock() = Some(plan),
            Err(error) => {
                let _ = ready.send(Err(error)).await; // the consumer may be gone
                return;
            }
        }
        while let Some(batch) = poll_fn(|cx| running.poll_next(cx)).await {
            if ready.send(batch).await.is_err() {
                break;
            }
        }
    };
    let task = {
        let _entered = threads.enter();
        SpawnedTask::spawn(work)
    };
    let batches = stream::unfold((batches, Some(task), client), |(mut batches, task, client)| async {
        if let Some(batch) = batches.recv().await {
            return Some((batch, (batches, task, client)));
        }
        // Resumes a panic of the task; the caller turns it into the statement's error. A cancelled task, whose runtime shuts
        // down, has not returned all batches.
        let cancelled = task?.join_unwind().await.err()?;
        let error = Error::unavailable("query stopped: the server is shutting down").source(cancelled);
        Some((Err(to_datafusion(error)), (batches, None, client)))
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// A plan that a task polls.
#[derive(Default)]
struct Running {
    plan: Mutex<Option<SendableRecordBatchStream>>,
    /// Whether the consumer was dropped.
    is_left: AtomicBool,
}

impl Running {
    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        let mut plan = self.plan.lock();
        let next = plan.as_mut().map_or(Poll::Ready(None), |plan| plan.poll_next_unpin(cx));
        if self.is_left.load(Relaxed) || matches!(next, Poll::Ready(None)) {
            *plan = None;
            return Poll::Ready(None);
        }
        next
    }
}

/// The consumer of the batches; drops the plan with itself.
struct Client(Arc<Running>);

impl Drop for Client {
    fn drop(&mut self) {
        self.0.is_left.store(true, Relaxed);
        // If the task is polling the plan now, the task drops it after the poll.
        if let Some(mut plan) = self.0.plan.try_lock() {
            *plan = None;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{panic::AssertUnwindSafe, thread, time::Duration};

    use arrow::{
        array::{ArrayRef, Int64Array},
        datatypes::Schema,
    };
    use datafusion::common::DataFusionError;
    use futures::{FutureExt as _, TryStreamExt as _};
    use tokio::runtime::{Builder, Runtime};

    use super::*;

    fn threads() -> Runtime {
        Builder::new_multi_thread().worker_threads(1).thread_name("compute").build().unwrap()
    }

    fn batch(value: i64) -> RecordBatch {
        RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(vec![value])) as ArrayRef)]).unwrap()
    }

    fn made(batches: impl futures::Stream<Item = Result<RecordBatch>> + Send + 'static) -> SendableRecordBatchStream {
        Box::pin(RecordBatchStreamAdapter::new(batch(0).schema(), batches))
    }

    #[tokio::test]
    async fn a_plan_runs_on_the_given_threads_and_keeps_batch_order() {
        let threads = threads();
        let name = || thread::current().name().unwrap_or_default().to_owned();
        let start = move || {
            assert_eq!(name(), "compute");
            Ok(made(stream::iter(0..100).map(move |value| {
                assert_eq!(name(), "compute");
                Ok(batch(value))
            })))
        };
        let batches: Vec<RecordBatch> = run(threads.handle(), batch(0).schema(), start).try_collect().await.unwrap();
        assert_eq!(batches, (0..100).map(batch).collect::<Vec<_>>());
        threads.shutdown_background();
    }

    #[tokio::test]
    async fn a_stream_returns_the_plans_error_or_panic() {
        let threads = threads();
        let schema = Arc::new(Schema::empty());
        let fails = || Err(DataFusionError::Plan("no such plan".to_owned()));
        let e = run(threads.handle(), schema.clone(), fails).try_collect::<Vec<_>>().await.unwrap_err();
        assert!(e.to_string().contains("no such plan"), "{e}");
        let panics = || Ok(made(stream::iter([0]).map(|_| panic!("a fault of an operator"))));
        let collected = AssertUnwindSafe(run(threads.handle(), schema, panics).try_collect::<Vec<_>>()).catch_unwind();
        let panic = collected.await.unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"a fault of an operator"));
        threads.shutdown_background();
    }

    #[tokio::test]
    async fn dropping_the_stream_ends_the_plan() {
        let threads = threads();
        let held = Arc::new(());
        let kept = held.clone();
        let start = move || Ok(made(stream::repeat_with(move || Ok(batch(i64::from(Arc::strong_count(&kept) == 0))))));
        let mut batches = run(threads.handle(), batch(0).schema(), start);
        batches.next().await.unwrap().unwrap();
        drop(batches);
        for _ in 0..1_000 {
            if Arc::strong_count(&held) == 1 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(Arc::strong_count(&held), 1, "the plan is still there");
        threads.shutdown_background();
    }

    #[tokio::test]
    async fn a_plan_is_dropped_at_once_even_if_its_threads_are_busy() {
        let threads = threads();
        let held = Arc::new(());
        let kept = held.clone();
        let start = move || {
            let first = stream::iter([Ok(batch(0))]);
            let waits = stream::pending().map(move |()| Ok(batch(i64::from(Arc::strong_count(&kept) == 0))));
            Ok(made(first.chain(waits)))
        };
        let mut batches = run(threads.handle(), batch(0).schema(), start);
        batches.next().await.unwrap().unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        // Block the only thread from here on.
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let (busy, is_busy) = tokio::sync::oneshot::channel();
        threads.spawn(async move {
            let _ = busy.send(());
            let _ = ended.recv();
        });
        is_busy.await.unwrap();
        drop(batches);
        assert_eq!(Arc::strong_count(&held), 1, "the plan is still there");
        drop(end);
        threads.shutdown_background();
    }
}
