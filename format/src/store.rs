//! The store: any object store under a prefix, with the one function that creates objects.
//!
//! Objects are written once and never overwritten, so a reader sees the same bytes under a key for ever. Every
//! request is counted ([`StoreCounters`]); reads that fail for a moment are tried again. Faults of the store are [`Kind::Unavailable`](crate::Kind::Unavailable)
//! with the key; an absent object is [`Kind::NotFound`](crate::Kind::NotFound).
//!
//! A store over a network may have a cache on a local disk for data files and their sidecars ([`Store::with_disk_cache`]).

mod ambient;
mod blocks;
mod cached;
pub mod conformance;
mod counters;
mod create;
mod direct;
mod directory;
mod disk;
mod eviction;
pub mod faults;
mod full;
mod hedge;
mod journal;
mod large;
mod list;
mod modes;
mod naming;
mod open;
mod retry;
mod stamps;
#[cfg(test)]
pub(crate) mod tests;

use std::{fmt, ops::Range, sync::Arc};

use async_trait::async_trait;
use bytes::Bytes;
use object_store::{
    GetOptions, GetResult, OBJECT_STORE_COALESCE_DEFAULT, ObjectStore, ObjectStoreExt, coalesce_ranges,
    list::PaginatedListStore, path::Path, signer::Signer,
};

pub use ambient::{Ambient, Moment, System};
pub use counters::StoreCounters;
pub use create::Created;
pub use object_store::ObjectMeta;

use crate::{
    error::{Error, Result},
    layout,
};
use {counters::Counters, directory::Directory, disk::DiskCache, hedge::Pace};

/// What a store has to do so that what is visible in it outlasts a loss of power.
#[async_trait]
pub trait Durable: fmt::Debug + Send + Sync {
    /// Makes durable what is visible under a prefix.
    ///
    /// # Errors
    /// Those of the store.
    async fn sync(&self, prefix: &Path) -> object_store::Result<()>;

    /// The next stamp of a segment, at least `least`: where processes share one machine, more than every one that any of
    /// them has taken.
    fn stamp(&self, least: i64) -> i64 {
        least
    }
}

/// An object store under a prefix. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    shared: Arc<Shared>,
}

#[derive(Clone)]
struct Shared {
    object: Arc<dyn ObjectStore>,
    /// Where the store can list page by page.
    pages: Option<Arc<dyn PaginatedListStore>>,
    /// Where the store is a directory: the same object as `object`.
    directory: Option<Arc<Directory>>,
    /// Where the store signs links to its objects.
    signer: Option<Arc<dyn Signer>>,
    /// Where something else than a directory has to be synced.
    durable: Option<Arc<dyn Durable>>,
    in_memory: bool,
    prefix: Path,
    describe: String,
    /// Which store and prefix it is, for what outlasts the process: no other one has the same.
    identity: String,
    ambient: Arc<dyn Ambient>,
    counters: Arc<Counters>,
    space: Arc<full::Space>,
    /// Where requests go over a network: how fast they are answered.
    pace: Option<Arc<Pace>>,
    /// Where blocks of objects are kept on a local disk.
    disk: Option<Arc<DiskCache>>,
}

impl Shared {
    fn new(object: Arc<dyn ObjectStore>, prefix: Path) -> Self {
        let describe = format!("{object}/{prefix}");
        let counters = Arc::default();
        Self {
            object,
            pages: None,
            directory: None,
            signer: None,
            durable: None,
            in_memory: false,
            prefix,
            identity: describe.clone(),
            describe,
            ambient: System::shared(),
            counters,
            space: Arc::default(),
            pace: None,
            disk: None,
        }
    }
}

impl From<Shared> for Store {
    fn from(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Store").field(&self.shared.describe).finish()
    }
}

impl Store {
    /// Wraps a store; keys are relative to `prefix`. The store must create if absent (`PutMode::Create`) and read
    /// its own writes, listings included.
    pub fn new(object: Arc<dyn ObjectStore>, prefix: Path) -> Self {
        Shared::new(object, prefix).into()
    }

    /// [`Store::new`] for a store that lists page by page, as S3 does.
    pub fn paginated<S: ObjectStore + PaginatedListStore>(object: Arc<S>, prefix: Path) -> Self {
        let mut shared = Shared::new(object.clone(), prefix);
        shared.pages = Some(object);
        shared.into()
    }

    /// The same store with another clock and randomness.
    #[must_use]
    pub fn with_ambient(&self, ambient: Arc<dyn Ambient>) -> Self {
        Shared { ambient, ..Shared::clone(&self.shared) }.into()
    }

