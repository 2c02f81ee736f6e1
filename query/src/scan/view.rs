//! What one statement sees: a snapshot, and the reader that brings what it names.

use std::sync::Arc;

use tidelake_format::{access::Principal, snapshot::Snapshot};

use super::reader::Reader;
use crate::visible::Visible;

/// One snapshot of the root, for one statement. Scans find it as an extension of the session's configuration.
#[derive(Debug)]
pub(crate) struct View {
    /// What is read.
    pub(crate) snapshot: Arc<Snapshot>,
    /// How it is read.
    pub(crate) reader: Arc<Reader>,
    /// What of it can be named.
    pub(crate) visible: Visible,
}

impl View {
    /// A view of a snapshot, by somebody.
    pub(crate) fn new(snapshot: Arc<Snapshot>, reader: Arc<Reader>, principal: Principal) -> Self {
        let visible = Visible::new(snapshot.catalog.clone(), principal);
        Self { snapshot, reader, visible }
    }
}
