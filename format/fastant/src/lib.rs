//! In place of the crate of this name, which the disk cache's library brings along: before `main`, that one compares two
//! clocks for 20 ms and more, to read the time some nanoseconds faster later. A function that starts has no such time,
//! and none of ours reads the time often. This is as much of it as that library uses.

use std::{
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A point in time, of the system's monotonic clock: nanoseconds since the first one was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

static FIRST: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

impl Instant {
    /// The present.
    #[must_use]
    pub fn now() -> Self {
        Self(u64::try_from(FIRST.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// From an earlier instant to this one; zero from a later one.
    #[must_use]
    pub fn duration_since(&self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// An instant that threads share.
#[derive(Debug)]
pub struct Atomic(AtomicU64);

impl Atomic {
    /// Of this instant.
    #[must_use]
    pub fn new(instant: Instant) -> Self {
        Self(AtomicU64::new(instant.0))
    }

    /// What is in it.
    #[must_use]
    pub fn load(&self, order: Ordering) -> Instant {
        Instant(self.0.load(order))
    }

    /// Puts another one into it.
    pub fn store(&self, instant: Instant, order: Ordering) {
        self.0.store(instant.0, order);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_apart_by_the_time_between_them() {
        let (before, first) = (std::time::Instant::now(), Instant::now());
        let shared = Atomic::new(first);
        std::thread::sleep(Duration::from_millis(20));
        let second = Instant::now();
        let apart = second.duration_since(shared.load(Ordering::Relaxed));
        assert!(apart >= Duration::from_millis(20) && apart <= before.elapsed(), "{apart:?}");
        assert_eq!(first.duration_since(second), Duration::ZERO);
        shared.store(second, Ordering::Relaxed);
        assert_eq!(shared.load(Ordering::Relaxed), second);
    }
}
