//! Tidelake.
