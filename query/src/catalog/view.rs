//! A snapshot as the catalog of one statement.

use std::sync::Arc;

use async_trait::async_trait;
use tidelake_format::{
    Result,
    ids::DatabaseId,
    rows::SeriesSet,
    schema::{Database, Supertable},
};

use super::CatalogInfo;
use crate::{
    scan::{TimeRange, View},
    visible::Visible,
};

#[async_trait]
impl CatalogInfo for View {
    fn databases(&self) -> Vec<Arc<Database>> {
        self.visible.databases().cloned().collect()
    }

    fn tables(&self, database: DatabaseId) -> Vec<Arc<Supertable>> {
        self.visible.tables(database).cloned().collect()
    }

    fn visible(&self) -> Option<&Visible> {
        Some(&self.visible)
    }

    async fn series(&self, table: &Supertable) -> Result<Vec<SeriesSet>> {
        let Some(table) = self.snapshot.catalog.table_by_id(table.id).cloned() else { return Ok(Vec::new()) };
        let sources = self.reader.sources(&self.snapshot, &table, TimeRange::ALL).await?;
        Ok(vec![sources.united.existing()?])
    }

    async fn table_of_series(&self, database: DatabaseId, name: &str) -> Result<Option<Arc<Supertable>>> {
        for table in self.tables(database) {
            let sources = self.reader.sources(&self.snapshot, &table, TimeRange::ALL).await?;
            if sources.united.exists(name) {
                return Ok(Some(table));
            }
        }
        Ok(None)
    }
}
