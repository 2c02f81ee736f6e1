//! Tickets and prepared handles. They contain the statement and its session, so that any node can serve them.

use std::{borrow::Cow, fmt};

use prost::Message;
use tidelake_format::{Error, Result, access::Secret, rows::RowCounts};
use tonic::codegen::Bytes;

use super::{cache::Key, service::MAX_MESSAGE_BYTES};
use crate::{
    request,
    session::{Language, Levels, Session, TagEncoding},
    writer::WriteOutcome,
};
use tidelake_protocol::sql::DoubleQuotes;

/// Format version of [`Handle`]; any other is refused.
const FORMAT: u32 = 1;
/// Longer texts are compressed: some clients accept replies of at most 4 MiB, and an INSERT may be longer.
const PLAIN_BYTES: usize = 64 << 10;

/// Contents of a ticket or a prepared handle, as a protocol buffer. Opaque to clients.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Handle {
    #[prost(uint32, tag = "1")]
    format: u32,
    /// Cache key of the plan and the bound parameters on this node.
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
    /// The statement, unless it is in `packed`.
    #[prost(string, tag = "3")]
    sql: String,
    #[prost(string, optional, tag = "4")]
    database: Option<String>,
    #[prost(string, tag = "5")]
    time_zone: String,
    #[prost(string, repeated, tag = "6")]
    tokens: Vec<String>,
    /// Empty where all levels are enabled.
    #[prost(string, tag = "7")]
    levels: String,
    /// Outcome of an update. A DoGet returns it and does not execute the update again.
    #[prost(message, optional, tag = "8")]
    done: Option<Done>,
    /// A long statement, compressed with zstd; else empty.
    #[prost(bytes = "vec", tag = "9")]
    packed: Vec<u8>,
    /// The language of the statement; empty for SQL.
    #[prost(string, tag = "10")]
    language: String,
    /// Whether tags are dictionaries.
    #[prost(bool, tag = "11")]
    tag_dictionaries: bool,
}

/// A [`WriteOutcome`], as a protocol buffer.
#[derive(Clone, PartialEq, Message)]
#[prost(skip_debug)]
struct Done {
    #[prost(uint64, tag = "1")]
    affected_rows: u64,
    #[prost(string, optional, tag = "2")]
    token: Option<String>,
    #[prost(string, optional, tag = "3")]
    use_database: Option<String>,
    #[prost(bool, tag = "4")]
    replayed: bool,
    /// The text of a created token. Only the client that created it receives the ticket.
    #[prost(string, optional, tag = "5")]
    secret: Option<String>,
    /// Numbers of rows written, replaced and refused; empty where the statement sent no rows.
    #[prost(uint64, repeated, tag = "6")]
    rows: Vec<u64>,
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Done").field("affected_rows", &self.affected_rows).finish_non_exhaustive()
    }
}

impl Handle {
    /// Creates a handle of a statement in a session.
    pub(super) fn new(key: Key, sql: &str, session: &Session) -> Self {
        let packed = if sql.len() <= PLAIN_BYTES { None } else { zstd::bulk::compress(sql.as_bytes(), 1).ok() };
        Self {
            format: FORMAT,
            key: key.to_vec(),
            sql: if packed.is_some() { String::new() } else { sql.to_owned() },
            packed: packed.unwrap_or_default(),
            database: session.database.clone(),
            time_zone: session.time_zone.name().to_owned(),
            tokens: session.tokens.iter().map(ToString::to_string).collect(),
            levels: if session.levels == Levels::default() { String::new() } else { session.levels.to_string() },
            done: None,
            tag_dictionaries: session.tag_encoding == TagEncoding::Dictionary,
            language: if session.language == Language::default() {
                String::new()
            } else {
                session.language.to_string()
            },
        }
    }

