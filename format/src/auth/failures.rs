//! Counts failed logins and delays further tries.
//!
//! No user is locked out: after many failures, tries take turns. A right password gets its turn within seconds, even if
//! others guess from the same address; tries from other addresses do not wait for these turns.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

/// Failures of one address for one user, after which its tries take turns.
const MANY: u32 = 10;
/// The same limit for one address and all users, and for all addresses and one user.
const VERY_MANY: u32 = 10 * MANY;
/// Interval after which one failure is forgiven.
const FORGIVEN: Duration = Duration::from_secs(6);
/// Interval between the turns of one address for one user.
const APART: Duration = Duration::from_secs(1);
/// Interval between the turns of one address for all users; shorter, as the address may be a proxy's.
const APART_IN_ALL: Duration = Duration::from_millis(100);
/// Delay of each try for a user whom many addresses guess. These tries do not take turns: that would lock the user out.
const DELAY: Duration = Duration::from_secs(1);
/// The longest wait of a try for its turn.
pub(super) const LONGEST: Duration = Duration::from_secs(4);
/// Maximum number of counters kept.
const REMEMBERED: usize = 20_000;

/// Recent failures by address and user.
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
    /// Time of the next turn.
    next: Instant,
}

/// A counter of a try, the number of failures after which tries wait, and the interval of turns; `None`: a fixed delay.
type Limit = (Key, u32, Option<Duration>);

/// When a password may be verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// After this delay.
    In(Duration),
    /// Never: all turns within [`LONGEST`] are taken; the next free turn is after this delay.
    Never(Duration),
}

/// The network of a client, as one address: the /64 of an IPv6 address, as a client can use all of it; an IPv4-mapped
/// address is its IPv4 address.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

impl Bucket {
    /// The bucket at `now`, without forgiven failures.
    fn settled(self, now: Instant) -> Self {
        let forgiven = (now.saturating_duration_since(self.since).as_millis() / FORGIVEN.as_millis()) as u32;
        let forgiven = forgiven.min(self.count);
        Self { count: self.count - forgiven, since: self.since + FORGIVEN * forgiven, ..self }
    }
}

impl Failures {
    /// The counters of a try.
    fn keys(peer: Option<IpAddr>, user: &str) -> [Limit; 3] {
        let peer = peer.map(network);
        [
            (Key::AddressAndUser(peer, user.to_owned()), MANY, Some(APART)),
            (Key::Address(peer), VERY_MANY, Some(APART_IN_ALL)),
            (Key::User(user.to_owned()), VERY_MANY, None),
        ]
    }

    /// Counts a try as a failure before it is verified; returns when it may be verified. A try refused with
    /// [`Turn::Never`] is not counted.
    pub(super) fn begin(&self, peer: Option<IpAddr>, user: &str, now: Instant) -> Turn {
        let mut known = self.0.lock();
        let keys = Self::keys(peer, user);
        let wait = wait(&known, &keys, now);
        if wait > LONGEST {
            return Turn::Never(wait);
        }
        count(&mut known, keys, wait, now);
        Turn::In(wait)
    }

    /// Counts a try like [`Failures::begin`] if it may be verified at once. Otherwise returns the delay after which a try
    /// may be verified, and counts nothing.
    pub(super) fn begin_at_once(&self, peer: Option<IpAddr>, user: &str, now: Instant) -> Result<(), Duration> {
        let mut known = self.0.lock();
        let keys = Self::keys(peer, user);
        let wait = wait(&known, &keys, now);
        if !wait.is_zero() {
            return Err(wait);
        }
        count(&mut known, keys, wait, now);
        Ok(())
    }

    /// Takes back one failure of a try that was not wrong or not verified.
    pub(super) fn forgive(&self, peer: Option<IpAddr>, user: &str) {
        let mut known = self.0.lock();
        for (key, ..) in Self::keys(peer, user) {
            if let Some(bucket) = known.get_mut(&key) {
                bucket.count = bucket.count.saturating_sub(1);
            }
        }
    }
}

/// The time until a try may be verified: the longest of its counters.
fn wait(known: &HashMap<Key, Bucket>, keys: &[Limit], now: Instant) -> Duration {
    let of = |(key, most, apart): &Limit| {
        let bucket = known.get(key).map(|bucket| bucket.settled(now)).filter(|bucket| bucket.count >= *most)?;
        Some(apart.map_or(DELAY, |_| bucket.next.saturating_duration_since(now)))
    };
    keys.iter().filter_map(of).max().unwrap_or_default()
}

/// Counts a try that is verified after `wait`.
fn count(known: &mut HashMap<Key, Bucket>, keys: [Limit; 3], wait: Duration, now: Instant) {
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
        // Bounded by the limit: failures are forgiven as soon after a long attack as after a short one.
        bucket.count = (bucket.count + 1).min(most);
        if bucket.count == most {
            bucket.next = bucket.next.max(now + wait + apart.unwrap_or_default());
        }
    }
}
