//! Time as an argument: the wall clock and a monotonic clock behind one trait, so that a test or a simulation
//! can hold both.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidelake_format::types::Precision;

/// What the write path knows about time.
///
/// Sleeping goes through `tokio::time`; only reading is here.
pub trait Clock: Send + Sync + std::fmt::Debug + 'static {
    /// The wall clock in nanoseconds since 1970-01-01 UTC; may jump either way.
    fn wall_ns(&self) -> i64;

    /// Time since some fixed moment of this process; never goes back.
    fn monotonic(&self) -> Duration;

    /// The wall clock in milliseconds since 1970-01-01 UTC.
    fn wall_ms(&self) -> i64 {
        self.wall_ns().div_euclid(1_000_000)
    }

    /// The wall clock in ticks of a database.
    fn wall_ticks(&self, precision: Precision) -> i64 {
        self.wall_ns().div_euclid(1_000_000_000 / precision.per_second())
    }
}

/// The clocks of the operating system.
#[derive(Debug)]
pub struct SystemClock {
    started: Instant,
}

impl SystemClock {
    /// A clock whose monotonic reading starts at zero now.
    #[allow(clippy::new_without_default)] // reading the clock is not a default value
    pub fn new() -> Self {
        Self { started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn wall_ns(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}

/// A moment by both clocks: its age is the larger difference, and one that would be negative is [`Duration::MAX`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    wall_ns: i64,
    monotonic: Duration,
}

impl Moment {
    pub(crate) fn now(clock: &dyn Clock) -> Self {
        Self { wall_ns: clock.wall_ns(), monotonic: clock.monotonic() }
    }

    pub(crate) fn age(&self, clock: &dyn Clock) -> Duration {
        let wall = clock.wall_ns().checked_sub(self.wall_ns).and_then(|ns| u64::try_from(ns).ok());
        let monotonic = clock.monotonic().checked_sub(self.monotonic);
        match (wall, monotonic) {
            (Some(wall), Some(monotonic)) => monotonic.max(Duration::from_nanos(wall)),
            _ => Duration::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[derive(Debug)]
    struct Hands(Mutex<(i64, u64)>);

    impl Clock for Hands {
        fn wall_ns(&self) -> i64 {
            self.0.lock().0
        }

        fn monotonic(&self) -> Duration {
            Duration::from_nanos(self.0.lock().1)
        }
    }

    #[test]
    fn an_age_is_the_larger_difference_and_a_negative_one_has_expired() {
        let clock = Hands(Mutex::new((1_000, 50)));
        let moment = Moment::now(&clock);
        *clock.0.lock() = (1_010, 55);
        assert_eq!(moment.age(&clock), Duration::from_nanos(10));
        *clock.0.lock() = (1_001, 80);
        assert_eq!(moment.age(&clock), Duration::from_nanos(30));
        *clock.0.lock() = (999, 90);
        assert_eq!(moment.age(&clock), Duration::MAX);
    }

    #[test]
    fn ticks_round_down_before_the_epoch_too() {
        let clock = Hands(Mutex::new((-1, 0)));
        assert_eq!(clock.wall_ticks(Precision::Milli), -1);
        assert_eq!(clock.wall_ticks(Precision::Nano), -1);
    }
}
