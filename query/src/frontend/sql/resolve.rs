//! Resolves names and rewrites TDengine's semantics as standard SQL, select by select.
//!
//! Tables become `"database"."table"`, columns get their exact names, `*` is expanded without `tbname`, unnamed select items are
//! named by their text, windows become GROUP BY and ORDER BY. Every select is visited with the relations in its scope, so that
//! subqueries, CTEs and the arms of set operations are handled alike.

mod expression;
mod fill;
mod select;
mod source;
mod windowed;

use std::collections::HashSet;

use datafusion::{
    execution::SessionState,
    sql::{
        parser::Statement,
        sqlparser::ast::{
            Expr, Ident, LimitClause, Offset, OffsetRows, OrderBy, OrderByExpr, OrderByKind, Query, SetExpr,
            Statement as SqlStatement, TableFactor, TableWithJoins,
        },
    },
};
use tidelake_format::{
    Error, Reason, Result,
    types::{Precision, Type},
};

use super::{clauses::Clauses, lex::at, names::Names};
use crate::{plan::Fill, session::Session};

pub(super) use {
    expression::function_name,
    fill::fill_of,
    windowed::{Windowed, windows_of},
};

/// Parameters of a statement's plan nodes. [`windows_of`] and [`fill_of`] get a node's index from the name of its relation.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) windows: Vec<Windowed>,
    pub(crate) fills: Vec<Fill>,
}

/// A column that a select can name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Col {
    /// The exact name.
    pub(crate) name: String,
    pub(crate) role: ColRole,
    /// The declared type, for columns of supertables.
    pub(crate) ty: Option<Type>,
    /// Whether `*` omits the column.
    pub(crate) hidden: bool,
}

/// Role of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColRole {
    /// The time of the row.
    Time(Precision),
    /// A tag of the series.
    Tag,
    /// The name of the series.
    Series,
    /// Everything else.
    Other,
}

/// A relation in FROM.
#[derive(Debug, Clone)]
pub(crate) struct Relation {
    /// The qualifier of its columns: `["db", "table"]` or `["alias"]`. A name may use all of it or only its last parts.
    pub(crate) qualifier: Vec<String>,
    /// The columns; `None` where only the planner knows them.
    pub(crate) columns: Option<Vec<Col>>,
    /// Columns that JOIN … USING or NATURAL JOIN takes from the left relation. `*` omits them.
    pub(crate) merged: Vec<String>,
}

/// The names in scope of one select.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    pub(crate) relations: Vec<Relation>,
    /// The aliases of the select list.
    pub(crate) aliases: Vec<String>,
    /// The expressions behind `_wstart`, `_wend` and `_wduration`, where the select has a window.
    pub(crate) window: Option<WindowNames>,
}

/// The expressions of a window's pseudo-columns.
#[derive(Debug, Clone)]
pub(crate) struct WindowNames {
    pub(crate) start: Expr,
    pub(crate) end: Expr,
    pub(crate) precision: Precision,
}

/// The clause of an expression, which determines whether aliases are in scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Select list, WHERE, ON: columns only.
    Columns,
    /// GROUP BY, HAVING: columns, then aliases.
    ColumnsThenAliases,
    /// ORDER BY: aliases, then columns.
    AliasesThenColumns,
}

/// A CTE in scope: its name and columns.
type Cte = (String, Option<Vec<Col>>);

/// Rewrites a statement in place.
pub(crate) struct Resolver<'a> {
    pub(crate) names: &'a Names<'a>,
    pub(crate) session: &'a Session,
    pub(crate) clauses: &'a Clauses,
    pub(crate) state: &'a SessionState,
    scopes: Vec<Scope>,
    ctes: Vec<Cte>,
    /// The windows so far, with their time columns. The statement has a relation of each one's name ([`windowed`]).
    windows: Vec<Windowed>,
    /// The fills so far. The statement has a subquery of each one's name ([`fill::relation_name`]).
    fills: Vec<Fill>,
}

/// Rewrites a query. Returns the plan nodes over its relations.
///
/// # Errors
/// NotFound and Invalid for unknown names, Invalid and Unsupported for combinations of clauses.
pub(crate) fn resolve(
    statement: &mut Statement,
    names: &Names<'_>,
    session: &Session,
    clauses: &Clauses,
    state: &SessionState,
) -> Result<Nodes> {
    let mut resolver = Resolver {
        names,
        session,
        clauses,
        state,
        scopes: Vec::new(),
        ctes: Vec::new(),
        windows: Vec::new(),
        fills: Vec::new(),
    };
    resolver.statement(statement)?;
    Ok(Nodes { windows: resolver.windows, fills: resolver.fills })
}

