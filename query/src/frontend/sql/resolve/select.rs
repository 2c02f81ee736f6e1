//! Rewrites one SELECT: select list, window and grouping.

use datafusion::sql::sqlparser::{
    ast::{
        Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, OrderBy, Select,
        SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
    },
    tokenizer::Location,
};
use tidelake_format::{Error, Result};

use super::{
    super::{
        clauses::{WINDOW, Window, key},
        lex::{UNNAMED, at},
        names::quoted,
    },
    Col, ColRole, Place, Relation, Resolver, Scope, WindowNames,
    expression::{function_name, look, qualified, time_column},
    fill,
    source::{qualifies, texts},
    windowed,
};
use crate::functions::FIRST_LAST;

/// A select item after expansion.
struct Item {
    expr: Expr,
    /// The result name; `None` keeps the planner's, which is the column's.
    alias: Option<String>,
    column: Option<Col>,
}

impl Resolver<'_> {
    /// Rewrites a select and the ORDER BY of its query. Returns its columns and the default order for a query without
    /// ORDER BY.
    pub(super) fn select(
        &mut self,
        select: &mut Select,
        order_by: Option<&mut OrderBy>,
        limited: bool,
        top: bool,
    ) -> Result<(Option<Vec<Col>>, Vec<Expr>)> {
        refuse(select)?;
        let relations = self.from(&mut select.from)?;
        self.scopes.push(Scope { relations, ..Scope::default() });
        let done = self.select_in_scope(select, order_by, limited, top);
        self.scopes.pop();
        done
    }

    fn select_in_scope(
        &mut self,
        select: &mut Select,
        mut order_by: Option<&mut OrderBy>,
        limited: bool,
        top: bool,
    ) -> Result<(Option<Vec<Col>>, Vec<Expr>)> {
        let place = select.select_token.0.span.start;
        let mut partition = std::mem::take(&mut select.distribute_by);
        let window = match std::mem::take(&mut select.sort_by).first() {
            Some(marker) => Some(self.window(select, &marker.expr)?),
            None => None,
        };
        for expr in &mut partition {
            self.expression(expr, Place::Columns)?;
        }
        if let Some((_, names)) = &window {
            self.scope().window = Some(names.clone());
        }
        let items = self.items(select, place)?;
        let aliases = items.iter().filter_map(|i| i.alias.clone()).collect();
        let columns = columns(&items);
        select.projection = finish(items, top);
        self.scope().aliases = aliases;
        if let Some(Distinct::On(exprs)) = &mut select.distinct {
            for expr in exprs {
                self.expression(expr, Place::ColumnsThenAliases)?;
            }
        }
        if let Some(selection) = &mut select.selection {
            self.expression(selection, Place::Columns)?;
        }
        if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
            for expr in exprs {
                self.expression(expr, Place::ColumnsThenAliases)?;
            }
        }
        for expr in [&mut select.having, &mut select.qualify].into_iter().flatten() {
            self.expression(expr, Place::ColumnsThenAliases)?;
        }
        self.expressions_in(&mut select.named_window, Place::Columns)?;
        let mut ordered = Vec::new();
        if let Some(order_by) = order_by.as_deref_mut() {
            self.order_by(order_by)?;
            ordered.push(order_by.clone());
        }
        let tags = self.clauses.tags.contains(&key(place));
        let names = window.as_ref().map(|(_, names)| names);
        let mut default_order = self.group(select, partition, names, tags, limited, &ordered, place)?;
        if let Some((window, names)) = &window
            && let Some(clause) = &window.fill
        {
            default_order = fill::rewrite(self, select, window, clause, names, order_by, default_order)?;
        }
        Ok((columns, default_order))
    }

    /// Rewrites window, PARTITION BY and TAGS as GROUP BY. Returns the default order.
    #[allow(clippy::too_many_arguments)]
    fn group(
        &mut self,
        select: &mut Select,
        partition: Vec<Expr>,
        window: Option<&WindowNames>,
        tags: bool,
        limited: bool,
        order_by: &[OrderBy],
        place: Location,
    ) -> Result<Vec<Expr>> {
        let aggregates = self.has_aggregate(select);
        let mut order = Vec::new();
        let mut keys = partition.clone();
        if limited && !partition.is_empty() {
            return Err(at(
                Error::unsupported(
                    "LIMIT with PARTITION BY (a limit of each partition) is not supported; put the query into a subquery to limit its whole result",
                ),
                place,
            ));
        }
        if let Some(window) = window {
            if !aggregates {
                return Err(at(
                    Error::invalid("INTERVAL needs an aggregate in the select list, such as avg(x) or count(*)"),
                    place,
                ));
            }
            keys.push(window.start.clone());
            order = keys.clone();
        } else if !aggregates {
            keys.clear();
        }
        if tags {
            let Some(series) = self.series_column() else {
                return Err(at(Error::invalid("SELECT TAGS needs a supertable in FROM"), place));
            };
            if aggregates || !keys.is_empty() {
                return Err(at(Error::invalid("SELECT TAGS gives tags and tbname only, without aggregates"), place));
            }
            keys.push(series);
        }
        if !keys.is_empty() {
            select.group_by = GroupByExpr::Expressions(keys, Vec::new());
        }
        self.add_tags(select, order_by);
        if select.distinct.is_some() {
            order.clear();
        }
        Ok(order)
    }

    /// Where rows are grouped by series, adds the tags that the select uses as keys.
    fn add_tags(&self, select: &mut Select, order_by: &[OrderBy]) {
        let GroupByExpr::Expressions(keys, modifiers) = &select.group_by else { return };
        let by_series =
            keys.iter().any(|k| self.column_of(k).is_some_and(|c| c.role == ColRole::Series)) && modifiers.is_empty();
        if !by_series {
            return;
        }
        let mut keys = keys.clone();
        let mut add = |expr: &Expr| {
            let is_tag = matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                && self.column_of(expr).is_some_and(|c| c.role == ColRole::Tag);
            if is_tag && !keys.iter().any(|k| self.column_of(k) == self.column_of(expr)) {
                keys.push(expr.clone());
            }
        };
        look(&select.projection, &mut add);
        look(&select.having, &mut add);
        for order_by in order_by {
            look(order_by, &mut add);
        }
        select.group_by = GroupByExpr::Expressions(keys, Vec::new());
    }

    fn series_column(&self) -> Option<Expr> {
        let scope = self.scopes.last()?;
        scope.relations.iter().find_map(|r| {
            let column = r.columns.as_ref()?.iter().find(|c| c.role == ColRole::Series)?;
            Some(if scope.relations.len() == 1 {
                Expr::Identifier(quoted(&*column.name))
            } else {
                qualified(r, &column.name)
            })
        })
    }

    fn has_aggregate(&self, select: &Select) -> bool {
        let mut found = false;
        let mut inspect = |expr: &Expr| found |= fill::is_aggregate(expr, self.state);
        look(&select.projection, &mut inspect);
        look(&select.having, &mut inspect);
        found
    }

    /// The INTERVAL clause of a select and the expressions of its pseudo-columns. `marker` is the call in SORT BY with the
    /// clause's number.
    fn window(&mut self, select: &mut Select, marker: &Expr) -> Result<(Window, WindowNames)> {
        let window = self
            .marked(marker)
            .cloned()
            .ok_or_else(|| Error::internal("a window without its clause").with("found", marker))?;
        let place = window.place;
        let scope = self.scopes.last().cloned().unwrap_or_default();
        let precision = scope.relations.iter().find_map(|r| match time_column(r)?.role {
            ColRole::Time(precision) => Some(precision),
            _ => None,
        });
        let (Some(time), Some(precision)) = (self.time(&scope), precision) else {
            return Err(at(Error::invalid("INTERVAL needs a table or subquery with a time column in FROM"), place));
        };
        let names = windowed::rewrite(self, select, &window, time, precision).map_err(|e| at(e, place))?;
        Ok((window, names))
    }

    fn marked(&self, marker: &Expr) -> Option<&Window> {
        let Expr::Function(function) = marker else { return None };
        if function_name(function)? != WINDOW {
            return None;
        }
        match wildcard_or_argument(function)? {
            FunctionArgExpr::Expr(n) => self.clauses.windows.get(n.to_string().parse::<usize>().ok()?),
            _ => None,
        }
    }

    /// Rewrites the select list: expands wildcards, rewrites expressions, names the items.
    fn items(&mut self, select: &mut Select, place: Location) -> Result<Vec<Item>> {
        let projection = std::mem::take(&mut select.projection);
        let texts = self.clauses.items.get(&key(place)).filter(|t| t.len() == projection.len()).cloned();
        let mut items = Vec::with_capacity(projection.len());
        for (i, item) in projection.into_iter().enumerate() {
            match item {
                SelectItem::Wildcard(options) => self.wildcard(&options, None, &mut items)?,
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options) => {
                    let prefix = self::texts(&name);
                    self.wildcard(&options, Some(&prefix), &mut items)?;
                }
                SelectItem::UnnamedExpr(Expr::Function(f)) if every_column(&f) => self.every(&f, &mut items)?,
                SelectItem::UnnamedExpr(mut expr) => {
                    let before = expr.clone();
                    self.expression(&mut expr, Place::Columns)?;
                    let column = self.output(&expr);
                    let kept = last_name(&before).zip(last_name(&expr));
                    let alias = match kept {
                        Some((before, after)) if before.eq_ignore_ascii_case(after) => None,
                        _ => Some(texts.as_ref().map_or_else(|| before.to_string(), |t| t[i].clone())),
                    };
                    items.push(Item { expr, alias, column });
                }
                SelectItem::ExprWithAlias { mut expr, alias } => {
                    self.expression(&mut expr, Place::Columns)?;
                    let column = self.output(&expr);
                    items.push(Item { expr, alias: Some(alias.value), column });
                }
                other => {
                    return Err(at(
                        Error::unsupported("this kind of select item is not supported").with("found", other),
                        place,
                    ));
                }
            }
        }
        Ok(items)
    }

    /// The column that an item selects, if it is a plain column or the start of the window.
    fn output(&self, expr: &Expr) -> Option<Col> {
        let window = self.scopes.last().and_then(|s| s.window.as_ref());
        match window {
            Some(window) if window.start == *expr => {
                Some(Col { name: "_wstart".to_owned(), role: ColRole::Time(window.precision), ty: None, hidden: false })
            }
            _ => self.column_of(expr),
        }
    }

    /// Expands `*` and `t.*`.
    fn wildcard(
        &mut self,
        options: &WildcardAdditionalOptions,
        prefix: Option<&[String]>,
        items: &mut Vec<Item>,
    ) -> Result<()> {
        let excluded = excluded(options)?;
        let scope = self.scopes.last().cloned().unwrap_or_default();
        let prefix: Option<Vec<&str>> = prefix.map(|p| p.iter().map(String::as_str).collect());
        let chosen: Vec<&Relation> =
            scope.relations.iter().filter(|r| prefix.as_ref().is_none_or(|p| qualifies(p, r))).collect();
        if chosen.is_empty() {
            let what = prefix.map_or("*".to_owned(), |p| format!("{}.*", p.join(".")));
            return Err(Error::invalid("there is no such table in FROM").with("found", what));
        }
        for relation in &chosen {
            let Some(columns) = &relation.columns else {
                let expr =
                    match relation.qualifier.is_empty() || chosen.len() == scope.relations.len() && chosen.len() == 1 {
                        true => Expr::Wildcard(
                            datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
                        ),
                        false => Expr::QualifiedWildcard(
                            relation.qualifier.iter().map(|q| quoted(&**q)).collect::<Vec<Ident>>().into(),
                            datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
                        ),
                    };
                if !excluded.is_empty() {
                    return Err(Error::unsupported("EXCEPT after * is not supported for this table"));
                }
                items.push(Item { expr, alias: None, column: None });
                continue;
            };
            for column in columns.iter().filter(|c| !c.hidden) {
                let left_out = prefix.is_none() && relation.merged.contains(&column.name);
                if left_out || excluded.iter().any(|e| e.eq_ignore_ascii_case(&column.name)) {
                    continue;
                }
                let expr = match scope.relations.len() {
                    1 => Expr::Identifier(quoted(&*column.name)),
                    _ => qualified(relation, &column.name),
                };
                items.push(Item { expr, alias: None, column: Some(column.clone()) });
            }
        }
        Ok(())
    }

    /// Expands `last(*)` to a call per column that is not a tag or hidden.
    fn every(&mut self, function: &Function, items: &mut Vec<Item>) -> Result<()> {
        let name = function_name(function).unwrap_or_default();
        let scope = self.scopes.last().cloned().unwrap_or_default();
        for relation in &scope.relations {
            let columns = relation.columns.as_ref().ok_or_else(|| {
                Error::unsupported(format!("{name}(*) needs a supertable in FROM; name the columns instead"))
            })?;
            for column in columns.iter().filter(|c| !c.hidden && c.role != ColRole::Tag) {
                let argument = match scope.relations.len() {
                    1 => Expr::Identifier(quoted(&*column.name)),
                    _ => qualified(relation, &column.name),
                };
                let mut one = function.clone();
                if let FunctionArguments::List(list) = &mut one.args {
                    list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))];
                }
                let mut expr = Expr::Function(one);
                self.expression(&mut expr, Place::Columns)?;
                items.push(Item { expr, alias: Some(format!("{name}({})", column.name)), column: None });
            }
        }
        Ok(())
    }

    /// The innermost scope.
    pub(super) fn current(&self) -> &Scope {
        self.scopes.last().expect("a select is resolved inside its scope")
    }

    /// Whether FROM has a single relation, so that a column's name is unique without a qualifier.
    pub(super) fn has_one_relation(&self) -> bool {
        self.current().relations.len() == 1
    }

    fn scope(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("a select is resolved inside its scope")
    }
}

