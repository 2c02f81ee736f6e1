//! Log segments: one durable object holding the rows of one flush, of one or more supertables.
//!
//! Pure functions: blocks to bytes and back. [`concat_blocks`] unites the blocks of the requests of one group commit.
//!
//! ```text
//! offset  size  little-endian
//!      0     8  magic "TLSEGMNT"
//!      8     2  format version, 1
//!     10     2  flags: 1, its writer has keys of messages of queues
//!     12     4  number of blocks, n
//!     16    16  writer id
//!     32     8  seq
//!     40     8  start of the writer, ms since the epoch, signed
//!     48     8  stamp, ns since the epoch, signed
//!     56  32·n  directory: table u32, series u32, rows u32, crc32 u32, offset u64, stored u32, raw u32
//!  56+32n    4  crc32 of all bytes before it
//!   …           bodies, adjacent, in the order of the directory, to the end of the object
//! ```
//!
//! A body is one zstd frame (level 1; uncompressed if small, or if large and compression does not pay) of `raw` bytes:
//! the length of the first stream (u64), the Arrow IPC stream of the series set, the Arrow IPC stream of the rows; each
//! stream has one record batch. Integers of fields are stored in the narrowest type that holds them.

mod body;
mod concat;
pub(crate) mod ipc;
mod narrow;

use arrow::array::RecordBatch;
use body::{Body, MAX_RAW};
use bytes::{BufMut, Bytes};

pub use body::Compression;
pub use concat::concat_blocks;

use crate::{
    error::{Error, Result},
    ids::{Position, TableId, WriterId},
    rows::{Block, SeriesSet},
};

/// Magic bytes at the start of every segment.
pub const MAGIC: &[u8; 8] = b"TLSEGMNT";
/// The format version that this code writes, and the newest it reads.
pub const FORMAT_VERSION: u16 = 1;

/// The flag of [`SegmentHeader::queue_keys`].
const QUEUE_KEYS: u16 = 1;

/// Maximum number of blocks of a segment.
const MAX_BLOCKS: usize = 1 << 20;
/// Number of bytes that [`header`] needs.
pub const HEADER: usize = 56;
const ENTRY: usize = 32;

/// The fixed header of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Writer and number; equal to those in the segment's key.
    pub position: Position,
    /// Start of the writer by the wall clock, milliseconds since the epoch.
    pub writer_start_ms: i64,
    /// Time of the flush: the wall clock of the process in nanoseconds since the epoch, always greater than the stamp
    /// of every segment that the process flushed before.
    pub stamp_ns: i64,
    /// Whether an idempotency key of [`Kept::Queue`](crate::layout::Kept::Queue) names the position, so that its
    /// writer's watermark must be kept as long as such keys.
    pub queue_keys: bool,
}

/// A decoded log segment.
#[derive(Debug, Clone, PartialEq)]
pub struct Segment {
    /// Position and time.
    pub header: SegmentHeader,
    /// The rows, one block per table.
    pub blocks: Vec<Block>,
}

/// Encodes a segment; the same blocks and the same `compression` always give the same bytes.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) when a block exceeds 1 GiB; [`Kind::Internal`](crate::Kind::Internal) when
/// Arrow rejects one.
pub fn encode(header: &SegmentHeader, blocks: &[Block], compression: Compression) -> Result<Bytes> {
    if blocks.len() > MAX_BLOCKS {
        return Err(Error::invalid("too many tables for one segment")
            .with("limit", MAX_BLOCKS)
            .with("found", blocks.len()));
    }
    let bodies = blocks.iter().map(|block| Body::of(block, compression)).collect::<Result<Vec<_>>>()?;
    let start = HEADER + ENTRY * blocks.len() + 4;
    let mut out = Vec::with_capacity(start + bodies.iter().map(Body::len).sum::<usize>());
    out.put_slice(MAGIC);
    out.put_u16_le(FORMAT_VERSION);
    out.put_u16_le(if header.queue_keys { QUEUE_KEYS } else { 0 });
    out.put_u32_le(blocks.len() as u32);
    out.put_u128_le(header.position.writer.0);
    out.put_u64_le(header.position.seq);
    out.put_i64_le(header.writer_start_ms);
    out.put_i64_le(header.stamp_ns);
    out.resize(start, 0);
    for (i, (block, body)) in blocks.iter().zip(&bodies).enumerate() {
        let offset = out.len();
        body.put(&mut out);
        let (crc, stored) = (crc32fast::hash(&out[offset..]), out.len() - offset);
        let mut entry = &mut out[HEADER + ENTRY * i..][..ENTRY];
        entry.put_u32_le(block.table.0);
        entry.put_u32_le(block.series.len() as u32);
        entry.put_u32_le(block.len() as u32);
        entry.put_u32_le(crc);
        entry.put_u64_le(offset as u64);
        entry.put_u32_le(stored as u32);
        entry.put_u32_le(body.raw as u32);
    }
    let crc = crc32fast::hash(&out[..start - 4]);
    out[start - 4..start].copy_from_slice(&crc.to_le_bytes());
    Ok(out.into())
}

