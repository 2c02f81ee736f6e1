//! `window_start(ts, width, offset, zone)`: the start of the time window that holds an instant.

use datafusion::physical_expr::{PhysicalExpr, expressions::Column};

/// A time bucket of one length: the window k holds `[k·width + offset, (k+1)·width + offset)`, in ticks of the column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixedBucket {
    /// The time column.
    pub column: Column,
    /// The length of a bucket in ticks of the column's unit, at least 1.
    pub width_ticks: i64,
    /// The start of window 0 in ticks, 0 ≤ offset < width.
    pub offset_ticks: i64,
}

impl FixedBucket {
    /// The start of the window that holds `ts`, in ticks; saturates at the ends of i64.
    pub fn start(&self, ts: i64) -> i64 {
        let (ts, width, offset) = (i128::from(ts), i128::from(self.width_ticks), i128::from(self.offset_ticks));
        let start = (ts - offset).div_euclid(width) * width + offset;
        start.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }
}

/// Recognizes `window_start` and `date_bin` over a plain timestamp column where every bucket has the same length.
pub fn as_fixed_bucket(_expr: &dyn PhysicalExpr) -> Option<FixedBucket> {
    None
}