/// Refuses clauses that the planner would ignore or misread.
fn refuse(select: &Select) -> Result<()> {
    let place = select.select_token.0.span.start;
    let found = [
        (select.into.is_some(), "INTO"),
        (!select.cluster_by.is_empty(), "CLUSTER BY"),
        (!select.lateral_views.is_empty(), "LATERAL VIEW"),
        (select.prewhere.is_some(), "PREWHERE"),
        (!select.connect_by.is_empty(), "CONNECT BY"),
        (select.top.is_some(), "TOP"),
        (select.value_table_mode.is_some(), "AS VALUE"),
    ];
    match found.iter().find(|(there, _)| *there) {
        Some((_, what)) => {
            let error = Error::unsupported("this clause is not supported").with("found", what);
            let instead = match *what {
                "PREWHERE" => "WHERE: the scan itself reads the columns of conditions first",
                "TOP" => "LIMIT",
                "INTO" => "tidelake export, or INSERT INTO … VALUES",
                "LATERAL VIEW" => "unnest(…)",
                _ => return Err(at(error, place)),
            };
            Err(at(error.with("use", instead), place))
        }
        None => Ok(()),
    }
}

fn wildcard_or_argument(function: &Function) -> Option<&FunctionArgExpr> {
    match &function.args {
        FunctionArguments::List(list) => match list.args.as_slice() {
            [FunctionArg::Unnamed(argument)] => Some(argument),
            _ => None,
        },
        _ => None,
    }
}

