//! What a statement runs in: the current database, the time zone, the tokens it must see.

use std::{fmt, str::FromStr, sync::Arc};

use arrow::ipc::CompressionType;
use chrono_tz::Tz;
use tidelake_format::{Error, access::Principal, ids::Token};
use tidelake_protocol::sql::DoubleQuotes;

use crate::buffer::StatementBuffer;

/// The query language of a statement's text. As text its name, in either case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Language {
    /// Tidelake's SQL: DataFusion's with clauses of TDengine.
    #[default]
    Sql,
}

impl FromStr for Language {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.to_ascii_lowercase().as_str() {
            "sql" => Ok(Self::Sql),
            _ => Err(Error::unsupported("this query language is not supported")
                .with("expected", "sql")
                .with("found", crate::error::shorten(text))),
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sql => "sql",
        })
    }
}

/// What may answer aggregates beside the rows themselves; answers are the same with any.
///
/// As text the names of those that may, separated by commas, or `none`: `manifests,rollups,scan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Levels {
    /// Whole chunks from tag manifests.
    pub manifests: bool,
    /// Whole buckets from rollups.
    pub rollups: bool,
    /// Rows aggregated inside the scan; else DataFusion aggregates what the scan gives.
    pub scan: bool,
}

impl Levels {
    /// None of them.
    pub const NONE: Self = Self { manifests: false, rollups: false, scan: false };
}

impl Default for Levels {
    fn default() -> Self {
        Self { manifests: true, rollups: true, scan: true }
    }
}

impl FromStr for Levels {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let mut levels = Self::NONE;
        if text.trim() == "none" {
            return Ok(levels);
        }
        for name in text.split(',') {
            let level = match name.trim() {
                "manifests" => &mut levels.manifests,
                "rollups" => &mut levels.rollups,
                "scan" => &mut levels.scan,
                other => {
                    return Err(Error::invalid("there is no such level of aggregates")
                        .with("expected", "manifests, rollups, scan (separated by commas) or none")
                        .with("found", crate::error::shorten(other)));
                }
            };
            *level = true;
        }
        Ok(levels)
    }
}

impl fmt::Display for Levels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [("manifests", self.manifests), ("rollups", self.rollups), ("scan", self.scan)];
        let names: Vec<&str> = all.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        f.write_str(if names.is_empty() { "none".to_owned() } else { names.join(",") }.as_str())
    }
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
    /// The language of the statement.
    pub language: Language,
    /// The meaning of double quotes.
    pub double_quotes: DoubleQuotes,
    /// What may answer aggregates.
    pub levels: Levels,
    /// The key of a statement that writes: copies of it under this key are not written again.
    pub idempotency_key: Option<String>,
    /// What is done with times that seem to be in another unit: `refuse`, `warn` or `accept`; `None` is the writer's setting.
    pub implausible_times: Option<String>,
    /// Who asks: what that one may not read is not there.
    pub principal: Principal,
    /// The name of the statement, from [`Engine::query_id`](crate::engine::Engine::query_id), where somebody is told it.
    pub query_id: Option<Arc<str>>,
    /// The handle that the statement came by: whoever cancels that ends it.
    pub handle: Option<[u8; 16]>,
    /// The database that the headers of the call ask for, whatever USE has chosen since.
    pub asked_database: Option<String>,
    /// How rows are compressed within the messages that Flight sends; `None` = not at all.
    pub ipc_compression: Option<CompressionType>,
    /// Where what a client sent packed is counted once it is unpacked.
    pub buffer: StatementBuffer,
}

impl Session {
    /// The session of a request that says nothing but whose it is.
    pub fn of(principal: Principal) -> Self {
        Self {
            database: None,
            time_zone: Tz::UTC,
            tokens: Vec::new(),
            language: Language::Sql,
            double_quotes: DoubleQuotes::Identifier,
            levels: Levels::default(),
            idempotency_key: None,
            implausible_times: None,
            principal,
            query_id: None,
            handle: None,
            asked_database: None,
            ipc_compression: None,
            buffer: StatementBuffer::default(),
        }
    }

    /// The session of one part of a request that is written in parts: each has a key of its own.
    pub(crate) fn part(&self, number: usize) -> Self {
        let idempotency_key = self.idempotency_key.as_ref().map(|key| match number {
            0 => key.clone(),
            _ => format!("{key}#{number}"),
        });
        Self { idempotency_key, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read_as_they_are_written() {
        for at in 0..8 {
            let levels = Levels { manifests: at & 1 > 0, rollups: at & 2 > 0, scan: at & 4 > 0 };
            assert_eq!(levels.to_string().parse::<Levels>().unwrap(), levels);
        }
        assert_eq!(Levels::default().to_string(), "manifests,rollups,scan");
        assert_eq!(" rollups , manifests".parse::<Levels>().unwrap(), Levels { scan: false, ..Levels::default() });
        for wrong in ["", "all", "rollups,", "none,scan"] {
            assert!(wrong.parse::<Levels>().unwrap_err().to_string().contains("manifests, rollups, scan"), "{wrong}");
        }
    }
}
