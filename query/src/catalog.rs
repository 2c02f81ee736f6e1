//! The databases and tables that a statement may use: as DataFusion's catalog (`databases`), as `information_schema`, and as
//! [`CatalogInfo`], with which front ends resolve names.

mod databases;
mod information_schema;
mod series;
mod view;

use std::{fmt, sync::Arc};

use async_trait::async_trait;
use tidelake_format::{
    Result,
    ids::DatabaseId,
    rows::SeriesSet,
    schema::{Database, Supertable},
};

pub(crate) use self::databases::Databases;
pub(crate) use self::information_schema::duration;
pub use self::information_schema::information_schema;
use crate::visible::Visible;

/// Name of the schema of the catalog's own tables.
pub(crate) const INFORMATION_SCHEMA: &str = "information_schema";

/// The databases, tables and series that one statement may see.
#[async_trait]
pub trait CatalogInfo: Send + Sync + fmt::Debug {
    /// The part of the catalog that the statement's principal may read, with the principal; `None` where there is no catalog.
    fn visible(&self) -> Option<&Visible> {
        None
    }

    /// All databases, by name.
    fn databases(&self) -> Vec<Arc<Database>>;

    /// All supertables of a database, by name.
    fn tables(&self, database: DatabaseId) -> Vec<Arc<Supertable>>;

    /// Every series of a supertable, each once: names and tags.
    ///
    /// # Errors
    /// Errors of reading tag manifests and the log's tail.
    async fn series(&self, table: &Supertable) -> Result<Vec<SeriesSet>>;

    /// The supertable that has a series of exactly this name. So a series can be queried as a table.
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

/// The catalog of the running statement, as an extension of its session's configuration. A scan uses it in place of the catalog of
/// its plan: a cached plan may outlive that one, and series are added without a new catalog version.
#[derive(Debug)]
pub struct CurrentCatalog(pub Arc<dyn CatalogInfo>);
