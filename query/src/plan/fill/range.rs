//! Derives the time range of the rows below a plan node from their conditions.

use std::{fmt, sync::Arc};

use arrow::{
    array::{RecordBatch, RecordBatchOptions},
    datatypes::{DataType, Schema, TimeUnit},
};
use datafusion::{
    common::{Column, JoinType, Result, ScalarValue, tree_node::TreeNode as _},
    logical_expr::{
        BinaryExpr, ColumnarValue, Distinct, Expr, LogicalPlan, Operator, expr::Between, expr::ScalarFunction,
        utils::split_conjunction,
    },
    physical_expr::PhysicalExpr,
};

use crate::{
    functions::window::{WINDOW_START, nanoseconds},
    plan::assign::AssignWindows,
};

/// A bound on the time of rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Bound {
    pub(super) side: Side,
    /// An expression without columns.
    pub(super) instant: Expr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Side {
    AtLeast,
    MoreThan,
    AtMost,
    LessThan,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match self.side {
            Side::AtLeast => ">=",
            Side::MoreThan => ">",
            Side::AtMost => "<=",
            Side::LessThan => "<",
        };
        write!(f, "time {sign} {}", self.instant)
    }
}

/// First and last tick that rows may have; `None` if no condition bounds them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Range {
    pub(super) first: Option<i64>,
    pub(super) last: Option<i64>,
}

impl Range {
    /// Computes the range of conditions on a time column of this unit. Conditions with NULL or a non-time value give no
    /// bound.
    ///
    /// # Errors
    /// Those of `physical` and of evaluating an expression.
    pub(super) fn of(
        bounds: &[Bound],
        unit: TimeUnit,
        physical: impl Fn(&Expr) -> Result<Arc<dyn PhysicalExpr>>,
    ) -> Result<Self> {
        let mut range = Self::default();
        let tick = i128::from(nanoseconds(unit));
        for Bound { side, instant } in bounds {
            let Some(nanos) = nanos(&evaluate(physical(instant)?.as_ref())?, unit) else { continue };
            let (floor, ceil) = (nanos.div_euclid(tick), -(-nanos).div_euclid(tick));
            let clamp = |ticks: i128| ticks.clamp(i64::MIN.into(), i64::MAX.into()) as i64;
            match side {
                // Every row satisfies it: a comparison with an instant beyond all ticks is rewritten to this.
                Side::AtLeast if ceil <= i128::from(i64::MIN) => (),
                Side::AtMost if floor >= i128::from(i64::MAX) => (),
                Side::AtLeast => range.first = range.first.max(Some(clamp(ceil))),
                Side::MoreThan => range.first = range.first.max(Some(clamp(floor + 1))),
                Side::AtMost => range.last = Some(range.last.unwrap_or(i64::MAX).min(clamp(floor))),
                Side::LessThan => range.last = Some(range.last.unwrap_or(i64::MAX).min(clamp(ceil - 1))),
            }
        }
        Ok(range)
    }
}

fn evaluate(expression: &dyn PhysicalExpr) -> Result<ScalarValue> {
    let one_row = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one_row)?;
    match expression.evaluate(&row)? {
        ColumnarValue::Scalar(value) => Ok(value),
        ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
    }
}

/// An instant in nanoseconds since the epoch; integers are ticks of the unit.
fn nanos(value: &ScalarValue, unit: TimeUnit) -> Option<i128> {
    let of = |ticks: Option<i64>, unit| ticks.map(|ticks| i128::from(ticks) * i128::from(nanoseconds(unit)));
    match value {
        ScalarValue::TimestampSecond(ticks, _) => of(*ticks, TimeUnit::Second),
        ScalarValue::TimestampMillisecond(ticks, _) => of(*ticks, TimeUnit::Millisecond),
        ScalarValue::TimestampMicrosecond(ticks, _) => of(*ticks, TimeUnit::Microsecond),
        ScalarValue::TimestampNanosecond(ticks, _) => of(*ticks, TimeUnit::Nanosecond),
        ScalarValue::Int64(ticks) => of(*ticks, unit),
        other if other.data_type().is_integer() => nanos(&other.cast_to(&DataType::Int64).ok()?, unit),
        other => nanos(&other.cast_to(&DataType::Timestamp(unit, None)).ok().filter(|v| !v.is_null())?, unit),
    }
}

/// Collects the conditions below a plan on the time of the rows, whose windows are in a column of the plan.
pub(super) fn bounds(plan: &LogicalPlan, column: usize) -> Vec<Bound> {
    let mut found = Vec::new();
    follow(plan, Place { column, is_window: true }, &mut found);
    found
}

/// A column of a node's output, traced down to its source.
#[derive(Clone, Copy)]
struct Place {
    column: usize,
    /// Whether the column is still the start of a window, not yet the time of rows.
    is_window: bool,
}

