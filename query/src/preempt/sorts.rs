//! Keeps sorts cancellable, and lets other work run meanwhile.
//!
//! A sort of more than one batch starts one task per batch that it holds: hundreds of tasks, each computing for
//! milliseconds without yielding. In one queue with them, tasks that serve connections wait for all of them, and an
//! abandoned query keeps running until that is noticed. So sort tasks run on their own threads. The sort's input and
//! its consumer stay on their threads: moving a small query to another thread and back costs as much as the query.
//!
//! DataFusion's merge yields between the batches it emits; here it also yields by time. To spill, DataFusion merges
//! everything without emitting anything, for seconds. Here a sort never has to: its input seems to end when memory runs
//! out, the sorted part is written to a file, and the next part is sorted. Before the merge emits anything, it waits
//! for the first batch of each task, yielding by their number, not by elapsed time. During that wait it only calls the
//! memory pool, so the pool makes it yield.

use std::{
    fmt,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
    thread::{self, ThreadId},
    time::Instant,
};

use arrow::{
    array::RecordBatch,
    compute::concat_batches,
    datatypes::{DataType, Schema, SchemaRef},
};
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation},
    },
    physical_expr::LexOrdering,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions, SpillManager,
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, SpillMetrics},
        sorts::{
            sort::SortExec,
            sort_preserving_merge::SortPreservingMergeExec,
            streaming_merge::{SortedSpillFile, StreamingMergeBuilder},
        },
        spill::get_record_batch_memory_size,
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{Stream, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tokio::{runtime::Handle, task::consume_budget};

use super::{
    passing::{passes, with_pool},
    yielding::Paced,
};
use crate::pace::{SLICE, paced};

/// Maximum files a merge opens.
const FILES_AT_ONCE: usize = 64;

/// Makes every sort that may hold many batches start its tasks on sort threads, and yield while it merges.
#[derive(Debug)]
pub(crate) struct SortOnThreads {
    threads: Handle,
}

impl SortOnThreads {
    pub(crate) fn new(threads: Handle) -> Self {
        Self { threads }
    }

    fn wrap(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        if plan.is::<SortPreservingMergeExec>() {
            return Ok(Transformed::yes(Arc::new(Paced { input: plan })));
        }
        // A sort with a limit holds at most that many rows, in one batch.
        let Some(sort) = plan.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) else {
            return Ok(Transformed::no(plan));
        };
        let order = sort.expr().clone();
        let run_bytes = if order.len() == 1 { options.execution.sort_in_place_threshold_bytes } else { 0 };
        let input: Arc<dyn ExecutionPlan> = Arc::new(OffSortThreads { input: sort.input().clone(), run_bytes });
        let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
        let input = plan.replace_children(vec![input], keep)?;
        let threads = self.threads.clone();
        Ok(Transformed::yes(Arc::new(OnSortThreads { input, order, threads, metrics: Metrics::default() })))
    }
}

impl PhysicalOptimizerRule for SortOnThreads {
    fn name(&self) -> &str {
        "sort_on_threads"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, options: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| self.wrap(plan, options)).data()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A sort in parts that fit into memory; its tasks run on sort threads.
#[derive(Debug, Clone)]
struct OnSortThreads {
    input: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
    threads: Handle,
    metrics: Metrics,
}

passes!(OnSortThreads {
    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.0.clone_inner())
    }
});

/// Metrics of one run of a plan.
#[derive(Debug, Default)]
struct Metrics(ExecutionPlanMetricsSet);

impl Clone for Metrics {
    /// Starts with no metrics.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl OnSortThreads {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let room = MemoryConsumer::new(format!("rows of a sort[{partition}]")).with_can_spill(true);
        let room = compares_rows(&self.order, &self.input.schema())?.then(|| room.register(context.memory_pool()));
        let pool = Pace { outer: context.clone(), merges: Mutex::default(), parts: Arc::default(), _room: room };
        let pool = Arc::new(pool);
        let env = context.runtime_env();
        let spill = SpillManager::new(env, SpillMetrics::new(&self.metrics.0, partition), self.schema())
            .with_compression_type(context.session_config().spill_compression());
        let sort = Sort {
            input: self.input.clone(),
            order: self.order.clone(),
            partition,
            context: with_pool(&context, pool.clone()),
            parts: pool.parts.clone(),
            spill,
            metrics: self.metrics.0.clone(),
        };
        // The input is executed where the query runs.
        let first = sort.part()?;
        let mut batches = stream::once(async move { sort.run(first).await }).try_flatten().boxed();
        let threads = self.threads.clone();
        let batches = stream::poll_fn(move |cx| {
            let _entered = threads.enter();
            *pool.merges.lock() = Some((thread::current().id(), Instant::now()));
            let next = batches.poll_next_unpin(cx);
            *pool.merges.lock() = None;
            next
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// Whether a merge converts its keys to rows, in addition to the batches. A single key is mostly compared without
/// conversion.
fn compares_rows(order: &LexOrdering, schema: &Schema) -> Result<bool> {
    use DataType::{Binary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    let key = order.first().expr.data_type(schema)?;
    let is_compared = key.is_primitive() || matches!(key, Utf8 | Utf8View | LargeUtf8 | Binary | LargeBinary);
    Ok(order.len() > 1 || !is_compared)
}

/// A sort of one partition.
struct Sort {
    input: Arc<dyn ExecutionPlan>,
    order: LexOrdering,
    partition: usize,
    context: Arc<TaskContext>,
    parts: Arc<Parts>,
    spill: SpillManager,
    metrics: ExecutionPlanMetricsSet,
}

impl Sort {
    /// The next part, sorted.
    fn part(&self) -> Result<SendableRecordBatchStream> {
        self.parts.is_full.store(false, Ordering::Relaxed);
        let batches = self.input.execute(self.partition, self.context.clone())?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), paced(batches))))
    }

