//! The handle to one root: its store, its chain and the newest version known.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use super::{
    Catalog, Draft, FileEntry,
    commit::{COMMIT_DEADLINE, Queue},
    files::FileLists,
    sections::{DATABASES, Databases, Section},
    seen::Seen,
};
use crate::{
    chain::{Appended, Chain, Change, VersionObject},
    error::{Error, Kind, Result},
    ids::{TableId, Version},
    layout,
    store::{Moment, Store},
};

/// Once the known version was confirmed as the newest longer ago than this, the absence of the next version proves
/// nothing: the next version may have been collected, and an object found or created in its place may be a stray
/// outside the chain.
const CONFIRMED: Duration = Duration::from_secs(30 * 60);
/// Number of new versions read one by one before a LIST.
const STEPS: usize = 3;
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// A root: its store and the newest version known. Cheap to clone; one per process.
#[derive(Debug, Clone)]
pub struct Root {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    chain: Chain,
    known: Mutex<Known>,
    /// The newest version known to survive a power loss.
    durable: AtomicU64,
    files: FileLists,
    collected: Seen,
    /// Held during a request for newer versions.
    asking: tokio::sync::Mutex<()>,
    /// Changes of this process that wait for a commit.
    queue: Queue,
    /// Whether this handle created version 0.
    is_new: bool,
}

/// What opening does if the root does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absent {
    /// Create version 0.
    Create,
    /// Fail.
    Refuse,
}

/// Result of an attempt to commit.
pub(super) enum Attempt {
    /// The change is committed as this version.
    Won(Arc<Catalog>),
    /// Another commit was first: the version after the base, if known.
    Lost(Option<Arc<Catalog>>),
}

#[derive(Debug, Clone)]
struct Known {
    catalog: Arc<Catalog>,
    /// Start of the last request that confirmed this version as the newest.
    confirmed: Moment,
}

impl Root {
    /// Opens a root; creates version 0 if there is none.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] or [`Kind::Unsupported`], naming the newest version's key; [`Kind::Unavailable`].
    pub async fn open(store: Store) -> Result<Self> {
        Self::open_or(store, Absent::Create).await
    }

    /// Opens an existing root; writes nothing.
    ///
    /// # Errors
    /// [`Kind::NotFound`] if there is no root; otherwise as [`Root::open`].
    pub async fn open_existing(store: Store) -> Result<Self> {
        Self::open_or(store, Absent::Refuse).await
    }

    async fn open_or(store: Store, absent: Absent) -> Result<Self> {
        let chain = Chain::new(store.clone(), Section::is_eager);
        let mut is_new = false;
        for _ in 0..8 {
            let confirmed = Moment::now(store.ambient().as_ref());
            let object = match chain.newest().await? {
                Some(version) => chain.load(version, None).await?,
                None if absent == Absent::Refuse => {
                    return Err(Error::not_found("no root at this location").with("store", store.describe()));
                }
                None => {
                    let empty = [(DATABASES.to_owned(), Change::json(&Databases::default())?)].into();
                    let made = chain.append(None, empty, COMMIT_DEADLINE).await;
                    let none = "root not initialised; a read-only process cannot create it: write to it first";
                    match made.map_err(|e| e.with("root", none))? {
                        Appended::Won(object) => {
                            is_new = true;
                            Some(object)
                        }
                        Appended::Lost(_) => None,
                    }
                }
            };
            let Some(object) = object else { continue };
            let catalog = match Catalog::load(&chain, object, None).await {
                Ok(catalog) => Arc::new(catalog),
                // Collected during the read: there is a newer version.
                Err(e) if e.kind() == Kind::NotFound => continue,
                Err(e) => return Err(e),
            };
            store.sync(layout::META).await?;
            let inner = Inner {
                store,
                chain,
                durable: AtomicU64::new(catalog.version.0),
                known: Mutex::new(Known { catalog, confirmed }),
                files: FileLists::default(),
                collected: Seen::default(),
                asking: tokio::sync::Mutex::default(),
                queue: Queue::default(),
                is_new,
            };
            return Ok(Self { inner: Arc::new(inner) });
        }
        Err(Error::corrupt("the newest version of the chain is listed but cannot be read completely")
            .with("key", layout::META)
            .with("store", store.describe()))
    }

    /// Whether opening created the root.
    pub fn is_new(&self) -> bool {
        self.inner.is_new
    }

