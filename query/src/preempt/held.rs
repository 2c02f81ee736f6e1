//! Counts rows that operators hold but DataFusion does not count, in the memory for queries.
//!
//! Window operators keep their input rows until the last row of a window or frame arrives, and reserve nothing for
//! them: `count(*) OVER ()` over a large table used as much memory as the table. Joins reserve the batches of the build
//! side and then concatenate them into one batch: for a moment they hold them twice. A recursion of distinct rows adds
//! a batch to its hash table, whose buffers double as they grow, and reserves the memory only afterwards. An
//! aggregation does the same with the keys that it makes of a batch, one per row and grouping set.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use arrow::array::{Array, RecordBatch};
use datafusion::{
    common::{
        Result, ScalarValue,
        config::ConfigOptions,
        internal_err,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::window::WindowExpr,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        aggregates::AggregateExec,
        execution_plan::reset_plan_states,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec},
        recursive_query::RecursiveQueryExec,
        stream::RecordBatchStreamAdapter,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};
use futures::StreamExt;
use parking_lot::Mutex;

use super::{
    passing::{passes, with_extension, with_input},
    wide::key_bytes,
};
use crate::{budget, pace::paced};

/// A window operator holds its input batches, and concatenates them into one.
const COPIES: usize = 2;
/// Bytes of a batch struct in the list of batches, which doubles as it grows; a batch may have no columns.
const BATCH_BYTES: usize = 2 * size_of::<RecordBatch>();
/// Approximate bytes per row of a window function's result column.
const RESULT_BYTES: usize = 16;

/// A growing hash table of distinct rows holds its old buffers and new ones of twice the size.
const GROWTH: usize = 2;

/// Keys of one row for all grouping sets below this size are not reserved beforehand.
const SMALL_KEYS: u64 = 1 << 20;

/// Wraps each window operator in [`CountedRows`], each aggregation with large keys per row in [`GroupingSets`] and each
/// recursion of distinct rows in [`Distinct`], and puts a [`BuiltFrom`] under each join that builds from its first
/// input.
#[derive(Debug)]
pub(crate) struct CountHeldRows;

