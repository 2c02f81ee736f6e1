//! Counts rows that operators hold, and that DataFusion does not count, in the memory for queries.
//!
//! Window operators keep the rows of their input until the last row of a window or frame has come, and reserve nothing for them:
//! `count(*) OVER ()` over a large table took as much memory as the table has. Joins reserve the batches of the side that they build
//! from, and then put them together into one batch: for a moment they have them twice.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        internal_err,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions,
        joins::{CrossJoinExec, HashJoinExec},
        stream::RecordBatchStreamAdapter,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};
use futures::StreamExt;
use parking_lot::Mutex;

use super::passing::passes;

/// A window operator has the rows of its input as they came, and puts them together into one batch.
const COPIES: usize = 2;
/// Bytes that the result of a window function takes for one row, about.
const RESULT_BYTES: usize = 16;

/// Puts a [`CountedWindow`] over each window operator, and a [`CountedTwice`] under each join, where it builds from.
#[derive(Debug)]
pub(crate) struct CountHeldRows;

impl PhysicalOptimizerRule for CountHeldRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let count = |node: Arc<dyn ExecutionPlan>| {
            if functions_of(node.as_ref()).is_some() {
                return Ok(Transformed::yes(Arc::new(CountedWindow { input: node }) as Arc<dyn ExecutionPlan>));
            }
            if !builds(node.as_ref()) {
                return Ok(Transformed::no(node));
            }
            let mut inputs: Vec<Arc<dyn ExecutionPlan>> = node.children().into_iter().cloned().collect();
            if let Some(built) = inputs.first_mut() {
                *built = Arc::new(CountedTwice { input: built.clone() });
            }
            with_inputs(node, inputs).map(Transformed::yes)
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

/// The number of window functions of a window operator; `None` for another node.
fn functions_of(node: &dyn ExecutionPlan) -> Option<usize> {
    match (node.downcast_ref::<WindowAggExec>(), node.downcast_ref::<BoundedWindowAggExec>()) {
        (Some(window), _) => Some(window.window_expr().len()),
        (_, Some(window)) => Some(window.window_expr().len()),
        _ => None,
    }
}

/// Whether it collects its first input into one batch. Nested loops do too, but read their input again where memory is short, which a
/// repartitioned one does not survive (`partition not used yet`, in DataFusion 55.2): they had better not run short earlier.
fn builds(node: &dyn ExecutionPlan) -> bool {
    node.downcast_ref::<CrossJoinExec>().is_some() || node.downcast_ref::<HashJoinExec>().is_some()
}

fn with_inputs(node: Arc<dyn ExecutionPlan>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    node.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// The input that a join builds from: its batches are reserved until the last one has come, beside what the join reserves.
#[derive(Debug, Clone)]
struct CountedTwice {
    input: Arc<dyn ExecutionPlan>,
}

passes!(CountedTwice);

impl CountedTwice {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let copies = MemoryConsumer::new(format!("copy of a join's rows[{partition}]")).register(context.memory_pool());
        let rows = self
            .input
            .execute(partition, context)?
            .map(move |batch| batch.and_then(|batch| copies.try_grow(batch.get_array_memory_size()).map(|()| batch)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// A window operator whose rows are counted between its input and its output.
#[derive(Debug, Clone)]
struct CountedWindow {
    /// The window operator.
    input: Arc<dyn ExecutionPlan>,
}

passes!(CountedWindow);

impl CountedWindow {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (Some(functions), [rows]) = (functions_of(self.input.as_ref()), &self.input.children()[..]) else {
            return internal_err!("a window operator has one input, found {}", self.input.name());
        };
        let reservation = MemoryConsumer::new(format!("rows of a window[{partition}]")).register(context.memory_pool());
        let held = Arc::new(Mutex::new(Held { reservation, functions, rows: 0, bytes: 0, left: 0 }));
        let coming = rows.execute(partition, context.clone())?.map({
            let held = held.clone();
            move |batch| batch.and_then(|batch| held.lock().take(&batch).map(|()| batch))
        });
        let coming = RecordBatchStreamAdapter::new(rows.schema(), coming);
        let coming = Coming { stream: Arc::new(Mutex::new(Some(Box::pin(coming)))), input: (*rows).clone() };
        let going = with_inputs(self.input.clone(), vec![Arc::new(coming)])?
            .execute(partition, context)?
            .map(move |batch| batch.inspect(|batch| held.lock().give(batch.num_rows())));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), going)))
    }
}

/// The rows that a window operator has taken and not put out.
struct Held {
    reservation: MemoryReservation,
    functions: usize,
    /// Rows that have come, and their bytes.
    rows: usize,
    bytes: usize,
    /// Rows that have left.
    left: usize,
}

impl Held {
    fn take(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        for column in batch.columns() {
            self.bytes += column.to_data().get_slice_memory_size()?;
        }
        self.reservation.try_resize(self.reserved())
    }

    fn give(&mut self, rows: usize) {
        self.left += rows;
        let reserved = self.reserved().min(self.reservation.size());
        self.reservation.resize(reserved);
    }

    /// Bytes of the rows that are here, as rows of the average size.
    fn reserved(&self) -> usize {
        let here = self.rows.saturating_sub(self.left);
        let each = COPIES * self.bytes / self.rows.max(1) + RESULT_BYTES * self.functions;
        here.saturating_mul(each)
    }
}

/// A stream in the place of the node that it comes from, for one execution of one partition.
#[derive(Clone)]
struct Coming {
    stream: Arc<Mutex<Option<SendableRecordBatchStream>>>,
    /// The node that it comes from.
    input: Arc<dyn ExecutionPlan>,
}

impl std::fmt::Debug for Coming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coming").field("input", &self.input).finish_non_exhaustive()
    }
}

passes!(Coming);

impl Coming {
    fn stream(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.stream.lock().take() {
            Some(stream) => Ok(stream),
            None => internal_err!("the input of a window operator is read once"),
        }
    }
}
