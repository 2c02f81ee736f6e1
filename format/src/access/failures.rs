//! How often somebody has tried in vain.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Failures of one address, or about one user, after which the next try waits.
const MANY: u32 = 10;
/// After this time one failure is forgiven.
const FORGIVEN: Duration = Duration::from_secs(6);
/// The most addresses and users that are remembered.
const REMEMBERED: usize = 20_000;

/// Who failed how often lately. An address counts, and a user as seen from that address: nobody locks another one out.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<HashMap<Key, Bucket>>);

type Key = (Option<IpAddr>, Option<String>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    count: u32,
    since: Instant,
}

impl Bucket {
    /// What is left of it.
    fn settled(self, now: Instant) -> Self {
        let forgiven = (now.saturating_duration_since(self.since).as_millis() / FORGIVEN.as_millis()) as u32;
        let forgiven = forgiven.min(self.count);
        Self { count: self.count - forgiven, since: self.since + FORGIVEN * forgiven }
    }
}

impl Failures {
    fn keys(peer: Option<IpAddr>, user: &str) -> [(Key, u32); 2] {
        // Who has an address of IPv6 has all of its network.
        let peer = peer.map(|peer| match peer {
            IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
            v4 => v4,
        });
        // All users of one address together may fail more often: it may be a proxy's.
        [((peer, None), 10 * MANY), ((peer, Some(user.to_owned())), MANY)]
    }

    /// Counts a try as a failure; how long it has to wait, and is not counted, where there were too many.
    pub(super) fn begin(&self, peer: Option<IpAddr>, user: &str, now: Instant) -> Option<Duration> {
        let mut known = self.0.lock();
        let keys = Self::keys(peer, user);
        let wait_of = |(key, most): &(Key, u32)| {
            let bucket = known.get(key)?.settled(now);
            (bucket.count >= *most).then(|| FORGIVEN.saturating_sub(now.saturating_duration_since(bucket.since)))
        };
        if let Some(wait) = keys.iter().filter_map(wait_of).max() {
            return Some(wait);
        }
        if known.len() >= REMEMBERED {
            known.retain(|_, bucket| bucket.settled(now).count > 0);
        }
        if known.len() >= REMEMBERED {
            known.clear();
        }
        for (key, _) in keys {
            let bucket = known.entry(key).or_insert(Bucket { count: 0, since: now });
            *bucket = bucket.settled(now);
            if bucket.count == 0 {
                bucket.since = now;
            }
            bucket.count += 1;
        }
        None
    }

    /// A try was none.
    pub(super) fn forgive(&self, peer: Option<IpAddr>, user: &str) {
        let mut known = self.0.lock();
        for (key, _) in Self::keys(peer, user) {
            if let Some(bucket) = known.get_mut(&key) {
                bucket.count = bucket.count.saturating_sub(1);
            }
        }
    }
}
