//! Opens the store that a URL names.

use std::{path::PathBuf, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientOptions, ObjectStore, RetryConfig,
    aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut},
    memory::InMemory,
    path::Path,
};
use url::Url;

use super::{Ambient as _, Shared, Store, System, directory::Directory};
use crate::{
    error::{Error, Result},
    layout,
};

impl Store {
    /// Opens `/dir`, `./dir`, `file:///dir`, `memory:` or `s3://bucket/prefix`.
    ///
    /// A directory is created if absent. S3 reads `AWS_*` from the environment (keys, region, `AWS_ENDPOINT_URL`, a
    /// role if there is one); `options`, with the same names in lower case without `aws_` (`endpoint`, `region`,
    /// `access_key_id`, …), take precedence. An endpoint with `http://` is allowed when given explicitly; requests name
    /// the bucket in the path unless `virtual_hosted_style_request` is set.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for an invalid URL or option;
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) for a directory that cannot be created.
    ///
    /// # Example
    /// ```
    /// use tidelake_format::store::Store;
    /// assert_eq!(Store::open("memory:", &[])?.describe(), "memory:");
    /// assert!(Store::open("gopher://hole", &[]).is_err());
    /// # Ok::<(), tidelake_format::Error>(())
    /// ```
    pub fn open(url: &str, options: &[(String, String)]) -> Result<Self> {
        Self::open_place(Place::of(url, options)?, options, false)
    }

    /// As [`Store::open`], but creates nothing: a directory must contain a root.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) for a directory without a root; otherwise as [`Store::open`].
    pub fn open_existing(url: &str, options: &[(String, String)]) -> Result<Self> {
        Self::open_place(Place::of(url, options)?, options, true)
    }

    fn open_place(place: Place, options: &[(String, String)], is_existing: bool) -> Result<Self> {
        match place {
            Place::Memory => Ok(Self::in_memory()),
            Place::Bucket { url } => s3(&url, options),
            Place::Directory(path) if is_existing && !path.join(layout::META).is_dir() => {
                Err(Error::not_found("no root at this location").with("store", format!("file://{}", path.display())))
            }
            Place::Directory(path) => directory(path),
        }
    }

    /// An empty store in memory, freed with its last handle.
    pub fn in_memory() -> Self {
        let mut shared = Shared::new(Arc::new(InMemory::new()), Path::default());
        shared.describe = "memory:".to_owned();
        shared.in_memory = true;
        shared.into()
    }

    /// Whether this store shares keys with the one that a URL names: both are the same directory or bucket prefix, or
    /// one contains the other. Creates and reads nothing there.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) as for [`Store::open`].
    pub fn overlaps(&self, url: &str, options: &[(String, String)]) -> Result<bool> {
        let other = match Place::of(url, options)? {
            Place::Memory => return Ok(false),
            Place::Bucket { url } => s3(&url, options)?.shared.identity.clone(),
            Place::Directory(path) => format!("file://{}", canonical(&path).display()),
        };
        let inside = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let (a, b) = (self.shared.identity.trim_end_matches('/'), other.trim_end_matches('/'));
        Ok(inside(a, b) || inside(b, a))
    }
}

/// A client of a bucket for files that are no objects of a root. The environment configures it as in [`Store::open`].
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) if the settings contradict each other.
pub fn bucket(name: &str) -> Result<Arc<dyn ObjectStore>> {
    // Files have large parts, and nothing above this client repeats a request.
    Ok(client(name, &[], FILES)?.0)
}

/// A path with symbolic links resolved, as far as it exists.
fn canonical(path: &std::path::Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for above in path.ancestors() {
        if let (Ok(real), Ok(rest)) = (std::fs::canonicalize(above), path.strip_prefix(above)) {
            return real.join(rest);
        }
    }
    path
}

/// The store that a URL names.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Memory,
    Bucket { url: String },
    Directory(PathBuf),
}

impl Place {
    fn of(url: &str, options: &[(String, String)]) -> Result<Self> {
        let no_options = || match options.first() {
            Some((key, _)) => Err(Error::invalid("options are allowed for s3:// only").with("found", key)),
            None => Ok(()),
        };
        match url.split_once(':') {
            Some(("memory", "" | "/" | "//")) => no_options().map(|()| Self::Memory),
            Some(("s3", rest)) if rest.starts_with("//") => Ok(Self::Bucket { url: url.to_owned() }),
            Some(("file", rest)) if rest.starts_with('/') => {
                no_options()?;
                let path = Url::parse(url).ok().and_then(|u| u.to_file_path().ok());
                let path =
                    path.ok_or_else(|| Error::invalid("invalid file URL: expected 'file:///dir'").with("found", url))?;
                Ok(Self::Directory(path))
            }
            Some((scheme, rest)) if rest.starts_with("//") => {
                Err(Error::invalid("not a directory, 'file:///dir', 'memory:' or 's3://bucket/prefix'")
                    .with("found", format!("{scheme}://…")))
            }
            _ if url.is_empty() => Err(Error::invalid("missing store URL or directory").with("found", "nothing")),
            _ => no_options().map(|()| Self::Directory(PathBuf::from(url))),
        }
    }
}

