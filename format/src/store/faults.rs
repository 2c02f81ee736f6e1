//! A store with injected faults, for tests: requests fail before or after taking effect, or are delayed.

use std::{
    fmt,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};

/// Kind of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Creates an object.
    Put,
    /// Reads an object, a range of it, or only its size.
    Get,
    /// Lists a prefix.
    List,
    /// Deletes an object.
    Delete,
}

/// A request about to be made.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Kind of the request.
    pub operation: Operation,
    /// The key, or the prefix of a list, in the underlying store.
    pub key: &'a str,
}

/// Fault injected into a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// None: the request is passed on.
    None,
    /// The request fails without any effect.
    Refused,
    /// The request takes effect, but its reply is lost.
    LostReply,
    /// The request is passed on after a delay.
    Late(Duration),
    /// The request fails without any effect because there is no space.
    Full,
    /// The reply is cut in half; applies only to reads of one range or of a whole object.
    Truncated,
}

/// Chooses the fault of each request.
pub type Plan = Arc<dyn Fn(&Request<'_>) -> Fault + Send + Sync>;

pub(super) struct Faulty {
    inner: Arc<dyn ObjectStore>,
    plan: Plan,
}

impl Faulty {
    pub(super) fn new(inner: Arc<dyn ObjectStore>, plan: Plan) -> Self {
        Self { inner, plan }
    }

    async fn run<T>(&self, operation: Operation, key: &Path, work: impl Future<Output = Result<T>>) -> Result<T> {
        run(self.fault(operation, key), work).await
    }

    fn fault(&self, operation: Operation, key: &Path) -> Fault {
        (self.plan)(&Request { operation, key: key.as_ref() })
    }
}

async fn run<T>(fault: Fault, work: impl Future<Output = Result<T>>) -> Result<T> {
    let lost = |what: &str| Err(Error::Generic { store: "faulty", source: what.into() });
    match fault {
        Fault::None | Fault::Truncated => work.await,
        Fault::Refused => lost("refused by plan"),
        Fault::Full => {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            Err(Error::Generic { store: "faulty", source: source.into() })
        }
        Fault::LostReply => {
            let _ = work.await;
            lost("reply lost by plan")
        }
        Fault::Late(wait) => {
            tokio::time::sleep(wait).await;
            work.await
        }
    }
}

impl fmt::Debug for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Faulty").field(&self.inner).finish()
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faulty {}", self.inner)
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        self.run(Operation::Put, location, self.inner.put_opts(location, payload, opts)).await
    }

    async fn put_multipart_opts(&self, location: &Path, opts: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.run(Operation::Put, location, self.inner.put_multipart_opts(location, opts)).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let fault = self.fault(Operation::Get, location);
        let found = run(fault, self.inner.get_opts(location, options)).await?;
        if fault != Fault::Truncated {
            return Ok(found);
        }
        let (meta, range, attributes) = (found.meta.clone(), found.range.clone(), found.attributes.clone());
        let bytes = found.bytes().await?;
        let half = futures::stream::iter([Ok(bytes.slice(..bytes.len() / 2))]);
        Ok(GetResult { payload: GetResultPayload::Stream(half.boxed()), meta, range, attributes })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.run(Operation::Get, location, self.inner.get_ranges(location, ranges)).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, plan) = (self.inner.clone(), self.plan.clone());
        locations
            .then(move |location| {
                let (inner, plan) = (inner.clone(), plan.clone());
                async move {
                    let location = location?;
                    let fault = plan(&Request { operation: Operation::Delete, key: location.as_ref() });
                    run(fault, inner.delete(&location)).await?;
                    Ok(location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let key = prefix.cloned();
        let fault = self.fault(Operation::List, key.as_ref().unwrap_or(&Path::default()));
        let inner = self.inner.clone();
        let list = async move { Ok(inner.list(key.as_ref()).collect::<Vec<_>>().await) };
        let listed = run(fault, list);
        futures::stream::once(listed)
            .flat_map(|listed| match listed {
                Ok(found) => futures::stream::iter(found).boxed(),
                Err(e) => futures::stream::once(async { Err(e) }).boxed(),
            })
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let key = prefix.cloned().unwrap_or_default();
        self.run(Operation::List, &key, self.inner.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.run(Operation::Put, to, self.inner.copy_opts(from, to, options)).await
    }
}

/// Maximum number of consecutive requests, each of duration `trip`: a request that starts after another has ended may
/// have waited for it.
pub fn round_trips(mut starts: Vec<Instant>, trip: Duration) -> usize {
    starts.sort();
    let mut depths: Vec<usize> = Vec::new();
    for (i, start) in starts.iter().enumerate() {
        let ended = starts[..i].partition_point(|other| *other + trip <= *start);
        depths.push(1 + depths[..ended].iter().max().unwrap_or(&0));
    }
    depths.into_iter().max().unwrap_or(0)
}
