//! A bulk ingest larger than one segment: it has its own writer, whose segments count once its end segment exists.

use std::time::Duration;

use metrics::counter;
use tidelake_format::{
    Error, Kind, Reason, Result,
    ids::{Position, TableId, WriterId},
    layout::log_key,
    meta::PROBE_AGE,
    rows::Block,
    segment::{self, Compression, SegmentHeader},
    store::{Created, Moment},
};
use tokio::time::{sleep, timeout};

use super::{
    Ingest,
    idempotent::{ACKNOWLEDGE_WITHIN, Claim},
    lane::blocking,
    rows::block_bytes,
};
use crate::{
    config::millis,
    metrics::{ROWS, SEGMENT_BYTES, SEGMENTS},
};

/// Longest bulk ingest. Without an end it is void a day after its first segment; no end is acknowledged close to that time.
const LONGEST: Duration = Duration::from_secs(20 * 3_600);
/// Wait between two attempts to read the newest version.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// The segments put so far by one ingest.
#[derive(Debug)]
pub(crate) struct Bulk {
    writer: WriterId,
    started: Moment,
    start_ms: i64,
    /// The stamp of all segments of the ingest.
    stamp_ns: i64,
    parts: u64,
}

impl Bulk {
    pub(crate) fn new(ingest: &Ingest) -> Self {
        let ambient = ingest.shared.root.store().ambient();
        Self {
            writer: WriterId::bulk(ambient.random()),
            started: Moment::now(ambient.as_ref()),
            start_ms: ambient.wall_ms(),
            stamp_ns: ingest.shared.stamps.next(ingest.shared.root.store()),
            parts: 0,
        }
    }

    /// Puts rows that count once the end exists.
    ///
    /// # Errors
    /// Unavailable if the store does not accept them in time; then no row of the ingest will ever count.
    pub(crate) async fn put(&mut self, ingest: &Ingest, blocks: Vec<Block>) -> Result<()> {
        let put = self.create(ingest, self.parts, blocks, false).await;
        if put.as_ref().is_err_and(|e| e.kind() == Kind::Full) {
            // The parts count only with an end, which will never be put.
            for seq in 0..self.parts {
                let key = log_key(Position { writer: self.writer, seq });
                if let Err(error) = ingest.shared.root.store().delete(&key).await {
                    tracing::info!(key, %error, "cannot delete a part of a failed bulk ingest; it stays for a day");
                }
            }
        }
        put?;
        self.parts += 1;
        Ok(())
    }

    /// The position of the end segment.
    pub(crate) fn position(&self) -> Position {
        Position { writer: self.writer, seq: Position::END + self.parts }
    }

    /// When the ingest's writer started.
    pub(crate) fn start_ms(&self) -> i64 {
        self.start_ms
    }

    /// Reads the parts back.
    ///
    /// # Errors
    /// Unavailable if the store does not respond, or a part is gone.
    pub(crate) async fn read(&self, ingest: &Ingest) -> Result<Vec<Block>> {
        let mut blocks = Vec::new();
        for seq in 0..self.parts {
            let key = log_key(Position { writer: self.writer, seq });
            let bytes = ingest.shared.root.store().get(&key).await.map_err(|e| match e.kind() {
                Kind::NotFound => Error::unavailable("a part of this bulk ingest is gone; send it again").source(e),
                _ => e,
            })?;
            let read = blocking(bytes.len(), move || segment::decode(&key, &bytes)).await?;
            blocks.extend(read.blocks);
        }
        Ok(blocks)
    }

    /// Checks that the ingest is not so old that its parts may be void.
    ///
    /// # Errors
    /// Unavailable.
    pub(crate) fn check_age(&self, ingest: &Ingest) -> Result<()> {
        if self.started.age(ingest.shared.root.store().ambient().as_ref()) > LONGEST {
            return Err(Error::unavailable("this bulk ingest took too long; send it again"));
        }
        Ok(())
    }

    /// Puts the last rows of an ingest into one table, which makes all its rows count; under a claim, claims the key first.
    ///
    /// # Errors
    /// Conflict if a copy has claimed the key, NotFound if the table was dropped meanwhile, Unavailable if the outcome is
    /// unknown.
    pub(crate) async fn end(
        self,
        ingest: &Ingest,
        table: TableId,
        blocks: Vec<Block>,
        claim: Option<Claim>,
    ) -> Result<Position> {
        let (root, ambient) = (&ingest.shared.root, ingest.shared.root.store().ambient().as_ref());
        let position = self.position();
        // A copy that finds the end in the log reports success: the end must not be for a table that was dropped before.
        if claim.is_some() {
            Self::confirm(ingest, table).await?;
        }
        let claimed = Moment::now(ambient);
        if let Some(claim) = &claim
            && claim.make(root, position, self.start_ms).await? == Created::Lost
        {
            return Err(Error::conflict("a copy of this request came first"));
        }
        self.check_age(ingest)?;
        self.create(ingest, position.seq, blocks, claim.as_ref().is_some_and(Claim::is_queues)).await?;
        Self::confirm(ingest, table).await?;
        if claim.is_some() && claimed.age(ambient) >= ACKNOWLEDGE_WITHIN {
            return Err(Error::unavailable("this bulk ingest took too long; send it again"));
        }
        self.check_age(ingest)?;
        Ok(position)
    }

    /// Checks by a fresh enough catalog that the table exists.
    async fn confirm(ingest: &Ingest, table: TableId) -> Result<()> {
        let catalog = async {
            loop {
                match ingest.shared.probe.catalog(PROBE_AGE).await {
                    Ok(catalog) => return catalog,
                    Err(error) => tracing::warn!(%error, "cannot read the newest version; a bulk ingest is waiting"),
                }
                sleep(LOOK_AGAIN).await;
            }
        };
        let unknown = || Error::unavailable("the store did not confirm the rows in time; they may still be written");
        let catalog = timeout(millis(ingest.shared.config.confirm_ms), catalog).await.map_err(|_| unknown())?;
        match catalog.table_by_id(table) {
            Some(_) => Ok(()),
            None => Err(Error::not_found("the table was dropped while its rows were being written")
                .because(Reason::TableNotFound)
                .with("table", table.0)),
        }
    }

    async fn create(&self, ingest: &Ingest, seq: u64, blocks: Vec<Block>, queue_keys: bool) -> Result<()> {
        let rows: Vec<_> = blocks.iter().map(|block| (block.table, block.len() as u64)).collect();
        let bytes: usize = blocks.iter().map(block_bytes).sum();
        let position = Position { writer: self.writer, seq };
        let header = SegmentHeader { position, writer_start_ms: self.start_ms, stamp_ns: self.stamp_ns, queue_keys };
        let compression = Compression::of(ingest.shared.root.store());
        let encode = move || segment::encode(&header, &segment::concat_blocks(blocks)?, compression);
        let encoded = blocking(bytes, encode).await?;
        let size = encoded.len() as u64;
        let created = ingest.shared.root.store().create(&log_key(position), encoded).await?;
        if created == Created::Lost {
            return Err(Error::unavailable("the ID of this bulk ingest is already taken; send the ingest again"));
        }
        counter!(SEGMENTS).increment(1);
        counter!(SEGMENT_BYTES).increment(size);
        ingest.shared.compactor.backlog().add(bytes);
        counter!(ROWS).increment(rows.iter().map(|(_, rows)| rows).sum());
        ingest.shared.activity.stored(rows);
        Ok(())
    }
}
