//! Encodes a column of a row group that is constant within each series: a tag, or the series name.
//!
//! The cost depends on the number of series, not rows: each page is a few runs of dictionary codes.

use arrow::{
    array::{Array, ArrayRef, AsArray, UInt32Array},
    compute::{sort_to_indices, take},
    datatypes::{DataType, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type},
    row::{RowConverter, SortField},
};
use hashbrown::HashMap;
use parquet::{
    basic::Type as Physical, data_type::ByteArray, file::statistics::Statistics, schema::types::ColumnDescPtr,
};

use super::{
    chunk::Chunk,
    coded::{CodedChunk, PageBounds, write_levels, write_runs},
};
use crate::{
    error::{Error, Result},
    rows::ticks,
};

/// Maximum bytes of a value in statistics; a column with a longer value gets no bounds.
const BOUND_BYTES: usize = 64;
/// Dictionaries up to this size in bytes are always used; a larger one must at least halve the bytes of its column.
const DICTIONARY_BYTES: usize = 1 << 20;

/// Rows of one series: its index among the series of the row group, and the number of rows.
pub(super) type Run = (u32, usize);

/// Encodes a column from `values`, one per series of the row group; `None` when it should be encoded row by row
/// instead.
pub(super) fn encode(
    column: &ColumnDescPtr,
    values: &ArrayRef,
    runs: &[Run],
    pages: &[usize],
) -> Result<Option<Chunk>> {
    let Some(dictionary) = Dictionary::of(values)? else { return Ok(None) };
    // Very short runs are smaller bit-packed than as runs. Of a column refused here, the values row by row take at most
    // about four times the bytes of `values`.
    let rows = pages.iter().sum::<usize>();
    if (runs.len() > 64 && rows / runs.len() < 4) || !dictionary.pays(runs) {
        return Ok(None);
    }
    let plain = dictionary.plain.concat();
    let mut chunk = CodedChunk::new(column, &plain, dictionary.plain.len())?;
    let nullable = chunk.is_nullable();
    let mut whole = Bounds::default();
    let width = (usize::BITS - dictionary.plain.len().saturating_sub(1).leading_zeros()).max(1);
    let mut rest = runs.iter().copied();
    let mut open: Run = (0, 0);
    let mut raw = Vec::new();
    for rows in pages {
        let codes = page_codes(*rows, &mut open, &mut rest, &dictionary.codes);
        let bounds = Bounds::of(&codes);
        raw.clear();
        if nullable {
            write_levels(&mut raw, codes.iter().map(|(code, n)| (code.is_some(), *n)));
        }
        raw.push(width as u8);
        write_runs(&mut raw, codes.iter().filter_map(|(code, n)| Some(((*code)?, *n))), width);
        let values = bounds.codes.map(|(min, max)| (dictionary.bound(min), dictionary.bound(max)));
        let text_bytes = codes.iter().filter_map(|(code, n)| Some(dictionary.bound((*code)?).len() * n)).sum();
        chunk.page(*rows, &raw, &PageBounds { values, nulls: bounds.nulls, text_bytes })?;
        whole.add(&bounds);
    }
    let statistics = dictionary.statistics(column.physical_type(), &whole)?;
    chunk.finish(statistics, dictionary.bounded).map(Some)
}

/// Returns the codes of the next page with their row counts; joins adjacent equal codes.
fn page_codes(
    mut rows: usize,
    open: &mut Run,
    rest: &mut impl Iterator<Item = Run>,
    codes: &[Option<u32>],
) -> Vec<(Option<u32>, usize)> {
    let mut page: Vec<(Option<u32>, usize)> = Vec::new();
    while rows > 0 {
        if open.1 == 0 {
            match rest.next() {
                Some(run) => *open = run,
                None => break,
            }
        }
        let n = open.1.min(rows);
        let code = codes[open.0 as usize];
        match page.last_mut().filter(|last| last.0 == code) {
            Some(last) => last.1 += n,
            None => page.push((code, n)),
        }
        open.1 -= n;
        rows -= n;
    }
    page
}

/// Minimum and maximum code of some rows, and the number of nulls.
#[derive(Default)]
struct Bounds {
    codes: Option<(u32, u32)>,
    nulls: usize,
}

impl Bounds {
    fn of(codes: &[(Option<u32>, usize)]) -> Self {
        let values = || codes.iter().filter_map(|(code, _)| *code);
        let nulls = codes.iter().filter(|(code, _)| code.is_none()).map(|(_, n)| n).sum();
        Self { codes: values().min().zip(values().max()), nulls }
    }

    fn add(&mut self, other: &Bounds) {
        self.nulls += other.nulls;
        self.codes = match (self.codes, other.codes) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
    }
}

/// The distinct values of a column in ascending order: codes compare like the values.
struct Dictionary {
    /// Values in PLAIN encoding, by code.
    plain: Vec<Vec<u8>>,
    /// Code of each input value; `None` for null.
    codes: Vec<Option<u32>>,
    /// Bytes before a value in PLAIN encoding: the length prefix of a text.
    prefix: usize,
    /// Whether every value is short enough for statistics.
    bounded: bool,
}

