//! Tickets and prepared handles: the statement and its session themselves, so that any node can serve them.

use std::fmt;

use prost::Message;
use tidelake_format::{Error, Result, access::Secret};
use tonic::codegen::Bytes;

use super::cache::Key;
use crate::{
    request,
    session::{DoubleQuotes, Levels, Session},
    writer::WriteOutcome,
};

/// The version of [`Handle`]'s meaning; another one is refused.
const FORMAT: u32 = 1;

/// What a ticket or a prepared handle holds, as a protocol buffer. Clients treat it as opaque.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Handle {
    #[prost(uint32, tag = "1")]
    format: u32,
    /// Where this node keeps the plan and the parameters, while it does.
    #[prost(bytes = "vec", tag = "2")]
    key: Vec<u8>,
    /// The statement.
    #[prost(string, tag = "3")]
    pub(super) sql: String,
    #[prost(string, optional, tag = "4")]
    database: Option<String>,
    #[prost(string, tag = "5")]
    time_zone: String,
    #[prost(string, repeated, tag = "6")]
    tokens: Vec<String>,
    /// Empty where all are on.
    #[prost(string, tag = "7")]
    levels: String,
    /// What the statement did, where it wrote: the ticket tells that and writes no more.
    #[prost(message, optional, tag = "8")]
    done: Option<Done>,
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
    /// The text of a token that was made: the ticket goes to nobody but whom it is told.
    #[prost(string, optional, tag = "5")]
    secret: Option<String>,
}

impl fmt::Debug for Done {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Done").field("affected_rows", &self.affected_rows).finish_non_exhaustive()
    }
}

impl Handle {
    /// A new handle of a statement in a session.
    pub(super) fn new(key: Key, sql: &str, session: &Session) -> Self {
        Self {
            format: FORMAT,
            key: key.to_vec(),
            sql: sql.to_owned(),
            database: session.database.clone(),
            time_zone: session.time_zone.name().to_owned(),
            tokens: session.tokens.iter().map(ToString::to_string).collect(),
            levels: if session.levels == Levels::default() { String::new() } else { session.levels.to_string() },
            done: None,
        }
    }

    /// The handle of a statement that wrote, without its text: nobody executes it again, and it may be large or hold a
    /// password.
    pub(super) fn with_outcome(mut self, outcome: &WriteOutcome) -> Self {
        self.sql.clear();
        self.done = Some(Done {
            affected_rows: outcome.affected_rows,
            token: outcome.token.map(|token| token.to_string()),
            use_database: outcome.use_database.clone(),
            replayed: outcome.replayed,
            secret: outcome.secret.as_ref().map(|secret| secret.expose().to_owned()),
        });
        self
    }

    /// What the statement did, where it wrote.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a token that is none.
    pub(super) fn outcome(&self) -> Result<Option<WriteOutcome>> {
        let Some(done) = &self.done else { return Ok(None) };
        Ok(Some(WriteOutcome {
            affected_rows: done.affected_rows,
            token: done.token.as_deref().map(str::parse).transpose()?,
            use_database: done.use_database.clone(),
            replayed: done.replayed,
            secret: done.secret.clone().map(Secret::new),
        }))
    }

    /// Its bytes.
    pub(super) fn encode(&self) -> Bytes {
        self.encode_to_vec().into()
    }

    /// Reads one back.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for bytes that this or an older version did not make.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = || Error::invalid("not a ticket or statement handle of this server");
        let handle = <Self as Message>::decode(bytes).map_err(|e| bad().source(e))?;
        if handle.format != FORMAT || handle.key.len() != size_of::<Key>() {
            return Err(bad().with("expected", format!("format {FORMAT}")).with("found", handle.format));
        }
        Ok(handle)
    }

    /// Where this node keeps what belongs to it.
    pub(super) fn key(&self) -> Key {
        self.key.as_slice().try_into().unwrap_or_default()
    }

    /// The session of the statement, with the tokens of the present call added.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a time zone, token or level that is none.
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
            double_quotes: DoubleQuotes::Identifier,
            levels: if self.levels.is_empty() { Levels::default() } else { self.levels.parse()? },
            idempotency_key: call.idempotency_key.clone(),
            principal: call.principal.clone(),
            query_id: call.query_id.clone(),
            handle: Some(self.key()),
            asked_database: call.asked_database.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_carries_statement_and_session() {
        let session = Session {
            database: Some("w1".into()),
            time_zone: chrono_tz::Asia::Shanghai,
            tokens: vec!["v7".parse().unwrap()],
            levels: Levels::NONE,
            ..Session::default()
        };
        let handle = Handle::decode(&Handle::new([3; 16], "select 1", &session).encode()).unwrap();
        assert_eq!((handle.sql.as_str(), handle.key()), ("select 1", [3; 16]));
        let call = Session { tokens: vec!["v9".parse().unwrap()], ..Session::default() };
        let back = handle.session(&call).unwrap();
        assert_eq!((back.database.as_deref(), back.time_zone.name()), (Some("w1"), "Asia/Shanghai"));
        assert_eq!(back.levels, Levels::NONE);
        assert_eq!(back.tokens, vec!["v9".parse().unwrap(), "v7".parse().unwrap()]);
    }

    #[test]
    fn a_handle_of_a_write_tells_what_it_did_and_shows_no_secret() {
        let outcome = WriteOutcome {
            affected_rows: 3,
            token: Some("v7".parse().unwrap()),
            use_database: Some("w1".into()),
            replayed: true,
            secret: Some(Secret::new("tl_abc".into())),
        };
        let handle = Handle::new([3; 16], "create token t", &Session::default());
        assert_eq!(Handle::decode(&handle.encode()).unwrap().outcome().unwrap(), None);
        let handle = Handle::decode(&handle.with_outcome(&outcome).encode()).unwrap();
        assert_eq!(handle.outcome().unwrap(), Some(outcome));
        assert!(!format!("{handle:?}").contains("tl_abc"), "{handle:?}");
    }

    #[test]
    fn foreign_bytes_are_refused() {
        for bytes in [&b""[..], b"abc", &[0xff; 40]] {
            assert_eq!(Handle::decode(bytes).unwrap_err().kind(), crate::Kind::Invalid);
        }
    }
}
