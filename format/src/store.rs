//! The store: any object store under a prefix, with the one function that creates objects.
//!
//! Objects are written once and never overwritten, so the bytes under a key never change. Every request is counted
//! ([`StoreCounters`]); reads that fail temporarily are retried. Faults of the store are
//! [`Kind::Unavailable`](crate::Kind::Unavailable) with the key; an absent object is
//! [`Kind::NotFound`](crate::Kind::NotFound).
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
pub use open::bucket;

use crate::{
    error::{Error, Result},
    layout,
};
use {counters::Counters, directory::Directory, disk::DiskCache, hedge::Pace};

/// Makes visible objects durable, in a store where visible objects could be lost in a power loss.
#[async_trait]
pub trait Durable: fmt::Debug + Send + Sync {
    /// Makes the objects visible under a prefix durable.
    ///
    /// # Errors
    /// Those of the store.
    async fn sync(&self, prefix: &Path) -> object_store::Result<()>;

    /// The next stamp of a segment, at least `least`; if several processes share a machine, greater than every stamp
    /// that any of them has taken.
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
    /// For a store that lists page by page.
    pages: Option<Arc<dyn PaginatedListStore>>,
    /// For a directory: the same object as `object`.
    directory: Option<Arc<Directory>>,
    /// For a store that signs links to its objects.
    signer: Option<Arc<dyn Signer>>,
    /// For a store other than a directory that must be synced.
    durable: Option<Arc<dyn Durable>>,
    in_memory: bool,
    prefix: Path,
    describe: String,
    /// Identifies store and prefix in data that outlives the process; unique to them.
    identity: String,
    ambient: Arc<dyn Ambient>,
    counters: Arc<Counters>,
    space: Arc<full::Space>,
    /// For a store over a network: its response times.
    pace: Option<Arc<Pace>>,
    /// For a store with a cache of blocks on a local disk.
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
    /// Wraps a store; keys are relative to `prefix`. The store must support create-if-absent (`PutMode::Create`) and
    /// read-after-write consistency, also for listings.
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

    /// Whether this is a directory on a file system, where lookups are cheap and always current.
    pub fn is_directory(&self) -> bool {
        self.shared.directory.is_some()
    }

    /// Whether requests to this store cost microseconds and no money: a directory or memory.
    pub fn is_local(&self) -> bool {
        self.is_directory() || self.shared.in_memory
    }

    /// The next stamp of a segment, at least `least`. On a directory it is greater than every stamp that any process
    /// has taken there: of two writes, the second begun after the first was acknowledged, the second has the greater
    /// stamp.
    pub fn stamp(&self, least: i64) -> i64 {
        match (&self.shared.directory, &self.shared.durable) {
            (Some(directory), _) => directory.stamp(least),
            (None, Some(durable)) => durable.stamp(least),
            (None, None) => least,
        }
    }

    /// Whether [`Store::stamp`] gives the stamps of all processes one order.
    pub(crate) fn has_ordered_stamps(&self) -> bool {
        self.is_directory() || self.shared.durable.is_some()
    }

    /// The URL without secrets.
    pub fn describe(&self) -> String {
        self.shared.describe.clone()
    }

    /// The clock and randomness of everything that works on this store.
    pub fn ambient(&self) -> &Arc<dyn Ambient> {
        &self.shared.ambient
    }

    /// A handle whose counters start at zero and count requests through it and its clones; the counters of this handle
    /// include these requests.
    #[must_use]
    pub fn counted_apart(&self) -> Self {
        let counters = Arc::new(Counters::part_of(self.shared.counters.clone()));
        Shared { counters, ..Shared::clone(&self.shared) }.into()
    }

    /// Requests and bytes so far of this handle and its clones.
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

    /// The whole object and its metadata, always from the store.
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

    /// Sends a GET and waits until its reply begins; over a network, sends a second one if that takes unusually long.
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

    /// Several ranges in the given order; near ones in one request, the requests in parallel.
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

    /// The error of a range that could not be read: stores report an object that is too short in different ways.
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

    /// Deletes an object; an absent object is no error.
    ///
    /// Its blocks in a disk cache are evicted when space is needed: no name is reused, so they are not read any more.
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
        // The object is empty, so that a full disk still accepts it and garbage can be collected.
        self.create(&key, Bytes::new()).await?;
        let now = self.head(&key).await?.last_modified.timestamp_millis();
        // An object left behind is collected later.
        if let Err(error) = self.delete(&key).await {
            tracing::debug!(key, %error, "clock object left behind; it will be collected");
        }
        Ok(now)
    }

    /// Makes the objects visible under a prefix durable: on a directory, another process may have linked an object and
    /// not yet synced it; in other stores visible objects are durable.
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

    /// The same store, where visible objects are made durable by syncing, as in a directory.
    #[must_use]
    pub fn with_durable(&self, durable: Arc<dyn Durable>) -> Self {
        Shared { durable: Some(durable), ..Shared::clone(&self.shared) }.into()
    }

    /// The names of the directories under a prefix if that costs no request; otherwise `None`.
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

/// The bytes that a reply announced; a shorter reply is an error to be retried.
async fn all_bytes(found: GetResult) -> Result<Bytes, object_store::Error> {
    let announced = found.range.end.saturating_sub(found.range.start);
    let bytes = found.bytes().await?;
    if bytes.len() as u64 == announced {
        return Ok(bytes);
    }
    let source = format!("reply truncated after {} of {announced} bytes", bytes.len());
    Err(object_store::Error::Generic { store: "get", source: source.into() })
}

fn whole(key: &str, range: &Range<u64>, found: u64) -> Result<()> {
    if found != range.end - range.start {
        return Err(Error::corrupt("requested range ends beyond the object")
            .with("key", key)
            .with("expected", format!("bytes {}..{}", range.start, range.end))
            .with("found", format!("{found} bytes")));
    }
    Ok(())
}

fn failed(key: &str, e: object_store::Error) -> Error {
    Error::from(e).with("key", key)
}
