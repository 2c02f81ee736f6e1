//! Data files: plain Parquet, one supertable, one time partition, sorted by (series order, ts), pages aligned to series.

mod writer;

pub use writer::{DataFileOptions, DataFileWriter, EncodedFile};
