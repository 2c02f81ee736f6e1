//! Lets queries be stopped inside joins: they can put out for hours what took a moment to read.
//!
//! DataFusion gives way to other work, and so to deadlines and cancellation, where a plan reads. A join or an unnest
//! whose inputs are in memory reads nothing, and what consumes it loops.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult, TreeNode},
    },
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ExecutionPlan,
        coop::CooperativeExec,
        joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec},
        unnest::UnnestExec,
    },
};

/// Makes every operator whose output can be many times its input give way between batches.
#[derive(Debug)]
pub(crate) struct YieldInJoins;

fn multiplies(plan: &dyn ExecutionPlan) -> bool {
    plan.downcast_ref::<CrossJoinExec>().is_some()
        || plan.downcast_ref::<NestedLoopJoinExec>().is_some()
        || plan.downcast_ref::<HashJoinExec>().is_some()
        || plan.downcast_ref::<SortMergeJoinExec>().is_some()
        || plan.downcast_ref::<UnnestExec>().is_some()
}

impl PhysicalOptimizerRule for YieldInJoins {
    fn name(&self) -> &str {
        "yield_in_joins"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let wrap = |plan: Arc<dyn ExecutionPlan>| {
            Ok(match multiplies(plan.as_ref()) {
                true => Transformed::yes(Arc::new(CooperativeExec::new(plan)) as _),
                false => Transformed::no(plan),
            })
        };
        plan.transform_up(wrap).data()
    }

    fn schema_check(&self) -> bool {
        true
    }
}
