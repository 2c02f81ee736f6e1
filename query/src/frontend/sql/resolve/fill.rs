//! `INTERVAL(…) FILL(mode)`: the grouped select becomes a subquery, and a plan node over it fills the gaps.
//!
//! The subquery returns the keys, the start of the window and each item with an aggregate; the node is [`fill_gaps`]. The outer
//! select computes the other items, which depend only on keys and window, for filled and other windows alike.
//!
//! [`fill_gaps`]: crate::plan::fill_gaps

use std::{collections::HashSet, ops::ControlFlow};

use datafusion::{
    execution::SessionState,
    sql::sqlparser::ast::{
        Distinct, Expr, Function, GroupByExpr, Ident, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr,
        TableAlias, TableFactor, TableWithJoins, VisitorMut,
    },
};
use tidelake_format::{Error, Result};

use super::{
    super::{
        clauses::{FillClause, Window},
        lex::{UNNAMED, at},
        names::quoted,
        visit::visit_mut,
    },
    Resolver, WindowNames,
    expression::{function_name, look},
    source::parse_query,
};
use crate::plan::{Fill, START, Windows};

/// The name of the subquery of a statement's n-th fill.
pub(crate) fn relation_name(n: usize) -> String {
    format!("fill{UNNAMED}{n}")
}

/// The number in a name of [`relation_name`].
pub(crate) fn fill_of(relation: &str) -> Option<usize> {
    relation.strip_prefix("fill")?.strip_prefix(UNNAMED)?.parse().ok()
}

/// Whether an expression has an aggregate outside nested queries.
pub(super) fn has_aggregate(expr: &Expr, state: &SessionState) -> bool {
    let mut found = false;
    look(expr, |part| found |= is_aggregate(part, state));
    found
}

/// Whether an expression calls an aggregate, not as a window function.
pub(super) fn is_aggregate(expr: &Expr, state: &SessionState) -> bool {
    matches!(expr, Expr::Function(f) if f.over.is_none()
        && function_name(f).is_some_and(|name| state.aggregate_functions().contains_key(&name)))
}

/// Rewrites a select whose GROUP BY is final. Returns the default order with the new names.
///
/// # Errors
/// Unsupported for clauses and items that cannot be filled; Invalid for a column that is neither a key nor in an aggregate.
pub(super) fn rewrite(
    resolver: &mut Resolver<'_>,
    select: &mut Select,
    window: &Window,
    clause: &FillClause,
    names: &WindowNames,
    order_by: Option<&mut OrderBy>,
    default_order: Vec<Expr>,
) -> Result<Vec<Expr>> {
    refuse(select).map_err(|e| at(e, clause.place))?;
    let GroupByExpr::Expressions(groups, _) = &select.group_by else {
        return Err(Error::internal("a window without groups"));
    };
    let mut outer = Outer { resolver, columns: Vec::new(), aliases: HashSet::new() };
    let mut aliases = HashSet::new();
    for key in groups.iter().filter(|key| **key != names.start) {
        let name = format!("__key{}", outer.columns.len());
        outer.columns.push((key.clone(), name));
    }
    let keys = outer.columns.len();
    outer.columns.push((names.start.clone(), START.to_owned()));
    let mut inner = select.clone();
    let mut projection = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        let (mut expr, alias) = match item {
            SelectItem::ExprWithAlias { expr, alias } => (expr, alias),
            SelectItem::UnnamedExpr(expr) => {
                let name = last_name(&expr).unwrap_or_else(|| expr.to_string());
                (expr, quoted(name))
            }
            other => {
                let error = Error::unsupported("with FILL the select list names its columns one by one");
                return Err(at(error.with("found", other), clause.place));
            }
        };
        if has_aggregate(&expr, outer.resolver.state) {
            let name = format!("__value{}", outer.columns.len() - keys - 1);
            outer.columns.push((expr, name.clone()));
            expr = Expr::Identifier(quoted(name));
        } else {
            outer.rename(&mut expr).map_err(|e| at(e, clause.place))?;
        }
        aliases.insert(alias.value.clone());
        projection.push(SelectItem::ExprWithAlias { expr, alias });
    }
    if let Some(order_by) = order_by
        && let OrderByKind::Expressions(exprs) = &mut order_by.kind
    {
        outer.aliases = aliases;
        for by in exprs {
            outer.rename(&mut by.expr).map_err(|e| at(e, clause.place))?;
        }
        outer.aliases.clear();
    }
    let mut order = default_order;
    for expr in &mut order {
        outer.rename(expr).map_err(|e| at(e, clause.place))?;
    }
    let item = |(expr, name): &(Expr, String)| SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(&**name) };
    inner.projection = outer.columns.iter().map(item).collect();
    inner.distinct = None;
    let mut query = parse_query("SELECT 1")?;
    *query.body = SetExpr::Select(Box::new(inner));
    let windows = Windows {
        width: window.interval,
        offset: window.offset,
        step: window.sliding,
        zone: resolver.session.time_zone,
    };
    let name = quoted(relation_name(resolver.fills.len()));
    resolver.fills.push(Fill { mode: clause.mode.clone(), is_forced: clause.is_forced, windows, keys });
    let alias = TableAlias { explicit: true, name, columns: Vec::new(), at: None };
    let relation = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: Some(alias), sample: None };
    select.from = vec![TableWithJoins { relation, joins: Vec::new() }];
    select.projection = projection;
    select.selection = None;
    select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    Ok(order)
}

