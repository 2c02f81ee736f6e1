//! Decodes numeric columns without nulls straight into arrays.
//!
//! The Parquet crate decodes all other columns. It can decode these too, but a few times slower: it makes a
//! decompressor for each column chunk that it opens, and checks and copies more.

mod cached;
mod decode;
mod matches;
mod open;
mod steps;

use std::{collections::VecDeque, ops::Range, sync::Arc};

use arrow::{
    array::{ArrayRef, AsArray, PrimitiveArray, UInt8Array},
    buffer::{Buffer, ScalarBuffer},
    datatypes::{
        ArrowNativeType, ArrowPrimitiveType, DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt8Type,
        UInt16Type, UInt32Type, UInt64Type,
    },
};
use bytes::Bytes;
use parquet::{
    basic::{Compression, Encoding, Type as Physical},
    file::metadata::ColumnChunkMetaData,
};

pub(super) use self::cached::CachedPage;
use self::{decode::raw, steps::Steps};
use super::page_cache::CachedChunk;
use crate::error::{Error, Result};

/// Page encodings that this module decodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// RLE_DICTIONARY: codes of a dictionary, here of at most 256 numbers.
    Codes,
    /// DELTA_BINARY_PACKED, of 64-bit numbers.
    Steps,
    /// BYTE_STREAM_SPLIT: the first bytes of all numbers, then their second bytes, and so on.
    Split,
    /// PLAIN: one number after another.
    Plain,
}

/// Encoding of a chunk; `None` if the Parquet crate must decode it.
pub(super) fn kind(chunk: &ColumnChunkMetaData, data_type: &DataType) -> Option<Kind> {
    let no_nulls = chunk.statistics().and_then(|s| s.null_count_opt()) == Some(0);
    let is_known = matches!(chunk.compression(), Compression::ZSTD(_) | Compression::UNCOMPRESSED);
    if !no_nulls || !is_known || chunk.column_descr().max_rep_level() > 0 || !is_number(data_type) {
        return None;
    }
    let pages = chunk.page_encoding_stats_mask()?;
    if pages.is_only(Encoding::RLE_DICTIONARY) && chunk.dictionary_page_offset().is_some() {
        return Some(Kind::Codes);
    }
    if chunk.column_type() == Physical::INT64 && pages.is_only(Encoding::DELTA_BINARY_PACKED) {
        return Some(Kind::Steps);
    }
    let whole = [(Encoding::BYTE_STREAM_SPLIT, Kind::Split), (Encoding::PLAIN, Kind::Plain)];
    whole.into_iter().find(|(encoding, _)| pages.is_only(*encoding)).map(|(_, kind)| kind)
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(data_type, DataType::Float32 | DataType::Float64)
        || matches!(data_type, DataType::Timestamp(unit, _) if *unit != TimeUnit::Second)
}

/// Bytes that a number takes in the cache, on average.
pub(super) fn held_bytes(chunk: &ColumnChunkMetaData, kind: Kind) -> usize {
    match kind {
        // Integers that are near those beside them are within 256 of each other in most pages.
        Kind::Codes | Kind::Steps => 1,
        Kind::Split | Kind::Plain => width_of(chunk),
    }
}

/// Stored bytes of a number: 4 or 8.
fn width_of(chunk: &ColumnChunkMetaData) -> usize {
    if matches!(chunk.column_type(), Physical::INT32 | Physical::FLOAT) { 4 } else { 8 }
}

/// A number whose stored bits are the low bits of a `u64`.
trait Stored: ArrowNativeType {
    fn of_bits(bits: u64) -> Self;
}

macro_rules! stored {
    ($($native:ty, $bits:ident => $of:expr;)*) => {$(
        impl Stored for $native {
            fn of_bits($bits: u64) -> Self {
                $of
            }
        }
    )*};
}

stored! {
    i8, bits => bits as i8;
    i16, bits => bits as i16;
    i32, bits => bits as i32;
    i64, bits => bits as i64;
    u8, bits => bits as u8;
    u16, bits => bits as u16;
    u32, bits => bits as u32;
    u64, bits => bits;
    f32, bits => f32::from_bits(bits as u32);
    f64, bits => f64::from_bits(bits);
}

