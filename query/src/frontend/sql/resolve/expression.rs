//! Rewrites expressions: columns get their exact names, TDengine's pseudo-columns and functions become DataFusion's.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::{
    ast::{
        BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
        ObjectName, Query, Spanned, UnaryOperator, Value, Visit, VisitMut, Visitor, VisitorMut,
    },
    tokenizer::Location,
};
use tidelake_format::{Error, Result, types::Type};

use super::{
    super::{
        depth::join,
        lex::at,
        names::quoted,
        visit::{visit, visit_mut},
    },
    Col, ColRole, Place, Relation, Resolver, Scope,
    source::{find, qualifies},
    unknown_column,
};
use crate::{
    functions::{FIRST_LAST, spread::SPREAD_BETWEEN, window::WINDOW_START},
    plan::START,
};

/// The emulated TDengine version, with Tidelake's version.
pub(crate) const SERVER_VERSION: &str = concat!("3.3.0.0-tidelake-", env!("CARGO_PKG_VERSION"));

/// Rewrites the expressions of one select; passes nested queries to the resolver.
struct Walk<'r, 'a> {
    resolver: &'r mut Resolver<'a>,
    place: Place,
    depth: usize,
}

impl VisitorMut for Walk<'_, '_> {
    type Break = Box<Error>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        if self.depth == 1
            && let Err(e) = self.resolver.query(query, false)
        {
            return ControlFlow::Break(Box::new(e));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if self.depth == 0
            && let Err(e) = self.resolver.rewrite(expr, self.place)
        {
            return ControlFlow::Break(Box::new(e));
        }
        ControlFlow::Continue(())
    }
}

/// Visits the expressions of one select without those of nested queries.
struct Outside<'a> {
    look: &'a mut dyn FnMut(&Expr),
    depth: usize,
}

impl Visitor for Outside<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if self.depth == 0 {
            (self.look)(expr);
        }
        ControlFlow::Continue(())
    }
}

/// Calls `look` for every expression outside nested queries.
pub(super) fn look(node: &impl Visit, mut look: impl FnMut(&Expr)) {
    let _ = visit(node, &mut Outside { look: &mut look, depth: 0 });
}

/// Builds a function call.
pub(crate) fn call(name: &str, args: Vec<Expr>) -> Expr {
    let args = args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// Builds a text literal.
pub(crate) fn text(value: impl Into<String>) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.into()).with_empty_span())
}

/// The lower-case name of an unqualified function.
pub(in super::super) fn function_name(function: &Function) -> Option<String> {
    match function.name.0.as_slice() {
        [part] => part.as_ident().map(|i| i.value.to_ascii_lowercase()),
        _ => None,
    }
}

/// The resolution of a name in a select.
enum Meaning {
    Column(Col),
    Alias(String),
    /// A name that only the planner can resolve.
    Unknown,
}

