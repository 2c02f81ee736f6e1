//! What requests say beside their statement: database, time zone and tokens, the same in headers and parameters.

use chrono_tz::Tz;
use tidelake_format::{Error, Result, ids::Token};

use crate::session::Session;

/// The header, of requests and of replies, that holds tokens separated by commas.
///
/// A reply to a write carries its token here; a query that brings it back sees that write, or fails.
pub(crate) const TOKEN_HEADER: &str = "x-tidelake-token";
/// The request header that names a statement that writes, so that a copy of it is not written again.
pub(crate) const KEY_HEADER: &str = "idempotency-key";
/// The reply header that says `true` of such a copy.
pub(crate) const REPLAYED_HEADER: &str = "idempotency-replayed";
/// The reply header with the name of the statement: SHOW QUERIES lists it and KILL QUERY stops it.
pub(crate) const QUERY_HEADER: &str = "x-tidelake-query";
/// The reply header with remarks on a statement that was executed.
pub(crate) const NOTICE_HEADER: &str = "x-tidelake-notice";
/// The request header that says what is done with times that seem to be in another unit.
pub(crate) const IMPLAUSIBLE_HEADER: &str = "x-tidelake-implausible-times";
/// The headers that name the database of unqualified tables, weakest first.
pub(crate) const DATABASE_HEADERS: [&str; 2] = ["schema", "database"];
/// The header that says what may answer aggregates.
pub(crate) const LEVELS_HEADER: &str = "aggregate-levels";
/// The header that names the session's time zone.
pub(crate) const TIME_ZONE_HEADER: &str = "time-zone";

/// Applies what headers say to a session; `header` gives all values of one, in order.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) naming the value that is wrong.
pub(crate) fn apply_headers<'a, I>(session: &mut Session, mut header: impl FnMut(&str) -> I) -> Result<()>
where
    I: Iterator<Item = &'a str>,
{
    for name in DATABASE_HEADERS {
        if let Some(database) = header(name).last().filter(|d| !d.is_empty()) {
            session.asked_database = Some(database.to_owned());
        }
    }
    session.database = session.asked_database.clone().or(session.database.take());
    if let Some(zone) = header(TIME_ZONE_HEADER).last() {
        session.time_zone = time_zone(zone)?;
    }
    if let Some(levels) = header(LEVELS_HEADER).last() {
        session.levels = levels.parse()?;
    }
    session.idempotency_key = header(KEY_HEADER).last().map(str::to_owned);
    session.implausible_times = header(IMPLAUSIBLE_HEADER).last().map(str::to_owned);
    for list in header(TOKEN_HEADER) {
        session.tokens.extend(tokens(list)?);
    }
    Ok(())
}

/// Text as a header may hold it.
pub(crate) fn header_text(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' }).collect()
}

/// A time zone by its IANA name; empty means UTC.
pub(crate) fn time_zone(name: &str) -> Result<Tz> {
    match name.trim() {
        "" | "Z" => Ok(Tz::UTC),
        name => name.parse().map_err(|_| {
            Error::invalid("a time zone is an IANA name such as 'Europe/Berlin'").with("found", shorten(name))
        }),
    }
}

/// Tokens separated by commas.
pub(crate) fn tokens(list: &str) -> Result<Vec<Token>> {
    list.split(',').map(str::trim).filter(|t| !t.is_empty()).map(str::parse).collect()
}

/// At most 80 characters of text from outside, for a message.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use tidelake_format::access::Principal;

    use super::*;
    use crate::session::Levels;

    #[test]
    fn headers_set_database_zone_and_tokens() {
        let mut session = Session::of(Principal::AUTH_OFF);
        apply_headers(&mut session, |name| {
            match name {
                "schema" => vec!["weak"],
                "database" => vec!["w1"],
                TIME_ZONE_HEADER => vec!["Asia/Shanghai"],
                LEVELS_HEADER => vec!["rollups"],
                TOKEN_HEADER => vec!["v1, v2", "", "v3"],
                _ => vec![],
            }
            .into_iter()
        })
        .unwrap();
        assert_eq!(session.database.as_deref(), Some("w1"));
        assert_eq!(session.time_zone, Tz::Asia__Shanghai);
        assert_eq!(session.levels, Levels { rollups: true, ..Levels::NONE });
        assert_eq!(session.tokens.iter().map(|t| t.to_string()).collect::<Vec<_>>(), ["v1", "v2", "v3"]);
    }

    #[test]
    fn wrong_values_are_named() {
        assert_eq!(time_zone("Mars/Phobos").unwrap_err().context("found"), Some("Mars/Phobos"));
        assert!(tokens("v1,x").is_err());
        assert_eq!(shorten(&"ä".repeat(100)).chars().count(), 81);
    }
}