    /// The handle of an executed update. Removes its text: it is not executed again, and may be large or contain a password.
    pub(super) fn with_outcome(mut self, outcome: &WriteOutcome) -> Self {
        self.sql.clear();
        self.packed.clear();
        self.done = Some(Done {
            affected_rows: outcome.affected_rows,
            token: outcome.token.map(|token| token.to_string()),
            use_database: outcome.use_database.clone(),
            replayed: outcome.replayed,
            secret: outcome.secret.as_ref().map(|secret| secret.expose().to_owned()),
            rows: outcome.rows.map_or_else(Vec::new, |rows| vec![rows.written, rows.replaced, rows.refused]),
        });
        self
    }

    /// Size of the statement after decompression, from the zstd frame header; 0 where it is not compressed.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) where the header has no size, as every handle of this server has, or a size above
    /// the message limit.
    pub(super) fn unpacked_bytes(&self) -> Result<usize> {
        if self.packed.is_empty() {
            return Ok(0);
        }
        let told = zstd::zstd_safe::get_frame_content_size(&self.packed).ok().flatten();
        told.and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|bytes| *bytes <= MAX_MESSAGE_BYTES)
            .ok_or_else(foreign)
    }

    /// The statement.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for one that this server did not compress.
    pub(super) fn sql(&self) -> Result<Cow<'_, str>> {
        if self.packed.is_empty() {
            return Ok(Cow::Borrowed(&self.sql));
        }
        let unpacked = zstd::bulk::decompress(&self.packed, self.unpacked_bytes()?).map_err(|e| foreign().source(e))?;
        String::from_utf8(unpacked).map(Cow::Owned).map_err(|e| foreign().source(e))
    }

    /// The outcome of an executed update.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for an invalid token.
    pub(super) fn outcome(&self) -> Result<Option<WriteOutcome>> {
        let Some(done) = &self.done else { return Ok(None) };
        Ok(Some(WriteOutcome {
            affected_rows: done.affected_rows,
            token: done.token.as_deref().map(str::parse).transpose()?,
            use_database: done.use_database.clone(),
            replayed: done.replayed,
            secret: done.secret.clone().map(Secret::new),
            rows: match done.rows[..] {
                [written, replaced, refused] => Some(RowCounts { written, replaced, refused }),
                _ => None,
            },
            notices: Vec::new(), // the FlightInfo has returned them
        }))
    }

    /// Encodes the handle.
    pub(super) fn encode(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// Decodes a handle.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for bytes that are not a handle of this format version.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let handle = <Self as Message>::decode(bytes).map_err(|e| foreign().source(e))?;
        if handle.format != FORMAT || handle.key.len() != size_of::<Key>() {
            return Err(foreign().with("expected", format!("format {FORMAT}")).with("found", handle.format));
        }
        Ok(handle)
    }

    /// The handle's key in this node's caches.
    pub(super) fn key(&self) -> Key {
        self.key.as_slice().try_into().unwrap_or_default()
    }

    /// The session of the statement, with the tokens of the current call added.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for an invalid time zone, token or level,
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) for an unknown language.
    pub(super) fn session(&self, call: &Session) -> Result<Session> {
        let mut tokens = call.tokens.clone();
        for token in &self.tokens {
            let token = token.parse()?;
            if !tokens.contains(&token) {
                tokens.push(token);
            }
        }
        Ok(Session {
            database: self.database.clone(),
            time_zone: request::time_zone(&self.time_zone)?,
            tokens,
            language: if self.language.is_empty() { Language::default() } else { self.language.parse()? },
            double_quotes: DoubleQuotes::Identifier,
            levels: if self.levels.is_empty() { Levels::default() } else { self.levels.parse()? },
            tag_encoding: if self.tag_dictionaries { TagEncoding::Dictionary } else { TagEncoding::Text },
            idempotency_key: call.idempotency_key.clone(),
            implausible_times: call.implausible_times.clone(),
            principal: call.principal.clone(),
            query_id: call.query_id.clone(),
            tracked: call.tracked.clone(),
            handle: Some(self.key()),
            asked_database: call.asked_database.clone(),
            ipc_compression: call.ipc_compression,
            buffer: call.buffer.clone(),
        })
    }
}

