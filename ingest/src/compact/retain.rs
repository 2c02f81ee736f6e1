//! Retention: one commit drops the partitions whose whole time is beyond KEEP, and nothing else.
//!
//! The earlier of two clocks, this machine's and the store's, decides what is expired, so that one wrong clock deletes nothing.
//! Garbage collection deletes the objects later.

use metrics::counter;
use tidelake_format::{
    Result,
    ids::TableId,
    meta::{Catalog, PartitionSummary},
};

use super::{CompactReport, Inner};
use crate::metrics::{EXPIRED_PARTITIONS, EXPIRED_ROWS};

impl Inner {
    /// Drops every expired partition of every table; makes no request to the store if none is expired.
    ///
    /// # Errors
    /// As [`Root::commit`](tidelake_format::meta::Root::commit).
    pub(super) async fn retain(&self) -> Result<CompactReport> {
        let store = self.root.store();
        if expired(&self.root.catalog(), store.ambient().wall_ms()).next().is_none() {
            return Ok(CompactReport::default());
        }
        let now_ms = store.clock_ms().await?.min(store.ambient().wall_ms());
        let (dropped, catalog) = self
            .root
            .commit(&[], |draft| {
                // Use the KEEP of the version that this is committed on: it may have been raised meanwhile.
                let gone: Vec<(TableId, i64, PartitionSummary)> = expired(draft.catalog(), now_ms).collect();
                gone.iter().for_each(|(table, partition, _)| draft.drop_partition(*table, *partition));
                Ok(gone)
            })
            .await?;
        let mut report = CompactReport::default();
        for (table, partition, summary) in &dropped {
            report.expired_partitions += 1;
            report.expired_rows += summary.rows;
            let name = catalog.table_by_id(*table).map_or("", |t| t.name.as_str());
            tracing::info!(table = name, partition, rows = summary.rows, files = summary.files, "a partition expired");
        }
        counter!(EXPIRED_PARTITIONS).increment(report.expired_partitions);
        counter!(EXPIRED_ROWS).increment(report.expired_rows);
        Ok(report)
    }
}

/// The partitions whose whole time is beyond KEEP.
fn expired(catalog: &Catalog, now_ms: i64) -> impl Iterator<Item = (TableId, i64, PartitionSummary)> {
    let tables = catalog.databases().flat_map(|d| catalog.tables(d.id).map(move |t| (d, t)));
    tables.flat_map(move |(database, table)| {
        let first = table.first_kept(database, now_ms);
        catalog.partitions(table.id).take_while(move |(p, _)| *p < first).map(|(p, summary)| (table.id, p, summary))
    })
}