impl Dictionary {
    /// `None` for booleans, floats, and columns with only nulls.
    fn of(values: &ArrayRef) -> Result<Option<Self>> {
        if matches!(values.data_type(), DataType::Boolean) || values.data_type().is_floating() {
            return Ok(None);
        }
        let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
        let rows = converter.convert_columns(std::slice::from_ref(values))?;
        let mut by_value: HashMap<&[u8], u32> = HashMap::new();
        let mut places: Vec<u32> = Vec::new();
        let mut codes: Vec<Option<u32>> = Vec::with_capacity(values.len());
        for i in 0..values.len() {
            codes.push(values.is_valid(i).then(|| {
                *by_value.entry(rows.row(i).data()).or_insert_with(|| {
                    places.push(i as u32);
                    places.len() as u32 - 1
                })
            }));
        }
        let distinct = take(values, &UInt32Array::from(places), None)?;
        let sorted = sort_to_indices(&distinct, None, None)?;
        let mut rank = vec![0u32; sorted.len()];
        sorted.values().iter().enumerate().for_each(|(r, i)| rank[*i as usize] = r as u32);
        codes.iter_mut().flatten().for_each(|code| *code = rank[*code as usize]);
        let sorted = take(&distinct, &sorted, None)?;
        let text = matches!(values.data_type(), DataType::Utf8 | DataType::Binary);
        let prefix = if text { 4 } else { 0 };
        let plain = plain(&sorted)?;
        let bounded = plain.iter().all(|v| v.len() <= BOUND_BYTES + prefix);
        Ok((!plain.is_empty()).then_some(Self { plain, codes, prefix, bounded }))
    }

    /// Whether the dictionary is small, or at most half as large as the values row by row.
    fn pays(&self, runs: &[Run]) -> bool {
        let dictionary = self.plain.iter().map(Vec::len).sum::<usize>();
        let value = |run: &Run| self.codes[run.0 as usize].map_or(0, |code| self.plain[code as usize].len());
        dictionary <= DICTIONARY_BYTES
            || runs.iter().map(|r| r.1.saturating_mul(value(r))).sum::<usize>() / 2 >= dictionary
    }

    /// Value of a code in the form that statistics use.
    fn bound(&self, code: u32) -> &[u8] {
        &self.plain[code as usize][self.prefix..]
    }

    fn statistics(&self, physical: Physical, bounds: &Bounds) -> Result<Statistics> {
        let codes = bounds.codes.filter(|_| self.bounded);
        let (min, max) = (codes.map(|c| self.bound(c.0)), codes.map(|c| self.bound(c.1)));
        let nulls = Some(bounds.nulls as u64);
        let i32_of = |b: &[u8]| b.try_into().map(i32::from_le_bytes).unwrap_or_default();
        let i64_of = |b: &[u8]| b.try_into().map(i64::from_le_bytes).unwrap_or_default();
        Ok(match physical {
            Physical::INT32 => Statistics::int32(min.map(i32_of), max.map(i32_of), None, nulls, false),
            Physical::INT64 => Statistics::int64(min.map(i64_of), max.map(i64_of), None, nulls, false),
            Physical::BYTE_ARRAY => {
                let of = |b: &[u8]| ByteArray::from(b.to_vec());
                Statistics::byte_array(min.map(of), max.map(of), None, nulls, false)
            }
            other => return Err(Error::internal("unsupported physical type of a tag").with("found", other)),
        })
    }
}

/// Each value in Parquet's PLAIN encoding.
fn plain(values: &ArrayRef) -> Result<Vec<Vec<u8>>> {
    fn of<T: arrow::datatypes::ArrowPrimitiveType, const N: usize>(
        values: &ArrayRef,
        bytes: impl Fn(T::Native) -> [u8; N],
    ) -> Vec<Vec<u8>> {
        values.as_primitive::<T>().values().iter().map(|v| bytes(*v).to_vec()).collect()
    }
    let text = |v: &[u8]| [&(v.len() as u32).to_le_bytes(), v].concat();
    Ok(match values.data_type() {
        DataType::Int8 => of::<Int8Type, 4>(values, |v| i32::from(v).to_le_bytes()),
        DataType::Int16 => of::<Int16Type, 4>(values, |v| i32::from(v).to_le_bytes()),
        DataType::Int32 => of::<Int32Type, 4>(values, |v| v.to_le_bytes()),
        DataType::Int64 => of::<Int64Type, 8>(values, |v| v.to_le_bytes()),
        DataType::UInt8 => of::<UInt8Type, 4>(values, |v| u32::from(v).to_le_bytes()),
        DataType::UInt16 => of::<UInt16Type, 4>(values, |v| u32::from(v).to_le_bytes()),
        DataType::UInt32 => of::<UInt32Type, 4>(values, |v| v.to_le_bytes()),
        DataType::UInt64 => of::<UInt64Type, 8>(values, |v| v.to_le_bytes()),
        DataType::Utf8 => values.as_string::<i32>().iter().flatten().map(|v| text(v.as_bytes())).collect(),
        DataType::Binary => values.as_binary::<i32>().iter().flatten().map(text).collect(),
        other => match ticks(values) {
            Some(ticks) => ticks.iter().map(|v| v.to_le_bytes().to_vec()).collect(),
            None => return Err(Error::internal("unsupported type of a tag in a data file").with("found", other)),
        },
    })
}
