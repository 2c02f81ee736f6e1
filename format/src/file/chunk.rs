//! Encodes a column chunk page by page, in the encoding that gives the smallest sample.

use std::{borrow::Cow, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    buffer::NullBuffer,
    compute::concat,
    datatypes::{
        ArrowPrimitiveType, DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
        UInt16Type, UInt32Type, UInt64Type,
    },
};
use bytes::Bytes;
use hashbrown::HashSet;
use parquet::{
    basic::{Compression, Encoding, Type as Physical, ZstdLevel},
    column::writer::{ColumnCloseResult, ColumnWriter, get_column_writer, get_typed_column_writer_mut},
    data_type::{
        BoolType, ByteArray, ByteArrayType, DataType as ParquetType, DoubleType, FloatType, Int32Type as PqInt32,
        Int64Type as PqInt64,
    },
    file::properties::{EnabledStatistics, WriterProperties},
    schema::types::ColumnDescPtr,
};

use super::{
    padded::{self, Codes},
    page::CheckedPages,
};
use crate::{
    error::{Error, Result},
    rows::ticks,
};

/// Maximum bytes of a data page before compression; long texts therefore get more pages than planned.
const PAGE_BYTES: usize = 1 << 20;
/// Maximum bytes of a dictionary; values beyond it are written without a dictionary.
const DICTIONARY_BYTES: usize = 1 << 20;
/// Limit for a dictionary whose bytes were counted beforehand: never reached.
const COUNTED_BYTES: usize = 1 << 30;
/// Pages of numbers are compressed if that saves one byte in this many.
const SAVES_AT_LEAST: i64 = 16;
/// Maximum rows of one slice of a sample.
const TRIAL_SLICE: usize = 4_096;

/// Bytes of a column chunk, dictionary first, and its metadata for the footer.
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) close: ColumnCloseResult,
}

/// How a chunk is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// Encoding of values that are not in the dictionary.
    encoding: Encoding,
    /// Maximum bytes of the dictionary; `None` for no dictionary.
    dictionary: Option<usize>,
    /// Whether pages are compressed.
    is_compressed: bool,
}

impl Choice {
    /// Encoding of the time column: regular steps compress to almost nothing, and values never repeat in a series.
    pub(super) const TIME: Choice =
        Choice { encoding: Encoding::DELTA_BINARY_PACKED, dictionary: None, is_compressed: true };

    pub(super) fn plain(encoding: Encoding) -> Self {
        Self { encoding, dictionary: None, is_compressed: true }
    }

    fn dictionary(encoding: Encoding) -> Self {
        Self { encoding, dictionary: Some(DICTIONARY_BYTES), is_compressed: true }
    }
}

/// Compression level of pages.
pub(super) const ZSTD_LEVEL: i32 = 1;

pub(super) fn compression() -> Compression {
    Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).unwrap_or_default())
}

/// Encodes a column in the encoding that gives the smallest sample; `pages` are the row counts of its pages, which sum
/// up to its rows.
pub(super) fn encode_smallest(column: &ColumnDescPtr, values: &ArrayRef, pages: &[usize]) -> Result<Chunk> {
    let (choice, are_codes_smaller) = choose(column, values, pages)?;
    if are_codes_smaller && let Some(codes) = Codes::of(column, &prepare(values)?) {
        return padded::encode(column, &codes, values.nulls(), pages);
    }
    encode(column, values, pages, choice)
}

