//! Looks up the tables that a statement names, before the statement is rewritten.

use std::{
    collections::{HashMap, HashSet},
    ops::ControlFlow,
    sync::Arc,
};

use arrow::datatypes::SchemaRef;
use datafusion::{
    catalog::SchemaProvider,
    execution::SessionState,
    sql::{
        parser::Statement,
        sqlparser::{
            ast::{Ident, ObjectName, Query, Visitor},
            tokenizer::Location,
        },
    },
};
use tidelake_format::{
    Error, Kind, Reason, Result,
    nearest::nearest,
    schema::{Database, Supertable},
};

use super::{
    lex::at,
    mistakes,
    visit::{visit, visit_relations},
};
use crate::{catalog::CatalogInfo, error::of_planning, files::FILES, session::Session};

/// The relation of a name in FROM.
#[derive(Debug, Clone)]
pub(crate) enum Found {
    /// A supertable.
    Table(Arc<Database>, Arc<Supertable>),
    /// One series of a supertable, by its exact name.
    Series(Arc<Database>, Arc<Supertable>, String),
    /// A table of Parquet files, as its exact name.
    File(String, SchemaRef),
    /// A table outside the catalog of supertables, as schema and exact name.
    Other(String, String),
}

/// The relations of a statement's names. A missing name may be a CTE.
#[derive(Debug)]
pub(crate) struct Names<'a> {
    found: HashMap<Vec<String>, Found>,
    info: &'a dyn CatalogInfo,
}

impl<'a> Names<'a> {
    /// Looks up every relation of a statement.
    pub(crate) async fn of(
        statement: &Statement,
        state: &SessionState,
        session: &Session,
        info: &'a dyn CatalogInfo,
    ) -> Result<Self> {
        let mut relations = Vec::new();
        let mut ctes = HashSet::new();
        collect(statement, &mut relations, &mut ctes);
        let mut names = Self { found: HashMap::new(), info };
        for parts in relations {
            if names.found.contains_key(&parts) {
                continue;
            }
            // The name of a CTE is rarely that of a series too: do not read all series for it.
            let cte = matches!(parts.as_slice(), [name] if ctes.contains(&name.to_ascii_lowercase()));
            let series = if cte { Series::Ignore } else { Series::Find };
            if let Some(found) = look_up(&parts, series, state, session, info).await? {
                names.found.insert(parts, found);
            }
        }
        Ok(names)
    }

    pub(crate) fn get(&self, name: &ObjectName) -> Option<&Found> {
        self.found.get(&parts(name)?)
    }

    /// The error of a relation that is neither a table nor a CTE.
    pub(crate) fn missing(&self, name: &ObjectName, session: &Session) -> Error {
        let place = name.0.first().and_then(|p| p.as_ident()).map_or(Location::empty(), |i| i.span.start);
        let instead = mistakes::tables::instead_of(&name.to_string()).map(str::to_owned);
        let (error, instead) = match (name.0.len(), &session.database) {
            (1, None) => (
                Error::invalid("no database is chosen").because(Reason::DatabaseNotSpecified).with("table", name),
                instead.or_else(|| {
                    Some(format!("database.{name}, USE database, or the parameter database of the request"))
                }),
            ),
            (1, Some(database)) => {
                let error = Error::not_found("no such table").because(Reason::TableNotFound).with("table", name);
                (error.with("database", database), instead)
            }
            _ => (Error::not_found("no such table").because(Reason::TableNotFound).with("table", name), instead),
        };
        let near = || parts(name).and_then(|parts| self.near(&parts, session));
        at(
            match (instead, near()) {
                (Some(instead), _) => error.with("use", instead),
                (None, Some(near)) => error.with("did you mean", near),
                (None, None) => error,
            },
            place,
        )
    }

    /// The nearest table that the session may read to a name that is not there; its database where that is misspelt.
    fn near(&self, parts: &[String], session: &Session) -> Option<String> {
        let (schema, name) = match parts {
            [name] => (session.database.as_deref()?, name),
            [schema, name] => (schema.as_str(), name),
            _ => return None,
        };
        let Some(found) = database(self.info, schema) else {
            let databases = self.info.databases();
            let near = nearest(schema, databases.iter().map(|database| database.name.as_str()))?;
            return Some(format!("{near}.{name}"));
        };
        let tables = self.info.tables(found.id);
        let near = nearest(name, tables.iter().map(|table| table.name.as_str()))?;
        Some(if parts.len() == 1 { near.to_owned() } else { format!("{schema}.{near}") })
    }
}

/// The parts of a relation's name; `None` when a part is not an identifier.
pub(crate) fn parts(name: &ObjectName) -> Option<Vec<String>> {
    name.0.iter().map(|part| part.as_ident().map(|ident| ident.value.clone())).collect()
}