impl Resolver<'_> {
    /// Rewrites an expression of the innermost scope.
    pub(super) fn expression(&mut self, expr: &mut Expr, place: Place) -> Result<()> {
        let mut walk = Walk { resolver: self, place, depth: 0 };
        match visit_mut(expr, &mut walk) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(*error),
        }
    }

    /// Rewrites all expressions of a syntax node.
    pub(super) fn expressions_in(&mut self, node: &mut impl VisitMut, place: Place) -> Result<()> {
        let mut walk = Walk { resolver: self, place, depth: 0 };
        match visit_mut(node, &mut walk) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(error) => Err(*error),
        }
    }

    fn rewrite(&self, expr: &mut Expr, place: Place) -> Result<()> {
        match expr {
            Expr::Identifier(ident) => {
                if let Some(new) = self.identifier(ident, place)? {
                    *expr = new;
                }
            }
            Expr::CompoundIdentifier(idents) => {
                if let Some(new) = self.compound(idents)? {
                    *expr = new;
                }
            }
            Expr::Function(function) => {
                if let Some(new) = self.function(function)? {
                    *expr = new;
                }
            }
            Expr::Between { expr: operand, negated, low, high } if self.is_simple(operand) => {
                let compare = |op, bound: &Expr| Expr::BinaryOp {
                    left: operand.clone(),
                    op,
                    right: Box::new(nested(bound.clone())),
                };
                let both = Expr::BinaryOp {
                    left: Box::new(compare(BinaryOperator::GtEq, low)),
                    op: BinaryOperator::And,
                    right: Box::new(compare(BinaryOperator::LtEq, high)),
                };
                *expr = negate(nested(both), *negated);
            }
            Expr::InList { expr: operand, list, negated } if self.is_time(operand) && !list.is_empty() => {
                let equal = list
                    .drain(..)
                    .map(|value| Expr::BinaryOp {
                        left: operand.clone(),
                        op: BinaryOperator::Eq,
                        right: Box::new(nested(value)),
                    })
                    .collect();
                *expr = negate(nested(join(equal, &BinaryOperator::Or)), *negated);
            }
            _ => {}
        }
        Ok(())
    }

    /// Resolves a name without a qualifier.
    fn identifier(&self, ident: &Ident, place: Place) -> Result<Option<Expr>> {
        let Some(scope) = self.scopes.last() else { return Ok(None) };
        let unquoted = ident.quote_style.is_none();
        // A window's pseudo-columns have precedence over columns of a subquery with the same names.
        if unquoted && scope.window.is_some() && is_window_name(&ident.value) {
            return self.pseudo(&ident.value, None, ident.span.start);
        }
        match meaning(scope, &ident.value, place) {
            Some(Meaning::Column(column)) => return Ok(Some(Expr::Identifier(named(ident, &column.name)))),
            Some(Meaning::Alias(alias)) => return Ok(Some(Expr::Identifier(named(ident, &alias)))),
            Some(Meaning::Unknown) if !(unquoted && is_pseudo(&ident.value)) => return Ok(None),
            _ => {}
        }
        if unquoted && let Some(new) = self.pseudo(&ident.value, None, ident.span.start)? {
            return Ok(Some(new));
        }
        if scope.relations.iter().any(|r| r.columns.is_none()) {
            return Ok(None);
        }
        // A name from an enclosing select.
        for outer in self.scopes.iter().rev().skip(1) {
            match meaning(outer, &ident.value, Place::Columns) {
                Some(Meaning::Column(column)) => return Ok(Some(Expr::Identifier(named(ident, &column.name)))),
                Some(_) => return Ok(None),
                None => {}
            }
        }
        if unquoted && ident.value.eq_ignore_ascii_case("now") {
            return Ok(Some(call("now", Vec::new())));
        }
        Err(unknown_column(ident, scope))
    }

    /// Resolves a name with a qualifier: `table.column`, `db.table.column`.
    fn compound(&self, idents: &[Ident]) -> Result<Option<Expr>> {
        let Some((last, prefix)) = idents.split_last() else { return Ok(None) };
        let prefix: Vec<&str> = prefix.iter().map(|i| i.value.as_str()).collect();
        for scope in self.scopes.iter().rev() {
            let Some(relation) = scope.relations.iter().find(|r| qualifies(&prefix, r)) else { continue };
            if relation.columns.is_none() {
                return Ok(None);
            }
            if let Some(column) = find(relation, &last.value) {
                return Ok(Some(qualified(relation, &column.name)));
            }
            if last.quote_style.is_none()
                && let Some(new) = self.pseudo(&last.value, Some(relation), last.span.start)?
            {
                return Ok(Some(new));
            }
            let scope = Scope { relations: vec![relation.clone()], ..Scope::default() };
            return Err(unknown_column(last, &scope));
        }
        // The first name may be a column with parts, or of a relation that only the planner knows.
        let relations = || self.scopes.iter().flat_map(|scope| &scope.relations);
        let is_known = |name: &str| relations().any(|r| r.columns.is_none() || find(r, name).is_some());
        let Some(first) = idents.first().filter(|first| !is_known(&first.value)) else { return Ok(None) };
        let names = relations().filter_map(|r| r.qualifier.last()).map(String::as_str);
        let error = Error::invalid("no such table or alias in FROM").with("found", prefix.join("."));
        let error = error.suggest(prefix.last().unwrap_or(&""), names.clone());
        Err(at(error.with("expected one of", names.collect::<Vec<_>>().join(", ")), first.span.start))
    }

    /// Resolves `_c0`, `_rowts`, `_wstart`, `_wend`, `_wduration`.
    fn pseudo(&self, name: &str, relation: Option<&Relation>, place: Location) -> Result<Option<Expr>> {
        let lower = name.to_ascii_lowercase();
        let Some(scope) = self.scopes.last() else { return Ok(None) };
        match lower.as_str() {
            "_c0" | "_rowts" => match relation {
                Some(relation) => Ok(time_column(relation).map(|c| qualified(relation, &c.name))),
                None => Ok(self.time(scope)),
            },
            "_wstart" | "_wend" | "_wduration" => {
                let Some(window) = &scope.window else {
                    return Err(at(
                        Error::invalid(format!("{lower} needs an INTERVAL(…) clause in the same SELECT"))
                            .with("found", &lower)
                            .with("use", "FROM … WHERE … INTERVAL(1m)"),
                        place,
                    ));
                };
                Ok(Some(match lower.as_str() {
                    "_wstart" => window.start.clone(),
                    "_wend" => window.end.clone(),
                    _ => nested(Expr::BinaryOp {
                        left: Box::new(ticks(window.end.clone())),
                        op: BinaryOperator::Minus,
                        right: Box::new(ticks(window.start.clone())),
                    }),
                }))
            }
            "_qstart" | "_qend" | "_qduration" | "_irowts" | "_isfilled" => {
                Err(at(Error::unsupported("this pseudo-column is not supported").with("found", lower), place))
            }
            _ => Ok(None),
        }
    }

    /// The time column of the first relation in a scope that has one, as an expression.
    pub(super) fn time(&self, scope: &Scope) -> Option<Expr> {
        let (relation, column) = scope.relations.iter().find_map(|r| Some((r, time_column(r)?)))?;
        Some(if scope.relations.len() == 1 {
            Expr::Identifier(quoted(&*column.name))
        } else {
            qualified(relation, &column.name)
        })
    }

    /// The column of the innermost scope that a rewritten expression names, if it is a column name.
    pub(super) fn column_of(&self, expr: &Expr) -> Option<Col> {
        self.column_and_relation(expr).map(|(column, _)| column)
    }

    fn column_and_relation(&self, expr: &Expr) -> Option<(Col, &Relation)> {
        let scope = self.scopes.last()?;
        match expr {
            Expr::Identifier(ident) => scope.relations.iter().find_map(|r| Some((find(r, &ident.value)?, r))),
            Expr::CompoundIdentifier(idents) => {
                let (last, prefix) = idents.split_last()?;
                let prefix: Vec<&str> = prefix.iter().map(|i| i.value.as_str()).collect();
                let relation = scope.relations.iter().find(|r| qualifies(&prefix, r))?;
                Some((find(relation, &last.value)?, relation))
            }
            Expr::Nested(inner) => self.column_and_relation(inner),
            _ => None,
        }
    }

    /// Whether an operand can be duplicated: a name or a deterministic function of windows and dates.
    fn is_simple(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
            Expr::Nested(inner) => self.is_simple(inner),
            Expr::Function(f) => function_name(f)
                .is_some_and(|n| matches!(n.as_str(), WINDOW_START | "window_end" | "date_bin" | "date_trunc")),
            _ => false,
        }
    }

    fn is_time(&self, expr: &Expr) -> bool {
        let timestamp = |c: Col| matches!(c.role, ColRole::Time(_)) || c.ty == Some(Type::Timestamp);
        self.column_of(expr).is_some_and(timestamp)
            || matches!(expr, Expr::Identifier(ident) if ident.value == START)
            || matches!(expr, Expr::Function(f) if function_name(f).is_some_and(|n| n == WINDOW_START))
    }

    /// Rewrites functions that DataFusion lacks or defines differently.
    fn function(&self, function: &mut Function) -> Result<Option<Expr>> {
        let Some(name) = function_name(function) else { return Ok(None) };
        let place = function.name.span().start;
        match name.as_str() {
            "spread" => {
                let part = |name: &str| {
                    let mut part = function.clone();
                    part.name = ObjectName::from(vec![Ident::new(name)]);
                    Expr::Function(part)
                };
                match arguments(function) {
                    Some([_]) => Ok(Some(call(SPREAD_BETWEEN, vec![part("min"), part("max")]))),
                    _ => Err(at(Error::invalid("spread takes one column").with("found", &*function), place)),
                }
            }
            _ if name != "count"
                && !FIRST_LAST.contains(&name.as_str())
                && arguments(function).is_some_and(|args| {
                    args.iter().any(|arg| matches!(arg, FunctionArg::Unnamed(FunctionArgExpr::Wildcard)))
                }) =>
            {
                let error = Error::invalid("this function takes columns, not *").with("found", &*function);
                Err(at(error.with("use", format!("{name}(column) for each column")), place))
            }
            "stddev" => {
                function.name = ObjectName::from(vec![Ident::new("stddev_pop")]);
                Ok(None)
            }
            name if FIRST_LAST.contains(&name) => {
                let scope = self.scopes.last();
                let time = match arguments(function) {
                    Some([FunctionArg::Unnamed(FunctionArgExpr::Expr(value))]) => {
                        let mut time = None;
                        look(value, |e| {
                            if time.is_none() {
                                time = self.column_and_relation(e).and_then(|(_, r)| {
                                    let column = time_column(r)?;
                                    Some(match scope {
                                        Some(s) if s.relations.len() == 1 => Expr::Identifier(quoted(&*column.name)),
                                        _ => qualified(r, &column.name),
                                    })
                                });
                            }
                        });
                        time.or_else(|| self.time(scope?))
                    }
                    Some([_, _]) => return Ok(None),
                    _ => {
                        let message = format!("{name} takes one column");
                        return Err(at(Error::invalid(message).with("found", &*function), place));
                    }
                };
                let Some(time) = time else {
                    return Err(at(Error::invalid(format!("{name} needs a table with a time column")), place));
                };
                if let FunctionArguments::List(list) = &mut function.args {
                    list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(time)));
                }
                Ok(None)
            }
            "database" | "current_database" | "current_schema" if is_empty(function) => {
                Ok(Some(match &self.session.database {
                    Some(database) => text(database),
                    None => cast(Expr::Value(Value::Null.with_empty_span()), "VARCHAR"),
                }))
            }
            "server_version" | "client_version" if is_empty(function) => Ok(Some(text(SERVER_VERSION))),
            "server_status" if is_empty(function) => Ok(Some(number(1))),
            "current_user" | "user" | "session_user" if is_empty(function) => {
                // Without authentication: the default user of TDengine's clients.
                Ok(Some(text(self.session.principal.user().unwrap_or("root"))))
            }
            "timezone" if is_empty(function) => Ok(Some(text(self.session.time_zone.name()))),
            "today" if is_empty(function) => {
                let zone = self.session.time_zone.name();
                Ok(Some(call(WINDOW_START, vec![call("now", Vec::new()), text("1d"), text("0a"), text(zone)])))
            }
            _ => Ok(None),
        }
    }
}

