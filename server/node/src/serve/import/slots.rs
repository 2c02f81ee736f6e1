//! Bounds the number of files that are imported at once, since each takes space in the temporary directory.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tidelake_format::{Error, Result};

/// Number of files at once.
const FILES: usize = 8;
/// Number of files of one user at once.
const OF_A_USER: usize = 4;

/// Counts of files; cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Slots(Arc<Mutex<HashMap<String, usize>>>);

/// One file until it is imported.
#[derive(Debug)]
pub(super) struct Slot {
    slots: Slots,
    user: String,
}

impl Slots {
    /// Takes a place for a file of a user; without authentication all requests are of one user, who may use all places.
    ///
    /// # Errors
    /// Unavailable if there is none.
    pub(super) fn take(&self, user: Option<&str>) -> Result<Slot> {
        let mut counts = self.0.lock();
        let all: usize = counts.values().sum();
        let of_user = user.map_or(0, |user| counts.get(user).copied().unwrap_or(0));
        if all >= FILES || of_user >= OF_A_USER {
            return Err(Error::unavailable("too many files are being imported; retry later")
                .with("limit", format!("{FILES}, {OF_A_USER} of one user"))
                .with("found", format!("{all}, {of_user} of this user")));
        }
        let user = user.unwrap_or_default().to_owned();
        *counts.entry(user.clone()).or_default() += 1;
        drop(counts);
        Ok(Slot { slots: self.clone(), user })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut counts = self.slots.0.lock();
        if let Some(count) = counts.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_leaves_half_of_the_places_to_others_and_gives_them_back() {
        let slots = Slots::default();
        let mut of_ada: Vec<Slot> = (0..OF_A_USER).map(|_| slots.take(Some("ada")).unwrap()).collect();
        assert!(slots.take(Some("ada")).is_err());
        let of_bob: Vec<Slot> = (0..OF_A_USER).map(|_| slots.take(Some("bob")).unwrap()).collect();
        assert!(slots.take(Some("carol")).is_err() && slots.take(None).is_err());
        of_ada.pop();
        assert!(slots.take(Some("ada")).is_ok());
        drop((of_ada, of_bob));
        assert!(slots.0.lock().is_empty());
        let all: Vec<Slot> = (0..FILES).map(|_| slots.take(None).unwrap()).collect();
        assert_eq!(all.len(), FILES);
    }
}
