//! The only function that creates objects, for log and chain alike.

use std::{error::Error as _, io, time::Duration};

use bytes::Bytes;
use object_store::{ObjectStore, PutMode};
use tokio::time::{Instant, sleep, timeout_at};

use super::{Store, failed};
use crate::{
    error::{Error, Kind, Result},
    step,
    steps::stepped,
};

/// Result of [`Store::create`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// This call created the object.
    New,
    /// The object exists with the same bytes: the reply to an earlier attempt was lost.
    Ours,
    /// Another creator made it with other bytes.
    Lost,
}

impl Created {
    /// Whether the object now holds the caller's bytes.
    pub fn is_ours(self) -> bool {
        matches!(self, Created::New | Created::Ours)
    }
}

const FIRST_WAIT: Duration = Duration::from_millis(10);
const LONGEST_WAIT: Duration = Duration::from_secs(1);

impl Store {
    /// How long [`Store::create`] tries if the caller sets no deadline.
    pub const CREATE_DEADLINE: Duration = Duration::from_secs(60);

    /// Creates an immutable object if its key is absent; the object is durable when this returns.
    ///
    /// A failed or uncertain attempt is repeated with the same bytes for [`Store::CREATE_DEADLINE`], after random waits
    /// that double up to 1 s. When the store says that the key exists, the object is read back: equal bytes are ours (a
    /// lost reply), other bytes belong to another creator, and an absent object is put again.
    ///
    /// # Errors
    /// [`Kind::Unavailable`] when the outcome is unknown at the deadline (the object may exist, or appear later), or
    /// immediately when the store cannot accept it (no permission); [`Kind::Full`] immediately when the store has no
    /// space.
    pub async fn create(&self, key: &str, bytes: Bytes) -> Result<Created> {
        self.create_within(key, bytes, Self::CREATE_DEADLINE).await
    }

    /// [`Store::create`] with a deadline.
    ///
    /// # Errors
    /// As [`Store::create`].
    pub async fn create_within(&self, key: &str, bytes: Bytes, deadline: Duration) -> Result<Created> {
        Ok(self.create_or_read(key, bytes, deadline).await?.0)
    }

    /// [`Store::create_within`]; also returns another creator's object if one was found.
    ///
    /// # Errors
    /// As [`Store::create`].
    pub(crate) async fn create_or_read(
        &self,
        key: &str,
        bytes: Bytes,
        deadline: Duration,
    ) -> Result<(Created, Option<Bytes>)> {
        let step = step!("store", operation = "put", key, bytes = bytes.len());
        stepped(step, self.create_in_step(key, bytes, deadline)).await
    }

    async fn create_in_step(&self, key: &str, bytes: Bytes, deadline: Duration) -> Result<(Created, Option<Bytes>)> {
        let deadline = Instant::now() + deadline;
        let mut wait = FIRST_WAIT;
        let mut is_certain = true;
        loop {
            let fault = match timeout_at(deadline, self.attempt(key, &bytes)).await {
                Ok(Ok(Some(created))) => {
                    self.shared.space.took(bytes.len());
                    return Ok(created);
                }
                Ok(Ok(None)) => Error::unavailable("the store reports the object both present and absent"),
                Ok(Err(Err(refused))) => return Err(self.refused(bytes.len(), refused, is_certain)),
                // Over a network, an earlier retry inside the client may have written the object.
                Ok(Err(Ok(fault))) if fault.kind() == Kind::Full => {
                    return Err(self.refused(bytes.len(), fault, false));
                }
                Ok(Err(Ok(fault))) => fault,
                Err(_) => Error::unavailable("no response"),
            };
            is_certain = false;
            let pause = wait.mul_f64(0.5 + (self.ambient().random() >> 11) as f64 / (1_u64 << 53) as f64);
            if Instant::now() + pause >= deadline {
                return Err(Error::unavailable("outcome unknown: the store did not answer before the deadline")
                    .with("key", key)
                    .source(fault));
            }
            tracing::debug!(key, error = %fault, "retrying to create an object");
            sleep(pause).await;
            wait = (wait * 2).min(LONGEST_WAIT);
        }
    }

    /// One attempt. Returns `None` if the store contradicts itself; the error is `Ok(fault)` if it is worth another
    /// attempt.
    async fn attempt(&self, key: &str, bytes: &Bytes) -> Result<Option<(Created, Option<Bytes>)>, Result<Error>> {
        let shared = &self.shared;
        shared.counters.put(bytes.len());
        match shared.object.put_opts(&self.path(key).map_err(Err)?, bytes.clone().into(), PutMode::Create.into()).await
        {
            Ok(_) => return Ok(Some((Created::New, None))),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {}
            Err(e) if is_final(&e) => return Err(Err(failed(key, e))),
            Err(e) => return Err(Ok(failed(key, e))),
        }
        match self.get(key).await {
            Ok(found) if found == *bytes => Ok(Some((Created::Ours, None))),
            Ok(found) => Ok(Some((Created::Lost, Some(found)))),
            Err(e) if e.kind() == crate::Kind::NotFound => Ok(None),
            Err(e) => Err(Ok(e)),
        }
    }
}

/// Whether the object was certainly not created and another attempt would fail too.
pub(super) fn is_final(e: &object_store::Error) -> bool {
    use object_store::Error as E;
    match e {
        E::InvalidPath { .. }
        | E::NotSupported { .. }
        | E::NotImplemented { .. }
        | E::PermissionDenied { .. }
        | E::Unauthenticated { .. }
        | E::NotFound { .. }
        | E::UnknownConfigurationKey { .. } => true,
        _ => {
            let mut source = e.source();
            while let Some(e) = source {
                if let Some(e) = e.downcast_ref::<io::Error>() {
                    use io::ErrorKind::*;
                    return matches!(
                        e.kind(),
                        StorageFull | QuotaExceeded | ReadOnlyFilesystem | PermissionDenied | InvalidFilename
                    );
                }
                source = e.source();
            }
            false
        }
    }
}
