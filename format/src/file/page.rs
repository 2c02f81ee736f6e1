//! Writes pages with a checksum, and verifies pages that were read.
//!
//! The Parquet crate writes no checksums. This module writes a Thrift compact `PageHeader` with `crc`, the CRC-32 of
//! the page as stored, then the page.

use bytes::Bytes;
use parquet::{
    basic::{Encoding, PageType},
    column::page::{CompressedPage, Page, PageWriteSpec, PageWriter},
    errors::{ParquetError, Result as ParquetResult},
};

use crate::error::{Error, Result};

const I32: u8 = 5;
const STRUCT: u8 = 12;

/// Appends pages to a buffer.
pub(super) struct CheckedPages<'a>(pub(super) &'a mut Vec<u8>);

impl PageWriter for CheckedPages<'_> {
    fn write_page(&mut self, page: CompressedPage) -> ParquetResult<PageWriteSpec> {
        let start = self.0.len();
        write_header(self.0, &page)?;
        let header = self.0.len() - start;
        self.0.extend_from_slice(page.data());
        let mut spec = PageWriteSpec::new();
        spec.page_type = page.page_type();
        spec.uncompressed_size = page.uncompressed_size() + header;
        spec.compressed_size = page.compressed_size() + header;
        spec.num_values = page.num_values();
        spec.offset = start as u64;
        spec.bytes_written = (self.0.len() - start) as u64;
        Ok(spec)
    }

    fn close(&mut self) -> ParquetResult<()> {
        Ok(())
    }
}

fn write_header(out: &mut Vec<u8>, page: &CompressedPage) -> ParquetResult<()> {
    let size = |n: usize| i32::try_from(n).map_err(|_| ParquetError::General(format!("page too large: {n} bytes")));
    let kind = match page.page_type() {
        PageType::DATA_PAGE => 0,
        PageType::DICTIONARY_PAGE => 2,
        other => return Err(ParquetError::NYI(format!("unsupported page type {other}"))),
    };
    for value in
        [kind, size(page.uncompressed_size())?, size(page.compressed_size())?, crc32fast::hash(page.data()) as i32]
    {
        write_i32(out, 1, value);
    }
    match page.compressed_page() {
        Page::DataPage { num_values, encoding, def_level_encoding, rep_level_encoding, .. } => {
            out.push(1 << 4 | STRUCT);
            let encodings = [*encoding, *def_level_encoding, *rep_level_encoding].map(|e| e as i32);
            write_i32(out, 1, size(*num_values as usize)?);
            encodings.into_iter().for_each(|e| write_i32(out, 1, e));
        }
        Page::DictionaryPage { num_values, encoding, is_sorted, .. } => {
            out.push(3 << 4 | STRUCT);
            write_i32(out, 1, size(*num_values as usize)?);
            write_i32(out, 1, *encoding as i32);
            out.push(1 << 4 | if *is_sorted { 1 } else { 2 });
        }
        Page::DataPageV2 { .. } => return Err(ParquetError::NYI("data pages of version 2".to_owned())),
    }
    out.extend_from_slice(&[0, 0]);
    Ok(())
}

/// Writes a Thrift i32 field: its header, `delta` field IDs after the previous field, and a zigzag varint.
fn write_i32(out: &mut Vec<u8>, delta: u8, value: i32) {
    out.push(delta << 4 | I32);
    let mut rest = ((value << 1) ^ (value >> 31)) as u32;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Properties of a page according to the footer.
pub(super) struct Expected<'a> {
    /// Number of rows of a data page; `None` for a dictionary page.
    pub(super) rows: Option<u64>,
    /// Encodings of the chunk.
    pub(super) encodings: &'a [Encoding],
    /// Uncompressed bytes of the chunk: the upper limit of a page.
    pub(super) raw_bytes: i64,
}

/// Verifies one stored page: its header must agree with the footer, and the header's length and checksum with the rest
/// of `stored`.
///
/// # Errors
/// [`Kind::Corrupt`](crate::Kind::Corrupt) otherwise.
pub(super) fn check(stored: &Bytes, expected: &Expected<'_>) -> Result<()> {
    let bad = |found: String| Error::corrupt("damaged page in a data file").with("found", found);
    let header = || bad("a page header that contradicts the footer".to_owned());
    let mut rest = stored.as_ref();
    let mut fields = [0i32; 4];
    for field in &mut fields {
        *field = read_i32(&mut rest).ok_or_else(header)?;
    }
    let kind = (fields[0], rest.split_off_first().copied());
    let is_data = match kind {
        (0, Some(0x1c)) => true,
        (2, Some(0x3c)) => false,
        _ => return Err(header()),
    };
    let values = read_i32(&mut rest).ok_or_else(header)?;
    let encoding = read_i32(&mut rest).ok_or_else(header)?;
    let known = expected.encodings.iter().any(|e| *e as i32 == encoding)
        && (0..=expected.raw_bytes).contains(&i64::from(fields[1]));
    let fits = match expected.rows {
        Some(rows) if is_data => {
            let levels = [read_i32(&mut rest), read_i32(&mut rest)];
            known && values as u64 == rows && levels == [Some(Encoding::RLE as i32); 2]
        }
        None if !is_data => known && matches!(rest.split_off_first(), Some(0x11 | 0x12)),
        _ => false,
    };
    let len = usize::try_from(fields[2]).ok().filter(|len| rest.len() == len + 2 && rest[..2] == [0, 0]);
    let (Some(_), true) = (len, fits) else { return Err(header()) };
    let found = crc32fast::hash(&rest[2..]);
    if found != fields[3] as u32 {
        return Err(bad(format!("checksum {found:08x}")).with("expected", format!("{:08x}", fields[3] as u32)));
    }
    Ok(())
}

/// Uncompressed size of a stored page, and the bytes after its header; `None` if the header is unreadable.
pub(super) fn body(stored: &Bytes) -> Option<(usize, &[u8])> {
    let mut rest = stored.as_ref();
    let (_, raw, len) = (read_i32(&mut rest)?, read_i32(&mut rest)?, read_i32(&mut rest)?);
    let start = rest.len().checked_sub(usize::try_from(len).ok()?)?;
    Some((usize::try_from(raw).ok()?, &rest[start..]))
}

/// Reads a field written by [`write_i32`] with a delta of 1.
fn read_i32(from: &mut &[u8]) -> Option<i32> {
    let (head, mut rest) = from.split_first()?;
    let mut value = 0u32;
    for shift in (0..35).step_by(7) {
        let (byte, after) = rest.split_first()?;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        rest = after;
        if byte & 0x80 == 0 {
            *from = rest;
            return (*head == 1 << 4 | I32).then_some((value >> 1) as i32 ^ -((value & 1) as i32));
        }
    }
    None
}
