//! The order of series and rows, and "the newest write wins": shared by fold, merge and the scan of the log's tail.
//!
//! Pure: batches in, batches out.

mod hash;
mod order;
mod sort;

pub use hash::content_hash;
pub use order::{SeriesOrder, series_order};
pub use sort::{merge_sorted, sort_newest};
