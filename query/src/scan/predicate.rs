//! Filters on the time and the fields of rows, which a scan applies before it attaches tags and before aggregates read
//! the rows.

use std::{
    fmt,
    ops::RangeInclusive,
    sync::{Arc, atomic::AtomicUsize},
};

use arrow::{
    array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt8Array},
    compute::{prep_null_mask_filter, take},
    datatypes::{FieldRef, Schema, SchemaRef},
};
use datafusion::{
    catalog::Session,
    common::{Column, DFSchema, Result as DfResult, ScalarValue, cast::as_boolean_array},
    logical_expr::{
        Between, BinaryExpr, Cast, Expr, Operator, TryCast, expr::InList, expr_rewriter::unnormalize_col,
        utils::conjunction,
    },
    physical_expr::PhysicalExpr,
};
use tidelake_format::{
    Error, Result,
    file::RowFilter,
    schema::{Role, Supertable, field_id},
};

use super::{
    output::{Decoded, retain},
    read::Columns,
};
use crate::{budget, error::from_datafusion};

/// Operators of filters that a scan applies, and their names in an encoded scan.
pub(super) const OPERATORS: [(Operator, &str); 10] = [
    (Operator::Eq, "="),
    (Operator::NotEq, "<>"),
    (Operator::Lt, "<"),
    (Operator::LtEq, "<="),
    (Operator::Gt, ">"),
    (Operator::GtEq, ">="),
    (Operator::IsDistinctFrom, "is distinct from"),
    (Operator::IsNotDistinctFrom, "is not distinct from"),
    (Operator::And, "and"),
    (Operator::Or, "or"),
];

/// Maximum depth of a filter that a scan applies, so that the JSON of an encoded scan nests less than 128 levels.
const MOST_DEPTH: usize = 30;

/// Whether a scan can apply a filter: it compares the time and fields of a row with constants or with each other.
///
/// Other expressions stay in the plan, where the memory and the time of functions are limited.
pub(super) fn is_on_rows(filter: &Expr, table: &Supertable) -> bool {
    fn fits(expr: &Expr, table: &Supertable, depth: usize) -> bool {
        let inner = |expr: &Expr| depth < MOST_DEPTH && fits(expr, table, depth + 1);
        match expr {
            Expr::Column(column) => {
                table.columns.iter().any(|c| c.name == column.name && matches!(c.role, Role::Time | Role::Field))
            }
            Expr::Literal(..) => true,
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                OPERATORS.iter().any(|(known, _)| known == op) && inner(left) && inner(right)
            }
            Expr::Not(of)
            | Expr::IsNull(of)
            | Expr::IsNotNull(of)
            | Expr::Cast(Cast { expr: of, .. })
            | Expr::TryCast(TryCast { expr: of, .. }) => inner(of),
            Expr::Between(Between { expr, low, high, .. }) => inner(expr) && inner(low) && inner(high),
            Expr::InList(InList { expr, list, .. }) => {
                inner(expr) && list.iter().all(|e| matches!(e, Expr::Literal(..)))
            }
            _ => false,
        }
    }
    fits(filter, table, 0) && !filter.column_refs().is_empty()
}

/// A filter on rows.
#[derive(Debug)]
pub(crate) struct Predicate {
    /// All must hold; columns are unqualified.
    filters: Vec<Expr>,
    /// The columns that they read.
    columns: SchemaRef,
    expression: Arc<dyn PhysicalExpr>,
    /// The values that it keeps, if it reads one column of 64-bit integers or times and keeps just a range of them.
    range: Option<RangeInclusive<i64>>,
    /// Number of rows from which readers made their last batch.
    window: Arc<AtomicUsize>,
}

