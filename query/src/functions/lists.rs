//! Keeps IN lists apart that the optimizer would combine into a wrong condition.
//!
//! DataFusion replaces `a IN (…) AND a IN (…)` by the intersection of both lists, and combines NOT IN and OR alike. It
//! compares the elements as expressions. So the parameters `$1` and `$2` differ whatever their values are, and two lists
//! of parameters have no common element. Besides, an empty intersection becomes FALSE, where a null `a` gives NULL: that
//! is wrong in a select list and under NOT. The rule [`KeepListsApart`] wraps the operands of such lists in the function
//! `apart(operand, number)`, which returns its operand: lists with different operands are not combined.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::{
    common::{
        Result as DfResult, internal_err,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, Volatility,
        expr::{InList, ScalarFunction},
        expr_rewriter::NamePreserver,
        lit,
    },
    optimizer::{OptimizerConfig, OptimizerRule},
};

const NAME: &str = "apart";

static APART: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(Apart { signature: Signature::any(2, Volatility::Immutable) })));

/// The function `apart(operand, number)`. Users cannot call it: it is not registered.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Apart {
    signature: Signature,
}

impl ScalarUDFImpl for Apart {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        internal_err!("return_type called instead of return_field_from_args")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DfResult<FieldRef> {
        let operand = &args.arg_fields[0];
        Ok(Arc::new(Field::new(NAME, operand.data_type().clone(), operand.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Ok(args.args[0].clone())
    }
}

/// Wraps the operands of lists that the optimizer must not combine. It runs before the optimizer's other rules.
#[derive(Debug)]
pub(crate) struct KeepListsApart;

/// The IN lists of a plan, and the equalities that the optimizer turns into lists.
#[derive(Default)]
struct Lists {
    /// By the name of the column or expression, because rules that move filters change the qualifiers.
    of: HashMap<String, usize>,
    all: usize,
}

impl Lists {
    fn count(&mut self, operand: &Expr) {
        *self.of.entry(name_of(operand)).or_default() += 1;
        self.all += 1;
    }

    fn read(plan: &LogicalPlan) -> DfResult<Self> {
        let mut lists = Self::default();
        plan.apply_with_subqueries(|node| {
            node.apply_expressions(|expr| {
                expr.apply(|expr| {
                    match expr {
                        Expr::InList(list) => lists.count(&list.expr),
                        // `a = 1 OR a = 2` becomes `a IN (1, 2)`.
                        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
                            for side in [left, right] {
                                if let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = side.as_ref() {
                                    let columns = [left, right].into_iter().filter(|e| matches!(***e, Expr::Column(_)));
                                    columns.for_each(|column| lists.count(column));
                                }
                            }
                        }
                        _ => {}
                    }
                    Ok(TreeNodeRecursion::Continue)
                })
            })
        })?;
        Ok(lists)
    }

    /// Whether another list may be combined with this one, with a wrong result. A column may be renamed between two
    /// filters, so a list with elements that are not literals is kept apart from every other list.
    fn is_combined(&self, list: &InList) -> bool {
        let has_other = self.of.get(&name_of(&list.expr)).is_some_and(|count| *count > 1);
        has_other || self.all > 1 && !list.list.iter().all(|element| matches!(element, Expr::Literal(..)))
    }
}

fn name_of(operand: &Expr) -> String {
    match operand {
        Expr::Column(column) => column.name.clone(),
        other => other.to_string(),
    }
}

fn is_apart(operand: &Expr) -> bool {
    matches!(operand, Expr::ScalarFunction(call) if call.func.name() == NAME)
}

impl OptimizerRule for KeepListsApart {
    fn name(&self) -> &str {
        "keep_lists_apart"
    }

    fn rewrite(&self, plan: LogicalPlan, _: &dyn OptimizerConfig) -> DfResult<Transformed<LogicalPlan>> {
        let lists = Lists::read(&plan)?;
        if lists.all < 2 {
            return Ok(Transformed::no(plan));
        }
        let mut number = 0_u64;
        plan.transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let changed = expr.transform_up(|expr| match expr {
                    Expr::InList(mut list) if !is_apart(&list.expr) && lists.is_combined(&list) => {
                        number += 1;
                        let arguments = vec![*list.expr, lit(number)];
                        let call = ScalarFunction::new_udf(APART.clone(), arguments);
                        list.expr = Box::new(Expr::ScalarFunction(call));
                        Ok(Transformed::yes(Expr::InList(list)))
                    }
                    other => Ok(Transformed::no(other)),
                })?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })
        })
    }
}
