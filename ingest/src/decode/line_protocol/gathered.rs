//! Gathers lines of many small requests in one builder: one block per request would cost more than parsing the lines.

use tidelake_format::{Result, rows::Block, schema::Database};

use super::{LinePrecision, Reading, Scale, Seen, WORDS};
use crate::decode::{Lookup, request::Rows};

/// Bytes of lines that fill a block.
const FULL: usize = 256 << 10;

/// Number of cells below which sparseness does not matter; above it, at most one cell per two bytes of lines is wanted.
const SPARSE_CELLS: usize = 8 << 10;

/// Single-line requests in the order of arrival. All are for one database and are checked against one catalog.
#[derive(Default)]
pub struct Gathered {
    /// The lines, rejected ones included: cached keys refer to positions in it.
    body: Vec<u8>,
    seen: Seen,
    rows: Rows,
    len: usize,
}

impl std::fmt::Debug for Gathered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gathered").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Gathered {
    /// Whether no more lines should be added. If each line has other columns, their nulls take more space than the lines.
    pub fn is_full(&self) -> bool {
        self.body.len() >= FULL || self.rows.cells() > SPARSE_CELLS + self.body.len() / 2
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the row of a body of exactly one valid line that needs no schema change. Returns false for any other body: nothing
    /// of it remains then, and [`decode`](super::decode) determines the reply.
    pub fn add(
        &mut self,
        body: &[u8],
        lookup: &dyn Lookup,
        database: &Database,
        precision: LinePrecision,
        now: i64,
    ) -> bool {
        let line = body.strip_suffix(b"\n").unwrap_or(body);
        // Invalid UTF-8 would otherwise be found only when the common block is built.
        if memchr::memchr(b'\n', line).is_some() || std::str::from_utf8(line).is_err() {
            return false;
        }
        let start = self.body.len();
        self.body.extend_from_slice(line);
        self.body.push(b'\n');
        let mut reading = Reading {
            body: &self.body,
            request: std::mem::take(&mut self.rows).resume(lookup, database, now, &WORDS),
            seen: std::mem::take(&mut self.seen),
            tags: Vec::new(),
            scale: Scale::new(precision, database.precision),
            now,
            longest: usize::MAX,
        };
        reading.run(start);
        let accepted = reading.request.accepted;
        self.seen = reading.seen;
        self.rows = reading.request.suspend();
        self.len += accepted;
        accepted == 1
    }

    /// Builds the blocks, one per table.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) if there are more than 2 GiB of text.
    pub fn finish(self) -> Result<Vec<Block>> {
        self.rows.finish()
    }
}
