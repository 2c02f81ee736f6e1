//! Compaction: fold (log segments → data files), merge (data files → larger ones) and the collection of garbage.

/// How far an on-demand compaction goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CompactRequest {
    /// Fold what the log holds, nothing else.
    Fold,
    /// Fold, then do the merges that are due.
    #[default]
    Due,
    /// Fold, then merge every partition down to as few files as their largest size allows.
    Full,
}

/// What a compaction did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CompactReport {
    /// Log segments that were folded.
    pub segments: u64,
    /// Rows read from them.
    pub folded_rows: u64,
    /// Data files that merges replaced.
    pub merged_files: u64,
    /// Rows read from those.
    pub merged_rows: u64,
    /// Rows dropped because a newer row has their key.
    pub duplicates: u64,
    /// Data files that were written.
    pub files: u64,
    /// Bytes of data files and tag manifests that were written.
    pub bytes: u64,
}
