//! The settings of the write path. Data only: read from a file or flags by whoever runs the process.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelake_format::{Error, Result, rollup::RollupOptions, types::Precision};

use crate::decode::time::Implausible;

/// Settings of writing and compaction, each with its default, unit and price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IngestConfig {
    /// Writers of the log in this process, each with one PUT in flight. Default: 4, as a PUT takes some 30 ms; on a
    /// directory 1 and another that takes only 1 MiB and more, as a disk takes longer for two small files than for
    /// one. Each costs a watermark in every version.
    pub writers: Option<usize>,
    /// Time between two segments of small requests (less than 1 MiB of decoded rows each, and 16 MiB together) while requests
    /// keep coming, each within 20 ms of the one before or while others are answered, in milliseconds; the first four after a
    /// pause are put at once.
    /// Default (`None`): 0 on a directory and in memory, 1 000 elsewhere. At 0 on a directory small requests wait for the senders
    /// of the group before, 1 ms at most, where that has paid before. Each segment costs a PUT, and a GET for every reader
    /// until it is folded; longer intervals mean longer waits for acknowledgements.
    pub flush_interval_ms: Option<u64>,
    /// Most bytes of decoded rows in one log segment. Default 16 MiB. Larger segments mean fewer requests and more
    /// memory for every reader of the log's tail.
    pub group_bytes: usize,
    /// Most bytes of decoded rows that wait or are in flight in this process; a request beyond it is refused with
    /// [`Kind::Unavailable`](crate::Kind::Unavailable). Default 256 MiB.
    pub buffer_bytes: usize,
    /// Longest that a request waits for room in the buffer before it is refused, in milliseconds. Default 200.
    pub buffer_wait_ms: u64,
    /// Whether a request may be acknowledged from the buffer (`no_sync`). Default true. Off, such a request is acknowledged
    /// from the store as any other: a function stands still once it has answered, with all that it holds.
    pub no_sync: bool,
    /// Longest that rows acknowledged from the buffer (`no_sync`) wait before they are flushed, in milliseconds, when
    /// nothing else flushes them. Default 10: the most that a crash loses.
    pub no_sync_ms: u64,
    /// Longest that a request waits for the store to confirm its rows, in milliseconds. Default 20 000; then it is
    /// answered [`Kind::Unavailable`](crate::Kind::Unavailable), its outcome unknown.
    pub confirm_ms: u64,
    /// Most bytes of decoded rows that this process has put and that are yet to be folded, where it folds in the background;
    /// a request beyond it waits for 2 s and is refused with [`Kind::Unavailable`](crate::Kind::Unavailable) then. Default 1 GiB.
    pub backlog_bytes: usize,
    /// Most bytes of decoded log segments that statements of this process read at once. Default: no limit.
    pub tail_bytes: usize,
    /// Largest request body after decompression, in bytes. Default 100 MiB; a larger one is answered 413.
    pub body_bytes: usize,
    /// Most bytes of decoded rows of one bulk ingest (Flight DoPut). Default 1 GiB; a larger one is refused whole. Its
    /// rows become visible together, so every reader of the log's tail holds them together until they are folded; this
    /// process does for a while, where they make a new table.
    pub bulk_bytes: usize,
    /// Decoded rows of a bulk ingest that are collected for one segment, in bytes. Default 32 MiB. Larger ones mean
    /// fewer requests and more memory.
    pub bulk_segment_bytes: usize,
    /// Longest line of line protocol, in bytes. Default 1 MiB; a longer one is rejected by its number.
    pub line_bytes: usize,
    /// Tables of one database beyond which rows create no more. Default 10 000; each is a section of every version.
    pub tables: usize,
    /// Columns of one table, time and tags included, beyond which rows add no more. Default 1 024, at most 4 096: every
    /// row of a segment has a place for each column of its block.
    pub columns: usize,
    /// Whether line protocol and OpenTSDB create a database that does not exist. Default true.
    pub auto_create_database: bool,
    /// What is done with rows whose times seem to have been sent in another unit. Default `refuse`.
    pub implausible_times: Implausible,
    /// The precision of such a database. Default ns, as InfluxDB has it.
    pub auto_precision: Precision,
    /// The database of `/api/put` requests that name none. Default `opentsdb`.
    pub opentsdb_database: String,
    /// Names of series that are kept per process to find the supertable of an `INSERT` without `USING`.
    /// Default 1 000 000, at some 100 bytes each.
    pub series_names: usize,
    /// Folding, merging and collecting garbage.
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
    /// Whether this process compacts by itself. Default true. Off, it does so on demand only.
    pub background: bool,
    /// Time between looks at whether a fold may be due, in milliseconds. Default 2 000. They cost the store nothing.
    pub interval_ms: u64,
    /// Bytes put by this process, as they lie in the store, that start a fold before its time. Default 64 MiB. Lower values
    /// mean smaller files and more merging, higher ones more memory for readers of the tail.
    pub fold_bytes: u64,
    /// Time between folds, in milliseconds; each looks at the log by a LIST, and ends there when there is nothing to
    /// fold. Default 10 000.
    pub fold_age_ms: u64,
    /// Most bytes of segments that one fold takes. Default 48 MiB (as they lie in the store; in memory some five to ten
    /// times that).
    pub fold_max_bytes: u64,
    /// Most bytes of decoded rows that one fold takes; it takes one segment, or all of one bulk ingest, however many these have.
    /// Default 512 MiB: about what 48 MiB of segments of narrow rows take. A fold that leaves segments is followed by the next one
    /// at once.
    pub fold_memory_bytes: usize,
    /// Segments younger than this, by the store's clock, are left alone, in milliseconds. Default: 2 000 on a
    /// directory, 5 000 elsewhere (`None`).
    pub fold_margin_ms: Option<u64>,
    /// Files of similar size in one partition that start a merge. Default 8. Each row is rewritten about
    /// log(size of the partition / size of a fold) to this base times.
    pub merge_files: usize,
    /// Time without new files after which a partition's small files are merged, however few, in milliseconds.
    /// Default 600 000.
    pub merge_idle_ms: u64,
    /// Most rows of one data file. Default 33 554 432.
    pub file_rows: u64,
    /// Encoded bytes after which a data file is closed; it is held in memory until then. Default 256 MiB.
    pub file_bytes: usize,
    /// Decoded rows that a fold or merge sorts at once, in bytes. Default 16 MiB; the peak is some six times that, and
    /// for a fold the decoded segments besides.
    pub window_bytes: usize,
    /// Decoded rows that wait in memory until they are encoded as a row group of a data file. Default 256 MiB.
    pub row_group_bytes: usize,
    /// The rollups beside data files; a `width_ms` of 0 makes none. Default: of a minute, beside files of 65 536 rows or
    /// more with 8 rows or more to a bucket. Each costs a PUT and some hundredths of its file's bytes.
    pub rollup: RollupOptions,
    /// Time between collections of garbage, in milliseconds. Default 60 000.
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
    /// These settings for a process whose folds and merges together may take this much memory: one of each may run at once,
    /// and each takes half of it at most, 32 MiB at least. A segment that is larger by itself takes what it needs.
    #[must_use]
    pub fn within(self, memory: usize) -> Self {
        let each = (memory / 2).max(32 << 20);
        // Of a fold: the segments and their rows in order (a third more), six windows, a row group and its encoding, and a file.
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
    /// Every setting that cannot work, one sentence each; empty when all can.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |ok: bool, what: &str| {
            if !ok {
                faults.push(what.to_owned());
            }
        };
        check(self.writers.is_none_or(|n| (1..=64).contains(&n)), "ingest.writers is between 1 and 64");
        check(self.group_bytes >= 1 << 10, "ingest.group_bytes is at least 1024");
        check(self.buffer_bytes >= self.group_bytes, "ingest.buffer_bytes is at least ingest.group_bytes");
        check(self.body_bytes >= 1 << 10, "ingest.body_bytes is at least 1024");
        check(self.buffer_bytes >= self.body_bytes, "ingest.buffer_bytes is at least ingest.body_bytes");
        check(self.bulk_bytes >= 1 << 10, "ingest.bulk_bytes is at least 1024");
        check(self.bulk_segment_bytes > 0, "ingest.bulk_segment_bytes is not 0");
        check(self.line_bytes >= 64, "ingest.line_bytes is at least 64");
        check(self.tables > 0, "ingest.tables is not 0");
        check((3..=4_096).contains(&self.columns), "ingest.columns is between 3 and 4096");
        check(self.confirm_ms > 0, "ingest.confirm_ms is not 0");
        let flush_ms = self.flush_interval_ms.unwrap_or(0);
        check(flush_ms <= self.confirm_ms / 2, "ingest.flush_interval_ms is at most half of ingest.confirm_ms");
        check(self.compact.interval_ms > 0, "ingest.compact.interval_ms is not 0");
        check(self.compact.collect_ms > 0, "ingest.compact.collect_ms is not 0");
        check(self.compact.merge_files >= 2, "ingest.compact.merge_files is at least 2");
        check(self.compact.file_rows > 0, "ingest.compact.file_rows is not 0");
        check(self.compact.window_bytes > 0, "ingest.compact.window_bytes is not 0");
        check(self.compact.row_group_bytes > 0, "ingest.compact.row_group_bytes is not 0");
        check(self.compact.fold_memory_bytes > 0, "ingest.compact.fold_memory_bytes is not 0");
        check(self.compact.rollup.width_ms >= 0, "ingest.compact.rollup.width_ms is not negative");
        check(self.compact.fold_max_bytes > 0, "ingest.compact.fold_max_bytes is not 0");
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
    fn an_unknown_setting_is_refused_by_name() {
        let error = serde_json::from_str::<IngestConfig>(r#"{"writer": 1}"#).unwrap_err();
        assert!(error.to_string().contains("writer"), "{error}");
    }
}
