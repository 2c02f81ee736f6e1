//! The names of this crate's metrics: what each counts and how to combine it across processes.

/// Counter: rows that are in a log segment in the store (or, for `no_sync`, in the buffer). Sum.
pub const ROWS: &str = "tidelake_ingest_rows_total";
/// Counter: lines, points or rows that were reported back as wrong. Sum.
pub const REJECTED: &str = "tidelake_ingest_rejected_total";
/// Counter: datagrams of line protocol that arrived. Sum.
pub const UDP_DATAGRAMS: &str = "tidelake_ingest_udp_datagrams_total";
/// Counter: their bytes. Sum.
pub const UDP_BYTES: &str = "tidelake_ingest_udp_bytes_total";
/// Counter: bytes of datagrams that arrived and could not be written; wrong lines are rejected ones, and what the system
/// dropped nobody knows. Sum.
pub const UDP_LOST_BYTES: &str = "tidelake_ingest_udp_lost_bytes_total";
/// Counter: bytes of request bodies after decompression. Sum.
pub const BODY_BYTES: &str = "tidelake_ingest_body_bytes_total";
/// Counter: requests that were refused because the buffer was full. Sum.
pub const THROTTLED: &str = "tidelake_ingest_throttled_total";
/// Counter: rows that `no_sync` acknowledged and that were lost afterwards. Sum; anything but 0 deserves a look.
pub const LOST_ROWS: &str = "tidelake_ingest_lost_rows_total";
/// Counter: log segments that were put. Sum.
pub const SEGMENTS: &str = "tidelake_ingest_segments_total";
/// Counter: bytes of those segments. Sum.
pub const SEGMENT_BYTES: &str = "tidelake_ingest_segment_bytes_total";
/// Histogram, seconds: from the start of a segment's PUT to the store's answer.
pub const PUT_SECONDS: &str = "tidelake_ingest_put_seconds";
/// Gauge: bytes of decoded rows that wait for their PUT. Sum.
pub const BUFFERED_BYTES: &str = "tidelake_ingest_buffered_bytes";
/// Counter: folds that were committed. Sum.
pub const FOLDS: &str = "tidelake_compact_folds_total";
/// Counter: rows that folds read from log segments. Sum.
pub const FOLD_ROWS: &str = "tidelake_compact_fold_rows_total";
/// Counter: merges that were committed. Sum.
pub const MERGES: &str = "tidelake_compact_merges_total";
/// Counter: rows that merges read from data files; divided by the folded rows it is the write amplification. Sum.
pub const MERGE_ROWS: &str = "tidelake_compact_merge_rows_total";
/// Counter: rows that a fold or merge dropped because a newer row has the same key. Sum.
pub const DUPLICATE_ROWS: &str = "tidelake_compact_duplicate_rows_total";
/// Counter: partitions that disappeared because all their time lies beyond KEEP. Sum.
pub const EXPIRED_PARTITIONS: &str = "tidelake_compact_expired_partitions_total";
/// Counter: rows of those partitions, and rows of the log that folds left out because they belonged there. Sum.
pub const EXPIRED_ROWS: &str = "tidelake_compact_expired_rows_total";
/// Counter: bytes of data files and tag manifests that folds and merges put. Sum.
pub const FILE_BYTES: &str = "tidelake_compact_file_bytes_total";
/// Counter, label `step` = `fold`, `retain`, `merge` or `collect`: attempts that lost a race or failed. Sum.
pub const COMPACT_FAILURES: &str = "tidelake_compact_failures_total";
