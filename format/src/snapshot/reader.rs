//! Reads snapshots: the log first, then the newest version, then the segments above its watermarks.

mod again;

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use self::again::Again;
use super::{Snapshot, held::Held};
use crate::{
    error::{Error, Kind, Result},
    ids::{Position, Token},
    layout,
    log::{Fault, Fetched, Listing, Pending, TailSegment, fetch_some},
    meta::{Catalog, FaultySegment, Root},
    step,
    steps::stepped,
    store::{Ambient, Moment, Store},
};

/// The log and the version may be requested concurrently if both respond within this time.
const AT_ONCE: Duration = Duration::from_secs(10);
/// How often a read is restarted because a segment vanished or a watermark moved.
const ATTEMPTS: usize = 8;
/// Time after which a segment that could not be decoded is read again.
const FAULT_AGE: Duration = Duration::from_secs(60);

/// Settings of a [`SnapshotReader`].
#[derive(Debug, Clone)]
pub struct SnapshotOptions {
    /// Maximum age of the store's responses that a snapshot is based on. Default (`None`): 0 on a directory and in
    /// memory, where a request costs microseconds; 1 s elsewhere. A lower value costs one more LIST and GET per query.
    pub max_staleness: Option<Duration>,
    /// Bytes of decoded segments cached while no snapshot is in use; default 256 MiB. If the tail is larger, the next
    /// snapshot reads the oldest segments again, unless another snapshot still holds them.
    pub tail_cache_bytes: usize,
    /// Maximum bytes of decoded segments in one snapshot; default: no limit. While the unfolded log is larger, no
    /// snapshot can be taken.
    pub tail_bytes: usize,
    /// Whether queries ignore quarantined segments instead of failing.
    pub allow_quarantined: bool,
}

impl Default for SnapshotOptions {
    fn default() -> Self {
        Self { max_staleness: None, tail_cache_bytes: 256 << 20, tail_bytes: usize::MAX, allow_quarantined: false }
    }
}

/// Reads snapshots and caches decoded segments. Cheap to clone; one per process.
#[derive(Debug, Clone)]
pub struct SnapshotReader {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: Root,
    max_staleness: Duration,
    tail_cache_bytes: usize,
    tail_bytes: usize,
    allow_quarantined: bool,
    current: Mutex<Option<Current>>,
    /// Held by the task that reads from the store.
    reading: tokio::sync::Mutex<Reading>,
    /// The segments in use of snapshots that were read again by id; locked while segments are read.
    again: tokio::sync::Mutex<Again>,
}

/// The last snapshot and the time when its requests began.
#[derive(Debug, Clone)]
struct Current {
    /// Kept if its segments fit into the cache.
    snapshot: Held<Snapshot>,
    asked: Moment,
}

impl Current {
    fn snapshot(&self) -> Option<Arc<Snapshot>> {
        self.snapshot.get()
    }
}

#[derive(Debug, Default)]
struct Reading {
    /// The log as listed while the root was opened, and when that request began.
    first: Option<(Listing, Moment)>,
    /// On a directory: the known log, updated by each read.
    listing: Option<(Listing, Arc<Catalog>)>,
    kept: HashMap<Position, Kept>,
    /// Stored size of a log that did not fit into memory once decoded: a log of at least this size is not read again.
    too_large: Option<u64>,
}

#[derive(Debug, Clone)]
enum Kept {
    Segment(Held<TailSegment>),
    Void,
    /// The fault found in an object, and when.
    Fault(Fault, Pending, Moment),
}

impl Kept {
    fn segment(&self) -> Option<Arc<TailSegment>> {
        match self {
            Self::Segment(segment) => segment.get(),
            Self::Void | Self::Fault(..) => None,
        }
    }
}

