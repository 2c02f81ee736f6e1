//! Files in buckets: objects that `s3://bucket/key` names, as files of an import or an export.
//!
//! Readers and writers of files block their thread. The requests therefore run on a runtime of their own, whose threads never wait
//! for a reader or a writer.

mod download;
mod fault;
mod upload;

use std::{
    path::Path,
    sync::{Arc, LazyLock, mpsc},
    time::Duration,
};

use anyhow::{Context, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use glob::{MatchOptions, Pattern};
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _, path};
use tidelake_import::words::many;
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
    time::timeout,
};

use self::fault::{Right, explain};
pub(super) use self::{download::Object, upload::Upload};
use super::files::WILDCARDS;

/// Begin of the URLs of buckets.
const SCHEME: &str = "s3://";
/// The most objects that one pattern may match.
const MOST_MATCHES: usize = 100_000;
/// Objects that are removed at once.
const REMOVALS_AT_ONCE: usize = 16;
/// Limit of the time in which objects are removed.
const REMOVED_WITHIN: Duration = Duration::from_secs(60);
/// How long the end of a request that is given up is awaited.
const GIVEN_UP_WITHIN: Duration = Duration::from_secs(10);
/// As in the names of files: `*` does not match a `/`.
const OPTIONS: MatchOptions =
    MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

static REQUESTS: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
    Builder::new_multi_thread().worker_threads(1).max_blocking_threads(4).thread_name("bucket").enable_all().build()
});

/// Whether a name is the URL of an object instead of a path.
pub(super) fn is_url(name: &Path) -> bool {
    name.to_str().is_some_and(|name| name.starts_with(SCHEME))
}

/// A bucket, and the key or the pattern of keys in it.
#[derive(Debug, Clone)]
pub(super) struct Address {
    store: Arc<dyn ObjectStore>,
    bucket: String,
    key: String,
}

impl Address {
    /// Opens the bucket of a URL, with the credentials of the environment. Nothing is requested yet.
    ///
    /// # Errors
    /// The URL names no bucket, or the settings of the environment contradict each other.
    pub(super) fn of(url: &Path) -> anyhow::Result<Self> {
        let url = url.to_str().context("the URL of a bucket must be UTF-8")?;
        let rest = url.strip_prefix(SCHEME).unwrap_or(url);
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        ensure!(
            !bucket.is_empty() && !bucket.contains(['@', ':', '?', '#', ' ']),
            "invalid S3 URL: expected 's3://bucket/key' without credentials and options, found {:?}",
            // A secret of AWS may contain a slash.
            if rest.contains('@') { "s3://…@…" } else { url }
        );
        Ok(Self { store: tidelake_format::store::bucket(bucket)?, bucket: bucket.to_owned(), key: key.to_owned() })
    }

    /// The client of the bucket.
    pub(super) fn store(&self) -> Arc<dyn ObjectStore> {
        self.store.clone()
    }

    /// The URL of a key.
    fn url(&self, key: &str) -> String {
        format!("{SCHEME}{}/{key}", self.bucket)
    }

    /// The key, which is that of one object.
    ///
    /// # Errors
    /// There is none, or it is no valid key.
    fn path(&self) -> anyhow::Result<path::Path> {
        let url = self.url(&self.key);
        ensure!(!self.key.is_empty() && !self.key.ends_with('/'), "expected the key of an object, found {url}");
        path::Path::parse(&self.key).with_context(|| format!("invalid key in {url}"))
    }

    /// The address of a name below this one.
    pub(super) fn below(&self, name: &str) -> Self {
        let key = format!("{}/{name}", self.key.trim_end_matches('/'));
        Self { key: key.trim_start_matches('/').to_owned(), ..self.clone() }
    }

    /// The objects that the key or the pattern means, in alphabetical order.
    ///
    /// # Errors
    /// The bucket or the object does not exist, a pattern matches nothing or too much, or the right to read or list is missing.
    pub(super) fn objects(&self) -> anyhow::Result<Vec<Object>> {
        let is_pattern = self.key.contains(WILDCARDS);
        // An object whose key looks like a pattern is meant literally.
        let found = match self.metadata() {
            Ok(found) => found,
            Err(_) if is_pattern => None,
            Err(error) => return Err(error),
        };
        let metas = match found {
            Some(meta) => vec![meta],
            None if is_pattern => self.matches()?,
            None => return Err(self.missing()),
        };
        Ok(metas
            .into_iter()
            .map(|meta| Object::new(self.store.clone(), self.url(meta.location.as_ref()), meta))
            .collect())
    }

    /// The object of this key, if there is one.
    ///
    /// # Errors
    /// The key is invalid, or the object cannot be looked up.
    fn metadata(&self) -> anyhow::Result<Option<ObjectMeta>> {
        let (store, path) = (self.store.clone(), self.path()?);
        match wait(async move { store.head(&path).await })? {
            Ok(meta) => Ok(Some(meta)),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(explain(&self.url(&self.key), Right::Read, error)),
        }
    }