fn meaning(scope: &Scope, name: &str, place: Place) -> Option<Meaning> {
    let alias = || {
        let exact = scope.aliases.iter().find(|a| *a == name);
        exact.or_else(|| scope.aliases.iter().find(|a| a.eq_ignore_ascii_case(name))).map(|a| Meaning::Alias(a.clone()))
    };
    if place == Place::AliasesThenColumns
        && let Some(alias) = alias()
    {
        return Some(alias);
    }
    let columns = scope.relations.iter().filter_map(|r| r.columns.as_ref()).flatten();
    let exact = columns.clone().find(|c| c.name == name);
    if let Some(column) = exact.or_else(|| columns.clone().find(|c| c.name.eq_ignore_ascii_case(name))) {
        return Some(Meaning::Column(column.clone()));
    }
    if place == Place::ColumnsThenAliases
        && let Some(alias) = alias()
    {
        return Some(alias);
    }
    scope.relations.iter().any(|r| r.columns.is_none()).then_some(Meaning::Unknown)
}

fn is_window_name(name: &str) -> bool {
    ["_wstart", "_wend", "_wduration"].iter().any(|p| p.eq_ignore_ascii_case(name))
}

fn is_pseudo(name: &str) -> bool {
    is_window_name(name) || ["_c0", "_rowts"].iter().any(|p| p.eq_ignore_ascii_case(name))
}

