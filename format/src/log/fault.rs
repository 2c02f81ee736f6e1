//! A log segment whose rows cannot be read.

use std::sync::Arc;

use crate::{
    error::Error,
    ids::{Position, TableId},
    layout,
    meta::FaultySegment,
};

/// A segment that is missing or cannot be decoded.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Writer and number of the segment.
    pub position: Position,
    /// The tables whose rows the segment holds; `None` if unknown: any table may be among them.
    pub tables: Option<Vec<TableId>>,
    /// The cause, with the key: [`Kind::Corrupt`](crate::Kind::Corrupt) or
    /// [`Kind::Unsupported`](crate::Kind::Unsupported).
    pub error: Arc<Error>,
}

impl Fault {
    /// The fault of a quarantined segment.
    pub(crate) fn quarantined(position: Position, faulty: &FaultySegment) -> Self {
        let what = match faulty.missing {
            true => "log segment missing: its writer has put later ones; folding continued without it",
            false => "log segment quarantined: it could not be read",
        };
        let error = Error::corrupt(what).with("key", layout::log_key(position)).with("found", &faulty.error);
        Self { position, tables: faulty.tables.clone(), error: Arc::new(error) }
    }

    /// Whether the segment may hold rows of `table`.
    pub fn concerns(&self, table: TableId) -> bool {
        self.tables.as_ref().is_none_or(|tables| tables.contains(&table))
    }

    /// A copy of the error, to return.
    pub fn to_error(&self) -> Error {
        self.error.copied().source(self.error.clone())
    }
}
