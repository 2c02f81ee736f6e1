//! Checksum of the page index and the footer of a data file.
//!
//! Parquet has no such checksum. A block between page index and footer holds it; Parquet readers locate both by offsets
//! and so skip the block:
//!
//! ```text
//! "PAR1" ‖ pages ‖ page index ‖ block ‖ FileMetaData ‖ its length u32 ‖ "PAR1"
//!
//! block, little-endian: "TLFOOTER" ‖ length of the page index u64 ‖ crc32 u32 ‖ 0 u32
//! crc32 of: page index ‖ its length u64 ‖ FileMetaData
//! ```

use std::ops::Range;

use bytes::Bytes;

use crate::{
    error::{Error, Result},
    segment::{u32_at, u64_at},
};

const MAGIC: &[u8; 8] = b"TLFOOTER";
const BLOCK: usize = 24;
/// Bytes at the end of a file: the length of FileMetaData, and "PAR1".
const END: usize = 8;

/// Inserts the block into a complete Parquet file whose pages end at `pages_end`.
pub(super) fn seal(mut file: Vec<u8>, pages_end: usize) -> Result<Vec<u8>> {
    let end = file.len().checked_sub(END).filter(|end| *end >= pages_end);
    let metadata = end.and_then(|end| end.checked_sub(u32_at(&file, end) as usize).filter(|m| *m >= pages_end));
    let (Some(end), Some(metadata)) = (end, metadata) else {
        return Err(Error::internal("invalid footer length in an encoded Parquet file").with("found", file.len()));
    };
    let mut block = Vec::with_capacity(BLOCK);
    block.extend_from_slice(MAGIC);
    block.extend_from_slice(&((metadata - pages_end) as u64).to_le_bytes());
    let crc = checksum(&file[pages_end..metadata], &file[metadata..end]);
    block.extend_from_slice(&crc.to_le_bytes());
    block.extend_from_slice(&[0; 4]);
    file.splice(metadata..metadata, block);
    Ok(file)
}

/// Updates the checksum after a change to the file.
#[cfg(test)]
pub(super) fn reseal(file: &mut [u8]) {
    let end = file.len() - END;
    let metadata = end - u32_at(file, end) as usize;
    let block = metadata - BLOCK;
    let index = block - u64_at(file, block + 8) as usize;
    let crc = checksum(&file[index..block], &file[metadata..end]);
    file[block + 16..block + 20].copy_from_slice(&crc.to_le_bytes());
}

fn checksum(index: &[u8], metadata: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(index);
    crc.update(&(index.len() as u64).to_le_bytes());
    crc.update(metadata);
    crc.finalize()
}

/// Checksum stored in the block of a complete file; `None` without such a block.
pub(crate) fn held(file: &[u8]) -> Option<u32> {
    let end = file.len().checked_sub(END)?;
    let block = end.checked_sub(u32_at(file, end) as usize)?.checked_sub(BLOCK)?;
    (&file[block..block + 8] == MAGIC).then(|| u32_at(file, block + 16))
}

/// Result of [`check`].
pub(super) enum Seen {
    /// `tail` holds page index and footer, and they match this checksum.
    Whole(u32),
    /// `tail` is too short: this range, which ends where `tail` starts, is needed too.
    Missing(Range<u64>),
}

/// Verifies page index and footer of a file of `bytes` bytes; `tail` is the end of the file.
///
/// # Errors
/// [`Kind::Corrupt`](crate::Kind::Corrupt) when the footer is invalid or its checksum differs.
pub(super) fn check(tail: &Bytes, bytes: u64) -> Result<Seen> {
    let bad =
        |found: String| Error::corrupt("truncated or damaged data file").with("bytes", bytes).with("found", found);
    let start = bytes - tail.len() as u64;
    if tail.len() < END || &tail[tail.len() - 4..] != b"PAR1" {
        return Err(bad("no Parquet magic number at the end".to_owned()));
    }
    let metadata = u32_at(tail, tail.len() - END) as usize;
    let need = (metadata + END + BLOCK) as u64;
    let outside = || bad(format!("a footer of {metadata} bytes or a page index that exceeds the file"));
    if need > tail.len() as u64 {
        return if need > bytes { Err(outside()) } else { Ok(Seen::Missing(bytes - need..start)) };
    }
    let block = tail.len() - need as usize;
    if &tail[block..block + 8] != MAGIC || u32_at(tail, block + 20) != 0 {
        return Err(bad("a footer without Tidelake's checksum".to_owned()));
    }
    let index = u64_at(tail, block + 8);
    let index_start = (bytes - need).checked_sub(index).ok_or_else(outside)?;
    if index_start < start {
        return Ok(Seen::Missing(index_start..start));
    }
    let index = &tail[(index_start - start) as usize..block];
    let metadata = &tail[block + BLOCK..tail.len() - END];
    let (found, expected) = (checksum(index, metadata), u32_at(tail, block + 16));
    if found != expected {
        return Err(Error::corrupt("checksum mismatch in the footer of a data file")
            .with("expected", format!("{expected:08x}"))
            .with("found", format!("{found:08x}")));
    }
    Ok(Seen::Whole(found))
}
