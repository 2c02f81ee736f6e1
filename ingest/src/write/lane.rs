//! A log writer: one ID, consecutive numbers, one PUT in flight.

use std::{collections::HashSet, sync::Arc, time::Duration};

use arrow::datatypes::{FieldRef, Fields};
use futures::future::join_all;
use metrics::{counter, histogram};
use tidelake_format::{
    Error, Kind, Reason, Result,
    ids::{Position, TableId, Version, WriterId},
    layout::log_key,
    meta::{Catalog, PROBE_AGE, Probe, Root, Watermark},
    offload::offload,
    rows::Block,
    schema::field_id,
    segment::{self, Compression, SegmentHeader},
    step,
    steps::stepped,
    store::{Created, Moment, Store},
};
use tokio::time::{Instant, sleep};

use super::{
    activity::Activity,
    idempotent::{ACKNOWLEDGE_WITHIN, Claim},
    queue::{Blocked, Entry, Queue, Takes},
    series::was_dropped,
    stamps::Stamps,
};
use crate::{
    compact::Backlog,
    config::IngestConfig,
    metrics::{LOST_ROWS, PUT_SECONDS, ROWS, SEGMENT_BYTES, SEGMENTS},
};

/// Age at which a writer takes a new ID: its segments are void 2 days after its start.
const ID_LIFE: Duration = Duration::from_secs(86_400);
/// No segment is acknowledged under an older ID.
const ID_VOID: Duration = Duration::from_secs(2 * 86_400 - 3_600);
/// A PUT is accompanied by a probe if the last probe is older than this.
const PROBE_EARLY: Duration = PROBE_AGE;
/// Larger groups are encoded on a thread for blocking work.
const ENCODE_INLINE: usize = 256 << 10;
/// Longest wait between two attempts at a PUT with an unknown outcome.
const RETRY_MAX: Duration = Duration::from_secs(5);

/// Takes groups from a queue and puts them one by one.
#[derive(Debug)]
pub(crate) struct Lane {
    root: Root,
    store: Store,
    probe: Probe,
    id: WriterId,
    next: u64,
    started: Moment,
    start_ms: i64,
    stamps: Arc<Stamps>,
    /// The queue of a lane that takes any group, notified before requests are answered.
    queue: Option<Arc<Queue>>,
    backlog: Arc<Backlog>,
    activity: Arc<Activity>,
    blocked: Arc<Blocked>,
}

impl Lane {
    pub(crate) fn new(root: Root, probe: Probe, stamps: Arc<Stamps>) -> Self {
        let store = root.store().clone();
        let start_ms = store.ambient().wall_ms();
        let started = Moment::now(store.ambient().as_ref());
        let id = WriterId(store.ambient().random_id());
        stamps.own(id);
        Self {
            root,
            store,
            probe,
            id,
            next: 0,
            started,
            start_ms,
            stamps,
            queue: None,
            backlog: Arc::default(),
            activity: Arc::new(Activity::new()),
            blocked: Arc::default(),
        }
    }

    /// Counts the bytes put by this lane in a backlog of rows to fold, and its rows by table.
    pub(crate) fn counts_for(&mut self, backlog: Arc<Backlog>, activity: Arc<Activity>) {
        self.backlog = backlog;
        self.activity = activity;
    }

    /// Writes groups until the queue is closed and empty.
    pub(crate) async fn run(mut self, takes: Takes, queue: Arc<Queue>, config: Arc<IngestConfig>) {
        let linger = crate::config::millis(config.no_sync_ms);
        self.queue = (takes == Takes::Any).then(|| queue.clone());
        self.blocked = queue.blocked.clone();
        while let Some(group) = queue.take(takes, linger).await {
            self.write(group).await;
            queue.answered();
        }
    }