impl Predicate {
    /// Creates the conjunction of filters for which [`is_on_rows`] holds; `None` without filters. `fields` are the columns
    /// of the table.
    ///
    /// # Errors
    /// DataFusion's.
    pub(super) fn new(filters: Vec<Expr>, fields: &[FieldRef], state: &dyn Session) -> DfResult<Option<Arc<Self>>> {
        let filters: Vec<Expr> = filters.into_iter().map(unnormalize_col).collect();
        let Some(all) = conjunction(filters.iter().cloned()) else { return Ok(None) };
        let read = all.column_refs();
        let is_read = |field: &&FieldRef| read.contains(&Column::from_name(field.name()));
        let columns = Arc::new(Schema::new(fields.iter().filter(is_read).cloned().collect::<Vec<_>>()));
        let expression = state.create_physical_expr(all, &DFSchema::try_from(columns.clone())?)?;
        let range = match &columns.fields()[..] {
            [column] => range_of(&filters, column),
            _ => None,
        };
        Ok(Some(Arc::new(Self { filters, columns, expression, range, window: Arc::default() })))
    }

    /// The filters, all of which must hold.
    pub(super) fn filters(&self) -> &[Expr] {
        &self.filters
    }

    /// `wanted`, followed by the columns that the predicate reads besides them.
    pub(super) fn with_own(&self, wanted: &Columns) -> Columns {
        let own = self.columns.fields().iter();
        let missing = own.filter(|field| !wanted.ids().any(|id| Some(id) == field_id(field)));
        wanted.with(missing.cloned())
    }

    /// The predicate for the reader of a data file; `columns` are those that the reader is asked for.
    ///
    /// # Errors
    /// Internal if one of the predicate's columns is not among them.
    pub(super) fn of_reader(self: &Arc<Self>, columns: &Columns) -> Result<RowFilter> {
        let this = self.clone();
        Ok(RowFilter {
            columns: self.places(columns.schema())?,
            keep: Arc::new(move |rows| {
                let all: Vec<usize> = (0..rows.rows.num_columns()).collect();
                Ok(this.mask(&rows.rows, &rows.dictionaries, &all)?.into_parts().0)
            }),
            range: self.range.clone(),
            window: self.window.clone(),
        })
    }

    /// Keeps the rows for which the predicate is true.
    ///
    /// # Errors
    /// Those of the expression, such as a cast of a value that the type cannot hold.
    pub(super) fn keep(&self, rows: Decoded) -> Result<Decoded> {
        let mask = self.mask(&rows.batch, &rows.dictionaries, &self.places(rows.batch.schema_ref())?)?;
        retain(rows, &mask)
    }

    /// Indexes of the predicate's columns in a schema.
    fn places(&self, schema: &SchemaRef) -> Result<Vec<usize>> {
        let place = |field: &FieldRef| schema.fields().iter().position(|f| field_id(f) == field_id(field));
        let places: Option<Vec<usize>> = self.columns.fields().iter().map(place).collect();
        places.ok_or_else(|| Error::internal("column of a filter was not read"))
    }

    /// Whether each row is kept, without nulls; `places` are the indexes of the predicate's columns.
    fn mask(&self, rows: &RecordBatch, dictionaries: &[Option<ArrayRef>], places: &[usize]) -> Result<BooleanArray> {
        let dictionary = |at: usize| dictionaries.get(at).and_then(Option::as_ref);
        if let [at] = places[..]
            && let Some(dictionary) = dictionary(at)
        {
            // One evaluation per distinct value.
            let of_entries = self.evaluate(vec![dictionary.clone()], dictionary.len())?;
            let mut known = [false; 256];
            known.iter_mut().zip(of_entries.values()).for_each(|(known, kept)| *known = kept);
            let codes = rows.column(at).as_any().downcast_ref::<UInt8Array>();
            let codes = codes.ok_or_else(|| Error::internal("codes of a column are not UInt8"))?;
            return Ok(BooleanArray::from_unary(codes, |code| known[usize::from(code)]));
        }
        let column = |at: &usize| match dictionary(*at) {
            Some(dictionary) => take(dictionary, rows.column(*at), None).map_err(Error::from),
            None => Ok(rows.column(*at).clone()),
        };
        self.evaluate(places.iter().map(column).collect::<Result<Vec<_>>>()?, rows.num_rows())
    }

    fn evaluate(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        let batch = RecordBatch::try_new(self.columns.clone(), columns)?;
        let evaluate = || self.expression.evaluate(&batch)?.into_array(rows);
        let mask = budget::as_execution(evaluate).map_err(from_datafusion)?;
        let mask = as_boolean_array(&mask).map_err(from_datafusion)?;
        Ok(if mask.null_count() > 0 { prep_null_mask_filter(mask) } else { mask.clone() })
    }
}

