//! The tag manifest: sidecar of a data file, one row per series in it, its index and first level of aggregates.

use arrow::array::ArrayRef;
use bytes::Bytes;

use crate::{
    error::{Error, Result},
    ids::ColumnId,
    rows::SeriesSet,
};

/// What a tag manifest knows of a column, per series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Aggregate {
    /// UInt64, not null: how many values are not null. The only one that strings, booleans and binaries have.
    Count,
    /// Int64 (wrapping) for signed integers, UInt64 (wrapping) for unsigned ones, Float64 for floats; null without values.
    Sum,
    /// Of the column's type, by total order (NaN greatest); null without values.
    Min,
    /// Of the column's type, by total order (NaN greatest); null without values.
    Max,
    /// The value at the smallest time where there is one; of the column's type.
    First,
    /// The time of [`Aggregate::First`], Int64 ticks; null without values.
    FirstTs,
    /// The value at the largest time where there is one; of the column's type.
    Last,
    /// The time of [`Aggregate::Last`], Int64 ticks; null without values.
    LastTs,
}

/// One row per series of a data file, in file order.
#[derive(Debug, Clone, PartialEq)]
pub struct TagManifest {
    series: SeriesSet,
    first_row: Vec<u64>,
    row_count: Vec<u64>,
    min_ts: Vec<i64>,
    max_ts: Vec<i64>,
    aggregates: Vec<(ColumnId, Aggregate, ArrayRef)>,
}

impl TagManifest {
    /// How many series.
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

    /// The row of the file where each series starts.
    pub fn first_row(&self) -> &[u64] {
        &self.first_row
    }

    /// How many rows each series has; they are adjacent.
    pub fn row_count(&self) -> &[u64] {
        &self.row_count
    }

    /// The smallest time of each series, in ticks.
    pub fn min_ts(&self) -> &[i64] {
        &self.min_ts
    }

    /// The largest time of each series, in ticks.
    pub fn max_ts(&self) -> &[i64] {
        &self.max_ts
    }

    /// An aggregate of a field per series; `None` when the file does not carry it (the column was added later, or
    /// its type has no such aggregate).
    pub fn aggregate(&self, column: ColumnId, what: Aggregate) -> Option<&ArrayRef> {
        self.aggregates.iter().find(|(c, a, _)| (*c, *a) == (column, what)).map(|(_, _, values)| values)
    }

    /// Encodes the manifest; the same manifest always gives the same bytes.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) when Arrow refuses it.
    pub fn encode(&self) -> Result<Bytes> {
        Err(Error::internal("tag manifests cannot be written yet"))
    }

    /// Decodes a manifest; `key` is only for messages.
    ///
    /// # Errors
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) for a newer format version, otherwise
    /// [`Kind::Corrupt`](crate::Kind::Corrupt); both name the key, what was expected and what was found.
    pub fn decode(key: &str, bytes: &Bytes) -> Result<Self> {
        let _ = bytes;
        Err(Error::internal("tag manifests cannot be read yet").with("key", key))
    }
}
