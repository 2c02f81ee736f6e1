//! Requests of rows: decode, commit missing schema, join the group, wait for the store.

use std::sync::Arc;

use bytes::Bytes;
use metrics::counter;
use tidelake_format::{
    Error, Kind, Reason, Result,
    access::{Deed, Privilege},
    ids::{Token, Version},
    meta::{Catalog, Draft},
    offload::offload,
    rows::{Block, batch_bytes},
    schema::Database,
    step,
    steps::stepped,
    types::Precision,
};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Durability, Ingest, Written,
    budget::Reservation,
    created,
    idempotent::{Claim, Known, digest},
    queue::Entry,
    series::View,
};
use crate::{
    config::millis,
    decode::{
        Decoder, Limits, Protocol, SchemaChange,
        line_protocol::{LinePrecision, Lines},
        opentsdb,
    },
    metrics::REJECTED,
};

/// Larger bodies are decoded on a thread for blocking work.
const DECODE_INLINE: usize = 1 << 20;
/// Largest body that may be decoded together with others.
const GATHERED: usize = 4 << 10;
/// Memory of the row of such a body, as a multiple of the body's bytes: a copy of it, its values, its name and tags.
const TIMES_GATHERED: usize = 4;
/// Most rounds of decoding. Each commits the schema that the previous one lacked; more than a few mean that other requests keep
/// changing the same table.
const ROUNDS: usize = 6;

impl Ingest {
    /// Writes a body of line protocol.
    ///
    /// Invalid lines are in [`Written::rejected`], the others are written.
    ///
    /// # Errors
    /// NotFound for an unknown database, Unavailable when the buffer is full or the store does not confirm in time.
    pub async fn write_line_protocol(
        &self,
        database: &str,
        body: Bytes,
        precision: LinePrecision,
        durability: Durability,
    ) -> Result<Written> {
        let reservation = self.reserve(body.len()).await?;
        self.write_line_protocol_reserved(database, body, precision, durability, reservation).await
    }

    pub(crate) async fn write_line_protocol_reserved(
        &self,
        database: &str,
        body: Bytes,
        precision: LinePrecision,
        durability: Durability,
        reservation: Reservation,
    ) -> Result<Written> {
        let durability = self.granted(durability);
        let reservation = match self.gather(database, &body, precision, durability, reservation).await? {
            None => return Ok(self.counted(Protocol::InfluxDb, Written { accepted: 1, ..Written::default() })),
            Some(reservation) => reservation,
        };
        let ends = Arc::from([body.len()]);
        // Boxed and apart from the path above, which most single-row requests take: its state while it waits is large.
        Box::pin(self.write_lines(database, body, ends, precision, durability, reservation)).await
    }

    /// Writes several concatenated bodies of line protocol, each up to one of `ends`.
    async fn write_lines(
        &self,
        database: &str,
        bodies: Bytes,
        ends: Arc<[usize]>,
        precision: LinePrecision,
        durability: Durability,
        reservation: Reservation,
    ) -> Result<Written> {
        let lines = Lines { precision, ends, longest: self.shared.config.line_bytes };
        self.write_reserved(database, bodies, durability, reservation, lines).await
    }

    /// Gathers the single valid line of a small body that is acknowledged from the buffer; returns the reservation for any
    /// other body.
    async fn gather(
        &self,
        database: &str,
        body: &Bytes,
        precision: LinePrecision,
        durability: Durability,
        mut reservation: Reservation,
    ) -> Result<Option<Reservation>> {
        let shared = &self.shared;
        let is_behind = shared.compactor.backlog().is_above(shared.config.backlog_bytes);
        shared.queue.blocked.check()?;
        if durability == Durability::Stored
            || self.key.is_some()
            || is_behind
            || body.len() > GATHERED.min(shared.config.line_bytes)
        {
            return Ok(Some(reservation));
        }
        let catalog = shared.root.catalog();
        let may = |db: &&Arc<Database>| self.principal.may(Privilege::Write, db);
        let Some(db) = catalog.database(database).filter(may) else { return Ok(Some(reservation)) };
        let bytes = body.len() * TIMES_GATHERED;
        shared.budget.grow(&mut reservation, bytes).await?;
        let view = self.view(catalog.clone(), 0);
        let now = ticks(self.now_ns(), db.precision);
        let left = shared
            .queue
            .gather(&catalog, db.id, bytes, reservation, |rows| rows.add(body, &view, db, precision, now))?;
        if left.is_none() {
            self.shared.body_bytes.increment(body.len() as u64);
        }
        Ok(left)
    }