/// Refuses clauses that have no defined meaning with FILL, window functions, and UNNEST.
fn refuse(select: &Select) -> Result<()> {
    let refuse = |found: &str| {
        let message = "not supported in a SELECT with FILL; put that SELECT into a subquery, and this around it";
        Err(Error::unsupported(message).with("found", found))
    };
    let mut over = None;
    look(&select.projection, |expr| {
        if let Expr::Function(function @ Function { over: is_over, .. }) = expr
            && (is_over.is_some() || function_name(function).is_some_and(|name| name == "unnest"))
        {
            over = Some(expr.to_string());
        }
    });
    match over {
        Some(over) => refuse(&over),
        None if select.having.is_some() => refuse("HAVING"),
        None if select.qualify.is_some() => refuse("QUALIFY"),
        None if matches!(select.distinct, Some(Distinct::On(_))) => refuse("DISTINCT ON"),
        None => Ok(()),
    }
}

/// The last part of a column's name.
fn last_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(ident.value.clone()),
        Expr::CompoundIdentifier(idents) => idents.last().map(|ident| ident.value.clone()),
        _ => None,
    }
}

/// Replaces expressions of the select by names of the subquery's columns.
struct Outer<'r, 'a> {
    resolver: &'r Resolver<'a>,
    /// The subquery's columns: expression and name.
    columns: Vec<(Expr, String)>,
    /// The names of the select list while ORDER BY is rewritten; they have precedence over columns of the same name.
    aliases: HashSet<String>,
}

impl Outer<'_, '_> {
    /// # Errors
    /// Invalid for columns that are neither keys nor in aggregates, Unsupported for aggregates that are not select items.
    fn rename(&self, expr: &mut Expr) -> Result<()> {
        let _ = visit_mut(expr, &mut Rename { outer: self, depth: 0 });
        let (mut column, mut aggregate) = (None, None);
        look(expr, |part| match part {
            Expr::Identifier(ident) if !self.is_ours(ident) && !self.is_alias(part) => column = Some(part.to_string()),
            Expr::CompoundIdentifier(_) => column = Some(part.to_string()),
            part if is_aggregate(part, self.resolver.state) => aggregate = Some(part.to_string()),
            _ => (),
        });
        match (aggregate, column) {
            (Some(found), _) => {
                let message = "with FILL, ORDER BY takes columns of the select list: give the aggregate a name there";
                Err(Error::unsupported(message).with("found", found))
            }
            (_, Some(found)) => {
                let message = "expected a key of PARTITION BY, a name of the window such as _wstart, or an aggregate";
                Err(Error::invalid(message).with("found", found))
            }
            (None, None) => Ok(()),
        }
    }

    fn is_ours(&self, ident: &Ident) -> bool {
        self.columns.iter().any(|(_, name)| *name == ident.value)
    }

    fn is_alias(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Identifier(ident) if self.aliases.contains(&ident.value))
    }

    fn name_of(&self, expr: &Expr) -> Option<&str> {
        if self.is_alias(expr) {
            return None;
        }
        let same = |of: &Expr| {
            let column = self.resolver.column_of(expr);
            *of == *expr
                || (self.resolver.has_one_relation() && column.is_some() && column == self.resolver.column_of(of))
        };
        self.columns.iter().find(|(of, _)| same(of)).map(|(_, name)| name.as_str())
    }
}

/// Visits the expressions of the select without those of nested queries, whose names are resolved in a different scope.
struct Rename<'o, 'r, 'a> {
    outer: &'o Outer<'r, 'a>,
    depth: usize,
}

impl VisitorMut for Rename<'_, '_, '_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if self.depth == 0
            && let Some(name) = self.outer.name_of(expr)
        {
            *expr = Expr::Identifier(quoted(name));
        }
        ControlFlow::Continue(())
    }
}
