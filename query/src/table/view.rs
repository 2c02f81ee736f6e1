//! What one statement sees: a snapshot, and the reader that brings what it names.

use std::sync::Arc;

use async_trait::async_trait;
use tidelake_format::{
    Result,
    access::Principal,
    ids::DatabaseId,
    rows::SeriesSet,
    schema::{Database, Supertable},
    snapshot::Snapshot,
};

use super::{filters::TimeRange, reader::Reader, visible::Visible};
use crate::dialect::CatalogInfo;

/// One snapshot of the root, for one statement. Scans find it as an extension of the session's configuration.
#[derive(Debug)]
pub(crate) struct View {
    /// What is read.
    pub(crate) snapshot: Arc<Snapshot>,
    /// How it is read.
    pub(crate) reader: Arc<Reader>,
    /// What of it can be named.
    pub(crate) visible: Visible,
}

impl View {
    /// A view of a snapshot, by somebody.
    pub(crate) fn new(snapshot: Arc<Snapshot>, reader: Arc<Reader>, principal: Principal) -> Self {
        let visible = Visible::new(snapshot.catalog.clone(), principal);
        Self { snapshot, reader, visible }
    }
}

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
