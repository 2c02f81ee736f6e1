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
    fn keys(peer: Option<IpAddr>, user: Option<&str>) -> impl Iterator<Item = Key> {
        // A short name for what may be long.
        let user = user.map(|user| (peer, Some(user.chars().take(64).collect())));
        [Some((peer, None)), user].into_iter().flatten()
    }

    /// How long the next try has to wait.
    pub(super) fn wait(&self, peer: Option<IpAddr>, user: Option<&str>, now: Instant) -> Option<Duration> {
        let known = self.0.lock();
        let wait_of = |key: Key| {
            let bucket = known.get(&key)?.settled(now);
            // All users of one address together may fail more often: it may be a proxy's.
            let most = if key.1.is_some() { MANY } else { 10 * MANY };
            (bucket.count >= most).then(|| FORGIVEN.saturating_sub(now.saturating_duration_since(bucket.since)))
        };
        Self::keys(peer, user).filter_map(wait_of).max()
    }

    /// A try has failed.
    pub(super) fn add(&self, peer: Option<IpAddr>, user: Option<&str>, now: Instant) {
        let mut known = self.0.lock();
        if known.len() >= REMEMBERED {
            known.retain(|_, bucket| bucket.settled(now).count > 0);
        }
        if known.len() >= REMEMBERED {
            known.clear();
        }
        for key in Self::keys(peer, user) {
            let bucket = known.entry(key).or_insert(Bucket { count: 0, since: now });
            *bucket = bucket.settled(now);
            if bucket.count == 0 {
                bucket.since = now;
            }
            bucket.count = bucket.count.saturating_add(1);
        }
    }
}
