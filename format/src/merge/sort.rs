//! Rows sorted by (series, ts), one per key.

use arrow::array::RecordBatch;

use crate::error::{Error, Result};

/// Sorts rows by (series, ts) and keeps one row per key: the newest value of each column wins, null is absent.
///
/// `batches` are oldest first, of one schema ([`Block::rows_schema`](crate::rows::Block::rows_schema)); later rows of
/// a batch are newer; `series` is an index below `series_count`. One sorted batch without repeats comes back as it is.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) when `batches` is empty; [`Kind::Internal`](crate::Kind::Internal) when
/// schemas differ or an index is out of range.
pub fn sort_newest(batches: &[RecordBatch], series_count: usize) -> Result<RecordBatch> {
    let _ = (batches, series_count);
    Err(Error::internal("rows cannot be sorted yet"))
}

/// Merges runs that are each sorted by (series, ts) without repeats, oldest first; as [`sort_newest`] otherwise.
///
/// # Errors
/// As [`sort_newest`].
pub fn merge_sorted(runs: &[RecordBatch]) -> Result<RecordBatch> {
    let _ = runs;
    Err(Error::internal("runs cannot be merged yet"))
}
