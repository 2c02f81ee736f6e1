//! Per-user memory limits: the queries of a limited user share a part of the common memory pool.

use std::{
    collections::HashMap,
    fmt,
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use datafusion::{
    common::{Result, resources_datafusion_err},
    execution::{
        memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation},
        runtime_env::RuntimeEnv,
    },
};
use parking_lot::Mutex;
use tidelake_format::access::Principal;

/// Bytes held by the queries of each limited user, for users with running queries.
#[derive(Default)]
pub(super) struct Shares(Mutex<HashMap<Arc<str>, Weak<AtomicUsize>>>);

impl Shares {
    /// The runtime for a query of a limited user; `None` for a user without a memory limit, who uses `all`.
    pub(super) fn limited(&self, principal: &Principal, all: &Arc<RuntimeEnv>) -> Option<Arc<RuntimeEnv>> {
        let (user, limit) = (principal.user()?, principal.limits().memory?);
        let mut shares = self.0.lock();
        let held = match shares.get(user).and_then(Weak::upgrade) {
            Some(held) => held,
            None => {
                shares.retain(|_, held| held.strong_count() > 0);
                let held = Arc::<AtomicUsize>::default();
                shares.insert(user.into(), Arc::downgrade(&held));
                held
            }
        };
        let share = Share {
            user: user.into(),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
            held,
            all: all.memory_pool.clone(),
        };
        Some(Arc::new(RuntimeEnv { memory_pool: Arc::new(share), ..all.as_ref().clone() }))
    }
}

/// The common pool with a limit for one user: the queries of `user` hold at most `limit` bytes.
struct Share {
    user: Arc<str>,
    limit: usize,
    held: Arc<AtomicUsize>,
    all: Arc<dyn MemoryPool>,
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Share").field("user", &self.user).field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory share of {}", self.user)
    }
}

impl MemoryPool for Share {
    fn name(&self) -> &str {
        "share"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.all.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.all.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.held.fetch_add(additional, Relaxed);
        self.all.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.held.fetch_sub(shrink, Relaxed);
        self.all.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let room = |held: usize| held.checked_add(additional).filter(|held| *held <= self.limit);
        if let Err(held) = self.held.fetch_update(Relaxed, Relaxed, room) {
            return Err(resources_datafusion_err!(
                "memory limit of user {} exceeded: limit {} bytes, held {held} bytes, requested {additional} more bytes",
                self.user,
                self.limit
            ));
        }
        let grown = self.all.try_grow(reservation, additional);
        if grown.is_err() {
            self.held.fetch_sub(additional, Relaxed);
        }
        grown
    }

    fn reserved(&self) -> usize {
        self.held.load(Relaxed)
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.limit)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::{memory_pool::GreedyMemoryPool, runtime_env::RuntimeEnvBuilder};
    use tidelake_format::access::{Limits, Rights};

    use super::*;

    #[test]
    fn queries_of_a_user_share_the_user_limit_and_the_common_pool() {
        let pool = Arc::new(GreedyMemoryPool::new(1_000));
        let all = Arc::new(RuntimeEnvBuilder::new().with_memory_pool(pool).build().unwrap());
        let shares = Shares::default();
        let ada = |memory| {
            let limits = Limits { memory: Some(memory), ..Limits::default() };
            Principal::new("ada", Rights::Admin).limited(limits)
        };
        assert!(shares.limited(&Principal::new("bob", Rights::Admin), &all).is_none());
        let [one, two] = [0, 1].map(|_| shares.limited(&ada(600), &all).unwrap());
        let first = MemoryConsumer::new("first").register(&one.memory_pool);
        let second = MemoryConsumer::new("second").register(&two.memory_pool);
        first.try_grow(400).unwrap();
        second.try_grow(200).unwrap();
        let error = second.try_grow(1).unwrap_err().to_string();
        assert!(error.contains("ada") && error.contains("600"), "{error}");
        assert_eq!((one.memory_pool.reserved(), all.memory_pool.reserved()), (600, 600));
        first.shrink(100);
        second.try_grow(100).unwrap();
        drop((first, second));
        assert_eq!((one.memory_pool.reserved(), all.memory_pool.reserved()), (0, 0));
        // With a limit above the common pool's size, the pool's size applies.
        let much = shares.limited(&ada(5_000), &all).unwrap();
        let third = MemoryConsumer::new("third").register(&much.memory_pool);
        third.try_grow(900).unwrap();
        assert!(third.try_grow(200).is_err());
        assert_eq!(much.memory_pool.reserved(), 900);
        drop((third, much, one, two));
        drop(shares.limited(&ada(1), &all));
        assert!(shares.0.lock().values().all(|held| held.strong_count() == 0));
    }
}