    /// Writes several concatenated bodies of line protocol, each up to one of `ends`, acknowledged from the buffer.
    ///
    /// # Errors
    /// As [`Ingest::write_line_protocol`].
    pub(crate) async fn write_datagrams(
        &self,
        database: &str,
        bodies: Bytes,
        ends: Arc<[usize]>,
        precision: LinePrecision,
    ) -> Result<Written> {
        let reservation = self.reserve(bodies.len()).await?;
        self.write_lines(database, bodies, ends, precision, Durability::Buffered, reservation).await
    }

    /// Writes a body of OpenTSDB's `/api/put`.
    ///
    /// # Errors
    /// Invalid if the body is not JSON of that shape; otherwise as [`Ingest::write_line_protocol`].
    pub async fn write_opentsdb(&self, database: &str, body: Bytes, durability: Durability) -> Result<Written> {
        self.write_body(database, body, durability, opentsdb::Points).await
    }

    /// Writes a body of any wire format.
    ///
    /// Invalid rows are in [`Written::rejected`], the others are written.
    ///
    /// # Errors
    /// Errors of the decoder for a whole body; otherwise as [`Ingest::write_line_protocol`].
    pub async fn write_body(
        &self,
        database: &str,
        body: Bytes,
        durability: Durability,
        decoder: impl Decoder,
    ) -> Result<Written> {
        let reservation = self.reserve(body.len()).await?;
        let durability = self.granted(durability);
        self.write_reserved(database, body, durability, reservation, decoder).await
    }

    /// [`Ingest::write_body`] with the body's memory reserved, and a durability that the settings allow.
    pub(crate) async fn write_reserved<D: Decoder>(
        &self,
        database: &str,
        body: Bytes,
        durability: Durability,
        reservation: Reservation,
        decoder: D,
    ) -> Result<Written> {
        let written = self.write_decoded(database, body, durability, reservation, decoder).await;
        if written.is_err() {
            Deed::new("WRITE", database).record_refusal(&self.principal, &written);
        }
        written.map(|written| self.counted(D::PROTOCOL, written))
    }

    /// Counts accepted rows for a protocol, unless they are those of an earlier copy of the request.
    pub(crate) fn counted(&self, protocol: Protocol, written: Written) -> Written {
        if !written.replayed {
            self.shared.activity.accepted(protocol, written.accepted);
        }
        written
    }

    async fn write_decoded(
        &self,
        database: &str,
        body: Bytes,
        durability: Durability,
        reservation: Reservation,
        decoder: impl Decoder,
    ) -> Result<Written> {
        let (start, now_ns) = (Instant::now(), self.now_ns());
        self.shared.body_bytes.increment(body.len() as u64);
        let digest = if self.key.is_some() { digest(&[b"rows", database.as_bytes(), &body]) } else { 0 };
        let claim = match self.known(digest).await? {
            Some(Known::Written(written)) => return Ok(written),
            Some(Known::Free(claim)) => Some(claim),
            None => None,
        };
        let (mut catalog, db) = self.database_or_create(database, start).await?;
        let now = ticks(now_ns, db.precision);
        let (mut created, mut refused) = (0, None);
        for _ in 0..ROUNDS {
            let view = self.view(catalog.clone(), created);
            let decoded = if body.len() <= DECODE_INLINE {
                decoder.decode(&body, &view, &db, now)?
            } else {
                let (body, db, decoder) = (body.clone(), db.clone(), decoder.clone());
                offload(move || decoder.decode(&body, &view, &db, now)).await?
            };
            if !decoded.missing.is_empty() {
                let new_tables =
                    decoded.missing.iter().filter(|c| matches!(c, SchemaChange::CreateTable { .. })).count();
                let deeds = created::by_rows(&catalog, &db, &decoded.missing);
                (catalog, refused) = self.shared.schema.commit(db.id, decoded.missing).await?;
                if refused.is_none() {
                    created += new_tables;
                    deeds.iter().for_each(|deed| deed.record(&self.principal, &Ok(())));
                }
                continue;
            }
            if !decoded.rejected.is_empty() {
                let newest = self.shared.probe.since(start).await?;
                if newest.version != catalog.version {
                    catalog = newest;
                    continue;
                }
            }
            counter!(REJECTED).increment(decoded.dropped as u64);
            if !decoded.rejected.is_empty() {
                self.failed();
            }
            let (accepted, dropped) = (decoded.accepted as u64, decoded.dropped as u64);
            let replaced = decoded.blocks.iter().map(Block::replaced).sum();
            let claim = claim.map(|claim| claim.of(accepted, dropped, &decoded.rejected));
            let notices = doubted(decoded.doubtful);
            return match self.submit(decoded.blocks, reservation, durability, None, claim).await {
                Ok(token) => Ok(Written {
                    accepted,
                    rejected: decoded.rejected,
                    dropped,
                    token,
                    replayed: false,
                    replaced,
                    notices,
                }),
                Err(error) => self.overtaken(error, digest).await,
            };
        }
        let changing = || Error::unavailable("other requests keep changing the same tables").with("database", database);
        Err(refused.unwrap_or_else(changing))
    }

