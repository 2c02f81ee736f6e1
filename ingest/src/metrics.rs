//! This crate's metrics. Sum counters and gauges over processes.

tidelake_protocol::declare_metrics! {
    counter ROWS = "tidelake_ingest_rows_total": "Rows stored in a log segment, or, with no_sync, in the buffer.";
    #[labelled("protocol")]
    counter PROTOCOL_ROWS = "tidelake_ingest_protocol_rows_total":
        "Accepted rows by protocol: influxdb, opentsdb, sql or arrow.";
    counter REJECTED = "tidelake_ingest_rejected_total": "Lines, points and rows that were reported back as rejected.";
    counter UDP_DATAGRAMS = "tidelake_ingest_udp_datagrams_total": "Datagrams of line protocol received.";
    counter UDP_BYTES = "tidelake_ingest_udp_bytes_total": "Bytes of received datagrams.";
    counter UDP_LOST_BYTES = "tidelake_ingest_udp_lost_bytes_total":
        "Bytes of received datagrams that could not be written; without rejected lines and datagrams that the system dropped.";
    counter BODY_BYTES = "tidelake_ingest_body_bytes_total": "Bytes of request bodies after decompression.";
    counter THROTTLED = "tidelake_ingest_throttled_total": "Requests refused because the write buffer was full.";
    counter LOST_ROWS = "tidelake_ingest_lost_rows_total":
        "Rows acknowledged with no_sync and lost afterwards; investigate any value but 0.";
    counter SEGMENTS = "tidelake_ingest_segments_total": "Log segments written.";
    counter SEGMENT_BYTES = "tidelake_ingest_segment_bytes_total": "Bytes of the log segments written.";
    histogram PUT_SECONDS = "tidelake_ingest_put_seconds":
        "Seconds from the start of a segment's PUT to the store's response.";
    gauge BUFFERED_BYTES = "tidelake_ingest_buffered_bytes": "Bytes of decoded rows that wait for their PUT.";
    counter FOLDS = "tidelake_compact_folds_total": "Committed folds.";
    counter FOLD_ROWS = "tidelake_compact_fold_rows_total": "Rows that folds read from log segments.";
    counter MERGES = "tidelake_compact_merges_total": "Committed merges.";
    counter MERGE_ROWS = "tidelake_compact_merge_rows_total":
        "Rows that merges read from data files; divided by the folded rows it is the write amplification.";
    counter DUPLICATE_ROWS = "tidelake_compact_duplicate_rows_total":
        "Rows that folds and merges dropped because a newer row has the same key.";
    counter EXPIRED_PARTITIONS = "tidelake_compact_expired_partitions_total":
        "Partitions removed because all their time is beyond KEEP.";
    counter EXPIRED_ROWS = "tidelake_compact_expired_rows_total":
        "Rows of removed partitions, and rows of the log that folds dropped because they belong there.";
    counter FILE_BYTES = "tidelake_compact_file_bytes_total":
        "Bytes of data files and tag manifests that folds and merges wrote.";
    #[labelled("step")]
    counter COMPACT_FAILURES = "tidelake_compact_failures_total":
        "Attempts of a step (fold, retain, merge or collect) that lost a race or failed.";
}
