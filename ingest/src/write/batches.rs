//! Arrow batches into one supertable.

use std::{pin::pin, sync::Arc, time::Duration};

use arrow::array::RecordBatch;
use futures::{Stream, StreamExt};
use tidelake_format::{
    Error, Reason, Result,
    access::Deed,
    ids::{TableId, Token},
    meta::Draft,
    rows::{Block, held_bytes},
    schema::{Database, TBNAME},
};
use tokio::time::Instant;

use super::{
    Durability, Ingest, Written,
    bulk::Bulk,
    created,
    idempotent::{Known, digest},
    rows::block_bytes,
    staged::{Staged, replaced},
};
use crate::decode::{self, Protocol};

/// Handling of a bulk ingest into an existing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// Refuse.
    Fail,
    /// Add the rows.
    #[default]
    Append,
    /// Replace the table with a new one.
    Replace,
}

/// Handling of a bulk ingest into a missing table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfAbsent {
    /// Refuse.
    Fail,
    /// Create it from the schema of the batches.
    #[default]
    Create,
}

/// Target of a bulk ingest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestTarget {
    /// The database.
    pub database: String,
    /// The supertable.
    pub table: String,
    /// What to do if the table does not exist.
    pub if_absent: IfAbsent,
    /// What to do if the table exists.
    pub if_exists: IfExists,
}

impl IngestTarget {
    fn object(&self) -> String {
        format!("{}.{}", self.database, self.table)
    }
}

/// Destination of an ingest's rows.
enum Place {
    /// A table of the catalog.
    Table(TableId),
    /// A table that the ingest creates.
    Staged(Box<Staged>),
}

impl Ingest {
    /// Writes batches into one supertable; all rows become visible at once, or none.
    ///
    /// A table created for a stream that may not append, or that replaces another one, becomes visible with all of its rows:
    /// until then, and after an error, readers see the previous table. A table created for a stream that may append exists,
    /// without rows, once its first batch with rows is valid. Either has the columns of that batch, or of the first batch if
    /// none has rows. A principal that may create the table may also create its database, if the settings allow that for rows.
    ///
    /// # Errors
    /// Invalid naming batch, row and column that do not fit, or if the table's existence contradicts the target's rules, or if
    /// the stream exceeds `bulk_bytes`, or if a table is to be created from a stream without batches; NotFound for the
    /// database; Unavailable if the buffer is full or the store does not confirm in time.
    pub async fn ingest_batches(
        &self,
        target: IngestTarget,
        batches: impl Stream<Item = Result<RecordBatch>> + Send,
    ) -> Result<Written> {
        let deed = Deed::new("WRITE", target.object());
        let written = self.ingest_known(target, batches).await;
        deed.record_refusal(&self.principal, &written);
        written.map(|written| self.counted(Protocol::Arrow, written))
    }

