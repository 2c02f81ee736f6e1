//! Shares of the write buffer: bytes held by incomplete bodies of one user.
//!
//! A complete body is written within moments. An incomplete one holds its bytes as long as its client likes: without shares,
//! slow bodies of one user could fill the buffer and block the writes of all others.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use hashbrown::HashMap;
use metrics::counter;
use parking_lot::Mutex;
use tidelake_format::{Error, Result};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics::THROTTLED;

/// Bytes per permit.
const UNIT: usize = 1 << 10;
/// Number of users above which users without held bytes are forgotten.
const REMEMBERED: usize = 1_000;

/// The shares of all users.
#[derive(Debug)]
pub(crate) struct Shares {
    units: usize,
    wait: Duration,
    users: Mutex<HashMap<Box<str>, Weak<Semaphore>>>,
}

/// Bytes of a user's share held by one body.
#[derive(Debug, Default)]
pub(crate) struct Share(Option<OwnedSemaphorePermit>);

impl Shares {
    /// Creates shares of half the buffer per user.
    pub(crate) fn new(buffer_bytes: usize, wait: Duration) -> Self {
        let units = (buffer_bytes / 2).div_ceil(UNIT).clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Self { units, wait, users: Mutex::default() }
    }

    fn of(&self, user: &str) -> Arc<Semaphore> {
        let mut users = self.users.lock();
        if let Some(known) = users.get(user).and_then(Weak::upgrade) {
            return known;
        }
        if users.len() >= REMEMBERED {
            users.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new(Semaphore::new(self.units));
        users.insert(user.into(), Arc::downgrade(&share));
        share
    }

    /// Raises the bytes held by a body to `bytes`; waits only briefly for other bodies of its user. Without authentication
    /// there are no shares.
    ///
    /// # Errors
    /// Unavailable if the share is exhausted after the wait.
    pub(crate) async fn grow(&self, user: Option<&str>, share: &mut Share, bytes: usize) -> Result<()> {
        let Some(user) = user else { return Ok(()) };
        let held = share.0.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = bytes.div_ceil(UNIT).saturating_sub(held);
        if more == 0 {
            return Ok(());
        }
        let full = || {
            counter!(THROTTLED).increment(1);
            Error::unavailable("incomplete request bodies of this user fill the user's half of the write buffer")
                .with("limit_bytes", self.units * UNIT)
        };
        let semaphore = match &share.0 {
            Some(permit) => permit.semaphore().clone(),
            None => self.of(user),
        };
        let more = u32::try_from(more).ok().filter(|more| *more as usize <= self.units).ok_or_else(full)?;
        let permit = match semaphore.clone().try_acquire_many_owned(more) {
            Ok(permit) => permit,
            Err(_) => tokio::time::timeout(self.wait, semaphore.acquire_many_owned(more))
                .await
                .map_err(|_| full())?
                .map_err(|_| Error::unavailable("the write path is shut down"))?,
        };
        match &mut share.0 {
            Some(held) => held.merge(permit),
            none => *none = Some(permit),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[tokio::test(start_paused = true)]
    async fn one_user_holds_at_most_half_of_the_buffer_and_others_do_not_wait() {
        let shares = Shares::new(20 << 10, Duration::from_millis(200));
        let (mut first, mut second, mut other) = (Share::default(), Share::default(), Share::default());
        shares.grow(Some("ada"), &mut first, 4 << 10).await.unwrap();
        shares.grow(Some("ada"), &mut second, 6 << 10).await.unwrap();
        assert_eq!(shares.grow(Some("ada"), &mut first, (4 << 10) + 1).await.unwrap_err().kind(), Kind::Unavailable);
        shares.grow(Some("bob"), &mut other, 10 << 10).await.unwrap();
        drop(second);
        shares.grow(Some("ada"), &mut first, 10 << 10).await.unwrap();
        drop(first);
        // Unauthenticated requests have no share, and a body larger than a share never fits.
        shares.grow(None, &mut Share::default(), 100 << 10).await.unwrap();
        assert!(shares.grow(Some("ada"), &mut Share::default(), 11 << 10).await.is_err());
    }

    #[tokio::test]
    async fn users_that_hold_nothing_are_forgotten() {
        let shares = Shares::new(1 << 20, Duration::ZERO);
        let mut kept = Share::default();
        shares.grow(Some("kept"), &mut kept, 1 << 19).await.unwrap();
        for user in 0..3 * REMEMBERED {
            shares.grow(Some(&user.to_string()), &mut Share::default(), 1).await.unwrap();
        }
        assert!(shares.users.lock().len() <= REMEMBERED + 1);
        assert!(shares.grow(Some("kept"), &mut Share::default(), 1).await.is_err());
    }
}
