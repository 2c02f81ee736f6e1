//! Timestamp literals and the range of timestamps.