/// Evaluates an expression with `$t` bound to the Arrow type of a numeric column.
macro_rules! of_type {
    ($data_type:expr, $t:ident => $with:expr) => {
        of_type!($data_type, $t => $with;
            DataType::Int8 => Int8Type, DataType::Int16 => Int16Type,
            DataType::Int32 => Int32Type, DataType::Int64 => Int64Type,
            DataType::UInt8 => UInt8Type, DataType::UInt16 => UInt16Type,
            DataType::UInt32 => UInt32Type, DataType::UInt64 => UInt64Type,
            DataType::Float32 => Float32Type, DataType::Float64 => Float64Type,
            DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
            DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
            DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType)
    };
    ($data_type:expr, $t:ident => $with:expr; $($of:pat => $arrow:ty),*) => {
        match $data_type {
            $($of => {
                type $t = $arrow;
                $with
            })*
            other => Err(Error::internal("column is not numeric").with("found", other)),
        }
    };
}

/// Decodes the entries of a dictionary from PLAIN encoding.
fn entries<T: ArrowPrimitiveType>(plain: &[u8], width: usize, data_type: &DataType) -> ArrayRef
where
    T::Native: Stored,
{
    let bits = |entry: &[u8]| entry.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    let values: Vec<T::Native> = plain.chunks_exact(width).map(|entry| T::Native::of_bits(bits(entry))).collect();
    Arc::new(PrimitiveArray::<T>::new(values.into(), None).with_data_type(data_type.clone()))
}

/// One page, and its rows within the row group.
pub(super) struct StoredPage {
    pub(super) rows: Range<usize>,
    /// Index of the page within its chunk.
    pub(super) at: usize,
    /// As stored; `None` if the cache holds the page.
    pub(super) stored: Option<Bytes>,
}

/// Dictionary of a chunk.
pub(super) enum Dictionary {
    /// As stored.
    Stored(Bytes),
    /// Decoded.
    Known(ArrayRef),
}

/// Timestamps of adjacent rows, in ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Times {
    /// Equidistant timestamps.
    Even {
        /// First timestamp.
        first: i64,
        /// Distance of adjacent timestamps.
        step: i64,
        /// Number of timestamps.
        rows: usize,
    },
    /// Explicit timestamps.
    Listed(Vec<i64>),
}

impl Times {
    /// Number of timestamps.
    #[expect(clippy::len_without_is_empty, reason = "no list of times is empty")]
    pub fn len(&self) -> usize {
        match self {
            Times::Even { rows, .. } => *rows,
            Times::Listed(ts) => ts.len(),
        }
    }
}

/// Decoder of the requested rows of one chunk.
pub(super) struct Numbers {
    data_type: DataType,
    kind: Kind,
    /// Stored bytes of a number: 4 or 8.
    width: usize,
    /// Bytes that a number takes in the cache, on average.
    held_bytes: usize,
    has_levels: bool,
    is_compressed: bool,
    /// Values of the codes, if pages are dictionary-coded.
    dictionary: Option<ArrayRef>,
    /// Pages not opened yet, ascending.
    pages: VecDeque<StoredPage>,
    current: Option<Current>,
    /// Holds the pages for later passes.
    cached: Option<Arc<CachedChunk>>,
    /// Requested rows not returned yet, ascending.
    rows: VecDeque<Range<usize>>,
}

/// The page that is being read.
struct Current {
    rows: Range<usize>,
    /// Index of the page within its chunk.
    at: usize,
    page: Page,
}

/// A page, decoded as far as its rows are needed.
enum Page {
    /// In the form of the cache: decoded wholly, or codes up to the last requested row if the cache does not hold the page.
    Whole(CachedPage),
    /// Numbers, or their bits in the low bits of each `i64`.
    Numbers(Vec<i64>),
    /// Decoder and bytes of differences, and the numbers decoded so far.
    Steps(Steps, Bytes, Vec<i64>),
}

/// The rows of a page that are kept: ascending indexes among the requested rows, of which `before` precede the page.
#[derive(Clone, Copy)]
struct Kept<'a> {
    indexes: &'a [u32],
    before: usize,
}

