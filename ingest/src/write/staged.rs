//! A bulk ingest that creates its table, new or in place of another one.
//!
//! Rows go into data files of a table that no version references. One commit then adds the table with all its files, drops the
//! table that it replaces and marks the ingest's log segments as folded. Before the commit readers see the previous table,
//! after it the new one with all rows. An ingest that fails before the commit has changed nothing.

use std::{sync::Arc, time::Duration};

use arrow::datatypes::Schema;
use metrics::counter;
use tidelake_format::{
    Error, Reason, Result,
    ids::{DatabaseId, TableId, Token},
    meta::{Catalog, Draft, PROBE_AGE, Watermark},
    rows::Block,
    schema::{Database, Role, Supertable},
    store::{Created, Moment},
    types::Type,
};
use tokio::time::{Instant, sleep_until};

use super::{
    Ingest,
    batches::{IfAbsent, IfExists, IngestTarget},
    bulk::Bulk,
    idempotent::{ACKNOWLEDGE_WITHIN, Claim},
};
use crate::{
    compact::Published,
    decode::{self, Limits},
    metrics::ROWS,
};

/// Most rewrites of the files because another table took the ID that they were written for.
const ATTEMPTS: usize = 10;

/// A table to be created.
#[derive(Debug)]
pub(super) struct Staged {
    /// With an ID that no table has.
    table: Supertable,
    columns: Vec<(String, Role, Type)>,
    database: Arc<Database>,
    limits: Limits,
}

/// Whether the table became visible, or another table took its ID.
enum Revealed {
    Yes { dropped: bool },
    IdIsTaken,
}

impl Staged {
    /// The table that a stream of this schema creates.
    ///
    /// # Errors
    /// Invalid if it cannot be created: no time column or field, a type without a counterpart, an invalid name, more columns
    /// than rows may create.
    pub(super) fn new(
        target: &IngestTarget,
        database: &Arc<Database>,
        schema: &Schema,
        limits: Limits,
    ) -> Result<Self> {
        let columns = decode::arrow::infer_table(schema)?;
        if columns.len() > limits.columns {
            return Err(Error::invalid("too many columns for a table created by rows")
                .with("table", &target.table)
                .with("limit", limits.columns)
                .with("found", columns.len()));
        }
        let table = Supertable::new(TableId(u32::MAX), database.id, &target.table, columns.iter().cloned())?;
        Ok(Self { table, columns, database: database.clone(), limits })
    }

    /// The schema for decoding the rows.
    pub(super) fn table(&self) -> &Supertable {
        &self.table
    }

    /// Checks that the database has room for the table.
    ///
    /// # Errors
    /// Invalid if the database has as many tables as rows may create.
    pub(super) fn check_room(&self, catalog: &Catalog) -> Result<()> {
        let tables = catalog.tables(self.database.id).count();
        self.limits.check_table(&self.table.name, tables).map_err(Error::invalid)
    }

    /// Creates the table without rows, if it does not exist yet.
    pub(super) fn create(&self, draft: &mut Draft) -> Result<Arc<Supertable>> {
        self.check_room(draft.catalog())?;
        draft.create_table(self.database.id, &self.table.name, self.columns.iter().cloned())
    }

