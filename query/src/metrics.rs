//! The names of this crate's metrics: what each counts and how to combine it across processes.

/// Counter: statements that read and came to an end, however they ended. Sum.
pub const QUERIES: &str = "tidelake_query_statements_total";
/// Counter: rows that they gave. Sum.
pub const ROWS: &str = "tidelake_query_rows_total";
/// Histogram, seconds: from a statement's arrival to its last row, with what it waited for its turn and for its client.
pub const SECONDS: &str = "tidelake_query_seconds";
/// Counter: statements that were refused because too many waited. Sum.
pub const REFUSED: &str = "tidelake_query_refused_total";
