//! The content of the version chain: catalog, schemas, live files, watermarks; reads it and commits changes to it.

mod catalog;
mod commit;
mod draft;
mod entry;
mod files;
mod invariants;
mod objects;
mod probe;
mod root;
mod saved;
mod sections;
mod seen;
#[cfg(test)]
pub(crate) mod tests;

pub use catalog::Catalog;
pub use draft::Draft;
pub use entry::{FaultySegment, FileEntry, ObjectRef, PartitionSummary, RollupRef, Watermark};
pub(crate) use objects::rollup_is;
pub use probe::{PROBE_AGE, Probe};
pub use root::Root;
pub use saved::{Expected, SavedQuery};
pub(crate) use sections::Section;
