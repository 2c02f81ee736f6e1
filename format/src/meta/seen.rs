//! What collections of garbage remember of a root.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::ids::Version;

/// What collections of one process remember: versions are read once.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// What each retained version points into.
    pub(crate) refs: Mutex<BTreeMap<Version, Vec<Version>>>,
    /// The last version whose successor's removals are done.
    pub(crate) done: Mutex<Option<Version>>,
}
