//! Instants as text: RFC 3339, or date and time of the session's zone.

use chrono::{FixedOffset, NaiveDate, NaiveDateTime, NaiveTime};
use chrono_tz::Tz;

use crate::functions::grid::resolve_local;

/// The forms that [`parse_instant`] reads, for messages.
pub(crate) const FORMS: &str =
    "'2019-07-16 04:01:40.000', '2019-07-16T04:01:40Z', '2019-07-16T04:01:40+02:00' or '2019-07-16'";

/// Reads an instant in nanoseconds since the epoch; text without an offset is a clock time of `zone`.
pub(crate) fn parse_instant(text: &str, zone: Tz) -> Option<i128> {
    let text = text.trim();
    let (local, offset) = split_offset(text)?;
    let local = parse_local(local)?;
    let utc = match offset {
        Some(offset) => local.checked_sub_offset(offset)?,
        None => resolve_local(local, zone)?,
    };
    let utc = utc.and_utc();
    Some(i128::from(utc.timestamp()) * 1_000_000_000 + i128::from(utc.timestamp_subsec_nanos()))
}

/// Takes `Z`, `+hh:mm`, `+hhmm` or `+hh` off the end.
fn split_offset(text: &str) -> Option<(&str, Option<FixedOffset>)> {
    if let Some(local) = text.strip_suffix(['Z', 'z']) {
        return Some((local, FixedOffset::east_opt(0)));
    }
    // A sign before the time is part of the date.
    let Some(at) = text.rfind(['+', '-']).filter(|at| *at > 10) else { return Some((text, None)) };
    let sign = if text.as_bytes()[at] == b'-' { -1 } else { 1 };
    let digits: String = text[at + 1..].chars().filter(|c| *c != ':').collect();
    if !matches!(digits.len(), 2 | 4) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let hours: i32 = digits[..2].parse().ok()?;
    let minutes: i32 = if digits.len() == 4 { digits[2..].parse().ok()? } else { 0 };
    if minutes >= 60 {
        return None;
    }
    Some((&text[..at], Some(FixedOffset::east_opt(sign * (hours * 3600 + minutes * 60))?)))
}

fn parse_local(text: &str) -> Option<NaiveDateTime> {
    let text = text.trim_end();
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, time.trim_start()),
        None => (text, ""),
    };
    let date = NaiveDate::parse_from_str(date, "%Y-%m-%d").ok()?;
    if time.is_empty() {
        return Some(date.and_time(NaiveTime::MIN));
    }
    if time.split_once('.').is_some_and(|(_, fraction)| fraction.is_empty() || fraction.len() > 9) {
        return None;
    }
    let time =
        NaiveTime::parse_from_str(time, "%H:%M:%S%.f").or_else(|_| NaiveTime::parse_from_str(time, "%H:%M")).ok()?;
    Some(date.and_time(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i128 = 1_000_000_000;

    #[test]
    fn every_form_reads_as_the_same_instant() {
        let at = 1_563_249_700 * SECOND;
        for text in [
            "2019-07-16 04:01:40",
            "2019-07-16 04:01:40.0",
            "2019-07-16T04:01:40.000Z",
            "2019-07-16T06:01:40+02:00",
            "2019-07-16 06:01:40 +0200",
            "2019-07-16T01:01:40-03",
            " 2019-07-16 04:01:40 ",
        ] {
            assert_eq!(parse_instant(text, Tz::UTC), Some(at), "{text}");
        }
        assert_eq!(parse_instant("2019-07-16 06:01:40", chrono_tz::Europe::Berlin), Some(at));
        assert_eq!(parse_instant("2019-07-16", Tz::UTC), Some(1_563_235_200 * SECOND));
        assert_eq!(parse_instant("2019-07-16 04:01:40.000000001", Tz::UTC), Some(at + 1));
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "now",
            "2019",
            "2019-13-01",
            "2019-07-16 25:00",
            "2019-07-16T04:01:40+99",
            "2019-07-16 x",
            "16.7.2019",
            "2019-07-16 04:01:40.1234567890",
        ] {
            assert_eq!(parse_instant(text, Tz::UTC), None, "{text}");
        }
    }
}
