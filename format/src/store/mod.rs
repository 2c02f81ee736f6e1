//! The store: any object store under a prefix, with the one function that creates objects.

mod ambient;

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use object_store::{ObjectStore, path::Path};

pub use ambient::{Ambient, Moment, System};
pub use object_store::ObjectMeta;

use crate::error::{Error, Result};

/// What [`Store::create`] found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// This call created the object.
    New,
    /// The object was there with these very bytes: the reply to an earlier attempt was lost.
    Ours,
    /// Somebody else created it with other bytes.
    Lost,
}

/// Requests and bytes so far, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// PUT requests.
    pub put: u64,
    /// Bytes of PUT requests.
    pub put_bytes: u64,
    /// GET requests, ranges included.
    pub get: u64,
    /// Bytes of GET replies.
    pub get_bytes: u64,
    /// HEAD requests.
    pub head: u64,
    /// LIST requests (pages).
    pub list: u64,
    /// DELETE requests.
    pub delete: u64,
}

/// An object store under a prefix. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<dyn ObjectStore>,
    prefix: Path,
}

fn later<T>() -> Result<T> {
    Err(Error::internal("not built yet"))
}

impl Store {
    /// Wraps a store; keys are relative to `prefix`.
    pub fn new(inner: Arc<dyn ObjectStore>, prefix: Path) -> Self {
        Self { inner, prefix }
    }

    /// An empty store in memory.
    pub fn in_memory() -> Self {
        Self::new(Arc::new(object_store::memory::InMemory::new()), Path::default())
    }

    /// Opens `/dir`, `./dir`, `file:///dir`, `memory:` or `s3://bucket/prefix`; S3 takes `AWS_*` from the
    /// environment and then `options` (`endpoint`, `region`, …).
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a URL or option that is not understood.
    pub fn open(_url: &str, _options: &[(String, String)]) -> Result<Self> {
        later()
    }

    /// Whether this is a directory on a file system, where listing is cheap and consistent.
    pub fn is_directory(&self) -> bool {
        false
    }

    /// The URL without secrets.
    pub fn describe(&self) -> String {
        format!("{}/{}", self.inner, self.prefix)
    }

    /// The clock and randomness that everything on this store uses.
    pub fn ambient(&self) -> &Arc<dyn Ambient> {
        unreachable!()
    }

    /// Creates an object, once and for all, if its key is absent.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) when the outcome is unknown at the deadline.
    pub async fn create(&self, _key: &str, _bytes: Bytes) -> Result<Created> {
        later()
    }

    /// The whole object.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound), [`Kind::Unavailable`](crate::Kind::Unavailable).
    pub async fn get(&self, _key: &str) -> Result<Bytes> {
        later()
    }

    /// One range of bytes.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub async fn get_range(&self, _key: &str, _range: Range<u64>) -> Result<Bytes> {
        later()
    }

    /// Several ranges, near ones in one request, the requests in parallel.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub async fn get_ranges(&self, _key: &str, _ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        later()
    }

    /// Size and last-modified.
    ///
    /// # Errors
    /// As [`Store::get`].
    pub async fn head(&self, _key: &str) -> Result<ObjectMeta> {
        later()
    }

    /// Every object under `prefix` (whole path segments), sorted by key; locations are relative to the root.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable).
    pub async fn list(&self, _prefix: &str) -> Result<Vec<ObjectMeta>> {
        later()
    }

    /// The object of the smallest key under `prefix`, in one request.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable).
    pub async fn first(&self, _prefix: &str) -> Result<Option<ObjectMeta>> {
        later()
    }

    /// Deletes an object; one that is absent is deleted already.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable).
    pub async fn delete(&self, _key: &str) -> Result<()> {
        later()
    }

    /// The store's own clock in milliseconds since the epoch: puts an object, reads its last-modified, deletes it.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable).
    pub async fn clock_ms(&self) -> Result<i64> {
        later()
    }

    /// Requests and bytes so far, of this handle and its clones.
    pub fn counters(&self) -> StoreCounters {
        StoreCounters::default()
    }
}
