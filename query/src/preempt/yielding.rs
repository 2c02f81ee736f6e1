//! Makes queries cancellable within one batch: a join can emit for hours what took a moment to read, or emit nothing
//! for as long, and functions over 8192 rows at once, such as regular expressions, can take a tenth of a second.
//!
//! DataFusion yields to other work, and so to deadlines and cancellation, where a plan reads. A join or an unnest with
//! its inputs in memory reads nothing, and its consumer loops; a join whose condition matches no row does not return
//! before it has compared a whole batch of one side with all of the other.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll},
    thread::{self, ThreadId},
    time::{Duration, Instant},
};

use arrow::{
    array::{RecordBatch, RecordBatchOptions, UInt32Array},
    compute::{BatchCoalescer, take_record_batch},
    datatypes::SchemaRef,
};
use cpu_time::ThreadTime;
use datafusion::{
    common::{
        DataFusionError, Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext},
    logical_expr::Operator,
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{BinaryExpr, LikeExpr, Literal},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        aggregates::AggregateExec,
        coop::CooperativeExec,
        filter::FilterExec,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec},
        projection::ProjectionExec,
        sorts::sort::SortExec,
        stream::RecordBatchStreamAdapter,
        unnest::UnnestExec,
    },
};
use futures::{Stream, StreamExt, TryStreamExt, stream};

use super::passing::{passes, with_input};
use crate::{
    budget,
    pace::{SLICE, beside_the_runtime, paced},
};

/// For a join: rows of one side compared with the other side per slice, initially and at least.
const PROBED: Rows = Rows { first: 1, least: 1, most: usize::MAX, copies: 1 };

/// For an operator that calls functions. The first slice has few rows, because the size of the results is not known
/// yet. Cheap functions get the rest of a batch after four slices. Below `least` rows the overhead per batch would
/// dominate.
const COMPUTED: Rows = Rows { first: 64, least: 256, most: usize::MAX, copies: 1 };

/// Bytes that functions may reserve for one slice. If they reserve more, slices get fewer rows, down to one. The first
/// slice of a query may exceed this.
const RESERVED_BYTES: usize = 8 << 20;

/// Small batches are concatenated up to this size, or up to the row count of a batch.
const COALESCED_BYTES: usize = 1 << 20;

/// An operator expands constants to columns: those of one slice have at most this many bytes.
const CONSTANT_BYTES: usize = 8 << 20;
/// Constants below this size need no slices: in a batch of 8192 rows they have few bytes.
const LARGE_CONSTANT: usize = 4 << 10;

/// Makes every operator whose output can be much larger than its input yield between batches and within one input
/// batch; operators that call functions yield within one input batch.
#[derive(Debug)]
pub(crate) struct YieldWithinBatches;

fn multiplies(plan: &dyn ExecutionPlan) -> bool {
    plan.downcast_ref::<CrossJoinExec>().is_some()
        || plan.downcast_ref::<NestedLoopJoinExec>().is_some()
        || plan.downcast_ref::<HashJoinExec>().is_some()
        || plan.downcast_ref::<SortMergeJoinExec>().is_some()
        || plan.downcast_ref::<UnnestExec>().is_some()
}

/// Whether the node compares each batch of its second input with all of its first input.
fn probes(plan: &dyn ExecutionPlan) -> bool {
    plan.downcast_ref::<NestedLoopJoinExec>().is_some() || plan.downcast_ref::<HashJoinExec>().is_some()
}

/// Whether the node evaluates a condition: on one row of its second input with each row of its first input, possibly
/// millions.
fn has_condition(plan: &dyn ExecutionPlan) -> bool {
    plan.downcast_ref::<NestedLoopJoinExec>().is_some_and(|join| join.filter().is_some())
        || plan.downcast_ref::<HashJoinExec>().is_some_and(|join| join.filter().is_some())
        || plan.downcast_ref::<SortMergeJoinExec>().is_some_and(|join| join.filter().is_some())
}