    /// Writes a group and answers all its requests. If the group cannot be encoded, each request is tried alone, so that one
    /// cannot fail another.
    async fn write(&mut self, mut group: Vec<Entry>) {
        for entry in &mut group {
            let rows = entry.rows();
            if let Err(error) = entry.close() {
                lost(rows, &error);
            }
        }
        let (claiming, group): (Vec<_>, Vec<_>) = group.into_iter().partition(|e| e.claim.is_some());
        if !group.is_empty() {
            self.write_plain(group).await;
        }
        if !claiming.is_empty() {
            self.write_claiming(claiming).await;
        }
    }

    async fn write_plain(&mut self, group: Vec<Entry>) {
        let blocks = group.iter().flat_map(|e| e.blocks.iter().cloned()).collect();
        let bytes = group.iter().map(|e| e.bytes).sum();
        match self.put(blocks, bytes).await {
            Ok(position) => self.acknowledge(group, position, None).await,
            Err(error) if error.kind() == Kind::Full => self.without_space(group, &error).await,
            Err(error) if group.len() == 1 => group.into_iter().for_each(|e| refuse(e, &error)),
            Err(_) => {
                for entry in group {
                    match self.put(entry.blocks.clone(), entry.bytes).await {
                        Ok(position) => self.acknowledge(vec![entry], position, None).await,
                        Err(error) if error.kind() == Kind::Full => self.without_space(vec![entry], &error).await,
                        Err(error) => refuse(entry, &error),
                    }
                }
            }
        }
    }

    /// Refuses the requests of a group for which the store has no space. Rows acknowledged from the buffer are kept and put
    /// once it has space; until then all requests are refused.
    async fn without_space(&mut self, group: Vec<Entry>, error: &Error) {
        let (waiting, buffered): (Vec<_>, Vec<_>) = group.into_iter().partition(|e| e.waiter.is_some());
        waiting.into_iter().for_each(|e| refuse(e, error));
        if buffered.is_empty() {
            return;
        }
        self.blocked.block(error);
        let mut pause = Duration::from_millis(50);
        let put = loop {
            sleep(pause).await;
            pause = (pause * 2).min(RETRY_MAX);
            let blocks = buffered.iter().flat_map(|e| e.blocks.iter().cloned()).collect();
            match self.put(blocks, buffered.iter().map(|e| e.bytes).sum()).await {
                Err(error) if error.kind() == Kind::Full => {}
                put => break put,
            }
        };
        self.blocked.unblock();
        match put {
            Ok(position) => self.acknowledge(buffered, position, None).await,
            Err(error) => buffered.into_iter().for_each(|e| refuse(e, &error)),
        }
    }

