//! Settings of the write path. Data only: the process reads them from a file or from flags.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelake_format::{Error, Result, rollup::RollupOptions, types::Precision};

use crate::decode::time::Implausible;

/// Settings of writing and compaction, each with its default, unit and cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IngestConfig {
    /// Log writers in this process, each with one PUT in flight. Default: 4, as a PUT takes some 30 ms; on a directory 1, and a
    /// second one for segments of 1 MiB and more only, as a disk takes longer for two small files than for one. Each writer
    /// costs a watermark in every version.
    pub writers: Option<usize>,
    /// Interval between segments of small requests (less than 1 MiB of decoded rows each, and 16 MiB together), in
    /// milliseconds. It applies while requests keep coming, each within 20 ms of the one before or while others are
    /// pending; the first four after a pause are put at once. Default (`None`): 0 on a directory and in memory, 1 000
    /// elsewhere. At 0 on a directory small requests wait for the clients of the previous group, 1 ms at most, if that
    /// has paid off before. Each segment costs a PUT, and a GET for every reader until it is folded; longer intervals
    /// mean longer waits for acknowledgements.
    pub flush_interval_ms: Option<u64>,
    /// Most bytes of decoded rows in one log segment. Default 16 MiB. Larger segments mean fewer requests and more memory for
    /// every reader of the log's tail.
    pub group_bytes: usize,
    /// Most bytes of decoded rows that are queued or in flight in this process; a request beyond this limit is refused with
    /// [`Kind::Unavailable`](crate::Kind::Unavailable). Default 256 MiB.
    pub buffer_bytes: usize,
    /// Longest wait of a request for room in the buffer before it is refused, in milliseconds. Default 200.
    pub buffer_wait_ms: u64,
    /// Whether a request may be acknowledged from the buffer (`no_sync`). Default true. If false, such a request is
    /// acknowledged from the store like any other: a cloud function is frozen after its response, together with its buffer.
    pub no_sync: bool,
    /// Longest time that rows acknowledged from the buffer (`no_sync`) wait for a flush, in milliseconds, when nothing else
    /// flushes them. Default 10: a crash loses the rows of at most this time.
    pub no_sync_ms: u64,
    /// Longest wait of a request for the store to confirm its rows, in milliseconds. Default 20 000; after that the reply is
    /// [`Kind::Unavailable`](crate::Kind::Unavailable), with the outcome unknown.
    pub confirm_ms: u64,
    /// Most bytes of decoded rows that this process has put and that are not folded yet, if it folds in the background; a
    /// request beyond this limit waits 2 s and is then refused with [`Kind::Unavailable`](crate::Kind::Unavailable). Default
    /// 1 GiB.
    pub backlog_bytes: usize,
    /// Most bytes of decoded log segments that all statements of this process read at once. Default: no limit.
    pub tail_bytes: usize,
    /// Largest request body after decompression, in bytes. Default 100 MiB; a larger body is answered 413.
    pub body_bytes: usize,
    /// Most bytes of decoded rows in one bulk ingest (Flight DoPut). Default 1 GiB; a larger one is refused as a whole. All
    /// rows become visible together, so every reader of the log's tail holds them all until they are folded; this process holds
    /// them for a while if they create a table.
    pub bulk_bytes: usize,
    /// Bytes of decoded rows that a bulk ingest collects for one segment. Default 32 MiB. Larger segments mean fewer requests
    /// and more memory.
    pub bulk_segment_bytes: usize,
    /// Longest line of line protocol, in bytes. Default 1 MiB; a longer line is rejected by its number.
    pub line_bytes: usize,
    /// Most tables that written rows may create in one database. Default 10 000; each table is a section of every version.
    pub tables: usize,
    /// Most columns to which written rows may extend one table, time and tags included. Default 1 024, at most 4 096: every row
    /// of a segment has a slot for each column of its block.
    pub columns: usize,
    /// Whether line protocol and OpenTSDB create a database that does not exist. Default true.
    pub auto_create_database: bool,
    /// Handling of rows whose times seem to be in another unit than declared. Default `refuse`.
    pub implausible_times: Implausible,
    /// The precision of a database that writes create. Default ns, as in InfluxDB.
    pub auto_precision: Precision,
    /// The database of `/api/put` requests that name none. Default `opentsdb`.
    pub opentsdb_database: String,
    /// Series names cached per process to find the supertable of an `INSERT` without `USING`. Default 1 000 000, at some 100
    /// bytes each.
    pub series_names: usize,
    /// Settings of folding, merging and garbage collection.
    pub compact: CompactConfig,
}

