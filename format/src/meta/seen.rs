//! State that garbage collections of one process keep about a root.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::ids::Version;

/// State kept between collections, so that each version is read once.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// The versions that each retained version refers to.
    pub(crate) refs: Mutex<BTreeMap<Version, Vec<Version>>>,
    /// The last version whose successor's removals are done.
    pub(crate) done: Mutex<Option<Version>>,
}