    /// Claims the keys of a group for the next position, puts the rows of the free keys there, and answers.
    ///
    /// The position of a claim holds the rows of all requests that claimed it, or nothing: on any failure in between, this
    /// writer takes a new ID and never uses the position.
    async fn write_claiming(&mut self, group: Vec<Entry>) {
        if self.is_over() {
            self.renew();
        }
        // A copy that finds rows in the log reports success: no rows may be for objects that were dropped before.
        let catalog = self.catalog().await;
        let mut known = Known::new(&catalog);
        let (gone, group): (Vec<_>, Vec<_>) = group.into_iter().partition(|e| known.dropped(e).is_some());
        for entry in gone {
            if let Some(error) = known.dropped(&entry) {
                refuse(entry, &error);
            }
        }
        // Copies in one group would claim with the same bytes, as if one had lost its reply and tried again.
        let copy = || Error::conflict("a copy of this request came first");
        let mut keys = HashSet::new();
        let is_first = |e: &Entry| e.claim.as_ref().is_some_and(|claim| keys.insert(claim.key.clone()));
        let (group, copies): (Vec<_>, Vec<_>) = group.into_iter().partition(is_first);
        let claimed = Moment::now(self.store.ambient().as_ref());
        let position = Position { writer: self.id, seq: self.next };
        let claims = group.iter().map(|entry| {
            let claim = entry.claim.as_ref().expect("every request of this group has a key");
            claim.make(&self.root, position, self.start_ms)
        });
        let claims = join_all(claims).await;
        copies.into_iter().for_each(|entry| refuse(entry, &copy()));
        let (mut ours, mut uncertain) = (Vec::new(), false);
        for (entry, claim) in group.into_iter().zip(claims) {
            match claim {
                Ok(Created::New | Created::Ours) => ours.push(entry),
                Ok(Created::Lost) => refuse(entry, &copy()),
                Err(error) => {
                    uncertain = true;
                    refuse(entry, &error);
                }
            }
        }
        if ours.is_empty() {
            if uncertain {
                self.renew();
            }
            return;
        }
        let bytes = ours.iter().map(|e| e.bytes).sum();
        let queue_keys = ours.iter().filter_map(|e| e.claim.as_ref()).any(Claim::is_queues);
        let blocks: Vec<Block> = ours.iter().flat_map(|e| e.blocks.iter().cloned()).collect();
        let put = async {
            if uncertain {
                return Err(Error::unavailable("the outcome of another request's idempotency claim is unknown"));
            }
            let blocks = Arc::new(blocking(bytes, move || segment::concat_blocks(blocks)).await?);
            match self.put_next(&blocks, bytes, queue_keys).await? {
                true => Ok(()),
                false => Err(Error::unavailable("the writer ID is no longer usable")),
            }
        };
        match put.await {
            Ok(()) => {
                self.next += 1;
                self.acknowledge(ours, position, Some(claimed)).await;
            }
            Err(error) => {
                self.renew();
                if error.kind() == Kind::Full {
                    return ours.into_iter().for_each(|e| refuse(e, &error));
                }
                let again =
                    Error::unavailable("send the request again with the same idempotency key").with("reason", &error);
                ours.into_iter().for_each(|e| refuse(e, &again));
            }
        }
    }

    /// Puts one segment, however long that takes.
    ///
    /// # Errors
    /// Internal if the blocks cannot be encoded: nothing was put. Full if the store has no space: this writer then has a new
    /// ID, as the segment may still have been stored.
    async fn put(&mut self, blocks: Vec<Block>, bytes: usize) -> Result<Position> {
        let rows = blocks.iter().map(|block| block.rows.num_rows()).sum::<usize>();
        stepped(step!("segment", rows), self.put_blocks(blocks, bytes)).await
    }

    async fn put_blocks(&mut self, blocks: Vec<Block>, bytes: usize) -> Result<Position> {
        let blocks = Arc::new(blocking(bytes, move || segment::concat_blocks(blocks)).await?);
        loop {
            if self.is_over() {
                self.renew();
            }
            let position = Position { writer: self.id, seq: self.next };
            if self.put_next(&blocks, bytes, false).await? {
                self.next += 1;
                return Ok(position);
            }
            self.renew();
        }
    }

    /// Puts a segment under the next number, together with a probe of the chain if one is due. Returns false if this ID is no
    /// longer usable: the number holds another object, or the segment is void by its writer's age.
    async fn put_next(&mut self, blocks: &Arc<Vec<Block>>, bytes: usize, queue_keys: bool) -> Result<bool> {
        let position = Position { writer: self.id, seq: self.next };
        let stamp_ns = self.stamps.next(&self.store);
        let header = SegmentHeader { position, writer_start_ms: self.start_ms, stamp_ns, queue_keys };
        let (shared, compression) = (blocks.clone(), Compression::of(&self.store));
        let encoded = blocking(bytes, move || segment::encode(&header, &shared, compression)).await?;
        let size = encoded.len() as u64;

        let before = Instant::now();
        let key = log_key(position);
        let put = create(&self.store, &key, encoded);
        let (created, _) = tokio::join!(put, self.probe.catalog(PROBE_EARLY));
        let created = match created {
            Ok(created) => created,
            Err(error) => {
                self.renew();
                return Err(error);
            }
        };
        histogram!(PUT_SECONDS).record(before.elapsed().as_secs_f64());
        let void = self.started.age(self.store.ambient().as_ref()) > ID_VOID;
        if created == Created::Lost || void {
            tracing::warn!(position = %position, void, "the writer ID is no longer usable; taking a new one");
            return Ok(false);
        }
        counter!(SEGMENTS).increment(1);
        counter!(SEGMENT_BYTES).increment(size);
        self.backlog.add(bytes);
        Ok(true)
    }