impl SnapshotReader {
    /// Creates a reader of one root.
    pub fn new(root: Root, options: SnapshotOptions) -> Self {
        let default = if root.store().is_local() { Duration::ZERO } else { Duration::from_secs(1) };
        let inner = Inner {
            max_staleness: options.max_staleness.unwrap_or(default),
            tail_cache_bytes: options.tail_cache_bytes,
            tail_bytes: options.tail_bytes,
            allow_quarantined: options.allow_quarantined,
            current: Mutex::default(),
            reading: tokio::sync::Mutex::default(),
            again: tokio::sync::Mutex::default(),
            root,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Opens a root and lists its log concurrently: the first snapshot of a new process waits only for its segments.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub async fn open(store: Store, options: SnapshotOptions) -> Result<Self> {
        if store.is_directory() {
            return Ok(Self::new(Root::open(store).await?, options));
        }
        let (asked, started) = (Moment::now(store.ambient().as_ref()), Instant::now());
        let (listing, root) = tokio::try_join!(Listing::read(&store), Root::open(store.clone()))?;
        let reader = Self::new(root, options);
        if started.elapsed() < AT_ONCE {
            reader.inner.reading.lock().await.first = Some((listing, asked));
        }
        Ok(reader)
    }

    /// The root.
    pub fn root(&self) -> &Root {
        &self.inner.root
    }

    /// Maximum bytes of decoded segments in one snapshot.
    pub fn tail_bytes(&self) -> usize {
        self.inner.tail_bytes
    }

    /// A snapshot that is at most `max_staleness` old and contains every token. Concurrent callers share one read.
    ///
    /// # Errors
    /// [`Kind::NotFound`] "token expired" for an unknown writer, and for rows that were given up; [`Kind::Corrupt`] if
    /// the segment of a token is damaged; [`Kind::Unavailable`] when a fresh read does not contain a token; as
    /// [`Root::refresh`].
    pub async fn snapshot(&self, tokens: &[Token]) -> Result<Arc<Snapshot>> {
        let inner = &self.inner;
        let called = Moment::now(inner.ambient());
        if !inner.max_staleness.is_zero()
            && let Some(current) = inner.current.lock().clone()
            && current.asked.age(inner.ambient()) <= inner.max_staleness
            && let Some(snapshot) = current.snapshot()
            && tokens.iter().all(|t| snapshot.contains(t))
        {
            return Ok(snapshot);
        }
        stepped(step!("snapshot"), self.read(called, tokens)).await
    }

    /// A snapshot whose requests began at `called` or later.
    async fn read(&self, called: Moment, tokens: &[Token]) -> Result<Arc<Snapshot>> {
        let inner = &self.inner;
        let mut reading = inner.reading.lock().await;
        if let Some(current) = inner.current.lock().clone()
            && current.asked.not_before(&called)
            && let Some(snapshot) = current.snapshot()
            && tokens.iter().all(|t| snapshot.contains(t))
        {
            return Ok(snapshot);
        }
        let mut asked = Moment::now(inner.ambient());
        let first = reading.first.take().filter(|(_, asked)| asked.age(inner.ambient()) <= inner.max_staleness);
        let read = match first {
            Some((listing, at)) => {
                let looked = Some((listing, inner.root.catalog()));
                let (snapshot, listing) = inner.read(&mut reading, looked).await?;
                if tokens.iter().all(|token| snapshot.contains(token)) {
                    asked = at;
                    (snapshot, listing)
                } else {
                    inner.read(&mut reading, None).await?
                }
            }
            None => inner.read(&mut reading, None).await?,
        };
        let (snapshot, listing) = read;
        let bytes: usize = snapshot.tail.iter().map(|segment| segment.memory_bytes()).sum();
        let last = Held::new(&snapshot, bytes <= inner.tail_cache_bytes);
        *inner.current.lock() = Some(Current { snapshot: last, asked });
        tokens.iter().try_for_each(|token| seen(token, &snapshot, &listing))?;
        Ok(snapshot)
    }
}

impl Inner {
    fn ambient(&self) -> &dyn Ambient {
        self.root.store().ambient().as_ref()
    }

    /// `looked` is the log and version used by the first attempt.
    async fn read(
        &self,
        reading: &mut Reading,
        mut looked: Option<(Listing, Arc<Catalog>)>,
    ) -> Result<(Arc<Snapshot>, Listing)> {
        let mut failed = None;
        for _ in 0..ATTEMPTS {
            let found = match looked.take() {
                Some(found) => Some(found),
                None => self.look(reading).await?,
            };
            let Some((mut listing, catalog)) = found else { continue };
            let Some((pending, damage)) = listing.confirm(&self.root, &catalog).await? else {
                reading.listing = None;
                continue;
            };
            match self.tail(reading, &pending).await {
                // The version was requested concurrently with the log and is older than the one that these rows were
                // written with: of a request with a new column, only the other columns would be visible.
                Ok((tail, _)) if tail.iter().any(|t| t.is_after(&catalog)) => {
                    failed = tail.iter().find(|t| t.is_after(&catalog)).map(|t| t.version_missing(&catalog));
                }
                Ok((tail, mut faults)) => {
                    faults.extend(damage.into_iter().map(|damage| damage.fault));
                    let quarantined = if self.allow_quarantined { Vec::new() } else { listing.quarantined(&catalog) };
                    let snapshot = Snapshot { catalog, tail, faults, quarantined };
                    return Ok((self.last_if_same(snapshot), listing));
                }
                // The segment was folded and collected since it was listed: the newest version has its rows. Or it was
                // deleted manually, which the remembered listing of a directory does not show.
                Err(e) if e.kind() == Kind::NotFound => {
                    reading.listing = None;
                    let error = Error::unavailable("the log moves faster than it can be read");
                    let error = error.with("attempts", ATTEMPTS).with("key", e.context("key").unwrap_or_default());
                    failed = Some(error.source(e));
                }
                Err(e) => return Err(e),
            }
        }
        Err(failed.unwrap_or_else(|| {
            Error::unavailable("the log moves faster than it can be read").with("attempts", ATTEMPTS)
        }))
    }

    /// The log, and a version requested after it; `None` if the log must be read again.
    async fn look(&self, reading: &mut Reading) -> Result<Option<(Listing, Arc<Catalog>)>> {
        let store = self.root.store();
        if let Some(names) = store.directories(layout::LOG)? {
            let (mut listing, before) =
                reading.listing.take().unwrap_or_else(|| (Listing::default(), self.root.catalog()));
            let faulty = reading.kept.iter().filter(|(_, kept)| matches!(kept, Kept::Fault(..)));
            let faulty: Vec<Position> = faulty.map(|(position, _)| *position).collect();
            listing.update(store, names, &before, &faulty).await?;
            let catalog = self.root.refresh().await?;
            let is_complete = listing.settle(&before, &catalog);
            reading.listing = Some((listing.clone(), catalog.clone()));
            return Ok(is_complete.then_some((listing, catalog)));
        }
        let started = Instant::now();
        let (listing, catalog) = tokio::try_join!(Listing::read(store), self.root.refresh())?;
        let catalog = if started.elapsed() < AT_ONCE { catalog } else { self.root.refresh().await? };
        Ok(Some((listing, catalog)))
    }

    /// The decoded segments, from memory or the store.
    async fn tail(&self, reading: &mut Reading, pending: &[Pending]) -> Result<(Vec<Arc<TailSegment>>, Vec<Fault>)> {
        let ambient = self.ambient();
        // Segments held only by other snapshots are also held here until this snapshot holds them.
        let in_use = reading.kept.values().filter(|kept| matches!(kept, Kept::Segment(Held::InUse(_))));
        let _held: Vec<Arc<TailSegment>> = in_use.filter_map(Kept::segment).collect();
        let is_kept = |kept: Option<&Kept>, p: &Pending| match kept {
            Some(Kept::Segment(held)) => held.get().is_some_and(|s| s.modified_ms == p.time_ms),
            Some(Kept::Void) => true,
            Some(Kept::Fault(_, of, since)) => of.is_same_object(p) && since.age(ambient) < FAULT_AGE,
            None => false,
        };
        // Segments that the version declares void are not cached: a quarantined object may be replaced by another.
        let pending: Vec<Pending> = pending.iter().filter(|p| !p.is_void).copied().collect();
        let wanted: Vec<Pending> =
            pending.iter().filter(|p| !is_kept(reading.kept.get(&p.position), p)).copied().collect();
        let fetched = self.fetch(reading, &pending, &wanted).await?;
        for (pending, fetched) in fetched {
            let kept = match fetched {
                Fetched::Segment(segment) => Kept::Segment(Held::Kept(segment)),
                Fetched::Void { .. } => Kept::Void,
                Fetched::Fault(fault) => Kept::Fault(fault, pending, Moment::now(ambient)),
            };
            reading.kept.insert(pending.position, kept);
        }
        let mut kept = HashMap::with_capacity(pending.len());
        let (mut tail, mut faults) = (Vec::with_capacity(pending.len()), Vec::new());
        for p in &pending {
            let Some(found) = reading.kept.remove(&p.position) else { continue };
            if let Kept::Fault(fault, ..) = &found {
                faults.push(fault.clone());
            }
            let found = match found.segment() {
                Some(segment) => {
                    tail.push(segment.clone());
                    Kept::Segment(Held::Kept(segment))
                }
                None => found,
            };
            kept.insert(p.position, found);
        }
        tail.sort_by_key(|t| t.order());
        // The entries left in `reading.kept` are folded. Beyond the limit the oldest are not cached: they are folded
        // next.
        let mut bytes = 0;
        for segment in tail.iter().rev() {
            bytes += segment.memory_bytes();
            if bytes > self.tail_cache_bytes {
                kept.insert(segment.position, Kept::Segment(Held::new(segment, false)));
            }
        }
        reading.kept = kept;
        Ok((tail, faults))
    }

    /// Reads the segments that are not cached.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] if these and the cached ones do not fit into memory.
    async fn fetch(
        &self,
        reading: &mut Reading,
        pending: &[Pending],
        wanted: &[Pending],
    ) -> Result<Vec<(Pending, Fetched)>> {
        let stored = pending.iter().map(|p| p.bytes).fold(0, u64::saturating_add);
        let memory =
            |p: &Pending| reading.kept.get(&p.position).and_then(Kept::segment).map_or(0, |s| s.memory_bytes());
        let kept = pending.iter().map(memory).fold(0, usize::saturating_add);
        let too_large = || {
            Error::unavailable("the unfolded log does not fit into memory; try again once more of it is folded")
                .with("limit_bytes", self.tail_bytes)
                .with("stored_bytes", stored)
        };
        if kept > self.tail_bytes || reading.too_large.is_some_and(|known| stored >= known) {
            return Err(too_large());
        }
        if wanted.is_empty() {
            return Ok(Vec::new());
        }
        let room = self.tail_bytes - kept;
        let fetched = fetch_some(self.root.store(), wanted, room).await?;
        let read = fetched.iter().map(|(_, f)| f.memory_bytes()).fold(0, usize::saturating_add);
        reading.too_large = (read > room).then_some(stored);
        if read > room { Err(too_large()) } else { Ok(fetched) }
    }

    /// Returns the last snapshot if the new one is the same.
    fn last_if_same(&self, snapshot: Snapshot) -> Arc<Snapshot> {
        if let Some(last) = self.current.lock().as_ref().and_then(Current::snapshot) {
            let same_tail = last.tail.len() == snapshot.tail.len()
                && last.tail.iter().zip(&snapshot.tail).all(|(a, b)| Arc::ptr_eq(a, b));
            let no_faults = last.faults.is_empty() && snapshot.faults.is_empty();
            let positions = |s: &Snapshot| s.quarantined.iter().map(|f| f.position).collect::<Vec<_>>();
            if same_tail
                && no_faults
                && positions(&last) == positions(&snapshot)
                && last.catalog.version == snapshot.catalog.version
            {
                return last;
            }
        }
        Arc::new(snapshot)
    }
}

fn seen(token: &Token, snapshot: &Snapshot, listing: &Listing) -> Result<()> {
    if snapshot.contains(token) {
        return Ok(());
    }
    let Token::Position(position) = token else {
        return Err(Error::unavailable("the version of the token is not in the store")
            .with("expected", token)
            .with("found", snapshot.catalog.version));
    };
    // Damage to any segment of a bulk ingest affects the whole ingest; its token is the position of its end.
    let is_of_write = |f: &&Fault| match position.writer.is_bulk() {
        true => f.position.writer == position.writer,
        false => f.position == *position,
    };
    if let Some(fault) = snapshot.faults.iter().chain(&snapshot.quarantined).find(is_of_write) {
        return Err(fault.to_error());
    }
    let watermark = snapshot.catalog.watermark(position.writer);
    let is_of_token = |f: &FaultySegment| f.seq == position.seq || position.writer.is_bulk();
    if watermark.is_some_and(|w| w.faulty.iter().any(|f| f.given_up && is_of_token(f))) {
        return Err(Error::not_found("the rows of this token were lost and given up").with("token", token));
    }
    if watermark.is_none() && !listing.has(position.writer) {
        return Err(Error::not_found("token expired: unknown writer").with("token", token));
    }
    Err(Error::unavailable("the write of the token is not in the store").with("token", token))
}