    fn is_over(&self) -> bool {
        self.parts.is_over.load(Ordering::Relaxed)
    }

    async fn run(self, first: SendableRecordBatchStream) -> Result<SendableRecordBatchStream> {
        let (mut files, mut part) = (Vec::new(), first);
        loop {
            // Returns once the whole part is read.
            let batch = part.next().await;
            if self.is_over() && files.is_empty() {
                let batches = stream::iter(batch).chain(part);
                return Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), batches)));
            }
            files.extend(self.written(stream::iter(batch).chain(part)).await?);
            if self.is_over() {
                break;
            }
            part = self.part()?;
        }
        self.parts.is_full.store(false, Ordering::Relaxed);
        loop {
            let rest = files.split_off(self.at_once(&files));
            let merged = self.merged(files)?;
            if rest.is_empty() {
                return Ok(merged);
            }
            files = rest;
            files.extend(self.written(merged).await?);
        }
    }

    /// Writes sorted batches to a file; `None` if there are none.
    async fn written(
        &self,
        mut batches: impl Stream<Item = Result<RecordBatch>> + Unpin,
    ) -> Result<Option<SortedSpillFile>> {
        let mut file = self.spill.create_in_progress_file("a part of a sort")?;
        let mut largest = 0;
        while let Some(batch) = batches.try_next().await? {
            largest = largest.max(file.append_batch(&batch)?);
        }
        Ok(file.finish()?.map(|file| SortedSpillFile { file, max_record_batch_memory: largest }))
    }

    fn merge_memory(&self) -> MemoryReservation {
        MemoryConsumer::new(format!("parts of a sort[{}]", self.partition)).register(self.context.memory_pool())
    }

    /// Number of leading files merged at once: as many as DataFusion has memory for. With more it would spill its merge
    /// without emitting anything.
    fn at_once(&self, files: &[SortedSpillFile]) -> usize {
        let memory = self.merge_memory();
        // The merge reads two batches of each file ahead, and reserves twice as much.
        let fits = |file: &&SortedSpillFile| memory.try_grow(4 * file.max_record_batch_memory).is_ok();
        files.iter().take(FILES_AT_ONCE).take_while(fits).count().max(2).min(files.len())
    }

    fn merged(&self, files: Vec<SortedSpillFile>) -> Result<SendableRecordBatchStream> {
        let memory = self.merge_memory();
        let options = &self.context.session_config().options().execution;
        memory.try_grow(options.sort_spill_reservation_bytes)?;
        let batches = StreamingMergeBuilder::new()
            .with_sorted_spill_files(files)
            .with_spill_manager(self.spill.clone())
            .with_schema(self.input.schema())
            .with_expressions(&self.order)
            .with_metrics(BaselineMetrics::new(&self.metrics, self.partition))
            .with_batch_size(self.context.session_config().batch_size())
            .with_reservation(memory)
            .build()?;
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), paced(batches))))
    }
}

impl Drop for Sort {
    /// The sort's tasks may run on for a moment, but its input is dropped.
    fn drop(&mut self) {
        *self.parts.unread.lock() = None;
    }
}

/// Input of a sort, part by part: its tasks run on the query's threads, with the query's memory pool.
#[derive(Debug, Clone)]
struct OffSortThreads {
    input: Arc<dyn ExecutionPlan>,
    /// Bytes, including the room to sort them, at which DataFusion merges all batches it holds into one run, in one
    /// poll; batches of that size stay as they are. 0 if it makes no runs.
    run_bytes: usize,
}

passes!(OffSortThreads);