    /// View of a catalog version for decoders, for a request that has created this many tables.
    pub(crate) fn view(&self, catalog: Arc<Catalog>, created: usize) -> View {
        let shared = &self.shared;
        let limits = shared.schema.limits();
        let limits = Limits { new_tables: limits.new_tables.saturating_sub(created), ..limits };
        View {
            catalog,
            directory: shared.directory.clone(),
            principal: self.principal.clone(),
            limits,
            implausible: self.implausible,
        }
    }

    /// The requested durability, as far as the settings allow it.
    pub(crate) fn granted(&self, asked: Durability) -> Durability {
        if self.shared.config.no_sync { asked } else { Durability::Stored }
    }

    pub(crate) async fn reserve(&self, bytes: usize) -> Result<Reservation> {
        self.shared.budget.reserve(bytes).await
    }

    /// Queues rows for the log and waits as `durability` requires. Returns no token without rows or series, nor for rows
    /// acknowledged from the buffer. Rows under a claim are always stored first; Conflict means that a copy has claimed the key
    /// meanwhile.
    pub(crate) async fn submit(
        &self,
        blocks: Vec<Block>,
        mut reservation: Reservation,
        durability: Durability,
        resolved: Option<Version>,
        claim: Option<Claim>,
    ) -> Result<Option<Token>> {
        if blocks.iter().all(|b| b.is_empty() && b.series.is_empty()) {
            return Ok(None);
        }
        let bytes = blocks.iter().map(block_bytes).sum();
        self.shared.queue.blocked.check()?;
        self.shared.compactor.backlog().wait(self.shared.config.backlog_bytes).await?;
        self.shared.budget.grow(&mut reservation, bytes).await?;
        let is_waited_for = durability == Durability::Stored || claim.is_some();
        if let Some(place) = &self.place {
            place.turn().await?;
        }
        let (sender, answer) = oneshot::channel();
        let (gathering, waiter) = (None, is_waited_for.then_some(sender));
        self.shared.queue.push(Entry { blocks, gathering, bytes, resolved, reservation, claim, waiter })?;
        if let Some(place) = &self.place {
            place.taken();
        }
        if !is_waited_for {
            return Ok(None);
        }
        let unknown = || Error::unavailable("the store did not confirm the rows in time; they may still be written");
        let waited = async {
            match tokio::time::timeout(millis(self.shared.config.confirm_ms), answer).await {
                Ok(Ok(position)) => Ok(Some(Token::Position(position?))),
                Ok(Err(_)) => Err(unknown().with("reason", "the write path ended")),
                Err(_) => Err(unknown().with("waited_ms", self.shared.config.confirm_ms)),
            }
        };
        stepped(step!("confirm"), waited).await
    }

    /// The database of this name, which the principal may write to, and a catalog that has it.
    ///
    /// # Errors
    /// NotFound by a catalog not older than `start`; Forbidden.
    pub(crate) async fn database(&self, name: &str, start: Instant) -> Result<(Arc<Catalog>, Arc<Database>)> {
        let (catalog, database) = self.find_database(Privilege::Write, name, start).await?;
        self.principal.check(Privilege::Write, &database)?;
        Ok((catalog, database))
    }

    /// The database of this name, and a catalog that has it.
    ///
    /// # Errors
    /// By a catalog not older than `start`: NotFound; or Forbidden, naming the missing privilege, if the principal must not
    /// learn whether the database exists.
    pub(crate) async fn find_database(
        &self,
        privilege: Privilege,
        name: &str,
        start: Instant,
    ) -> Result<(Arc<Catalog>, Arc<Database>)> {
        let catalog = self.shared.root.catalog();
        if let Some(database) = catalog.database(name).cloned() {
            return Ok((catalog, database));
        }
        // Boxed: a request to the store is rare, and its future would make every write's future four times as large.
        let catalog = Box::pin(self.shared.probe.since(start)).await?;
        if let Some(database) = catalog.database(name).cloned() {
            return Ok((catalog, database));
        }
        Err(self.principal.missing(
            privilege,
            name,
            Error::not_found(format!("database not found: {name:?}")).because(Reason::DatabaseNotFound),
        ))
    }

