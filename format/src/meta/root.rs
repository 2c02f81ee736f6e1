//! The handle to one root: its store, its chain and what is known of it.

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

/// "There is no next version" says nothing once the version asked about was confirmed newest this long ago: the
/// next one may have been collected, and what is found or created in its place may be a stray that nobody goes by.
const CONFIRMED: Duration = Duration::from_secs(30 * 60);
/// How many new versions are asked for one by one before a LIST.
const STEPS: usize = 3;
const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// One root: its store and the newest version known. Cheap to clone; one per process.
#[derive(Debug, Clone)]
pub struct Root {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    chain: Chain,
    known: Mutex<Known>,
    /// The newest version that is known to outlast a loss of power.
    durable: AtomicU64,
    files: FileLists,
    collected: Seen,
    /// Held while the store is asked for newer versions.
    asking: tokio::sync::Mutex<()>,
    /// Changes of this process that wait for a commit.
    queue: Queue,
    /// Whether this handle made version 0.
    is_new: bool,
}

/// What opening does where there is no root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absent {
    /// Makes version 0.
    Create,
    /// Fails.
    Refuse,
}

/// What became of an attempt to commit.
pub(super) enum Attempt {
    /// It is in, as this version.
    Won(Arc<Catalog>),
    /// Somebody else was first: the version after the base, where it is known.
    Lost(Option<Arc<Catalog>>),
}

#[derive(Debug, Clone)]
struct Known {
    catalog: Arc<Catalog>,
    /// When the last answer was asked for that this version is the newest.
    confirmed: Moment,
}

impl Root {
    /// Opens a root; creates version 0 where there is none.
    ///
    /// # Errors
    /// [`Kind::Corrupt`] or [`Kind::Unsupported`], naming the newest version's key; [`Kind::Unavailable`].
    pub async fn open(store: Store) -> Result<Self> {
        Self::open_or(store, Absent::Create).await
    }

