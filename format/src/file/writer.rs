//! Rows in, Parquet and tag manifest out.

use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;

use crate::{
    error::{Error, Result},
    rows::SeriesSet,
    schema::Supertable,
    tags::TagManifest,
    types::Precision,
};

/// How rows are cut into pages and row groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataFileOptions {
    /// A page is cut at the end of a series once it has this many rows; default 2 000. Lower: more pages, each with
    /// a header and an index entry of some 60 bytes a column; higher: less exact row ranges.
    pub page_rows: usize,
    /// No page has more rows; default 16 384.
    pub page_rows_max: usize,
    /// A row group is cut at the end of a series once it has this many rows, and anywhere at twice as many;
    /// default 1 048 576. Rows of a row group are held in memory until it is written.
    pub row_group_rows: usize,
}

impl Default for DataFileOptions {
    fn default() -> Self {
        Self { page_rows: 2_000, page_rows_max: 16_384, row_group_rows: 1 << 20 }
    }
}

/// A data file ready to be put, and its tag manifest.
#[derive(Debug, Clone)]
pub struct EncodedFile {
    /// The Parquet file.
    pub data: Bytes,
    /// The encoded tag manifest.
    pub tags: Bytes,
    /// The tag manifest.
    pub manifest: TagManifest,
    /// Number of rows.
    pub rows: u64,
    /// Number of series.
    pub series: u64,
    /// The smallest time, in ticks.
    pub min_ts: i64,
    /// The largest time, in ticks.
    pub max_ts: i64,
    /// [`content_hash`](crate::merge::content_hash) of all rows.
    pub hash: u64,
}

/// Writes one data file and its tag manifest into memory.
#[derive(Debug)]
pub struct DataFileWriter {
    rows: u64,
}

impl DataFileWriter {
    /// A writer of a file with every column that the table has now.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) when the options are zero or contradict each other.
    pub fn new(table: Arc<Supertable>, precision: Precision, options: DataFileOptions) -> Result<Self> {
        let _ = (table, precision, options);
        Ok(Self { rows: 0 })
    }

    /// Appends rows.
    ///
    /// `series` are in file order; `batch` is of [`Block::rows_schema`](crate::rows::Block::rows_schema) with
    /// `series` an index into them, sorted by (series, ts) without repeats. Later calls go on where the one before
    /// ended: series never go back (the same one may continue at a larger ts). `series` may be another set in each call.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) when schema or order is not as described.
    pub fn write(&mut self, series: &SeriesSet, batch: &RecordBatch) -> Result<()> {
        let _ = (series, batch);
        Err(Error::internal("data files cannot be written yet"))
    }

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Bytes of encoded pages and of rows that wait for their row group.
    pub fn buffered_bytes(&self) -> usize {
        0
    }

    /// Writes the last row group and the footer.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) when there is no row.
    pub fn finish(self) -> Result<EncodedFile> {
        Err(Error::internal("data files cannot be written yet"))
    }
}
