//! From a URL to a store.

use std::{path::PathBuf, sync::Arc, time::Duration};

use object_store::{
    BackoffConfig, ClientOptions, RetryConfig,
    aws::{AmazonS3Builder, AmazonS3ConfigKey, S3ConditionalPut},
    memory::InMemory,
    path::Path,
};
use url::Url;

use super::{Ambient as _, Shared, Store, System, directory::Directory};
use crate::error::{Error, Result};

impl Store {
    /// Opens `/dir`, `./dir`, `file:///dir`, `memory:` or `s3://bucket/prefix`.
    ///
    /// A directory is made where it is missing. S3 takes `AWS_*` from the environment (keys, region,
    /// `AWS_ENDPOINT_URL`, a role where there is one), then `options` by the same names without `aws_`, in lower
    /// case (`endpoint`, `region`, `access_key_id`, …), which win. An endpoint of plain `http://` is allowed when
    /// it is named; requests name the bucket in the path unless `virtual_hosted_style_request` is set.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a URL or option that is not understood;
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) for a directory that cannot be made.
    ///
    /// # Example
    /// ```
    /// use tidelake_format::store::Store;
    /// assert_eq!(Store::open("memory:", &[])?.describe(), "memory:");
    /// assert!(Store::open("gopher://hole", &[]).is_err());
    /// # Ok::<(), tidelake_format::Error>(())
    /// ```
    pub fn open(url: &str, options: &[(String, String)]) -> Result<Self> {
        let no_options = || match options.first() {
            Some((key, _)) => Err(Error::invalid("only s3:// takes options").with("found", key)),
            None => Ok(()),
        };
        match url.split_once(':') {
            Some(("memory", "" | "/" | "//")) => no_options().map(|()| Self::in_memory()),
            Some(("s3", rest)) if rest.starts_with("//") => s3(url, options),
            Some(("file", rest)) if rest.starts_with('/') => {
                no_options()?;
                let path = Url::parse(url).ok().and_then(|u| u.to_file_path().ok());
                directory(path.ok_or_else(|| Error::invalid("a file URL is 'file:///dir'").with("found", url))?)
            }
            Some((scheme, rest)) if rest.starts_with("//") => {
                Err(Error::invalid("a store is a directory, 'file:///dir', 'memory:' or 's3://bucket/prefix'")
                    .with("found", format!("{scheme}://…")))
            }
            _ if url.is_empty() => Err(Error::invalid("a store has a URL or a directory").with("found", "nothing")),
            _ => no_options().and_then(|()| directory(PathBuf::from(url))),
        }
    }

    /// An empty store in memory, which goes with its last handle.
    pub fn in_memory() -> Self {
        let mut shared = Shared::new(Arc::new(InMemory::new()), Path::default());
        shared.describe = "memory:".to_owned();
        shared.in_memory = true;
        shared.into()
    }
}

fn directory(path: PathBuf) -> Result<Store> {
    let opened = Directory::open(&path, System.random()).map_err(|e| {
        Error::unavailable("the directory cannot be opened").with("path", path.display()).with("reason", &e).source(e)
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
    let bucket = bucket.ok_or_else(|| Error::invalid("an S3 URL is 's3://bucket/prefix'").with("found", url))?;
    if !parsed.username().is_empty() || parsed.password().is_some() || parsed.query().is_some() {
        return Err(Error::invalid("credentials and options do not belong in an S3 URL").with("bucket", bucket));
    }
    let prefix = Path::from_url_path(parsed.path())
        .map_err(|e| Error::invalid("not a prefix of keys").with("found", parsed.path()).source(e))?;
    // An uncertain create is repeated by the caller, which reads back; the client repeats only what is safe.
    let retry = RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(50),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: 5,
        retry_timeout: Duration::from_secs(20),
    };
    let client = ClientOptions::new().with_connect_timeout(Duration::from_secs(5));
    let mut builder = AmazonS3Builder::from_env()
        .with_client_options(client.with_timeout(Duration::from_secs(30)))
        .with_retry(retry)
        .with_bucket_name(bucket)
        .with_conditional_put(S3ConditionalPut::ETagMatch);
    for (name, value) in options {
        let key: AmazonS3ConfigKey =
            name.to_ascii_lowercase().parse().map_err(|_| Error::invalid("not an S3 option").with("found", name))?;
        builder = builder.with_config(key, value);
    }
    if builder.get_config_value(&AmazonS3ConfigKey::Endpoint).is_some_and(|e| e.starts_with("http://")) {
        builder = builder.with_allow_http(true);
    }
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default();
    let client = builder.build().map_err(|e| {
        Error::invalid("the S3 settings do not fit together").with("bucket", bucket).with("reason", &e).source(e)
    })?;
    let client = Arc::new(client);
    let mut shared = Shared::new(client.clone(), prefix.clone());
    shared.signer = Some(client.clone());
    shared.pages = Some(client);
    shared.pace = Some(Arc::default());
    shared.describe = format!("s3://{bucket}/{prefix}").trim_end_matches('/').to_owned();
    shared.identity = format!("{endpoint} {}", shared.describe);
    Ok(shared.into())
}
