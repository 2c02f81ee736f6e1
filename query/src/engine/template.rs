//! Optimized plans that values are put into: planning that is done once for all executions of a statement.

use arrow::datatypes::DataType;
use datafusion::{
    common::{
        ParamValues, Result, ScalarValue,
        tree_node::{TreeNode, TreeNodeRecursion},
    },
    execution::SessionState,
    logical_expr::{Expr, LogicalPlan, Volatility},
};

/// The logical plan of a statement that reads. It is bound to no snapshot: each run reads a new one.
#[derive(Debug, Clone)]
pub enum Plan {
    /// To be optimized for each run: it asks for something that changes with the call (`now()`), tells of a run
    /// (EXPLAIN), or has parameters that optimizing has to know. Parameters are `$1…`.
    Analyzed(LogicalPlan),
    /// Optimized; it has no parameters and does the same each time it runs on one snapshot.
    Optimized(LogicalPlan),
    /// Optimized with its parameters in it.
    Template(Template),
}

/// A plan with parameters, optimized with these as they are.
#[derive(Debug, Clone)]
pub struct Template {
    /// For values that are none of the types.
    analyzed: LogicalPlan,
    optimized: LogicalPlan,
    types: Vec<DataType>,
}

impl Plan {
    /// Optimizes an analyzed plan with this many parameters as far as that holds for every run.
    pub(super) fn new(analyzed: LogicalPlan, parameters: usize, state: &SessionState) -> Result<Self> {
        if !is_repeatable(&analyzed)? {
            return Ok(Self::Analyzed(analyzed));
        }
        let types = if parameters == 0 { Some(Vec::new()) } else { types(&analyzed, parameters)? };
        // An error here would come again in each run, with its place there.
        let optimized = state.optimizer().optimize(analyzed.clone(), state, |_, _| {});
        Ok(match (optimized, types) {
            (Ok(optimized), Some(_)) if parameters == 0 => Self::Optimized(optimized),
            (Ok(optimized), Some(types)) => Self::Template(Template { analyzed, optimized, types }),
            _ => Self::Analyzed(analyzed),
        })
    }

    /// This plan with values for its parameters.
    pub(super) fn bind(&self, values: Vec<ScalarValue>) -> Result<Self> {
        match self {
            Self::Template(template) => match template.exact(&values) {
                Some(exact) => template.bind(exact).map(Self::Optimized),
                None => bound(&template.analyzed, values).map(Self::Analyzed),
            },
            Self::Analyzed(plan) => bound(plan, values).map(Self::Analyzed),
            Self::Optimized(_) => Ok(self.clone()),
        }
    }
}

impl Template {
    /// The types of the parameters, in order.
    pub(super) fn types(&self) -> &[DataType] {
        &self.types
    }

    /// The optimized plan with values of exactly the parameters' types.
    pub(super) fn bind(&self, values: Vec<ScalarValue>) -> Result<LogicalPlan> {
        bound(&self.optimized, values)
    }

    /// The values in the parameters' types, unless that loses something.
    fn exact(&self, values: &[ScalarValue]) -> Option<Vec<ScalarValue>> {
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

fn bound(plan: &LogicalPlan, values: Vec<ScalarValue>) -> Result<LogicalPlan> {
    plan.clone().with_param_values(ParamValues::from(values))
}

/// The types of all parameters; `None` when one is unknown, or sets a limit: that is optimized with its value.
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

/// Whether a plan does the same each time it runs on one snapshot with the same values: it calls nothing that depends
/// on the time or on chance, and does not tell of a run.
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