    /// Whether the next segment needs a new ID: this one is old, or a fold found one of its numbers missing in the store, and
    /// segments above that number wait for an operator.
    fn is_over(&self) -> bool {
        let has_hole = self.root.catalog().watermark(self.id).is_some_and(Watermark::has_hole);
        has_hole || self.started.age(self.store.ambient().as_ref()) > ID_LIFE
    }

    fn renew(&mut self) {
        self.id = WriterId(self.store.ambient().random_id());
        self.stamps.own(self.id);
        self.next = 0;
        self.started = Moment::now(self.store.ambient().as_ref());
        self.start_ms = self.store.ambient().wall_ms();
    }

    /// A fresh enough catalog, however long that takes.
    async fn catalog(&self) -> Arc<Catalog> {
        let mut wait = Duration::from_millis(50);
        loop {
            match self.probe.catalog(PROBE_AGE).await {
                Ok(catalog) => return catalog,
                Err(error) => {
                    tracing::warn!(%error, "cannot read the newest version; requests are waiting");
                    sleep(wait).await;
                    wait = (wait * 2).min(RETRY_MAX);
                }
            }
        }
    }

    /// Answers the requests of a stored segment by a fresh enough catalog; those that `claimed` a key only while no copy can
    /// have voided the claim.
    async fn acknowledge(&self, group: Vec<Entry>, position: Position, claimed: Option<Moment>) {
        let catalog = self.catalog().await;
        let late = claimed.is_some_and(|at| at.age(self.store.ambient().as_ref()) >= ACKNOWLEDGE_WITHIN);
        let late = late.then(|| Error::unavailable("the write took too long; send it again with its idempotency key"));
        let mut known = Known::new(&catalog);
        if let Some(queue) = &self.queue {
            queue.answering();
        }
        for entry in group {
            if entry.waiter.is_none() {
                known.count(&entry);
                self.activity.stored(entry.blocks.iter().map(|block| (block.table, block.len() as u64)));
                continue;
            }
            let refused = known.dropped(&entry);
            let refused = refused.or_else(|| late.as_ref().map(Error::copied));
            match refused {
                Some(error) => refuse(entry, &error),
                None => {
                    counter!(ROWS).increment(entry.rows());
                    self.activity.stored(entry.blocks.iter().map(|block| (block.table, block.len() as u64)));
                    drop((entry.blocks, entry.reservation));
                    if let Some(waiter) = entry.waiter {
                        let _ = waiter.send(Ok(position)); // the request may have ended
                    }
                }
            }
        }
        known.tell();
    }
}

/// Checks the tables, columns and series of requests against a catalog.
struct Known<'a> {
    catalog: &'a Catalog,
    /// The last table checked, with row and series columns that it has in full.
    columns: Option<(TableId, Fields, Fields)>,
    /// Lost rows of requests without a waiter, and the first error.
    lost: Option<(u64, Error)>,
}

impl<'a> Known<'a> {
    fn new(catalog: &'a Catalog) -> Self {
        Self { catalog, columns: None, lost: None }
    }

    /// The error of a request whose table, columns or series were dropped while its rows were being written.
    fn dropped(&mut self, entry: &Entry) -> Option<Error> {
        entry.blocks.iter().find_map(|block| self.dropped_of(block, entry.resolved))
    }

