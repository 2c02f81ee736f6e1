//! A chain of plan nodes, each with one input, over another scan.

use std::sync::Arc;

use datafusion::{
    common::Result,
    physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions},
};

/// The same chain with `leaf` of its leaf in place of that leaf; `None` where `leaf` gives none, or a node has several inputs.
///
/// The nodes keep their properties, so the new leaf has to have the schema and the number of partitions of the old one.
///
/// # Errors
/// DataFusion's, and those of `leaf`.
pub(crate) fn over_leaf(
    plan: &Arc<dyn ExecutionPlan>,
    leaf: &dyn Fn(&Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>>,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let child = match plan.children().as_slice() {
        [] => return leaf(plan),
        [child] => over_leaf(child, leaf)?,
        _ => None,
    };
    let keep = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep);
    child.map(|child| plan.clone().replace_children(vec![child], keep)).transpose()
}

/// The number of partitions of a plan.
pub(crate) fn partitions(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.properties().partitioning.partition_count()
}
