//! Replaces the scan of a physical plan, so that a plan made for one query serves the next query of the same shape.

use std::sync::Arc;

use datafusion::{
    common::{Result, tree_node::TreeNode},
    physical_plan::ExecutionPlan,
};

use crate::{
    levels::SeriesAggregate,
    plan::AssignWindowsExec,
    preempt::{Divided, UNDIVIDED_ROWS, most_rows},
    scan::{SeriesScan, over_leaf, partitions},
};

/// Replaces the scan of a plan that reads one table by a scan of other rows of that table.
///
/// Returns `None`, and the query must be planned anew, when the plan has several scans; when the new scan has a different number
/// of partitions; when the levels cannot aggregate all of the new scan; or when aggregations of the old or the new scan may have
/// to be [partitioned](Divided), as those over overlapping windows may.
///
/// # Errors
/// DataFusion's.
pub(super) fn with_scan(
    plan: &Arc<dyn ExecutionPlan>,
    scan: &Arc<dyn ExecutionPlan>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    // Overlapping windows multiply the rows of the scan.
    if plan.exists(|node| Ok(node.is::<Divided>() || node.is::<AssignWindowsExec>()))? {
        return Ok(None);
    }
    over_leaf(plan, &|leaf| {
        let new = match leaf.downcast_ref::<SeriesAggregate>() {
            Some(aggregate) => aggregate.with_scan(scan)?,
            None => match (leaf.downcast_ref::<SeriesScan>(), scan.downcast_ref::<SeriesScan>()) {
                (Some(old), Some(new)) => new.like(old)?.map(|new| Arc::new(new) as _),
                (Some(_), None) => Some(scan.clone()),
                (None, _) => None,
            },
        };
        let most = UNDIVIDED_ROWS.max(most_rows(leaf));
        Ok(new.filter(|new| partitions(new) == partitions(leaf) && most_rows(new) <= most))
    })
}
