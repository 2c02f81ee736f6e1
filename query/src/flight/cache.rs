//! A map bounded by what its values weigh and by how long they may lie unused; losing one costs a client nothing
//! but time, or a clear error.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use hashbrown::HashMap;
use parking_lot::Mutex;

/// Random, made by us: sixteen bytes.
pub(super) type Key = [u8; 16];

struct Entry<V> {
    value: V,
    bytes: usize,
    used: Instant,
    turn: u64,
}

struct State<V> {
    entries: HashMap<Key, Entry<V>>,
    /// Which entry was used in which turn, least recently first.
    order: BTreeMap<u64, Key>,
    bytes: usize,
    turn: u64,
}

/// Values by key; the least recently used go first when there are too many bytes, and each goes when nobody used it
/// for its lifetime.
pub(super) struct Cache<V> {
    state: Mutex<State<V>>,
    max_bytes: usize,
    lifetime: Duration,
}

impl<V: Clone> Cache<V> {
    /// An empty one. `max_bytes` bounds the sum of what [`Cache::insert`] is told.
    pub(super) fn new(max_bytes: usize, lifetime: Duration) -> Self {
        let state = State { entries: HashMap::new(), order: BTreeMap::new(), bytes: 0, turn: 0 };
        Self { state: Mutex::new(state), max_bytes, lifetime }
    }

    /// Keeps a value of about `bytes`, in place of the key's last one. One larger than the whole cache is not kept.
    pub(super) fn insert(&self, key: Key, value: V, bytes: usize, now: Instant) {
        let mut state = self.state.lock();
        state.remove(&key);
        if bytes > self.max_bytes {
            return;
        }
        while let Some((turn, oldest)) = state.order.first_key_value().map(|(t, k)| (*t, *k)) {
            let expired = state.entries.get(&oldest).is_none_or(|e| now.duration_since(e.used) >= self.lifetime);
            if !expired && state.bytes + bytes <= self.max_bytes {
                break;
            }
            state.remove(&oldest);
            state.order.remove(&turn);
        }
        state.turn += 1;
        let turn = state.turn;
        state.order.insert(turn, key);
        state.bytes += bytes;
        state.entries.insert(key, Entry { value, bytes, used: now, turn });
    }

    /// The value of a key, which counts as a use.
    pub(super) fn get(&self, key: &Key, now: Instant) -> Option<V> {
        let mut state = self.state.lock();
        if now.duration_since(state.entries.get(key)?.used) >= self.lifetime {
            state.remove(key);
            return None;
        }
        state.turn += 1;
        let turn = state.turn;
        let entry = state.entries.get_mut(key)?;
        let last = std::mem::replace(&mut entry.turn, turn);
        entry.used = now;
        let value = entry.value.clone();
        state.order.remove(&last);
        state.order.insert(turn, *key);
        Some(value)
    }

    /// Takes a key's value out, if it is one that may be taken; another stays.
    pub(super) fn take_if(&self, key: &Key, now: Instant, may: impl FnOnce(&V) -> bool) -> Option<V> {
        let mut state = self.state.lock();
        if !may(&state.entries.get(key)?.value) {
            return None;
        }
        let entry = state.remove(key)?;
        (now.duration_since(entry.used) < self.lifetime).then_some(entry.value)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.state.lock().entries.len()
    }
}

impl<V> State<V> {
    fn remove(&mut self, key: &Key) -> Option<Entry<V>> {
        let entry = self.entries.remove(key)?;
        self.order.remove(&entry.turn);
        self.bytes -= entry.bytes;
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> Key {
        [n; 16]
    }

    const LIFETIME: Duration = Duration::from_secs(60);

    #[test]
    fn the_least_recently_used_goes_first() {
        let (cache, now) = (Cache::new(3, LIFETIME), Instant::now());
        for n in 0..3 {
            cache.insert(key(n), n, 1, now);
        }
        assert_eq!(cache.get(&key(0), now), Some(0));
        cache.insert(key(3), 3, 1, now);
        let found = [0, 1, 2, 3].map(|n| cache.get(&key(n), now));
        assert_eq!(found, [Some(0), None, Some(2), Some(3)]);
        cache.insert(key(4), 4, 4, now);
        assert_eq!(
            (cache.get(&key(4), now), cache.len()),
            (None, 3),
            "too large to keep, and nothing had to go for it"
        );
    }

    #[test]
    fn a_value_goes_when_nobody_used_it_for_its_lifetime() {
        let (cache, start) = (Cache::new(100, LIFETIME), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        cache.insert(key(1), 1, 1, at(0));
        assert_eq!(cache.get(&key(1), at(59)), Some(1));
        assert_eq!(cache.take_if(&key(1), at(100), |_| false), None);
        assert_eq!(cache.take_if(&key(1), at(118), |value| *value == 1), Some(1));
        cache.insert(key(2), 2, 1, at(118));
        assert_eq!(cache.get(&key(2), at(178)), None);
        cache.insert(key(3), 3, 1, at(178));
        cache.insert(key(4), 4, 1, at(300));
        assert_eq!(cache.len(), 1, "an insertion removes what has expired");
    }

    #[test]
    fn a_new_value_replaces_the_old_and_its_weight() {
        let (cache, now) = (Cache::new(10, LIFETIME), Instant::now());
        for n in 0..50 {
            cache.insert(key(1), n, 9, now);
        }
        cache.insert(key(2), 2, 1, now);
        assert_eq!((cache.get(&key(1), now), cache.get(&key(2), now)), (Some(49), Some(2)));
        assert_eq!((cache.take_if(&key(1), now, |_| true), cache.len()), (Some(49), 1));
    }
}
