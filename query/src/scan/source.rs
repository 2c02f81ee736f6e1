//! A source of rows: a data file, or a block of the log's tail. Both are sorted by (series, ts), unique, and indexed by
//! series.

use std::sync::Arc;

use tidelake_format::{ids::TableId, layout, meta::FileEntry, schema::Supertable, tags::TagManifest};

use super::{filters::TimeRange, series::Ranks, tail::SortedBlock};

/// One source of a scan. Sources are ordered oldest first: for rows with the same key, the later source's values win.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    /// Where the rows are.
    pub(crate) origin: Origin,
    /// Rank of each of its series in the united series of the scan.
    pub(crate) ranks: Ranks,
    /// Rows removed by deletes.
    pub(crate) holes: Vec<Hole>,
}

/// Rows of a source that a tombstone covers.
#[derive(Debug, Clone)]
pub(crate) struct Hole {
    /// Ranks of the series, ascending; `None` = every series.
    pub(crate) ranks: Option<Arc<[u32]>>,
    /// Time range.
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
    /// The file's metadata entry.
    pub(crate) entry: FileEntry,
    /// The table.
    pub(crate) table: TableId,
    /// Key of the rollup, if the file has one.
    pub(crate) rollup_key: Option<String>,
    /// Tag manifest.
    pub(crate) manifest: Arc<TagManifest>,
}

/// Per series of a source, in its order: position of its rows and their time span. A series without rows has a row
/// count of 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Index<'a> {
    /// First row.
    pub(crate) first_row: &'a [u64],
    /// Number of rows.
    pub(crate) row_count: &'a [u64],
    /// Smallest time.
    pub(crate) min_ts: &'a [i64],
    /// Largest time.
    pub(crate) max_ts: &'a [i64],
}

impl FileSource {
    /// Creates the source of a data file.
    pub(crate) fn new(table: &Supertable, entry: FileEntry, manifest: Arc<TagManifest>) -> Self {
        let rollup_key = entry.rollup.map(|r| layout::rollup_key(table.id, entry.partition, r.id));
        Self { entry, table: table.id, rollup_key, manifest }
    }
}

impl Source {
    /// Index by series.
    pub(crate) fn index(&self) -> Index<'_> {
        self.origin.index()
    }
}

impl Origin {
    /// Index by series.
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

    /// Smallest and largest time of all rows.
    pub(crate) fn span(&self) -> TimeRange {
        match self {
            Origin::File(file) => TimeRange { first: file.entry.min_ts, last: file.entry.max_ts },
            Origin::Tail(block) => block.span,
        }
    }
}
