//! Instants as text: RFC 3339 and local time of a zone.

use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone};
use chrono_tz::Tz;

/// Examples of texts that [`parse_instant`] accepts, for messages.
pub const FORMS: &str =
    "'2019-07-16 04:01:40.000', '2019-07-16T04:01:40Z', '2019-07-16T04:01:40+02:00' or '2019-07-16'";

/// Parses an instant, in nanoseconds since the epoch; `None` for any other text.
///
/// Forms: `2019-07-16T04:01:40.123456789+08:00` (also with a space, `Z`, `+0800`, `+08`, `+8` or no offset, no
/// fraction, no seconds) and `2019-07-16`. Second 60, a leap second of RFC 3339, is the first second of the next
/// minute. A text without offset is local time of `zone`, see [`to_instant`].
///
/// ```
/// use chrono_tz::Tz;
/// use tidelake_protocol::sql::parse_instant;
/// assert_eq!(parse_instant("1970-01-01T00:00:01.5Z", Tz::UTC), Some(1_500_000_000));
/// assert_eq!(parse_instant("1970-01-01 08:00:01", Tz::Asia__Shanghai), Some(1_000_000_000));
/// assert_eq!(parse_instant("yesterday", Tz::UTC), None);
/// ```
pub fn parse_instant(text: &str, zone: Tz) -> Option<i128> {
    let (local, offset) = parse_local(text.trim())?;
    match offset {
        None => to_instant(local, zone),
        Some(offset) => offset.from_local_datetime(&local).single().map(nanoseconds),
    }
}

/// Converts local time of a zone to an instant in nanoseconds since the epoch. An ambiguous time (clock put back) is
/// the earlier instant; a skipped time (clock put forward) is the instant as long after the jump as the time is after
/// its beginning. `None` at the ends of the calendar, about 262 000 years from now.
pub fn to_instant(local: NaiveDateTime, zone: Tz) -> Option<i128> {
    if let Some(instant) = zone.from_local_datetime(&local).earliest() {
        return Some(nanoseconds(instant));
    }
    // No clock skips more than a day, so the offset before the jump is that of the previous day.
    let before = zone.from_local_datetime(&local.checked_sub_signed(TimeDelta::days(1))?).latest()?;
    before.checked_add_signed(TimeDelta::days(1)).map(nanoseconds)
}

fn nanoseconds<Z: TimeZone>(instant: DateTime<Z>) -> i128 {
    i128::from(instant.timestamp()) * 1_000_000_000 + i128::from(instant.timestamp_subsec_nanos())
}

/// Parses date, time and offset; a missing time is midnight.
fn parse_local(text: &str) -> Option<(NaiveDateTime, Option<FixedOffset>)> {
    if !text.is_ascii() || text.len() < 8 {
        return None;
    }
    let (date, rest) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], text[at + 1..].trim_start()),
        None => (text, ""),
    };
    let mut parts = date.splitn(3, '-');
    let (year, month, day) = (number(parts.next()?, 4, 4)?, number(parts.next()?, 1, 2)?, number(parts.next()?, 1, 2)?);
    let date = NaiveDate::from_ymd_opt(year as i32, month, day)?;
    if rest.is_empty() {
        return (!text.ends_with(['T', 't'])).then_some((date.and_time(NaiveTime::MIN), None));
    }
    let (clock, offset) = match rest.find(['Z', 'z', '+', '-']) {
        Some(at) => (rest[..at].trim_end(), Some(parse_offset(&rest[at..])?)),
        None => (rest, None),
    };
    let (clock, nanos) = match clock.split_once('.') {
        Some((clock, fraction)) => (clock, parse_fraction(fraction)?),
        None => (clock, 0),
    };
    let mut parts = clock.splitn(3, ':');
    let (hour, minute) = (number(parts.next()?, 1, 2)?, number(parts.next()?, 1, 2)?);
    let second = parts.next().map_or(Some(0), |s| number(s, 1, 2))?;
    let (second, leap) = if second == 60 { (59, 1) } else { (second, 0) };
    let local = date.and_hms_nano_opt(hour, minute, second, nanos)?;
    Some((local.checked_add_signed(TimeDelta::seconds(leap))?, offset))
}

/// Parses one to nine digits of a fraction as nanoseconds.
fn parse_fraction(text: &str) -> Option<u32> {
    Some(number(text, 1, 9)? * 10_u32.pow(9 - text.len() as u32))
}

