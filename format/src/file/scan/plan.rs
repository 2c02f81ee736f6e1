//! Which row groups and pages a pass reads, and which of them the cache holds.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use parquet::{basic::Encoding, file::page_index::offset_index::PageLocation};

use super::{PAGE_ROWS, Scan};
use crate::{
    error::Result,
    file::{
        numbers,
        page::{self, Expected},
        page_cache::CachedChunk,
        reader::DataFile,
    },
};

/// Approximate maximum bytes of text in one column of a batch: an Arrow array holds less than 2 GiB, and the rows of
/// one page at most 1 GiB.
const TEXT_BYTES: usize = 256 << 20;

/// Requested rows of one row group, ascending.
pub(super) struct Part {
    pub(super) group: usize,
    /// Within the row group.
    pub(super) rows: Vec<Range<usize>>,
    /// `None` until the part is about to be read.
    pub(super) plan: Option<Plan>,
}

/// Where the pages of a part come from.
#[derive(Clone)]
pub(super) struct Plan {
    /// Byte ranges of the pages that the cache does not hold.
    pub(super) bytes: Vec<Range<u64>>,
    /// For each column of the pass, its pages in the cache.
    pub(super) chunks: Vec<Option<Arc<CachedChunk>>>,
}

impl Scan {
    /// Looks up which pages of a part the cache holds.
    pub(super) fn plan(&self, part: &Part) -> Plan {
        let file = &self.file;
        let chunks: Vec<_> = self.leaves.iter().map(|leaf| self.cached(part, *leaf)).collect();
        let bytes = self.leaves.iter().zip(&chunks);
        let bytes = bytes.flat_map(|(leaf, chunk)| bytes_of(file, part.group, *leaf, &part.rows, chunk.as_deref()));
        Plan { bytes: bytes.collect(), chunks }
    }

    /// The pages of a column in the cache; `None` if they are not to be held.
    fn cached(&self, part: &Part, leaf: usize) -> Option<Arc<CachedChunk>> {
        let pages = self.options.pages.as_ref()?;
        let file = &self.file;
        let chunk = file.metadata().row_group(part.group).column(leaf);
        let kind = numbers::kind(chunk, file.schema().field(leaf).data_type())?;
        if pages_of(file, part.group, leaf).any(|(page, end)| end - page.first_row_index > PAGE_ROWS as i64) {
            return None;
        }
        let rows: usize = part.rows.iter().map(ExactSizeIterator::len).sum();
        pages.chunk(part.group, leaf, pages_of(file, part.group, leaf).count(), rows * numbers::held_bytes(chunk, kind))
    }
}

/// Returns the row groups that hold rows of `ranges`, each with these rows relative to its first row.
pub(super) fn select(
    groups: impl Iterator<Item = Range<u64>>,
    ranges: &[Range<u64>],
) -> Vec<(usize, Vec<Range<usize>>)> {
    let mut selected = Vec::new();
    let mut ranges = ranges.iter().filter(|r| !r.is_empty()).peekable();
    for (group, all) in groups.enumerate() {
        let mut rows: Vec<Range<usize>> = Vec::new();
        while let Some(range) = ranges.peek().filter(|r| r.start < all.end) {
            let start = (range.start.max(all.start) - all.start) as usize;
            let end = (range.end.min(all.end) - all.start) as usize;
            match rows.last_mut().filter(|last| last.end == start) {
                Some(last) => last.end = end,
                None => rows.push(start..end),
            }
            if range.end > all.end {
                break;
            }
            ranges.next();
        }
        if !rows.is_empty() {
            selected.push((group, rows));
        }
    }
    selected
}

/// Returns the pages of a column chunk, each with the index of the row after its last.
fn pages_of(file: &DataFile, group: usize, leaf: usize) -> impl Iterator<Item = (&PageLocation, i64)> {
    let pages = file.metadata().offset_index().and_then(|all| all.get(group)?.get(leaf));
    let pages = pages.map(|i| i.page_locations.as_slice()).unwrap_or_default();
    let ends = pages.iter().skip(1).map(|p| p.first_row_index).chain([file.metadata().row_group(group).num_rows()]);
    pages.iter().zip(ends)
}

/// Byte ranges of a file that were read, sorted by offset.
pub(super) struct Read<'a>(Vec<(&'a Range<u64>, &'a Bytes)>);

impl<'a> Read<'a> {
    pub(super) fn new(ranges: &'a [Range<u64>], found: &'a [Bytes]) -> Self {
        let mut read: Vec<_> = ranges.iter().zip(found).collect();
        read.sort_by_key(|(range, _)| range.start);
        Self(read)
    }

