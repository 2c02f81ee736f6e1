//! Cached values: those that the cache owns, and those beyond its limit that it can find while they are in use
//! elsewhere.

use std::sync::{Arc, Weak};

/// A cached value.
#[derive(Debug, Clone)]
pub(super) enum Held<T> {
    /// Owned by the cache.
    Kept(Arc<T>),
    /// Available as long as it is in use elsewhere.
    InUse(Weak<T>),
}

impl<T> Held<T> {
    /// Holds a value, or only a weak reference to it.
    pub(super) fn new(value: &Arc<T>, is_kept: bool) -> Self {
        if is_kept { Self::Kept(value.clone()) } else { Self::InUse(Arc::downgrade(value)) }
    }

    /// The value; `None` if it is no longer in use.
    pub(super) fn get(&self) -> Option<Arc<T>> {
        match self {
            Self::Kept(value) => Some(value.clone()),
            Self::InUse(value) => value.upgrade(),
        }
    }
}