fn directory(path: PathBuf) -> Result<Store> {
    let opened = Directory::open(&path, System.random()).map_err(|e| {
        Error::unavailable("cannot open the directory").with("path", path.display()).with("reason", &e).source(e)
    })?;
    let opened = Arc::new(opened);
    let mut shared = Shared::new(opened.clone(), Path::default());
    shared.describe = opened.to_string();
    shared.directory = Some(opened);
    Ok(shared.into())
}

fn s3(url: &str, options: &[(String, String)]) -> Result<Store> {
    let parsed = Url::parse(url).map_err(|e| Error::invalid("not a URL").with("found", url).source(e))?;
    let bucket = parsed.host_str().filter(|h| !h.is_empty());
    let bucket =
        bucket.ok_or_else(|| Error::invalid("invalid S3 URL: expected 's3://bucket/prefix'").with("found", url))?;
    if !parsed.username().is_empty() || parsed.password().is_some() || parsed.query().is_some() {
        return Err(Error::invalid("credentials and options are not allowed in an S3 URL").with("bucket", bucket));
    }
    let prefix = Path::from_url_path(parsed.path())
        .map_err(|e| Error::invalid("invalid key prefix").with("found", parsed.path()).source(e))?;
    let (client, endpoint) = client(bucket, options, OBJECTS)?;
    let mut shared = Shared::new(client.clone(), prefix.clone());
    shared.signer = Some(client.clone());
    shared.pages = Some(client);
    shared.pace = Some(Arc::default());
    shared.describe = format!("s3://{bucket}/{prefix}").trim_end_matches('/').to_owned();
    shared.identity = format!("{endpoint} {}", shared.describe);
    Ok(shared.into())
}

/// How long a client waits.
#[derive(Debug, Clone, Copy)]
struct Patience {
    /// For the reply to a request.
    request: Duration,
    /// How often it repeats a request,
    retries: usize,
    /// and how long after the first one.
    repeating: Duration,
}

/// For the objects of a root. [`Store`] repeats requests, too.
const OBJECTS: Patience = Patience { request: Duration::from_secs(30), retries: 5, repeating: Duration::from_secs(20) };
/// For files: they have large parts, and nothing above the client repeats a request that was not answered.
const FILES: Patience =
    Patience { request: Duration::from_secs(120), retries: 10, repeating: Duration::from_secs(290) };

/// A client of a bucket and its endpoint, empty for that of AWS.
fn client(bucket: &str, options: &[(String, String)], patience: Patience) -> Result<(Arc<AmazonS3>, String)> {
    // An uncertain create is repeated by the caller, which reads the object back; the client retries only safe
    // requests.
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: patience.retries,
        retry_timeout: patience.repeating,
    };
    let client = ClientOptions::new().with_connect_timeout(Duration::from_secs(5));
    let mut builder = AmazonS3Builder::from_env()
        .with_client_options(client.with_timeout(patience.request))
        .with_retry(retry)
        .with_bucket_name(bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch);
    for (name, value) in options {
        let key: AmazonS3ConfigKey =
            name.to_ascii_lowercase().parse().map_err(|_| Error::invalid("unknown S3 option").with("found", name))?;
        builder = builder.with_config(key, value);
    }
    if builder.get_config_value(&AmazonS3ConfigKey::Endpoint).is_some_and(|e| e.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default();
    let client = builder.build().map_err(|e| {
        Error::invalid("the S3 settings contradict each other").with("bucket", bucket).with("reason", &e).source(e)
    })?;
    Ok((Arc::new(client), endpoint))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn a_directory_without_a_root_is_not_opened_and_nothing_is_made_in_it() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().to_owned(), directory.path().join("typo")] {
            let error = Store::open_existing(path.to_str().unwrap(), &[]).unwrap_err();
            assert_eq!(error.kind(), Kind::NotFound);
            assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn places_that_share_keys_overlap() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let store = Store::open(&at("root"), &[]).unwrap();
        std::os::unix::fs::symlink(at("root"), at("link")).unwrap();
        for (name, expected) in [
            ("root", true),
            ("root/", true),
            ("link", true),
            ("root/sub/deep", true),
            ("link/sub", true),
            ("", true),
            ("root2", false),
            ("other", false),
        ] {
            assert_eq!(store.overlaps(&at(name), &[]).unwrap(), expected, "{name}");
        }
        assert!(!std::path::Path::new(&at("root/sub")).exists());
        let options = [("region".to_owned(), "x".to_owned()), ("endpoint".to_owned(), "http://127.0.0.1:1".to_owned())];
        let bucket = Store::open("s3://b/p", &options).unwrap();
        for (url, expected) in [
            ("s3://b/p", true),
            ("s3://b/p/", true),
            ("s3://b", true),
            ("s3://b/p/q", true),
            ("s3://b/pq", false),
            ("s3://c/p", false),
        ] {
            assert_eq!(bucket.overlaps(url, &options).unwrap(), expected, "{url}");
        }
        assert!(!bucket.overlaps(&at("root"), &[]).unwrap());
        assert!(!store.overlaps("memory:", &[]).unwrap());
    }
}
