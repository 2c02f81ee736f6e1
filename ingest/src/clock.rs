//! The wall clock as an argument, so that a test or a simulation can hold it.
//!
//! Ages and randomness come from the store's [`Ambient`](tidelake_format::store::Ambient), sleeping from
//! `tokio::time`; this is what `now` means in a statement and in a line without a timestamp.

use std::time::{SystemTime, UNIX_EPOCH};

use tidelake_format::types::Precision;

/// Where the write path reads the time.
pub trait Clock: Send + Sync + std::fmt::Debug + 'static {
    /// The wall clock in nanoseconds since 1970-01-01 UTC; may jump either way.
    fn wall_ns(&self) -> i64;

    /// The wall clock in milliseconds since 1970-01-01 UTC.
    fn wall_ms(&self) -> i64 {
        self.wall_ns().div_euclid(1_000_000)
    }

    /// The wall clock in ticks of a database.
    fn wall_ticks(&self, precision: Precision) -> i64 {
        self.wall_ns().div_euclid(1_000_000_000 / precision.per_second())
    }
}

/// The clock of the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl SystemClock {
    /// The clock.
    pub fn new() -> Self {
        Self
    }
}

impl Clock for SystemClock {
    fn wall_ns(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Hands(i64);

    impl Clock for Hands {
        fn wall_ns(&self) -> i64 {
            self.0
        }
    }

    #[test]
    fn ticks_round_down_before_the_epoch_too() {
        assert_eq!(Hands(-1).wall_ticks(Precision::Milli), -1);
        assert_eq!(Hands(-1).wall_ticks(Precision::Nano), -1);
        assert_eq!(Hands(1_999_999).wall_ms(), 1);
    }
}
