//! Arrow batches into one supertable.

use std::{pin::pin, time::Duration};

use arrow::{array::RecordBatch, datatypes::Schema};
use futures::{Stream, StreamExt};
use tidelake_format::{
    Error, Result,
    ids::{DatabaseId, TableId, Token},
    meta::Draft,
    rows::Block,
    schema::TBNAME,
};
use tokio::time::{Instant, sleep_until};

use super::{Durability, Ingest, Written, lane::PROBE_AGE, rows::block_bytes};
use crate::decode;

/// Decoded bytes that are collected for one segment: rows of a stream up to this size are visible all at once.
const SEGMENT_BYTES: usize = 32 << 20;

/// What a bulk ingest does when its table exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// Refuse.
    Fail,
    /// Add the rows.
    #[default]
    Append,
    /// Drop the table first.
    Replace,
}

/// What a bulk ingest does when its table does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfAbsent {
    /// Refuse.
    Fail,
    /// Create it from the schema of the batches.
    #[default]
    Create,
}

/// Where a bulk ingest goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestTarget {
    /// The database.
    pub database: String,
    /// The supertable.
    pub table: String,
    /// What to do when it does not exist.
    pub if_absent: IfAbsent,
    /// What to do when it exists.
    pub if_exists: IfExists,
}

impl Ingest {
    /// Writes batches into one supertable: up to 32 MiB of rows become visible all at once, more in steps.
    ///
    /// The table is created from the schema of the first batch, where it is to be created.
    ///
    /// # Errors
    /// Invalid naming batch, row and column that do not fit (what was written before that batch stays), or when the
    /// table exists or does not, against the target's wish; NotFound for the database; Unavailable when the buffer is
    /// full or the store does not confirm in time.
    pub async fn ingest_batches(
        &self,
        target: IngestTarget,
        batches: impl Stream<Item = Result<RecordBatch>> + Send,
    ) -> Result<Written> {
        let mut batches = pin!(batches);
        let (mut written, mut blocks, mut bytes) = (Written::default(), Vec::new(), 0);
        let mut table: Option<TableId> = None;
        let mut quiet = Instant::now();
        let (_, database) = self.database(&target.database, Instant::now()).await?;
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            let id = match table {
                Some(id) => id,
                None => {
                    let (id, dropped) = self.target_table(&target, database.id, &batch.schema()).await?;
                    if dropped {
                        quiet = Instant::now() + PROBE_AGE;
                    }
                    *table.insert(id)
                }
            };
            let decoded = loop {
                let catalog = self.shared.root.catalog();
                let current = catalog.table_by_id(id).ok_or_else(|| dropped(&target))?;
                let decoded = decode::arrow::decode(
                    &batch,
                    current,
                    &database,
                    self.shared.ambient().wall_ticks(database.precision),
                )?;
                if decoded.missing.is_empty() {
                    break decoded;
                }
                self.shared.schema.commit(database.id, decoded.missing).await?;
            };
            // Names that derive from tags are unique in their table only: two tables may have the same tags.
            if batch.schema().fields().iter().any(|f| f.name().eq_ignore_ascii_case(TBNAME)) {
                self.shared.directory.register(&self.shared.root.catalog(), database.id, &decoded.blocks)?;
            }
            written.accepted += decoded.accepted as u64;
            written.rejected.extend(decoded.rejected);
            bytes += decoded.blocks.iter().map(block_bytes).sum::<usize>();
            blocks.extend(decoded.blocks);
            if bytes >= SEGMENT_BYTES {
                written.token = self.flush(std::mem::take(&mut blocks)).await?.or(written.token);
                bytes = 0;
            }
        }
        written.token = self.flush(blocks).await?.or(written.token);
        sleep_until(quiet).await; // until no writer acknowledges rows for a table that was replaced
        Ok(written)
    }

    async fn flush(&self, blocks: Vec<Block>) -> Result<Option<Token>> {
        let reservation = self.reserve(1).await?;
        self.submit(blocks, reservation, Durability::Stored, None).await
    }

    /// The table of a bulk ingest, as it is to be at its start, and whether another one was dropped for it.
    async fn target_table(
        &self,
        target: &IngestTarget,
        database: DatabaseId,
        schema: &Schema,
    ) -> Result<(TableId, bool)> {
        self.shared.probe.catalog(Duration::ZERO).await?;
        let columns = decode::arrow::infer_table(schema);
        let change = |draft: &mut Draft| -> Result<(TableId, bool)> {
            let found = draft.catalog().table(database, &target.table).map(|t| t.id);
            match (found, target.if_exists, target.if_absent) {
                (Some(_), IfExists::Fail, _) => {
                    return Err(Error::invalid("the table exists").with("table", &target.table));
                }
                (Some(id), IfExists::Append, _) => return Ok((id, false)),
                (Some(id), IfExists::Replace, _) => draft.drop_table(id)?,
                (None, _, IfAbsent::Fail) => {
                    return Err(Error::not_found("the table does not exist").with("table", &target.table));
                }
                (None, _, IfAbsent::Create) => {}
            }
            let columns = columns.as_ref().map_err(|e| Error::new(e.kind(), e.to_string()))?;
            let table = draft.create_table(database, &target.table, columns.iter().cloned())?;
            Ok((table.id, found.is_some()))
        };
        Ok(self.shared.root.commit(&[], change).await?.0)
    }
}

fn dropped(target: &IngestTarget) -> Error {
    Error::not_found("the table was dropped while its rows were being written").with("table", &target.table)
}
