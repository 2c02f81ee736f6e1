//! The way of one process to the store: requests take time, fail, arrive late and in any order, go on when the process
//! that sent them is dead, and bring no reply to one that is frozen.

use std::{fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore},
    path::Path,
};
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use crate::{
    process::Gate,
    server::{Course, Fault, Operation, Server, exists},
};

/// After this time the client of a store gives up on a request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A process's client of the store.
#[derive(Debug, Clone)]
pub struct Network {
    server: Arc<Server>,
    gate: Gate,
    process: u64,
}

impl Network {
    /// The client of a process.
    pub fn new(server: Arc<Server>, gate: Gate, process: u64) -> Self {
        Self { server, gate, process }
    }

    async fn call<T: Send + 'static>(
        &self,
        operation: Operation,
        key: &str,
        work: impl FnOnce(&Server, &Course) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.gate.pass().await;
        let course = self.server.course(operation);
        let (answer, answered) = oneshot::channel();
        let (server, process, key) = (self.server.clone(), self.process, key.to_owned());
        tokio::spawn(async move {
            sleep(course.there).await;
            let fails = |what: &str| Err(Error::Generic { store: "simulated", source: what.into() });
            let done = match course.fault {
                Some(Fault::Error500) => fails("500"),
                Some(Fault::Error503) => fails("503"),
                Some(Fault::Error429) => fails("429"),
                Some(Fault::Conflict409) => Err(exists(&key)),
                Some(Fault::Repeated412) => {
                    let _ = work(&server, &course);
                    Err(Error::Precondition { path: key.clone(), source: "412".into() })
                }
                Some(Fault::LostReply) => {
                    let _ = work(&server, &course);
                    fails("reply lost")
                }
                Some(Fault::Late | Fault::Truncated) | None => work(&server, &course),
            };
            let outcome = match (&done, course.fault) {
                (Ok(_), None) => "ok".to_owned(),
                (Err(Error::AlreadyExists { .. }), None) => "exists".to_owned(),
                (Err(Error::NotFound { .. }), None) => "absent".to_owned(),
                (_, fault) => format!("{fault:?}"),
            };
            server.note(&format!("p{process} {operation:?} {key} {outcome}"));
            sleep(course.back).await;
            let _ = answer.send(done); // nobody may wait any more
        });
        let done = match timeout(CLIENT_TIMEOUT, answered).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) | Err(_) => Err(Error::Generic { store: "simulated", source: "no answer".into() }),
        };
        self.gate.pass().await;
        done
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "simulated store of process {}", self.process)
    }
}

fn unused<T>(operation: &str) -> Result<T> {
    Err(Error::NotImplemented { operation: operation.to_owned(), implementer: "simulated store".to_owned() })
}

#[async_trait]
impl ObjectStore for Network {
    async fn put_opts(&self, location: &Path, payload: PutPayload, _: PutOptions) -> Result<PutResult> {
        let (key, bytes) = (location.to_string(), Bytes::from(payload));
        self.call(Operation::Put, location.as_ref(), move |server, _| server.create(&key, bytes)).await?;
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        unused("multipart")
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let (key, head) = (location.to_string(), options.head);
        let read = move |server: &Server, course: &Course| {
            let (bytes, meta) = server.get(&key)?;
            let range = match options.range.as_ref().map(|range: &GetRange| range.as_range(meta.size)) {
                Some(range) => range.map_err(|e| Error::Generic { store: "simulated", source: e.into() })?,
                None => 0..meta.size,
            };
            let mut found = if head { Bytes::new() } else { bytes.slice(range.start as usize..range.end as usize) };
            if course.fault == Some(Fault::Truncated) {
                found.truncate((found.len() as u64 * course.part / 1_024) as usize);
            }
            Ok((found, meta, range))
        };
        let (bytes, meta, range) = self.call(Operation::Get, location.as_ref(), read).await?;
        let payload = GetResultPayload::Stream(futures::stream::iter([Ok(bytes)]).boxed());
        Ok(GetResult { payload, meta, range, attributes: Attributes::new() })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        let delete = move |location: Result<Path>| {
            let this = this.clone();
            async move {
                let location = location?;
                let key = location.to_string();
                let delete = move |server: &Server, _: &Course| {
                    server.delete(&key);
                    Ok(())
                };
                this.call(Operation::Delete, location.as_ref(), delete).await?;
                Ok(location)
            }
        };
        locations.then(delete).boxed()
    }

    fn list(&self, _: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        futures::stream::iter([unused("a list without pages")]).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        unused("a list of directories")
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        unused("copy")
    }
}

#[async_trait]
impl PaginatedListStore for Network {
    async fn list_paginated(&self, prefix: Option<&str>, opts: PaginatedListOptions) -> Result<PaginatedListResult> {
        let prefix = prefix.unwrap_or_default().to_owned();
        let (after, most) = (opts.page_token.unwrap_or_default(), opts.max_keys);
        let name = format!("{prefix}*");
        let read = move |server: &Server, _: &Course| Ok(server.page(&prefix, &after, most));
        let (objects, more) = self.call(Operation::List, &name, read).await?;
        let page_token = objects.last().filter(|_| more).map(|last| last.location.to_string());
        let result = ListResult { common_prefixes: Vec::new(), objects };
        Ok(PaginatedListResult { result, page_token })
    }
}
