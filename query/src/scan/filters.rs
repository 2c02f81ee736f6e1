//! Classifies filters: predicates on tags and `tbname` select series, bounds on time select chunks and pages, and all
//! others are applied to rows.

use crate::budget;
use arrow::{
    array::{Array, BooleanArray},
    compute::prep_null_mask_filter,
    datatypes::{DataType, TimeUnit},
};
use datafusion::{
    catalog::Session,
    common::{
        Column, DFSchema, Result, ScalarValue,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    logical_expr::{
        Between, BinaryExpr, Cast, Expr, Operator, expr::Placeholder, expr_rewriter::unnormalize_col, lit,
        utils::conjunction,
    },
};
use serde::{Deserialize, Serialize};
use tidelake_format::{
    rows::SeriesSet,
    schema::{Supertable, TBNAME},
    types::Precision,
};

/// An inclusive range of time in ticks; empty when `first > last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimeRange {
    /// The first tick.
    pub(crate) first: i64,
    /// The last tick.
    pub(crate) last: i64,
}

impl TimeRange {
    /// All times.
    pub(crate) const ALL: TimeRange = TimeRange { first: i64::MIN, last: i64::MAX };
    /// No time.
    pub(crate) const NONE: TimeRange = TimeRange { first: i64::MAX, last: i64::MIN };

    /// Whether the range is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.first > self.last
    }

    /// The intersection of two ranges.
    pub(crate) fn and(self, other: TimeRange) -> TimeRange {
        let both = TimeRange { first: self.first.max(other.first), last: self.last.min(other.last) };
        if both.is_empty() { Self::NONE } else { both }
    }

    /// Whether all of `first..=last` is inside.
    pub(crate) fn covers(&self, first: i64, last: i64) -> bool {
        self.first <= first && last <= self.last
    }

    /// Whether part of `first..=last` is inside.
    pub(crate) fn meets(&self, first: i64, last: i64) -> bool {
        self.first <= last && first <= self.last
    }
}

/// How the scan uses a filter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Use {
    /// A predicate over tags and `tbname` only: it selects series.
    Tags,
    /// A bound on time.
    Time(TimeRange),
    /// Needs rows: applied to each row, by the scan or above it.
    Rows,
}

/// Classifies one filter (a conjunct) of a query over a table; [`Use::Tags`] and [`Use::Time`] are exact.
pub(crate) fn classify(filter: &Expr, table: &Supertable, precision: Precision) -> Use {
    if let Some(range) = time_range(filter, &table.time().name, precision) {
        return Use::Time(range);
    }
    // A filter that was pushed to the scan may have become a constant, as `tag NOT IN (1, NULL)` does.
    if let Expr::Literal(ScalarValue::Boolean(value), _) = filter {
        return Use::Time(if *value == Some(true) { TimeRange::ALL } else { TimeRange::NONE });
    }
    let columns = filter.column_refs();
    let on_series = |c: &&Column| c.name == TBNAME || table.tags().any(|t| t.name == c.name);
    let plain = !columns.is_empty() && columns.iter().all(on_series);
    if plain && !filter.is_volatile() && !has_subquery(filter) { Use::Tags } else { Use::Rows }
}

/// Replaces each parameter of a known type by NULL: the filter's classification holds for any value.
pub(crate) fn with_any_values(filter: &Expr) -> Result<Expr> {
    let any = |expr: Expr| {
        Ok(match &expr {
            Expr::Placeholder(Placeholder { field: Some(field), .. }) => {
                Transformed::yes(lit(ScalarValue::try_from(field.data_type())?))
            }
            _ => Transformed::no(expr),
        })
    };
    filter.clone().transform(any).data()
}

