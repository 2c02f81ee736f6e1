//! Creates physical plans: DataFusion's planner, extended by the nodes of this crate.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    catalog::Session,
    common::Result,
    execution::context::QueryPlanner,
    logical_expr::{LogicalPlan, UserDefinedLogicalNode, physical_planning_context::PhysicalPlanningContext},
    physical_plan::ExecutionPlan,
    physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner},
};

use super::{assign, fill};

/// Plans all nodes: DataFusion's and those of [`plan`](super).
#[derive(Debug)]
pub(crate) struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Nodes)]);
        planner.create_physical_plan(plan, session).await
    }
}

/// The nodes of this crate.
struct Nodes;

#[async_trait]
impl ExtensionPlanner for Nodes {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let Some(node) = node.as_any().downcast_ref::<assign::AssignWindows>() {
            return assign::physical(node, inputs, planner, session, context).map(Some);
        }
        let Some(node) = node.as_any().downcast_ref::<fill::FillGaps>() else { return Ok(None) };
        fill::physical(node, inputs, planner, session, context).map(Some)
    }
}