fn foreign() -> Error {
    Error::invalid("invalid ticket or statement handle")
}

#[cfg(test)]
mod tests {
    use tidelake_format::access::Principal;

    use super::*;

    #[test]
    fn a_handle_carries_statement_and_session() {
        let session = Session {
            database: Some("w1".into()),
            time_zone: chrono_tz::Asia::Shanghai,
            tokens: vec!["v7".parse().unwrap()],
            levels: Levels::NONE,
            tag_encoding: TagEncoding::Dictionary,
            ..Session::of(Principal::AUTH_OFF)
        };
        let handle = Handle::decode(&Handle::new([3; 16], "select 1", &session).encode()).unwrap();
        assert_eq!((handle.sql().unwrap().as_ref(), handle.key()), ("select 1", [3; 16]));
        let call = Session { tokens: vec!["v9".parse().unwrap()], ..Session::of(Principal::AUTH_OFF) };
        let back = handle.session(&call).unwrap();
        assert_eq!((back.database.as_deref(), back.time_zone.name()), (Some("w1"), "Asia/Shanghai"));
        assert_eq!((back.levels, back.language), (Levels::NONE, Language::Sql));
        assert_eq!(back.tag_encoding, TagEncoding::Dictionary);
        assert_eq!(back.tokens, vec!["v9".parse().unwrap(), "v7".parse().unwrap()]);
    }

    #[test]
    fn a_handle_of_a_write_carries_its_outcome_and_hides_the_secret() {
        let outcome = WriteOutcome {
            affected_rows: 3,
            token: Some("v7".parse().unwrap()),
            use_database: Some("w1".into()),
            replayed: true,
            secret: Some(Secret::new("tl_abc".into())),
            rows: Some(RowCounts { written: 2, replaced: 1, refused: 0 }),
            notices: Vec::new(),
        };
        let handle = Handle::new([3; 16], "create token t", &Session::of(Principal::AUTH_OFF));
        assert_eq!(Handle::decode(&handle.encode()).unwrap().outcome().unwrap(), None);
        let handle = Handle::decode(&handle.with_outcome(&outcome).encode()).unwrap();
        assert_eq!(handle.outcome().unwrap(), Some(outcome));
        assert!(!format!("{handle:?}").contains("tl_abc"), "{handle:?}");
    }

    #[test]
    fn the_handle_of_a_long_statement_is_short_enough_for_every_client() {
        let values = (0..400_000).map(|i| format!("({}, {})", 1_700_000_000_000_i64 + i, i % 1_000));
        let sql = format!("insert into d values {}", values.collect::<Vec<_>>().join(" "));
        let encoded = Handle::new([3; 16], &sql, &Session::of(Principal::AUTH_OFF)).encode();
        assert!(sql.len() > 8_000_000 && encoded.len() < 4 << 20, "{} of {}", encoded.len(), sql.len());
        let mut handle = Handle::decode(&encoded).unwrap();
        assert_eq!(handle.sql().unwrap(), sql);
        handle.packed = b"none of ours".to_vec();
        assert_eq!(handle.sql().unwrap_err().kind(), crate::Kind::Invalid);
    }

    #[test]
    fn a_handle_in_a_language_of_a_newer_node_is_refused() {
        let session = Session::of(Principal::AUTH_OFF);
        let mut handle = Handle::new([3; 16], "select 1", &session);
        assert!(handle.language.is_empty(), "nodes that know SQL alone read it");
        handle.language = "klingon".to_owned();
        let error = Handle::decode(&handle.encode()).unwrap().session(&session).unwrap_err();
        assert_eq!((error.kind(), error.context("found")), (crate::Kind::Unsupported, Some("klingon")));
    }

    #[test]
    fn foreign_bytes_are_refused() {
        for bytes in [&b""[..], b"abc", &[0xff; 40]] {
            assert_eq!(Handle::decode(bytes).unwrap_err().kind(), crate::Kind::Invalid);
        }
    }
}