/// Encodes a column in a given encoding.
pub(super) fn encode(column: &ColumnDescPtr, values: &dyn Array, pages: &[usize], choice: Choice) -> Result<Chunk> {
    let rows = pages.iter().copied().max().unwrap_or(1).max(1);
    // The writer checks the row limit of 1 after each batch of up to `rows` rows: each write closes one page.
    let mut properties = WriterProperties::builder()
        .set_compression(if choice.is_compressed { compression() } else { Compression::UNCOMPRESSED })
        .set_data_page_row_count_limit(1)
        .set_write_batch_size(rows)
        .set_data_page_size_limit(PAGE_BYTES)
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_encoding(choice.encoding)
        .set_dictionary_enabled(choice.dictionary.is_some());
    if let Some(bytes) = choice.dictionary {
        properties = properties.set_dictionary_page_size_limit(bytes);
    }
    let prepared = prepare(values)?;
    let mut bytes = Vec::new();
    let page_writer = Box::new(CheckedPages(&mut bytes));
    let mut writer = get_column_writer(column.clone(), Arc::new(properties.build()), page_writer);
    let levels = Levels { nullable: column.max_def_level() > 0, nulls: values.nulls() };
    match &prepared {
        Values::Bool(v) => write_pages::<BoolType>(&mut writer, v, &levels, pages)?,
        Values::I32(v) => write_pages::<PqInt32>(&mut writer, v, &levels, pages)?,
        Values::I64(v) => write_pages::<PqInt64>(&mut writer, v, &levels, pages)?,
        Values::F32(v) => write_pages::<FloatType>(&mut writer, v, &levels, pages)?,
        Values::F64(v) => write_pages::<DoubleType>(&mut writer, v, &levels, pages)?,
        Values::Bytes(v) => write_pages::<ByteArrayType>(&mut writer, v, &levels, pages)?,
    }
    let close = writer.close()?;
    Ok(Chunk { bytes, close })
}

/// Returns the Parquet crate's encoding that gives the smallest sample of a column, and whether 8-bit codes
/// ([`padded`]) are smaller still.
fn choose(column: &ColumnDescPtr, values: &ArrayRef, pages: &[usize]) -> Result<(Choice, bool)> {
    let mut candidates = match column.physical_type() {
        Physical::INT32 | Physical::INT64 => vec![
            Choice::plain(Encoding::DELTA_BINARY_PACKED),
            Choice::plain(Encoding::BYTE_STREAM_SPLIT),
            Choice::dictionary(Encoding::BYTE_STREAM_SPLIT),
        ],
        Physical::FLOAT | Physical::DOUBLE => vec![
            Choice::plain(Encoding::BYTE_STREAM_SPLIT),
            Choice::plain(Encoding::PLAIN),
            Choice::dictionary(Encoding::BYTE_STREAM_SPLIT),
        ],
        Physical::BYTE_ARRAY => vec![
            Choice::plain(Encoding::DELTA_LENGTH_BYTE_ARRAY),
            Choice::plain(Encoding::PLAIN),
            Choice { encoding: Encoding::PLAIN, dictionary: Some(COUNTED_BYTES), is_compressed: true },
        ],
        _ => return Ok((Choice::plain(Encoding::PLAIN), false)),
    };
    let rows = values.len();
    if values.null_count() == rows {
        return Ok((Choice::plain(Encoding::PLAIN), false));
    }
    if rows < 64 {
        return Ok((candidates[0], false));
    }
    let (sample, sample_pages) = sample(values, pages)?;
    if !repeats(&sample) || (column.physical_type() == Physical::BYTE_ARRAY && !counts_as_dictionary(values)) {
        candidates.retain(|c| c.dictionary.is_none());
    }
    let mut best: Option<(usize, Choice)> = None;
    for choice in candidates {
        let chunk = encode(column, &sample, &sample_pages, choice)?;
        let size = size_of(&chunk, sample.len(), rows);
        if best.is_none_or(|(smallest, _)| size < smallest) {
            let is_compressed = !is_number(column) || choice.dictionary.is_some() || saves(&chunk);
            best = Some((size, Choice { is_compressed, ..choice }));
        }
    }
    let Some((smallest, choice)) = best else { return Ok((Choice::plain(Encoding::PLAIN), false)) };
    let Some(codes) = Codes::of(column, &prepare(&sample)?) else { return Ok((choice, false)) };
    let chunk = padded::encode(column, &codes, sample.nulls(), &sample_pages)?;
    Ok((choice, size_of(&chunk, sample.len(), rows) < smallest))
}

/// Whether compression saves as many bytes as its time is worth: decompression takes as long as the decoding of the numbers.
fn saves(sample: &Chunk) -> bool {
    let metadata = &sample.close.metadata;
    let (stored, raw) = (metadata.compressed_size(), metadata.uncompressed_size());
    (raw - stored) * SAVES_AT_LEAST >= raw
}

fn is_number(column: &ColumnDescPtr) -> bool {
    matches!(column.physical_type(), Physical::INT32 | Physical::INT64 | Physical::FLOAT | Physical::DOUBLE)
}