/// Whether the node computes something that can take long on each input batch.
fn computes(plan: &dyn ExecutionPlan) -> Result<bool> {
    let evaluates = plan.downcast_ref::<ProjectionExec>().is_some()
        || plan.downcast_ref::<FilterExec>().is_some()
        || plan.downcast_ref::<AggregateExec>().is_some();
    let mut found = false;
    if evaluates {
        plan.apply_expressions(&mut |expression| {
            expression.apply(|part| {
                found |= is_long(part.as_ref());
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
    }
    Ok(found)
}

fn is_long(expression: &dyn PhysicalExpr) -> bool {
    use Operator::{RegexIMatch, RegexMatch, RegexNotIMatch, RegexNotMatch};
    let matches =
        |binary: &BinaryExpr| matches!(binary.op(), RegexMatch | RegexIMatch | RegexNotMatch | RegexNotIMatch);
    expression.downcast_ref::<ScalarFunctionExpr>().is_some()
        || expression.downcast_ref::<LikeExpr>().is_some()
        || expression.downcast_ref::<BinaryExpr>().is_some_and(matches)
}

/// Bytes of the large constants that an operator expands to columns.
fn constants(plan: &dyn ExecutionPlan) -> Result<usize> {
    let mut bytes = 0_usize;
    plan.apply_expressions(&mut |expression| {
        expression.apply(|part| {
            if let Some(literal) = part.downcast_ref::<Literal>() {
                let value = literal.value();
                let size = if value.data_type().is_primitive() { 0 } else { value.size() };
                bytes = bytes.saturating_add(if size >= LARGE_CONSTANT { size } else { 0 });
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(bytes)
}

/// Limits the rows of slices so that the constants of an operator stay small as columns.
fn rows_for(constants: usize, rows: Rows) -> Rows {
    let most = (CONSTANT_BYTES / constants.saturating_mul(rows.copies).max(1)).max(1);
    Rows { first: rows.first.min(most), least: rows.least.min(most), most: rows.most.min(most), copies: rows.copies }
}

/// Number of copies an operator makes of values computed per row: one per grouping set.
fn copies(plan: &dyn ExecutionPlan) -> usize {
    plan.downcast_ref::<AggregateExec>().map_or(1, |aggregate| aggregate.group_expr().groups().len().max(1))
}

/// Whether the node emits nothing before it has read all of its input, and may take long per batch: for example by
/// comparing lists, or by finding a rank among a hundred thousand largest values.
fn takes_all(plan: &dyn ExecutionPlan) -> bool {
    plan.is::<AggregateExec>() || plan.downcast_ref::<SortExec>().is_some_and(|sort| sort.fetch().is_some())
}

/// Returns the plan with one of its inputs sliced.
fn with_sliced(plan: Arc<dyn ExecutionPlan>, input: usize, rows: Rows) -> Result<Arc<dyn ExecutionPlan>> {
    with_input(plan, input, |input| Arc::new(Sliced { input, rows }))
}

impl PhysicalOptimizerRule for YieldWithinBatches {
    fn name(&self) -> &str {
        "yield_within_batches"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrap = |plan: Arc<dyn ExecutionPlan>| {
            let constants = constants(plan.as_ref())?;
            let copies = copies(plan.as_ref());
            if computes(plan.as_ref())? {
                let computed = Rows { copies, ..COMPUTED };
                let rows = if constants > 0 { rows_for(constants, computed) } else { computed };
                return with_sliced(plan, 0, rows).map(Transformed::yes);
            }
            if constants > 0 && !multiplies(plan.as_ref()) && !plan.children().is_empty() {
                let whole = Rows { first: usize::MAX, least: 1, most: usize::MAX, copies };
                return with_sliced(plan, 0, rows_for(constants, whole)).map(Transformed::yes);
            }
            if takes_all(plan.as_ref()) {
                return with_input(plan, 0, |input| Arc::new(Paced { input })).map(Transformed::yes);
            }
            if !multiplies(plan.as_ref()) {
                return Ok(Transformed::no(plan));
            }
            let is_cross = plan.is::<CrossJoinExec>();
            let has_condition = has_condition(plan.as_ref());
            let plan = if probes(plan.as_ref()) { with_sliced(plan, 1, PROBED)? } else { plan };
            let plan: Arc<dyn ExecutionPlan> =
                if has_condition { Arc::new(BesideTheRuntime { input: plan }) } else { plan };
            let plan: Arc<dyn ExecutionPlan> = Arc::new(CooperativeExec::new(plan));
            Ok(Transformed::yes(if is_cross { Arc::new(Coalesced { input: plan }) } else { plan }))
        };
        plan.transform_up(wrap).data()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// An input that yields to other tasks when [`SLICE`] has passed since it last yielded.
#[derive(Debug, Clone)]
pub(super) struct Paced {
    pub(super) input: Arc<dyn ExecutionPlan>,
}

passes!(Paced);

impl Paced {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batches = paced(self.input.execute(partition, context)?);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// A join that may compute for seconds without yielding: while it is polled, the runtime continues without its thread.
#[derive(Debug, Clone)]
struct BesideTheRuntime {
    input: Arc<dyn ExecutionPlan>,
}

passes!(BesideTheRuntime);

impl BesideTheRuntime {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut batches = self.input.execute(partition, context)?;
        let batches = stream::poll_fn(move |cx| beside_the_runtime(|| batches.poll_next_unpin(cx)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// Concatenates the batches of a cross join. The join makes one batch per row of its first input and batch of its
/// second; in a join of joins each would have few rows and use more memory than the rows themselves.
#[derive(Debug, Clone)]
struct Coalesced {
    input: Arc<dyn ExecutionPlan>,
}

passes!(Coalesced);

impl Coalesced {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let rows = context.session_config().batch_size();
        let input = self.input.execute(partition, context)?;
        let schema = self.schema();
        if schema.fields().is_empty() {
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema.clone(), counted(input, schema, rows))));
        }
        let batches = BatchCoalescer::new(schema.clone(), rows).with_biggest_coalesce_batch_size(Some(rows / 2));
        let batches = stream::try_unfold((input, batches, false), |(mut input, mut batches, mut is_over)| async move {
            loop {
                if let Some(batch) = batches.next_completed_batch() {
                    return Ok(Some((batch, (input, batches, is_over))));
                }
                if is_over {
                    return Ok(None);
                }
                match input.try_next().await? {
                    Some(batch) => batches.push_batch(batch)?,
                    None => is_over = true,
                }
                if is_over || batches.size() > COALESCED_BYTES {
                    batches.finish_buffered_batch()?;
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }
}

/// Combines batches without columns into batches of at least `most` rows.
fn counted(
    input: SendableRecordBatchStream,
    schema: SchemaRef,
    most: usize,
) -> impl Stream<Item = Result<RecordBatch>> + Send {
    stream::try_unfold((input, false), move |(mut input, is_over)| {
        let schema = schema.clone();
        async move {
            let (mut rows, mut is_over) = (0, is_over);
            while rows < most && !is_over {
                match input.try_next().await? {
                    Some(batch) => rows += batch.num_rows(),
                    None => is_over = true,
                }
            }
            if rows == 0 {
                return Ok(None);
            }
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            Ok(Some((RecordBatch::try_new_with_options(schema, Vec::new(), &options)?, (input, is_over))))
        }
    })
}

/// Lengths of slices.
#[derive(Debug, Clone, Copy)]
struct Rows {
    first: usize,
    least: usize,
    most: usize,
    /// Number of copies an operator makes of values computed per row.
    copies: usize,
}

/// The input of an operator in slices that each take it about [`SLICE`].
#[derive(Debug, Clone)]
struct Sliced {
    input: Arc<dyn ExecutionPlan>,
    rows: Rows,
}

passes!(Sliced);

impl Sliced {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        Ok(Box::pin(Slices::new(input, self.rows)))
    }
}

/// Splits batches into slices: as many rows as their reader processed in one time slice.
struct Slices {
    input: SendableRecordBatchStream,
    rest: Option<RecordBatch>,
    rows: usize,
    least: usize,
    most: usize,
    copies: usize,
    /// Peak bytes reserved by functions for the last slice.
    peak: Arc<AtomicUsize>,
    /// The rows for which functions reserve [`RESERVED_BYTES`].
    fit: usize,
    /// Processor time when the last slice was returned, and its row count.
    given: Option<(Computed, usize)>,
    /// Start of the task's current time slice.
    since: Option<Instant>,
}

/// Processor time of a thread: waiting, for example for a client, must not shorten slices.
struct Computed {
    thread: ThreadId,
    time: Duration,
}

impl Computed {
    fn now() -> Self {
        Self { thread: thread::current().id(), time: ThreadTime::now().as_duration() }
    }

    /// `None` if the task has moved to another thread.
    fn elapsed(&self) -> Option<Duration> {
        let now = Self::now();
        (now.thread == self.thread).then(|| now.time.saturating_sub(self.time))
    }
}

impl Slices {
    fn new(input: SendableRecordBatchStream, Rows { first, least, most, copies }: Rows) -> Self {
        let (peak, fit) = (Arc::default(), usize::MAX);
        Self { input, rest: None, rows: first, least, most, copies, peak, fit, given: None, since: None }
    }

    /// Adapts the row count to one time slice. A rest of a batch gives no reason for longer slices.
    fn learn(&mut self, took: Duration, rows: usize) {
        if took > SLICE {
            let fit = rows as f64 * SLICE.div_duration_f64(took);
            self.rows = (fit as usize).max(self.least);
        } else if took < SLICE / 4 && rows >= self.rows {
            self.rows = self.rows.saturating_mul(4).min(self.most);
        } else {
            self.rows = self.rows.max(self.least);
        }
    }

    /// Limits the rows of the next slices by the bytes that functions reserved for the last slice.
    fn fit(&mut self, rows: usize) {
        let peak = self.peak.swap(0, Relaxed).saturating_mul(self.copies);
        if peak > RESERVED_BYTES {
            self.fit = (rows as f64 * RESERVED_BYTES as f64 / peak as f64) as usize;
            self.fit = self.fit.max(1);
        } else if peak < RESERVED_BYTES / 4 && rows >= self.fit {
            self.fit = self.fit.saturating_mul(2);
        }
    }
}

/// Copies a slice: an operator that holds a slice holds all memory of its batch; a copy holds only its own rows.
fn copy(slice: &RecordBatch) -> Result<RecordBatch> {
    if slice.num_columns() == 0 {
        return Ok(slice.clone()); // only a row count, which a copy by column would lose
    }
    let rows = u32::try_from(slice.num_rows()).map_err(|e| DataFusionError::External(e.into()))?;
    Ok(take_record_batch(slice, &UInt32Array::from_iter_values(0..rows))?)
}

impl Stream for Slices {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // The reader now owns the results it computed from the last slice.
        budget::settle();
        if let Some((given, rows)) = self.given.take() {
            self.fit(rows);
            if let Some(took) = given.elapsed() {
                self.learn(took, rows);
            }
        }
        let now = Instant::now();
        if now.saturating_duration_since(*self.since.get_or_insert(now)) > SLICE {
            self.since = None;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let (batch, is_part) = match self.rest.take() {
            Some(rest) => (rest, true),
            None => match self.input.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(batch))) => (batch, false),
                Poll::Pending => {
                    self.since = None;
                    return Poll::Pending;
                }
                other => return other,
            },
        };
        let rows = batch.num_rows().min(self.rows).min(self.fit);
        let left = batch.num_rows() - rows;
        self.rest = (left > 0).then(|| batch.slice(rows, left));
        let slice = if is_part || left > 0 { copy(&batch.slice(0, rows))? } else { batch };
        self.given = Some((Computed::now(), rows));
        budget::record_peak(&self.peak);
        Poll::Ready(Some(Ok(slice)))
    }
}

impl RecordBatchStream for Slices {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}

#[cfg(test)]
mod tests {
    use arrow::{array::Int64Array, compute::concat_batches};
    use datafusion::{execution::SessionStateBuilder, prelude::SessionContext};
    use futures::future;

    use super::*;

    const BATCH: i64 = 8_192;

    fn batches(count: i64) -> Vec<RecordBatch> {
        let batch = |n| {
            let rows = Int64Array::from_iter_values(n * BATCH..(n + 1) * BATCH);
            RecordBatch::try_from_iter([("n", Arc::new(rows) as _)]).unwrap()
        };
        (0..count).map(batch).collect()
    }

    /// Returns the slices of `count` batches if their reader runs `read` on each, and how often the task yielded.
    async fn slices(count: i64, rows: Rows, read: impl Fn(&RecordBatch)) -> (Vec<RecordBatch>, usize) {
        let whole = batches(count);
        let schema = whole[0].schema();
        let input = stream::iter(whole.clone().into_iter().map(Ok));
        let input = Box::pin(RecordBatchStreamAdapter::new(schema.clone(), input));
        let mut slices = Slices::new(input, rows);
        let (mut got, mut gave_way) = (Vec::new(), 0);
        future::poll_fn(|cx| {
            loop {
                match slices.poll_next_unpin(cx) {
                    Poll::Ready(Some(slice)) => {
                        let slice = slice.unwrap();
                        read(&slice);
                        got.push(slice);
                    }
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => {
                        gave_way += 1;
                        return Poll::Pending;
                    }
                }
            }
        })
        .await;
        assert_eq!(concat_batches(&schema, &got).unwrap(), concat_batches(&schema, &whole).unwrap());
        (got, gave_way)
    }

    fn compute(time: Duration) {
        let began = ThreadTime::now();
        while began.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    #[tokio::test]
    async fn slices_fill_one_time_slice_and_hold_only_their_rows() {
        // 1000 rows take one time slice.
        let (slices, gave_way) = slices(4, COMPUTED, |slice| compute(SLICE * slice.num_rows() as u32 / 1_000)).await;
        let longest = slices.iter().skip(1).map(RecordBatch::num_rows).max().unwrap();
        assert!((COMPUTED.least..2_000).contains(&longest), "{longest} rows");
        assert!(gave_way >= slices.len() / 5, "{gave_way} times in {} slices", slices.len());
        for slice in slices.iter().filter(|slice| slice.num_rows() < 2_000) {
            assert!(slice.get_array_memory_size() < 4_000 * size_of::<i64>(), "{}", slice.get_array_memory_size());
        }
    }

    #[tokio::test]
    async fn no_slice_is_shorter_than_the_least() {
        let (slices, _) = slices(2, COMPUTED, |slice| compute(SLICE * slice.num_rows() as u32 / 100)).await;
        let short = slices.iter().filter(|slice| slice.num_rows() < COMPUTED.least);
        assert!(short.count() <= 2, "but for the end of a batch");
    }

    #[tokio::test]
    async fn a_waiting_reader_gets_whole_batches() {
        let (slices, _) = slices(6, COMPUTED, |_| thread::sleep(SLICE * 2)).await;
        assert_eq!(slices.last().unwrap().num_rows(), BATCH as usize);
        assert!(slices.len() <= 6 + 4, "{} slices", slices.len());
    }

    #[tokio::test]
    async fn operators_that_call_functions_read_slices_and_others_whole_batches() {
        let state =
            SessionStateBuilder::new_with_default_features().with_physical_optimizer_rule(Arc::new(YieldWithinBatches));
        let context = SessionContext::new_with_state(state.build());
        context.register_batch("t", batches(1).remove(0)).unwrap();
        for (sql, sliced) in [
            ("select n + 1 from t where n % 2 = 0", false),
            ("select sum(n) from t group by n % 7", false),
            ("select md5(cast(n as varchar)) from t", true),
            ("select count(*) from t where cast(n as varchar) ~ '7'", true),
            ("select count(*) from t where cast(n as varchar) like '%7%8%'", true),
            ("select sum(length(cast(n as varchar))) from t", true),
        ] {
            let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let shown = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
            assert_eq!(shown.contains("Sliced"), sliced, "{sql}\n{shown}");
        }
        for sql in ["select max(make_array(n, 1)) from t where n < 10", "select n from t order by n % 7 limit 9"] {
            let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let shown = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
            assert!(shown.contains("Paced") || shown.contains("Sliced"), "{sql}\n{shown}");
        }
    }
}
