//! Data files: plain Parquet, one supertable, one time partition, sorted by (series order, ts), pages aligned to
//! series.
//!
//! Columns: ts, fields, tags in the table's order, then `tbname`; each carries its column ID as `field_id`. Any Parquet
//! reader can read a data file; [`DataFile`] reads row ranges from the store with few requests.

mod batch;
mod chunk;
mod coded;
mod constant;
mod footer;
mod numbers;
mod padded;
mod page;
mod page_cache;
mod pages;
mod reader;
mod scan;
mod within;
mod writer;

pub use batch::{CodedBatch, Keep, ReadOptions, RowFilter};
pub(crate) use footer::held as checksum;
pub use numbers::Times;
pub use page_cache::{PageCache, Pages};
pub use reader::DataFile;
pub use writer::{DataFileOptions, DataFileWriter, EncodedFile};

#[cfg(test)]
pub(crate) mod tests;
