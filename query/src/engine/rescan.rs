//! The same plan over another scan: what was planned for one query serves the next one of its shape.

use std::sync::Arc;

use datafusion::{
    common::Result,
    physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions},
};

use crate::{
    levels::SeriesAggregate,
    preempt::{Divided, UNDIVIDED_ROWS, most_rows},
    scan::SeriesScan,
};

/// A plan that reads one table, with a scan of other rows of it in place of its own.
///
/// `None` where it reads in several places, or where the new scan cannot stand in that place: it is divided into another
/// number of partitions, or not all of it can be aggregated by the levels, or one of both reads so much that aggregations of it
/// may have to be [divided](Divided). Then the query has to be planned anew.
///
/// # Errors
/// DataFusion's.
pub(super) fn with_scan(
    plan: &Arc<dyn ExecutionPlan>,
    scan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if plan.is::<Divided>() {
        return Ok(None);
    }
    let child = match plan.children().as_slice() {
        [] => return leaf(plan, scan),
        [child] => with_scan(child, scan)?,
        _ => None,
    };
    // All that a plan knows of a scan is its schema and the number of its partitions.
    let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    child.map(|child| plan.clone().replace_children(vec![child], keep)).transpose()
}

fn leaf(plan: &Arc<dyn ExecutionPlan>, scan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let new = match plan.downcast_ref::<SeriesAggregate>() {
        Some(aggregate) => aggregate.with_scan(scan)?,
        None => plan.is::<SeriesScan>().then(|| scan.clone()),
    };
    let partitions = |plan: &Arc<dyn ExecutionPlan>| plan.properties().partitioning.partition_count();
    Ok(new.filter(|new| partitions(new) == partitions(plan) && most_rows(new) <= UNDIVIDED_ROWS.max(most_rows(plan))))
}
