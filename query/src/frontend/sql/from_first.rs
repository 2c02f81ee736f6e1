//! `FROM t` without SELECT selects all columns, as in DuckDB.

use std::ops::ControlFlow;

use datafusion::sql::{
    parser::Statement,
    sqlparser::ast::{Select, SelectFlavor, SelectItem, VisitorMut, WildcardAdditionalOptions},
};
use tidelake_format::Error;

use super::visit::visit_mut;

/// Adds `*` to every query without SELECT, in subqueries too.
pub(crate) fn select_all(statement: &mut Statement) {
    match statement {
        Statement::Statement(statement) => {
            let _ = visit_mut(statement.as_mut(), &mut All);
        }
        Statement::Explain(explain) => select_all(&mut explain.statement),
        _ => {}
    }
}

struct All;

impl VisitorMut for All {
    type Break = Box<Error>;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        if select.flavor == SelectFlavor::FromFirstNoSelect && select.projection.is_empty() {
            select.projection = vec![SelectItem::Wildcard(WildcardAdditionalOptions::default())];
            select.flavor = SelectFlavor::Standard;
        }
        ControlFlow::Continue(())
    }
}