impl Resolver<'_> {
    fn statement(&mut self, statement: &mut Statement) -> Result<()> {
        match statement {
            Statement::Statement(statement) => match statement.as_mut() {
                SqlStatement::Query(query) => {
                    self.query(query, true)?;
                    Ok(())
                }
                other => Err(Error::unsupported("expected a query").with("found", first_words(other))),
            },
            Statement::Explain(explain) => self.statement(&mut explain.statement),
            other => Err(Error::unsupported("expected a query").with("found", first_words(other))),
        }
    }

    /// Rewrites a query and returns its columns. At the top level column names may repeat.
    pub(crate) fn query(&mut self, query: &mut Query, top: bool) -> Result<Option<Vec<Col>>> {
        let ctes = self.ctes.len();
        if let Some(with) = &mut query.with {
            for cte in &mut with.cte_tables {
                let name = cte.alias.name.value.clone();
                if with.recursive {
                    self.ctes.push((name.clone(), None));
                }
                let mut columns = self.query(&mut cte.query, false)?;
                if !cte.alias.columns.is_empty() {
                    let names = cte.alias.columns.iter().map(|c| exact(&c.name)).collect::<Vec<_>>();
                    columns = rename(columns, names);
                }
                if with.recursive {
                    self.ctes.pop();
                }
                self.ctes.push((name, columns));
            }
        }
        if !query.pipe_operators.is_empty() {
            return Err(Error::unsupported("pipe operators are not supported").with("found", "'|>'"));
        }
        refuse_ignored(query)?;
        let columns = self.body(query, top)?;
        if let Some(limit) = &mut query.limit_clause {
            limit_clause(limit);
        }
        self.ctes.truncate(ctes);
        Ok(columns)
    }

    fn body(&mut self, query: &mut Query, top: bool) -> Result<Option<Vec<Col>>> {
        let limited = query.limit_clause.is_some() || query.fetch.is_some();
        match query.body.as_mut() {
            SetExpr::Select(select) => {
                let (columns, default_order) = self.select(select, query.order_by.as_mut(), limited, top)?;
                if query.order_by.is_none() && !default_order.is_empty() {
                    let options = Default::default();
                    let exprs =
                        default_order.into_iter().map(|expr| OrderByExpr { expr, options, with_fill: None }).collect();
                    query.order_by = Some(OrderBy { kind: OrderByKind::Expressions(exprs), interpolate: None });
                }
                Ok(columns)
            }
            other => {
                let columns = self.set(other, top)?;
                if let Some(order_by) = &mut query.order_by {
                    // ORDER BY of a set operation uses the names of its result.
                    let relation = Relation { qualifier: Vec::new(), columns: columns.clone(), merged: Vec::new() };
                    self.scopes.push(Scope { relations: vec![relation], ..Scope::default() });
                    let done = self.order_by(order_by);
                    self.scopes.pop();
                    done?;
                }
                Ok(columns)
            }
        }
    }

    fn set(&mut self, body: &mut SetExpr, top: bool) -> Result<Option<Vec<Col>>> {
        match body {
            SetExpr::Select(select) => Ok(self.select(select, None, false, top)?.0),
            SetExpr::Query(query) => self.query(query, top),
            SetExpr::SetOperation { left, right, .. } => {
                let columns = self.set(left, top)?;
                let others = self.set(right, top)?;
                // A column keeps its role only if it has the same role in both arms.
                Ok(columns.map(|mut columns| {
                    for (i, column) in columns.iter_mut().enumerate() {
                        let same = others.as_ref().and_then(|o| o.get(i)).is_some_and(|o| o.role == column.role);
                        if !same {
                            column.role = ColRole::Other;
                        }
                    }
                    columns
                }))
            }
            SetExpr::Values(values) => {
                for row in &mut values.rows {
                    for expr in row.iter_mut() {
                        self.expression(expr, Place::Columns)?;
                    }
                }
                Ok(None)
            }
            other => Err(Error::unsupported("expected SELECT or VALUES").with("found", first_words(other))),
        }
    }

    pub(crate) fn order_by(&mut self, order_by: &mut OrderBy) -> Result<()> {
        if let OrderByKind::Expressions(exprs) = &mut order_by.kind {
            for expr in exprs {
                self.expression(&mut expr.expr, Place::AliasesThenColumns)?;
            }
        }
        Ok(())
    }

    /// The relations of FROM, in order.
    fn from(&mut self, from: &mut [TableWithJoins]) -> Result<Vec<Relation>> {
        let mut relations = Vec::new();
        for table in from {
            self.joined(table, &mut relations)?;
        }
        let mut seen = HashSet::new();
        for relation in &relations {
            if let Some(name) = relation.qualifier.last()
                && !seen.insert(relation.qualifier.clone())
            {
                return Err(
                    Error::invalid("two tables of this name in one FROM: give one an alias").with("table", name)
                );
            }
        }
        Ok(relations)
    }

    /// Calls `run` with an additional innermost scope.
    fn within<T>(&mut self, relations: &[Relation], run: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.scopes.push(Scope { relations: relations.to_vec(), ..Scope::default() });
        let done = run(self);
        self.scopes.pop();
        done
    }

    fn factor(&mut self, factor: &mut TableFactor, before: &[Relation]) -> Result<Vec<Relation>> {
        source::factor(self, factor, before)
    }
}

