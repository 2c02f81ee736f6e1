//! A new object that is written in parts.

use std::{
    io::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Context, ensure};
use object_store::{MultipartUpload, ObjectStoreExt as _};
use tokio::sync::Semaphore;

use super::{Address, Request, Right, explain, wait};

/// Bytes of a part. One part is sent while the next one is filled.
const PART_BYTES: usize = 8 << 20;
/// The most parts of an object in S3.
const MOST_PARTS: usize = 10_000;

/// Parts that are sent at once, of all objects: more would share the same connection's speed and exceed their time limits.
static PARTS: Semaphore = Semaphore::const_new(4);

/// An object that becomes visible when it is completed. Dropped before, its parts are removed.
pub(in crate::transfer) struct Upload(Arc<Mutex<Parts>>);

struct Parts {
    address: Address,
    /// Whether the completion was requested: the object may be visible.
    is_requested: Arc<AtomicBool>,
    bytes: u64,
    /// Nothing once the object is completed.
    upload: Option<Box<dyn MultipartUpload>>,
    filling: Vec<u8>,
    sending: Option<Request<object_store::Result<()>>>,
    sent: usize,
}

impl Upload {
    /// Begins an object.
    ///
    /// # Errors
    /// An object exists, the bucket does not exist, or the right to write is missing.
    pub(in crate::transfer) fn create(address: &Address) -> anyhow::Result<Self> {
        let (store, path) = (address.store.clone(), address.path()?);
        address.ensure_absent()?;
        let upload = wait(async move { store.put_multipart(&path).await })?;
        let upload = Some(upload.map_err(|error| explain(&address.url(&address.key), Right::Write, error))?);
        let parts = Parts {
            address: address.clone(),
            is_requested: Arc::default(),
            bytes: 0,
            upload,
            filling: Vec::with_capacity(PART_BYTES),
            sending: None,
            sent: 0,
        };
        Ok(Self(Arc::new(Mutex::new(parts))))
    }

    /// Becomes true when the object may be visible.
    pub(in crate::transfer) fn is_requested(&self) -> Arc<AtomicBool> {
        locked(&self.0).is_requested.clone()
    }

    /// Appends to the object.
    pub(in crate::transfer) fn writer(&self) -> Box<dyn Write + Send> {
        Box::new(Writer(self.0.clone()))
    }

    /// Makes the object visible.
    ///
    /// # Errors
    /// A part was not stored, or the object cannot be completed.
    pub(in crate::transfer) fn complete(&self) -> anyhow::Result<()> {
        let mut parts = locked(&self.0);
        // An object needs a part, even an empty one.
        if !parts.filling.is_empty() || parts.sent == 0 {
            parts.send()?;
        }
        parts.settle()?;
        let mut upload = parts.upload.take().context("the object is complete")?;
        parts.is_requested.store(true, Ordering::Release);
        let (upload, completed) = wait(async move {
            let completed = upload.complete().await;
            (upload, completed)
        })?;
        let Err(error) = completed else { return Ok(()) };
        // The reply to an earlier attempt may be lost. There was no object before.
        if parts.address.metadata().is_ok_and(|found| found.is_some_and(|found| found.size == parts.bytes)) {
            return Ok(());
        }
        parts.upload = Some(upload);
        Err(explain(&parts.url(), Right::Write, error))
    }
}

fn locked(parts: &Mutex<Parts>) -> MutexGuard<'_, Parts> {
    parts.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Parts {
    fn url(&self) -> String {
        self.address.url(&self.address.key)
    }

    /// Waits for the part that is being sent.
    fn settle(&mut self) -> anyhow::Result<()> {
        let Some(sending) = self.sending.take() else { return Ok(()) };
        sending.wait()?.map_err(|error| explain(&self.url(), Right::Write, error))
    }

    /// Sends the part that is filled.
    fn send(&mut self) -> anyhow::Result<()> {
        self.settle()?;
        ensure!(
            self.sent < MOST_PARTS,
            "{}: an object can have {} GB: expected less, such as the files of --partition-by",
            self.url(),
            PART_BYTES * MOST_PARTS / 1_000_000_000
        );
        let upload = self.upload.as_mut().context("the object is complete")?;
        let part = std::mem::replace(&mut self.filling, Vec::with_capacity(PART_BYTES));
        let bytes = part.len() as u64;
        let sending = upload.put_part(part.into());
        self.sending = Some(Request::begin(async move {
            let _permit = PARTS.acquire().await;
            sending.await
        })?);
        self.bytes += bytes;
        self.sent += 1;
        Ok(())
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if let Some(sending) = self.sending.take() {
            // A part that arrives after the upload was aborted stays, and is charged.
            sending.give_up();
        }
        if let Some(mut upload) = self.upload.take() {
            // If it fails, a rule of the bucket about incomplete uploads removes the parts.
            let _ = wait(async move { upload.abort().await });
        }
    }
}

struct Writer(Arc<Mutex<Parts>>);

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut parts = locked(&self.0);
        let taken = bytes.len().min(PART_BYTES - parts.filling.len());
        parts.filling.extend_from_slice(&bytes[..taken]);
        if parts.filling.len() == PART_BYTES {
            parts.send().map_err(io::Error::other)?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
