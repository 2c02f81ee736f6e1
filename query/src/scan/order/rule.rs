//! The optimizer rule that replaces a sort by tags and time by a scan in that order, and window functions over such a scan.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    physical_expr::{LexOrdering, PhysicalSortExpr, expressions::Column},
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, ExecutionPlan, Partitioning, ReplaceChildrenOptions, coop::CooperativeExec,
        filter::FilterExec, projection::ProjectionExec, repartition::RepartitionExec, sorts::sort::SortExec,
    },
};

use super::windows;
use crate::scan::SeriesScan;

/// Runs after the rules that add sorts and distribute rows.
#[derive(Debug, Default)]
pub(crate) struct ReadInOrder;

impl PhysicalOptimizerRule for ReadInOrder {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let rewrite = |node: Arc<dyn ExecutionPlan>| {
            let Some(sort) = node.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_none()) else {
                return Ok(Transformed::no(node));
            };
            let partitions = node.properties().partitioning.partition_count();
            let sorted = in_order(sort.input(), sort.expr(), partitions, None)?;
            Ok(sorted.map_or(Transformed::no(node), Transformed::yes))
        };
        let sorted = plan.transform_up(rewrite).data()?;
        sorted.transform_up(windows::rewrite).data()
    }

    fn name(&self) -> &str {
        "read_in_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The plan with its scan in the order of `keys` and in `partitions` partitions; `None` if that is not possible. Rows with equal
/// values of the first `together` keys are in one partition.
fn in_order(
    plan: &Arc<dyn ExecutionPlan>,
    keys: &LexOrdering,
    partitions: usize,
    together: Option<usize>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<SeriesScan>() {
        return Ok(scan.in_order(keys, partitions, together)?.map(|scan| Arc::new(scan) as _));
    }
    let [input] = plan.children()[..] else { return Ok(None) };
    if let Some(repartition) = plan.downcast_ref::<RepartitionExec>() {
        let together = match repartition.partitioning() {
            Partitioning::RoundRobinBatch(_) => together,
            Partitioning::Hash(by, _) => {
                let first = &keys[..by.len().min(keys.len())];
                let are_first = first.iter().all(|key| by.contains(&key.expr))
                    && by.iter().all(|expr| first.iter().any(|key| key.expr.eq(expr)));
                if together.is_some() || !are_first {
                    return Ok(None);
                }
                Some(first.len())
            }
            _ => return Ok(None),
        };
        return in_order(input, keys, partitions, together);
    }
    let of_input = if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let mapped = keys.iter().map(|key| {
            let at = key.expr.downcast_ref::<Column>()?.index();
            let expr = projection.expr().get(at)?.expr.clone();
            expr.is::<Column>().then_some(PhysicalSortExpr { expr, options: key.options })
        });
        let Some(mapped) = mapped.collect::<Option<Vec<_>>>() else { return Ok(None) };
        // Two keys may be the same column of the input.
        LexOrdering::new(mapped).filter(|mapped| mapped.len() == keys.len())
    } else if plan.is::<CooperativeExec>()
        || plan.downcast_ref::<FilterExec>().is_some_and(|filter| filter.projection().is_none())
    {
        Some(keys.clone())
    } else {
        None
    };
    let Some(of_input) = of_input else { return Ok(None) };
    let Some(input) = in_order(input, &of_input, partitions, together)? else { return Ok(None) };
    let recompute = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
    plan.clone().replace_children(vec![input], recompute).map(Some)
}
