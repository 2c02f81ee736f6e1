//! This crate's metrics. Sum counters over processes.

tidelake_protocol::declare_metrics! {
    counter QUERIES = "tidelake_query_statements_total": "Reading statements that have ended, with any outcome.";
    counter ROWS = "tidelake_query_rows_total": "Rows returned by reading statements.";
    histogram SECONDS = "tidelake_query_seconds":
        "Seconds from a statement's arrival to its last row, including time in the queue and waiting for the client.";
    counter REFUSED = "tidelake_query_refused_total": "Statements refused because too many were queued.";
}
