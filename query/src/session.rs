//! What a statement runs in: the current database, the time zone, the tokens it must see.

use chrono_tz::Tz;
use tidelake_format::ids::Token;

/// What text in double quotes means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DoubleQuotes {
    /// A name, as in standard SQL (JDBC, ADBC, Grafana).
    #[default]
    Identifier,
    /// A string, as in TDengine; backslash escapes hold in strings too.
    Text,
}

/// The settings of one connection or request; cheap to clone.
#[derive(Debug, Clone)]
pub struct Session {
    /// The database of unqualified tables.
    pub database: Option<String>,
    /// The zone of day and longer windows and of timestamps without one in statements.
    pub time_zone: Tz,
    /// Writes that the statement must see.
    pub tokens: Vec<Token>,
    /// The meaning of double quotes.
    pub double_quotes: DoubleQuotes,
}

impl Default for Session {
    fn default() -> Self {
        Self { database: None, time_zone: Tz::UTC, tokens: Vec::new(), double_quotes: DoubleQuotes::Identifier }
    }
}
