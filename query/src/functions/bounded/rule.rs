//! Bounds the functions of a plan that are not bounded yet: those that the SQL planner takes from outside the registry,
//! such as `make_array` for `[1, 2]`, the operator `
//!
//! `, patterns of operators, and every function called with OVER.

use datafusion::{
    common::{
        Result as DfResult,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, expr::ScalarFunction},
    optimizer::AnalyzerRule,
};

use super::{super::rewrite_expressions, bound, concat, is_bounded, pattern, window};

/// The rule; runs after type coercion.
#[derive(Debug)]
pub(crate) struct BoundFunctions;

impl AnalyzerRule for BoundFunctions {
    fn name(&self) -> &str {
        "bound_functions"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DfResult<LogicalPlan> {
        rewrite_expressions(plan, bound_within)
    }
}

/// Bounds every function within an expression.
pub(super) fn bound_within(expr: Expr) -> DfResult<Transformed<Expr>> {
    expr.transform_up(|expr| {
        Ok(match expr {
            Expr::ScalarFunction(ScalarFunction { func, args }) if !is_bounded(&func) => {
                Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: bound(func), args }))
            }
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
                Transformed::yes(concat::call(*left, *right))
            }
            Expr::WindowFunction(call) => {
                window::bound_call(*call).update_data(|call| Expr::WindowFunction(Box::new(call)))
            }
            other => {
                let (expr, is_changed) = pattern::bound_operator(other)?;
                Transformed::new(expr, is_changed, TreeNodeRecursion::Continue)
            }
        })
    })
}

/// For tests: returns the functions of a plan that are not bounded.
#[cfg(test)]
pub(super) fn unbounded(plan: &std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>) -> Vec<String> {
    use datafusion::{
        common::tree_node::TreeNodeRecursion,
        physical_expr::{ScalarFunctionExpr, expressions},
    };
    let mut found = Vec::new();
    plan.apply(|node| {
        node.apply_expressions(&mut |expression| {
            expression.apply(|part| {
                if let Some(call) = part.downcast_ref::<ScalarFunctionExpr>()
                    && !is_bounded(call.fun())
                {
                    found.push(call.name().to_owned());
                }
                let binary = part.downcast_ref::<expressions::BinaryExpr>();
                if binary.is_some_and(|binary| *binary.op() == Operator::StringConcat) {
                    found.push("||".to_owned());
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })
    .unwrap();
    found
}
