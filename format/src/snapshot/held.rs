//! Values that a cache keeps, and those that it has no place for and finds again as long as somebody else uses them.

use std::sync::{Arc, Weak};

/// A value of a cache.
#[derive(Debug, Clone)]
pub(super) enum Held<T> {
    /// The cache keeps it.
    Kept(Arc<T>),
    /// It is there as long as somebody else uses it.
    InUse(Weak<T>),
}

impl<T> Held<T> {
    /// Keeps a value, or only notes where it is.
    pub(super) fn new(value: &Arc<T>, is_kept: bool) -> Self {
        if is_kept { Self::Kept(value.clone()) } else { Self::InUse(Arc::downgrade(value)) }
    }

    /// The value; `None` where nobody uses it any more.
    pub(super) fn get(&self) -> Option<Arc<T>> {
        match self {
            Self::Kept(value) => Some(value.clone()),
            Self::InUse(value) => value.upgrade(),
        }
    }
}
