//! Runs plans that may compute for long in one turn apart from the threads that serve connections.

use arrow::datatypes::SchemaRef;
use datafusion::{
    common::{Result, runtime::SpawnedTask},
    execution::SendableRecordBatchStream,
    physical_plan::stream::RecordBatchStreamAdapter,
};
use futures::{StreamExt as _, stream};
use tokio::{runtime::Handle, sync::mpsc};

/// Batches that are ready and that the client has not taken.
const READY: usize = 1;

/// The batches of a plan, which is started and polled by a task on other threads; it ends when the stream is dropped. The task
/// has the budget of the statement of this thread.
pub(super) fn run(
    threads: &Handle,
    schema: SchemaRef,
    start: impl FnOnce() -> Result<SendableRecordBatchStream> + Send + 'static,
) -> SendableRecordBatchStream {
    let (ready, batches) = mpsc::channel(READY);
    let work = async move {
        let mut running = match start() {
            Ok(running) => running,
            Err(error) => {
                let _ = ready.send(Err(error)).await; // nobody waits for it any more
                return;
            }
        };
        while let Some(batch) = running.next().await {
            if ready.send(batch).await.is_err() {
                break;
            }
        }
    };
    let task = {
        let _entered = threads.enter();
        SpawnedTask::spawn(work)
    };
    let batches = stream::unfold((batches, task), |(mut batches, task)| async {
        match batches.recv().await {
            Some(batch) => Some((batch, (batches, task))),
            None => {
                // A panic of the task goes on here, where it becomes the error of the statement.
                let _ = task.join_unwind().await; // aborted: the runtime ends
                None
            }
        }
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::{panic::AssertUnwindSafe, sync::Arc, thread, time::Duration};

    use arrow::{
        array::{ArrayRef, Int64Array, RecordBatch},
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
    async fn a_plan_is_started_and_polled_on_the_threads_and_its_batches_come_in_order() {
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
    async fn an_error_and_a_panic_of_a_plan_are_those_of_the_stream() {
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
    async fn a_plan_ends_when_nobody_takes_its_batches() {
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
}