/// Parses `Z`, `+hh:mm`, `+hhmm`, `+hh` or `+h`.
fn parse_offset(text: &str) -> Option<FixedOffset> {
    if text.eq_ignore_ascii_case("z") {
        return FixedOffset::east_opt(0);
    }
    let (sign, digits) = text.split_at_checked(1)?;
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) => (number(hours, 1, 2)?, number(minutes, 2, 2)?),
        None if digits.len() == 4 => (number(&digits[..2], 2, 2)?, number(&digits[2..], 2, 2)?),
        None => (number(digits, 1, 2)?, 0),
    };
    if hours > 23 || minutes > 59 {
        return None;
    }
    let seconds = (hours * 3_600 + minutes * 60) as i32;
    FixedOffset::east_opt(if sign == "-" { -seconds } else { seconds })
}

/// Parses a number with `least` to `most` digits.
fn number(text: &str, least: usize, most: usize) -> Option<u32> {
    if !(least..=most).contains(&text.len()) || text.bytes().any(|b| !b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i128 = 1_000_000_000;

    #[test]
    fn every_form_is_the_same_instant() {
        let at = 1_563_249_700 * SECOND;
        for text in [
            "2019-07-16 04:01:40",
            "2019-7-16 4:1:40",
            "2019-07-16 04:01:40.0",
            "2019-07-16T04:01:40.000Z",
            "2019-07-16t04:01:40z",
            "2019-07-16T06:01:40+02:00",
            "2019-07-16 06:01:40 +0200",
            "2019-07-16T12:01:40+8",
            "2019-07-16T06:31:40.000000000+0230",
            "2019-07-16T01:01:40-03",
            " 2019-07-16 04:01:40 ",
        ] {
            assert_eq!(parse_instant(text, Tz::UTC), Some(at), "{text}");
        }
        assert_eq!(parse_instant("2019-07-16 06:01:40", Tz::Europe__Berlin), Some(at));
        assert_eq!(parse_instant("2019-07-16T04:01:40Z", Tz::Europe__Berlin), Some(at));
        assert_eq!(parse_instant("2019-07-16 04:01:40.000000001", Tz::UTC), Some(at + 1));
        assert_eq!(parse_instant("2019-07-16 04:01", Tz::UTC), Some(at - 40 * SECOND));
        assert_eq!(parse_instant("2019-07-16", Tz::UTC), Some(1_563_235_200 * SECOND));
        assert_eq!(parse_instant("2016-12-31T23:59:60.5Z", Tz::UTC), Some(1_483_228_800 * SECOND + SECOND / 2));
        assert_eq!(parse_instant("1969-12-31T23:59:59.999Z", Tz::UTC), Some(-1_000_000));
        assert_eq!(parse_instant("9999-12-31", Tz::UTC), Some(253_402_214_400 * SECOND));
    }

    #[test]
    fn a_time_that_the_clock_skips_is_as_long_after_the_jump_and_of_a_repeated_one_the_first_counts() {
        let new_york = |text| parse_instant(text, Tz::America__New_York).unwrap();
        let utc = |text| parse_instant(text, Tz::UTC).unwrap();
        assert_eq!(new_york("2024-03-10 02:30:00"), utc("2024-03-10 07:30:00"));
        assert_eq!(new_york("2024-11-03 01:30:00"), utc("2024-11-03 05:30:00"));
        // Apia had no 30 December 2011.
        assert_eq!(parse_instant("2011-12-30 12:00:00", Tz::Pacific__Apia), Some(utc("2011-12-30 22:00:00")));
    }

    #[test]
    fn other_text_is_refused() {
        for text in [
            "",
            "x",
            "now",
            "2019",
            "20190716",
            "16.7.2019",
            "2019-13-01",
            "2019-02-29",
            "2019-07-16T",
            "2019-07-16 x",
            "2019-07-16 25:00",
            "2019-07-16 12:01:61",
            "2019-07-16 12:01:40.",
            "2019-07-16 04:01:40.1234567890",
            "2019-07-16T04:01:40+99",
            "2019-07-16 12:01:40+24:00",
            "2019-07-16 12:01:40+00:60",
            "2019-07-16 12:01:40 foo",
            "2019-07-16 12:01:40Zx",
            "٢٠١٩-07-16",
        ] {
            assert_eq!(parse_instant(text, Tz::UTC), None, "{text}");
        }
    }
}
