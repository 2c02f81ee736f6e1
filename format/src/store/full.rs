//! Detects a store without space, and tracks that state.

use std::{error::Error as _, io};

use parking_lot::Mutex;

use super::Store;
use crate::error::{Error, Kind};

/// Error codes of S3-compatible stores for lack of space.
const CODES: [&str; 4] = ["QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "507 Insufficient Storage"];
/// Objects up to this size are treated alike when checking for space.
const SMALL: usize = 64 << 10;
/// The error context of an attempt that certainly wrote nothing.
const OUTCOME: (&str, &str) = ("outcome", "nothing was written");

/// Whether an error means that the store has no space left.
pub(crate) fn is_full(e: &object_store::Error) -> bool {
    let mut source = e.source();
    while let Some(e) = source {
        if let Some(e) = e.downcast_ref::<io::Error>() {
            return matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        }
        source = e.source();
    }
    let object_store::Error::Generic { .. } = e else { return false };
    let text = e.to_string();
    CODES.iter().any(|code| text.contains(code))
}

impl From<object_store::Error> for Error {
    fn from(e: object_store::Error) -> Self {
        let kind = match &e {
            object_store::Error::NotFound { .. } => Kind::NotFound,
            object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. } => Kind::Conflict,
            object_store::Error::InvalidPath { .. } => Kind::Invalid,
            object_store::Error::NotSupported { .. } | object_store::Error::NotImplemented { .. } => Kind::Unsupported,
            _ if is_full(&e) => {
                let message = "the store has no space left; free space or raise its quota";
                return Error::full(message).with("reason", &e).source(e);
            }
            _ => Kind::Unavailable,
        };
        Error::new(kind, "object store request failed").with("reason", &e).source(e)
    }
}

/// The smallest object for which there was no space, and the reason; `None` while there is space.
#[derive(Debug, Default)]
pub(super) struct Space(Mutex<Option<(usize, String)>>);

impl Space {
    /// Records that an object was created: there is space for objects of its size.
    pub(super) fn took(&self, bytes: usize) {
        let mut lack = self.0.lock();
        if lack.as_ref().is_some_and(|(least, _)| bytes.max(SMALL) >= *least) {
            *lack = None;
            tracing::info!(bytes, "the store has space again");
        }
    }

    /// Records that there was no space for an object. Logged only for the first one.
    fn lacks(&self, bytes: usize, error: &Error) {
        let mut lack = self.0.lock();
        if lack.is_none() {
            tracing::error!(%error, bytes, "the store has no space left: writes are rejected until there is space");
        }
        let least = lack.as_ref().map_or(usize::MAX, |(least, _)| *least).min(bytes.max(SMALL));
        *lack = Some((least, error.to_string()));
    }
}

impl Store {
    /// Why the store cannot accept writes, while it has no space left.
    pub fn lack(&self) -> Option<String> {
        self.shared.space.0.lock().as_ref().map(|(_, reason)| reason.clone())
    }

    /// Records that there is space again for objects of any size.
    pub fn has_space(&self) {
        self.shared.space.took(usize::MAX);
    }

    /// Bytes that can still be written, if known: in a directory.
    pub fn free_bytes(&self) -> Option<u64> {
        self.shared.directory.as_ref().and_then(|directory| directory.free_bytes())
    }

    /// Checks that there is space for `bytes` bytes, if known.
    ///
    /// # Errors
    /// [`Kind::Full`]; nothing was written.
    pub fn check_space(&self, bytes: u64) -> Result<(), Error> {
        let Some(free) = self.free_bytes().filter(|free| *free < bytes) else { return Ok(()) };
        let error = Error::full("the store has too little space left")
            .with("expected_bytes", bytes)
            .with("found_bytes", free)
            .with(OUTCOME.0, OUTCOME.1);
        self.shared.space.lacks(usize::try_from(bytes).unwrap_or(usize::MAX), &error);
        Err(error)
    }

    /// Records the error of a create; adds whether certainly nothing was written.
    pub(super) fn refused(&self, bytes: usize, error: Error, is_certain: bool) -> Error {
        if error.kind() != Kind::Full {
            return error;
        }
        self.shared.space.lacks(bytes, &error);
        if is_certain { error.with(OUTCOME.0, OUTCOME.1) } else { error }
    }
}

impl Error {
    /// Whether the attempt certainly wrote nothing because there was no space; false if unknown.
    pub fn wrote_nothing(&self) -> bool {
        self.kind() == Kind::Full && self.context(OUTCOME.0) == Some(OUTCOME.1)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::store::faults::{Fault, Operation};

    #[tokio::test]
    async fn a_store_without_space_rejects_at_once_with_the_reason_and_accepts_objects_again() {
        let full = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
        let store = Store::in_memory();
        let plan = full.clone();
        let store = store.with_faults(move |request| match request.operation {
            Operation::Put if plan.load(std::sync::atomic::Ordering::Relaxed) => Fault::Full,
            _ => Fault::None,
        });
        assert_eq!(store.lack(), None);
        let started = tokio::time::Instant::now();
        let error = store.create("a", Bytes::from_static(b"1")).await.unwrap_err();
        assert!(error.wrote_nothing() && started.elapsed() < std::time::Duration::from_secs(5), "{error}");
        assert!(error.to_string().contains("no storage space"), "{error}");
        assert!(store.lack().unwrap().contains("no space left"));
        assert_eq!(store.get("a").await.unwrap_err().kind(), Kind::NotFound);
        full.store(false, std::sync::atomic::Ordering::Relaxed);
        store.create("a", Bytes::from_static(b"1")).await.unwrap();
        assert_eq!(store.lack(), None);
    }

    #[test]
    fn small_objects_do_not_show_that_there_is_space_for_a_large_one() {
        let space = Space::default();
        space.lacks(10 << 20, &Error::full("a large one"));
        space.took(1 << 10);
        assert!(space.0.lock().is_some());
        space.took(10 << 20);
        assert!(space.0.lock().is_none());
        space.lacks(100, &Error::full("a small one"));
        space.took(50);
        assert!(space.0.lock().is_none());
    }

    #[test]
    fn s3_error_codes_for_lack_of_space_are_recognised() {
        for (text, expected) in [
            ("status: 507 Insufficient Storage: <Code>XMinioStorageFull</Code>", true),
            ("<Error><Code>QuotaExceeded</Code></Error>", true),
            ("<Error><Code>SlowDown</Code></Error>", false),
        ] {
            let e = object_store::Error::Generic { store: "S3", source: text.into() };
            assert_eq!(Error::from(e).kind() == Kind::Full, expected, "{text}");
        }
    }
}