    /// The store of the root.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    pub(crate) fn chain(&self) -> &Chain {
        &self.inner.chain
    }

    pub(crate) fn seen(&self) -> &Seen {
        &self.inner.collected
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.inner.queue
    }

    /// The newest version known, if `enough` accepts the time of its confirmation.
    pub(super) fn confirmed_since(&self, enough: impl FnOnce(&Moment) -> bool) -> Option<Arc<Catalog>> {
        let known = self.inner.known.lock();
        enough(&known.confirmed).then(|| known.catalog.clone())
    }

    pub(crate) fn file_lists(&self) -> &FileLists {
        &self.inner.files
    }

    /// The catalog of an older version; `None` if it was collected.
    pub(crate) async fn at(&self, version: Version, near: &Catalog) -> Result<Option<Arc<Catalog>>> {
        self.read(version, near).await
    }

    /// The newest version known, without a request to the store.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.inner.known.lock().catalog.clone()
    }

    /// Time since the start of the last request that confirmed [`Root::catalog`] as the newest, by the larger of the
    /// wall clock and the monotonic clock.
    pub fn confirmed_age(&self) -> Duration {
        let confirmed = self.inner.known.lock().confirmed;
        confirmed.age(self.ambient())
    }

    /// Requests newer versions from the store and returns the newest; the request starts after this call and is one GET
    /// if there is nothing new. Concurrent callers share one request.
    ///
    /// # Errors
    /// As [`Root::open`]. A newest version that cannot be read is an error: no older one is returned instead.
    pub async fn refresh(&self) -> Result<Arc<Catalog>> {
        self.ask(STEPS).await
    }

    async fn ask(&self, steps: usize) -> Result<Arc<Catalog>> {
        let asked = Moment::now(self.ambient());
        let _turn = self.inner.asking.lock().await;
        let known = self.inner.known.lock().clone();
        if known.confirmed.not_before(&asked) {
            return Ok(known.catalog);
        }
        self.advance(steps).await
    }

    /// Waits until a version is in the store.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] at the deadline; as [`Root::open`].
    pub async fn wait_for(&self, version: Version, deadline: Duration) -> Result<Arc<Catalog>> {
        let deadline = Instant::now() + deadline;
        let mut wait = FIRST_WAIT;
        loop {
            let known = self.catalog();
            let known = if known.version >= version { known } else { self.refresh().await? };
            if known.version >= version {
                return Ok(known);
            }
            if Instant::now() + wait > deadline {
                return Err(Error::unavailable("version not in the store yet")
                    .with("expected", version)
                    .with("found", known.version));
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// The files of one partition in a version, lowest order first; empty if there are none.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when the version was collected meanwhile (take a new snapshot); as [`Root::open`].
    pub async fn files(&self, catalog: &Catalog, table: TableId, partition: i64) -> Result<Arc<Vec<FileEntry>>> {
        let Some(object) = &catalog.object else { return Ok(Arc::default()) };
        let name = Section::Files(table, partition).name();
        match self.inner.files.read(&self.inner.chain, object, &name).await {
            Err(e) if e.kind() == Kind::NotFound => {
                if self.newest().await?.version > catalog.version {
                    return Err(e);
                }
                Err(Error::corrupt("the newest version refers to a missing version")
                    .with("key", e.context("key").unwrap_or_default())
                    .with("section", name)
                    .with("version", catalog.version))
            }
            other => other,
        }
    }

    /// One attempt to commit on top of `base`.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the outcome is unknown; as [`Chain::append`].
    pub(super) async fn append(
        &self,
        base: &Arc<Catalog>,
        draft: Draft,
        changes: std::collections::BTreeMap<String, Change>,
        deadline: Instant,
    ) -> Result<Attempt> {
        let object =
            base.object.as_ref().ok_or_else(|| Error::internal("in-memory catalog used as the base of a commit"))?;
        let (chain, asked) = (&self.inner.chain, Moment::now(self.ambient()));
        let known = self.inner.known.lock().clone();
        let is_stale = || known.confirmed.age(self.ambient()) > CONFIRMED;
        if is_stale() {
            return Ok(Attempt::Lost(None));
        }
        if known.catalog.version != base.version {
            return Ok(Attempt::Lost(Some(known.catalog)));
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let won = match chain.append(Some(object), changes, left).await {
            Ok(Appended::Won(won)) => won,
            Ok(Appended::Lost(winner)) => return Ok(Attempt::Lost(self.take_over(base, winner).await)),
            // A version that the base refers to was collected: the base is far behind the newest.
            Err(e) if e.kind() == Kind::NotFound => return Ok(Attempt::Lost(None)),
            Err(e) => return Err(e),
        };
        // This process was suspended meanwhile. Either others continued from the version it created, or they had
        // continued from the base and the next version had been collected: then the created object is a stray, which is
        // collected too.
        if is_stale() && chain.newest().await? != Some(won.version()) {
            return Err(Error::unavailable("outcome unknown: the process was suspended during the commit")
                .with("key", layout::meta_key(won.version())));
        }
        let mut catalog = draft.into_catalog();
        catalog.object = Some(won);
        let catalog = Arc::new(catalog);
        self.inner.durable.fetch_max(catalog.version.0, Relaxed);
        self.learn(catalog.clone(), Some(asked));
        Ok(Attempt::Won(catalog))
    }

    /// The version after `base`, decoded from the object of another committer; `None` if it cannot be read (the next
    /// request to the store returns the error).
    async fn take_over(&self, base: &Catalog, winner: bytes::Bytes) -> Option<Arc<Catalog>> {
        let chain = &self.inner.chain;
        let object = chain.decode(base.version.next(), winner, base.object.as_deref()).await.ok()?;
        let catalog = Arc::new(Catalog::load(chain, object, Some(base)).await.ok()?);
        if self.confirmed_age() > CONFIRMED {
            return None;
        }
        self.learn(catalog.clone(), None);
        Some(catalog)
    }

    /// [`Root::refresh`] for a fast-growing chain: a LIST and a GET, however many versions are new.
    pub(super) async fn leap(&self) -> Result<Arc<Catalog>> {
        // On a directory a request takes microseconds, and a list reads the names of all versions.
        if self.inner.store.is_directory() { self.refresh().await } else { self.newest().await }
    }

    /// [`Root::refresh`] with a LIST first: correct even if the version after the known one was collected early, which
    /// a GET cannot distinguish from one that was never created.
    ///
    /// # Errors
    /// As [`Root::refresh`].
    pub(crate) async fn newest(&self) -> Result<Arc<Catalog>> {
        self.ask(0).await
    }

    /// Requests newer versions, at most `steps` one by one before a LIST. One caller at a time.
    async fn advance(&self, steps: usize) -> Result<Arc<Catalog>> {
        let chain = &self.inner.chain;
        for _ in 0..8 {
            let asked = Moment::now(self.ambient());
            let mut known = self.catalog();
            let mut must_list = self.confirmed_age() > CONFIRMED;
            for _ in 0..steps {
                if must_list {
                    break;
                }
                let next = self.read(known.version.next(), &known).await?;
                // The age is checked after the response: the process may be suspended at any point.
                must_list = self.confirmed_age() > CONFIRMED;
                match next {
                    _ if must_list => {}
                    Some(next) => {
                        known = next;
                        self.learn(known.clone(), None);
                    }
                    None => {
                        self.learn(known.clone(), Some(asked));
                        return Ok(self.catalog());
                    }
                }
            }
            let asked = Moment::now(self.ambient());
            let newest = chain.newest().await?;
            let newest = newest.filter(|n| *n >= known.version).ok_or_else(|| {
                Error::corrupt("the chain lost its newest version")
                    .with("key", layout::meta_key(known.version))
                    .with("expected", known.version)
                    .with("found", newest.map_or("none".to_owned(), |n| n.to_string()))
            })?;
            if newest == known.version {
                self.learn(known, Some(asked));
                return Ok(self.catalog());
            }
            if let Some(next) = self.read(newest, &known).await? {
                self.learn(next, Some(asked));
                return Ok(self.catalog());
            }
        }
        Err(Error::unavailable("the chain moves faster than it can be read").with("found", self.catalog().version))
    }

    /// Makes a version that was found survive a power loss; its creator may have died before doing so. Nothing may be
    /// acknowledged, answered or deleted based on a version that could be lost.
    async fn settle(&self, version: Version) -> Result<()> {
        if self.inner.durable.load(Relaxed) < version.0 {
            self.inner.store.sync(layout::META).await?;
            self.inner.durable.fetch_max(version.0, Relaxed);
        }
        Ok(())
    }

    /// Reads a version; `None` if it is absent or was collected meanwhile.
    async fn read(&self, version: Version, near: &Catalog) -> Result<Option<Arc<Catalog>>> {
        let chain = &self.inner.chain;
        let loaded: Result<Option<Arc<VersionObject>>> = chain.load(version, near.object.as_deref()).await;
        let read = match loaded {
            Ok(Some(object)) => Catalog::load(chain, object, Some(near)).await,
            Ok(None) => return Ok(None),
            Err(e) => Err(e),
        };
        match read {
            Ok(catalog) => {
                self.settle(version).await?;
                Ok(Some(Arc::new(catalog)))
            }
            Err(e) if e.kind() == Kind::NotFound && chain.newest().await? > Some(version) => Ok(None),
            Err(e) if e.kind() == Kind::NotFound => {
                Err(Error::corrupt("the newest version refers to a missing version")
                    .with("key", e.context("key").unwrap_or_default())
                    .with("version", version))
            }
            Err(e) => Err(e),
        }
    }

    /// Adopts a version, unless a newer one is known; `confirmed` is the start of the request that confirmed it as the
    /// newest.
    fn learn(&self, catalog: Arc<Catalog>, confirmed: Option<Moment>) {
        let mut known = self.inner.known.lock();
        if catalog.version < known.catalog.version {
            return;
        }
        if catalog.version > known.catalog.version {
            known.catalog = catalog;
        }
        if let Some(confirmed) = confirmed.filter(|c| !known.confirmed.not_before(c)) {
            known.confirmed = confirmed;
        }
    }

    pub(super) fn ambient(&self) -> &dyn crate::store::Ambient {
        self.inner.store.ambient().as_ref()
    }
}
