//! Names of this crate's metrics, with their meaning and how to combine them across processes.

/// Counter: reading statements that have ended, with any outcome. Sum.
pub const QUERIES: &str = "tidelake_query_statements_total";
/// Counter: rows returned by them. Sum.
pub const ROWS: &str = "tidelake_query_rows_total";
/// Histogram, seconds: from a statement's arrival to its last row, including time in the queue and waiting for the
/// client.
pub const SECONDS: &str = "tidelake_query_seconds";
/// Counter: statements rejected because too many were queued. Sum.
pub const REFUSED: &str = "tidelake_query_refused_total";
