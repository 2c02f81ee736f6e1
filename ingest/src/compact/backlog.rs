//! Rows that this process has put into the log and that are not folded yet.
//!
//! A log that grows faster than it is folded would become unreadable with little memory: so requests wait for folds.

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

/// Segments put within this time are counted together.
const TOGETHER: Duration = Duration::from_millis(100);
/// Longest wait of a request for folds.
const WAIT: Duration = Duration::from_secs(2);

/// Approximate bytes of decoded rows not folded yet: puts and folds of other processes are known by the next complete fold.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    /// Whether folds run in the background: otherwise nothing would reduce the backlog.
    counts: AtomicBool,
    bytes: AtomicUsize,
    /// Bytes by the time of their put, oldest first.
    puts: Mutex<VecDeque<(Instant, usize)>>,
    shrunk: Notify,
}

impl Backlog {
    /// Begins to count.
    pub(super) fn count(&self) {
        self.counts.store(true, Relaxed);
    }

    /// Counts rows that were put.
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

    /// Removes the oldest bytes, which were folded.
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

    /// Removes everything that was put before a time, which was folded.
    pub(super) fn folded_until(&self, until: Instant) {
        let mut puts = self.puts.lock();
        // The bytes of one entry were put up to `TOGETHER` after its time.
        while let Some((_, bytes)) = puts.pop_front_if(|(at, _)| *at + TOGETHER < until) {
            self.bytes.fetch_sub(bytes, Relaxed);
        }
        drop(puts);
        self.shrunk.notify_waiters();
    }

    /// Whether the backlog is above a limit.
    pub(crate) fn is_above(&self, limit: usize) -> bool {
        self.bytes.load(Relaxed) > limit
    }

    /// Waits until the backlog is within a limit.
    ///
    /// # Errors
    /// Unavailable if it stays above the limit for too long.
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
    async fn requests_wait_while_the_backlog_is_too_large() {
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
