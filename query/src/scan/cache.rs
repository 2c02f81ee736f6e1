//! A bounded cache of objects read repeatedly from the store: tag manifests, footers, sorted log blocks.

use std::{
    hash::Hash,
    sync::{Arc, Weak},
};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidelake_format::Result;
use tokio::sync::OnceCell;

/// Values by key. Concurrent callers share one load. Above a total weight the least recently used values are dropped; a
/// dropped value that a query still holds is returned to the next caller, so it is in memory only once.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    state: Mutex<State<K, V>>,
    capacity: usize,
}

#[derive(Debug)]
struct State<K, V> {
    slots: HashMap<K, Slot<V>>,
    /// Values without a slot that may still be in use, and their weights.
    dropped: HashMap<K, (Weak<V>, usize)>,
    weight: usize,
    clock: u64,
}

#[derive(Debug)]
struct Slot<V> {
    cell: Arc<OnceCell<Arc<V>>>,
    used: u64,
    weight: usize,
}

impl<K: Hash + Eq + Clone, V> Cache<K, V> {
    /// Creates an empty cache for values of up to `capacity` bytes in total.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            state: Mutex::new(State { slots: HashMap::new(), dropped: HashMap::new(), weight: 0, clock: 0 }),
            capacity,
        }
    }

    /// Returns the value of a key. If it is not cached, `load` returns it and its weight in bytes. A failed load is not
    /// cached.
    pub(crate) async fn get<F>(&self, key: K, load: impl FnOnce() -> F) -> Result<Arc<V>>
    where
        F: Future<Output = Result<(V, usize)>>,
    {
        let cell = {
            let mut state = self.state.lock();
            state.clock += 1;
            let used = state.clock;
            if let Some((value, weight)) = state.dropped.remove(&key)
                && let Some(value) = value.upgrade()
            {
                let cell = Arc::new(OnceCell::new_with(Some(value)));
                state.slots.insert(key.clone(), Slot { cell, used, weight });
                state.weight += weight;
            }
            let fresh = || Slot { cell: Arc::new(OnceCell::new()), used, weight: 0 };
            let slot = state.slots.entry(key.clone()).or_insert_with(fresh);
            slot.used = used;
            let cell = slot.cell.clone();
            state.make_room(self.capacity);
            cell
        };
        let mut loaded = None;
        let value = cell
            .get_or_try_init(async || {
                let (value, weight) = load().await?;
                loaded = Some(weight);
                Ok::<_, tidelake_format::Error>(Arc::new(value))
            })
            .await;
        match (value, loaded) {
            (Ok(value), None) => Ok(value.clone()),
            (Ok(value), Some(weight)) => {
                let value = value.clone();
                self.weigh(&key, &cell, weight);
                Ok(value)
            }
            (Err(e), _) => {
                let mut state = self.state.lock();
                if state.slots.get(&key).is_some_and(|s| Arc::ptr_eq(&s.cell, &cell) && !cell.initialized()) {
                    state.slots.remove(&key);
                }
                Err(e)
            }
        }
    }

    /// Returns the value of a key if it is cached.
    pub(crate) fn known(&self, key: &K) -> Option<Arc<V>> {
        self.state.lock().slots.get(key)?.cell.get().cloned()
    }

    /// Records the weight of a loaded slot and evicts values to make room.
    fn weigh(&self, key: &K, cell: &Arc<OnceCell<Arc<V>>>, weight: usize) {
        let mut state = self.state.lock();
        let Some(slot) = state.slots.get_mut(key).filter(|s| Arc::ptr_eq(&s.cell, cell)) else { return };
        slot.weight = weight;
        state.weight += weight;
        state.make_room(self.capacity);
    }
}

impl<K: Hash + Eq + Clone, V> State<K, V> {
    /// Evicts the least recently used values while the total weight exceeds `capacity`.
    fn make_room(&mut self, capacity: usize) {
        if self.weight <= capacity {
            return;
        }
        let mut oldest: Vec<(u64, K)> =
            self.slots.iter().filter(|(_, s)| s.weight > 0).map(|(k, s)| (s.used, k.clone())).collect();
        oldest.sort_unstable_by_key(|(used, _)| *used);
        let target = capacity - capacity / 8;
        self.dropped.retain(|_, (value, _)| value.strong_count() > 0);
        for (_, key) in oldest {
            if self.weight <= target {
                break;
            }
            if let Some(slot) = self.slots.remove(&key) {
                self.weight -= slot.weight;
                if let Some(value) = slot.cell.get() {
                    self.dropped.insert(key, (Arc::downgrade(value), slot.weight));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tidelake_format::Error;

    use super::*;

    #[tokio::test]
    async fn concurrent_gets_share_one_load() {
        let cache = Cache::new(1_000);
        let loads = AtomicUsize::new(0);
        let ask = || {
            cache.get("k", async || {
                loads.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok((7, 10))
            })
        };
        let (a, b, c) = tokio::join!(ask(), ask(), ask());
        assert_eq!([*a.unwrap(), *b.unwrap(), *c.unwrap()], [7; 3]);
        assert_eq!(loads.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn weight_stays_within_capacity_and_oldest_are_evicted_first() {
        let cache = Cache::new(100);
        for key in 0..10 {
            cache.get(key, async || Ok((key, 30))).await.unwrap();
            assert!(cache.state.lock().weight <= 100);
        }
        assert!(cache.state.lock().slots.contains_key(&9));
        assert!(!cache.state.lock().slots.contains_key(&0));
    }

    #[tokio::test]
    async fn a_dropped_value_that_is_in_use_is_not_loaded_a_second_time() {
        let cache = Cache::new(100);
        let load = |key: usize| async move { Ok((key, 80)) };
        let held = cache.get(1, || load(1)).await.unwrap();
        drop(cache.get(2, || load(2)).await.unwrap());
        assert!(!cache.state.lock().slots.contains_key(&1));
        let again = cache.get(1, async || panic!("it is loaded already")).await.unwrap();
        assert!(Arc::ptr_eq(&held, &again));
        assert_eq!(cache.state.lock().weight, 80);
        // An unused value is loaded again, and dropped entries are cleaned up.
        drop((held, again));
        for key in 2..50 {
            cache.get(key, || load(key)).await.unwrap();
        }
        assert!(cache.state.lock().dropped.len() <= 2);
    }

    #[tokio::test]
    async fn a_failed_load_is_retried() {
        let cache = Cache::<_, i32>::new(100);
        assert!(cache.get(1, async || Err(Error::unavailable("down"))).await.is_err());
        assert_eq!(*cache.get(1, async || Ok((5, 1))).await.unwrap(), 5);
    }
}
