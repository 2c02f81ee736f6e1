//! Rewrites FROM: tables, series, subqueries, joins.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::sql::sqlparser::ast::{
    JoinConstraint, JoinOperator, ObjectName, Query, SetExpr, Statement as SqlStatement, TableAlias, TableFactor,
    TableWithJoins,
};
use datafusion::sql::{parser::DFParserBuilder, parser::Statement};
use tidelake_format::{
    Error, Result,
    schema::{Database, Role, Supertable, TBNAME},
    types::{Precision, Type},
};

use super::{
    super::names::{Found, parts, quoted},
    Col, ColRole, Place, Relation, Resolver, exact, rename,
};
use crate::files::FILES;

/// Rewrites one factor of FROM. `before` are the relations to its left, which are in scope for LATERAL.
pub(super) fn factor(
    resolver: &mut Resolver<'_>,
    factor: &mut TableFactor,
    before: &[Relation],
) -> Result<Vec<Relation>> {
    match factor {
        TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
            Err(Error::unsupported("sampling is not supported").with("use", "WHERE random() < 0.1"))
        }
        TableFactor::Table { name, alias, args: None, .. } => {
            if let Some(cte) = resolver.cte(name) {
                let qualifier = vec![alias.as_ref().map_or(cte.0, |a| exact(&a.name))];
                return Ok(vec![relation(qualifier, cte.1, alias.as_ref())]);
            }
            let found =
                resolver.names.get(name).cloned().ok_or_else(|| resolver.names.missing(name, resolver.session))?;
            match found {
                Found::Table(database, table) => {
                    *name = ObjectName::from(vec![quoted(&*database.name), quoted(&*table.name)]);
                    let qualifier = match alias.as_ref() {
                        Some(alias) => vec![exact(&alias.name)],
                        None => vec![database.name.clone(), table.name.clone()],
                    };
                    Ok(vec![relation(qualifier, Some(columns(&database, &table)), alias.as_ref())])
                }
                Found::Series(database, table, series) => {
                    let name = alias.as_ref().map_or(series.clone(), |a| exact(&a.name));
                    let mut known = columns(&database, &table);
                    for column in &mut known {
                        column.hidden = matches!(column.role, ColRole::Tag | ColRole::Series);
                    }
                    let relation = relation(vec![name.clone()], Some(known), alias.as_ref());
                    let columns = alias.take().map(|a| a.columns).unwrap_or_default();
                    *factor = TableFactor::Derived {
                        lateral: false,
                        subquery: Box::new(one_series(&database, &table, &series)?),
                        alias: Some(TableAlias { explicit: true, name: quoted(name), columns, at: None }),
                        sample: None,
                    };
                    Ok(vec![relation])
                }
                Found::File(table, schema) => {
                    *name = ObjectName::from(vec![quoted(FILES), quoted(&*table)]);
                    let qualifier = alias.as_ref().map_or(vec![FILES.to_owned(), table], |a| vec![exact(&a.name)]);
                    Ok(vec![relation(qualifier, Some(columns_of_file(&schema)), alias.as_ref())])
                }
                Found::Other(schema, table) => {
                    *name = ObjectName::from(vec![quoted(&*schema), quoted(&*table)]);
                    let qualifier = alias.as_ref().map_or(vec![schema, table], |a| vec![exact(&a.name)]);
                    Ok(vec![relation(qualifier, None, alias.as_ref())])
                }
            }
        }
        TableFactor::Derived { lateral, subquery, alias, .. } => {
            let columns = if *lateral {
                resolver.within(before, |r| r.query(subquery, false))?
            } else {
                resolver.query(subquery, false)?
            };
            let qualifier = alias.as_ref().map(|a| exact(&a.name)).into_iter().collect();
            Ok(vec![relation(qualifier, columns, alias.as_ref())])
        }
        TableFactor::NestedJoin { table_with_joins, .. } => {
            let mut relations = Vec::new();
            resolver.joined(table_with_joins, &mut relations)?;
            Ok(relations)
        }
        TableFactor::UNNEST { array_exprs, alias, .. } => {
            resolver.within(before, |r| array_exprs.iter_mut().try_for_each(|e| r.expression(e, Place::Columns)))?;
            let qualifier = alias.as_ref().map(|a| exact(&a.name)).into_iter().collect();
            Ok(vec![relation(qualifier, None, alias.as_ref())])
        }
        TableFactor::Table { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::TableFunction { alias, .. } => {
            let qualifier = alias.as_ref().map(|a| exact(&a.name)).into_iter().collect();
            Ok(vec![relation(qualifier, None, alias.as_ref())])
        }
        other => Err(Error::unsupported("this kind of table is not supported").with("found", other)),
    }
}