/// The time column of a relation.
pub(super) fn time_column(relation: &Relation) -> Option<&Col> {
    relation.columns.as_ref()?.iter().find(|c| matches!(c.role, ColRole::Time(_)))
}

/// A column qualified with its relation's name.
pub(super) fn qualified(relation: &Relation, column: &str) -> Expr {
    if relation.qualifier.is_empty() {
        return Expr::Identifier(quoted(column));
    }
    Expr::CompoundIdentifier(relation.qualifier.iter().map(|q| quoted(&**q)).chain([quoted(column)]).collect())
}

/// A name with the position of another name.
fn named(place: &Ident, name: &str) -> Ident {
    Ident { span: place.span, ..quoted(name) }
}

fn arguments(function: &Function) -> Option<&[FunctionArg]> {
    match &function.args {
        FunctionArguments::List(list) => Some(&list.args),
        _ => None,
    }
}

fn is_empty(function: &Function) -> bool {
    match &function.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty(),
        FunctionArguments::Subquery(_) => false,
    }
}

fn nested(expr: Expr) -> Expr {
    match expr {
        Expr::BinaryOp { .. } | Expr::UnaryOp { .. } => Expr::Nested(Box::new(expr)),
        other => other,
    }
}

fn negate(expr: Expr, negated: bool) -> Expr {
    if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) } } else { expr }
}

fn number(value: i64) -> Expr {
    Expr::Value(Value::Number(value.to_string(), false).with_empty_span())
}

fn ticks(expr: Expr) -> Expr {
    cast(expr, "BIGINT")
}

fn cast(expr: Expr, to: &str) -> Expr {
    use datafusion::sql::sqlparser::ast::{CastKind, DataType};
    let data_type = if to == "BIGINT" { DataType::BigInt(None) } else { DataType::Varchar(None) };
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}
