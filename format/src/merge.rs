//! Order of series and rows, and "the newest write wins": shared by fold, merge and the scan of the log's tail. Pure
//! functions on batches.

mod deletes;
mod hash;
mod order;
mod sort;
mod unite;

pub use deletes::Deletes;
pub use hash::content_hash;

pub use order::{SeriesOrder, series_order};
pub use sort::{Dropped, Newest, merge_sorted, sort_newest, sort_newest_counted};
pub(crate) use unite::{unite_columns, unite_series};

#[cfg(test)]
mod tests;
