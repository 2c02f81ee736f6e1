//! Lines of many small requests in one builder: blocks made for each would cost more than reading the lines.

use tidelake_format::{Result, rows::Block, schema::Database};

use super::{LinePrecision, Reading, Scale, Seen, WORDS};
use crate::decode::{Lookup, request::Rows};

/// Bytes of lines that are enough for a block.
const FULL: usize = 256 << 10;

/// So many cells are few, and where there are more, there should be one for two bytes of lines at most.
const SPARSE_CELLS: usize = 8 << 10;

/// Lines of requests, one of each, in the order in which they came. All are of one database and checked against one
/// catalog.
#[derive(Default)]
pub struct Gathered {
    /// The lines, those that were not taken included: keys that were seen are found in it.
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
    /// Whether it should take no more: where each line has other columns, their nulls take more than the lines.
    pub fn is_full(&self) -> bool {
        self.body.len() >= FULL || self.rows.cells() > SPARSE_CELLS + self.body.len() / 2
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the row of a body that is one good line for which the catalog lacks nothing. False when it is anything
    /// else: nothing of it is left then, and [`decode`](super::decode) says what it is.
    pub fn add(
        &mut self,
        body: &[u8],
        lookup: &dyn Lookup,
        database: &Database,
        precision: LinePrecision,
        now: i64,
    ) -> bool {
        let line = body.strip_suffix(b"\n").unwrap_or(body);
        // A text that is not UTF-8 would be found when the block of all is made.
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

    /// The blocks, one for each table.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) when there are more than 2 GiB of text.
    pub fn finish(self) -> Result<Vec<Block>> {
        self.rows.finish()
    }
}
