//! The tag manifest: sidecar of a data file, one row per series in it, its index and first level of aggregates.
//!
//! [`DataFileWriter`](crate::file::DataFileWriter) builds it while the rows of the file are written.
//!
//! ```text
//! offset  size  little-endian
//!      0     8  magic "TLTAGMAN"
//!      8     2  format version, 1
//!     10     2  flags, 0
//!     12     4  number of series, n
//!     16     8  bytes of the body before compression
//!     24     4  crc32 of the body as stored
//!     28     4  crc32 of bytes 0 to 28
//!     32        body, to the end of the object
//! ```
//!
//! The body is one zstd frame (level 1): the length of the first stream (u64), the Arrow IPC stream of the series
//! set in file order, the Arrow IPC stream of n rows × (`rows` UInt64, `min_ts` Int64, `max_ts` Int64, then one
//! column per aggregate, named `<name>` and carrying the id of its field as `PARQUET:field_id`). The first row of a
//! series is the sum of `rows` before it. `first_ts` and `last_ts` are null where they equal `min_ts` and `max_ts`.

mod aggregate;
mod builder;
mod codec;

use arrow::array::{ArrayRef, Int64Array};

pub(crate) use aggregate::{Accumulator, accumulator};
pub(crate) use builder::{ManifestBuilder, conform};

use crate::{
    ids::ColumnId,
    rows::{SeriesSet, batch_bytes},
};

/// Per-series aggregates of a column in a tag manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Aggregate {
    /// UInt64, not null: the number of non-null values. The only aggregate of texts, booleans and binaries.
    Count,
    /// Int64 (wrapping) for signed integers, UInt64 (wrapping) for unsigned ones, Float64 for floats; null without
    /// values; timestamps have none.
    Sum,
    /// Of the column's type, by total order (NaN greatest); null without values.
    Min,
    /// Of the column's type, by total order (NaN greatest); null without values.
    Max,
    /// The non-null value with the smallest time, of the column's type; null without values.
    First,
    /// The time of [`Aggregate::First`], Int64 ticks; null without values.
    FirstTs,
    /// The non-null value with the largest time, of the column's type; null without values.
    Last,
    /// The time of [`Aggregate::Last`], Int64 ticks; null without values.
    LastTs,
}

impl Aggregate {
    /// All aggregates.
    pub const ALL: [Aggregate; 8] = [
        Aggregate::Count,
        Aggregate::Sum,
        Aggregate::Min,
        Aggregate::Max,
        Aggregate::First,
        Aggregate::FirstTs,
        Aggregate::Last,
        Aggregate::LastTs,
    ];

    /// The name of the aggregate in the encoded manifest.
    pub fn name(self) -> &'static str {
        match self {
            Aggregate::Count => "count",
            Aggregate::Sum => "sum",
            Aggregate::Min => "min",
            Aggregate::Max => "max",
            Aggregate::First => "first",
            Aggregate::FirstTs => "first_ts",
            Aggregate::Last => "last",
            Aggregate::LastTs => "last_ts",
        }
    }
}

/// One row per series of a data file, in file order.
#[derive(Debug, Clone, PartialEq)]
pub struct TagManifest {
    series: SeriesSet,
    first_row: Vec<u64>,
    row_count: Vec<u64>,
    min_ts: Int64Array,
    max_ts: Int64Array,
    aggregates: Vec<(ColumnId, Aggregate, ArrayRef)>,
}

impl TagManifest {
    /// Number of series.
    pub fn len(&self) -> usize {
        self.series.len()
    }

    /// Whether there is no series.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Names and tags.
    pub fn series(&self) -> &SeriesSet {
        &self.series
    }

    /// The first row of each series in the file.
    pub fn first_row(&self) -> &[u64] {
        &self.first_row
    }

    /// The number of rows of each series; they are adjacent.
    pub fn row_count(&self) -> &[u64] {
        &self.row_count
    }

    /// The smallest time of each series, in ticks.
    pub fn min_ts(&self) -> &[i64] {
        self.min_ts.values()
    }

    /// The largest time of each series, in ticks.
    pub fn max_ts(&self) -> &[i64] {
        self.max_ts.values()
    }

    /// An aggregate of a field per series; `None` when the file does not have it (the column was added later, or its
    /// type has no such aggregate).
    pub fn aggregate(&self, column: ColumnId, what: Aggregate) -> Option<&ArrayRef> {
        self.aggregates.iter().find(|(c, a, _)| (*c, *a) == (column, what)).map(|(_, _, values)| values)
    }

    /// Every aggregate of the file: field, kind, one value per series.
    pub fn aggregates(&self) -> impl Iterator<Item = (ColumnId, Aggregate, &ArrayRef)> {
        self.aggregates.iter().map(|(c, a, v)| (*c, *a, v))
    }

    /// Memory used, in bytes, for caches.
    pub fn memory_bytes(&self) -> usize {
        let arrays =
            self.aggregates.iter().map(|(_, _, a)| a.data_type().primitive_width().unwrap_or(1)).sum::<usize>();
        batch_bytes(self.series.batch()) + self.len() * (arrays + 32)
    }
}

/// The checksum in the header of an encoded manifest, which covers that of the body; 0 if the header is incomplete.
pub fn checksum(bytes: &[u8]) -> u32 {
    bytes.get(28..32).and_then(|crc| crc.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The first row of each series: the sum of the counts before it.
fn first_rows(counts: &[u64]) -> Vec<u64> {
    counts.iter().scan(0u64, |row, n| Some(std::mem::replace(row, row.saturating_add(*n)))).collect()
}

#[cfg(test)]
mod tests;
