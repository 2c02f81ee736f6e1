//! The last stamp that any process has taken for a segment of a directory.
//!
//! Segments with the same millisecond of the file system's clock are ordered by their stamps. The clocks of processes
//! differ, so each process takes the next stamp from a shared file, under its lock: a write that begins after another
//! one was acknowledged has the larger stamp, whatever the clocks say. The file is never synced: after a power loss,
//! the times of segments differ by more than a millisecond.

use std::{
    fs::TryLockError,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

/// Name of the file in the staging directory.
pub(super) const STAMPS: &str = "stamps";
/// Number of attempts to take the lock, over about one second. A process holds it for microseconds, unless it was
/// stopped meanwhile.
const ATTEMPTS: u32 = 110;
/// The first wait between two attempts; it doubles up to `LONGEST_WAIT`.
const WAIT: Duration = Duration::from_micros(50);
const LONGEST_WAIT: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Stamps {
    path: PathBuf,
    /// Whether the last attempt failed: then the lock is tried only once.
    is_lost: AtomicBool,
}

impl Stamps {
    pub(super) fn new(staging: &Path) -> Self {
        Self { path: staging.join(STAMPS), is_lost: AtomicBool::new(false) }
    }

    /// The next stamp: at least `least` and greater than all before it. If the file or its lock is unavailable, `least`
    /// itself.
    pub(super) fn next(&self, least: i64) -> i64 {
        match self.take(least) {
            Ok(stamp) => {
                self.is_lost.store(false, Relaxed);
                stamp
            }
            Err(error) => {
                if !self.is_lost.swap(true, Relaxed) {
                    let path = self.path.display();
                    tracing::warn!(%error, %path, "stamp file unavailable; writes of several processes in one millisecond are ordered by their clocks");
                }
                least
            }
        }
    }

    fn take(&self, least: i64) -> io::Result<i64> {
        let file = super::modes::options(super::modes::FILE)
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&self.path)?;
        let mut left = if self.is_lost.load(Relaxed) { 0 } else { ATTEMPTS };
        let mut wait = WAIT;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if left > 0 => left -= 1,
                Err(TryLockError::WouldBlock) => return Err(io::Error::other("another process holds its lock")),
                Err(TryLockError::Error(e)) => return Err(e),
            }
            std::thread::sleep(wait);
            wait = (wait * 2).min(LONGEST_WAIT);
        }
        // The lock is released when `file` is closed.
        let mut bytes = [0; 16];
        let last = match file.read_exact_at(&mut bytes, 0) {
            Ok(()) => decode(bytes),
            Err(_) => None,
        };
        let stamp = last.map_or(least, |last| least.max(last.saturating_add(1)));
        file.write_all_at(&encode(stamp), 0)?;
        Ok(stamp)
    }
}

/// Encodes a stamp and its complement.
fn encode(stamp: i64) -> [u8; 16] {
    (u128::from(stamp.cast_unsigned()) << 64 | u128::from(!stamp.cast_unsigned())).to_be_bytes()
}

/// `None` if the bytes were never written or are damaged.
fn decode(bytes: [u8; 16]) -> Option<i64> {
    let both = u128::from_be_bytes(bytes);
    let (stamp, complement) = ((both >> 64) as u64, both as u64);
    (stamp == !complement).then_some(stamp.cast_signed())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn processes_of_one_directory_take_stamps_in_one_order_whatever_their_clocks_say() {
        let dir = tempfile::tempdir().unwrap();
        let (ahead, behind) = (Stamps::new(dir.path()), Stamps::new(dir.path()));
        assert_eq!(
            [ahead.next(1_000), behind.next(5), ahead.next(1_000), behind.next(6)],
            [1_000, 1_001, 1_002, 1_003]
        );
        assert_eq!(behind.next(9_000), 9_000);
        // A damaged file starts again.
        std::fs::write(dir.path().join(STAMPS), [7; 16]).unwrap();
        assert_eq!([ahead.next(10), behind.next(3)], [10, 11]);
    }

    #[test]
    fn concurrent_threads_get_different_stamps() {
        let dir = tempfile::tempdir().unwrap();
        let take = |n: i64| {
            let stamps = Stamps::new(dir.path());
            move || (0..50).map(|_| stamps.next(n)).collect::<Vec<i64>>()
        };
        let threads: Vec<_> = (0..3).map(|n| std::thread::spawn(take(n))).collect();
        let mut all: Vec<i64> = threads.into_iter().flat_map(|t| t.join().unwrap()).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 150);
    }

    #[test]
    fn a_process_stopped_while_holding_the_lock_blocks_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let stamps = Stamps::new(dir.path());
        assert_eq!(stamps.next(1), 1);
        let held = std::fs::File::open(dir.path().join(STAMPS)).unwrap();
        held.try_lock().unwrap();
        assert_eq!(stamps.next(7), 7);
    }
}