    async fn ingest_known(
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
        let mut place: Option<Place> = None;
        let (mut is_named, mut without_rows) = (false, None);
        let (_, database) = match target.if_absent {
            IfAbsent::Create => self.database_or_create(&target.database, Instant::now()).await?,
            IfAbsent::Fail => self.database(&target.database, Instant::now()).await?,
        };
        while let Some(batch) = batches.next().await {
            let batch = batch?;
            if place.is_none() && batch.num_rows() == 0 {
                without_rows.get_or_insert(batch); // provides the columns if no batch has rows
                continue;
            }
            let place = match &mut place {
                Some(place) => place,
                place => place.insert(self.place_of(&target, &database, &batch).await?),
            };
            let now = self.shared.ambient().wall_ticks(database.precision);
            // Names derived from tags are unique only within a table: two tables may have the same tags.
            let names = batch.schema().fields().iter().any(|f| f.name().eq_ignore_ascii_case(TBNAME));
            is_named |= names;
            let decoded = match place {
                Place::Staged(staged) => decode::arrow::decode(&batch, staged.table(), &database, now)?,
                Place::Table(id) => {
                    let catalog = self.shared.root.catalog();
                    let table = catalog.table_by_id(*id).ok_or_else(|| dropped(&target))?;
                    let decoded = decode::arrow::decode(&batch, table, &database, now)?;
                    if names {
                        self.shared.directory.register(&catalog, database.id, &decoded.blocks)?;
                    }
                    decoded
                }
            };
            written.accepted += decoded.accepted as u64;
            written.replaced += decoded.blocks.iter().map(Block::replaced).sum::<u64>();
            let more = decoded.blocks.iter().map(block_bytes).sum::<usize>();
            (bytes, total) = (bytes + more.max(held_bytes(&decoded.blocks)), total + more);
            if total > self.shared.config.bulk_bytes {
                return Err(Error::invalid("bulk ingest too large; nothing was written, send it in parts")
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
        if let (None, Some(batch)) = (&place, &without_rows) {
            let made = self.place_of(&target, &database, batch).await?;
            if let Place::Table(id) = made {
                let catalog = self.shared.root.catalog();
                let table = catalog.table_by_id(id).ok_or_else(|| dropped(&target))?;
                decode::arrow::decode(batch, table, &database, 0)?;
            }
            place = Some(made);
        }
        let claim = claim.map(|claim| claim.of(written.accepted, 0, &[]));
        let token = match (place, bulk) {
            (None, _) => self.check_unmade(&target, &database).await.map(|()| None),
            (Some(Place::Staged(staged)), bulk) => {
                let bulk = bulk.unwrap_or_else(|| Bulk::new(self));
                let revealed = staged.reveal(self, &target, bulk, blocks, is_named, claim).await;
                let action = if target.if_exists == IfExists::Replace { "REPLACE TABLE" } else { "CREATE TABLE" };
                Deed::new(action, target.object()).with(created::BY_ROWS).record(&self.principal, &revealed);
                revealed.map(Some)
            }
            (Some(Place::Table(id)), Some(bulk)) => {
                bulk.end(self, id, blocks, claim).await.map(|position| Some(Token::Position(position)))
            }
            (Some(Place::Table(_)), None) => self.submit(blocks, held, Durability::Stored, None, claim).await,
        };
        match token {
            Ok(token) => written.token = token,
            Err(error) => written = self.overtaken(error, digest).await?,
        }
        Ok(written)
    }

    /// The destination of a stream that begins with this batch.
    async fn place_of(&self, target: &IngestTarget, database: &Arc<Database>, batch: &RecordBatch) -> Result<Place> {
        let catalog = self.shared.probe.catalog(Duration::ZERO).await?;
        let found = catalog.table(database.id, &target.table).map(|t| t.id);
        if let Some(id) = found.filter(|_| target.if_exists == IfExists::Append) {
            return Ok(Place::Table(id));
        }
        replaced(&catalog, database.id, target)?;
        let staged = Staged::new(target, database, &batch.schema(), self.shared.schema.limits())?;
        if found.is_none() {
            staged.check_room(&catalog)?;
        }
        if target.if_exists != IfExists::Append {
            return Ok(Place::Staged(Box::new(staged)));
        }
        // Of several concurrent streams that may all append, the first valid one creates the table.
        decode::arrow::decode(batch, staged.table(), database, self.shared.ambient().wall_ticks(database.precision))?;
        let change = |draft: &mut Draft| match draft.catalog().table(database.id, &target.table) {
            Some(table) => Ok((table.id, false)),
            None => staged.create(draft).map(|table| (table.id, true)),
        };
        let ((id, is_new), _) = self.shared.root.commit(&[], change).await?;
        if is_new {
            Deed::new("CREATE TABLE", target.object()).with(created::BY_ROWS).record(&self.principal, &Ok(()));
        }
        Ok(Place::Table(id))
    }

    /// Checks that a stream without batches was not meant to create a table.
    async fn check_unmade(&self, target: &IngestTarget, database: &Database) -> Result<()> {
        let catalog = self.shared.probe.catalog(Duration::ZERO).await?;
        let found = catalog.table(database.id, &target.table);
        if found.is_some() && target.if_exists == IfExists::Append {
            return Ok(());
        }
        replaced(&catalog, database.id, target)?;
        Err(Error::invalid(
            "cannot create a table from a stream without batches; send at least one batch, with or without rows",
        )
        .with("table", &target.table))
    }
}

fn dropped(target: &IngestTarget) -> Error {
    Error::not_found("the table was dropped while its rows were being written")
        .because(Reason::TableNotFound)
        .with("table", &target.table)
}
