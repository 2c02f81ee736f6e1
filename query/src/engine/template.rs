//! Optimized plans with parameters: a statement is planned once and its values are bound for each execution.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::{
    catalog::TableProvider,
    common::{
        ParamValues, Result, ScalarValue, internal_datafusion_err,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    datasource::source_as_provider,
    execution::SessionState,
    logical_expr::{Expr, LogicalPlan, Volatility, expr_rewriter::unnormalize_cols},
    physical_plan::ExecutionPlan,
};

use super::{Prepared, rescan::with_scan};

/// The logical plan of a query. It is not bound to a snapshot: each run reads a new one.
#[derive(Debug, Clone)]
pub enum Plan {
    /// Optimized for each run, as it depends on the call (`now()`), describes a run (EXPLAIN), or has parameters whose values the
    /// optimizer needs. Parameters are `$1…`.
    Analyzed(LogicalPlan),
    /// Optimized. It has no parameters, and all runs on one snapshot do the same.
    Optimized(LogicalPlan),
    /// Optimized with placeholders for its parameters.
    Template(Box<Template>),
    /// The template of another statement, with values of exactly its parameters' types.
    Instance(Arc<Prepared>, Vec<ScalarValue>),
}

/// A plan with parameters, optimized with placeholders for them.
#[derive(Debug, Clone)]
pub struct Template {
    /// For values that have no exact equal in `types`.
    analyzed: LogicalPlan,
    optimized: LogicalPlan,
    types: Vec<DataType>,
    scan: Option<TemplateScan>,
}

/// The only scan of a plan, where all parameters are in filters of that scan.
#[derive(Debug, Clone)]
struct TemplateScan {
    table: Arc<dyn TableProvider>,
    projection: Option<Vec<usize>>,
    filters: Vec<Expr>,
    fetch: Option<usize>,
}

/// A template's physical plan for some values, whose scan can be replaced by one for other values on the same snapshot.
pub(super) struct Rescan {
    scan: TemplateScan,
    state: SessionState,
    plan: Arc<dyn ExecutionPlan>,
}

impl Plan {
    /// Optimizes an analyzed plan with this number of parameters, as far as the result is valid for every run.
    pub(super) fn new(analyzed: LogicalPlan, parameters: usize, state: &SessionState) -> Result<Self> {
        if !is_repeatable(&analyzed)? {
            return Ok(Self::Analyzed(analyzed));
        }
        let types = if parameters == 0 { Some(Vec::new()) } else { types(&analyzed, parameters)? };
        // Ignored here: the error occurs again, and is reported, when the plan is optimized for a run.
        let optimized = state.optimizer().optimize(analyzed.clone(), state, |_, _| {});
        Ok(match (optimized, types) {
            (Ok(optimized), Some(_)) if parameters == 0 => Self::Optimized(optimized),
            (Ok(optimized), Some(types)) => {
                let scan = TemplateScan::of(&optimized)?;
                Self::Template(Box::new(Template { analyzed, optimized, types, scan }))
            }
            _ => Self::Analyzed(analyzed),
        })
    }
}

impl Template {
    /// The types of the parameters, in order.
    pub(super) fn types(&self) -> &[DataType] {
        &self.types
    }

    /// Binds values of exactly the parameters' types to the optimized plan.
    pub(super) fn bind(&self, values: Vec<ScalarValue>) -> Result<LogicalPlan> {
        bind(&self.optimized, values)
    }

    /// Binds values of other types to the analyzed plan.
    pub(super) fn bind_inexact(&self, values: Vec<ScalarValue>) -> Result<LogicalPlan> {
        bind(&self.analyzed, values)
    }

    /// Returns a [`Rescan`] for a physical plan of this template, where other values change only its scan.
    pub(super) fn rescan(&self, state: SessionState, plan: &Arc<dyn ExecutionPlan>) -> Option<Rescan> {
        Some(Rescan { scan: self.scan.clone()?, state, plan: plan.clone() })
    }

