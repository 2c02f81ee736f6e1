//! The optimizer rule that has a scan read the first rows of a sort by time first.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    physical_expr::expressions::Column,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan, coop::CooperativeExec, projection::ProjectionExec, repartition::RepartitionExec,
        sorts::sort::SortExec,
    },
};

use super::First;
use crate::scan::{OutputColumn, SeriesScan, over_leaf};

/// Maximum number of rows: a scan holds their times in memory.
const MOST: usize = 1 << 16;

/// Finds sorts by time with a limit over a scan. Runs after the rules that move sorts and limits.
#[derive(Debug, Default)]
pub(crate) struct ReadFirstRows;

impl ReadFirstRows {
    fn rewrite(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let Some(sort) = node.downcast_ref::<SortExec>() else { return Ok(Transformed::no(node)) };
        let Some(rows) = sort.fetch().filter(|rows| *rows <= MOST) else { return Ok(Transformed::no(node)) };
        let key = sort.expr().first();
        let Some(scan) = scan_by_time(sort.input(), key.expr.downcast_ref::<Column>().map(Column::index)) else {
            return Ok(Transformed::no(node));
        };
        let first = First { rows, descending: key.options.descending, ties: sort.expr().len() > 1 };
        let scan: Arc<dyn ExecutionPlan> = Arc::new(scan.with_first(Some(first)));
        let replaced = over_leaf(&node, &|leaf| Ok(leaf.is::<SeriesScan>().then(|| scan.clone())))?;
        Ok(replaced.map_or(Transformed::no(node), Transformed::yes))
    }
}

/// The scan below `plan` if it returns all rows of the scan, and column `at` is their time.
fn scan_by_time(plan: &Arc<dyn ExecutionPlan>, at: Option<usize>) -> Option<&SeriesScan> {
    let at = at?;
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let column = projection.expr().get(at)?.expr.downcast_ref::<Column>()?;
        return scan_by_time(projection.input(), Some(column.index()));
    }
    if plan.is::<CooperativeExec>() || plan.is::<RepartitionExec>() {
        return scan_by_time(plan.children().first()?, Some(at));
    }
    let scan = plan.downcast_ref::<SeriesScan>().filter(|scan| scan.limit().is_none())?;
    let is_time = matches!(scan.output().get(at)?, OutputColumn::Data(of) if scan.columns().time() == Some(*of));
    is_time.then_some(scan)
}

impl PhysicalOptimizerRule for ReadFirstRows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(Self::rewrite).data()
    }

    fn name(&self) -> &str {
        "read_first_rows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