    /// Makes the table visible with the rows that `bulk` has put and those of `blocks`, in this order, and drops the table that
    /// it replaces; under a claim, claims the key first. If a table is replaced, returns once no writer acknowledges rows for
    /// it any more.
    ///
    /// # Errors
    /// Invalid if the table's existence contradicts the target's rules, or a series belongs to another table; Conflict if a
    /// copy has claimed the key; Unavailable if the store does not respond: then nothing is changed, unless the outcome is
    /// unknown.
    pub(super) async fn reveal(
        &self,
        ingest: &Ingest,
        target: &IngestTarget,
        bulk: Bulk,
        blocks: Vec<Block>,
        is_named: bool,
        claim: Option<Claim>,
    ) -> Result<Token> {
        let (shared, position) = (&ingest.shared, bulk.position());
        let late: u64 = blocks.iter().map(|block| block.len() as u64).sum();
        // One ingest at a time: each holds all its rows, and takes the next table ID.
        let turn = shared.compactor.turn().await;
        let mut all = bulk.read(ingest).await?;
        all.extend(blocks);
        let blocks = Arc::new(all);
        let mut claimed: Option<Moment> = None;
        for _ in 0..ATTEMPTS {
            let catalog = shared.probe.catalog(Duration::ZERO).await?;
            let replaced = replaced(&catalog, self.database.id, target)?;
            if is_named {
                shared.directory.check(&catalog, self.database.id, &blocks, replaced)?;
            }
            let table = Arc::new(Supertable { id: catalog.next_table(), ..self.table.clone() });
            // Use the current KEEP: it may have changed since the stream began.
            let gone = || {
                Error::not_found("the database was dropped")
                    .because(Reason::DatabaseNotFound)
                    .with("database", &self.database.name)
            };
            let database = catalog.database_by_id(self.database.id).ok_or_else(gone)?;
            let files = match blocks.is_empty() {
                true => Vec::new(),
                false => shared.compactor.files_of_new(&table, database, position, &blocks).await?,
            };
            bulk.check_age(ingest)?;
            if let Some(claim) = claim.as_ref().filter(|_| claimed.is_none()) {
                claimed = Some(Moment::now(shared.ambient().as_ref()));
                if claim.make(&shared.root, position, bulk.start_ms()).await? == Created::Lost {
                    return Err(Error::conflict("a copy of this request came first"));
                }
            }
            let queue_keys = claim.as_ref().is_some_and(Claim::is_queues);
            let touching: Vec<_> = files.iter().map(|file| (table.id, file.partition())).collect();
            let change = |draft: &mut Draft| self.swap(draft, target, table.id, &files, &bulk, queue_keys);
            let Revealed::Yes { dropped } = shared.root.commit(&touching, change).await?.0 else { continue };
            drop(turn);
            counter!(ROWS).increment(late);
            shared.activity.stored([(table.id, late)]);
            if dropped {
                sleep_until(Instant::now() + PROBE_AGE).await;
            }
            if claimed.is_some_and(|at| at.age(shared.ambient().as_ref()) >= ACKNOWLEDGE_WITHIN) {
                return Err(Error::unavailable("this bulk ingest took too long; send it again"));
            }
            return Ok(Token::Position(position));
        }
        Err(Error::unavailable("other requests keep creating tables").with("table", &target.table))
    }

    /// The changes of the commit.
    fn swap(
        &self,
        draft: &mut Draft,
        target: &IngestTarget,
        id: TableId,
        files: &[Published],
        bulk: &Bulk,
        queue_keys: bool,
    ) -> Result<Revealed> {
        let position = bulk.position();
        let known = draft.catalog().watermark(position.writer).cloned();
        let watermark = known.unwrap_or_else(|| Watermark::unfolded(bulk.start_ms()));
        // The copy that voided this attempt has written the rows, or will.
        if watermark.is_void(position.seq) {
            return Err(Error::unavailable("another copy of this request voided this attempt; send it again")
                .with("table", &target.table));
        }
        let replaced = replaced(draft.catalog(), self.database.id, target)?;
        if draft.catalog().next_table() != id {
            return Ok(Revealed::IdIsTaken);
        }
        if let Some(old) = replaced {
            draft.drop_table(old)?;
        }
        self.create(draft)?;
        let order = draft.version();
        files.iter().try_for_each(|file| draft.add_file(id, file.entry(order, order)))?;
        let queue_keys = queue_keys || watermark.queue_keys;
        draft.set_watermark(position.writer, Watermark { next: position.seq + 1, queue_keys, ..watermark });
        Ok(Revealed::Yes { dropped: replaced.is_some() })
    }
}

/// The table that an ingest into a new table replaces.
///
/// # Errors
/// Invalid if a table exists that the ingest may not replace, NotFound if the table must exist and does not.
pub(super) fn replaced(catalog: &Catalog, database: DatabaseId, target: &IngestTarget) -> Result<Option<TableId>> {
    match (catalog.table(database, &target.table).map(|t| t.id), target.if_exists, target.if_absent) {
        (Some(_), IfExists::Fail | IfExists::Append, _) => {
            Err(Error::invalid("the table already exists").because(Reason::TableExists).with("table", &target.table))
        }
        (Some(id), IfExists::Replace, _) => Ok(Some(id)),
        (None, _, IfAbsent::Fail) => Err(Error::not_found("the table does not exist")
            .because(Reason::TableNotFound)
            .with("table", &target.table)),
        (None, _, IfAbsent::Create) => Ok(None),
    }
}
