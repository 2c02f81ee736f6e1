//! A source of rows: a data file, or a block of the log's tail. Both are sorted by (series, ts), unique, and indexed by series.

use std::sync::Arc;

use tidelake_format::{ids::TableId, layout, meta::FileEntry, schema::Supertable, tags::TagManifest};

use super::{filters::TimeRange, series::Ranks, tail::SortedBlock};

/// One source of a scan. Sources are ordered oldest first: of two rows of one key the later source's values win.
#[derive(Debug)]
pub(crate) struct Source {
    /// Where its rows are.
    pub(crate) origin: Origin,
    /// The place of each of its series in the united series of the scan.
    pub(crate) ranks: Ranks,
    /// What deletes took out of it: series (`None` = all) by name, and times.
    pub(crate) holes: Vec<Hole>,
}

/// Rows of a source that a tombstone covers.
#[derive(Debug, Clone)]
pub(crate) struct Hole {
    /// The ranks of the series, ascending; `None` is every series.
    pub(crate) ranks: Option<Arc<[u32]>>,
    /// The times.
    pub(crate) range: TimeRange,
}

/// Where the rows of a source are.
#[derive(Debug, Clone)]
pub(crate) enum Origin {
    /// In a data file.
    File(Arc<FileSource>),
    /// In memory.
    Tail(Arc<SortedBlock>),
}

/// A data file and its tag manifest.
#[derive(Debug)]
pub(crate) struct FileSource {
    /// Its entry in the chain.
    pub(crate) entry: FileEntry,
    /// The table.
    pub(crate) table: TableId,
    /// The key of its rollup, where it has one.
    pub(crate) rollup_key: Option<String>,
    /// Its series.
    pub(crate) manifest: Arc<TagManifest>,
}

/// Per series of a source, in its order: where its rows are and which times they span. A series without rows has a count of 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Index<'a> {
    /// The first row.
    pub(crate) first_row: &'a [u64],
    /// The number of rows.
    pub(crate) row_count: &'a [u64],
    /// The smallest time.
    pub(crate) min_ts: &'a [i64],
    /// The largest time.
    pub(crate) max_ts: &'a [i64],
}

impl FileSource {
    /// A file of a table.
    pub(crate) fn new(table: &Supertable, entry: FileEntry, manifest: Arc<TagManifest>) -> Self {
        let rollup_key = entry.rollup.map(|r| layout::rollup_key(table.id, entry.partition, r.id));
        Self { entry, table: table.id, rollup_key, manifest }
    }
}

impl Source {
    /// Its index by series.
    pub(crate) fn index(&self) -> Index<'_> {
        self.origin.index()
    }
}

impl Origin {
    /// Its index by series.
    pub(crate) fn index(&self) -> Index<'_> {
        match self {
            Origin::File(file) => {
                let m = &file.manifest;
                Index { first_row: m.first_row(), row_count: m.row_count(), min_ts: m.min_ts(), max_ts: m.max_ts() }
            }
            Origin::Tail(b) => {
                Index { first_row: &b.first_row, row_count: &b.row_count, min_ts: &b.min_ts, max_ts: &b.max_ts }
            }
        }
    }

    /// The smallest and the largest time of all its rows.
    pub(crate) fn span(&self) -> TimeRange {
        match self {
            Origin::File(file) => TimeRange { first: file.entry.min_ts, last: file.entry.max_ts },
            Origin::Tail(block) => block.span,
        }
    }
}
