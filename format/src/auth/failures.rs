//! How often somebody has tried in vain, and how long the next try waits for it.
//!
//! Nobody is locked out: after many failures, tries take turns. A right password gets its turn among those of whoever
//! guesses from the same address, within seconds; from every other address it waits for no one.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Failures of one address about one user, after which its tries take turns.
const MANY: u32 = 10;
/// Failures of one address about any users, and of any addresses about one user.
const VERY_MANY: u32 = 10 * MANY;
/// After this time one failure is forgiven.
const FORGIVEN: Duration = Duration::from_secs(6);
/// Between the turns of one address about one user.
const APART: Duration = Duration::from_secs(1);
/// Between the turns of one address about any users: it may be a proxy's.
const APART_IN_ALL: Duration = Duration::from_millis(100);
/// How long each try about a user waits whom many addresses guess. They do not take turns: that would lock the user out.
const DELAY: Duration = Duration::from_secs(1);
/// The longest that a try waits for its turn.
pub(super) const LONGEST: Duration = Duration::from_secs(4);
/// The most addresses and users that are remembered.
const REMEMBERED: usize = 20_000;

/// Who failed how often lately.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<HashMap<Key, Bucket>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Address(Option<IpAddr>),
    AddressAndUser(Option<IpAddr>, String),
    User(String),
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    count: u32,
    since: Instant,
    /// When the next turn is.
    next: Instant,
}

/// When a password may be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// After so long.
    In(Duration),
    /// Not at all: others of its address wait for all turns of the next [`LONGEST`]; the next one is after so long.
    Never(Duration),
}

/// The clients that an address stands for, as one address: who has one of IPv6 has all of its network, and one of IPv4
/// within IPv6 is that of IPv4.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

impl Bucket {
    /// What is left of it.
    fn settled(self, now: Instant) -> Self {
        let forgiven = (now.saturating_duration_since(self.since).as_millis() / FORGIVEN.as_millis()) as u32;
        let forgiven = forgiven.min(self.count);
        Self { count: self.count - forgiven, since: self.since + FORGIVEN * forgiven, ..self }
    }
}

impl Failures {
    /// What a try counts for, after how many failures it waits, and how far apart turns are then; `None` for a delay.
    fn keys(peer: Option<IpAddr>, user: &str) -> [(Key, u32, Option<Duration>); 3] {
        let peer = peer.map(network);
        [
            (Key::AddressAndUser(peer, user.to_owned()), MANY, Some(APART)),
            (Key::Address(peer), VERY_MANY, Some(APART_IN_ALL)),
            (Key::User(user.to_owned()), VERY_MANY, None),
        ]
    }

    /// Counts a try as a failure, before it is known to be one; when it may be looked at. One that may not is not counted.
    pub(super) fn begin(&self, peer: Option<IpAddr>, user: &str, now: Instant) -> Turn {
        let mut known = self.0.lock();
        let keys = Self::keys(peer, user);
        let wait_of = |(key, most, apart): &(Key, u32, Option<Duration>)| {
            let bucket = known.get(key).map(|bucket| bucket.settled(now)).filter(|bucket| bucket.count >= *most)?;
            Some(apart.map_or(DELAY, |_| bucket.next.saturating_duration_since(now)))
        };
        let wait = keys.iter().filter_map(wait_of).max().unwrap_or_default();
        if wait > LONGEST {
            return Turn::Never(wait);
        }
        if known.len() >= REMEMBERED {
            known.retain(|_, bucket| bucket.settled(now).count > 0);
        }
        if known.len() >= REMEMBERED {
            known.clear();
        }
        for (key, most, apart) in keys {
            let bucket = known.entry(key).or_insert(Bucket { count: 0, since: now, next: now });
            *bucket = bucket.settled(now);
            if bucket.count == 0 {
                bucket.since = now;
            }
            // Not more than it takes: it is forgiven as soon after a long attack as after a short one.
            bucket.count = (bucket.count + 1).min(most);
            if bucket.count == most {
                bucket.next = bucket.next.max(now + wait + apart.unwrap_or_default());
            }
        }
        Turn::In(wait)
    }

    /// A try was none.
    pub(super) fn forgive(&self, peer: Option<IpAddr>, user: &str) {
        let mut known = self.0.lock();
        for (key, ..) in Self::keys(peer, user) {
            if let Some(bucket) = known.get_mut(&key) {
                bucket.count = bucket.count.saturating_sub(1);
            }
        }
    }
}