/// Bytes of an encoded sample, with a proportional part of its dictionary: one dictionary serves all rows of the chunk.
fn size_of(sample: &Chunk, sample_rows: usize, rows: usize) -> usize {
    let metadata = &sample.close.metadata;
    let pages = usize::try_from(metadata.data_page_offset()).unwrap_or_default();
    let dictionary = metadata.dictionary_page_offset().map_or(0, |_| pages);
    sample.bytes.len() - dictionary + dictionary * sample_rows / rows
}

/// Returns slices of pages spread over the chunk: about a sixteenth of its rows, but at least 8 192 if there are as
/// many.
fn sample(values: &ArrayRef, pages: &[usize]) -> Result<(ArrayRef, Vec<usize>)> {
    let rows = values.len();
    let limit = (rows / 16).max(2 * TRIAL_SLICE);
    if rows <= limit {
        return Ok((values.clone(), pages.to_vec()));
    }
    let average = rows / pages.len().max(1);
    let wanted = limit.div_ceil(average.clamp(1, TRIAL_SLICE)).clamp(1, pages.len());
    let (mut slices, mut lengths) = (Vec::with_capacity(wanted), Vec::with_capacity(wanted));
    let (mut start, mut taken) = (0, 0);
    for (i, page) in pages.iter().enumerate() {
        if i * wanted / pages.len() >= slices.len() && taken < limit {
            let len = (*page).min(TRIAL_SLICE);
            slices.push(values.slice(start, len));
            lengths.push(len);
            taken += len;
        }
        start += page;
    }
    Ok((concat(&slices.iter().map(AsRef::as_ref).collect::<Vec<_>>())?, lengths))
}

/// Whether a dictionary may pay: each distinct value occurs at least four times on average.
fn repeats(values: &ArrayRef) -> bool {
    let limit = (values.len() - values.null_count()) / 4;
    fn few<T: Eq + std::hash::Hash>(values: impl Iterator<Item = T>, limit: usize) -> bool {
        let mut seen = HashSet::new();
        values.into_iter().all(|v| !seen.insert(v) || seen.len() <= limit)
    }
    match prepare(values) {
        Ok(Values::I32(v)) => few(v.iter(), limit),
        Ok(Values::I64(v)) => few(v.iter(), limit),
        Ok(Values::F32(v)) => few(v.iter().map(|v| v.to_bits()), limit),
        Ok(Values::F64(v)) => few(v.iter().map(|v| v.to_bits()), limit),
        Ok(Values::Bytes(v)) => few(v.iter().map(|v| v.data()), limit),
        Ok(Values::Bool(_)) | Err(_) => false,
    }
}

/// Whether the distinct texts of a chunk fit into [`DICTIONARY_BYTES`].
fn counts_as_dictionary(values: &ArrayRef) -> bool {
    let mut seen: HashSet<&[u8]> = HashSet::new();
    let mut bytes = 0;
    let mut small = |v: &'_ [u8]| {
        bytes += v.len() + 4;
        bytes <= DICTIONARY_BYTES
    };
    match values.data_type() {
        DataType::Utf8 => {
            values.as_string::<i32>().iter().flatten().all(|v| !seen.insert(v.as_bytes()) || small(v.as_bytes()))
        }
        DataType::Binary => values.as_binary::<i32>().iter().flatten().all(|v| !seen.insert(v) || small(v)),
        _ => false,
    }
}