/// Whether this is `first(*)`, `last(*)` or `last_row(*)`.
fn every_column(function: &Function) -> bool {
    function_name(function).is_some_and(|n| FIRST_LAST.contains(&n.as_str()))
        && matches!(wildcard_or_argument(function), Some(FunctionArgExpr::Wildcard))
}

fn excluded(options: &WildcardAdditionalOptions) -> Result<Vec<String>> {
    use datafusion::sql::sqlparser::ast::ExcludeSelectItem;
    if options.opt_replace.is_some() || options.opt_rename.is_some() || options.opt_ilike.is_some() {
        return Err(Error::unsupported("after * only EXCEPT and EXCLUDE are supported").with("found", options));
    }
    let mut names = Vec::new();
    if let Some(except) = &options.opt_except {
        names.push(except.first_element.value.clone());
        names.extend(except.additional_elements.iter().map(|i| i.value.clone()));
    }
    match &options.opt_exclude {
        Some(ExcludeSelectItem::Single(name)) => names.extend(texts(name).pop()),
        Some(ExcludeSelectItem::Multiple(all)) => names.extend(all.iter().filter_map(|n| texts(n).pop())),
        None => {}
    }
    Ok(names)
}

/// The last part of a column's name.
fn last_name(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Identifier(ident) => Some(&ident.value),
        Expr::CompoundIdentifier(idents) => idents.last().map(|i| i.value.as_str()),
        _ => None,
    }
}