    /// The same store with faults injected into its requests.
    #[must_use]
    pub fn with_faults(&self, plan: impl Fn(&faults::Request<'_>) -> faults::Fault + Send + Sync + 'static) -> Self {
        let object = Arc::new(faults::Faulty::new(self.shared.object.clone(), Arc::new(plan)));
        Shared { object, pages: None, ..Shared::clone(&self.shared) }.into()
    }

    /// Whether this is a directory on a file system, where looking is cheap and at once up to date.
    pub fn is_directory(&self) -> bool {
        self.shared.directory.is_some()
    }

    /// Whether asking this store costs microseconds and no money: a directory or memory.
    pub fn is_local(&self) -> bool {
        self.is_directory() || self.shared.in_memory
    }

    /// The next stamp of a segment, at least `least`. On a directory it is more than every one that any process has taken
    /// there, so that of two writes, one begun after the other was answered, the later one has the larger stamp.
    pub fn stamp(&self, least: i64) -> i64 {
        match (&self.shared.directory, &self.shared.durable) {
            (Some(directory), _) => directory.stamp(least),
            (None, Some(durable)) => durable.stamp(least),
            (None, None) => least,
        }
    }

    /// The URL without secrets.
    pub fn describe(&self) -> String {
        self.shared.describe.clone()
    }

    /// The clock and randomness of everything that works on this store.
    pub fn ambient(&self) -> &Arc<dyn Ambient> {
        &self.shared.ambient
    }

    /// A handle that counts from zero what is done through it and its clones; this one counts that as well.
    #[must_use]
    pub fn counted_apart(&self) -> Self {
        let counters = Arc::new(Counters::part_of(self.shared.counters.clone()));
        Shared { counters, ..Shared::clone(&self.shared) }.into()
    }

    /// Requests and bytes so far, of this handle and its clones.
    pub fn counters(&self) -> StoreCounters {
        self.shared.counters.read()
    }

    /// The whole object.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound), [`Kind::Unavailable`](crate::Kind::Unavailable).
    pub async fn get(&self, key: &str) -> Result<Bytes> {
        if let Some(cached) = self.disk(key) {
            return cached.get().await;
        }
        Ok(self.get_with_meta(key).await?.0)
    }

    /// The whole object and its last-modified, always from the store.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub async fn get_with_meta(&self, key: &str) -> Result<(Bytes, ObjectMeta)> {
        let path = self.path(key)?;
        let counters = &self.shared.counters;
        let (bytes, meta) = self
            .retried("get", key, || async {
                let found = self.begin(&path, GetOptions::new()).await?;
                let meta = found.meta.clone();
                Ok((all_bytes(found).await?, meta))
            })
            .await?;
        counters.got(bytes.len());
        Ok((bytes, meta))
    }