fn follow(plan: &LogicalPlan, at: Place, found: &mut Vec<Bound>) {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => follow(&alias.input, at, found),
        LogicalPlan::Projection(projection) => {
            if let Some(expr) = projection.expr.get(at.column) {
                follow_expr(expr, &projection.input, at, found);
            }
        }
        LogicalPlan::Aggregate(aggregate) => {
            if let Some(key) = aggregate.group_expr.get(at.column) {
                follow_expr(key, &aggregate.input, at, found);
            }
        }
        LogicalPlan::Filter(filter) => {
            if let Some(time) = time_of(&filter.input, at) {
                for condition in split_conjunction(&filter.predicate) {
                    collect(condition, |c| filter.input.schema().maybe_index_of_column(c) == Some(time), found);
                }
            }
            follow(&filter.input, at, found);
        }
        LogicalPlan::Unnest(unnest) => {
            if let Some(&column) = unnest.dependency_indices.get(at.column) {
                follow(&unnest.input, Place { column, ..at }, found);
            }
        }
        LogicalPlan::Extension(extension) => {
            if let Some(node) = extension.node.as_any().downcast_ref::<AssignWindows>() {
                match (at.column == node.start(), node.time()) {
                    (true, Ok(column)) => follow(&node.input, Place { column, is_window: false }, found),
                    _ => follow(&node.input, at, found),
                }
            }
        }
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let left = join.left.schema().fields().len();
            if at.column < left {
                follow(&join.left, at, found);
            } else {
                follow(&join.right, Place { column: at.column - left, ..at }, found);
            }
        }
        LogicalPlan::Join(join)
            if join.join_type == JoinType::Left && at.column < join.left.schema().fields().len() =>
        {
            follow(&join.left, at, found);
        }
        LogicalPlan::Window(window) if at.column < window.input.schema().fields().len() => {
            follow(&window.input, at, found);
        }
        LogicalPlan::Distinct(Distinct::All(input)) => follow(input, at, found),
        LogicalPlan::Sort(sort) => follow(&sort.input, at, found),
        LogicalPlan::Limit(limit) => follow(&limit.input, at, found),
        _ => (),
    }
}

/// Index of the time column in a plan, if known.
fn time_of(plan: &LogicalPlan, at: Place) -> Option<usize> {
    match plan {
        _ if !at.is_window => Some(at.column),
        LogicalPlan::Filter(filter) => time_of(&filter.input, at),
        LogicalPlan::Extension(extension) => {
            let node = extension.node.as_any().downcast_ref::<AssignWindows>()?;
            node.time().ok().filter(|_| at.column == node.start())
        }
        _ => None,
    }
}

fn follow_expr(expr: &Expr, input: &LogicalPlan, at: Place, found: &mut Vec<Bound>) {
    match expr {
        Expr::Alias(alias) => follow_expr(&alias.expr, input, at, found),
        Expr::Column(column) => {
            if let Some(column) = input.schema().maybe_index_of_column(column) {
                follow(input, Place { column, ..at }, found);
            }
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if at.is_window && func.name() == WINDOW_START => {
            if let Some(time) = args.first() {
                follow_expr(time, input, Place { is_window: false, ..at }, found);
            }
        }
        _ => (),
    }
}

/// Collects the bounds that one condition gives on a column.
fn collect(condition: &Expr, is_time: impl Fn(&Column) -> bool, found: &mut Vec<Bound>) {
    let is_time = |expr: &Expr| matches!(expr, Expr::Column(column) if is_time(column));
    let mut add = |side, instant: &Expr| {
        if is_constant(instant) {
            found.push(Bound { side, instant: instant.clone() });
        }
    };
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let (op, instant) = match (is_time(left), is_time(right), op.swap()) {
                (true, _, _) => (*op, right),
                (_, true, Some(swapped)) => (swapped, left),
                _ => return,
            };
            match op {
                Operator::GtEq => add(Side::AtLeast, instant),
                Operator::Gt => add(Side::MoreThan, instant),
                Operator::LtEq => add(Side::AtMost, instant),
                Operator::Lt => add(Side::LessThan, instant),
                Operator::Eq => {
                    add(Side::AtLeast, instant);
                    add(Side::AtMost, instant);
                }
                _ => (),
            }
        }
        Expr::Between(Between { expr, negated: false, low, high }) if is_time(expr) => {
            add(Side::AtLeast, low);
            add(Side::AtMost, high);
        }
        _ => (),
    }
}

/// Whether an expression can be evaluated without rows and subqueries.
fn is_constant(expr: &Expr) -> bool {
    let needs_rows = |expr: &Expr| {
        Ok(matches!(
            expr,
            Expr::Column(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::ScalarSubquery(_)
                | Expr::InSubquery(_)
                | Expr::Exists(_)
                | Expr::SetComparison(_)
                | Expr::AggregateFunction(_)
                | Expr::WindowFunction(_)
        ))
    };
    !expr.exists(needs_rows).unwrap_or(true)
}