/// The result columns of a select; `None` where a wildcard is not expanded.
fn columns(items: &[Item]) -> Option<Vec<Col>> {
    items
        .iter()
        .map(|item| {
            if matches!(item.expr, Expr::Wildcard(_) | Expr::QualifiedWildcard(..)) {
                return None;
            }
            let name = item.alias.clone().or_else(|| last_name(&item.expr).map(str::to_owned))?;
            let (role, ty) = item.column.as_ref().map_or((ColRole::Other, None), |c| (c.role, c.ty));
            Some(Col { name, role, ty, hidden: false })
        })
        .collect()
}

/// Names the select items. At the top level repeated names get a unique suffix, which is removed from the result's names.
fn finish(items: Vec<Item>, top: bool) -> Vec<SelectItem> {
    let mut seen = std::collections::HashSet::new();
    let mut projection = Vec::with_capacity(items.len());
    for item in items {
        match item.expr {
            Expr::Wildcard(_) => {
                projection.push(SelectItem::Wildcard(WildcardAdditionalOptions::default()));
                continue;
            }
            Expr::QualifiedWildcard(name, _) => {
                projection.push(SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(name),
                    WildcardAdditionalOptions::default(),
                ));
                continue;
            }
            _ => {}
        }
        let name = item.alias.clone().or_else(|| last_name(&item.expr).map(str::to_owned)).unwrap_or_default();
        let repeated = !seen.insert(name.clone());
        projection.push(match item.alias {
            _ if repeated && top => SelectItem::ExprWithAlias {
                expr: item.expr,
                alias: quoted(format!("{name}{UNNAMED}{}", projection.len())),
            },
            Some(alias) => SelectItem::ExprWithAlias { expr: item.expr, alias: quoted(alias) },
            None => SelectItem::UnnamedExpr(item.expr),
        });
    }
    projection
}
