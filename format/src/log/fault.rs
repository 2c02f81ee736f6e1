//! A segment of the log whose rows cannot be had.

use std::sync::Arc;

use crate::{
    error::Error,
    ids::{Position, TableId},
    layout,
    meta::FaultySegment,
};

/// A segment that could not be decoded.
#[derive(Debug, Clone)]
pub struct Fault {
    /// Its place.
    pub position: Position,
    /// The tables whose rows it holds; `None` where that cannot be told: any may be among them.
    pub tables: Option<Vec<TableId>>,
    /// Why: [`Kind::Corrupt`](crate::Kind::Corrupt) or [`Kind::Unsupported`](crate::Kind::Unsupported), naming
    /// the key.
    pub error: Arc<Error>,
}

impl Fault {
    /// That of a segment in quarantine.
    pub(crate) fn quarantined(position: Position, faulty: &FaultySegment) -> Self {
        let what = match faulty.missing {
            true => "a log segment is missing below later ones of its writer, and the log went on without it",
            false => "a log segment is quarantined: it could not be read",
        };
        let error = Error::corrupt(what).with("key", layout::log_key(position)).with("found", &faulty.error);
        Self { position, tables: faulty.tables.clone(), error: Arc::new(error) }
    }

    /// Whether it may hold rows of a table.
    pub fn concerns(&self, table: TableId) -> bool {
        self.tables.as_ref().is_none_or(|tables| tables.contains(&table))
    }

    /// The error again, to return.
    pub fn to_error(&self) -> Error {
        self.error.copied().source(self.error.clone())
    }
}