fn has_subquery(filter: &Expr) -> bool {
    let mut found = false;
    let walk = filter.apply(|e| {
        found |= matches!(
            e,
            Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::ScalarSubquery(_)
                | Expr::OuterReferenceColumn(..)
                | Expr::Placeholder(_)
        );
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found || walk.is_err()
}

/// Evaluates all tag filters on the series; `None` if there are no filters and all series match.
pub(crate) fn select(state: &dyn Session, filters: &[&Expr], series: &SeriesSet) -> Result<Option<BooleanArray>> {
    let Some(filter) = conjunction(filters.iter().map(|f| unnormalize_col((*f).clone()))) else { return Ok(None) };
    let batch = series.batch();
    let schema = DFSchema::try_from(batch.schema())?;
    let filter = state.create_physical_expr(filter, &schema)?;
    let mask = budget::as_execution(|| filter.evaluate(batch))?.into_array(batch.num_rows())?;
    let mask = datafusion::common::cast::as_boolean_array(&mask)?;
    Ok(Some(if mask.null_count() > 0 { prep_null_mask_filter(mask) } else { mask.clone() }))
}

/// Range of ticks within a bound on the time column; `None` for any other expression.
fn time_range(filter: &Expr, time: &str, precision: Precision) -> Option<TimeRange> {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            Some(time_range(left, time, precision)?.and(time_range(right, time, precision)?))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            if is_time(left, time, precision) {
                bound(*op, literal(right)?, precision)
            } else if is_time(right, time, precision) {
                bound(op.swap()?, literal(left)?, precision)
            } else {
                None
            }
        }
        Expr::Between(Between { expr, negated: false, low, high }) if is_time(expr, time, precision) => {
            let low = bound(Operator::GtEq, literal(low)?, precision)?;
            Some(low.and(bound(Operator::LtEq, literal(high)?, precision)?))
        }
        _ => None,
    }
}

/// Whether an expression is the time column, or a cast of it that preserves every instant and the order.
fn is_time(expr: &Expr, time: &str, precision: Precision) -> bool {
    match expr {
        Expr::Column(c) => c.name == time,
        Expr::Cast(Cast { expr, field }) => {
            let DataType::Timestamp(unit, zone) = field.data_type() else { return false };
            let utc = zone.as_deref().is_none_or(|z| z == "UTC" || z == "+00:00");
            utc && per_second(*unit) >= i128::from(precision.per_second()) && is_time(expr, time, precision)
        }
        _ => false,
    }
}

