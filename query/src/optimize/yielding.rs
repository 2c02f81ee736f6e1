//! Lets queries be stopped inside joins: they can put out for hours what took a moment to read, or put out nothing for as
//! long.
//!
//! DataFusion gives way to other work, and so to deadlines and cancellation, where a plan reads. A join or an unnest
//! whose inputs are in memory reads nothing, and what consumes it loops; a join whose condition keeps nothing does not
//! even come back before it has held a whole batch of one side against all of the other.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions,
        coop::CooperativeExec,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec},
        unnest::UnnestExec,
    },
};
use futures::{Stream, StreamExt};

use super::passing::passes;
use crate::pace::SLICE;

/// Makes every operator whose output can be many times its input give way between batches, and within what one batch of its
/// input takes.
#[derive(Debug)]
pub(crate) struct YieldInJoins;

fn multiplies(plan: &dyn ExecutionPlan) -> bool {
    plan.downcast_ref::<CrossJoinExec>().is_some()
        || plan.downcast_ref::<NestedLoopJoinExec>().is_some()
        || plan.downcast_ref::<HashJoinExec>().is_some()
        || plan.downcast_ref::<SortMergeJoinExec>().is_some()
        || plan.downcast_ref::<UnnestExec>().is_some()
}

/// Whether it holds each batch of its second input against all of its first one.
fn probes(plan: &dyn ExecutionPlan) -> bool {
    plan.downcast_ref::<NestedLoopJoinExec>().is_some() || plan.downcast_ref::<HashJoinExec>().is_some()
}

impl PhysicalOptimizerRule for YieldInJoins {
    fn name(&self) -> &str {
        "yield_in_joins"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrap = |plan: Arc<dyn ExecutionPlan>| {
            if !multiplies(plan.as_ref()) {
                return Ok(Transformed::no(plan));
            }
            let mut plan = plan;
            if probes(plan.as_ref()) {
                let mut inputs: Vec<_> = plan.children().into_iter().cloned().collect();
                if let Some(probe) = inputs.get_mut(1) {
                    *probe = Arc::new(Sliced { input: probe.clone() });
                }
                plan = plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?;
            }
            Ok(Transformed::yes(Arc::new(CooperativeExec::new(plan)) as _))
        };
        plan.transform_up(wrap).data()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The input of a join in slices that take about [`SLICE`] each.
#[derive(Debug, Clone)]
struct Sliced {
    input: Arc<dyn ExecutionPlan>,
}

passes!(Sliced);

impl Sliced {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        Ok(Box::pin(Slices { input, rest: None, rows: 1, given: None, yielded: Instant::now() }))
    }
}

/// Slices of batches: as many rows as were held against the other side in the time that one may take, from one row on.
struct Slices {
    input: SendableRecordBatchStream,
    rest: Option<RecordBatch>,
    rows: usize,
    /// When the last slice was given.
    given: Option<Instant>,
    yielded: Instant,
}

impl Stream for Slices {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let now = Instant::now();
        if let Some(given) = self.given.take() {
            let took = now.saturating_duration_since(given);
            if took > SLICE {
                self.rows = (self.rows / 2).max(1);
            } else if took < SLICE / 4 {
                self.rows = self.rows.saturating_mul(4);
            }
        }
        if now.saturating_duration_since(self.yielded) > SLICE {
            self.yielded = now;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let batch = match self.rest.take() {
            Some(batch) => batch,
            None => match ready!(self.input.poll_next_unpin(cx)) {
                Some(Ok(batch)) => batch,
                other => return Poll::Ready(other),
            },
        };
        let slice = if batch.num_rows() > self.rows {
            self.rest = Some(batch.slice(self.rows, batch.num_rows() - self.rows));
            batch.slice(0, self.rows)
        } else {
            batch
        };
        self.given = Some(Instant::now());
        Poll::Ready(Some(Ok(slice)))
    }
}

impl RecordBatchStream for Slices {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