impl OffSortThreads {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(pace) = context.memory_pool().downcast_ref::<Pace>() else {
            return self.input.execute(partition, context);
        };
        let parts = pace.parts.clone();
        let mut unread = parts.unread.lock();
        if unread.is_none() {
            let batches = paced(self.input.execute(partition, pace.outer.clone())?);
            let mut batches = match self.run_bytes {
                0 => batches.boxed(),
                bytes => runs(batches, self.schema(), bytes).boxed(),
            };
            let home = Handle::try_current().ok();
            let batches = stream::poll_fn(move |cx| {
                let _entered = home.as_ref().map(Handle::enter);
                batches.poll_next_unpin(cx)
            });
            *unread = Some(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)));
        }
        drop(unread);
        let part = stream::poll_fn(move |cx| parts.poll_next(cx));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), part)))
    }
}

/// Concatenates batches until any two in a row exceed `bytes`; a batch above that stays separate.
fn runs(
    batches: impl Stream<Item = Result<RecordBatch>> + Send,
    schema: SchemaRef,
    bytes: usize,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    let batches = Box::pin(batches.fuse());
    stream::try_unfold((batches, None), move |(mut batches, mut next)| {
        let schema = schema.clone();
        async move {
            let (mut run, mut held) = (Vec::new(), 0);
            while let Some(batch) = match next.take() {
                Some(batch) => Some(batch),
                None => batches.try_next().await?,
            } {
                let size = sorted_bytes(&batch)?;
                if size > bytes && !run.is_empty() {
                    next = Some(batch);
                    break;
                }
                if batch.num_rows() > 0 {
                    held += size;
                    run.push(batch);
                }
                if held > bytes / 2 {
                    break;
                }
            }
            let whole = match run.len() {
                0 => return Ok(None),
                1 => run.swap_remove(0),
                _ => concat_batches(&schema, &run)?,
            };
            Ok(Some((whole, (batches, next))))
        }
    })
}

/// Bytes that a sort reserves for a batch: all memory it retains, plus that of its own rows.
fn sorted_bytes(batch: &RecordBatch) -> Result<usize> {
    let columns = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    Ok(get_record_batch_memory_size(batch) + columns.sum::<Result<usize, _>>()?)
}

/// Parts of a sort's input.
#[derive(Default)]
struct Parts {
    unread: Mutex<Option<SendableRecordBatchStream>>,
    /// Whether memory for more of this part has run out.
    is_full: AtomicBool,
    /// Whether the input has ended.
    is_over: AtomicBool,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("is_full", &self.is_full).field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl Parts {
    /// Returns the next batch of a part, `None` at its end.
    fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Option<Result<RecordBatch>>> {
        if self.is_full.load(Ordering::Relaxed) {
            return Poll::Ready(None);
        }
        let mut unread = self.unread.lock();
        let next = unread.as_mut().map_or(Poll::Ready(None), |batches| batches.poll_next_unpin(cx));
        if matches!(next, Poll::Ready(None)) {
            self.is_over.store(true, Ordering::Relaxed);
            *unread = None;
        }
        next
    }
}

/// Memory pool of a sort; makes the sort yield and ends its parts.
#[derive(Debug)]
struct Pace {
    outer: Arc<TaskContext>,
    /// The thread that merges, and the start of its time slice.
    merges: Mutex<Option<(ThreadId, Instant)>>,
    parts: Arc<Parts>,
    /// A reserved share that the sort leaves free, for the rows its merge compares.
    _room: Option<MemoryReservation>,
}

impl Pace {
    fn pool(&self) -> &Arc<dyn MemoryPool> {
        self.outer.memory_pool()
    }
}

/// Exhausts the task budget of the current task: it yields at its next wait.
fn end_turn() {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..=u8::MAX {
        if pin!(consume_budget()).poll(&mut context).is_pending() {
            return;
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a sort in {}", self.pool())
    }
}

impl MemoryPool for Pace {
    fn name(&self) -> &str {
        "pace"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.pool().register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.pool().unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.pool().grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.pool().shrink(reservation, shrink);
    }

    /// A batch for which there is no room in addition to others is the last one of its part. It is admitted nevertheless, as is
    /// the merge of that part, which ends with less than was held.
    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let merges = *self.merges.lock();
        if merges.is_some_and(|(thread, since)| thread == thread::current().id() && since.elapsed() > SLICE) {
            end_turn();
        }
        self.pool().try_grow(reservation, additional).or_else(|full| {
            let is_full = &self.parts.is_full;
            match reservation.consumer().can_spill() {
                true if reservation.size() > 0 => is_full.store(true, Ordering::Relaxed),
                false if is_full.load(Ordering::Relaxed) => {}
                _ => return Err(full),
            }
            self.pool().grow(reservation, additional);
            Ok(())
        })
    }

    fn reserved(&self) -> usize {
        self.pool().reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.pool().memory_limit()
    }
}

#[cfg(test)]
mod tests;
