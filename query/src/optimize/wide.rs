//! Plans whose values may be large: they run in batches of few rows.
//!
//! Operators that put batches together (repartitioning, filters, joins, sorts) hold as many rows as a batch has, whatever these take, and
//! count none of them: 8192 rows of 60 kB are half a gigabyte for each partition.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        tree_node::{TreeNode as _, TreeNodeRecursion},
    },
    execution::{SessionState, TaskContext},
    physical_expr::{PhysicalExpr, ScalarFunctionExpr, expressions::Literal},
    physical_plan::ExecutionPlan,
};

use crate::functions::bounded::makes_large;

/// Rows of a batch whose values may be large.
const ROWS: usize = 64;
/// Constants from this size on are large.
const LARGE_CONSTANT: usize = 4 << 10;

/// The context that a plan runs in.
///
/// # Errors
/// Those of walking the plan: none is expected.
pub(crate) fn context_of(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<Arc<TaskContext>> {
    if !has_large_values(plan)? {
        return Ok(state.task_ctx());
    }
    let mut state = state.clone();
    *state.config_mut() = state.config().clone().with_batch_size(ROWS);
    Ok(state.task_ctx())
}

pub(super) fn has_large_values(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(&mut |expression| {
        expression.apply(|part| {
            found |= is_large(part.as_ref());
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    for child in plan.children() {
        found = found || has_large_values(child)?;
    }
    Ok(found)
}

fn is_large(part: &dyn PhysicalExpr) -> bool {
    let is_large_constant = |literal: &Literal| {
        let value = literal.value();
        !value.data_type().is_primitive() && value.size() >= LARGE_CONSTANT
    };
    part.downcast_ref::<Literal>().is_some_and(is_large_constant)
        || part.downcast_ref::<ScalarFunctionExpr>().is_some_and(makes_large)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use datafusion::{execution::SessionStateBuilder, prelude::SessionContext};

    use super::*;

    #[tokio::test]
    async fn plans_with_large_values_run_in_batches_of_few_rows() {
        let state = crate::functions::register(SessionStateBuilder::new_with_default_features()).build();
        let context = SessionContext::new_with_state(state);
        let usual = context.state().config().batch_size();
        let literal = format!("select '{}', value from generate_series(1, 9)", "x".repeat(5_000));
        for (sql, rows) in [
            ("select value, 'x' || value, upper('a') from generate_series(1, 9)", usual),
            ("select repeat('x', 20), lpad('x', 12, ' '), replace(a, 'a', 'b') from (values ('a'), ('b')) t(a)", usual),
            ("select count(*) from generate_series(1, 9) where repeat('x', value) > 'a'", ROWS),
            ("select count(*) from generate_series(1, 9) group by repeat('x', 60000)", ROWS),
            ("select max(length(cast(range(0, value) as varchar))) from generate_series(1, 9)", ROWS),
            ("select distinct cast(array_repeat('x', value * 1000) as varchar) from generate_series(1, 9)", ROWS),
            ("select replace(a, 'a', repeat(a, 9000)) from (values ('a'), ('b')) t(a) order by 1", ROWS),
            (&literal, ROWS),
        ] {
            let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let found = context_of(&plan, &context.state()).unwrap().session_config().batch_size();
            assert_eq!(found, rows, "{sql}");
        }
    }
}
