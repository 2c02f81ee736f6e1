//! What this process has put into the log and nobody has folded yet.
//!
//! A log that grows faster than it is folded could not be read any more where memory is small: requests wait for folds then.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use parking_lot::Mutex;
use tidelake_format::{Error, Result};
use tokio::{
    sync::Notify,
    time::{Instant, timeout},
};

/// Segments that were put within this time are counted as one.
const TOGETHER: Duration = Duration::from_millis(100);
/// How long a request waits for folds.
const WAIT: Duration = Duration::from_secs(2);

/// The bytes of decoded rows that are yet to be folded, about: what others put or fold is known by the next complete fold.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Whether folds run in the background: else nothing would make it shrink.
    counts: AtomicBool,
    bytes: AtomicUsize,
    /// What was put when, the oldest first.
    puts: Mutex<VecDeque<(Instant, usize)>>,
    shrunk: Notify,
}

impl Backlog {
    /// Begins to count.
    pub(super) fn count(&self) {
        self.counts.store(true, Relaxed);
    }

    /// Rows were put.
    pub(crate) fn add(&self, bytes: usize) {
        if !self.counts.load(Relaxed) {
            return;
        }
        let (now, mut puts) = (Instant::now(), self.puts.lock());
        match puts.back_mut().filter(|(at, _)| now.duration_since(*at) < TOGETHER) {
            Some((_, sum)) => *sum += bytes,
            None => puts.push_back((now, bytes)),
        }
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// The oldest so many bytes were folded.
    pub(super) fn folded(&self, mut bytes: usize) {
        let mut puts = self.puts.lock();
        while bytes > 0
            && let Some((_, sum)) = puts.front_mut()
        {
            let taken = bytes.min(*sum);
            (*sum, bytes) = (*sum - taken, bytes - taken);
            self.bytes.fetch_sub(taken, Relaxed);
            if *sum == 0 {
                puts.pop_front();
            }
        }
        drop(puts);
        self.shrunk.notify_waiters();
    }

    /// Everything that was put before a time was folded.
    pub(super) fn folded_until(&self, until: Instant) {
        let mut puts = self.puts.lock();
        // Those of one entry were put until a while after its time.
        while let Some((_, bytes)) = puts.pop_front_if(|(at, _)| *at + TOGETHER < until) {
            self.bytes.fetch_sub(bytes, Relaxed);
        }
        drop(puts);
        self.shrunk.notify_waiters();
    }

    /// Whether there is more than a limit.
    pub(crate) fn is_above(&self, limit: usize) -> bool {
        self.bytes.load(Relaxed) > limit
    }

    /// Waits until there is no more than a limit.
    ///
    /// # Errors
    /// Unavailable when there is more for too long.
    pub(crate) async fn wait(&self, limit: usize) -> Result<()> {
        let below = async {
            while self.is_above(limit) {
                let shrunk = self.shrunk.notified();
                if self.is_above(limit) {
                    shrunk.await;
                }
            }
        };
        timeout(WAIT, below).await.map_err(|_| {
            Error::unavailable("the log grows faster than it is folded; send the rows again later")
                .with("limit_bytes", limit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[tokio::test(start_paused = true)]
    async fn requests_wait_while_too_much_is_unfolded_and_go_on_once_it_is_folded() {
        let backlog = Backlog::default();
        backlog.add(1_000);
        assert!(!backlog.is_above(0), "nothing is counted where nothing is folded in the background");
        backlog.count();
        backlog.add(100);
        tokio::time::sleep(Duration::from_secs(1)).await;
        backlog.add(50);
        backlog.wait(150).await.unwrap();
        assert_eq!(backlog.wait(149).await.unwrap_err().kind(), Kind::Unavailable);
        let (waited, ()) = tokio::join!(backlog.wait(149), async { backlog.folded(10) });
        waited.unwrap();
        backlog.folded_until(Instant::now() - Duration::from_millis(2_500));
        assert!(backlog.is_above(49) && !backlog.is_above(50));
        backlog.folded(1_000);
        assert!(!backlog.is_above(0));
    }
}