/// Non-null values, by physical type of Parquet.
pub(super) enum Values<'a> {
    Bool(Vec<bool>),
    I32(Cow<'a, [i32]>),
    I64(Cow<'a, [i64]>),
    F32(Cow<'a, [f32]>),
    F64(Cow<'a, [f64]>),
    Bytes(Vec<ByteArray>),
}

pub(super) fn prepare(values: &dyn Array) -> Result<Values<'_>> {
    Ok(match values.data_type() {
        DataType::Boolean => Values::Bool(values.as_boolean().iter().flatten().collect()),
        DataType::Int8 => Values::I32(converted::<Int8Type, _>(values, i32::from)),
        DataType::Int16 => Values::I32(converted::<Int16Type, _>(values, i32::from)),
        DataType::Int32 => Values::I32(valid(values.as_primitive::<Int32Type>().values(), values.nulls())),
        DataType::Int64 => Values::I64(valid(values.as_primitive::<Int64Type>().values(), values.nulls())),
        DataType::UInt8 => Values::I32(converted::<UInt8Type, _>(values, i32::from)),
        DataType::UInt16 => Values::I32(converted::<UInt16Type, _>(values, i32::from)),
        DataType::UInt32 => Values::I32(converted::<UInt32Type, _>(values, |v| v as i32)),
        DataType::UInt64 => Values::I64(converted::<UInt64Type, _>(values, |v| v as i64)),
        DataType::Float32 => Values::F32(valid(values.as_primitive::<Float32Type>().values(), values.nulls())),
        DataType::Float64 => Values::F64(valid(values.as_primitive::<Float64Type>().values(), values.nulls())),
        DataType::Utf8 => {
            let values = values.as_string::<i32>();
            Values::Bytes(byte_arrays(values.value_data(), values.value_offsets(), values.nulls()))
        }
        DataType::Binary => {
            let values = values.as_binary::<i32>();
            Values::Bytes(byte_arrays(values.value_data(), values.value_offsets(), values.nulls()))
        }
        other => match ticks(values) {
            Some(ticks) => Values::I64(valid(ticks, values.nulls())),
            None => return Err(Error::internal("unsupported type of a column in a data file").with("found", other)),
        },
    })
}

fn valid<'a, T: Copy>(values: &'a [T], nulls: Option<&NullBuffer>) -> Cow<'a, [T]> {
    match nulls.filter(|n| n.null_count() > 0) {
        None => Cow::Borrowed(values),
        Some(nulls) => Cow::Owned(nulls.valid_indices().map(|i| values[i]).collect()),
    }
}

fn converted<T: ArrowPrimitiveType, V: Copy>(values: &dyn Array, convert: impl Fn(T::Native) -> V) -> Cow<'_, [V]> {
    let native = values.as_primitive::<T>().values();
    match values.nulls().filter(|n| n.null_count() > 0) {
        None => Cow::Owned(native.iter().map(|v| convert(*v)).collect()),
        Some(nulls) => Cow::Owned(nulls.valid_indices().map(|i| convert(native[i])).collect()),
    }
}

fn byte_arrays(data: &[u8], offsets: &[i32], nulls: Option<&NullBuffer>) -> Vec<ByteArray> {
    let start = offsets.first().map_or(0, |o| *o as usize);
    let end = offsets.last().map_or(0, |o| *o as usize);
    let shared = Bytes::copy_from_slice(&data[start..end]);
    let value = |i: usize| ByteArray::from(shared.slice(offsets[i] as usize - start..offsets[i + 1] as usize - start));
    match nulls.filter(|n| n.null_count() > 0) {
        None => (0..offsets.len() - 1).map(value).collect(),
        Some(nulls) => nulls.valid_indices().map(value).collect(),
    }
}

/// Definition levels: which rows have a value.
struct Levels<'a> {
    nullable: bool,
    nulls: Option<&'a NullBuffer>,
}

fn write_pages<T: ParquetType>(
    writer: &mut ColumnWriter<'_>,
    mut values: &[T::T],
    levels: &Levels<'_>,
    pages: &[usize],
) -> Result<()> {
    let writer = get_typed_column_writer_mut::<T>(writer);
    let mut of_page = vec![1i16; pages.iter().copied().max().unwrap_or(0)];
    let nulls = levels.nulls.filter(|n| n.null_count() > 0);
    let mut start = 0;
    for rows in pages {
        let count = match nulls {
            None => *rows,
            Some(nulls) => {
                let page = nulls.slice(start, *rows);
                page.iter().zip(&mut of_page).for_each(|(valid, level)| *level = i16::from(valid));
                rows - page.null_count()
            }
        };
        let (now, rest) = values.split_at(count);
        writer.write_batch(now, levels.nullable.then(|| &of_page[..*rows]), None)?;
        values = rest;
        start += rows;
    }
    Ok(())
}

/// Concatenates one column of consecutive batches.
pub(super) fn column_of(batches: &[RecordBatch], at: usize) -> Result<ArrayRef> {
    match batches {
        [one] => Ok(one.column(at).clone()),
        _ => Ok(concat(&batches.iter().map(|b| b.column(at).as_ref()).collect::<Vec<_>>())?),
    }
}
