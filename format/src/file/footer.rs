//! The checksum of page index and footer.
//!
//! Parquet has no checksum for page index and footer. A block between the two holds it; Parquet readers use offsets and
//! skip it:
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
/// The length of FileMetaData and "PAR1".
const END: usize = 8;

/// Puts the block into a whole Parquet file whose pages end at `pages_end`.
pub(super) fn seal(mut file: Vec<u8>, pages_end: usize) -> Result<Vec<u8>> {
    let end = file.len().checked_sub(END).filter(|end| *end >= pages_end);
    let metadata = end.and_then(|end| end.checked_sub(u32_at(&file, end) as usize).filter(|m| *m >= pages_end));
    let (Some(end), Some(metadata)) = (end, metadata) else {
        return Err(Error::internal("a Parquet file ends otherwise than it should").with("found", file.len()));
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

/// Makes the checksum of a changed file right again.
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

/// The checksum that the block of a whole file holds; `None` where there is no such block.
pub(crate) fn held(file: &[u8]) -> Option<u32> {
    let end = file.len().checked_sub(END)?;
    let block = end.checked_sub(u32_at(file, end) as usize)?.checked_sub(BLOCK)?;
    (&file[block..block + 8] == MAGIC).then(|| u32_at(file, block + 16))
}

/// What the end of a file shows.
pub(super) enum Seen {
    /// Page index, footer and checksum are whole; the checksum.
    Whole(u32),
    /// This range, up to where `tail` starts, is needed too.
    Missing(Range<u64>),
}

/// Checks the end of a file of `bytes` bytes, of which `tail` is the last part.
///
/// # Errors
/// [`Kind::Corrupt`](crate::Kind::Corrupt).
pub(super) fn check(tail: &Bytes, bytes: u64) -> Result<Seen> {
    let bad = |found: String| Error::corrupt("this is no whole data file").with("bytes", bytes).with("found", found);
    let start = bytes - tail.len() as u64;
    if tail.len() < END || &tail[tail.len() - 4..] != b"PAR1" {
        return Err(bad("an end that is not Parquet's".to_owned()));
    }
    let metadata = u32_at(tail, tail.len() - END) as usize;
    let need = (metadata + END + BLOCK) as u64;
    let outside = || bad(format!("a footer of {metadata} bytes"));
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
        return Err(Error::corrupt("the checksum of the footer of a data file differs")
            .with("expected", format!("{expected:08x}"))
            .with("found", format!("{found:08x}")));
    }
    Ok(Seen::Whole(found))
}