    /// Casts the values to the parameters' types; `None` where a cast is not lossless.
    pub(super) fn exact(&self, values: &[ScalarValue]) -> Option<Vec<ScalarValue>> {
        let exact = |(value, ty): (&ScalarValue, &DataType)| {
            let own = value.data_type();
            if own == *ty {
                return Some(value.clone());
            }
            let cast = value.cast_to(ty).ok()?;
            (cast.cast_to(&own).ok()? == *value).then_some(cast)
        };
        (values.len() == self.types.len()).then(|| values.iter().zip(&self.types).map(exact).collect())?
    }
}

impl TemplateScan {
    fn of(plan: &LogicalPlan) -> Result<Option<Self>> {
        let mut parameters_elsewhere = false;
        plan.apply_with_subqueries(|node| {
            if !matches!(node, LogicalPlan::TableScan(_)) {
                node.apply_expressions(|expr| {
                    parameters_elsewhere |= expr.exists(|e| Ok(matches!(e, Expr::Placeholder(_))))?;
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        let mut node = plan;
        while let [input] = node.inputs().as_slice() {
            node = *input;
        }
        let LogicalPlan::TableScan(scan) = node else { return Ok(None) };
        if parameters_elsewhere {
            return Ok(None);
        }
        Ok(Some(Self {
            table: source_as_provider(&scan.source)?,
            projection: scan.projection.as_ref().map(|p| p.to_vec()),
            filters: unnormalize_cols(scan.filters.iter().cloned()),
            fetch: scan.fetch,
        }))
    }
}

impl Rescan {
    /// The physical plan for values of exactly the parameters' types; `None` when they need a different plan.
    pub(super) async fn with(&self, values: &[ScalarValue]) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let TemplateScan { table, projection, filters, fetch } = &self.scan;
        let value = |expr: Expr| {
            let Expr::Placeholder(placeholder) = &expr else { return Ok(Transformed::no(expr)) };
            let at = placeholder.id.strip_prefix('$').and_then(|n| n.parse::<usize>().ok());
            let value = at.and_then(|n| values.get(n.checked_sub(1)?)).cloned();
            let value = value.ok_or_else(|| internal_datafusion_err!("parameter {} has no value", placeholder.id))?;
            Ok(Transformed::yes(Expr::Literal(value, None)))
        };
        let bound: Vec<Expr> = filters.iter().map(|f| f.clone().transform(value).data()).collect::<Result<_>>()?;
        let scan = table.scan(&self.state, projection.as_ref(), &bound, *fetch).await?;
        with_scan(&self.plan, &scan)
    }
}

fn bind(plan: &LogicalPlan, values: Vec<ScalarValue>) -> Result<LogicalPlan> {
    plan.clone().with_param_values(ParamValues::from(values))
}

/// The types of all parameters; `None` when a type is unknown, or when a parameter is in LIMIT or OFFSET, whose value the optimizer
/// needs.
fn types(plan: &LogicalPlan, parameters: usize) -> Result<Option<Vec<DataType>>> {
    let mut limits = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(limit) = node {
            let mut of = [&limit.skip, &limit.fetch].into_iter().flatten();
            limits |= of.any(|e| e.exists(|e| Ok(matches!(e, Expr::Placeholder(_)))).unwrap_or(true));
        }
        Ok(if limits { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if limits {
        return Ok(None);
    }
    let known = plan.get_parameter_types()?;
    Ok((1..=parameters).map(|n| known.get(&format!("${n}")).cloned().flatten()).collect())
}

/// Whether all runs of a plan on one snapshot with the same values do the same: it calls only immutable functions and is not an
/// EXPLAIN.
fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut repeatable = true;
    plan.apply_with_subqueries(|node| {
        if matches!(node, LogicalPlan::Analyze(_) | LogicalPlan::Explain(_)) {
            repeatable = false;
        }
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                repeatable &= match expr {
                    Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
                    Expr::ScalarVariable(..) => false,
                    _ => true,
                };
                Ok(if repeatable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
            })
        })
    })?;
    Ok(repeatable)
}
