//! The meaning of double quotes.

/// Meaning of text in double quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DoubleQuotes {
    /// An identifier, as in standard SQL (JDBC, ADBC, Grafana). String literals use single quotes and have no escapes.
    Identifier,
    /// A string literal, as in TDengine. A backslash begins an escape in every string literal.
    Text,
}