impl Resolver<'_> {
    pub(super) fn joined(&mut self, table: &mut TableWithJoins, relations: &mut Vec<Relation>) -> Result<()> {
        let first = self.factor(&mut table.relation, relations)?;
        relations.extend(first);
        for join in &mut table.joins {
            let mut joined = self.factor(&mut join.relation, relations)?;
            if let Some(constraint) = constraint(&mut join.join_operator) {
                match constraint {
                    JoinConstraint::On(on) => {
                        let seen: Vec<_> = relations.iter().chain(&joined).cloned().collect();
                        self.within(&seen, |r| r.expression(on, Place::Columns))?;
                    }
                    JoinConstraint::Using(names) => {
                        for name in names.iter_mut() {
                            let Some(ident) = name.0.last().and_then(|p| p.as_ident()).cloned() else { continue };
                            for relation in &mut joined {
                                if let Some(column) = find(relation, &ident.value) {
                                    *name = ObjectName::from(vec![quoted(&*column.name)]);
                                    relation.merged.push(column.name);
                                }
                            }
                        }
                    }
                    JoinConstraint::Natural => {
                        for relation in &mut joined {
                            let common = relation.columns.iter().flatten().filter(|c| {
                                relations.iter().flat_map(|r| r.columns.iter().flatten()).any(|l| l.name == c.name)
                            });
                            relation.merged = common.map(|c| c.name.clone()).collect();
                        }
                    }
                    JoinConstraint::None => {}
                }
            }
            relations.extend(joined);
        }
        Ok(())
    }

    /// The CTE of an unqualified name.
    fn cte(&self, name: &ObjectName) -> Option<(String, Option<Vec<Col>>)> {
        let [part] = name.0.as_slice() else { return None };
        let wanted = exact(part.as_ident()?);
        let (_, columns) =
            self.ctes.iter().rev().find(|(cte, _)| *cte == wanted || cte.eq_ignore_ascii_case(&wanted))?;
        Some((wanted, columns.clone()))
    }
}

fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    match operator {
        JoinOperator::Join(c)
        | JoinOperator::Inner(c)
        | JoinOperator::Left(c)
        | JoinOperator::LeftOuter(c)
        | JoinOperator::Right(c)
        | JoinOperator::RightOuter(c)
        | JoinOperator::FullOuter(c)
        | JoinOperator::CrossJoin(c)
        | JoinOperator::Semi(c)
        | JoinOperator::LeftSemi(c)
        | JoinOperator::RightSemi(c)
        | JoinOperator::Anti(c)
        | JoinOperator::LeftAnti(c)
        | JoinOperator::RightAnti(c) => Some(c),
        _ => None,
    }
}

fn relation(qualifier: Vec<String>, columns: Option<Vec<Col>>, alias: Option<&TableAlias>) -> Relation {
    let columns = match alias {
        Some(alias) if !alias.columns.is_empty() => {
            rename(columns, alias.columns.iter().map(|c| exact(&c.name)).collect())
        }
        _ => columns,
    };
    Relation { qualifier, columns, merged: Vec::new() }
}

/// The column of a relation with exactly this name, else the only column with this name ignoring case.
pub(super) fn find(relation: &Relation, name: &str) -> Option<Col> {
    let columns = relation.columns.as_ref()?;
    super::super::names::unique(columns.iter().collect(), name, |c| &c.name).cloned()
}

/// The columns of a supertable, `tbname` last and hidden.
fn columns(database: &Database, table: &Supertable) -> Vec<Col> {
    let own = table.columns.iter().map(|c| Col {
        name: c.name.clone(),
        role: match c.role {
            Role::Time => ColRole::Time(database.precision),
            Role::Field => ColRole::Other,
            Role::Tag => ColRole::Tag,
        },
        ty: Some(c.ty),
        hidden: false,
    });
    let series = Col { name: TBNAME.to_owned(), role: ColRole::Series, ty: None, hidden: true };
    own.chain(std::iter::once(series)).collect()
}

/// The columns of a table of Parquet files. Its first timestamp is the time of the rows.
fn columns_of_file(schema: &Schema) -> Vec<Col> {
    let mut time = schema.fields().iter().position(|field| Precision::of(field.data_type()).is_some());
    let column = |(i, field): (usize, &Arc<Field>)| Col {
        name: field.name().clone(),
        role: match Precision::of(field.data_type()) {
            Some(precision) if time.take_if(|time| *time == i).is_some() => ColRole::Time(precision),
            _ => ColRole::Other,
        },
        ty: Type::of(field.data_type()),
        hidden: false,
    };
    schema.fields().iter().enumerate().map(column).collect()
}

/// `SELECT every column FROM table WHERE tbname = series`.
fn one_series(database: &Database, table: &Supertable, series: &str) -> Result<Query> {
    let columns: Vec<String> = table.columns.iter().map(|c| quoted(&*c.name).to_string()).collect();
    let sql = format!(
        "SELECT {}, \"{TBNAME}\" FROM {}.{} WHERE \"{TBNAME}\" = '{}'",
        columns.join(", "),
        quoted(&*database.name),
        quoted(&*table.name),
        series.replace('\'', "''"),
    );
    parse_query(&sql)
}

/// Parses a generated query.
pub(crate) fn parse_query(sql: &str) -> Result<Query> {
    let statement = DFParserBuilder::new(sql).build().and_then(|mut parser| parser.parse_statement());
    match statement {
        Ok(Statement::Statement(statement)) => match *statement {
            SqlStatement::Query(query) if matches!(*query.body, SetExpr::Select(_)) => Ok(*query),
            other => Err(Error::internal("expected a query").with("found", other)),
        },
        Ok(other) => Err(Error::internal("expected a query").with("found", other)),
        Err(e) => Err(Error::internal("a query of our own does not parse").source(e)),
    }
}

/// Whether the parts of a qualifier refer to a relation; ignores case.
pub(super) fn qualifies(prefix: &[&str], relation: &Relation) -> bool {
    let own = &relation.qualifier;
    !prefix.is_empty()
        && prefix.len() <= own.len()
        && own[own.len() - prefix.len()..].iter().zip(prefix).all(|(a, b)| a.eq_ignore_ascii_case(b))
}

/// The parts of an object name.
pub(super) fn texts(name: &ObjectName) -> Vec<String> {
    parts(name).unwrap_or_default()
}
