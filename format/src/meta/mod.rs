//! The payload of the chain: catalog, schemas, live files, watermarks; reading it and committing changes to it.

mod catalog;
mod draft;
mod entry;
pub mod garbage;
mod root;

pub use catalog::Catalog;
pub use draft::Draft;
pub use entry::{FileEntry, ObjectRef, PartitionSummary, Watermark};
pub use root::Root;
