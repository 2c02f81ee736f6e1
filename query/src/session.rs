//! Context of a statement: the current database, the time zone, the tokens it must see.

use std::{fmt, str::FromStr, sync::Arc};

use arrow::ipc::CompressionType;
use chrono_tz::Tz;
use tidelake_format::{Error, access::Principal, ids::Token};
use tidelake_protocol::sql::DoubleQuotes;

use crate::{buffer::StatementBuffer, tracked::Tracked};

/// Query language of a statement. Parsed from its name, case-insensitively.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Language {
    /// Tidelake's SQL: DataFusion's SQL with clauses of TDengine.
    #[default]
    Sql,
}

impl FromStr for Language {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.to_ascii_lowercase().as_str() {
            "sql" => Ok(Self::Sql),
            _ => Err(Error::unsupported("unsupported query language")
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

/// Levels that may answer aggregates in place of plain rows; the results are the same with any.
///
/// As text, the names of the enabled levels, separated by commas, or `none`: `manifests,rollups,scan`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Levels {
    /// Whole chunks from tag manifests.
    pub manifests: bool,
    /// Whole buckets from rollups.
    pub rollups: bool,
    /// Rows aggregated inside the scan; otherwise DataFusion aggregates the scan's output.
    pub scan: bool,
}

impl Levels {
    /// No level.
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
                    return Err(Error::invalid("unknown aggregate level")
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

/// Arrow type of the text columns of a Flight result that are tags. Parsed from its name, case-insensitively.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TagEncoding {
    /// Utf8: every client reads it.
    #[default]
    Text,
    /// Dictionary(Int32, Utf8): four bytes a row, and each text once.
    Dictionary,
}

impl FromStr for TagEncoding {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text.trim().to_ascii_lowercase().as_str() {
            "text" => Ok(Self::Text),
            "dictionary" => Ok(Self::Dictionary),
            _ => Err(Error::invalid("unknown tag encoding")
                .with("expected", "text or dictionary")
                .with("found", crate::error::shorten(text))),
        }
    }
}

impl fmt::Display for TagEncoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text => "text",
            Self::Dictionary => "dictionary",
        })
    }
}

/// Settings of one connection or request; cheap to clone.
#[derive(Debug, Clone)]
pub struct Session {
    /// The database of unqualified tables.
    pub database: Option<String>,
    /// Time zone of day and longer windows, and of timestamps without a zone in statements.
    pub time_zone: Tz,
    /// Writes that the statement must see.
    pub tokens: Vec<Token>,
    /// Language of the statement.
    pub language: Language,
    /// Meaning of double quotes.
    pub double_quotes: DoubleQuotes,
    /// Levels that may answer aggregates.
    pub levels: Levels,
    /// Type of the tags in a Flight result.
    pub tag_encoding: TagEncoding,
    /// Idempotency key of a writing statement: repeats under this key are not written again.
    pub idempotency_key: Option<String>,
    /// Handling of times that seem to be in another unit: `refuse`, `warn` or `accept`; `None` = the writer's setting.
    pub implausible_times: Option<String>,
    /// The client's principal: objects it may not read are hidden.
    pub principal: Principal,
    /// ID of the statement, from [`Engine::query_id`](crate::engine::Engine::query_id), if it is returned to the
    /// client.
    pub query_id: Option<Arc<str>>,
    /// What clients that follow the statement see.
    pub tracked: Option<Arc<Tracked>>,
    /// Handle under which the statement arrived: cancelling the handle ends the statement.
    pub handle: Option<[u8; 16]>,
    /// Database requested by the call's headers, regardless of later USE statements.
    pub asked_database: Option<String>,
    /// Compression of record batches within Flight messages; `None` = no compression.
    pub ipc_compression: Option<CompressionType>,
    /// Buffer that counts the decompressed bytes of a client's compressed input.
    pub buffer: StatementBuffer,
}

impl Session {
    /// Creates the session of a request with only a principal.
    pub fn of(principal: Principal) -> Self {
        Self {
            database: None,
            time_zone: Tz::UTC,
            tokens: Vec::new(),
            language: Language::Sql,
            double_quotes: DoubleQuotes::Identifier,
            levels: Levels::default(),
            tag_encoding: TagEncoding::default(),
            idempotency_key: None,
            implausible_times: None,
            principal,
            query_id: None,
            tracked: None,
            handle: None,
            asked_database: None,
            ipc_compression: None,
            buffer: StatementBuffer::default(),
        }
    }

    /// The session of one part of a request written in parts: each part has its own key.
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
    fn levels_parse_what_they_display() {
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

    #[test]
    fn tag_encodings_parse_what_they_display() {
        for encoding in [TagEncoding::Text, TagEncoding::Dictionary] {
            assert_eq!(encoding.to_string().parse::<TagEncoding>().unwrap(), encoding);
        }
        assert_eq!(" Dictionary".parse::<TagEncoding>().unwrap(), TagEncoding::Dictionary);
        let error = "dict".parse::<TagEncoding>().unwrap_err();
        assert_eq!((error.context("expected"), error.context("found")), (Some("text or dictionary"), Some("dict")));
    }
}
