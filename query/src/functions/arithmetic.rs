//! `+`, `-` and `*` of integers that do not wrap: a result beyond the type is an error that names the expression.
//!
//! DataFusion's operators wrap. [`CheckedArithmetic`] replaces each by a function after the optimizer has seen the
//! operators. Arrow itself checks instants and durations.

use std::sync::{Arc, LazyLock};

use arrow::{
    array::{ArrayRef, Datum},
    compute::kernels::numeric::{add, mul, sub},
    datatypes::{DataType, Field, FieldRef},
    error::ArrowError,
};
use datafusion::{
    common::{
        DFSchema, Result as DfResult, ScalarValue,
        config::ConfigOptions,
        plan_err,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
        ScalarUDF, ScalarUDFImpl, Signature, Volatility, expr_rewriter::NamePreserver, lit, utils::merge_schema,
    },
    optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule},
};
use tidelake_format::Error;

use super::{bounded::bound, rewrite_expressions};
use crate::{error::to_datafusion, type_names::sql_types};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
}

impl Operation {
    fn of(op: Operator) -> Option<Self> {
        match op {
            Operator::Plus => Some(Self::Add),
            Operator::Minus => Some(Self::Subtract),
            Operator::Multiply => Some(Self::Multiply),
            _ => None,
        }
    }

    fn sign(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
        }
    }

    fn compute(self, left: &dyn Datum, right: &dyn Datum) -> Result<ArrayRef, ArrowError> {
        match self {
            Self::Add => add(left, right),
            Self::Subtract => sub(left, right),
            Self::Multiply => mul(left, right),
        }
    }

    fn call(self, left: Expr, right: Expr) -> Expr {
        static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 3]> = LazyLock::new(|| {
            [Operation::Add, Operation::Subtract, Operation::Multiply].map(|operation| {
                let signature = Signature::any(2, Volatility::Immutable);
                bound(Arc::new(ScalarUDF::from(Checked { operation, signature })))
            })
        });
        FUNCTIONS[self as usize].call(vec![left, right])
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    signature: Signature,
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.operation.sign()
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        match args {
            [left, right] => Ok(format!("{} {} {}", left.schema_name(), self.name(), right.schema_name())),
            _ => plan_err!("{} takes two numbers, found {}", self.name(), args.len()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        match types {
            [left, right] if left == right && left.is_integer() => Ok(left.clone()),
            _ => plan_err!("{} takes two integers of one type", self.name()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        use ColumnarValue::{Array, Scalar};
        let [left, right] = args.args.as_slice() else {
            return plan_err!("{} takes two numbers, found {}", self.name(), args.args.len());
        };
        let computed = match (left, right) {
            (Array(left), Array(right)) => self.operation.compute(left, right),
            (Array(left), Scalar(right)) => self.operation.compute(left, &right.to_scalar()?),
            (Scalar(left), Array(right)) => self.operation.compute(&left.to_scalar()?, right),
            (Scalar(left), Scalar(right)) => self.operation.compute(&left.to_scalar()?, &right.to_scalar()?),
        };
        let computed = computed.map_err(|reason| {
            let name = |at: usize| match (&args.args[at], args.arg_fields.get(at)) {
                (Scalar(value), _) => value.to_string(),
                (Array(_), Some(field)) => field.name().clone(),
                (Array(_), None) => "?".to_owned(),
            };
            let error =
                Error::invalid("result is beyond the range of its type; cast to DOUBLE or DECIMAL(38, 0) first")
                    .with("expression", format!("{} {} {}", name(0), self.name(), name(1)))
                    .with("type", sql_types(&args.return_field.data_type().to_string()));
            to_datafusion(error.with("reason", &reason).source(reason))
        })?;
        Ok(match (left, right) {
            (Scalar(_), Scalar(_)) => Scalar(ScalarValue::try_from_array(&computed, 0)?),
            _ => Array(computed),
        })
    }
}

/// Replaces integer operators between expressions without columns by checked functions, before the optimizer computes
/// them: its results wrap.
#[derive(Debug)]
pub(crate) struct CheckedConstants;

impl CheckedConstants {
    fn checked(expr: Expr) -> DfResult<Transformed<Expr>> {
        let is_constant = |expr: &Expr| {
            let has_any = expr.exists(|part| {
                Ok(matches!(part, Expr::Column(_) | Expr::OuterReferenceColumn(..) | Expr::Placeholder(_)))
            });
            is_arithmetic(expr) && has_any.is_ok_and(|has_any| !has_any)
        };
        expr.transform_down(|expr| {
            if !is_constant(&expr) {
                return Ok(Transformed::no(expr));
            }
            let checked = CheckedArithmetic::checked(expr, &DFSchema::empty())?;
            Ok(Transformed::new(checked.data, checked.transformed, TreeNodeRecursion::Jump))
        })
    }
}

impl AnalyzerRule for CheckedConstants {
    fn name(&self) -> &str {
        "checked_constants"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> DfResult<LogicalPlan> {
        rewrite_expressions(plan, Self::checked)
    }
}

/// Replaces integer operators by checked functions; the last rule of the optimizer.
#[derive(Debug)]
pub(crate) struct CheckedArithmetic;

/// Whether an expression has an operator that may need a check.
fn is_arithmetic(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => Operation::of(binary.op).is_some(),
        Expr::Negative(_) => true,
        _ => false,
    }
}

impl CheckedArithmetic {
    fn checked(expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
        expr.transform_up(|expr| {
            Ok(match expr {
                Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                    let is_whole = match (left.get_type(schema), right.get_type(schema)) {
                        (Ok(from), Ok(to)) => from == to && from.is_integer(),
                        _ => false,
                    };
                    match Operation::of(op).filter(|_| is_whole) {
                        Some(operation) => Transformed::yes(operation.call(*left, *right)),
                        None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
                    }
                }
                Expr::Negative(inner) => match inner.get_type(schema).ok().filter(DataType::is_integer) {
                    Some(data_type) => {
                        let zero = lit(ScalarValue::new_zero(&data_type)?);
                        Transformed::yes(Operation::Subtract.call(zero, *inner))
                    }
                    None => Transformed::no(Expr::Negative(inner)),
                },
                other => Transformed::no(other),
            })
        })
    }
}

impl OptimizerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> DfResult<Transformed<LogicalPlan>> {
        plan.transform_up_with_subqueries(|node| {
            let has_any = {
                let mut found = false;
                node.apply_expressions(|expr| {
                    found |= expr.exists(|e| Ok(is_arithmetic(e)))?;
                    Ok(TreeNodeRecursion::Continue)
                })?;
                found
            };
            if !has_any {
                return Ok(Transformed::no(node));
            }
            let schema = match &node {
                LogicalPlan::TableScan(scan) => {
                    DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?
                }
                other => merge_schema(&other.inputs()),
            };
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                Ok(Self::checked(expr, &schema)?.update_data(|expr| name.restore(expr)))
            })
        })
    }
}
