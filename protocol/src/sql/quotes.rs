//! The meaning of double quotes.

/// What text in double quotes means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DoubleQuotes {
    /// A name, as in standard SQL (JDBC, ADBC, Grafana). String literals have single quotes and no escapes.
    Identifier,
    /// A string literal, as in TDengine. A backslash begins an escape in every string literal.
    Text,
}
