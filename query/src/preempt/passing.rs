//! Plan nodes that pass batches on, and operators below them with their own memory pool.

use std::{collections::HashMap, sync::Arc};

use datafusion::{
    common::Result,
    execution::{TaskContext, memory_pool::MemoryPool, runtime_env::RuntimeEnv},
    physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions},
    prelude::SessionConfig,
};

/// Implements a plan node for a struct with an `input` and a method `stream` that passes its batches on. The node has
/// the properties of its input; further trait methods may be given in braces.
macro_rules! passes {
    ($node:ident) => {
        passes!($node {});
    };
    ($node:ident { $($more:tt)* }) => {
        impl datafusion::physical_plan::DisplayAs for $node {
            fn fmt_as(
                &self,
                _: datafusion::physical_plan::DisplayFormatType,
                f: &mut std::fmt::Formatter<'_>,
            ) -> std::fmt::Result {
                f.write_str(stringify!($node))
            }
        }

        impl datafusion::physical_plan::ExecutionPlan for $node {
            fn name(&self) -> &str {
                stringify!($node)
            }

            fn properties(&self) -> &std::sync::Arc<datafusion::physical_plan::PlanProperties> {
                self.input.properties()
            }

            fn maintains_input_order(&self) -> Vec<bool> {
                vec![true]
            }

            fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
                vec![&self.input]
            }

            fn apply_expressions(
                &self,
                _: &mut dyn FnMut(
                    &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
                )
                    -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion>,
            ) -> datafusion::common::Result<datafusion::common::tree_node::TreeNodeRecursion> {
                Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
            }

            fn with_new_children(
                self: std::sync::Arc<Self>,
                children: Vec<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>>,
            ) -> datafusion::common::Result<std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
                let mut node = Self::clone(&self);
                node.input = children.into_iter().next().unwrap_or(node.input);
                Ok(std::sync::Arc::new(node))
            }

            fn execute(
                &self,
                partition: usize,
                context: std::sync::Arc<datafusion::execution::TaskContext>,
            ) -> datafusion::common::Result<datafusion::execution::SendableRecordBatchStream> {
                self.stream(partition, context)
            }

            $($more)*
        }
    };
}

pub(super) use passes;

/// Returns a plan with a node inserted above its input at index `place`.
pub(super) fn with_input(
    plan: Arc<dyn ExecutionPlan>,
    place: usize,
    over: impl FnOnce(Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut inputs: Vec<_> = plan.children().into_iter().cloned().collect();
    if let Some(input) = inputs.get_mut(place) {
        *input = over(input.clone());
    }
    plan.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
}

/// A context with another memory pool, for operators that call no functions by name.
pub(super) fn with_pool(outer: &TaskContext, memory_pool: Arc<dyn MemoryPool>) -> Arc<TaskContext> {
    let runtime = RuntimeEnv { memory_pool, ..outer.runtime_env().as_ref().clone() };
    changed(outer, outer.session_config().clone(), Arc::new(runtime))
}

/// A context with an extension for the operators below, for operators that call no functions by name.
pub(super) fn with_extension<T: Send + Sync + 'static>(outer: &TaskContext, value: Arc<T>) -> Arc<TaskContext> {
    changed(outer, outer.session_config().clone().with_extension(value), outer.runtime_env())
}

fn changed(outer: &TaskContext, config: SessionConfig, runtime: Arc<RuntimeEnv>) -> Arc<TaskContext> {
    let (scalar, higher_order, aggregate, window) = (HashMap::new(), HashMap::new(), HashMap::new(), HashMap::new());
    Arc::new(TaskContext::new(
        outer.task_id(),
        outer.session_id(),
        config,
        scalar,
        higher_order,
        aggregate,
        window,
        runtime,
    ))
}