/// Decodes a segment; `key` is used in messages only. The caller must check that the position in the header equals that
/// of the key.
///
/// # Errors
/// [`Kind::Unsupported`](crate::Kind::Unsupported) for a newer format version, otherwise
/// [`Kind::Corrupt`](crate::Kind::Corrupt); both name the key and the expected and found values.
pub fn decode(key: &str, bytes: &Bytes) -> Result<Segment> {
    decode_inner(bytes).map_err(|e| e.with("key", key))
}

/// The tables with rows or series in the segment at `position`, if its directory is intact, even if its blocks are
/// damaged.
pub fn tables(position: Position, bytes: &Bytes) -> Option<Vec<TableId>> {
    let count = check_start(bytes, MAGIC, (FORMAT_VERSION, QUEUE_KEYS), HEADER, "log segment").ok()?;
    let directory = (count <= MAX_BLOCKS).then_some(HEADER + ENTRY * count).filter(|d| bytes.len() >= d + 4)?;
    check_crc("the header of a log segment", &bytes[..directory], u32_at(bytes, directory)).ok()?;
    let found = Position { writer: WriterId(u128::from_le_bytes(array_at(bytes, 16))), seq: u64_at(bytes, 32) };
    (found == position).then(|| (0..count).map(|i| Entry::at(bytes, HEADER + ENTRY * i).table).collect())
}

/// The header of a segment from its first [`HEADER`] bytes; `None` if they are not those of a segment. No checksum
/// covers these bytes alone.
pub fn header(bytes: &[u8]) -> Option<SegmentHeader> {
    check_start(bytes, MAGIC, (FORMAT_VERSION, QUEUE_KEYS), HEADER, "log segment").ok().map(|_| header_at(bytes))
}

fn header_at(bytes: &[u8]) -> SegmentHeader {
    SegmentHeader {
        position: Position { writer: WriterId(u128::from_le_bytes(array_at(bytes, 16))), seq: u64_at(bytes, 32) },
        writer_start_ms: u64_at(bytes, 40) as i64,
        stamp_ns: u64_at(bytes, 48) as i64,
        queue_keys: u16::from_le_bytes(array_at(bytes, 10)) & QUEUE_KEYS != 0,
    }
}

fn decode_inner(bytes: &Bytes) -> Result<Segment> {
    let count = check_start(bytes, MAGIC, (FORMAT_VERSION, QUEUE_KEYS), HEADER, "log segment")?;
    let directory = if count <= MAX_BLOCKS { HEADER + ENTRY * count } else { usize::MAX - 4 };
    if bytes.len() < directory.saturating_add(4) {
        return Err(Error::corrupt("log segment truncated within its directory")
            .with("expected", format!("{count} blocks"))
            .with("found", format!("{} bytes", bytes.len())));
    }
    check_crc("the header of a log segment", &bytes[..directory], u32_at(bytes, directory))?;
    let header = header_at(bytes);
    let mut blocks = Vec::with_capacity(count);
    let mut end = directory + 4;
    for i in 0..count {
        let entry = Entry::at(bytes, HEADER + ENTRY * i);
        let stored = (entry.offset == end as u64).then(|| bytes.get(end..end + entry.stored)).flatten();
        let stored = stored.ok_or_else(|| {
            Error::corrupt("block outside its log segment")
                .with("block", i)
                .with("expected", format!("{} bytes at {end}", entry.stored))
                .with("found", format!("offset {} of {} bytes", entry.offset, bytes.len()))
        })?;
        blocks.push(entry.block(stored).map_err(|e| e.with("block", i).with("table", entry.table.0))?);
        end += entry.stored;
    }
    if end != bytes.len() {
        return Err(Error::corrupt("log segment length does not match its directory")
            .with("expected", end)
            .with("found", bytes.len()));
    }
    Ok(Segment { header, blocks })
}

