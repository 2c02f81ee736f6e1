//! Blocks of the log's tail, sorted once and indexed by series like a data file.

use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::UInt32Type,
};
use parking_lot::Mutex;
use tidelake_format::{
    Result,
    merge::sort_newest,
    rows::{Block, SeriesSet, batch_bytes},
};

use super::{
    filters::TimeRange,
    output::ticks,
    series::{BaseId, Fit},
};

/// Rows of one log block: sorted by (series, ts), one per key, the newest value of each column.
#[derive(Debug)]
pub(crate) struct SortedBlock {
    /// Names and tags, in the block's order.
    pub(crate) series: SeriesSet,
    /// `series`, ts and the fields in the block.
    pub(crate) rows: RecordBatch,
    /// First row of each series.
    pub(crate) first_row: Vec<u64>,
    /// Number of rows of each series; 0 if it was only declared.
    pub(crate) row_count: Vec<u64>,
    /// Smallest time of each series; unspecified without rows.
    pub(crate) min_ts: Vec<i64>,
    /// Largest time of each series; unspecified without rows.
    pub(crate) max_ts: Vec<i64>,
    /// Time span of all rows.
    pub(crate) span: TimeRange,
    /// Approximate memory in bytes.
    pub(crate) weight: usize,
    /// How its series relate to those of the files last read with it.
    pub(crate) fit: Mutex<Option<(BaseId, Fit)>>,
}

impl SortedBlock {
    /// Sorts and indexes a block.
    pub(crate) fn new(block: &Block) -> Result<Self> {
        let series = block.series.clone();
        let rows = match block.rows.num_rows() {
            0 => block.rows.clone(),
            _ => sort_newest(std::slice::from_ref(&block.rows), series.len())?,
        };
        let n = series.len();
        let (mut first_row, mut row_count) = (vec![0u64; n], vec![0u64; n]);
        let (mut min_ts, mut max_ts) = (vec![i64::MAX; n], vec![i64::MIN; n]);
        let mut span = TimeRange::NONE;
        let of = rows.column(0).as_primitive::<UInt32Type>().values();
        let ts = ticks(rows.column(1))?;
        let mut start = 0;
        while start < of.len() {
            let end = start + of[start..].partition_point(|s| *s == of[start]);
            let at = of[start] as usize;
            (first_row[at], row_count[at]) = (start as u64, (end - start) as u64);
            (min_ts[at], max_ts[at]) = (ts[start], ts[end - 1]);
            span = TimeRange { first: span.first.min(ts[start]), last: span.last.max(ts[end - 1]) };
            start = end;
        }
        let weight = batch_bytes(&rows) + batch_bytes(series.batch()) + n * 40 + 256;
        Ok(Self { series, rows, first_row, row_count, min_ts, max_ts, span, weight, fit: Mutex::new(None) })
    }
}