    /// Checks that the principal may write rows to a database, before any of its body is read. A database of the last known
    /// catalog costs no request to the store.
    ///
    /// # Errors
    /// Forbidden without the right to write to the database, or to create it; NotFound if writes create no databases.
    pub async fn check_write(&self, name: &str) -> Result<()> {
        let checked = self.may_write(name).await;
        if checked.is_err() {
            Deed::new("WRITE", name).record_refusal(&self.principal, &checked);
        }
        checked
    }

    async fn may_write(&self, name: &str) -> Result<()> {
        if let Some(database) = self.shared.root.catalog().database(name) {
            return self.principal.check(Privilege::Write, database);
        }
        let creates = self.shared.config.auto_create_database;
        if creates && self.principal.check_create(name).is_ok() {
            return Ok(());
        }
        match self.database(name, Instant::now()).await {
            Err(error) if error.kind() == Kind::NotFound && creates => self.principal.check_create(name),
            found => found.map(drop),
        }
    }

    pub(super) async fn database_or_create(&self, name: &str, start: Instant) -> Result<(Arc<Catalog>, Arc<Database>)> {
        match self.database(name, start).await {
            Err(error) if error.kind() == Kind::NotFound && self.shared.config.auto_create_database => {}
            result => return result,
        }
        self.principal.check_create(name)?;
        let precision = self.shared.config.auto_precision;
        let change = |draft: &mut Draft| match draft.catalog().database(name) {
            Some(database) => Ok((database.clone(), false)),
            None => draft
                .create_database(name, precision, Database::LONGEST_KEEP_MS, Database::DEFAULT_PARTITION_MS)
                .map(|database| (database, true)),
        };
        let ((database, is_new), catalog) = Box::pin(self.shared.root.commit(&[], change)).await?;
        if is_new {
            Deed::new("CREATE DATABASE", name).with(created::BY_ROWS).record(&self.principal, &Ok(()));
        }
        Ok((catalog, database))
    }
}

/// Notices for the reply, and log lines, about a time that was stored although it seems to be in another unit.
pub(crate) fn doubted(doubtful: Option<String>) -> Vec<String> {
    doubtful.into_iter().inspect(|doubt| tracing::warn!(doubt, "an implausible time was stored")).collect()
}

/// A time in ticks of a precision.
fn ticks(ns: i64, precision: Precision) -> i64 {
    ns.div_euclid(1_000_000_000 / precision.per_second())
}

/// Bytes of a block in memory.
pub(super) fn block_bytes(block: &Block) -> usize {
    batch_bytes(&block.rows) + batch_bytes(block.series.batch())
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Int64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt32Array},
        buffer::Buffer,
        datatypes::{DataType, Schema},
    };
    use tidelake_format::{
        ids::{ColumnId, TableId},
        rows::{SeriesSet, held_bytes, series_field, tbname_field},
        schema::field_with_id,
        types::Precision,
    };

    use super::*;

    #[test]
    fn memory_retained_by_blocks_is_counted_once_and_in_full() {
        let allocation = Buffer::from(vec![b'x'; 1 << 20]);
        let text = |at: usize| {
            let offsets = arrow::buffer::OffsetBuffer::from_lengths([8, 8]);
            StringArray::new(offsets, allocation.slice_with_length(at, 16), None)
        };
        let names = StringArray::from(vec!["a"]);
        let series = RecordBatch::try_new(Arc::new(Schema::new(vec![tbname_field()])), vec![Arc::new(names)]).unwrap();
        let fields = vec![
            series_field().as_ref().clone(),
            field_with_id("ts", Precision::Milli.data_type(), false, ColumnId::TS),
            field_with_id("n", DataType::Int64, true, ColumnId(7)),
            field_with_id("s", DataType::Utf8, true, ColumnId(8)),
            field_with_id("t", DataType::Utf8, true, ColumnId(9)),
        ];
        let rows = RecordBatch::try_new(
            Arc::new(Schema::new(fields)),
            vec![
                Arc::new(UInt32Array::from(vec![0, 0])),
                Arc::new(TimestampMillisecondArray::from(vec![1, 2])),
                Arc::new(Int64Array::from(vec![Some(1), None])),
                Arc::new(text(0)),
                Arc::new(text(500_000)),
            ],
        );
        let block = Block::try_new(TableId(1), SeriesSet::try_new(series).unwrap(), rows.unwrap()).unwrap();
        let (brought, held) = (block_bytes(&block), held_bytes(&[block.clone(), block]));
        assert!(brought < 200, "{brought}");
        assert!((1 << 20..(1 << 20) + 2_000).contains(&held), "{held}");
    }
}
