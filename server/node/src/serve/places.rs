//! Connection limits per client: per address, and per user from all addresses.
//!
//! The listener limits the total number of connections. Without a limit per client, one client with idle connections
//! could take all of them, and other clients would wait in the backlog.

use std::{collections::HashMap, hash::Hash, net::IpAddr, sync::Arc};

use parking_lot::Mutex;
use tidelake_format::{Error, Result, auth::network};
use tokio_util::sync::CancellationToken;

/// Connection counts of the process by address and by user. Cheap to clone.
#[derive(Clone)]
pub(super) struct Places(Arc<Shared>);

struct Shared {
    most: usize,
    addresses: Mutex<HashMap<IpAddr, usize>>,
    users: Mutex<HashMap<Box<str>, usize>>,
}

/// A connection's place in the counts; released on drop.
pub(super) struct Place {
    places: Places,
    address: IpAddr,
    /// The first user who sent a request on this connection.
    user: Mutex<Option<Box<str>>>,
    /// Ends the connection when its user has too many.
    over: CancellationToken,
}

impl Places {
    /// Allows at most `most` connections per address and per user.
    pub(super) fn new(most: usize) -> Self {
        Self(Arc::new(Shared { most, addresses: Mutex::default(), users: Mutex::default() }))
    }

    /// Takes a place for a connection from `address`; `None` if the address has reached its limit. The addresses of one IPv6
    /// network count as one client.
    pub(super) fn take(&self, address: IpAddr) -> Option<Arc<Place>> {
        let address = network(address);
        let (user, over) = (Mutex::default(), CancellationToken::new());
        let place = || Arc::new(Place { places: self.clone(), address, user, over });
        count(&self.0.addresses, address, self.0.most).then(place)
    }
}

impl Place {
    /// Counts this connection for the user who sent a request on it.
    ///
    /// # Errors
    /// Unavailable if the user has too many connections: this one ends after its requests are answered.
    pub(super) fn of(&self, user: &str) -> Result<()> {
        let mut known = self.user.lock();
        if known.is_some() {
            return Ok(());
        }
        if !count(&self.places.0.users, user.into(), self.places.0.most) {
            self.over.cancel();
            return Err(Error::unavailable("user has too many connections; close some or retry later")
                .with("max_client_connections", self.places.0.most));
        }
        *known = Some(user.into());
        Ok(())
    }

    /// Resolves when the connection's user has too many connections.
    pub(super) async fn is_over(&self) {
        self.over.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        uncount(&self.places.0.addresses, &self.address);
        if let Some(user) = self.user.get_mut() {
            uncount(&self.places.0.users, user);
        }
    }
}

/// Increments the count of a key unless it has reached `most`.
fn count<K: Eq + Hash>(counts: &Mutex<HashMap<K, usize>>, key: K, most: usize) -> bool {
    let mut counts = counts.lock();
    let found = counts.entry(key).or_default();
    let is_free = *found < most;
    *found += usize::from(is_free);
    is_free
}

fn uncount<K: Eq + Hash>(counts: &Mutex<HashMap<K, usize>>, key: &K) {
    let mut counts = counts.lock();
    if let Some(found) = counts.get_mut(key) {
        *found -= 1;
        if *found == 0 {
            counts.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_and_one_user_have_no_more_places_than_they_may_and_others_have_theirs() {
        let places = Places::new(2);
        let from = |text: &str| places.take(text.parse().unwrap());
        let held: Vec<_> = (0..3).filter_map(|_| from("10.0.0.1")).collect();
        assert_eq!(held.len(), 2);
        let (other, same_host) = (from("10.0.0.2").unwrap(), from("::ffff:10.0.0.1"));
        assert!(same_host.is_none(), "IPv4 within IPv6 is the same address");
        let network: Vec<_> = ["2001:db8::1", "2001:db8::2", "2001:db8::3"].into_iter().filter_map(from).collect();
        assert_eq!(network.len(), 2);

        assert!(held[0].of("ada").is_ok() && held[1].of("ada").is_ok());
        assert!(other.of("ada").is_err() && other.over.is_cancelled());
        assert!(network[0].of("bob").is_ok());
        // A second user on one connection comes from a proxy and is not counted.
        assert!(held[0].of("bob").is_ok() && !held[0].over.is_cancelled());
        drop((held, other, network));
        assert!(places.0.addresses.lock().is_empty() && places.0.users.lock().is_empty());
    }
}
