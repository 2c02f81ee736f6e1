//! The network between a process and the store: requests take time, fail, arrive late and in any order, continue after
//! their process died, and deliver no reply to a frozen process.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    list::{PaginatedListOptions, PaginatedListResult, PaginatedListStore},
    path::Path,
};
use parking_lot::Mutex;
use tidelake_format::store::Durable;
use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};

use crate::{
    process::{Gate, Life},
    server::{Course, Fault, Operation, Place, Server, exists},
};

/// Request timeout of a store client.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A process's client of the store.
#[derive(Debug, Clone)]
pub struct Network {
    server: Arc<Server>,
    gate: Gate,
    process: u64,
    /// The store's change count when a page was read, by prefix and the page's last key.
    pages: Arc<Mutex<BTreeMap<(String, String), u64>>>,
}

impl Network {
    /// The client of a process.
    pub fn new(server: Arc<Server>, gate: Gate, process: u64) -> Self {
        Self { server, gate, process, pages: Arc::default() }
    }

    async fn call<T: Send + 'static>(
        &self,
        operation: Operation,
        key: &str,
        work: impl FnOnce(&Server, &Course) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.gate.pass().await;
        let course = self.server.course(operation, key);
        self.stop(&course, Place::Before).await;
        let (answer, answered) = oneshot::channel();
        let (server, gate, process, key) = (self.server.clone(), self.gate.clone(), self.process, key.to_owned());
        tokio::spawn(async move {
            sleep(course.there).await;
            if !server.arrives(&course) {
                return;
            }
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
                Some(Fault::Torn) => {
                    let _ = work(&server, &course);
                    fails("torn")
                }
                Some(Fault::Full) => fails("no space left"),
                Some(Fault::Late | Fault::Truncated) | None => work(&server, &course),
            };
            let outcome = match (&done, course.fault) {
                (Ok(_), None) => "ok".to_owned(),
                (Err(Error::AlreadyExists { .. }), None) => "exists".to_owned(),
                (Err(Error::NotFound { .. }), None) => "absent".to_owned(),
                (_, fault) => format!("{fault:?}"),
            };
            server.note(&format!("p{process} {operation:?} {key} {outcome}"));
            if course.cuts && done.is_ok() {
                server.cut();
            }
            sleep(course.back).await;
            // On a directory the caller syncs before it gets the reply, whether it created or found the object.
            let is_told = matches!(done, Ok(_) | Err(Error::AlreadyExists { .. } | Error::Precondition { .. }));
            if operation == Operation::Put && is_told && gate.life() != Life::Dead && server.has_power_since(&course) {
                server.sync_of(&key);
            }
            let _ = answer.send(done); // the caller may be gone
        });
        self.stop(&course, Place::Sent).await;
        let done = match timeout(CLIENT_TIMEOUT, answered).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) | Err(_) => Err(Error::Generic { store: "simulated", source: "no answer".into() }),
        };
        self.stop(&course, Place::Answered).await;
        self.gate.pass().await;
        done
    }

    /// Stops the process here if the request's course says so.
    async fn stop(&self, course: &Course, place: Place) {
        if let Some((_, life)) = course.strike.filter(|(at, _)| *at == place)
            && self.gate.life() == Life::Running
        {
            self.server.strike(self.process, place, life);
            self.gate.set(life);
            self.gate.pass().await;
        }
    }
}

/// A directory's syncing.
#[async_trait]
impl Durable for Network {
    async fn sync(&self, prefix: &Path) -> Result<()> {
        self.gate.pass().await;
        self.server.sync(prefix.as_ref());
        Ok(())
    }

    fn stamp(&self, least: i64) -> i64 {
        self.server.stamp(least)
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
        let put = move |server: &Server, course: &Course| match course.fault {
            Some(Fault::Torn) => Ok(server.tear(&key, &bytes, course.part)),
            _ => server.create(&key, bytes),
        };
        self.call(Operation::Put, location.as_ref(), put).await?;
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
        let before = self.pages.lock().remove(&(prefix.clone(), after.clone()));
        let asked = prefix.clone();
        let read = move |server: &Server, _: &Course| {
            let changes = server.changes(&asked);
            if before.is_some_and(|before| before != changes) {
                server.count("list changed between its pages");
            }
            Ok((server.page(&asked, &after, most), changes))
        };
        let ((objects, more), changes) = self.call(Operation::List, &name, read).await?;
        let page_token = objects.last().filter(|_| more).map(|last| last.location.to_string());
        if let Some(token) = &page_token {
            self.pages.lock().insert((prefix, token.clone()), changes);
        }
        let result = ListResult { common_prefixes: Vec::new(), objects };
        Ok(PaginatedListResult { result, page_token })
    }
}
