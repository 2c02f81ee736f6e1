//! An object as a file that is read in ranges.

use std::{fmt, io, ops::Range, sync::Arc};

use anyhow::Context as _;
use bytes::Bytes;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use tidelake_import::ranges::{Pending, Ranges};
use url::Url;

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

    /// Its URL as a user writes it: the key as it is.
    pub(in crate::transfer) fn url(&self) -> &str {
        &self.url
    }

    /// Its URL with the characters of the key escaped.
    ///
    /// # Errors
    /// The name of the bucket is none of a host.
    pub(in crate::transfer) fn location(&self) -> anyhow::Result<Url> {
        let key = self.meta.location.as_ref();
        let bucket = self.url.strip_suffix(key).context("the URL ends with the key")?;
        let mut location = Url::parse(bucket)?;
        let mut parts = location.path_segments_mut().map_err(|()| anyhow::anyhow!("no URL with a path: {bucket}"))?;
        parts.pop_if_empty().extend(key.split('/'));
        drop(parts);
        Ok(location)
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

#[cfg(test)]
mod tests {
    use object_store::{memory::InMemory, path::Path};

    use super::*;

    #[test]
    fn a_location_is_read_back_as_the_key() {
        for key in ["a/b.parquet", "a#1.parquet", "a?b", "x=1%3A00/é *.parquet"] {
            let location = Path::parse(key).unwrap();
            let meta = ObjectMeta {
                location: location.clone(),
                last_modified: chrono::DateTime::UNIX_EPOCH,
                size: 0,
                e_tag: None,
                version: None,
            };
            let object = Object::new(Arc::new(InMemory::new()), format!("s3://bucket/{key}"), meta);
            let url = object.location().unwrap();
            assert_eq!(Path::from_url_path(url.path()).unwrap(), location, "{url}");
            assert_eq!((url.host_str(), url.query(), url.fragment()), (Some("bucket"), None, None), "{url}");
        }
    }
}