impl Kept<'_> {
    /// Their places among the requested rows of the page.
    fn places(&self) -> impl ExactSizeIterator<Item = usize> {
        self.indexes.iter().map(|at| *at as usize - self.before)
    }

    /// Leaves out those below a place.
    fn skip(&mut self, place: usize) {
        let below = self.indexes.iter().take_while(|at| (**at as usize) < self.before + place).count();
        self.indexes = &self.indexes[below..];
    }
}

impl Numbers {
    /// `None` when the dictionary has more than 256 entries. The pages are held by `cached`, if it is given.
    ///
    /// # Errors
    /// [`Kind::Corrupt`](crate::Kind::Corrupt) when the dictionary cannot be decoded.
    pub(super) fn new(
        chunk: &ColumnChunkMetaData,
        kind: Kind,
        data_type: &DataType,
        dictionary: Option<Dictionary>,
        pages: Vec<StoredPage>,
        rows: &[Range<usize>],
        cached: Option<Arc<CachedChunk>>,
    ) -> Result<Option<Self>> {
        let is_compressed = chunk.compression() != Compression::UNCOMPRESSED;
        let width = width_of(chunk);
        let dictionary = match dictionary {
            None => None,
            Some(Dictionary::Known(values)) => Some(values),
            Some(Dictionary::Stored(stored)) => {
                let raw = raw(&stored, is_compressed)?;
                if raw.len() > 256 * width {
                    return Ok(None);
                }
                if raw.is_empty() || raw.len() % width != 0 {
                    return Err(bad("an empty dictionary, or one whose length is not a multiple of the value width"));
                }
                let values = of_type!(data_type.clone(), T => Ok(entries::<T>(&raw, width, data_type)))?;
                cached.iter().for_each(|chunk| chunk.put_dictionary(&values));
                Some(values)
            }
        };
        Ok(Some(Self {
            data_type: data_type.clone(),
            kind,
            width,
            held_bytes: held_bytes(chunk, kind),
            has_levels: chunk.column_descr().max_def_level() > 0,
            is_compressed,
            dictionary,
            pages: pages.into(),
            current: None,
            cached,
            rows: rows.iter().filter(|r| !r.is_empty()).cloned().collect(),
        }))
    }

    /// Values of the codes; `None` if pages are not dictionary-coded.
    pub(super) fn dictionary(&self) -> Option<&ArrayRef> {
        self.dictionary.as_ref()
    }

    /// Returns the values of the next `count` requested rows, or of those of them at the ascending indexes `kept`. Parts of pages
    /// without such rows are not decoded.
    ///
    /// # Errors
    /// [`Kind::Corrupt`](crate::Kind::Corrupt) when a page cannot be decoded.
    pub(super) fn take(&mut self, count: usize, kept: Option<&[u32]>) -> Result<ArrayRef> {
        of_type!(self.data_type.clone(), T => self.values::<T>(count, kept))
    }

