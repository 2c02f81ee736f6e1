//! Decoders of the page encodings.

use std::ops::Range;

use bytes::Bytes;

use super::bad;
use crate::{compression::inflate, error::Result, file::page};

/// The body of a stored page, decompressed.
pub(super) fn raw(stored: &Bytes, is_compressed: bool) -> Result<Bytes> {
    let (raw_bytes, body) = page::body(stored).ok_or_else(|| bad("an unreadable page header"))?;
    let raw = match is_compressed {
        true => inflate(body, raw_bytes).map_err(|e| bad("a page that cannot be decompressed").source(e))?.into(),
        false => stored.slice_ref(body),
    };
    if raw.len() != raw_bytes { Err(bad("a page of unexpected length")) } else { Ok(raw) }
}

/// Decodes the bits of the first `wanted` BYTE_STREAM_SPLIT numbers of four or eight bytes.
pub(super) fn split(body: &[u8], width: usize, rows: usize, wanted: usize) -> Result<Vec<i64>> {
    let body = sized(body, width, rows)?;
    let part = |i: usize| &body[i * rows..(i + 1) * rows];
    let low = [part(0), part(1), part(2), part(3)];
    let half = |of: [&[u8]; 4], at: usize| u32::from_le_bytes([of[0][at], of[1][at], of[2][at], of[3][at]]);
    if width == 4 {
        return Ok((0..wanted).map(|at| i64::from(half(low, at))).collect());
    }
    let high = [part(4), part(5), part(6), part(7)];
    Ok((0..wanted).map(|at| (u64::from(half(high, at)) << 32 | u64::from(half(low, at))) as i64).collect())
}

/// Decodes the bits of the first `wanted` PLAIN numbers of four or eight bytes.
pub(super) fn plain(body: &[u8], width: usize, rows: usize, wanted: usize) -> Result<Vec<i64>> {
    let body = &sized(body, width, rows)?[..width * wanted];
    if width == 4 {
        return Ok(body.as_chunks::<4>().0.iter().map(|number| i64::from(u32::from_le_bytes(*number))).collect());
    }
    Ok(body.as_chunks::<8>().0.iter().map(|number| i64::from_le_bytes(*number)).collect())
}

fn sized(body: &[u8], width: usize, rows: usize) -> Result<&[u8]> {
    if body.len() == width * rows { Ok(body) } else { Err(bad("a page of unexpected length")) }
}

/// Byte range of the codes of a page that consists of one bit-packed run of 8-bit codes; `None` for other pages.
pub(super) fn packed_bytes(mut body: &[u8], rows: usize) -> Option<Range<usize>> {
    let all = body.len();
    let header = varint(&mut body)?;
    let start = all - body.len();
    (header == (rows.div_ceil(8) as u64) << 1 | 1 && body.len() >= rows).then_some(start..start + rows)
}

/// Decodes Parquet's RLE/bit-packing hybrid with at most eight bits per value.
pub(super) fn hybrid(mut body: &[u8], width: u8, rows: usize) -> Result<Vec<u8>> {
    let short = || bad("truncated runs");
    let mask = ((1u16 << width) - 1) as u8;
    let mut codes = Vec::with_capacity(rows);
    while codes.len() < rows {
        let header = varint(&mut body).ok_or_else(short)?;
        let left = rows - codes.len();
        if header & 1 == 0 {
            let n = usize::try_from(header >> 1).unwrap_or(usize::MAX).min(left);
            let value = if width == 0 { 0 } else { *body.split_off_first().ok_or_else(short)? };
            if n == 0 {
                return Err(bad("an empty run"));
            }
            codes.resize(codes.len() + n, value & mask);
        } else {
            let groups = usize::try_from(header >> 1).unwrap_or(usize::MAX);
            let len = groups.checked_mul(width as usize).ok_or_else(short)?;
            // The last run may lack padding after its values.
            let n = groups.saturating_mul(8).min(left);
            let needed = (n * width as usize).div_ceil(8);
            if groups == 0 || body.len() < needed {
                return Err(short());
            }
            let packed = &body[..len.min(body.len())];
            for i in 0..n {
                let bit = i * width as usize;
                let low = u16::from(packed.get(bit / 8).copied().unwrap_or(0));
                let high = u16::from(packed.get(bit / 8 + 1).copied().unwrap_or(0));
                codes.push(((low | high << 8) >> (bit % 8)) as u8 & mask);
            }
            body = &body[len.min(body.len())..];
        }
    }
    Ok(codes)
}

pub(super) fn varint(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = *from.split_off_first()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

pub(super) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests;
