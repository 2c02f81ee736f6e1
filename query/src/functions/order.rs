//! Removes ORDER BY from aggregates whose result does not depend on the order of rows: `stddev(v ORDER BY ts)` becomes
//! `stddev(v)`.
//!
//! DataFusion would sort for them, and passes the values of ORDER BY to some of them as arguments, which makes them
//! panic.

use datafusion::{
    common::{
        Result as DfResult,
        config::ConfigOptions,
        tree_node::{Transformed, TreeNode},
    },
    logical_expr::{Expr, LogicalPlan},
    optimizer::AnalyzerRule,
};

use super::rewrite_expressions;

/// The functions. Those with WITHIN GROUP are excluded: there ORDER BY names their argument.
const WITHOUT_ORDER: [&str; 36] = [
    "approx_distinct",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "first",
    "last",
    "last_row",
    "max",
    "median",
    "min",
    "mode",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "spread",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "sum",
    "var",
    "var_pop",
    "var_samp",
    "approx_median",
];

/// Functions of the values that WITHIN GROUP names.
const WITHIN_GROUP: [&str; 2] = ["approx_percentile_cont", "percentile_cont"];

/// Whether the result of an aggregate function does not depend on the order of rows.
pub(crate) fn ignores_order(function: &str) -> bool {
    WITHOUT_ORDER.contains(&function) || WITHIN_GROUP.contains(&function)
}

/// The analyzer rule.
#[derive(Debug)]
pub(super) struct IgnoreOrder;

impl AnalyzerRule for IgnoreOrder {
    fn name(&self) -> &str {
        "ignore_order"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DfResult<LogicalPlan> {
        rewrite_expressions(plan, |expr| expr.transform_up(|expr| Ok(without_order(expr))))
    }
}

fn without_order(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::AggregateFunction(mut call)
            if !call.params.order_by.is_empty() && WITHOUT_ORDER.contains(&call.func.name()) =>
        {
            call.params.order_by.clear();
            Transformed::yes(Expr::AggregateFunction(call))
        }
        other => Transformed::no(other),
    }
}
