//! Plans with large values and plans with many grouping sets run in batches of few rows. Memory of the former counts
//! twice.
//!
//! Operators that concatenate batches (repartitioning, filters, joins, sorts) hold a batch's worth of rows of any size
//! and count none of them: 8192 rows of 60 kB are half a gigabyte per partition. An aggregation by CUBE or ROLLUP makes
//! one key per row and grouping set, and counts the keys of a batch only when all of them exist.

use std::sync::Arc;

use datafusion::{
    common::{
        Result,
        tree_node::{TreeNode as _, TreeNodeRecursion},
    },
    execution::{SessionState, TaskContext},
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        expressions::{CastExpr, Column, Literal},
    },
    physical_plan::{ExecutionPlan, aggregates::AggregateExec, projection::ProjectionExec},
};

use super::twice;
use crate::functions::bounded::{constant_bytes, makes_large};

/// Maximum rows of a batch with large values.
const ROWS: u64 = 64;
/// Maximum bytes of a batch, if the size of its large values is known.
const BATCH_BYTES: u64 = 4 << 20;
/// Maximum keys that an aggregation makes of a batch, and the minimum rows of a batch limited for that reason alone.
const BATCH_KEYS: u64 = 64 << 10;
const FEWEST_ROWS: u64 = 64;
/// Constants from this size on count as large.
const LARGE_CONSTANT: u64 = 4 << 10;

/// Returns the task context for a plan.
///
/// # Errors
/// Those of walking the plan; not expected.
pub(crate) fn context_of(plan: &Arc<dyn ExecutionPlan>, state: &SessionState) -> Result<Arc<TaskContext>> {
    let (usual, sets) = (state.config().batch_size() as u64, grouping_sets(plan));
    let has_large_values = has_large_values(plan)?;
    let rows = if has_large_values {
        (BATCH_BYTES / row_bytes(plan)?.saturating_mul(sets).max(1)).clamp(1, ROWS)
    } else {
        (BATCH_KEYS / sets).max(FEWEST_ROWS)
    };
    if rows >= usual {
        return Ok(state.task_ctx());
    }
    let mut state = state.clone();
    *state.config_mut() = state.config().clone().with_batch_size(usize::try_from(rows).unwrap_or(1));
    let context = TaskContext::from(&state);
    if !has_large_values {
        return Ok(Arc::new(context));
    }
    let runtime = twice::runtime(&context.runtime_env());
    Ok(Arc::new(context.with_runtime(runtime)))
}

/// Largest number of grouping sets of any aggregation in the plan, at least 1.
fn grouping_sets(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let own = plan.downcast_ref::<AggregateExec>().map_or(1, |aggregate| aggregate.group_expr().groups().len() as u64);
    plan.children().into_iter().map(grouping_sets).fold(own.max(1), u64::max)
}

/// Bytes of the keys that an aggregation makes of one row for all its grouping sets, counting only keys that depend on
/// no column.
pub(super) fn key_bytes(aggregate: &AggregateExec) -> u64 {
    let keys = aggregate.group_expr();
    let below = projection_below(aggregate.input());
    let of = |(place, (key, _)): (usize, &(Arc<dyn PhysicalExpr>, String))| {
        // A constant may be computed by a projection below.
        let computed = key.downcast_ref::<Column>().and_then(|column| below?.expr().get(column.index()));
        let bytes = value_bytes(computed.map_or(key, |computed| &computed.expr));
        let sets = keys.groups().iter().filter(|nulls| nulls.get(place) == Some(&false)).count();
        bytes.saturating_mul(sets as u64)
    };
    keys.expr().iter().enumerate().map(of).fold(0, u64::saturating_add)
}

/// The node itself if it is a projection, or the projection below it and nodes that keep its schema.
fn projection_below(plan: &Arc<dyn ExecutionPlan>) -> Option<&ProjectionExec> {
    match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => Some(projection),
        None => match plan.children()[..] {
            [input] if input.schema() == plan.schema() => projection_below(input),
            _ => None,
        },
    }
}

