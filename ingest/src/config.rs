//! The settings of the write path. Data only: read from a file or flags by whoever runs the process.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidelake_format::{Error, Result, types::Precision};

/// Settings of writing and compaction, each with its default, unit and price.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct IngestConfig {
    /// Writers of the log in this process, each with one PUT in flight. Default 2. More helps where a PUT takes long
    /// (S3: about 30 ms), and costs a watermark each in every version.
    pub writers: usize,
    /// Most bytes of decoded rows in one log segment. Default 16 MiB. Larger segments mean fewer requests and more
    /// memory for every reader of the log's tail.
    pub group_bytes: usize,
    /// Most bytes of decoded rows that wait or are in flight in this process; a request beyond it is refused with
    /// [`Kind::Unavailable`](crate::Kind::Unavailable). Default 256 MiB.
    pub buffer_bytes: usize,
    /// Longest that a request waits for room in the buffer before it is refused, in milliseconds. Default 200.
    pub buffer_wait_ms: u64,
    /// Longest that rows acknowledged from the buffer (`no_sync`) wait before they are flushed, in milliseconds, when
    /// nothing else flushes them. Default 10: the most that a crash loses.
    pub no_sync_ms: u64,
    /// Longest that a request waits for its schema changes, in milliseconds. Default 60 000; then its outcome is
    /// unknown and it is answered so.
    pub statement_ms: u64,
    /// Largest request body after decompression, in bytes. Default 100 MiB; a larger one is answered 413.
    pub body_bytes: usize,
    /// Whether line protocol and OpenTSDB create a database that does not exist. Default true.
    pub auto_create_database: bool,
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
            writers: 2,
            group_bytes: 16 << 20,
            buffer_bytes: 256 << 20,
            buffer_wait_ms: 200,
            no_sync_ms: 10,
            statement_ms: 60_000,
            body_bytes: 100 << 20,
            auto_create_database: true,
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
    /// Time between looks at the log, in milliseconds. Default 2 000.
    pub interval_ms: u64,
    /// Unfolded bytes that start a fold. Default 64 MiB (compressed). Lower values mean smaller files and more merging,
    /// higher ones more memory for readers of the tail.
    pub fold_bytes: u64,
    /// Age of the oldest unfolded segment that starts a fold, in milliseconds. Default 10 000.
    pub fold_age_ms: u64,
    /// Most bytes of segments that one fold takes. Default 192 MiB (compressed; in memory about five times that).
    pub fold_max_bytes: u64,
    /// Segments younger than this, by the store's clock, are left alone, in milliseconds. Default: 2 000 on a
    /// directory, 5 000 elsewhere (`None`).
    pub fold_margin_ms: Option<u64>,
    /// Files of similar size in one partition that start a merge. Default 8. Each row is rewritten about
    /// log(size of the partition / size of a fold) to this base times.
    pub merge_files: usize,
    /// Most rows of one data file. Default 33 554 432.
    pub file_rows: u64,
    /// Memory of one merge for decoded rows, in bytes. Default 512 MiB.
    pub merge_bytes: usize,
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
            fold_max_bytes: 192 << 20,
            fold_margin_ms: None,
            merge_files: 8,
            file_rows: 1 << 25,
            merge_bytes: 512 << 20,
            collect_ms: 60_000,
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
        check((1..=64).contains(&self.writers), "ingest.writers is between 1 and 64");
        check(self.group_bytes >= 1 << 10, "ingest.group_bytes is at least 1024");
        check(self.buffer_bytes >= self.group_bytes, "ingest.buffer_bytes is at least ingest.group_bytes");
        check(self.body_bytes >= 1 << 10, "ingest.body_bytes is at least 1024");
        check(self.statement_ms > 0, "ingest.statement_ms is not 0");
        check(self.compact.interval_ms > 0, "ingest.compact.interval_ms is not 0");
        check(self.compact.collect_ms > 0, "ingest.compact.collect_ms is not 0");
        check(self.compact.merge_files >= 2, "ingest.compact.merge_files is at least 2");
        check(self.compact.file_rows > 0, "ingest.compact.file_rows is not 0");
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
        let bad = IngestConfig { writers: 0, group_bytes: 1, ..IngestConfig::default() };
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
