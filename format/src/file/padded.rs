//! Encodes a numeric column of a row group with at most 256 distinct values as codes of exactly eight bits.
//!
//! Repeated entries pad the dictionary until Parquet's code width is eight bits. Each code is then one byte, so zstd's
//! entropy coder works on whole codes: a column takes about its entropy, and any Parquet reader reads it.

use arrow::buffer::NullBuffer;
use parquet::{
    basic::{SortOrder, Type as Physical},
    file::statistics::Statistics,
    schema::types::ColumnDescPtr,
};

use super::{
    chunk::{Chunk, Values},
    coded::{CodedChunk, PageBounds, write_bytes, write_levels, write_packed_levels},
};
use crate::error::{Error, Result};

/// Minimum number of entries of a dictionary: with fewer, codes take less than eight bits.
const LEAST_ENTRIES: usize = 129;
/// Maximum number of entries of a dictionary.
const MOST_ENTRIES: usize = 256;
/// Slots of the lookup table.
const SLOTS: usize = 1_024;

/// Numbers as codes of their distinct values.
pub(super) struct Codes {
    /// The distinct values in ascending order of the column's type, in PLAIN encoding.
    entries: Vec<Vec<u8>>,
    /// Code of each value.
    codes: Vec<u8>,
}

impl Codes {
    /// `None` when there are more than 256 distinct values, no values, NaNs, or no numbers.
    pub(super) fn of(column: &ColumnDescPtr, values: &Values<'_>) -> Option<Self> {
        let unsigned = column.sort_order() == SortOrder::UNSIGNED;
        let sign = |unsigned: bool, bit: u32| if unsigned { 0 } else { 1 << bit };
        match values {
            Values::I32(v) => Self::coded(
                v.iter().map(|v| u64::from(*v as u32)),
                |bits| bits ^ sign(unsigned, 31),
                |bits| (bits as u32).to_le_bytes().to_vec(),
            ),
            Values::I64(v) => Self::coded(
                v.iter().map(|v| *v as u64),
                |bits| bits ^ sign(unsigned, 63),
                |bits| bits.to_le_bytes().to_vec(),
            ),
            // Bounds of a page must not be NaN.
            Values::F32(v) if v.iter().all(|v| !v.is_nan()) => {
                let order = |bits: u64| if bits >> 31 == 1 { !bits & 0xffff_ffff } else { bits | 1 << 31 };
                Self::coded(v.iter().map(|v| u64::from(v.to_bits())), order, |bits| {
                    (bits as u32).to_le_bytes().to_vec()
                })
            }
            Values::F64(v) if v.iter().all(|v| !v.is_nan()) => {
                let order = |bits: u64| if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
                Self::coded(v.iter().map(|v| v.to_bits()), order, |bits| bits.to_le_bytes().to_vec())
            }
            _ => None,
        }
    }

