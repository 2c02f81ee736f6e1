//! `INTERVAL(w) SLIDING(s)`: every row repeated for each window that holds it, in a subquery below the grouping.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableWithJoins, Value,
};
use tidelake_format::{Error, Result, types::Precision};

use super::{
    super::{clauses::Window, names::quoted},
    Place, Resolver, WindowNames,
    expression::{call, text},
    source::parse_query,
};
use crate::functions::{
    grid::Grid,
    window::{MAX_OVERLAP, WINDOW_STARTS, check},
};
use tidelake_protocol::sql::Duration;

/// The column that holds the start of the window.
const START: &str = "__window_start";

/// Puts the select's relation and WHERE into a subquery with one row per row and window; gives the window's names.
///
/// # Errors
/// Invalid for a step longer than the width, Unsupported for windows of the calendar, joins and subqueries whose columns are not known.
pub(super) fn rewrite(
    resolver: &mut Resolver<'_>,
    select: &mut Select,
    window: &Window,
    grid: &Grid,
    time: Expr,
    precision: Precision,
) -> Result<WindowNames> {
    let Window { interval, sliding, .. } = *window;
    let found = || format!("INTERVAL({interval}) SLIDING({sliding})");
    let zone = resolver.session.time_zone;
    let step = check(sliding, Duration::ZERO, zone, precision.unit())?;
    let (Grid::Fixed { width, .. }, Grid::Fixed { width: step, .. }) = (grid, &step) else {
        let message = "SLIDING works with windows of a fixed length: units b u a s m h, and d and w in UTC";
        return Err(Error::unsupported(message).with("found", found()));
    };
    if step > width {
        return Err(Error::invalid("SLIDING must not be longer than INTERVAL").with("found", found()));
    }
    if width / step >= MAX_OVERLAP {
        return Err(Error::invalid("SLIDING is too short for INTERVAL: a row would be in too many windows")
            .with("limit", MAX_OVERLAP)
            .with("found", found()));
    }
    // An offset may be as long as the step or longer: what is left of it moves the same grid.
    let offset_ticks = match grid {
        Grid::Fixed { offset, .. } => offset % step,
        _ => 0,
    };
    let nanos = i128::from(offset_ticks) * i128::from(1_000_000_000 / precision.per_second());
    let relation = match resolver.current().relations.as_slice() {
        [relation] if relation.columns.is_some() => relation.clone(),
        _ => {
            return Err(Error::unsupported("SLIDING needs one table, or one subquery with named columns, in FROM")
                .with("found", found()));
        }
    };
    let name = relation.qualifier.last().cloned().unwrap_or_else(|| "windowed".to_owned());
    if let Some(selection) = &mut select.selection {
        resolver.expression(selection, Place::Columns)?;
    }
    let texts = [interval.to_string(), sliding.to_string(), format!("{nanos}b"), zone.name().to_owned()].map(text);
    let starts = call(WINDOW_STARTS, std::iter::once(time).chain(texts).collect());
    let columns = relation.columns.iter().flatten();
    let mut query = parse_query("SELECT 1")?;
    let SetExpr::Select(inner) = query.body.as_mut() else {
        return Err(Error::internal("a query of our own is no SELECT"));
    };
    inner.projection = columns
        .map(|c| SelectItem::UnnamedExpr(Expr::Identifier(quoted(&*c.name))))
        .chain([SelectItem::ExprWithAlias { expr: call("unnest", vec![starts]), alias: quoted(START) }])
        .collect();
    inner.from = std::mem::take(&mut select.from);
    inner.selection = select.selection.take();
    let alias = TableAlias { explicit: true, name: quoted(&*name), columns: Vec::new(), at: None };
    let relation = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None };
    select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    resolver.rename_only_relation(name);
    let start = Expr::Identifier(quoted(START));
    let end = Expr::BinaryOp {
        left: Box::new(start.clone()),
        op: BinaryOperator::Plus,
        right: Box::new(Expr::Value(Value::Number(width.to_string(), false).with_empty_span())),
    };
    Ok(WindowNames { start, end: Expr::Nested(Box::new(end)), precision })
}