impl Default for IngestConfig {
    fn default() -> Self {
        Self {
            writers: None,
            flush_interval_ms: None,
            group_bytes: 16 << 20,
            buffer_bytes: 256 << 20,
            buffer_wait_ms: 200,
            no_sync: true,
            no_sync_ms: 10,
            confirm_ms: 20_000,
            backlog_bytes: 1 << 30,
            tail_bytes: usize::MAX,
            body_bytes: 100 << 20,
            bulk_bytes: 1 << 30,
            bulk_segment_bytes: 32 << 20,
            line_bytes: 1 << 20,
            tables: 10_000,
            columns: 1_024,
            auto_create_database: true,
            implausible_times: Implausible::Refuse,
            auto_precision: Precision::Nano,
            opentsdb_database: "opentsdb".to_owned(),
            series_names: 1_000_000,
            compact: CompactConfig::default(),
        }
    }
}

/// Settings of folding (log → data files), merging (data files → larger ones) and garbage collection.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CompactConfig {
    /// Whether this process compacts in the background. Default true. If false, it compacts on demand only.
    pub background: bool,
    /// Interval between checks whether a fold may be due, in milliseconds. Default 2 000. A check makes no request to the
    /// store.
    pub interval_ms: u64,
    /// Stored bytes put by this process that start a fold before `fold_age_ms`. Default 64 MiB. Lower values mean smaller files
    /// and more merging, higher ones more memory for readers of the tail.
    pub fold_bytes: u64,
    /// Time between folds, in milliseconds; each lists the log, and stops if nothing can be folded. Default 10 000.
    pub fold_age_ms: u64,
    /// Most bytes of segments in one fold. Default 48 MiB (as stored; in memory some five to ten times that).
    pub fold_max_bytes: u64,
    /// Most bytes of decoded rows in one fold; a fold always takes at least one segment, or all of one bulk ingest, whatever
    /// its size. Default 512 MiB: about 48 MiB of segments of narrow rows. If segments remain, the next fold follows at once.
    pub fold_memory_bytes: usize,
    /// Minimum age of a segment, by the store's clock, before it is folded, in milliseconds. Default: 2 000 on a directory,
    /// 5 000 elsewhere (`None`).
    pub fold_margin_ms: Option<u64>,
    /// Files of similar size in one partition that trigger a merge. Default 8. Each row is rewritten about log(size of the
    /// partition / size of a fold) to this base times.
    pub merge_files: usize,
    /// Time without new files after which a partition's small files are merged, regardless of their number, in milliseconds.
    /// Default 600 000.
    pub merge_idle_ms: u64,
    /// Most rows of one data file. Default 33 554 432.
    pub file_rows: u64,
    /// Encoded bytes after which a data file is closed; until then the file is held in memory. Default 256 MiB.
    pub file_bytes: usize,
    /// Bytes of decoded rows that a fold or merge sorts at once. Default 16 MiB; the peak is some six times that, and for a
    /// fold the decoded segments in addition.
    pub window_bytes: usize,
    /// Bytes of decoded rows collected in memory before they are encoded as a row group of a data file. Default 256 MiB.
    pub row_group_bytes: usize,
    /// Rollups beside data files; a `width_ms` of 0 disables them. Default: one minute, beside files of 65 536 rows or more
    /// with at least 8 rows to a bucket. Each costs a PUT and some hundredths of its file's bytes.
    pub rollup: RollupOptions,
    /// Time between garbage collections, in milliseconds. Default 60 000.
    pub collect_ms: u64,
}

impl Default for CompactConfig {
    fn default() -> Self {
        Self {
            background: true,
            interval_ms: 2_000,
            fold_bytes: 64 << 20,
            fold_age_ms: 10_000,
            fold_max_bytes: 48 << 20,
            fold_memory_bytes: 512 << 20,
            fold_margin_ms: None,
            merge_files: 8,
            merge_idle_ms: 600_000,
            file_rows: 1 << 25,
            file_bytes: 256 << 20,
            window_bytes: 16 << 20,
            row_group_bytes: 256 << 20,
            rollup: RollupOptions::default(),
            collect_ms: 60_000,
        }
    }
}

