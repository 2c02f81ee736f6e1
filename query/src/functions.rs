//! SQL functions that DataFusion lacks: time windows, `first`, `last`, `last_row`, and internal functions to which a
//! front end rewrites expressions.

/// The methods of a function that wraps `inner` and has its name, arguments and type.
macro_rules! called_as_inner {
    () => {
        fn name(&self) -> &str {
            self.inner.name()
        }

        fn aliases(&self) -> &[String] {
            self.inner.aliases()
        }

        fn signature(&self) -> &Signature {
            self.inner.signature()
        }

        fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
            self.inner.return_type(types)
        }
    };
}

pub(crate) mod arithmetic;
pub(crate) mod bounded;
mod first_last;
pub(crate) mod grid;
pub(crate) mod lists;
mod order;
mod percentile;
pub(crate) mod spread;
pub(crate) mod sum;
pub(crate) mod tick;
mod to_char;
pub mod window;

use std::sync::Arc;

use datafusion::{
    common::{
        Result as DfResult,
        tree_node::{Transformed, TransformedResult},
    },
    execution::session_state::SessionStateBuilder,
    logical_expr::{Expr, LogicalPlan, ScalarUDF, expr_rewriter::NamePreserver},
};

pub(crate) use first_last::NAMES as FIRST_LAST;
pub use first_last::{Keep, as_first_last};
pub(crate) use order::ignores_order;

/// Rewrites the expressions of a plan and of its subqueries; columns keep their names.
fn rewrite_expressions(
    plan: LogicalPlan,
    change: impl Fn(Expr) -> DfResult<Transformed<Expr>>,
) -> DfResult<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            Ok(change(expr)?.update_data(|expr| name.restore(expr)))
        })?
        .map_data(LogicalPlan::recompute_schema)
    })
    .data()
}

/// Functions that the front end calls and users do not.
const INTERNAL: [&str; 6] =
    ["spread_between", "window_start", "window_end", "tick_floor", "tick_ceil", "searched_text"];

/// Whether a function is called by the front end and not by users: no list and no error names it.
pub(crate) fn is_internal(name: &str) -> bool {
    name.starts_with('_') || INTERNAL.contains(&name)
}

/// Adds every function of this module to a session state that already has DataFusion's default features, and bounds
/// every scalar function ([`bounded`]).
pub fn register(mut builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut scalars: Vec<ScalarUDF> = window::window_functions().into();
    scalars.push(spread::function());
    scalars.extend(tick::functions());
    let known = builder.scalar_functions().get_or_insert_default();
    let to_char = known.iter().find(|function| function.name() == "to_char").cloned();
    scalars.extend(to_char.map(to_char::function));
    known.extend(scalars.into_iter().map(Arc::new));
    for function in known {
        *function = bounded::bound(function.clone());
    }
    let mut builder = builder
        .with_analyzer_rule(Arc::new(order::IgnoreOrder))
        .with_analyzer_rule(Arc::new(arithmetic::CheckedConstants))
        .with_analyzer_rule(Arc::new(bounded::BoundFunctions));
    let aggregates = builder.aggregate_functions().get_or_insert_default();
    let sum = aggregates.iter().find(|function| function.name() == "sum").cloned();
    aggregates.extend(sum.map(sum::function).map(Arc::new));
    let percentiles = aggregates.iter().filter(|function| percentile::NAMES.contains(&function.name())).cloned();
    let percentiles: Vec<_> = percentiles.map(percentile::function).map(Arc::new).collect();
    aggregates.extend(percentiles);
    aggregates.extend(first_last::functions().map(Arc::new));
    builder
}
