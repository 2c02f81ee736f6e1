//! Lets sorts be stopped, and others compute beside them.
//!
//! A sort of more than fits into a batch starts one task for each batch that it holds: hundreds, which compute for milliseconds
//! each before they look at anything. In one queue with them what serves connections waits for all of them, and a query that
//! its client gave up goes on until somebody notices. So they run on threads of their own. What a sort reads, and who reads
//! it, stay where they were: from one thread to another and back costs what a small query takes.
//!
//! The task that merges them again gives way between batches that it puts out, and so it does here by time. To write what does
//! not fit into memory DataFusion merges all of it without putting anything out, for seconds. Here a sort never has to: its
//! input seems to end when its memory does, what it puts out is written, and it sorts the next part. Before it puts anything
//! out it waits for the first batch of each task, by a number of them, however long each took; all that it asks for meanwhile
//! is memory, so it is there that it is told to give way.

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

/// How many files a merge has open.
const FILES_AT_ONCE: usize = 64;

/// Has every sort that may hold many batches start its tasks on threads for sorts, and give way while it merges.
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
        // One with a limit holds no more than that, in one batch.
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

/// A sort in parts that fit into memory, whose tasks run on threads of their own.
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

/// What one run of a plan counts.
#[derive(Debug, Default)]
struct Metrics(ExecutionPlanMetricsSet);

impl Clone for Metrics {
    /// None of the other's.
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
        // What it reads is executed where the query runs.
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

/// Whether a merge makes rows of its keys, beside the batches. A single key is compared as it is, mostly.
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
            // It is there once all of the part was read.
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

    /// A file of sorted batches, where there are any.
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

    /// How many of the first files are merged at once: as many as DataFusion has memory for. Of more it would write what it
    /// merged without putting anything out.
    fn at_once(&self, files: &[SortedSpillFile]) -> usize {
        let memory = self.merge_memory();
        // It reads two batches of each ahead, and reserves twice as much.
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
    /// Its tasks may go on for a moment, what it reads does not.
    fn drop(&mut self) {
        *self.parts.unread.lock() = None;
    }
}

/// What a sort reads, part by part: its tasks run where those of the query do, with the memory of all.
#[derive(Debug, Clone)]
struct OffSortThreads {
    input: Arc<dyn ExecutionPlan>,
    /// Of how many bytes, the room to sort them included, DataFusion makes runs out of all that it holds, in one turn: those
    /// of so many already stay as they are. 0 where it makes no runs.
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

/// Puts batches together until two in a row are of more than so many bytes; one of more stays apart.
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

/// What a sort reserves for a batch: all the memory that it keeps, and that of its own rows.
fn sorted_bytes(batch: &RecordBatch) -> Result<usize> {
    let columns = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
    Ok(get_record_batch_memory_size(batch) + columns.sum::<Result<usize, _>>()?)
}

/// The parts of what a sort reads.
#[derive(Default)]
struct Parts {
    unread: Mutex<Option<SendableRecordBatchStream>>,
    /// Whether there is no memory for more of this part.
    is_full: AtomicBool,
    /// Whether all was read.
    is_over: AtomicBool,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts").field("is_full", &self.is_full).field("is_over", &self.is_over).finish_non_exhaustive()
    }
}

impl Parts {
    /// The next batch of a part, `None` where it ends.
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

/// The memory of a sort, by which it gives way and its parts end.
#[derive(Debug)]
struct Pace {
    outer: Arc<TaskContext>,
    /// The thread that merges, and since when.
    merges: Mutex<Option<(ThreadId, Instant)>>,
    parts: Arc<Parts>,
    /// A share that the sort leaves free, for the rows that its merge compares.
    _room: Option<MemoryReservation>,
}

impl Pace {
    fn pool(&self) -> &Arc<dyn MemoryPool> {
        self.outer.memory_pool()
    }
}

/// Ends what the task of this thread may do in one turn: it gives way where it next waits.
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

    /// The batch for which there is no room beside others is the last one of its part, and has it nevertheless, as has what
    /// merges that part: it ends with less than was held.
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