    /// Checks that there is no object at this key.
    ///
    /// # Errors
    /// There is one, or that cannot be found out.
    pub(super) fn ensure_absent(&self) -> anyhow::Result<()> {
        ensure!(self.metadata()?.is_none(), "{} exists: expected a new object", self.url(&self.key));
        Ok(())
    }

    /// The error about a key without an object.
    fn missing(&self) -> anyhow::Error {
        let url = self.url(&self.key);
        match self.first_below() {
            Ok(Some(_)) => {
                anyhow::anyhow!("expected an object, found a prefix: name its objects, such as '{url}/*.csv'")
            }
            Ok(None) => anyhow::anyhow!("no such object: {url}"),
            Err(error) => error,
        }
    }

    /// The first object whose key begins with this one as a directory.
    ///
    /// # Errors
    /// The bucket does not exist, or the right to list it is missing.
    pub(super) fn first_below(&self) -> anyhow::Result<Option<String>> {
        let prefix = path::Path::parse(&self.key).with_context(|| format!("invalid key in {}", self.url(&self.key)))?;
        let store = self.store.clone();
        let first = wait(async move { store.list(Some(&prefix)).try_next().await })?;
        let first = first.map_err(|error| explain(&self.url(&self.key), Right::List, error))?;
        Ok(first.map(|meta| self.url(meta.location.as_ref())))
    }

    /// The objects that match the pattern.
    fn matches(&self) -> anyhow::Result<Vec<ObjectMeta>> {
        let url = self.url(&self.key);
        let pattern = Pattern::new(&self.key).with_context(|| format!("invalid pattern {url:?}"))?;
        let literal = self.key.find(WILDCARDS).unwrap_or(self.key.len());
        let directory = self.key[..literal].rsplit_once('/').map_or("", |(directory, _)| directory);
        let prefix = path::Path::parse(directory).with_context(|| format!("invalid key in {url}"))?;
        let store = self.store.clone();
        let listed = wait(async move {
            let found = store
                .list(Some(&prefix))
                .try_filter(move |meta| std::future::ready(pattern.matches_with(meta.location.as_ref(), OPTIONS)));
            found.take(MOST_MATCHES + 1).try_collect::<Vec<_>>().await
        })?;
        let mut found = listed.map_err(|error| explain(&url, Right::List, error))?;
        ensure!(!found.is_empty(), "no object matches {url:?}: expected at least one");
        ensure!(
            found.len() <= MOST_MATCHES,
            "more than {MOST_MATCHES} objects match {url:?}: expected a narrower pattern"
        );
        found.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(found)
    }

    /// Removes objects, within a minute.
    ///
    /// # Errors
    /// Some of them may still be there: the right to delete them is missing, or the bucket does not answer in time.
    pub(super) fn remove(objects: Vec<Self>) -> anyhow::Result<()> {
        let all = objects.len();
        let removals = objects.into_iter().map(|object| async move {
            let removed = object.store.delete(&object.path()?).await;
            removed.map_err(|error| explain(&object.url(&object.key), Right::Delete, error))
        });
        let removing = async move {
            let mut removals = stream::iter(removals).buffer_unordered(REMOVALS_AT_ONCE);
            let (mut removed, mut fault) = (0, None);
            let ended = timeout(REMOVED_WITHIN, async {
                while let Some(result) = removals.next().await {
                    match result {
                        Ok(()) => removed += 1,
                        Err(error) => fault = Some(error),
                    }
                }
            });
            let is_late = ended.await.is_err();
            (removed, fault.or_else(|| is_late.then(|| anyhow::anyhow!("the bucket does not answer in time"))))
        };
        let (removed, fault) = wait(removing)?;
        fault.map_or(Ok(()), |error| {
            Err(error.context(format!("{} of {} could not be removed", all - removed, many(all as u64, "object"))))
        })
    }
}

/// A request that runs beside its caller; cancelled when dropped.
struct Request<T> {
    reply: mpsc::Receiver<T>,
    task: JoinHandle<()>,
}

impl<T: Send + 'static> Request<T> {
    fn begin(request: impl Future<Output = T> + Send + 'static) -> std::io::Result<Self> {
        let runtime = REQUESTS.as_ref().map_err(|e| std::io::Error::new(e.kind(), e.to_string()))?;
        let (tx, reply) = mpsc::sync_channel(1);
        let task = runtime.spawn(async move {
            // An error means that nobody waits any more.
            let _ = tx.send(request.await);
        });
        Ok(Self { reply, task })
    }

    /// Waits for the end of a request that is given up, for a short time only.
    fn give_up(self) {
        let _ = tokio::task::block_in_place(|| self.reply.recv_timeout(GIVEN_UP_WITHIN));
    }

    /// Waits for the reply. Each request has a time limit, so that there is always one.
    fn wait(self) -> std::io::Result<T> {
        tokio::task::block_in_place(|| self.reply.recv()).map_err(std::io::Error::other)
    }
}

impl<T> Drop for Request<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Runs a request to its end.
fn wait<T: Send + 'static>(request: impl Future<Output = T> + Send + 'static) -> anyhow::Result<T> {
    Request::begin(request).and_then(Request::wait).context("cannot send a request to the bucket")
}
