//! What a process takes from its surroundings: the wall clock and randomness, behind one trait, so that a
//! simulation can stand in for them. Sleeping and monotonic time are tokio's.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

/// The wall clock and randomness.
pub trait Ambient: fmt::Debug + Send + Sync {
    /// Milliseconds since the epoch by this machine's clock, which agrees with nobody's.
    fn wall_ms(&self) -> i64;
    /// 64 random bits.
    fn random(&self) -> u64;

    /// 128 random bits: an id.
    fn random_id(&self) -> u128 {
        u128::from(self.random()) << 64 | u128::from(self.random())
    }
}

/// The real ones.
#[derive(Debug, Clone, Copy, Default)]
pub struct System;

impl System {
    /// A shared handle.
    pub fn shared() -> Arc<dyn Ambient> {
        Arc::new(System)
    }
}

impl Ambient for System {
    fn wall_ms(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}

/// A moment, by both clocks, to measure an age from.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    wall_ms: i64,
    at: Instant,
}

impl Moment {
    /// Now.
    pub fn now(ambient: &dyn Ambient) -> Self {
        Self { wall_ms: ambient.wall_ms(), at: Instant::now() }
    }

    /// How long ago: the larger of the wall-clock and the monotonic difference, since either clock may stand
    /// still while a process is frozen; a wall clock that went back makes it [`Duration::MAX`].
    pub fn age(&self, ambient: &dyn Ambient) -> Duration {
        match u64::try_from(ambient.wall_ms().saturating_sub(self.wall_ms)) {
            Ok(wall) => self.at.elapsed().max(Duration::from_millis(wall)),
            Err(_) => Duration::MAX,
        }
    }

    /// Whether this moment is not before the other.
    pub fn not_before(&self, other: &Moment) -> bool {
        self.at >= other.at
    }
}
