//! Names resolved and TDengine's meanings spelled out in SQL, select by select.
//!
//! Tables become `"database"."table"`, columns their exact names, `*` its columns without `tbname`, unnamed select
//! items get their text as name, windows become GROUP BY and ORDER BY. Every select is visited with the relations it
//! sees, so that it works the same in subqueries, CTEs and the arms of set operations.

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
    nearest::nearest,
    types::{Precision, Type},
};

use super::{clauses::Clauses, lex::at, names::Names};
use crate::{plan::Fill, session::Session};

pub(super) use {
    expression::function_name,
    fill::fill_of,
    windowed::{Windowed, windows_of},
};

/// What plan nodes do in a statement: [`windows_of`] and [`fill_of`] read from the name of a relation which one is over it.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) windows: Vec<Windowed>,
    pub(crate) fills: Vec<Fill>,
}

/// What is known of a column that a select can name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Col {
    /// Its exact name.
    pub(crate) name: String,
    pub(crate) role: ColRole,
    /// The declared type, for columns of supertables.
    pub(crate) ty: Option<Type>,
    /// Whether `*` leaves it out.
    pub(crate) hidden: bool,
}

/// What a column is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColRole {
    /// The time of its rows.
    Time(Precision),
    /// A tag of its series.
    Tag,
    /// The name of its series.
    Series,
    /// Everything else.
    Other,
}

/// Something in FROM.
#[derive(Debug, Clone)]
pub(crate) struct Relation {
    /// The names that stand before its columns, the last one alone or several with periods: `["db", "table"]` or `["alias"]`.
    pub(crate) qualifier: Vec<String>,
    /// Its columns; `None` where only the planner knows them.
    pub(crate) columns: Option<Vec<Col>>,
    /// Columns that JOIN … USING took from the left: `*` leaves them out.
    pub(crate) merged: Vec<String>,
}

/// The names that one select sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scope {
    pub(crate) relations: Vec<Relation>,
    /// The aliases of its select list.
    pub(crate) aliases: Vec<String>,
    /// The expressions behind `_wstart`, `_wend` and `_wduration`, where the select has a window.
    pub(crate) window: Option<WindowNames>,
}

/// What the pseudo-columns of a window stand for.
#[derive(Debug, Clone)]
pub(crate) struct WindowNames {
    pub(crate) start: Expr,
    pub(crate) end: Expr,
    pub(crate) precision: Precision,
}

/// Where an expression stands, which decides whether aliases are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Select list, WHERE, ON: columns only.
    Columns,
    /// GROUP BY, HAVING: columns, then aliases.
    ColumnsThenAliases,
    /// ORDER BY: aliases, then columns.
    AliasesThenColumns,
}

/// A CTE in sight: its name and columns.
type Cte = (String, Option<Vec<Col>>);

/// Rewrites one statement in place.
pub(crate) struct Resolver<'a> {
    pub(crate) names: &'a Names,
    pub(crate) session: &'a Session,
    pub(crate) clauses: &'a Clauses,
    pub(crate) state: &'a SessionState,
    scopes: Vec<Scope>,
    ctes: Vec<Cte>,
    /// The windows found so far, with their time columns; the relation that each one is added to is in the statement ([`windowed`]).
    windows: Vec<Windowed>,
    /// The fills found so far; a subquery of each one's name ([`fill::relation_name`]) is in the statement.
    fills: Vec<Fill>,
}

/// Rewrites a statement that reads; gives the plan nodes over its relations.
///
/// # Errors
/// NotFound and Invalid for names, Invalid and Unsupported for clauses that do not fit together.
pub(crate) fn resolve(
    statement: &mut Statement,
    names: &Names,
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

    /// Rewrites a query and gives its columns. Names at the top may repeat.
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
                    // A set operation is ordered by the names of its result.
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
                // A column is the time of its rows only where it is so in both arms.
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

    /// Runs something with one more scope in sight.
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

/// `LIMIT offset, n` in the words that the planner takes.
fn limit_clause(limit: &mut LimitClause) {
    if let LimitClause::OffsetCommaLimit { offset, limit: n } = limit {
        *limit = LimitClause::LimitOffset {
            limit: Some(n.clone()),
            offset: Some(Offset { value: offset.clone(), rows: OffsetRows::None }),
            limit_by: Vec::new(),
        };
    }
}

/// A name as the planner will see it: unquoted ones in lower case.
pub(crate) fn exact(ident: &datafusion::sql::sqlparser::ast::Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_ascii_lowercase() }
}

/// The columns of a relation whose alias names them anew.
pub(crate) fn rename(columns: Option<Vec<Col>>, names: Vec<String>) -> Option<Vec<Col>> {
    let mut columns = columns?;
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = name;
    }
    Some(columns)
}

/// The beginning of a statement, for messages.
fn first_words(statement: &impl std::fmt::Display) -> String {
    statement.to_string().split_whitespace().take(2).collect::<Vec<_>>().join(" ")
}

/// The error of a column that no relation has, with its place and the nearest name.
pub(crate) fn unknown_column(ident: &Ident, scope: &Scope) -> Error {
    let columns = || scope.relations.iter().filter_map(|r| r.columns.as_ref()).flatten();
    let known: Vec<&str> = columns().map(|c| c.name.as_str()).collect();
    let name = ident.value.as_str();
    let error = Error::invalid("no such column").because(Reason::ColumnNotFound).with("column", name);
    let time = columns().find(|c| matches!(c.role, ColRole::Time(_))).map(|c| c.name.as_str());
    let is_time = ["time", "_time", "timestamp"].iter().any(|other| name.eq_ignore_ascii_case(other));
    let error = if scope.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name)) {
        error.with(
            "use",
            format!("HAVING {name} … after GROUP BY, or the expression itself: WHERE does not see aliases"),
        )
    } else if let Some(near) = time.filter(|_| is_time).or_else(|| nearest(name, &known)) {
        error.with("did you mean", near)
    } else if ident.quote_style == Some('"') {
        error.with("use", format!("'{name}' for a text: double quotes are for names"))
    } else {
        error
    };
    let first: Vec<&str> = known.into_iter().take(20).collect();
    at(if first.is_empty() { error } else { error.with("expected one of", first.join(", ")) }, ident.span.start)
}
