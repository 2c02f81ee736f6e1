//! An object as a file that is read in ranges.

use std::{fmt, io, ops::Range, sync::Arc};

use bytes::Bytes;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use tidelake_import::ranges::{Pending, Ranges};

use super::{Request, Right, explain};

/// An object in the version that was found when it was looked up.
pub(in crate::transfer) struct Object {
    store: Arc<dyn ObjectStore>,
    url: String,
    meta: ObjectMeta,
    version: String,
}

impl Object {
    pub(super) fn new(store: Arc<dyn ObjectStore>, url: String, mut meta: ObjectMeta) -> Self {
        meta.e_tag = meta.e_tag.filter(|tag| !tag.is_empty());
        let version = meta.e_tag.clone().unwrap_or_else(|| meta.last_modified.to_rfc3339());
        Self { store, url, meta, version }
    }

    /// Its URL.
    pub(in crate::transfer) fn url(&self) -> &str {
        &self.url
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Object").field(&self.url).finish()
    }
}

impl Ranges for Object {
    fn bytes(&self) -> u64 {
        self.meta.size
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn begin(&self, range: Range<u64>) -> Pending {
        let (store, path, url) = (self.store.clone(), self.meta.location.clone(), self.url.clone());
        // Another version of the object is an error instead of a mixture of both.
        let options = GetOptions {
            if_match: self.meta.e_tag.clone(),
            range: Some(GetRange::Bounded(range.clone())),
            ..GetOptions::default()
        };
        let begun = Request::begin(async move { store.get_opts(&path, options).await?.bytes().await });
        Box::new(move || {
            let bytes: Bytes = begun?.wait()?.map_err(|e| io::Error::other(explain(&url, Right::Read, e)))?;
            let expected = range.end - range.start;
            if bytes.len() as u64 != expected {
                let found = bytes.len();
                return Err(io::Error::other(format!("{url}: expected {expected} bytes of the object, found {found}")));
            }
            Ok(bytes)
        })
    }
}