impl CompactConfig {
    /// Limits these settings to a process whose folds and merges together may take `memory` bytes: one of each may run at once,
    /// and each takes half of it at most, but 32 MiB at least. A single larger segment takes the memory it needs.
    #[must_use]
    pub fn within(self, memory: usize) -> Self {
        let each = (memory / 2).max(32 << 20);
        // Memory of a fold: the segments and their sorted rows (a third more), six windows, a row group and its encoding, and a
        // file.
        Self {
            fold_memory_bytes: self.fold_memory_bytes.min(each / 5),
            window_bytes: self.window_bytes.min(each / 48),
            row_group_bytes: self.row_group_bytes.min(each / 5),
            file_bytes: self.file_bytes.min(each / 5),
            ..self
        }
    }
}

impl IngestConfig {
    /// All invalid settings, one sentence each; empty if there are none.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |ok: bool, what: &str| {
            if !ok {
                faults.push(what.to_owned());
            }
        };
        check(self.writers.is_none_or(|n| (1..=64).contains(&n)), "ingest.writers must be between 1 and 64");
        check(self.group_bytes >= 1 << 10, "ingest.group_bytes must be at least 1024");
        check(self.buffer_bytes >= self.group_bytes, "ingest.buffer_bytes must be at least ingest.group_bytes");
        check(self.body_bytes >= 1 << 10, "ingest.body_bytes must be at least 1024");
        check(self.buffer_bytes >= self.body_bytes, "ingest.buffer_bytes must be at least ingest.body_bytes");
        check(self.bulk_bytes >= 1 << 10, "ingest.bulk_bytes must be at least 1024");
        check(self.bulk_segment_bytes > 0, "ingest.bulk_segment_bytes must be greater than 0");
        check(self.line_bytes >= 64, "ingest.line_bytes must be at least 64");
        check(self.tables > 0, "ingest.tables must be greater than 0");
        check((3..=4_096).contains(&self.columns), "ingest.columns must be between 3 and 4096");
        check(self.confirm_ms > 0, "ingest.confirm_ms must be greater than 0");
        let flush_ms = self.flush_interval_ms.unwrap_or(0);
        check(flush_ms <= self.confirm_ms / 2, "ingest.flush_interval_ms must be at most half of ingest.confirm_ms");
        check(self.compact.interval_ms > 0, "ingest.compact.interval_ms must be greater than 0");
        check(self.compact.collect_ms > 0, "ingest.compact.collect_ms must be greater than 0");
        check(self.compact.merge_files >= 2, "ingest.compact.merge_files must be at least 2");
        check(self.compact.file_rows > 0, "ingest.compact.file_rows must be greater than 0");
        check(self.compact.window_bytes > 0, "ingest.compact.window_bytes must be greater than 0");
        check(self.compact.row_group_bytes > 0, "ingest.compact.row_group_bytes must be greater than 0");
        check(self.compact.fold_memory_bytes > 0, "ingest.compact.fold_memory_bytes must be greater than 0");
        check(self.compact.rollup.width_ms >= 0, "ingest.compact.rollup.width_ms must not be negative");
        check(self.compact.fold_max_bytes > 0, "ingest.compact.fold_max_bytes must be greater than 0");
        faults
    }

    pub(crate) fn check(&self) -> Result<()> {
        let faults = self.faults();
        if faults.is_empty() { Ok(()) } else { Err(Error::invalid(faults.join("; "))) }
    }
}

pub(crate) fn millis(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_is_listed_at_once() {
        assert!(IngestConfig::default().faults().is_empty());
        let bad = IngestConfig { writers: Some(0), group_bytes: 1, ..IngestConfig::default() };
        assert_eq!(bad.faults().len(), 2);
        let error = bad.check().unwrap_err();
        assert!(error.message().contains("writers") && error.message().contains("group_bytes"), "{error}");
    }

    #[test]
    fn an_unknown_setting_is_refused_with_its_name() {
        let error = serde_json::from_str::<IngestConfig>(r#"{"writer": 1}"#).unwrap_err();
        assert!(error.to_string().contains("writer"), "{error}");
    }
}