    /// Counts the rows of requests without a waiter: rows of a dropped table are lost, and rows with a value in a dropped
    /// column.
    fn count(&mut self, entry: &Entry) {
        let mut lost = 0;
        for block in &entry.blocks {
            let Some(error) = self.dropped_of(block, entry.resolved) else { continue };
            let rows = match self.catalog.table_by_id(block.table) {
                None => block.len(),
                Some(table) => {
                    let columns = block.rows.schema_ref().fields().iter().zip(block.rows.columns());
                    let is_gone = |f: &FieldRef| field_id(f).is_some_and(|id| table.column_by_id(id).is_none());
                    let gone = columns.filter(|(field, _)| is_gone(field));
                    gone.map(|(_, values)| values.len() - values.null_count()).max().unwrap_or(0)
                }
            };
            lost += rows as u64;
            self.lost.get_or_insert((0, error)).0 += rows as u64;
        }
        counter!(LOST_ROWS).increment(lost);
        counter!(ROWS).increment(entry.rows() - lost);
    }

    /// Logs lost rows once per group: dropping a busy table loses thousands of requests.
    fn tell(self) {
        if let Some((rows, error)) = self.lost {
            tracing::warn!(rows, %error, "rows acknowledged from the buffer are lost");
        }
    }

    fn dropped_of(&mut self, block: &Block, resolved: Option<Version>) -> Option<Error> {
        let (rows, series) = (block.rows.schema_ref().fields(), block.series.batch().schema_ref().fields());
        let is_known = |(table, r, s): &(TableId, Fields, Fields)| *table == block.table && r == rows && s == series;
        if resolved.is_none() && self.columns.as_ref().is_some_and(is_known) {
            return None;
        }
        let Some(table) = self.catalog.table_by_id(block.table) else {
            let error = Error::not_found("the table was dropped while its rows were being written")
                .because(Reason::TableNotFound);
            return Some(error.with("table", block.table.0));
        };
        let mut columns = rows.iter().skip(1).chain(series.iter().skip(1));
        let gone = |f: &&FieldRef| field_id(f).is_some_and(|id| table.column_by_id(id).is_none());
        if let Some(column) = columns.find(gone) {
            let error = Error::not_found("a column was dropped while its rows were being written")
                .because(Reason::ColumnNotFound);
            return Some(error.with("table", &table.name).with("column", column.name()));
        }
        self.columns = Some((block.table, rows.clone(), series.clone()));
        let since = resolved?;
        if table.forgotten > since {
            let error =
                Error::unavailable("tables were dropped while rows were being written; the rows may have been written");
            return Some(error.with("supertable", &table.name));
        }
        let mut names = block.series.names().iter().flatten();
        let name = names.find(|name| was_dropped(table, name, since))?;
        Some(
            Error::not_found("the table was dropped while its rows were being written")
                .because(Reason::TableNotFound)
                .with("table", name),
        )
    }
}

fn refuse(entry: Entry, error: &Error) {
    match entry.waiter {
        Some(waiter) => {
            let _ = waiter.send(Err(error.copied()));
        }
        None => lost(entry.rows(), error),
    }
}

fn lost(rows: u64, error: &Error) {
    counter!(LOST_ROWS).increment(rows);
    tracing::error!(rows, %error, "rows acknowledged from the buffer are lost");
}

/// Repeats the PUT until the store responds: a segment number never gets other bytes.
///
/// # Errors
/// Full: the number must not be used again, as an earlier attempt may have put the bytes.
async fn create(store: &Store, key: &str, bytes: bytes::Bytes) -> Result<Created> {
    let mut wait = Duration::from_millis(50);
    loop {
        match store.create(key, bytes.clone()).await {
            Ok(created) => return Ok(created),
            Err(error) if error.kind() == Kind::Full => return Err(error),
            Err(error) => {
                tracing::warn!(%error, key, "the outcome of a PUT is unknown; retrying");
                sleep(wait).await;
                wait = (wait * 2).min(RETRY_MAX);
            }
        }
    }
}

/// Runs work on many bytes on a thread for blocking work.
pub(super) async fn blocking<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if bytes <= ENCODE_INLINE {
        return work();
    }
    offload(work).await
}
