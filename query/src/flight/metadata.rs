//! The metadata commands: one catalog, a schema per database, its supertables, and the views of `information_schema`.

use std::sync::Arc;

use arrow::{array::RecordBatch, datatypes::SchemaRef};
use arrow_flight::sql::{
    Command, CommandGetCatalogs, CommandGetPrimaryKeys, CommandGetTables,
    metadata::{SqlInfoData, XdbcTypeInfoData},
};
use async_trait::async_trait;
use tidelake_format::{
    Error, Result,
    ids::DatabaseId,
    rows::SeriesSet,
    schema::{Database, Supertable},
};
use tidelake_protocol::CATALOG;

use super::{keys, sqlinfo, status::from_flight, types};
use crate::{
    catalog::{CatalogInfo, INFORMATION_SCHEMA, information_schema},
    engine::Engine,
    session::Session,
    visible::Visible,
    wire,
};

const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";

/// Metadata that is constant while the server runs.
pub(super) struct Metadata {
    sql_info: SqlInfoData,
    type_info: XdbcTypeInfoData,
}

impl Metadata {
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal): none is expected.
    pub(super) fn new() -> Result<Self> {
        Ok(Self { sql_info: sqlinfo::sql_info()?, type_info: types::type_info()? })
    }

    /// The result schema of a metadata command; `None` for any other command.
    pub(super) fn schema(&self, command: &Command) -> Option<SchemaRef> {
        Some(match command {
            Command::CommandGetCatalogs(c) => c.into_builder().schema(),
            Command::CommandGetDbSchemas(c) => c.clone().into_builder().schema(),
            Command::CommandGetTables(c) => c.clone().into_builder().schema(),
            Command::CommandGetTableTypes(c) => c.into_builder().schema(),
            Command::CommandGetSqlInfo(_) => self.sql_info.schema(),
            Command::CommandGetXdbcTypeInfo(_) => self.type_info.schema(),
            Command::CommandGetPrimaryKeys(_) => keys::PRIMARY.clone(),
            Command::CommandGetExportedKeys(_)
            | Command::CommandGetImportedKeys(_)
            | Command::CommandGetCrossReference(_) => keys::FOREIGN.clone(),
            _ => return None,
        })
    }

    /// The result of a metadata command, as one batch of [`Metadata::schema`].
    ///
    /// # Errors
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) for any other command; errors of the catalog.
    pub(super) async fn rows(&self, engine: &Engine, session: &Session, command: Command) -> Result<RecordBatch> {
        match command {
            Command::CommandGetCatalogs(c) => catalogs(c),
            Command::CommandGetDbSchemas(c) => {
                let mut rows = c.into_builder();
                let catalog = engine.catalog(session).await?;
                for database in catalog.databases() {
                    rows.append(CATALOG, &database.name);
                }
                rows.append(CATALOG, INFORMATION_SCHEMA);
                rows.build().map_err(from_flight)
            }
            Command::CommandGetTables(c) => tables(engine.catalog(session).await?, c).await,
            Command::CommandGetTableTypes(c) => {
                let mut rows = c.into_builder();
                rows.append(TABLE);
                rows.append(VIEW);
                rows.build().map_err(from_flight)
            }
            Command::CommandGetSqlInfo(c) => self.sql_info.record_batch(c.info).map_err(from_flight),
            Command::CommandGetXdbcTypeInfo(c) => self.type_info.record_batch(c.data_type).map_err(from_flight),
            Command::CommandGetPrimaryKeys(c) => primary_keys(&engine.catalog(session).await?, session, &c),
            Command::CommandGetExportedKeys(_)
            | Command::CommandGetImportedKeys(_)
            | Command::CommandGetCrossReference(_) => Ok(RecordBatch::new_empty(keys::FOREIGN.clone())),
            other => Err(Error::unsupported("unsupported Flight SQL command").with("command", other.type_url())),
        }
    }
}

fn catalogs(command: CommandGetCatalogs) -> Result<RecordBatch> {
    let mut rows = command.into_builder();
    rows.append(CATALOG);
    rows.build().map_err(from_flight)
}

async fn tables(catalog: Visible, mut command: CommandGetTables) -> Result<RecordBatch> {
    command.table_types = command.table_types.iter().map(|t| table_type(t)).collect();
    // By the specification "" selects tables without a catalog, and there are none. Drivers send "" to mean any catalog.
    command.catalog = command.catalog.filter(|c| !c.is_empty());
    command.db_schema_filter_pattern = command.db_schema_filter_pattern.filter(|p| !p.is_empty());
    command.table_name_filter_pattern = command.table_name_filter_pattern.filter(|p| !p.is_empty());
    let mut rows = command.into_builder();
    for database in catalog.databases() {
        for table in catalog.tables(database.id) {
            let schema = wire::table_schema(table, database.precision);
            rows.append(CATALOG, &database.name, &table.name, TABLE, &schema).map_err(from_flight)?;
        }
    }
    let views = information_schema(Arc::new(Names(catalog)));
    for name in views.table_names() {
        if let Some(view) = views.table(&name).await.map_err(crate::error::from_datafusion)? {
            let schema = wire::wire_schema(&view.schema());
            rows.append(CATALOG, INFORMATION_SCHEMA, &name, VIEW, &schema).map_err(from_flight)?;
        }
    }
    rows.build().map_err(from_flight)
}

/// Maps `BASE TABLE` and `table`, which Grafana sends, to `TABLE`.
fn table_type(asked: &str) -> String {
    match asked.to_ascii_uppercase().as_str() {
        "BASE TABLE" => TABLE.to_owned(),
        other => other.to_owned(),
    }
}

fn primary_keys(catalog: &Visible, session: &Session, command: &CommandGetPrimaryKeys) -> Result<RecordBatch> {
    let named = command.db_schema.as_deref().filter(|s| !s.is_empty());
    let database = named.or(session.database.as_deref());
    if command.catalog.as_deref().is_some_and(|c| !c.is_empty() && c != CATALOG) {
        return Ok(RecordBatch::new_empty(keys::PRIMARY.clone()));
    }
    let databases = catalog.databases().filter(|d| database.is_none_or(|name| d.name.eq_ignore_ascii_case(name)));
    keys::primary_keys(
        databases.filter_map(|d| catalog.table(d.id, &command.table).map(|table| (d.name.as_str(), table.as_ref()))),
    )
}

/// A catalog without series: enough to list the views of `information_schema`, whose rows are not read here.
#[derive(Debug)]
struct Names(Visible);

#[async_trait]
impl CatalogInfo for Names {
    fn databases(&self) -> Vec<Arc<Database>> {
        self.0.databases().cloned().collect()
    }

    fn tables(&self, database: DatabaseId) -> Vec<Arc<Supertable>> {
        self.0.tables(database).cloned().collect()
    }

    async fn series(&self, _table: &Supertable) -> Result<Vec<SeriesSet>> {
        Ok(Vec::new())
    }
}
