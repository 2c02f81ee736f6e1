//! Arrow batches into one supertable.

use std::{pin::pin, time::Duration};

use arrow::{array::RecordBatch, datatypes::Schema};
use futures::{Stream, StreamExt};
use tidelake_format::{
    Error, Result,
    ids::{DatabaseId, TableId, Token},
    meta::{Draft, PROBE_AGE},
    schema::TBNAME,
};
use tokio::time::{Instant, sleep_until};

use super::{
    Durability, Ingest, Written,
    bulk::Bulk,
    idempotent::{Known, digest},
    rows::{block_bytes, held_bytes},
};
use crate::decode;

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
    /// Writes batches into one supertable; all rows become visible at once, or none.
    ///
    /// The table is created from the schema of the first batch, where it is to be created.
    ///
    /// # Errors
    /// Invalid naming batch, row and column that do not fit, or when the table exists or does not, against the target's
    /// wish, or when the whole is larger than `bulk_bytes`; NotFound for the database; Unavailable when the buffer is
    /// full or the store does not confirm in time.
    pub async fn ingest_batches(
        &self,
        target: IngestTarget,
        batches: impl Stream<Item = Result<RecordBatch>> + Send,
    ) -> Result<Written> {
        let digest = digest(&[b"batches", target.database.as_bytes(), target.table.as_bytes()]);
        let claim = match self.known(digest).await? {
            Some(Known::Written(written)) => return Ok(written),
            Some(Known::Free(claim)) => Some(claim),
            None => None,
        };
        let mut batches = pin!(batches);
        let (mut written, mut blocks, mut bytes, mut total) = (Written::default(), Vec::new(), 0, 0);
        let mut held = self.reserve(1).await?;
        let mut bulk: Option<Bulk> = None;
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
            let more = decoded.blocks.iter().map(block_bytes).sum::<usize>();
            (bytes, total) = (bytes + more.max(held_bytes(&decoded.blocks)), total + more);
            if total > self.shared.config.bulk_bytes {
                return Err(Error::invalid("a bulk ingest is too large; nothing of it was written, send it in parts")
                    .with("table", &target.table)
                    .with("limit_bytes", self.shared.config.bulk_bytes));
            }
            self.shared.budget.grow(&mut held, bytes).await?;
            blocks.extend(decoded.blocks);
            if bytes >= self.shared.config.bulk_segment_bytes {
                bulk.get_or_insert_with(|| Bulk::new(self)).put(self, std::mem::take(&mut blocks)).await?;
                bytes = 0;
                held = self.reserve(1).await?;
            }
        }
        written.dropped = written.rejected.len() as u64;
        let claim = claim.map(|claim| claim.of(written.accepted, &written.rejected));
        let token = match bulk.zip(table) {
            Some((bulk, id)) => bulk.end(self, id, blocks, claim).await.map(|position| Some(Token::Position(position))),
            None => self.submit(blocks, held, Durability::Stored, None, claim).await,
        };
        match token {
            Ok(token) => written.token = token,
            Err(error) => written = self.overtaken(error, digest).await?,
        }
        sleep_until(quiet).await; // until no writer acknowledges rows for a table that was replaced
        Ok(written)
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
