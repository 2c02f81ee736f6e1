//! Processes: each has its own clocks and randomness, and may be frozen and killed at any moment.

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
use tokio::{sync::watch, time::Instant};

use crate::{network::Network, server::Server};

/// Whether a process runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// It does.
    Running,
    /// It stands still: nothing that it awaits comes to it.
    Frozen,
    /// It is gone; its requests may still be on their way.
    Dead,
}

/// Stops a process wherever it awaits. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Gate {
    life: Arc<watch::Sender<Life>>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { life: Arc::new(watch::Sender::new(Life::Running)) }
    }
}

impl Gate {
    /// Waits while the process is frozen; never ends for a dead one.
    pub async fn pass(&self) {
        let mut life = self.life.subscribe();
        if life.wait_for(|life| *life == Life::Running).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// What the process is.
    pub fn life(&self) -> Life {
        *self.life.borrow()
    }

    /// Freezes, thaws or kills; nothing brings back the dead.
    pub fn set(&self, to: Life) {
        self.life.send_if_modified(|life| {
            let changes = *life != Life::Dead && *life != to;
            if changes {
                *life = to;
            }
            changes
        });
    }

    /// Runs a future that is not polled while the process is frozen or dead.
    pub async fn freezable<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            self.pass().await;
            let mut life = self.life.subscribe();
            let mut changed = pin!(life.wait_for(|life| *life != Life::Running));
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
    /// How much the monotonic clock lags behind, because it stood still while the process was frozen.
    lag_ms: AtomicU64,
    rng: Mutex<StdRng>,
}

impl Hands {
    /// Moves the wall clock.
    pub fn step(&self, by_ms: i64) {
        self.skew_ms.fetch_add(by_ms, Relaxed);
    }

    /// The monotonic clock stood still for this time.
    pub fn stood_still(&self, time: Duration) {
        self.lag_ms.fetch_add(u64::try_from(time.as_millis()).unwrap_or(0), Relaxed);
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
        Instant::now().checked_sub(lag).unwrap_or_else(Instant::now)
    }
}

/// One process: its gate, its clocks, and its way to the store.
#[derive(Debug, Clone)]
pub struct Process {
    /// Its number, never used again.
    pub number: u64,
    /// What stops it.
    pub gate: Gate,
    /// Its clocks.
    pub hands: Arc<Hands>,
    /// The store as it sees it.
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
            rng: Mutex::new(StdRng::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        });
        let network = Arc::new(Network::new(server.clone(), gate.clone(), number));
        let store =
            Store::paginated(network.clone(), Path::default()).with_ambient(hands.clone()).with_durable(network);
        Self { number, gate, hands, store }
    }
}
