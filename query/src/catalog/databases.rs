//! A view as a DataFusion catalog: databases as schemas, supertables and series as tables.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::{
    catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableProvider},
    common::Result,
};
use tidelake_format::schema::Database;
use tidelake_protocol::CATALOG;

use super::{CatalogInfo, information_schema};
use crate::{
    error::to_datafusion,
    files::FILES,
    scan::{Scope, SeriesTable, View},
    system::{SYSTEM, System},
};

/// Name of the schema that describes the others.
const INFORMATION_SCHEMA: &str = "information_schema";

/// The only catalog: one schema per database, plus `information_schema` and `system`, and `files` where statements may read them.
#[derive(Debug, Clone)]
pub(crate) struct Databases {
    view: Arc<View>,
    system: System,
    files: Option<Arc<dyn SchemaProvider>>,
}

impl Databases {
    /// Creates the catalog of a view, with the tables that are files, if statements may read any.
    pub(crate) fn new(view: Arc<View>, system: System, files: Option<Arc<dyn SchemaProvider>>) -> Self {
        Self { view, system, files }
    }
}

impl CatalogProviderList for Databases {
    fn register_catalog(&self, _: String, _: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        vec![CATALOG.to_owned()]
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        (name == CATALOG).then(|| Arc::new(self.clone()) as _)
    }
}

impl CatalogProvider for Databases {
    fn schema_names(&self) -> Vec<String> {
        let databases = self.view.visible.databases().map(|d| d.name.clone());
        // A database of this name comes first.
        let files = self.files.iter().filter(|_| self.view.visible.database(FILES).is_none()).map(|_| FILES.to_owned());
        databases.chain([INFORMATION_SCHEMA, SYSTEM].map(str::to_owned)).chain(files).collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let info: Arc<dyn CatalogInfo> = self.view.clone();
        match name {
            INFORMATION_SCHEMA => Some(information_schema(info)),
            SYSTEM => Some(self.system.seen_by(self.view.visible.parts().1)),
            name => match self.view.visible.database(name) {
                Some(database) => Some(Arc::new(Tables { view: self.view.clone(), database: database.clone() })),
                None => self.files.clone().filter(|_| name == FILES),
            },
        }
    }
}

/// The tables of one database.
#[derive(Debug)]
struct Tables {
    view: Arc<View>,
    database: Arc<Database>,
}

#[async_trait]
impl SchemaProvider for Tables {
    fn table_names(&self) -> Vec<String> {
        self.view.visible.tables(self.database.id).map(|t| t.name.clone()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let supertable = self.view.visible.table(self.database.id, name).cloned();
        let (table, scope) = match supertable {
            Some(table) => (table, Scope::Supertable),
            None => match self.view.table_of_series(self.database.id, name).await.map_err(to_datafusion)? {
                Some(table) => (table, Scope::Series(name.into())),
                None => return Ok(None),
            },
        };
        Ok(Some(Arc::new(SeriesTable::new(self.database.clone(), table, scope))))
    }

    fn table_exist(&self, name: &str) -> bool {
        self.view.visible.table(self.database.id, name).is_some()
    }
}
