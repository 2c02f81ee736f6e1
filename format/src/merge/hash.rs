//! The conservation sum: a fold or merge must output the content it was given.
//!
//! With xxh3 (64 bits, little-endian input) and wrapping arithmetic modulo 2⁶⁴:
//!
//! ```text
//! name  = xxh3(bytes of the series name)
//! row   = xxh3(name as u64 ‖ ts as i64)
//! value = xxh3(bytes, seed = row + column id · 0x9E3779B97F4A7C15)
//! sum   = Σ row + Σ value over the values that are not null
//! ```
//!
//! `bytes` of a number are 8: integers, timestamps and booleans (0, 1) as i64 (UInt64 as u64), floats as f64 with every
//! NaN as 0x7FF8000000000000. Texts and binaries are hashed as they are.

use arrow::{
    array::{Array, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch},
    datatypes::{
        DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
        UInt32Type, UInt64Type,
    },
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::rows::{series_of, ticks, ticks_of};
use crate::{
    error::{Error, Result},
    ids::ColumnId,
    rows::SeriesSet,
    schema::field_id,
};

/// Number of rows hashed at once: their keys stay in the L1 cache.
const CHUNK: usize = 1_024;

/// Wrapping sum of the hashes of all rows and of all non-null values.
///
/// `rows` has the shape of [`Block::rows`](crate::rows::Block::rows) with indices into `series`. The sum does not
/// depend on the order of rows, series or columns, on columns that are all null, or on a widened type. Section 5.5 of
/// `SPEC.md` defines the hashed bytes.
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal) when the batch is not of that shape.
pub fn content_hash(series: &SeriesSet, rows: &RecordBatch) -> Result<u64> {
    let (of, ts) = (series_of(rows)?, ticks_of(rows)?);
    let schema = rows.schema();
    let ids = schema
        .fields()
        .iter()
        .skip(2)
        .map(|f| field_id(f).ok_or_else(|| Error::internal("a column of rows has no id").with("column", f.name())));
    let ids = ids.collect::<Result<Vec<ColumnId>>>()?;
    let mut sum = 0u64;
    let mut keys = Vec::with_capacity(CHUNK);
    for start in (0..rows.num_rows()).step_by(CHUNK) {
        let end = rows.num_rows().min(start + CHUNK);
        keys.clear();
        row_keys(series, &of[start..end], &ts[start..end], &mut keys)?;
        sum = keys.iter().fold(sum, |sum, key| sum.wrapping_add(*key));
        for (id, column) in ids.iter().zip(&rows.columns()[2..]) {
            sum = sum.wrapping_add(value_hashes(*id, &column.slice(start, end - start), &keys)?);
        }
    }
    Ok(sum)
}

/// Appends the hash of each row; `series` are indices into `set`.
pub(crate) fn row_keys(set: &SeriesSet, series: &[u32], ts: &[i64], keys: &mut Vec<u64>) -> Result<()> {
    let mut at = 0;
    for run in series.chunk_by(|a, b| a == b) {
        let names = set.names();
        if run[0] as usize >= names.len() {
            return Err(Error::internal("series index of a row out of range")
                .with("series", run[0])
                .with("expected", format!("below {}", names.len())));
        }
        let name = xxh3_64(names.value(run[0] as usize).as_bytes());
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&name.to_le_bytes());
        keys.extend(ts[at..at + run.len()].iter().map(|ts| {
            bytes[8..].copy_from_slice(&ts.to_le_bytes());
            xxh3_64(&bytes)
        }));
        at += run.len();
    }
    Ok(())
}

/// Wrapping sum of the hashes of the non-null values of one column; `keys` are the hashes of their rows.
pub(crate) fn value_hashes(id: ColumnId, values: &dyn Array, keys: &[u64]) -> Result<u64> {
    let add = u64::from(id.0).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    Ok(match values.data_type() {
        DataType::Int8 => numbers::<Int8Type>(values, keys, add, |v| v as i64 as u64),
        DataType::Int16 => numbers::<Int16Type>(values, keys, add, |v| v as i64 as u64),
        DataType::Int32 => numbers::<Int32Type>(values, keys, add, |v| v as i64 as u64),
        DataType::Int64 => numbers::<Int64Type>(values, keys, add, |v| v as u64),
        DataType::UInt8 => numbers::<UInt8Type>(values, keys, add, u64::from),
        DataType::UInt16 => numbers::<UInt16Type>(values, keys, add, u64::from),
        DataType::UInt32 => numbers::<UInt32Type>(values, keys, add, u64::from),
        DataType::UInt64 => numbers::<UInt64Type>(values, keys, add, |v| v),
        DataType::Float32 => numbers::<Float32Type>(values, keys, add, |v| float_bits(f64::from(v))),
        DataType::Float64 => numbers::<Float64Type>(values, keys, add, float_bits),
        DataType::Boolean => {
            let values = values.as_boolean();
            sum(keys, values, |i, key| number_hash(u64::from(values.value(i)), key.wrapping_add(add)))
        }
        DataType::Utf8 => {
            let values = values.as_string::<i32>();
            sum(keys, values, |i, key| xxh3_64_with_seed(values.value(i).as_bytes(), key.wrapping_add(add)))
        }
        DataType::Binary => {
            let values = values.as_binary::<i32>();
            sum(keys, values, |i, key| xxh3_64_with_seed(values.value(i), key.wrapping_add(add)))
        }
        DataType::Timestamp(..) if ticks(values).is_some() => {
            let ticks = ticks(values).unwrap_or_default();
            sum(keys, values, |i, key| number_hash(ticks[i] as u64, key.wrapping_add(add)))
        }
        other => return Err(Error::internal("no content hash is defined for this type").with("found", other)),
    })
}

fn numbers<T: ArrowPrimitiveType>(values: &dyn Array, keys: &[u64], add: u64, bits: impl Fn(T::Native) -> u64) -> u64 {
    let values: &PrimitiveArray<T> = values.as_primitive();
    let native = values.values();
    sum(keys, values, |i, key| number_hash(bits(native[i]), key.wrapping_add(add)))
}

fn sum(keys: &[u64], values: &dyn Array, hash: impl Fn(usize, u64) -> u64) -> u64 {
    let each = keys.iter().enumerate();
    match values.nulls().filter(|n| n.null_count() > 0) {
        None => each.fold(0, |sum, (i, key)| sum.wrapping_add(hash(i, *key))),
        Some(nulls) => {
            each.filter(|(i, _)| nulls.is_valid(*i)).fold(0, |sum, (i, key)| sum.wrapping_add(hash(i, *key)))
        }
    }
}

#[inline]
fn number_hash(bits: u64, seed: u64) -> u64 {
    xxh3_64_with_seed(&bits.to_le_bytes(), seed)
}

#[inline]
fn float_bits(v: f64) -> u64 {
    if v.is_nan() { 0x7FF8_0000_0000_0000 } else { v.to_bits() }
}
