//! The session of a call: the state in its cookie, overridden by its headers. The headers' database is usually that of the
//! connection's URL, which each call repeats. So a database chosen later by USE has precedence, until the headers name a different
//! one.
//!
//! The cookie contains the session, so nodes keep no session state and any node can serve the next call. The cookie
//! grants no rights: each call authenticates itself. A session ends when it is closed, which removes the cookie, or
//! when it was not changed for [`KEPT_SECONDS`], even if the client still sends the cookie. Clients without cookies
//! (ADBC unless `adbc.flight.sql.rpc.with_cookie_middleware` is set) send headers.

use std::time::{SystemTime, UNIX_EPOCH};

use arrow::ipc::CompressionType;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use tidelake_format::{Error, Result, access::Principal};
use tonic::{Extensions, metadata::MetadataMap};

use crate::{
    request,
    session::{Levels, Session, TagEncoding},
    writer::WriteOutcome,
};
use tidelake_protocol::http::headers;

const COOKIE: &str = "tidelake-session";
/// The header that requests compressed record batches.
const COMPRESSION_HEADER: &str = "ipc-compression";
/// The header that requests the type of tags.
const TAG_ENCODING_HEADER: &str = "tag-encoding";
/// Lifetime of a session after its cookie was set. Go's client drops a cookie without a lifetime.
const KEPT_SECONDS: u64 = 30 * 86_400;

#[derive(Serialize, Deserialize)]
struct Remembered {
    /// Expiry of the session, in seconds of Unix time.
    until: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    database: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_zone: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    levels: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag_encoding: Option<String>,
    /// The headers' database when `database` was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    over: Option<String>,
}

/// The session of a call, with the principal from its extensions.
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal) for a call that no layer authenticated;
/// [`Kind::Invalid`](crate::Kind::Invalid) for an invalid header. An invalid or expired cookie is ignored.
pub(super) fn session_of(metadata: &MetadataMap, extensions: &Extensions) -> Result<Session> {
    let buffer = extensions.get().cloned().unwrap_or_default();
    let mut session = Session { buffer, ..Session::of(Principal::of_request(extensions)?) };
    let mut chosen = None;
    for value in metadata.get_all("cookie").iter().filter_map(|v| v.to_str().ok()) {
        for (name, value) in value.split(';').filter_map(|pair| pair.trim().split_once('=')) {
            if name == COOKIE
                && let Ok(json) = URL_SAFE_NO_PAD.decode(value.trim_matches('"'))
                && let Ok(remembered) = serde_json::from_slice::<Remembered>(&json)
                && remembered.until > seconds()
            {
                chosen = remembered.database.map(|database| (database, remembered.over));
                if let Some(Ok(zone)) = remembered.time_zone.map(|z| z.parse()) {
                    session.time_zone = zone;
                }
                if let Some(Ok(levels)) = remembered.levels.map(|l| l.parse()) {
                    session.levels = levels;
                }
                if let Some(Ok(encoding)) = remembered.tag_encoding.map(|e| e.parse()) {
                    session.tag_encoding = encoding;
                }
            }
        }
    }
    request::apply_headers(&mut session, |name| {
        metadata.get_all(name).iter().filter_map(|v| v.to_str().ok()).collect::<Vec<_>>().into_iter()
    })?;
    if let Some((database, over)) = chosen
        && (session.asked_database.is_none() || session.asked_database == over)
    {
        session.database = Some(database);
    }
    if let Some(name) = metadata.get(TAG_ENCODING_HEADER) {
        session.tag_encoding = String::from_utf8_lossy(name.as_bytes()).parse()?;
    }
    if let Some(name) = metadata.get(COMPRESSION_HEADER) {
        session.ipc_compression = compression(&String::from_utf8_lossy(name.as_bytes()))?;
    }
    Ok(session)
}

fn compression(name: &str) -> Result<Option<CompressionType>> {
    match name.trim() {
        "" | "none" => Ok(None),
        "lz4" => Ok(Some(CompressionType::LZ4_FRAME)),
        "zstd" => Ok(Some(CompressionType::ZSTD)),
        other => Err(Error::invalid("unknown IPC compression")
            .with("header", COMPRESSION_HEADER)
            .with("expected", "lz4, zstd or none")
            .with("found", crate::error::shorten(other))),
    }
}

/// Stores the session in the client's cookie.
pub(super) fn remember(session: &Session, reply: &mut MetadataMap) {
    let remembered = Remembered {
        until: seconds() + KEPT_SECONDS,
        database: session.database.clone(),
        time_zone: Some(session.time_zone.name().to_owned()),
        levels: (session.levels != Levels::default()).then(|| session.levels.to_string()),
        tag_encoding: (session.tag_encoding != TagEncoding::default()).then(|| session.tag_encoding.to_string()),
        over: session.asked_database.clone(),
    };
    // Strings always serialize.
    let json = serde_json::to_vec(&remembered).unwrap_or_default();
    set(reply, "set-cookie", &format!("{COOKIE}={}; Max-Age={KEPT_SECONDS}", URL_SAFE_NO_PAD.encode(json)));
}

