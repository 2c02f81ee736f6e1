//! Conditions of a statement on a table of the catalog, by which the table leaves out databases and tables before it reads
//! anything.

use datafusion::logical_expr::{BinaryExpr, Expr, Operator, TableProviderFilterPushDown};

/// The equalities of columns with texts that all rows of a scan meet.
#[derive(Debug)]
pub(crate) struct Equalities<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Equalities<'a> {
    /// Those among the filters of a scan; others are not used.
    pub(crate) fn of(filters: &'a [Expr]) -> Self {
        let text = |filter| match sides(filter)? {
            (column, Expr::Literal(value, _)) => Some((column, value.try_as_str()??)),
            _ => None,
        };
        Self(filters.iter().filter_map(text).collect())
    }

    /// Whether a row with this text in this column may be among the rows.
    pub(crate) fn allow(&self, column: &str, text: &str) -> bool {
        self.0.iter().all(|(name, wanted)| *name != column || *wanted == text)
    }
}

/// Which filters a scan receives: equalities, which are evaluated again above the scan.
pub(crate) fn pushed(filters: &[&Expr]) -> Vec<TableProviderFilterPushDown> {
    let of = |filter: &&Expr| match sides(filter) {
        Some(_) => TableProviderFilterPushDown::Inexact,
        None => TableProviderFilterPushDown::Unsupported,
    };
    filters.iter().map(of).collect()
}

/// The column and the constant of an equality; a constant may still be a parameter.
fn sides(filter: &Expr) -> Option<(&str, &Expr)> {
    let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = filter else { return None };
    match (left.as_ref(), right.as_ref()) {
        (Expr::Column(column), value @ (Expr::Literal(..) | Expr::Placeholder(_)))
        | (value @ (Expr::Literal(..) | Expr::Placeholder(_)), Expr::Column(column)) => Some((&column.name, value)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit, placeholder};

    use super::*;

    #[test]
    fn equalities_with_texts_leave_out_other_rows_and_nothing_else() {
        let filters =
            [col("db").eq(lit("a")), lit("t").eq(col("name")), col("db").not_eq(lit("b")), col("n").eq(lit(3))];
        let equalities = Equalities::of(&filters);
        assert!(equalities.allow("db", "a") && !equalities.allow("db", "b") && !equalities.allow("db", "A"));
        assert!(equalities.allow("name", "t") && !equalities.allow("name", "u"));
        assert!(equalities.allow("n", "4") && equalities.allow("other", "x"));
        let both = [col("db").eq(lit("a")), col("db").eq(lit("b"))];
        assert!(!Equalities::of(&both).allow("db", "a"));
    }

    #[test]
    fn a_parameter_is_pushed_and_leaves_out_nothing_until_it_has_a_value() {
        let filter = col("db").eq(placeholder("$1"));
        assert_eq!(pushed(&[&filter]), [TableProviderFilterPushDown::Inexact]);
        assert_eq!(pushed(&[&col("db").gt(lit("a"))]), [TableProviderFilterPushDown::Unsupported]);
        assert!(Equalities::of(&[filter]).allow("db", "a"));
    }
}
