//! Processes with their own clocks and randomness, which may be frozen and killed at any time.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    task::Poll,
    time::Duration,
};

use object_store::path::Path;
use parking_lot::Mutex;
use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_format::store::{Ambient, Store};
use tokio::{sync::Notify, time::Instant};

use crate::{network::Network, server::Server};

/// State of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Running.
    Running,
    /// Frozen: nothing that it awaits completes.
    Frozen,
    /// Dead; its requests may still be in flight.
    Dead,
}

/// Stops a process at its await points. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Gate {
    life: Arc<Mutex<Life>>,
    /// Wakes in the order of waiting; a watch channel's order would not be deterministic.
    changed: Arc<Notify>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { life: Arc::new(Mutex::new(Life::Running)), changed: Arc::default() }
    }
}

impl Gate {
    /// Waits while the process is frozen; never ends for a dead one.
    pub async fn pass(&self) {
        self.until(|life| life == Life::Running).await;
    }

    async fn until(&self, is_so: fn(Life) -> bool) {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if is_so(self.life()) {
                return;
            }
            changed.await;
        }
    }

    /// State of the process.
    pub fn life(&self) -> Life {
        *self.life.lock()
    }

    /// Freezes, thaws or kills the process; a dead process stays dead.
    pub fn set(&self, to: Life) {
        let mut life = self.life.lock();
        if *life != Life::Dead && *life != to {
            *life = to;
            drop(life);
            self.changed.notify_waiters();
        }
    }

    /// Runs a future that is not polled while the process is frozen or dead.
    pub async fn freezable<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            self.pass().await;
            let mut changed = pin!(self.until(|life| life != Life::Running));
            let done = std::future::poll_fn(|cx| {
                if changed.as_mut().poll(cx).is_ready() {
                    return Poll::Ready(None);
                }
                work.as_mut().poll(cx).map(Some)
            });
            if let Some(done) = done.await {
                return done;
            }
        }
    }
}

/// The clocks and the randomness of one process.
#[derive(Debug)]
pub struct Hands {
    server: Arc<Server>,
    skew_ms: AtomicI64,
    /// Lag of the monotonic clock from the time it stopped while the process was frozen.
    lag_ms: AtomicU64,
    /// Time since which the monotonic clock is stopped.
    still: Mutex<Option<Instant>>,
    rng: Mutex<StdRng>,
}

impl Hands {
    /// Moves the wall clock.
    pub fn step(&self, by_ms: i64) {
        self.skew_ms.fetch_add(by_ms, Relaxed);
    }

    /// Sets the error of the wall clock.
    pub fn set_skew(&self, by_ms: i64) {
        self.skew_ms.store(by_ms, Relaxed);
    }

    /// Stops the monotonic clock.
    pub fn stand_still(&self) {
        *self.still.lock() = Some(Instant::now());
    }

    /// Restarts the monotonic clock from where it stopped.
    pub fn go_on(&self) {
        if let Some(since) = self.still.lock().take() {
            self.lag_ms.fetch_add(u64::try_from(since.elapsed().as_millis()).unwrap_or(0), Relaxed);
        }
    }
}

impl Ambient for Hands {
    fn wall_ns(&self) -> i64 {
        self.server.now_ms().saturating_add(self.skew_ms.load(Relaxed)).saturating_mul(1_000_000)
    }

    fn random(&self) -> u64 {
        self.rng.lock().random()
    }

    fn monotonic(&self) -> Instant {
        let lag = Duration::from_millis(self.lag_ms.load(Relaxed));
        let now = self.still.lock().unwrap_or_else(Instant::now);
        now.checked_sub(lag).unwrap_or(now)
    }
}

/// A process: gate, clocks and network to the store.
#[derive(Debug, Clone)]
pub struct Process {
    /// Unique number.
    pub number: u64,
    /// The gate that stops the process.
    pub gate: Gate,
    /// Its clocks.
    pub hands: Arc<Hands>,
    /// The store, accessed through the network.
    pub store: Store,
}

impl Process {
    /// A process with a wall clock that is off by `skew_ms`.
    pub fn new(server: &Arc<Server>, number: u64, seed: u64, skew_ms: i64) -> Self {
        let gate = Gate::default();
        let hands = Arc::new(Hands {
            server: server.clone(),
            skew_ms: AtomicI64::new(skew_ms),
            lag_ms: AtomicU64::new(0),
            still: Mutex::default(),
            rng: Mutex::new(StdRng::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        });
        let network = Arc::new(Network::new(server.clone(), gate.clone(), number));
        let store =
            Store::paginated(network.clone(), Path::default()).with_ambient(hands.clone()).with_durable(network);
        Self { number, gate, hands, store }
    }
}
