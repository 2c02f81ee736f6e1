//! The same plan over another scan: what was planned for one query serves the next one of its shape.

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

/// A plan that reads one table, with a scan of other rows of it in place of its own.
///
/// `None` where it reads in several places, or where the new scan cannot stand in that place: it is divided into another
/// number of partitions, or not all of it can be aggregated by the levels, or one of both reads so much that aggregations of it
/// may have to be [divided](Divided), as those of overlapping windows may. Then the query has to be planned anew.
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
            None => leaf.is::<SeriesScan>().then(|| scan.clone()),
        };
        let most = UNDIVIDED_ROWS.max(most_rows(leaf));
        Ok(new.filter(|new| partitions(new) == partitions(leaf) && most_rows(new) <= most))
    })
}