    /// As [`take`](Self::take), but returns codes: indexes into the [`dictionary`](Self::dictionary), as UInt8.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(super) fn take_codes(&mut self, count: usize, kept: Option<&[u32]>) -> Result<ArrayRef> {
        let wanted = kept.map_or(count, <[u32]>::len);
        // Otherwise pages are parts of the buffer that was read, which a batch must not keep in memory.
        let is_own = self.is_compressed || self.cached.is_some();
        let (mut values, mut shared) = (Vec::new(), None);
        self.each_page(count, kept, |page, within, kept| {
            let Page::Whole(CachedPage::Codes(raw, codes)) = page else {
                return Err(Error::internal("column is not dictionary-coded"));
            };
            if is_own && kept.is_none() && within.len() == count {
                // One page has all rows: its codes are not copied.
                shared = Some(raw.slice(codes.start + within.start..codes.start + within.end));
                return Ok(());
            }
            let codes = &raw[codes.clone()][within];
            values.reserve(if values.is_empty() { wanted } else { 0 });
            match kept {
                None => values.extend_from_slice(codes),
                Some(kept) => values.extend(kept.places().map(|at| codes[at])),
            }
            Ok(())
        })?;
        let values = match shared {
            Some(codes) => ScalarBuffer::from(Buffer::from(codes)),
            None => values.into(),
        };
        Ok(Arc::new(UInt8Array::new(values, None)))
    }

    /// As [`take`](Self::take), but returns timestamps of all rows and does not expand equidistant ones.
    ///
    /// # Errors
    /// As [`take`](Self::take).
    pub(super) fn take_times(&mut self, count: usize) -> Result<Vec<Times>> {
        let mut times = Vec::new();
        self.each_page(count, None, |page, within, _| {
            times.push(match page {
                Page::Whole(CachedPage::Even(first, step)) => {
                    let first = first.wrapping_add(step.wrapping_mul(within.start as i64));
                    Times::Even { first, step: *step, rows: within.len() }
                }
                Page::Whole(CachedPage::Numbers(narrow)) => {
                    let mut ticks = Vec::with_capacity(within.len());
                    narrow.extend(&mut ticks, within, |tick| tick);
                    Times::Listed(ticks)
                }
                Page::Numbers(ticks) | Page::Steps(_, _, ticks) => Times::Listed(ticks[within].to_vec()),
                Page::Whole(CachedPage::Codes(..)) => return Err(Error::internal("time column is dictionary-coded")),
            });
            Ok(())
        })?;
        Ok(times)
    }

    fn values<T: ArrowPrimitiveType>(&mut self, count: usize, kept: Option<&[u32]>) -> Result<ArrayRef>
    where
        T::Native: Stored,
    {
        let mut entries = [T::Native::default(); 256];
        if let Some(dictionary) = &self.dictionary {
            let known = dictionary.as_primitive::<T>().values();
            entries[..known.len()].copy_from_slice(known);
        }
        let of_step = |v: i64| T::Native::of_bits(v as u64);
        let mut values: Vec<T::Native> = Vec::with_capacity(kept.map_or(count, <[u32]>::len));
        self.each_page(count, kept, |page, within, kept| {
            match (page, kept) {
                (Page::Whole(CachedPage::Codes(raw, codes)), None) => {
                    values.extend(raw[codes.clone()][within].iter().map(|code| entries[*code as usize]));
                }
                (Page::Whole(CachedPage::Codes(raw, codes)), Some(kept)) => {
                    let codes = &raw[codes.clone()][within];
                    values.extend(kept.places().map(|at| entries[codes[at] as usize]));
                }
                (Page::Whole(CachedPage::Numbers(narrow)), None) => narrow.extend(&mut values, within, of_step),
                (Page::Whole(CachedPage::Numbers(narrow)), Some(kept)) => {
                    narrow.gather(&mut values, within.start, kept.places(), of_step);
                }
                (Page::Numbers(numbers) | Page::Steps(_, _, numbers), None) => {
                    values.extend(numbers[within].iter().map(|v| of_step(*v)));
                }
                (Page::Numbers(numbers) | Page::Steps(_, _, numbers), Some(kept)) => {
                    let numbers = &numbers[within];
                    values.extend(kept.places().map(|at| of_step(numbers[at])));
                }
                (Page::Whole(CachedPage::Even(first, step)), kept) => {
                    let start = first.wrapping_add(step.wrapping_mul(within.start as i64));
                    match kept {
                        None => extend_evenly(&mut values, start, *step, within.len(), of_step),
                        Some(kept) => values
                            .extend(kept.places().map(|at| of_step(start.wrapping_add(step.wrapping_mul(at as i64))))),
                    }
                }
            }
            Ok(())
        })?;
        let array = PrimitiveArray::<T>::new(values.into(), None);
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }

    /// Calls `use_page` for each page of the next `count` requested rows, with the range of these rows in the page, and with which
    /// of them are kept if not all are. Pages of which no row is kept are left out.
    fn each_page(
        &mut self,
        count: usize,
        kept: Option<&[u32]>,
        mut use_page: impl FnMut(&Page, Range<usize>, Option<Kept<'_>>) -> Result<()>,
    ) -> Result<()> {
        let (mut done, mut left) = (0, kept);
        while done < count {
            let rows = self.next(count - done)?;
            let kept = left.as_mut().map(|left| {
                let of_page = left.partition_point(|at| (*at as usize) < done + rows.len());
                let (indexes, others) = left.split_at(of_page);
                *left = others;
                Kept { indexes, before: done }
            });
            done += rows.len();
            if kept.as_ref().is_some_and(|kept| kept.indexes.is_empty()) {
                // A page that is not held would be read again by each pass, needed or not.
                let page = self.pages.front().filter(|page| page.stored.is_some() && page.rows.contains(&rows.start));
                if page.is_some_and(|page| self.will_hold(page).is_some()) {
                    self.load(&rows)?;
                }
                continue;
            }
            let kept = kept.filter(|kept| kept.indexes.len() < rows.len());
            self.load(&rows)?;
            let Some(Current { rows: of_page, page, .. }) = &mut self.current else {
                return Err(bad("a page is missing"));
            };
            let within = rows.start - of_page.start..rows.end - of_page.start;
            if let Page::Steps(steps, body, numbers) = page {
                // Parts come in ascending order: indexes before a part are not needed again.
                let mut left = kept;
                let needs = |part: Range<usize>| {
                    // Which rows behind these are kept is not known yet.
                    part.end > within.end
                        || part.end > within.start
                            && left.as_mut().is_none_or(|left| {
                                left.skip(part.start.saturating_sub(within.start));
                                left.places().next().is_some_and(|at| at < part.end - within.start)
                            })
                };
                steps.decode(body, within.end, needs, numbers)?;
            }
            use_page(page, within, kept)?;
        }
        Ok(())
    }

    /// Number of adjacent requested rows up to the end of the page that is read next, if it is dictionary-coded.
    pub(super) fn codes_of_page(&self) -> Option<usize> {
        let rows = self.rows.front().filter(|_| self.dictionary.is_some())?;
        let mut pages = self.current.iter().map(|page| &page.rows).chain(self.pages.iter().map(|page| &page.rows));
        let page = pages.find(|page| page.contains(&rows.start))?;
        Some(page.end.min(rows.end) - rows.start)
    }

    /// Takes the next requested rows of one page, at most `most`, and returns their range in the row group.
    fn next(&mut self, most: usize) -> Result<Range<usize>> {
        let first = self.rows.front_mut().ok_or_else(|| bad("fewer rows than requested"))?;
        let current = self.current.as_ref().map(|current| &current.rows).filter(|rows| rows.contains(&first.start));
        let page = match current {
            Some(rows) => rows,
            None => {
                while self.pages.front().is_some_and(|page| page.rows.end <= first.start) {
                    self.pages.pop_front();
                }
                let page = self.pages.front().map(|page| &page.rows).filter(|rows| rows.contains(&first.start));
                page.ok_or_else(|| bad("a page is missing"))?
            }
        };
        let taken = first.start..first.end.min(page.end).min(first.start + most);
        first.start = taken.end;
        if first.start >= first.end {
            self.rows.pop_front();
        }
        Ok(taken)
    }

    /// Opens the page of these rows, which [`next`](Self::next) returned, unless it is the current one.
    fn load(&mut self, rows: &Range<usize>) -> Result<()> {
        if self.current.as_ref().is_some_and(|current| current.rows.contains(&rows.start)) {
            return Ok(());
        }
        let page = self.pages.pop_front().ok_or_else(|| bad("a page is missing"))?;
        let buffer = match self.current.take() {
            Some(Current { page: Page::Steps(_, _, buffer), .. }) => buffer,
            _ => Vec::new(),
        };
        let opened = self.open(&page, rows.end, buffer)?;
        self.current = Some(Current { rows: page.rows, at: page.at, page: opened });
        Ok(())
    }
}

/// Appends `n` equidistant numbers with one addition and one store each: measured faster than products or blocks.
fn extend_evenly<N: Stored>(values: &mut Vec<N>, start: i64, step: i64, n: usize, of: impl Fn(i64) -> N) {
    let mut next = start;
    values.extend((0..n).map(|_| {
        let value = of(next);
        next = next.wrapping_add(step);
        value
    }));
}

fn bad(found: &'static str) -> Error {
    Error::corrupt("invalid page encoding in a data file").with("found", found)
}
