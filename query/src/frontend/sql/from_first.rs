//! `FROM t` without SELECT selects all columns, as in DuckDB.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{Select, SelectFlavor, SelectItem, VisitMut, VisitorMut, WildcardAdditionalOptions},
};

/// Adds `*` to every query without SELECT, in subqueries too.
pub(crate) fn select_all(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => {
            let _ = statement.visit(&mut All);
        }
        Statement::Explain(explain) => select_all(&mut explain.statement),
        _ => {}
    }
}

struct All;

impl VisitorMut for All {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
            select.flavor = SelectFlavor::Standard;
        }
        ControlFlow::Continue(())
    }
}
