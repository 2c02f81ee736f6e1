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
    /// The key of a statement that writes: copies of it under this key are not written again.
    pub idempotency_key: Option<String>,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            database: None,
            time_zone: Tz::UTC,
            tokens: Vec::new(),
            double_quotes: DoubleQuotes::Identifier,
            idempotency_key: None,
        }
    }
}

impl Session {
    /// The session of one part of a request that is written in parts: each has a key of its own.
    pub(crate) fn part(&self, number: usize) -> Self {
        let idempotency_key = self.idempotency_key.as_ref().map(|key| match number {
            0 => key.clone(),
            _ => format!("{key}#{number}"),
        });
        Self { idempotency_key, ..self.clone() }
    }
}
