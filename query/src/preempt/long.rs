//! Finds plans that may compute for long in one poll: they run on their own threads.
//!
//! DataFusion's operators yield between batches. An aggregation emits all of its groups in one poll, a window function
//! a whole partition. With large values or many groups such a poll takes tenths of a second, and would block all other
//! requests on the threads that serve connections.

use std::sync::Arc;

use datafusion::{
    common::Result,
    physical_plan::{
        ExecutionPlan,
        aggregates::AggregateExec,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec},
        recursive_query::RecursiveQueryExec,
        unnest::UnnestExec,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};

use super::wide::has_large_values;
use crate::levels::SeriesAggregate;

/// Whether an operator of the plan may compute for long in one poll. Filters and sorts do not, nor do aggregates
/// computed by a [`SeriesAggregate`]: their groups are few.
///
/// # Errors
/// Those of walking the plan; not expected.
pub(crate) fn computes_long(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    Ok(has_long_operator(plan) || has_large_values(plan)?)
}

fn has_long_operator(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_long = plan
        .downcast_ref::<AggregateExec>()
        .is_some_and(|aggregate| !aggregate.group_expr().expr().is_empty() && !is_of_series(aggregate.input()))
        || plan.is::<WindowAggExec>()
        || plan.is::<BoundedWindowAggExec>()
        || plan.is::<RecursiveQueryExec>()
        || plan.is::<UnnestExec>()
        || plan.is::<CrossJoinExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<SortMergeJoinExec>();
    is_long || plan.children().into_iter().any(has_long_operator)
}

/// Whether the input of an aggregation is a [`SeriesAggregate`], below only operators with one input.
fn is_of_series(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<SeriesAggregate>() || matches!(plan.children()[..], [input] if is_of_series(input))
}
