//! Names of this crate's metrics, with what each counts and how to combine it across processes.

/// Counter: rows stored in a log segment (or, for `no_sync`, in the buffer). Sum.
pub const ROWS: &str = "tidelake_ingest_rows_total";
/// Counter: lines, points or rows that were reported back as rejected. Sum.
pub const REJECTED: &str = "tidelake_ingest_rejected_total";
/// Counter: datagrams of line protocol received. Sum.
pub const UDP_DATAGRAMS: &str = "tidelake_ingest_udp_datagrams_total";
/// Counter: bytes of those datagrams. Sum.
pub const UDP_BYTES: &str = "tidelake_ingest_udp_bytes_total";
/// Counter: bytes of received datagrams that could not be written; without rejected lines, and without datagrams that the
/// system dropped. Sum.
pub const UDP_LOST_BYTES: &str = "tidelake_ingest_udp_lost_bytes_total";
/// Counter: bytes of request bodies after decompression. Sum.
pub const BODY_BYTES: &str = "tidelake_ingest_body_bytes_total";
/// Counter: requests refused because the buffer was full. Sum.
pub const THROTTLED: &str = "tidelake_ingest_throttled_total";
/// Counter: rows acknowledged under `no_sync` and lost afterwards. Sum; investigate any value but 0.
pub const LOST_ROWS: &str = "tidelake_ingest_lost_rows_total";
/// Counter: log segments put. Sum.
pub const SEGMENTS: &str = "tidelake_ingest_segments_total";
/// Counter: bytes of those segments. Sum.
pub const SEGMENT_BYTES: &str = "tidelake_ingest_segment_bytes_total";
/// Histogram, seconds: from the start of a segment's PUT to the store's response.
pub const PUT_SECONDS: &str = "tidelake_ingest_put_seconds";
/// Gauge: bytes of decoded rows that wait for their PUT. Sum.
pub const BUFFERED_BYTES: &str = "tidelake_ingest_buffered_bytes";
/// Counter: committed folds. Sum.
pub const FOLDS: &str = "tidelake_compact_folds_total";
/// Counter: rows that folds read from log segments. Sum.
pub const FOLD_ROWS: &str = "tidelake_compact_fold_rows_total";
/// Counter: committed merges. Sum.
pub const MERGES: &str = "tidelake_compact_merges_total";
/// Counter: rows that merges read from data files; divided by the folded rows it is the write amplification. Sum.
pub const MERGE_ROWS: &str = "tidelake_compact_merge_rows_total";
/// Counter: rows that a fold or merge dropped because a newer row has the same key. Sum.
pub const DUPLICATE_ROWS: &str = "tidelake_compact_duplicate_rows_total";
/// Counter: partitions removed because all their time is beyond KEEP. Sum.
pub const EXPIRED_PARTITIONS: &str = "tidelake_compact_expired_partitions_total";
/// Counter: rows of those partitions, and rows of the log that folds dropped because they belong there. Sum.
pub const EXPIRED_ROWS: &str = "tidelake_compact_expired_rows_total";
/// Counter: bytes of data files and tag manifests that folds and merges put. Sum.
pub const FILE_BYTES: &str = "tidelake_compact_file_bytes_total";
/// Counter, label `step` = `fold`, `retain`, `merge` or `collect`: attempts that lost a race or failed. Sum.
pub const COMPACT_FAILURES: &str = "tidelake_compact_failures_total";