/// The range of the values of a column for which all filters hold, if each compares it with one constant of its own type.
fn range_of(filters: &[Expr], column: &FieldRef) -> Option<RangeInclusive<i64>> {
    let constant = |expr: &Expr| match expr {
        Expr::Literal(value, _) if value.data_type() == *column.data_type() => match value {
            ScalarValue::Int64(value)
            | ScalarValue::TimestampMillisecond(value, _)
            | ScalarValue::TimestampMicrosecond(value, _)
            | ScalarValue::TimestampNanosecond(value, _) => *value,
            _ => None,
        },
        _ => None,
    };
    let is_column = |expr: &Expr| matches!(expr, Expr::Column(of) if of.name == *column.name());
    let (mut least, mut most) = (i64::MIN, i64::MAX);
    for filter in filters {
        let (from, to) = match filter {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                let (op, value) = match (is_column(left), is_column(right)) {
                    (true, false) => (*op, constant(right)?),
                    (false, true) => (op.swap()?, constant(left)?),
                    _ => return None,
                };
                match op {
                    Operator::Eq => (value, value),
                    Operator::Lt => (i64::MIN, value.checked_sub(1)?),
                    Operator::LtEq => (i64::MIN, value),
                    Operator::Gt => (value.checked_add(1)?, i64::MAX),
                    Operator::GtEq => (value, i64::MAX),
                    _ => return None,
                }
            }
            Expr::Between(Between { expr, negated: false, low, high }) if is_column(expr) => {
                (constant(low)?, constant(high)?)
            }
            _ => return None,
        };
        (least, most) = (least.max(from), most.min(to));
    }
    Some(least..=most)
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, filter) in self.filters.iter().enumerate() {
            write!(f, "{}{filter}", if i > 0 { " AND " } else { "" })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::Int64Array,
        datatypes::{DataType, Field},
    };
    use datafusion::{
        logical_expr::{col, lit},
        prelude::SessionContext,
    };

    use super::*;

    #[test]
    fn the_range_of_a_filter_has_the_values_for_which_it_holds() {
        let state = SessionContext::new().state();
        let values: Vec<i64> = (-4..=9).chain([i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX]).collect();
        let fields: Vec<FieldRef> =
            ["v", "w"].map(|name| Arc::new(Field::new(name, DataType::Int64, true))).into_iter().collect();
        let predicate = |filters: Vec<Expr>| Predicate::new(filters, &fields, &state).unwrap().unwrap();
        let v = || col("v");
        let ranges = [
            vec![v().gt(lit(5_i64))],
            vec![v().gt_eq(lit(-1_i64)), v().lt(lit(7_i64))],
            vec![lit(3_i64).lt(v()), lit(5_i64).gt_eq(v())],
            vec![v().eq(lit(2_i64))],
            vec![v().between(lit(2_i64), lit(4_i64)), v().gt(lit(2_i64))],
            vec![v().lt(lit(1_i64)), v().gt(lit(1_i64))],
            vec![v().lt(lit(i64::MAX)), v().gt(lit(i64::MIN))],
        ];
        for filters in ranges {
            let predicate = predicate(filters);
            let range = predicate.range.clone().unwrap_or_else(|| panic!("{predicate}"));
            let kept = predicate.evaluate(vec![Arc::new(Int64Array::from(values.clone()))], values.len()).unwrap();
            let found: Vec<bool> = values.iter().map(|value| range.contains(value)).collect();
            assert_eq!(kept.iter().flatten().collect::<Vec<_>>(), found, "{predicate}");
        }
        let others = [
            vec![v().not_eq(lit(5_i64))],
            vec![v().not_between(lit(2_i64), lit(4_i64))],
            vec![v().gt(lit(5.5_f64))],
            vec![v().gt(col("w"))],
            vec![v().gt(lit(5_i64)), v().is_not_null()],
            vec![v().gt(lit(5_i64)).or(v().lt(lit(2_i64)))],
            vec![v().gt(lit(i64::MAX))],
        ];
        for filters in others {
            assert_eq!(predicate(filters).range, None);
        }
    }
}
