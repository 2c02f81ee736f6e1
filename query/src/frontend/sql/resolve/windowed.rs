//! `INTERVAL(…) [SLIDING(…)]`: FROM becomes one relation, and a plan node over it adds each row's windows ([`assign_windows`]).
//!
//! [`assign_windows`]: crate::plan::assign_windows

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Join, JoinConstraint, JoinOperator, Select, TableAlias, TableFactor, TableWithJoins, Value,
};
use tidelake_format::{Error, Result, types::Precision};
use tidelake_protocol::sql::Duration;

use super::{
    super::{clauses::Window, lex::UNNAMED, names::quoted},
    Resolver, WindowNames,
    expression::{call, text},
};
use crate::{
    functions::{
        grid::Grid,
        window::{MAX_OVERLAP, WINDOW_END, check},
    },
    plan::{START, Windows},
};

/// The windows of a relation.
#[derive(Debug, Clone)]
pub(crate) struct Windowed {
    /// The time column, as an expression over the relation.
    pub(crate) time: Expr,
    pub(crate) windows: Windows,
}

/// The name of the relation of a statement's n-th windows.
fn relation_name(n: usize) -> String {
    format!("windows{UNNAMED}{n}")
}

/// The number in a name of [`relation_name`].
pub(crate) fn windows_of(relation: &str) -> Option<usize> {
    relation.strip_prefix("windows")?.strip_prefix(UNNAMED)?.parse().ok()
}

/// Turns FROM into one relation with windows. Returns the expressions of the window's pseudo-columns.
///
/// # Errors
/// Invalid for an invalid combination of INTERVAL and SLIDING, Unsupported for overlapping calendar windows.
pub(super) fn rewrite(
    resolver: &mut Resolver<'_>,
    select: &mut Select,
    window: &Window,
    time: Expr,
    precision: Precision,
) -> Result<WindowNames> {
    let Window { interval: width, offset, sliding: step, .. } = *window;
    let zone = resolver.session.time_zone;
    let grid = check(width, offset, zone, precision.unit())?;
    let start = Expr::Identifier(quoted(START));
    let end = if step == width {
        let texts = [text(width.to_string()), text(offset.to_string()), text(zone.name())];
        call(WINDOW_END, std::iter::once(start.clone()).chain(texts).collect())
    } else {
        let ticks = overlapping(window, &grid, check(step, Duration::ZERO, zone, precision.unit())?)?;
        Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(start.clone()),
            op: BinaryOperator::Plus,
            right: Box::new(Expr::Value(Value::Number(ticks.to_string(), false).with_empty_span())),
        }))
    };
    let name = relation_name(resolver.windows.len());
    resolver.windows.push(Windowed { time, windows: Windows { width, offset, step, zone } });
    let mut from = std::mem::take(&mut select.from).into_iter();
    let Some(mut all) = from.next() else { return Err(Error::internal("a window without a relation")) };
    // Cross-join the comma-separated relations, so that there is one relation.
    all.joins.extend(from.map(|table| Join {
        relation: match table.joins.is_empty() {
            true => table.relation,
            false => TableFactor::NestedJoin { table_with_joins: Box::new(table), alias: None },
        },
        global: false,
        join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
    }));
    let alias = TableAlias { explicit: true, name: quoted(name), columns: Vec::new(), at: None };
    let relation = TableFactor::NestedJoin { table_with_joins: Box::new(all), alias: Some(alias) };
    select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    Ok(WindowNames { start, end, precision })
}

/// The width in ticks of overlapping windows.
fn overlapping(window: &Window, grid: &Grid, step: Grid) -> Result<i64> {
    let Window { interval, sliding, .. } = *window;
    let found = || format!("INTERVAL({interval}) SLIDING({sliding})");
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
    Ok(*width)
}