/// Removes the session from the client's cookies.
pub(super) fn forget(reply: &mut MetadataMap) {
    set(reply, "set-cookie", &format!("{COOKIE}=; Max-Age=0"));
}

/// Adds the headers of a write to the reply: its token, its row counts, and whether it was a replay.
pub(super) fn hand_out(outcome: &WriteOutcome, reply: &mut MetadataMap) {
    for (name, value) in outcome.reply().headers() {
        set(reply, name, &value);
    }
}

/// Adds the ID of a statement to the reply's headers.
pub(super) fn name(id: &str, reply: &mut MetadataMap) {
    set(reply, headers::QUERY, id);
}

fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn set(reply: &mut MetadataMap, name: &'static str, value: &str) {
    if let Ok(value) = value.parse() {
        reply.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The extensions of a call with authentication off.
    fn auth_off() -> Extensions {
        let mut extensions = Extensions::new();
        extensions.insert(Principal::AUTH_OFF);
        extensions
    }

    #[test]
    fn a_call_that_no_layer_has_authenticated_has_no_session() {
        let error = session_of(&MetadataMap::new(), &Extensions::new()).unwrap_err();
        assert_eq!(error.kind(), tidelake_format::Kind::Internal);
        assert!(error.message().contains("no authentication layer ran"), "{error}");
    }

    #[test]
    fn a_cookie_restores_the_session_and_headers_override_it() {
        let session = Session {
            database: Some("wörld".into()),
            time_zone: chrono_tz::Asia::Shanghai,
            levels: Levels::NONE,
            tag_encoding: TagEncoding::Dictionary,
            ..Session::of(Principal::AUTH_OFF)
        };
        let mut reply = MetadataMap::new();
        remember(&session, &mut reply);
        let cookie = reply.get("set-cookie").unwrap().to_str().unwrap().to_owned();
        let mut call = MetadataMap::new();
        call.insert("cookie", format!("a=b; {cookie}").parse().unwrap());
        let back = session_of(&call, &auth_off()).unwrap();
        assert_eq!((back.database.as_deref(), back.time_zone), (Some("wörld"), chrono_tz::Asia::Shanghai));
        assert_eq!((back.levels, back.tag_encoding), (Levels::NONE, TagEncoding::Dictionary));
        call.insert("tag-encoding", "text".parse().unwrap());
        call.insert("database", "other".parse().unwrap());
        call.insert("x-tidelake-token", "v3".parse().unwrap());
        let back = session_of(&call, &auth_off()).unwrap();
        assert_eq!((back.database.as_deref(), back.tokens.len()), (Some("other"), 1));
        assert_eq!(back.tag_encoding, TagEncoding::Text);
    }

    #[test]
    fn use_overrides_the_urls_database_until_the_url_changes() {
        let call = |asked: Option<&'static str>, cookie: Option<&str>| {
            let mut call = MetadataMap::new();
            asked.map(|database| call.insert("database", database.parse().unwrap()));
            cookie.map(|cookie| call.insert("cookie", cookie.parse().unwrap()));
            session_of(&call, &auth_off()).unwrap()
        };
        for url in [None, Some("home")] {
            let session = Session { database: Some("chosen".into()), ..call(url, None) };
            let mut reply = MetadataMap::new();
            remember(&session, &mut reply);
            let cookie = reply.get("set-cookie").unwrap().to_str().unwrap();
            assert_eq!(call(url, Some(cookie)).database.as_deref(), Some("chosen"), "{url:?}");
            assert_eq!(call(Some("new"), Some(cookie)).database.as_deref(), Some("new"), "{url:?}");
        }
        let mut reply = MetadataMap::new();
        remember(&Session { database: None, ..call(Some("home"), None) }, &mut reply);
        let cookie = reply.get("set-cookie").unwrap().to_str().unwrap();
        assert_eq!(call(Some("home"), Some(cookie)).database.as_deref(), Some("home"), "none was chosen");
    }

    #[test]
    fn an_unchanged_session_expires() {
        let database = |until| {
            let json = format!("{{\"until\":{until},\"database\":\"home\"}}");
            let mut call = MetadataMap::new();
            call.insert("cookie", format!("{COOKIE}={}", URL_SAFE_NO_PAD.encode(json)).parse().unwrap());
            session_of(&call, &auth_off()).unwrap().database
        };
        assert_eq!(database(seconds() + 60).as_deref(), Some("home"));
        assert_eq!(database(seconds() - 1), None);
    }

    #[test]
    fn an_invalid_cookie_is_ignored() {
        let mut call = MetadataMap::new();
        call.insert("cookie", "tidelake-session=!!!; x".parse().unwrap());
        assert_eq!(session_of(&call, &auth_off()).unwrap().database, None);
    }
}
