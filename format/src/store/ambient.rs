//! Clocks and randomness of a process, behind a trait so that a simulation can replace them. Sleeping and deadlines use
//! tokio.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

use crate::types::Precision;

/// The clocks and randomness of one process.
pub trait Ambient: fmt::Debug + Send + Sync {
    /// Nanoseconds since the epoch by this machine's clock, which may differ from other clocks and jump either way.
    fn wall_ns(&self) -> i64;
    /// 64 random bits.
    fn random(&self) -> u64;

    /// The monotonic clock; it may stand still while the process is suspended.
    fn monotonic(&self) -> Instant {
        Instant::now()
    }

    /// The wall clock in milliseconds since the epoch.
    fn wall_ms(&self) -> i64 {
        self.wall_ns().div_euclid(1_000_000)
    }

    /// The wall clock in ticks of a database.
    fn wall_ticks(&self, precision: Precision) -> i64 {
        self.wall_ns().div_euclid(1_000_000_000 / precision.per_second())
    }

    /// 128 random bits, for an id.
    fn random_id(&self) -> u128 {
        u128::from(self.random()) << 64 | u128::from(self.random())
    }
}

/// The real clocks and randomness.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl System {
    /// Returns a shared handle.
    pub fn shared() -> Arc<dyn Ambient> {
        Arc::new(System)
    }
}

impl Ambient for System {
    fn wall_ns(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}

/// A point in time by both clocks, from which an age is measured.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    wall_ms: i64,
    at: Instant,
}

impl Moment {
    /// The current time.
    pub fn now(ambient: &dyn Ambient) -> Self {
        Self { wall_ms: ambient.wall_ms(), at: ambient.monotonic() }
    }

    /// Time since this moment: the larger of the wall-clock and the monotonic difference, since either clock may stand
    /// still while a process is suspended; [`Duration::MAX`] if the wall clock went back.
    pub fn age(&self, ambient: &dyn Ambient) -> Duration {
        match u64::try_from(ambient.wall_ms().saturating_sub(self.wall_ms)) {
            Ok(wall) => ambient.monotonic().saturating_duration_since(self.at).max(Duration::from_millis(wall)),
            Err(_) => Duration::MAX,
        }
    }

    /// Whether this moment is certainly not before the other: by both clocks, since either may have stood still while
    /// the process was suspended between them.
    pub fn not_before(&self, other: &Moment) -> bool {
        self.at >= other.at && self.wall_ms >= other.wall_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Hands(i64);

    impl Ambient for Hands {
        fn wall_ns(&self) -> i64 {
            self.0
        }

        fn random(&self) -> u64 {
            0
        }
    }

    #[test]
    fn a_moment_is_after_another_by_both_clocks_only() {
        let (early, late) = (Moment::now(&Hands(1_000_000)), Moment::now(&Hands(2_000_000)));
        assert!(late.not_before(&early) && late.not_before(&late) && !early.not_before(&late));
        let stood_still = Moment { at: early.at, ..late };
        assert!(stood_still.not_before(&early) && !early.not_before(&stood_still));
        let went_back = Moment { wall_ms: 0, ..late };
        assert!(!went_back.not_before(&early));
    }

    #[test]
    fn ticks_round_down_before_the_epoch_too() {
        assert_eq!(Hands(-1).wall_ticks(Precision::Milli), -1);
        assert_eq!(Hands(-1).wall_ticks(Precision::Nano), -1);
        assert_eq!(Hands(1_999_999).wall_ms(), 1);
    }
}
