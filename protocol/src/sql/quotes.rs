//! The meaning of double quotes.

/// What text in double quotes means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DoubleQuotes {
    /// A name, as in standard SQL (JDBC, ADBC, Grafana). Texts stand in single quotes, and a backslash in them is a backslash.
    Identifier,
    /// A text, as in TDengine. In all texts a backslash begins an escape.
    Text,
}