impl PhysicalOptimizerRule for CountHeldRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let count = |node: Arc<dyn ExecutionPlan>| {
            if functions_of(node.as_ref()).is_some() {
                let input = with_input(node, 0, |input| Arc::new(TakenRows { input }))?;
                return Ok(Transformed::yes(Arc::new(CountedRows { input }) as Arc<dyn ExecutionPlan>));
            }
            if node.downcast_ref::<RecursiveQueryExec>().is_some_and(RecursiveQueryExec::is_distinct) {
                let node = with_input(node, 0, |input| Arc::new(TakenDistinct { input }))?;
                let input = with_input(node, 1, |input| Arc::new(TakenDistinct { input }))?;
                return Ok(Transformed::yes(Arc::new(Distinct { input }) as Arc<dyn ExecutionPlan>));
            }
            if let Some(bytes) = node.downcast_ref::<AggregateExec>().map(key_bytes).filter(|bytes| *bytes > SMALL_KEYS)
            {
                let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                return Ok(Transformed::yes(Arc::new(GroupingSets { input: node, bytes })));
            }
            let is_read_again = node.is::<NestedLoopJoinExec>();
            if !is_read_again && !node.is::<CrossJoinExec>() && !node.is::<HashJoinExec>() {
                return Ok(Transformed::no(node));
            }
            let was_read = WasRead::default();
            with_input(node, 0, |input| Arc::new(BuiltFrom { input, is_read_again, was_read })).map(Transformed::yes)
        };
        plan.transform_up(count).data()
    }

    fn name(&self) -> &str {
        "count_held_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The functions that a window operator computes per input row.
#[derive(Clone, Copy)]
struct Functions {
    count: usize,
    /// Whether results of any function are scalar values before they form a column: if rows have their own frames.
    are_values: bool,
}

/// The functions of a window operator; `None` for another node.
fn functions_of(node: &dyn ExecutionPlan) -> Option<Functions> {
    let functions = match (node.downcast_ref::<WindowAggExec>(), node.downcast_ref::<BoundedWindowAggExec>()) {
        (Some(window), _) => window.window_expr(),
        (_, Some(window)) => window.window_expr(),
        _ => return None,
    };
    let has_frames = |function: &Arc<dyn WindowExpr>| {
        let frame = function.get_window_frame();
        !frame.start_bound.is_unbounded() || !frame.end_bound.is_unbounded()
    };
    Some(Functions { count: functions.len(), are_values: functions.iter().any(has_frames) })
}

/// An aggregation with large keys: reserves those of one row before the first row arrives.
#[derive(Debug, Clone)]
struct GroupingSets {
    /// The aggregation.
    input: Arc<dyn ExecutionPlan>,
    bytes: usize,
}

passes!(GroupingSets);

impl GroupingSets {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let keys = MemoryConsumer::new(format!("keys of grouping sets[{partition}]")).register(context.memory_pool());
        keys.try_grow(self.bytes)?;
        let rows = self.input.execute(partition, context)?.inspect(move |_| {
            let _held = &keys;
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// The build side of a join: its batches are reserved until the last one arrives, in addition to the join's own
/// reservation.
///
/// Nested-loop joins read it a second time if memory runs short, to write it to disk. A repartitioned input can be
/// executed only once (it panics with `partition not used yet`, in DataFusion 55.2), so the second time a fresh copy is
/// executed.
#[derive(Debug, Clone)]
struct BuiltFrom {
    input: Arc<dyn ExecutionPlan>,
    is_read_again: bool,
    was_read: WasRead,
}

passes!(BuiltFrom);

impl BuiltFrom {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if self.is_read_again && self.was_read.0.swap(true, Relaxed) {
            return reset_plan_states(self.input.clone())?.execute(partition, context);
        }
        let copies = MemoryConsumer::new(format!("copy of a join's rows[{partition}]")).register(context.memory_pool());
        let rows = paced(self.input.execute(partition, context)?).map(move |batch| {
            let batch = batch?;
            copies.try_grow(batch.get_array_memory_size() + BATCH_BYTES)?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Whether a plan has been executed; a copy starts unexecuted.
#[derive(Debug, Default)]
struct WasRead(AtomicBool);

impl Clone for WasRead {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A recursion of distinct rows. Memory for the growth of its hash table is reserved before a batch is added to the
/// table, and released when the new rows of that batch are emitted.
#[derive(Debug, Clone)]
struct Distinct {
    /// The recursion.
    input: Arc<dyn ExecutionPlan>,
}

passes!(Distinct);

/// Growth of a recursion's hash table.
struct Growing {
    reservation: MemoryReservation,
    /// Bytes of the distinct rows so far.
    bytes: usize,
}

impl Distinct {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reservation = MemoryConsumer::new("growth of a recursion's hash table").register(context.memory_pool());
        let growing = Arc::new(Mutex::new(Growing { reservation, bytes: 0 }));
        let rows = self.input.execute(partition, with_extension(&context, growing.clone()))?.map(move |batch| {
            let batch = batch?;
            let mut growing = growing.lock();
            growing.bytes += bytes_of(&batch)?;
            growing.reservation.free();
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// A term of a recursion of distinct rows.
#[derive(Debug, Clone)]
struct TakenDistinct {
    input: Arc<dyn ExecutionPlan>,
}

passes!(TakenDistinct);

impl TakenDistinct {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(growing) = context.session_config().get_extension::<Mutex<Growing>>() else {
            return internal_err!("the operator above a recursion does not count its rows");
        };
        let rows = self.input.execute(partition, context)?.map(move |batch| {
            let batch = batch?;
            let growing = growing.lock();
            growing.reservation.try_resize(GROWTH * (growing.bytes + bytes_of(&batch)?))?;
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// Bytes of the rows of a batch, including memory shared with other batches.
fn bytes_of(batch: &RecordBatch) -> Result<usize> {
    let columns = batch.columns().iter().map(|column| Ok(column.to_data().get_slice_memory_size()?));
    columns.sum()
}

/// A window operator whose rows are counted from input to output.
#[derive(Debug, Clone)]
struct CountedRows {
    /// The window operator.
    input: Arc<dyn ExecutionPlan>,
}

passes!(CountedRows);

impl CountedRows {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(functions) = functions_of(self.input.as_ref()) else {
            return internal_err!("expected a window operator, found {}", self.input.name());
        };
        let reservation =
            |what| MemoryConsumer::new(format!("{what} of a window[{partition}]")).register(context.memory_pool());
        let held = Held {
            rows_here: reservation("rows"),
            results: reservation("results"),
            functions,
            rows: 0,
            bytes: 0,
            left: 0,
        };
        let held = Arc::new(Mutex::new(held));
        let going = self
            .input
            .execute(partition, with_extension(&context, held.clone()))?
            .map(move |batch| batch.and_then(|batch| held.lock().give(&batch).map(|()| batch)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), going)))
    }
}

/// The input of a window operator.
#[derive(Debug, Clone)]
struct TakenRows {
    input: Arc<dyn ExecutionPlan>,
}

passes!(TakenRows);

impl TakenRows {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(held) = context.session_config().get_extension::<Mutex<Held>>() else {
            return internal_err!("the operator above the input of a window does not count its rows");
        };
        let coming = paced(self.input.execute(partition, context)?)
            .map(move |batch| batch.and_then(|batch| held.lock().take(&batch).map(|()| batch)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), coming)))
    }
}

/// Rows that a window operator has read and not yet emitted, and the results it has just emitted.
struct Held {
    rows_here: MemoryReservation,
    results: MemoryReservation,
    functions: Functions,
    /// Input rows so far, and their bytes.
    rows: usize,
    bytes: usize,
    /// Output rows so far.
    left: usize,
}

impl Held {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        self.bytes += bytes_of(batch)?;
        self.rows_here.try_resize(self.reserved())
    }

    fn give(&mut self, batch: &RecordBatch) -> Result<()> {
        self.left += batch.num_rows();
        let reserved = self.reserved().min(self.rows_here.size());
        self.rows_here.resize(reserved);
        // The functions have counted their results up to here.
        budget::settle();
        let mut bytes = 0;
        for column in batch.columns().iter().rev().take(self.functions.count) {
            if !column.data_type().is_primitive() {
                bytes += column.to_data().get_slice_memory_size()?;
            }
        }
        self.results.try_resize(bytes)
    }

    /// Bytes of the rows held, estimated by the average row size.
    fn reserved(&self) -> usize {
        let here = self.rows.saturating_sub(self.left);
        let Functions { count, are_values } = self.functions;
        let value = if are_values { size_of::<ScalarValue>() } else { 0 };
        let each = COPIES * self.bytes / self.rows.max(1) + RESULT_BYTES * count + value;
        here.saturating_mul(each)
    }
}
