//! The data a statement sees: a snapshot, and the reader for its objects.

use std::sync::Arc;

use tidelake_format::{access::Principal, snapshot::Snapshot};

use super::reader::Reader;
use crate::visible::Visible;

/// One snapshot of the root, for one statement. Scans find it as an extension of the session's configuration.
#[derive(Debug)]
pub(crate) struct View {
    /// The snapshot to read.
    pub(crate) snapshot: Arc<Snapshot>,
    /// The reader of its objects.
    pub(crate) reader: Arc<Reader>,
    /// The objects of the snapshot that the statement may name.
    pub(crate) visible: Visible,
}

impl View {
    /// Creates a view of a snapshot for a principal.
    pub(crate) fn new(snapshot: Arc<Snapshot>, reader: Arc<Reader>, principal: Principal) -> Self {
        let visible = Visible::new(snapshot.catalog.clone(), principal);
        Self { snapshot, reader, visible }
    }
}