    /// One range of bytes.
    ///
    /// # Errors
    /// As [`Store::get`]; [`Kind::Corrupt`](crate::Kind::Corrupt) when the object ends before the range does.
    pub async fn get_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        if let Some(cached) = self.disk(key) {
            let mut found = cached.get_ranges(&[range]).await?;
            return Ok(found.pop().unwrap_or_default());
        }
        let path = self.path(key)?;
        let counters = &self.shared.counters;
        let found = self.retried("get", key, || async {
            let options = GetOptions::new().with_range(Some(range.clone()));
            let read = async { all_bytes(self.begin(&path, options).await?).await };
            match read.await {
                Ok(bytes) => Ok(whole(key, &range, bytes.len() as u64).map(|()| bytes)),
                Err(e) => self.or_too_short(key, &range, e).await.map(Err),
            }
        });
        let bytes = found.await??;
        counters.got(bytes.len());
        Ok(bytes)
    }

    /// Sends a GET and waits for its reply to begin; over a network a second one, where that takes unusually long.
    async fn begin(&self, path: &Path, options: GetOptions) -> Result<GetResult, object_store::Error> {
        let Shared { object, counters, pace, .. } = &*self.shared;
        let send = || {
            counters.get();
            object.get_opts(path, options.clone())
        };
        match pace {
            Some(pace) => pace.hedged(send).await,
            None => send().await,
        }
    }

    /// Several ranges in the order asked for; near ones in one request, the requests in parallel.
    ///
    /// # Errors
    /// As [`Store::get_range`].
    pub async fn get_ranges(&self, key: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let shared = &self.shared;
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(cached) = self.disk(key) {
            return cached.get_ranges(ranges).await;
        }
        if shared.directory.is_none() {
            let fetch = |range: Range<u64>| self.get_range(key, range);
            return coalesce_ranges(ranges, fetch, OBJECT_STORE_COALESCE_DEFAULT).await;
        }
        let path = self.path(key)?;
        let found = self.retried("get", key, || async {
            shared.counters.get();
            match shared.object.get_ranges(&path, ranges).await {
                Ok(found) => Ok(Ok(found)),
                Err(e) => {
                    let last = ranges.iter().max_by_key(|r| r.end).expect("there are ranges");
                    self.or_too_short(key, last, e).await.map(Err)
                }
            }
        });
        let found = found.await??;
        shared.counters.got(found.iter().map(Bytes::len).sum());
        Ok(found)
    }

    /// Why a range could not be read: stores do not agree on how they say that an object is too short.
    async fn or_too_short(
        &self,
        key: &str,
        range: &Range<u64>,
        error: object_store::Error,
    ) -> Result<Error, object_store::Error> {
        if matches!(error, object_store::Error::NotFound { .. }) {
            return Err(error);
        }
        self.shared.counters.head();
        let Ok(path) = self.path(key) else { return Err(error) };
        match self.shared.object.head(&path).await {
            Ok(meta) if meta.size < range.end => {
                whole(key, range, meta.size.saturating_sub(range.start)).err().ok_or(error)
            }
            _ => Err(error),
        }
    }

    /// Size and last-modified.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub async fn head(&self, key: &str) -> Result<ObjectMeta> {
        let path = self.path(key)?;
        self.retried("head", key, || async {
            self.shared.counters.head();
            self.shared.object.head(&path).await
        })
        .await
    }

    /// Deletes an object; one that is absent is deleted already.
    ///
    /// What a disk cache has of it goes when there is no room: no name is used again, so nobody asks for it.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable).
    pub async fn delete(&self, key: &str) -> Result<()> {
        let path = self.path(key)?;
        let deleted = self.retried("delete", key, || async {
            self.shared.counters.delete();
            match self.shared.object.delete(&path).await {
                Err(object_store::Error::NotFound { .. }) => Ok(()),
                other => other,
            }
        });
        deleted.await
    }

    /// The store's own clock in milliseconds since the epoch: puts an object, reads its last-modified, deletes it.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable).
    pub async fn clock_ms(&self) -> Result<i64> {
        let key = layout::clock_key(self.ambient().random_id());
        // Without content: a disk that is full takes it all the same, and what is garbage can be collected.
        self.create(&key, Bytes::new()).await?;
        let now = self.head(&key).await?.last_modified.timestamp_millis();
        // One that stays is collected later.
        if let Err(error) = self.delete(&key).await {
            tracing::debug!(key, %error, "a clock object stays");
        }
        Ok(now)
    }

    /// Makes what is visible under a prefix durable: on a directory, another process may have linked an object
    /// and not yet synced; elsewhere visible is durable.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable).
    pub async fn sync(&self, prefix: &str) -> Result<()> {
        let path = self.path(prefix)?;
        let synced = match (&self.shared.directory, &self.shared.durable) {
            (Some(directory), _) => directory.sync(&path).await,
            (None, Some(durable)) => durable.sync(&path).await,
            (None, None) => Ok(()),
        };
        synced.map_err(|e| failed(prefix, e))
    }

    /// The same store where what is visible is made durable by syncing, as in a directory.
    #[must_use]
    pub fn with_durable(&self, durable: Arc<dyn Durable>) -> Self {
        Shared { durable: Some(durable), ..Shared::clone(&self.shared) }.into()
    }

    /// The names of the directories under a prefix where that costs no request; `None` elsewhere.
    pub(crate) fn directories(&self, prefix: &str) -> Result<Option<Vec<String>>> {
        let Some(directory) = &self.shared.directory else { return Ok(None) };
        self.shared.counters.list();
        directory.directories(&self.path(prefix)?).map(Some).map_err(|e| failed(prefix, e))
    }

    fn path(&self, key: &str) -> Result<Path> {
        let key = Path::parse(key).map_err(|e| Error::internal("not a key").with("key", key).source(e))?;
        Ok(if self.shared.prefix.as_ref().is_empty() {
            key
        } else {
            self.shared.prefix.parts().chain(key.parts()).collect()
        })
    }
}

/// The bytes that a reply announced; fewer are a reply cut short, which is to be asked for again.
async fn all_bytes(found: GetResult) -> Result<Bytes, object_store::Error> {
    let announced = found.range.end.saturating_sub(found.range.start);
    let bytes = found.bytes().await?;
    if bytes.len() as u64 == announced {
        return Ok(bytes);
    }
    let source = format!("a reply ends after {} of {announced} bytes", bytes.len());
    Err(object_store::Error::Generic { store: "get", source: source.into() })
}

fn whole(key: &str, range: &Range<u64>, found: u64) -> Result<()> {
    if found != range.end - range.start {
        return Err(Error::corrupt("an object ends before a range that it should hold")
            .with("key", key)
            .with("expected", format!("bytes {}..{}", range.start, range.end))
            .with("found", format!("{found} bytes")));
    }
    Ok(())
}

fn failed(key: &str, e: object_store::Error) -> Error {
    Error::from(e).with("key", key)
}