/// Whether a name may be that of a series.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Series {
    Find,
    Ignore,
}

/// Collects the names of all CTEs in lower case.
struct Ctes<'a>(&'a mut HashSet<String>);

impl Visitor for Ctes<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let ctes = query.with.iter().flat_map(|w| &w.cte_tables);
        self.0.extend(ctes.map(|c| c.alias.name.value.to_ascii_lowercase()));
        ControlFlow::Continue(())
    }
}

fn collect(statement: &Statement, relations: &mut Vec<Vec<String>>, ctes: &mut HashSet<String>) {
    match statement {
        Statement::Statement(statement) => {
            let _ = visit(statement.as_ref(), &mut Ctes(ctes));
            visit_relations(statement.as_ref(), &mut |name| relations.extend(parts(name)));
        }
        Statement::Explain(explain) => collect(&explain.statement, relations, ctes),
        _ => {}
    }
}

/// The database with exactly this name, else the only database with this name ignoring case.
pub(crate) fn database(info: &dyn CatalogInfo, name: &str) -> Option<Arc<Database>> {
    unique(info.databases(), name, |d| &d.name)
}

/// The supertable of a name; matches as [`database`].
pub(crate) fn table(info: &dyn CatalogInfo, database: &Database, name: &str) -> Option<Arc<Supertable>> {
    unique(info.tables(database.id), name, |t| &t.name)
}

/// The item with exactly this name, else the only item with this name ignoring case.
pub(crate) fn unique<T>(all: Vec<T>, name: &str, of: impl Fn(&T) -> &str) -> Option<T> {
    let mut similar = None;
    let mut several = false;
    for one in all {
        if of(&one) == name {
            return Some(one);
        }
        if of(&one).eq_ignore_ascii_case(name) {
            several |= similar.is_some();
            similar = Some(one);
        }
    }
    similar.filter(|_| !several)
}

/// Looks up a name in the catalog, then as the location of a file, if statements may read files.
pub(super) async fn look_up(
    parts: &[String],
    series: Series,
    state: &SessionState,
    session: &Session,
    info: &dyn CatalogInfo,
) -> Result<Option<Found>> {
    let found = look_up_in_catalog(parts, series, state, session, info).await?;
    let file = match (&found, parts) {
        (Some(Found::Other(schema, name)), _) if schema == FILES => name,
        (None, [name]) => name,
        _ => return Ok(found),
    };
    let Some(files) = schema(state, FILES) else { return Ok(found) };
    let table = files.table(file).await.map_err(of_planning)?;
    Ok(table.map(|table| Found::File(file.clone(), table.schema())).or(found))
}

/// A schema of the default catalog.
pub(super) fn schema(state: &SessionState, name: &str) -> Option<Arc<dyn SchemaProvider>> {
    state.catalog_list().catalog(&state.config_options().catalog.default_catalog)?.schema(name)
}

async fn look_up_in_catalog(
    parts: &[String],
    series: Series,
    state: &SessionState,
    session: &Session,
    info: &dyn CatalogInfo,
) -> Result<Option<Found>> {
    let catalog = &state.config_options().catalog.default_catalog;
    let (schema, name) = match parts {
        [name] => match &session.database {
            Some(database) => (database.as_str(), name),
            None => return Ok(None),
        },
        [schema, name] => (schema.as_str(), name),
        [first, schema, name] if first.eq_ignore_ascii_case(catalog) => (schema.as_str(), name),
        _ => return Ok(None),
    };
    info.visible().map_or(Ok(()), |visible| visible.check(schema))?;
    if let Some(database) = database(info, schema) {
        if let Some(table) = table(info, &database, name) {
            return Ok(Some(Found::Table(database, table)));
        }
        if series == Series::Find
            && let Some(table) = info.table_of_series(database.id, name).await?
        {
            return Ok(Some(Found::Series(database, table, name.clone())));
        }
    }
    let Some(provider) = state.catalog_list().catalog(catalog) else { return Ok(None) };
    let Some(schema) = unique(provider.schema_names(), schema, |s| s) else {
        // The caller reports a missing table, unless that would reveal whether its database exists.
        let missing = info.visible().map(|visible| visible.missing(schema));
        return missing.filter(|error| error.kind() == Kind::Forbidden).map_or(Ok(None), Err);
    };
    let Some(tables) = provider.schema(&schema) else { return Ok(None) };
    Ok(unique(tables.table_names(), name, |t| t).map(|table| Found::Other(schema, table)))
}

/// A quoted name.
pub(crate) fn quoted(name: impl Into<String>) -> Ident {
    Ident::with_quote('"', name)
}