    /// Opens a root that is there already; writes nothing.
    ///
    /// # Errors
    /// [`Kind::NotFound`] where there is none; otherwise as [`Root::open`].
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
                    return Err(Error::not_found("there is no root here").with("store", store.describe()));
                }
                None => {
                    let empty = [(DATABASES.to_owned(), Change::json(&Databases::default())?)].into();
                    let made = chain.append(None, empty, COMMIT_DEADLINE).await;
                    let none = "there is none here yet, and who only reads cannot make one: write something first";
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
                // Collected while it was read: there is a newer one.
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
        Err(Error::corrupt("the newest version of the chain is listed but cannot be read whole")
            .with("key", layout::META)
            .with("store", store.describe()))
    }

    /// Whether opening made it: there was no root before.
    pub fn is_new(&self) -> bool {
        self.inner.is_new
    }

    /// Its store.
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

    /// The newest version known, if it was confirmed so at a moment that `enough` accepts.
    pub(super) fn confirmed_since(&self, enough: impl FnOnce(&Moment) -> bool) -> Option<Arc<Catalog>> {
        let known = self.inner.known.lock();
        enough(&known.confirmed).then(|| known.catalog.clone())
    }

    pub(crate) fn file_lists(&self) -> &FileLists {
        &self.inner.files
    }

    /// The catalog of an older version; `None` where it is collected.
    pub(crate) async fn at(&self, version: Version, near: &Catalog) -> Result<Option<Arc<Catalog>>> {
        self.read(version, near).await
    }

    /// The newest version known, without asking the store.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.inner.known.lock().catalog.clone()
    }

    /// How long ago the last answer that [`Root::catalog`] is the newest was asked for, by the larger of the wall
    /// clock and the monotonic clock.
    pub fn confirmed_age(&self) -> Duration {
        let confirmed = self.inner.known.lock().confirmed;
        confirmed.age(self.ambient())
    }

    /// Asks the store for newer versions and returns the newest; the question is asked after this call, by one
    /// GET where nothing is new. Callers at the same time share one question.
    ///
    /// # Errors
    /// As [`Root::open`]. A newest version that cannot be read is an error: no older one stands in for it.
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
                return Err(Error::unavailable("a version is not in the store yet")
                    .with("expected", version)
                    .with("found", known.version));
            }
            sleep(wait).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// The files of one partition in a version, lowest order first; empty where there are none.
    ///
    /// # Errors
    /// [`Kind::NotFound`] when the version has been collected meanwhile (take a new snapshot); as [`Root::open`].
    pub async fn files(&self, catalog: &Catalog, table: TableId, partition: i64) -> Result<Arc<Vec<FileEntry>>> {
        let Some(object) = &catalog.object else { return Ok(Arc::default()) };
        let name = Section::Files(table, partition).name();
        match self.inner.files.read(&self.inner.chain, object, &name).await {
            Err(e) if e.kind() == Kind::NotFound => {
                if self.newest().await?.version > catalog.version {
                    return Err(e);
                }
                Err(Error::corrupt("the newest version points into one that is absent")
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
    /// [`Kind::Unavailable`] where it is unknown whether it is in; as [`Chain::append`].
    pub(super) async fn append(
        &self,
        base: &Arc<Catalog>,
        draft: Draft,
        changes: std::collections::BTreeMap<String, Change>,
        deadline: Instant,
    ) -> Result<Attempt> {
        let object = base.object.as_ref().ok_or_else(|| Error::internal("a catalog in memory cannot be a base"))?;
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
            // A version that the base points into is gone: the base is far from the newest.
            Err(e) if e.kind() == Kind::NotFound => return Ok(Attempt::Lost(None)),
            Err(e) => return Err(e),
        };
        // This process stood still meanwhile. Either others went on from what it created, or they had gone on from the
        // base, and the version after it had been collected: then this is a stray, which is collected as well.
        if is_stale() && chain.newest().await? != Some(won.version()) {
            return Err(Error::unavailable("outcome unknown: the process stood still while it committed")
                .with("key", layout::meta_key(won.version())));
        }
        let mut catalog = draft.into_catalog();
        catalog.object = Some(won);
        let catalog = Arc::new(catalog);
        self.inner.durable.fetch_max(catalog.version.0, Relaxed);
        self.learn(catalog.clone(), Some(asked));
        Ok(Attempt::Won(catalog))
    }

    /// The version after `base` from its object, which somebody else has put; `None` where it cannot be read, which a
    /// question to the store will explain.
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

    /// [`Root::refresh`] for who knows that the chain moves fast: a LIST and a GET, however far it has moved.
    pub(super) async fn leap(&self) -> Result<Arc<Catalog>> {
        // On a directory a question costs microseconds, and a list reads the names of all versions.
        if self.inner.store.is_directory() { self.refresh().await } else { self.newest().await }
    }

    /// [`Root::refresh`] by a LIST at once: right even where the version after the one known was collected before its
    /// time, which a GET takes for one that never was.
    ///
    /// # Errors
    /// As [`Root::refresh`].
    pub(crate) async fn newest(&self) -> Result<Arc<Catalog>> {
        self.ask(0).await
    }

    /// Asks for newer versions, for so many one by one before a LIST. One caller at a time.
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
                // The age is looked at after the answer: a process may be frozen anywhere.
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

    /// Makes a version that was found outlast a loss of power: whoever made it may have died before it did. What is
    /// acknowledged, answered or deleted on the ground of a version must not lose that ground.
    async fn settle(&self, version: Version) -> Result<()> {
        if self.inner.durable.load(Relaxed) < version.0 {
            self.inner.store.sync(layout::META).await?;
            self.inner.durable.fetch_max(version.0, Relaxed);
        }
        Ok(())
    }

    /// Reads a version; `None` where it is absent, or was collected meanwhile.
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
                Err(Error::corrupt("the newest version points into one that is absent")
                    .with("key", e.context("key").unwrap_or_default())
                    .with("version", version))
            }
            Err(e) => Err(e),
        }
    }

    /// Takes over a version, unless a newer one is known; `confirmed` says when it was asked whether it is the
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