    /// Returns `len` bytes at offset `start` if one range holds them all.
    pub(super) fn at(&self, start: u64, len: u64) -> Option<Bytes> {
        let at = self.0.partition_point(|(range, _)| range.start <= start);
        let (range, bytes) = at.checked_sub(1).map(|at| self.0[at]).filter(|(range, _)| start + len <= range.end)?;
        let offset = (start - range.start) as usize;
        Some(bytes.slice(offset..offset + len as usize))
    }
}

/// Maximum rows of a batch of these columns, by the average text length of their pages.
pub(super) fn longest_batch(file: &DataFile, group: usize, leaves: &[usize]) -> usize {
    let index = |leaf: &usize| file.metadata().offset_index().and_then(|all| all.get(group)?.get(*leaf));
    let texts = leaves.iter().filter_map(|leaf| Some((leaf, index(leaf)?.unencoded_byte_array_data_bytes.as_ref()?)));
    let pages = texts.flat_map(|(leaf, bytes)| {
        let rows = pages_of(file, group, *leaf).map(|(page, end)| end - page.first_row_index);
        rows.zip(bytes).map(|(rows, bytes)| (*bytes as usize) / (rows.max(1) as usize))
    });
    (TEXT_BYTES / pages.max().unwrap_or(0).max(1)).max(1)
}

/// Returns the pages of a column chunk that hold some of `rows`: index, location, and rows within the row group.
pub(super) fn pages_with<'a>(
    file: &'a DataFile,
    group: usize,
    leaf: usize,
    rows: &'a [Range<usize>],
) -> impl Iterator<Item = (usize, &'a PageLocation, Range<usize>)> {
    let mut rest = rows;
    pages_of(file, group, leaf).enumerate().filter_map(move |(at, (page, end))| {
        while let [first, others @ ..] = rest
            && first.end as i64 <= page.first_row_index
        {
            rest = others;
        }
        let is_needed = rest.first().is_some_and(|r| (r.start as i64) < end);
        is_needed.then_some((at, page, page.first_row_index as usize..end as usize))
    })
}

/// Byte range of the dictionary of a column chunk, if it has one.
pub(super) fn dictionary_of(file: &DataFile, group: usize, leaf: usize) -> Option<(i64, i64)> {
    let start = file.metadata().row_group(group).column(leaf).dictionary_page_offset()?;
    let (first, _) = pages_of(file, group, leaf).next()?;
    (start < first.offset).then_some((start, first.offset))
}

/// Byte ranges of a column chunk that hold `rows`: dictionary and pages, without those that are cached, adjacent ranges joined.
fn bytes_of(
    file: &DataFile,
    group: usize,
    leaf: usize,
    rows: &[Range<usize>],
    cached: Option<&CachedChunk>,
) -> Vec<Range<u64>> {
    let mut bytes: Vec<Range<u64>> = Vec::new();
    let mut add = |start: i64, end: i64| match bytes.last_mut().filter(|last| last.end == start as u64) {
        Some(last) => last.end = end as u64,
        None => bytes.push(start as u64..end as u64),
    };
    let is_known = cached.is_some_and(|chunk| chunk.dictionary().is_some());
    if let Some((start, end)) = dictionary_of(file, group, leaf).filter(|_| !is_known) {
        add(start, end);
    }
    for (at, page, _) in pages_with(file, group, leaf, rows) {
        if cached.is_none_or(|chunk| chunk.page(at).is_none()) {
            add(page.offset, page.offset + i64::from(page.compressed_page_size));
        }
    }
    bytes
}

/// Verifies every page of a row group that lies entirely in the bytes that were read.
pub(super) fn check(
    file: &DataFile,
    group: usize,
    leaves: &[usize],
    ranges: &[Range<u64>],
    found: &[Bytes],
) -> Result<()> {
    let read = Read::new(ranges, found);
    for leaf in leaves {
        let chunk = file.metadata().row_group(group).column(*leaf);
        let encodings: Vec<Encoding> = chunk.encodings().collect();
        let check = |start: i64, len: i64, rows: Option<u64>| {
            let Some(stored) = read.at(start as u64, len as u64) else { return Ok(()) };
            let expected = Expected { rows, encodings: &encodings, raw_bytes: chunk.uncompressed_size() };
            page::check(&stored, &expected)
                .map_err(|e| e.with("key", file.key()).with("column", chunk.column_path()).with("row_group", group))
        };
        if let Some((start, end)) = dictionary_of(file, group, *leaf) {
            check(start, end - start, None)?;
        }
        for (page, end) in pages_of(file, group, *leaf) {
            check(page.offset, page.compressed_page_size.into(), Some((end - page.first_row_index) as u64))?;
        }
    }
    Ok(())
}
