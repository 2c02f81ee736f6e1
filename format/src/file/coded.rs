//! Writes a dictionary-encoded column chunk: one dictionary page, then RLE_DICTIONARY data pages of version 1.

use arrow::buffer::NullBuffer;
use parquet::{
    basic::{Encoding, PageType, Type as Physical},
    column::{
        page::{CompressedPage, Page, PageWriter},
        writer::ColumnCloseResult,
    },
    file::{
        metadata::{ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder, PageEncodingStats},
        statistics::Statistics,
    },
    schema::types::ColumnDescPtr,
};

use super::{
    chunk::{Chunk, ZSTD_LEVEL, compression},
    page::CheckedPages,
};
use crate::{compression::compress, error::Result};

/// Writer of such a chunk, page by page.
pub(super) struct CodedChunk {
    column: ColumnDescPtr,
    bytes: Vec<u8>,
    raw_bytes: usize,
    data_offset: usize,
    rows: usize,
    pages: usize,
    offsets: OffsetIndexBuilder,
    index: ColumnIndexBuilder,
}

/// Entry of the page index for one page.
pub(super) struct PageBounds<'a> {
    /// Minimum and maximum in PLAIN encoding, texts without their length; `None` if all values are null.
    pub(super) values: Option<(&'a [u8], &'a [u8])>,
    pub(super) nulls: usize,
    /// Total bytes of text values.
    pub(super) text_bytes: usize,
}

impl CodedChunk {
    /// Writes the dictionary page: `plain` is `entries` values in PLAIN encoding, ascending.
    pub(super) fn new(column: &ColumnDescPtr, plain: &[u8], entries: usize) -> Result<Self> {
        let mut chunk = Self {
            column: column.clone(),
            bytes: Vec::new(),
            raw_bytes: 0,
            data_offset: 0,
            rows: 0,
            pages: 0,
            offsets: OffsetIndexBuilder::new(),
            index: ColumnIndexBuilder::new(column.physical_type()),
        };
        let page = Page::DictionaryPage {
            buf: compress(plain, ZSTD_LEVEL)?.into(),
            num_values: entries as u32,
            encoding: Encoding::PLAIN,
            is_sorted: true,
        };
        let spec = CheckedPages(&mut chunk.bytes).write_page(CompressedPage::new(page, plain.len()))?;
        chunk.raw_bytes = spec.uncompressed_size;
        chunk.data_offset = chunk.bytes.len();
        Ok(chunk)
    }

    /// Whether pages begin with definition levels, which mark nulls.
    pub(super) fn is_nullable(&self) -> bool {
        self.column.max_def_level() > 0
    }

    /// Writes a page of `rows` rows; `raw` is its uncompressed body: levels, if the column is nullable, then codes.
    pub(super) fn page(&mut self, rows: usize, raw: &[u8], bounds: &PageBounds<'_>) -> Result<()> {
        let page = Page::DataPage {
            buf: compress(raw, ZSTD_LEVEL)?.into(),
            num_values: rows as u32,
            encoding: Encoding::RLE_DICTIONARY,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let spec = CheckedPages(&mut self.bytes).write_page(CompressedPage::new(page, raw.len()))?;
        self.raw_bytes += spec.uncompressed_size;
        self.offsets.append_offset_and_size(spec.offset as i64, spec.compressed_size as i32);
        self.offsets.append_row_count(rows as i64);
        if self.column.physical_type() == Physical::BYTE_ARRAY {
            self.offsets.append_unencoded_byte_array_data_bytes(Some(bounds.text_bytes as i64));
        }
        let (min, max) = bounds.values.unwrap_or_default();
        self.index.append(bounds.values.is_none(), min.to_vec(), max.to_vec(), bounds.nulls as i64);
        self.rows += rows;
        self.pages += 1;
        Ok(())
    }

    /// Returns the chunk; only with `bounded` does it have a column index with the bounds of its pages.
    pub(super) fn finish(self, statistics: Statistics, bounded: bool) -> Result<Chunk> {
        let pages = |page_type, encoding, count: usize| PageEncodingStats { page_type, encoding, count: count as i32 };
        let metadata = ColumnChunkMetaData::builder(self.column)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_compression(compression())
            .set_num_values(self.rows as i64)
            .set_total_compressed_size(self.bytes.len() as i64)
            .set_total_uncompressed_size(self.raw_bytes as i64)
            .set_dictionary_page_offset(Some(0))
            .set_data_page_offset(self.data_offset as i64)
            .set_statistics(statistics)
            .set_page_encoding_stats(vec![
                pages(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1),
                pages(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, self.pages),
            ])
            .build()?;
        let close = ColumnCloseResult {
            bytes_written: self.bytes.len() as u64,
            rows_written: self.rows as u64,
            metadata,
            bloom_filter: None,
            column_index: if bounded { Some(self.index.build()?) } else { None },
            offset_index: Some(self.offsets.build()),
        };
        Ok(Chunk { bytes: self.bytes, close })
    }
}

/// Appends the definition levels of a page as runs: (whether the rows have a value, number of rows).
pub(super) fn write_levels(out: &mut Vec<u8>, runs: impl Iterator<Item = (bool, usize)>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write_runs(out, runs.map(|(valid, n)| (u32::from(valid), n)), 1);
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

/// Appends the definition levels of a page with nulls as one bit per row.
pub(super) fn write_packed_levels(out: &mut Vec<u8>, nulls: &NullBuffer) {
    let bits = nulls.inner().sliced();
    let mut levels = Vec::new();
    write_bit_packed(&mut levels, &bits.as_slice()[..nulls.len().div_ceil(8)], nulls.len().div_ceil(8));
    // Clear the padding bits after the last row.
    if let (Some(last), n @ 1..) = (levels.last_mut(), nulls.len() % 8) {
        *last &= (1 << n) - 1;
    }
    out.extend_from_slice(&(levels.len() as u32).to_le_bytes());
    out.extend_from_slice(&levels);
}

/// Appends runs in Parquet's RLE/bit-packing hybrid, each as a repeated value of `width` bits; joins adjacent equal
/// ones.
pub(super) fn write_runs(out: &mut Vec<u8>, runs: impl Iterator<Item = (u32, usize)>, width: u32) {
    let mut write = |(value, n): (u32, usize)| {
        write_varint(out, (n as u64) << 1);
        out.extend_from_slice(&value.to_le_bytes()[..width.div_ceil(8) as usize]);
    };
    let mut open: Option<(u32, usize)> = None;
    for (value, n) in runs {
        match &mut open {
            Some(last) if last.0 == value => last.1 += n,
            _ => {
                if let Some(last) = open.replace((value, n)) {
                    write(last);
                }
            }
        }
    }
    open.into_iter().for_each(&mut write);
}

/// Appends 8-bit codes as one bit-packed run.
pub(super) fn write_bytes(out: &mut Vec<u8>, codes: &[u8]) {
    if !codes.is_empty() {
        let groups = codes.len().div_ceil(8);
        write_bit_packed(out, codes, groups);
        out.resize(out.len() + groups * 8 - codes.len(), 0);
    }
}

/// Appends a bit-packed run of `groups` groups of eight values.
fn write_bit_packed(out: &mut Vec<u8>, packed: &[u8], groups: usize) {
    write_varint(out, (groups as u64) << 1 | 1);
    out.extend_from_slice(packed);
}

fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