/// An entry of the directory.
struct Entry {
    table: TableId,
    series: usize,
    rows: usize,
    crc: u32,
    offset: u64,
    stored: usize,
    raw: usize,
}

impl Entry {
    fn at(bytes: &[u8], at: usize) -> Self {
        Self {
            table: TableId(u32_at(bytes, at)),
            series: u32_at(bytes, at + 4) as usize,
            rows: u32_at(bytes, at + 8) as usize,
            crc: u32_at(bytes, at + 12),
            offset: u64_at(bytes, at + 16),
            stored: u32_at(bytes, at + 24) as usize,
            raw: u32_at(bytes, at + 28) as usize,
        }
    }

    fn block(&self, stored: &[u8]) -> Result<Block> {
        check_crc("a block of a log segment", stored, self.crc)?;
        let raw = ipc::decompress(stored, self.raw, MAX_RAW)?;
        let split = (raw.len() >= 8).then(|| u64_at(&raw, 0)).and_then(|n| n.checked_add(8));
        let split = split
            .filter(|n| *n <= raw.len() as u64)
            .ok_or_else(|| Error::corrupt("log segment block truncated within its series").with("found", raw.len()))?
            as usize;
        let series = counted("series", ipc::read(raw.slice_with_length(8, split - 8))?, self.series)?;
        let rows = narrow::widened(counted("rows", ipc::read(raw.slice(split))?, self.rows)?, MAX_RAW)?;
        Block::try_new(self.table, SeriesSet::try_new(series)?, rows)
    }
}

fn counted(what: &str, batch: RecordBatch, expected: usize) -> Result<RecordBatch> {
    if batch.num_rows() == expected {
        return Ok(batch);
    }
    Err(Error::corrupt(format!("number of {what} in a block does not match the directory"))
        .with("expected", expected)
        .with("found", batch.num_rows()))
}

/// Checks magic, version, flags (within `known_flags`) and the length of a fixed header; returns the count at offset
/// 12.
pub(crate) fn check_start(
    bytes: &[u8],
    magic: &[u8; 8],
    (known, known_flags): (u16, u16),
    header: usize,
    what: &'static str,
) -> Result<usize> {
    if bytes.len() < 12 || &bytes[..8] != magic {
        return Err(Error::corrupt(format!("this is not a {what}"))
            .with("expected", magic.escape_ascii())
            .with("found", format!("{} ({} bytes)", bytes[..bytes.len().min(8)].escape_ascii(), bytes.len())));
    }
    let (version, flags) = (u16::from_le_bytes(array_at(bytes, 8)), u16::from_le_bytes(array_at(bytes, 10)));
    if version > known || (version == known && flags & !known_flags != 0) {
        return Err(Error::unsupported(format!("this {what} has a newer format than this program knows"))
            .with("known", format!("version {known}, flags {known_flags}"))
            .with("found", format!("version {version}, flags {flags}")));
    }
    if version == 0 || bytes.len() < header {
        return Err(Error::corrupt(format!("incomplete header of a {what}"))
            .with("expected", format!("version 1 to {known}, {header} bytes"))
            .with("found", format!("version {version}, {} bytes", bytes.len())));
    }
    Ok(u32_at(bytes, 12) as usize)
}

pub(crate) fn check_crc(what: &str, bytes: &[u8], expected: u32) -> Result<()> {
    let found = crc32fast::hash(bytes);
    if found == expected {
        return Ok(());
    }
    Err(Error::corrupt(format!("the checksum of {what} differs"))
        .with("expected", format!("{expected:08x}"))
        .with("found", format!("{found:08x}")))
}

/// The `N` bytes at an offset; the caller has checked the bounds.
pub(crate) fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("a slice of N bytes")
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array_at(bytes, at))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array_at(bytes, at))
}

#[cfg(test)]
mod tests;
