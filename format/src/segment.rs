//! Log segments: one durable object holding the rows of one flush, of one or more supertables.
//!
//! Pure: blocks in, bytes out and back. [`concat_blocks`] unites the blocks of the requests of one group commit.

mod concat;

use bytes::Bytes;

pub use concat::concat_blocks;

use crate::{
    error::{Error, Result},
    ids::Position,
    rows::Block,
};

/// What a segment says of itself before its blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Its writer and number, equal to those of its key.
    pub position: Position,
    /// When its writer started, wall clock, milliseconds since the epoch.
    pub writer_start_ms: i64,
    /// When it was flushed: the writer's wall clock, never less than that of the segment before it.
    pub stamp_ms: i64,
}

/// A decoded log segment.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Where it belongs and when it was written.
    pub header: SegmentHeader,
    /// The rows, one block per table.
    pub blocks: Vec<Block>,
}

/// Encodes a segment; the same blocks always give the same bytes.
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal) when Arrow refuses the blocks.
pub fn encode(header: &SegmentHeader, blocks: &[Block]) -> Result<Bytes> {
    let _ = (header, blocks);
    Err(Error::internal("segments cannot be written yet"))
}

/// Decodes a segment; `key` is only for messages.
///
/// # Errors
/// [`Kind::Unsupported`](crate::Kind::Unsupported) for a newer format version, otherwise
/// [`Kind::Corrupt`](crate::Kind::Corrupt); both name the key, what was expected and what was found.
pub fn decode(key: &str, bytes: &Bytes) -> Result<Segment> {
    let _ = bytes;
    Err(Error::internal("segments cannot be read yet").with("key", key))
}