    /// Assigns codes to values given by their bits; `order` maps bits to integers that compare like the values.
    fn coded(
        values: impl ExactSizeIterator<Item = u64>,
        order: impl Fn(u64) -> u64,
        plain: impl Fn(u64) -> Vec<u8>,
    ) -> Option<Self> {
        let mut slots = [0u16; SLOTS];
        let mut found: Vec<u64> = Vec::with_capacity(MOST_ENTRIES);
        let mut codes = Vec::with_capacity(values.len());
        for bits in values {
            let mut slot = (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
            let code = loop {
                match slots[slot] {
                    0 if found.len() == MOST_ENTRIES => return None,
                    0 => {
                        found.push(bits);
                        slots[slot] = found.len() as u16;
                        break found.len() - 1;
                    }
                    at if found[at as usize - 1] == bits => break at as usize - 1,
                    _ => slot = (slot + 1) % SLOTS,
                }
            };
            codes.push(code as u8);
        }
        let mut ascending: Vec<usize> = (0..found.len()).collect();
        ascending.sort_unstable_by_key(|at| order(found[*at]));
        let mut rank = [0u8; MOST_ENTRIES];
        ascending.iter().enumerate().for_each(|(r, at)| rank[*at] = r as u8);
        codes.iter_mut().for_each(|code| *code = rank[*code as usize]);
        let entries: Vec<_> = ascending.into_iter().map(|at| plain(found[at])).collect();
        (!entries.is_empty()).then_some(Self { entries, codes })
    }
}

/// Encodes a column; `nulls` marks the rows without a value, `pages` are the row counts of its pages.
pub(super) fn encode(column: &ColumnDescPtr, of: &Codes, nulls: Option<&NullBuffer>, pages: &[usize]) -> Result<Chunk> {
    let fill = of.entries.last().into_iter().cycle().take(LEAST_ENTRIES.saturating_sub(of.entries.len()));
    let plain: Vec<u8> = of.entries.iter().chain(fill).flatten().copied().collect();
    let mut chunk = CodedChunk::new(column, &plain, of.entries.len().max(LEAST_ENTRIES))?;
    let nulls = nulls.filter(|n| n.null_count() > 0);
    let physical = column.physical_type();
    let (mut start, mut rest, mut raw) = (0, of.codes.as_slice(), Vec::new());
    for rows in pages {
        let of_page = nulls.map(|n| n.slice(start, *rows)).filter(|n| n.null_count() > 0);
        let missing = of_page.as_ref().map_or(0, NullBuffer::null_count);
        let (codes, others) = rest.split_at(rows - missing);
        (rest, start) = (others, start + rows);
        raw.clear();
        if chunk.is_nullable() {
            match &of_page {
                None => write_levels(&mut raw, std::iter::once((true, *rows))),
                Some(nulls) => write_packed_levels(&mut raw, nulls),
            }
        }
        raw.push(8);
        write_bytes(&mut raw, codes);
        let bounds = of.bounds(physical, codes);
        let values = bounds.as_ref().map(|(min, max)| (min.as_slice(), max.as_slice()));
        chunk.page(*rows, &raw, &PageBounds { values, nulls: missing, text_bytes: 0 })?;
    }
    let statistics = of.statistics(physical, nulls.map_or(0, NullBuffer::null_count))?;
    chunk.finish(statistics, true)
}

impl Codes {
    /// Minimum and maximum; as the specification requires, a minimum of zero is stored as -0 and a maximum as +0.
    fn bounds(&self, physical: Physical, codes: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
        let (min, max) = codes.iter().min().zip(codes.iter().max())?;
        let (mut min, mut max) = (self.entries[*min as usize].clone(), self.entries[*max as usize].clone());
        if matches!(physical, Physical::FLOAT | Physical::DOUBLE) {
            let is_zero =
                |v: &[u8]| v.split_last().is_some_and(|(sign, rest)| *sign & 0x7f == 0 && rest.iter().all(|b| *b == 0));
            if is_zero(&min)
                && let Some(sign) = min.last_mut()
            {
                *sign = 0x80;
            }
            if is_zero(&max)
                && let Some(sign) = max.last_mut()
            {
                *sign = 0;
            }
        }
        Some((min, max))
    }

    fn statistics(&self, physical: Physical, nulls: usize) -> Result<Statistics> {
        fn of<T, const N: usize>(bounds: &Option<(Vec<u8>, Vec<u8>)>, value: fn([u8; N]) -> T) -> [Option<T>; 2] {
            let value = |v: &Vec<u8>| v.as_slice().try_into().ok().map(value);
            let bounds = bounds.as_ref();
            [bounds.and_then(|b| value(&b.0)), bounds.and_then(|b| value(&b.1))]
        }
        let (bounds, nulls) = (self.bounds(physical, &self.codes), Some(nulls as u64));
        Ok(match physical {
            Physical::INT32 => {
                let [min, max] = of(&bounds, i32::from_le_bytes);
                Statistics::int32(min, max, None, nulls, false)
            }
            Physical::INT64 => {
                let [min, max] = of(&bounds, i64::from_le_bytes);
                Statistics::int64(min, max, None, nulls, false)
            }
            Physical::FLOAT => {
                let [min, max] = of(&bounds, f32::from_le_bytes);
                Statistics::float(min, max, None, nulls, false)
            }
            Physical::DOUBLE => {
                let [min, max] = of(&bounds, f64::from_le_bytes);
                Statistics::double(min, max, None, nulls, false)
            }
            other => return Err(Error::internal("dictionary codes require a numeric column").with("found", other)),
        })
    }
}

#[cfg(test)]
mod tests;
