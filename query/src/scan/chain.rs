//! Replaces the leaf of a chain of plan nodes, each with one input.

use std::sync::Arc;

use datafusion::{
    common::Result,
    physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions},
};

/// Rebuilds the chain with its leaf replaced by the result of `leaf`; `None` if `leaf` returns `None` or a node has
/// several inputs.
///
/// The nodes keep their properties, so the new leaf must have the schema and partition count of the old leaf.
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

/// Number of partitions of a plan.
pub(crate) fn partitions(plan: &Arc<dyn ExecutionPlan>) -> usize {
    plan.properties().partitioning.partition_count()
}
