//! Settings of a request besides its statement: database, time zone and tokens, from headers or parameters alike.

use chrono_tz::Tz;
use tidelake_format::{Error, Result};
use tidelake_protocol::http::headers;

use crate::{error::shorten, session::Session};

/// Applies headers to a session; `header` returns all values of a header, in order.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid), naming the wrong value.
pub(crate) fn apply_headers<'a, I>(session: &mut Session, mut header: impl FnMut(&str) -> I) -> Result<()>
where
    I: Iterator<Item = &'a str>,
{
    for name in headers::DATABASE {
        if let Some(database) = header(name).last().filter(|d| !d.is_empty()) {
            session.asked_database = Some(database.to_owned());
        }
    }
    session.database = session.asked_database.clone().or(session.database.take());
    if let Some(zone) = header(headers::TIME_ZONE).last() {
        session.time_zone = time_zone(zone)?;
    }
    if let Some(levels) = header(headers::AGGREGATE_LEVELS).last() {
        session.levels = levels.parse()?;
    }
    session.idempotency_key = header(headers::IDEMPOTENCY_KEY).last().map(str::to_owned);
    session.implausible_times = header(headers::IMPLAUSIBLE_TIMES).last().map(str::to_owned);
    for list in header(headers::TOKEN) {
        session.tokens.extend(headers::tokens(list)?);
    }
    Ok(())
}

/// Parses a time zone by its IANA name; empty means UTC.
pub(crate) fn time_zone(name: &str) -> Result<Tz> {
    match name.trim() {
        "" | "Z" => Ok(Tz::UTC),
        name => name.parse().map_err(|_| {
            Error::invalid("expected an IANA time zone such as 'Europe/Berlin'").with("found", shorten(name))
        }),
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
                headers::TIME_ZONE => vec!["Asia/Shanghai"],
                headers::AGGREGATE_LEVELS => vec!["rollups"],
                headers::TOKEN => vec!["v1, v2", "", "v3"],
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
        assert_eq!(shorten(&"ä".repeat(100)).chars().count(), 81);
    }
}