pub(super) fn has_large_values(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(&mut |expression| {
        expression.apply(|part| {
            found |= is_large(part);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    for child in plan.children() {
        found = found || has_large_values(child)?;
    }
    Ok(found)
}

fn is_large(part: &Arc<dyn PhysicalExpr>) -> bool {
    literal_bytes(part).is_some_and(|bytes| bytes >= LARGE_CONSTANT)
        || part.downcast_ref::<ScalarFunctionExpr>().is_some_and(makes_large)
}

/// Bytes of the column-independent values that an operator computes per row; the maximum over all operators of the
/// plan.
fn row_bytes(plan: &Arc<dyn ExecutionPlan>) -> Result<u64> {
    let mut bytes = 0_u64;
    plan.apply_expressions(&mut |expression| {
        bytes = bytes.saturating_add(value_bytes(expression));
        Ok(TreeNodeRecursion::Continue)
    })?;
    for child in plan.children() {
        bytes = bytes.max(row_bytes(child)?);
    }
    Ok(bytes)
}

fn value_bytes(expression: &Arc<dyn PhysicalExpr>) -> u64 {
    constant(expression)
        .unwrap_or_else(|| expression.children().into_iter().map(value_bytes).fold(0, u64::saturating_add))
}

/// Bytes of a value that depends on no column.
fn constant(expression: &Arc<dyn PhysicalExpr>) -> Option<u64> {
    if let Some(cast) = expression.downcast_ref::<CastExpr>() {
        return constant(cast.expr());
    }
    match expression.downcast_ref::<ScalarFunctionExpr>() {
        Some(call) => constant_bytes(call, constant),
        None => literal_bytes(expression),
    }
}

/// Bytes of a constant; 0 for a number.
fn literal_bytes(expression: &Arc<dyn PhysicalExpr>) -> Option<u64> {
    let value = expression.downcast_ref::<Literal>()?.value();
    Some(if value.data_type().is_primitive() { 0 } else { value.size() as u64 })
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
        const ROWS: usize = super::ROWS as usize;
        let literal = format!("select '{}', value from generate_series(1, 9)", "x".repeat(5_000));
        for (sql, rows) in [
            ("select value, 'x' || value, upper('a') from generate_series(1, 9)", usual),
            ("select repeat('x', 20), lpad('x', 12, ' '), replace(a, 'a', 'b') from (values ('a'), ('b')) t(a)", usual),
            ("select count(*) from generate_series(1, 9) where repeat('x', value) > 'a'", ROWS),
            ("select count(*) from generate_series(1, 9) group by repeat('x', 60000)", ROWS),
            ("select max(cast(repeat('x', 1000000) as bytea)) from generate_series(1, 9)", 4),
            (
                "select count(*) from generate_series(1, 9) group by repeat('x', 400000), reverse(repeat('y', 400000))",
                5,
            ),
            ("select distinct repeat('x', 60000000) from generate_series(1, 9)", 1),
            ("select max(length(cast(range(0, value) as varchar))) from generate_series(1, 9)", ROWS),
            ("select distinct cast(array_repeat('x', value * 1000) as varchar) from generate_series(1, 9)", ROWS),
            ("select replace(a, 'a', repeat(a, 9000)) from (values ('a'), ('b')) t(a) order by 1", ROWS),
            (&literal, ROWS),
            ("select count(*) from generate_series(1, 9) group by rollup (value, value + 1, value + 2)", usual),
            ("select count(*) from (select value a from generate_series(1, 9)) group by cube (a, a+1, a+2, a+3)", 4096),
            ("select count(*) from generate_series(1, 9) group by cube (value, repeat('x', 250000))", 4),
        ] {
            let plan = context.sql(sql).await.unwrap().create_physical_plan().await.unwrap();
            let found = context_of(&plan, &context.state()).unwrap().session_config().batch_size();
            assert_eq!(found, rows, "{sql}");
        }
    }
}