/// Refuses clauses that the planner would ignore.
fn refuse_ignored(query: &Query) -> Result<()> {
    let refuse = |found: String, instead: &str| {
        Err(Error::unsupported("this clause is not supported").with("found", found).with("use", instead))
    };
    if let Some(lock) = query.locks.first() {
        return refuse(
            lock.to_string(),
            "the query without FOR UPDATE: readers see a snapshot, and rows have no locks",
        );
    }
    if let Some(format) = &query.format_clause {
        return refuse(format.to_string(), "the parameter format of the request, or its header accept");
    }
    if query.settings.is_some() {
        return refuse("SETTINGS".to_owned(), "SHOW VARIABLES, and parameters of the request");
    }
    if query.for_clause.is_some() {
        return refuse("FOR".to_owned(), "the parameter format of the request, or its header accept");
    }
    match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit_by, .. }) if !limit_by.is_empty() => {
            refuse("LIMIT … BY".to_owned(), "QUALIFY row_number() OVER (PARTITION BY tag ORDER BY ts DESC) <= n")
        }
        _ => Ok(()),
    }
}

/// Rewrites `LIMIT offset, n` as `LIMIT n OFFSET offset`, as the planner does not accept it.
fn limit_clause(limit: &mut LimitClause) {
    if let LimitClause::OffsetCommaLimit { offset, limit: n } = limit {
        *limit = LimitClause::LimitOffset {
            limit: Some(n.clone()),
            offset: Some(Offset { value: offset.clone(), rows: OffsetRows::None }),
            limit_by: Vec::new(),
        };
    }
}

/// A name as the planner normalises it: lower case unless quoted.
pub(crate) fn exact(ident: &datafusion::sql::sqlparser::ast::Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// Renames the columns of a relation by its alias.
pub(crate) fn rename(columns: Option<Vec<Col>>, names: Vec<String>) -> Option<Vec<Col>> {
    let mut columns = columns?;
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = name;
    }
    Some(columns)
}

/// The first two words of a statement, for error messages.
fn first_words(statement: &impl std::fmt::Display) -> String {
    statement.to_string().split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// The error of an unknown column, with its position.
pub(crate) fn unknown_column(ident: &Ident, scope: &Scope) -> Error {
    let columns = || scope.relations.iter().filter_map(|r| r.columns.as_ref()).flatten();
    let known: Vec<&str> = columns().map(|c| c.name.as_str()).collect();
    let name = ident.value.as_str();
    let error = Error::invalid("no such column").because(Reason::ColumnNotFound).with("column", name);
    let time = columns().find(|c| matches!(c.role, ColRole::Time(_))).map(|c| c.name.as_str());
    let is_time = ["time", "_time", "timestamp"].iter().any(|other| name.eq_ignore_ascii_case(other));
    let instead = if scope.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name)) {
        Some(format!("HAVING {name} … after GROUP BY, or the expression itself: WHERE does not see aliases"))
    } else {
        time.filter(|_| is_time).map(|time| format!("{time}, the time column"))
    };
    let error = error.suggest_or(instead.as_deref(), name, known.iter().copied());
    let error = match (ident.quote_style, instead) {
        (Some('"'), None) => error.with("use", format!("'{name}' for a text: double quotes are for names")),
        _ => error,
    };
    let first: Vec<&str> = known.into_iter().take(20).collect();
    at(if first.is_empty() { error } else { error.with("expected one of", first.join(", ")) }, ident.span.start)
}
