//! Aggregates for which only the last (or first) row of each series counts, such as `DISTINCT ON (series) … ORDER BY ts DESC` and
//! `last_row(x)`: the scan below reads no other rows of chunks that no other chunk overlaps.

use std::sync::Arc;

use datafusion::{
    common::Result,
    physical_expr::{PhysicalExpr, PhysicalSortExpr, aggregate::AggregateFunctionExpr},
    physical_plan::{
        ExecutionPlan,
        aggregates::{AggregateExec, AggregateMode},
    },
};

use super::shape::{Resolver, below};
use crate::{
    functions::{Keep, as_first_last},
    scan::{End, SeriesScan, over_leaf},
};

/// The same plan over a scan of these rows, which `manifests` answer if they are allowed; `None` if other rows count.
pub(super) fn cut(
    aggregate: &AggregateExec,
    node: &Arc<dyn ExecutionPlan>,
    manifests: bool,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let (group, aggregates) = (aggregate.group_expr(), aggregate.aggr_expr());
    let reads_rows =
        matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::Single | AggregateMode::SinglePartitioned);
    if !reads_rows || aggregates.is_empty() || aggregate.filter_expr().iter().any(Option::is_some) {
        return Ok(None);
    }
    let (projections, scan) = below(aggregate.input());
    let Some(scan) = scan.filter(|s| s.limit().is_none() && s.end().is_none() && s.reading().predicate.is_none())
    else {
        return Ok(None);
    };
    let reader = Resolver { projections, scan };
    for (key, _) in group.expr() {
        if !reader.is_of_series(&reader.inline(key)?)? {
            return Ok(None);
        }
    }
    let mut found = None;
    for aggregate in aggregates {
        let end = end_of(aggregate, &reader)?;
        if end.is_none() || found.is_some_and(|found| Some(found) != end) {
            return Ok(None);
        }
        found = end;
    }
    let cut: Arc<dyn ExecutionPlan> = Arc::new(scan.with_end(found, manifests));
    over_leaf(node, &|leaf| Ok(leaf.is::<SeriesScan>().then(|| cut.clone())))
}

/// The row of each series on which the aggregate depends.
fn end_of(aggregate: &AggregateFunctionExpr, reader: &Resolver<'_>) -> Result<Option<End>> {
    if aggregate.is_distinct() || aggregate.is_reversed() || aggregate.ignore_nulls() {
        return Ok(None);
    }
    if as_first_last(aggregate) == Some(Keep::LastRow) {
        let [_, time] = &aggregate.expressions()[..] else { return Ok(None) };
        return Ok(reader.is_time(&reader.inline(time)?).then_some(End::Last));
    }
    let is_first = match aggregate.fun().name() {
        "first_value" => true,
        "last_value" => false,
        _ => return Ok(None),
    };
    for PhysicalSortExpr { expr, options } in aggregate.order_bys() {
        let expr: Arc<dyn PhysicalExpr> = reader.inline(expr)?;
        if reader.is_time(&expr) {
            return Ok(Some(if is_first == options.descending { End::Last } else { End::First }));
        }
        // Of the rows of one series, all have the same value.
        if !reader.is_of_series(&expr)? {
            return Ok(None);
        }
    }
    Ok(None)
}