fn per_second(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// A literal instant as (ticks, ticks per second); the inner `None` is NULL.
fn literal(expr: &Expr) -> Option<Option<(i128, i128)>> {
    let Expr::Literal(value, _) = expr else { return None };
    let (value, zone, unit) = match value {
        ScalarValue::TimestampSecond(v, zone) => (v, zone, TimeUnit::Second),
        ScalarValue::TimestampMillisecond(v, zone) => (v, zone, TimeUnit::Millisecond),
        ScalarValue::TimestampMicrosecond(v, zone) => (v, zone, TimeUnit::Microsecond),
        ScalarValue::TimestampNanosecond(v, zone) => (v, zone, TimeUnit::Nanosecond),
        _ => return None,
    };
    let utc = zone.as_deref().is_none_or(|z| z == "UTC" || z == "+00:00");
    utc.then(|| value.map(|v| (i128::from(v), per_second(unit))))
}

/// The ticks that satisfy `time op literal`.
fn bound(op: Operator, literal: Option<(i128, i128)>, precision: Precision) -> Option<TimeRange> {
    if !matches!(op, Operator::Eq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq) {
        return None;
    }
    let Some((value, unit)) = literal else { return Some(TimeRange::NONE) };
    // `value / unit` seconds in ticks, as floor and ceiling.
    let scaled = value * i128::from(precision.per_second());
    let floor = scaled.div_euclid(unit);
    let ceil = floor + i128::from(scaled.rem_euclid(unit) != 0);
    let (first, last) = match op {
        Operator::Eq => (ceil, floor),
        Operator::Lt => (i128::from(i64::MIN), ceil - 1),
        Operator::LtEq => (i128::from(i64::MIN), floor),
        Operator::Gt => (floor + 1, i128::from(i64::MAX)),
        _ => (ceil, i128::from(i64::MAX)),
    };
    let (min, max) = (i128::from(i64::MIN), i128::from(i64::MAX));
    if first > last || first > max || last < min {
        return Some(TimeRange::NONE);
    }
    Some(TimeRange { first: first.max(min) as i64, last: last.min(max) as i64 })
}

#[cfg(test)]
mod tests {
    use datafusion::{
        logical_expr::{col, lit},
        prelude::cast,
    };
    use tidelake_format::{
        ids::{DatabaseId, TableId},
        schema::Role,
        types::Type,
    };

    use super::*;

    fn ms(v: i64) -> Expr {
        lit(ScalarValue::TimestampMillisecond(Some(v), None))
    }

    fn ns(v: i64) -> Expr {
        lit(ScalarValue::TimestampNanosecond(Some(v), None))
    }

    fn table() -> Supertable {
        let columns = [
            ("ts".to_owned(), Role::Time, Type::Timestamp),
            ("v".to_owned(), Role::Field, Type::Int),
            ("g".to_owned(), Role::Tag, Type::Int),
        ];
        Supertable::new(TableId(1), DatabaseId(1), "t", columns).unwrap()
    }

    fn range(e: Expr) -> Option<(i64, i64)> {
        match classify(&e, &table(), Precision::Milli) {
            Use::Time(r) => Some((r.first, r.last)),
            _ => None,
        }
    }

    #[test]
    fn bounds_are_inclusive_ticks_whatever_the_unit_of_the_literal() {
        assert_eq!(range(col("ts").gt(ms(5))), Some((6, i64::MAX)));
        assert_eq!(range(ms(5).gt_eq(col("ts"))), Some((i64::MIN, 5)));
        assert_eq!(range(col("ts").between(ms(5), ms(9))), Some((5, 9)));
        let as_ns = || cast(col("ts"), DataType::Timestamp(TimeUnit::Nanosecond, None));
        assert_eq!(range(as_ns().gt(ns(5_000_001))), Some((6, i64::MAX)));
        assert_eq!(range(as_ns().gt_eq(ns(5_000_000))), Some((5, i64::MAX)));
        assert_eq!(range(as_ns().lt(ns(5_000_001))), Some((i64::MIN, 5)));
        assert_eq!(range(as_ns().lt(ns(5_000_000))), Some((i64::MIN, 4)));
        assert_eq!(range(as_ns().eq(ns(5_000_001))), Some((i64::MAX, i64::MIN)));
        assert_eq!(range(col("ts").lt(ns(-1))), Some((i64::MIN, -1)));
        assert_eq!(range(col("ts").gt(lit(ScalarValue::TimestampMillisecond(None, None)))), Some((i64::MAX, i64::MIN)));
    }

    #[test]
    fn a_coarser_cast_or_another_operator_is_not_a_bound() {
        assert_eq!(range(cast(col("ts"), DataType::Timestamp(TimeUnit::Second, None)).gt(ms(5))), None);
        assert_eq!(range(col("ts").not_eq(ms(5))), None);
        assert_eq!(range(col("ts").gt(ms(5)).or(col("ts").lt(ms(1)))), None);
    }

    #[test]
    fn a_filter_is_for_series_only_when_every_column_is_a_tag() {
        let of = |e: Expr| classify(&e, &table(), Precision::Milli);
        assert_eq!(of(col("g").lt(lit(3)).or(col("tbname").eq(lit("a")))), Use::Tags);
        assert_eq!(of(col("g").lt(lit(3)).or(col("v").eq(lit(1)))), Use::Rows);
        assert_eq!(of(lit(true)), Use::Time(TimeRange::ALL));
        assert_eq!(of(lit(false)), Use::Time(TimeRange::NONE));
        assert_eq!(of(lit(ScalarValue::Boolean(None))), Use::Time(TimeRange::NONE));
    }
}
