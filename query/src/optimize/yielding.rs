//! Lets queries be stopped in the middle of what they compute.
//!
//! DataFusion gives way to other work, and so to deadlines and cancellation, after a number of batches, whatever is computed of
//! each: where a plan reads something else than our tables, and where batches come from another task, it does so by time here.
//! Joins can put out for hours what took a moment to read, or put out nothing for as long. A join or an unnest whose inputs are
//! in memory reads nothing, and what consumes it loops; a join whose condition keeps nothing does not even come back before it
//! has held a whole batch of one side against all of the other.

use std::{
    fmt,
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
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext},
    physical_expr::PhysicalExpr,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        coalesce_partitions::CoalescePartitionsExec,
        coop::CooperativeExec,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec},
        repartition::RepartitionExec,
        sorts::sort_preserving_merge::SortPreservingMergeExec,
        stream::RecordBatchStreamAdapter,
        unnest::UnnestExec,
    },
};
use futures::{Stream, StreamExt};

use super::SeriesAggregate;
use crate::{
    pace::{SLICE, paced},
    table::SeriesScan,
};

/// Makes every task of a plan give way between batches that take long, and every operator whose output can be many times its
/// input within what one batch of its input takes as well.
#[derive(Debug)]
pub(crate) struct GiveWay;

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

fn paces_itself(plan: &dyn ExecutionPlan) -> bool {
    plan.downcast_ref::<SeriesScan>().is_some() || plan.downcast_ref::<SeriesAggregate>().is_some()
}

/// Whether a task takes its batches from this: from another task, or from nowhere.
fn begins(plan: &dyn ExecutionPlan) -> bool {
    plan.downcast_ref::<RepartitionExec>().is_some()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some()
        || plan.downcast_ref::<SortPreservingMergeExec>().is_some()
        || (plan.children().is_empty() && !paces_itself(plan))
}

impl PhysicalOptimizerRule for GiveWay {
    fn name(&self) -> &str {
        "give_way"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrap = |plan: Arc<dyn ExecutionPlan>| {
            if begins(plan.as_ref()) {
                return Ok(Transformed::yes(Arc::new(InTime { input: plan, how: How::Paced }) as _));
            }
            if !multiplies(plan.as_ref()) {
                return Ok(Transformed::no(plan));
            }
            let mut plan = plan;
            if probes(plan.as_ref()) {
                let mut inputs: Vec<_> = plan.children().into_iter().cloned().collect();
                if let Some(probe) = inputs.get_mut(1) {
                    *probe = Arc::new(InTime { input: probe.clone(), how: How::Sliced });
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

/// What another operator gives, in pieces that take about [`SLICE`] each.
#[derive(Debug)]
struct InTime {
    input: Arc<dyn ExecutionPlan>,
    how: How,
}

#[derive(Debug, Clone, Copy)]
enum How {
    /// It gives way between its batches.
    Paced,
    /// Its batches are cut as well.
    Sliced,
}

impl DisplayAs for InTime {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for InTime {
    fn name(&self) -> &str {
        match self.how {
            How::Paced => "Paced",
            How::Sliced => "Sliced",
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.into_iter().next().unwrap_or_else(|| self.input.clone());
        Ok(Arc::new(Self { input, how: self.how }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        Ok(match self.how {
            How::Paced => Box::pin(RecordBatchStreamAdapter::new(input.schema(), paced(input))),
            How::Sliced => Box::pin(Slices { input, rest: None, rows: 1, given: None, yielded: Instant::now() }),
        })
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
