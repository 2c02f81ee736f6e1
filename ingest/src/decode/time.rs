//! Timestamps: the range that every precision shares, and literals.

use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, TimeZone};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use tidelake_format::{Error, types::Precision};

use super::builder::Fault;

/// The last nanosecond that a timestamp may have; the first is its negative. InfluxDB has the same range, and every
/// reader that wants nanoseconds can show it: 1677-09-21 to 2262-04-11.
pub const MAX_NANOS: i64 = i64::MAX - 1;

/// Whether ticks of a precision lie in the range of nanoseconds.
pub fn in_range(ticks: i64, precision: Precision) -> bool {
    let limit = MAX_NANOS / nanos_per_tick(precision);
    (-limit..=limit).contains(&ticks)
}

/// Nanoseconds in a tick: 1_000_000, 1_000 or 1.
pub fn nanos_per_tick(precision: Precision) -> i64 {
    1_000_000_000 / precision.per_second()
}

/// Nanoseconds as ticks, towards the past; `None` out of range.
pub fn ticks_of_nanos(nanos: i128, precision: Precision) -> Option<i64> {
    let ticks = i64::try_from(nanos.div_euclid(i128::from(nanos_per_tick(precision)))).ok()?;
    in_range(ticks, precision).then_some(ticks)
}

/// The oldest timestamp that a database keeps, in ticks, when its clock shows `now` ticks; a KEEP beyond what ticks
/// can count is for ever.
pub fn oldest_kept(keep_ms: i64, precision: Precision, now: i64) -> i64 {
    let keep = keep_ms.checked_mul(precision.per_second() / 1_000).filter(|keep| *keep < i64::MAX);
    keep.and_then(|keep| now.checked_sub(keep)).unwrap_or(i64::MIN)
}

/// What is done with rows whose times were, as it seems, sent in another unit than they are read in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Implausible {
    /// They are refused.
    #[default]
    Refuse,
    /// They are stored, and the reply and the log say so.
    Warn,
    /// They are stored.
    Accept,
}

impl std::str::FromStr for Implausible {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "refuse" => Ok(Self::Refuse),
            "warn" => Ok(Self::Warn),
            "accept" => Ok(Self::Accept),
            _ => Err(Error::invalid("expected refuse, warn or accept").with("found", quoted(text))),
        }
    }
}

/// The seconds from 2010 to 2040: what is sent now, or was not long ago.
const THIS_ERA: std::ops::Range<i64> = 1_262_304_000..2_208_988_800;

/// The unit, in nanoseconds, that a number of smaller units since the epoch seems to count: what would be a time of early
/// 1970 is one of 2010 to 2040 in that unit. Small numbers, and multiples of 10^6 seconds of the larger unit, are what
/// people write who mean 1970.
#[inline]
pub fn seems_to_count(value: i64, unit_nanos: i64) -> Option<i64> {
    if !(THIS_ERA.start..THIS_ERA.end * 1_000_000).contains(&value) {
        return None; // a small number, or nanoseconds of now
    }
    // The units, and how many of each a second has: nothing is divided until one of them fits.
    for (nanos, a_second) in [(1_000_000_000, 1), (1_000_000, 1_000), (1_000, 1_000_000)] {
        let is_now = (THIS_ERA.start * a_second..THIS_ERA.end * a_second).contains(&value);
        if is_now && nanos > unit_nanos && value % (1_000_000 * a_second) != 0 {
            return Some(nanos);
        }
    }
    None
}

/// Says that a time seems to be in another unit; `None` where it does not.
#[inline]
pub fn doubt(value: i64, unit_nanos: i64) -> Option<String> {
    seems_to_count(value, unit_nanos).map(|seems| doubts(value, unit_nanos, seems))
}

#[cold]
fn doubts(value: i64, unit_nanos: i64, seems: i64) -> String {
    let at = |nanos: i64| {
        let time = DateTime::from_timestamp_nanos(value.saturating_mul(nanos));
        time.to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
    };
    let name = |nanos: i64| match nanos {
        1 => "ns",
        1_000 => "us",
        1_000_000 => "ms",
        _ => "s",
    };
    format!(
        "the time {value} is {} in {}, which it was read in, and {} in {}, which seems to be meant: send the right unit, or \
         the header {IMPLAUSIBLE_HEADER}: accept if it is right",
        at(unit_nanos),
        name(unit_nanos),
        at(seems),
        name(seems)
    )
}

/// The header of a request that says what is done with its implausible times: `refuse`, `warn` or `accept`.
pub const IMPLAUSIBLE_HEADER: &str = "x-tidelake-implausible-times";

/// Reads a timestamp written as text, in ticks towards the past.
///
/// `2019-07-16T04:01:40.123456789+08:00` (also with a space, `Z`, `+0800`, `+08` or no offset, no fraction, no
/// seconds) and `2019-07-16`. A text without an offset is local time in `zone`; where the clock was put back it is
/// the earlier of the two, and a time that the clock jumped over is the one after the jump.
///
/// # Errors
/// [`Fault::Type`] for any other text, [`Fault::Range`] for a time out of range.
pub fn parse_timestamp(text: &str, zone: Tz, precision: Precision) -> Result<i64, Fault> {
    let (local, offset) = parse_local(text.trim()).ok_or(Fault::Type)?;
    let nanos = match offset {
        None => nanos_of(local_to_instant(local, zone).ok_or(Fault::Range)?),
        Some(offset) => nanos_of(offset.from_local_datetime(&local).single().ok_or(Fault::Range)?),
    };
    ticks_of_nanos(nanos, precision).ok_or(Fault::Range)
}

/// The ticks of the last local midnight before `now_ns`.
pub fn today(now_ns: i64, zone: Tz, precision: Precision) -> Option<i64> {
    let local = zone.from_utc_datetime(&DateTime::from_timestamp_nanos(now_ns).naive_utc()).naive_local();
    let midnight = local.date().and_hms_opt(0, 0, 0)?;
    ticks_of_nanos(nanos_of(local_to_instant(midnight, zone)?), precision)
}

/// The nanoseconds of one unit of a TDengine duration: b u a s m h d w.
pub fn unit_nanos(unit: u8) -> Option<i64> {
    Some(match unit.to_ascii_lowercase() {
        b'b' => 1,
        b'u' => 1_000,
        b'a' => 1_000_000,
        b's' => 1_000_000_000,
        b'm' => 60_000_000_000,
        b'h' => 3_600_000_000_000,
        b'd' => 86_400_000_000_000,
        b'w' => 7 * 86_400_000_000_000,
        _ => return None,
    })
}

fn nanos_of<Z: TimeZone>(instant: DateTime<Z>) -> i128 {
    i128::from(instant.timestamp()) * 1_000_000_000 + i128::from(instant.timestamp_subsec_nanos())
}

fn local_to_instant(local: NaiveDateTime, zone: Tz) -> Option<DateTime<Tz>> {
    if let Some(instant) = zone.from_local_datetime(&local).earliest() {
        return Some(instant);
    }
    // The clock jumped over this time, by a day at most: read it with the offset from before the jump.
    let before = zone.from_local_datetime(&local.checked_sub_signed(chrono::TimeDelta::days(1))?).latest()?;
    before.checked_add_signed(chrono::TimeDelta::days(1))
}

/// Date, time and offset; a missing time is midnight.
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
        return (text.len() == 10 || !text.ends_with(['T', 't'])).then_some((date.and_hms_opt(0, 0, 0)?, None));
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
    Some((date.and_hms_nano_opt(hour, minute, second, nanos)?, offset))
}

fn parse_fraction(text: &str) -> Option<u32> {
    if text.is_empty() || text.len() > 9 {
        return None;
    }
    Some(number(text, 1, 9)? * 10_u32.pow(9 - text.len() as u32))
}

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

fn number(text: &str, min: usize, max: usize) -> Option<u32> {
    if text.len() < min || text.len() > max || text.bytes().any(|b| !b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// A text in quotes, cut to a length that fits a message.
pub(crate) fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(64).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("'{short}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> i64 {
        parse_timestamp(text, Tz::UTC, Precision::Milli).unwrap()
    }

    #[test]
    fn texts_are_local_unless_they_carry_an_offset() {
        let shanghai = Tz::Asia__Shanghai;
        for (text, ms) in [
            ("2019-07-16 12:01:40", 1_563_249_700_000),
            ("2019-07-16T12:01:40.5", 1_563_249_700_500),
            ("2019-07-16 04:01:40.000Z", 1_563_249_700_000),
            ("2019-07-16T04:01:40+00:00", 1_563_249_700_000),
            ("2019-07-16T06:31:40.123456789+0230", 1_563_249_700_123),
            ("2019-07-15T23:01:40-05", 1_563_249_700_000),
            ("2019-07-16 12:01", 1_563_249_660_000),
            ("2019-07-16", 1_563_206_400_000),
        ] {
            assert_eq!(parse_timestamp(text, shanghai, Precision::Milli).unwrap(), ms, "{text}");
        }
        assert_eq!(utc("1970-01-01"), 0);
        assert_eq!(utc("1969-12-31T23:59:59.999"), -1);
    }

    #[test]
    fn a_time_that_the_clock_jumped_over_is_the_one_after_and_a_repeated_one_the_first() {
        let new_york = |text| parse_timestamp(text, Tz::America__New_York, Precision::Milli).unwrap();
        assert_eq!(new_york("2024-03-10 02:30:00"), utc("2024-03-10 07:30:00"));
        assert_eq!(new_york("2024-11-03 01:30:00"), utc("2024-11-03 05:30:00"));
    }

    #[test]
    fn malformed_and_far_times_are_refused() {
        for text in [
            "",
            "x",
            "2019",
            "2019-13-01",
            "2019-02-29",
            "2019-07-16T",
            "2019-07-16 25:00:00",
            "2019-07-16 12:01:40.",
            "2019-07-16 12:01:40.1234567890",
            "2019-07-16 12:01:40+25:00",
            "2019-07-16 12:01:40 foo",
            "20190716",
            "1677-09-20",
            "2262-04-13",
            "9999-12-31 00:00:00",
            "2019-07-16 12:01:40Zx",
            "٢٠١٩-07-16",
        ] {
            assert!(parse_timestamp(text, Tz::UTC, Precision::Nano).is_err(), "{text}");
        }
    }

    #[test]
    fn the_range_is_that_of_nanoseconds_in_every_precision() {
        for (precision, limit) in [
            (Precision::Nano, 9_223_372_036_854_775_806),
            (Precision::Micro, 9_223_372_036_854_775),
            (Precision::Milli, 9_223_372_036_854),
        ] {
            assert!(in_range(limit, precision) && in_range(-limit, precision));
            assert!(!in_range(limit + 1, precision) && !in_range(-limit - 1, precision));
            assert!(!in_range(i64::MIN, precision) && !in_range(i64::MAX, precision));
        }
        assert_eq!(ticks_of_nanos(-1, Precision::Milli), Some(-1));
        assert_eq!(ticks_of_nanos(i128::MAX, Precision::Nano), None);
        assert_eq!(oldest_kept(i64::MAX, Precision::Nano, 0), i64::MIN);
        assert_eq!(oldest_kept(i64::MAX, Precision::Milli, 5), i64::MIN);
        assert_eq!(oldest_kept(1_000, Precision::Micro, 5), -999_995);
    }

    #[test]
    fn a_time_in_another_unit_than_it_seems_is_named_and_small_or_round_ones_are_not() {
        let (ns, us, ms, s) = (1, 1_000, 1_000_000, 1_000_000_000);
        for (value, unit, expected) in [
            (1_767_254_401, ns, Some(s)),
            (1_767_254_401, us, Some(s)),
            (1_767_254_401, ms, Some(s)),
            (1_767_254_401_000, ns, Some(ms)),
            (1_767_254_401_000, us, Some(ms)),
            (1_767_254_401_000_000, ns, Some(us)),
            // In its own unit each of them is right.
            (1_767_254_401, s, None),
            (1_767_254_401_000, ms, None),
            (1_767_254_401_000_000, us, None),
            (1_767_254_401_000_000_000, ns, None),
            // What tests and people write who mean 1970: counts, and whole seconds in a finer unit.
            (0, ns, None),
            (-1_767_254_401, ns, None),
            (1_000_000, ns, None),
            (2_000_000_000, ns, None),
            (1_500_000_000, ms, None),
            (3_000_000_000_000, ns, None),
            (1_199_145_600, ns, None),
            (i64::MAX, ns, None),
            (i64::MIN, ns, None),
        ] {
            assert_eq!(seems_to_count(value, unit), expected, "{value} of {unit} ns");
        }
        let told = doubt(1_767_254_401, ns).unwrap();
        for part in ["1767254401", "1970-01-01T00:00:01.767254401Z in ns", "2026-01-01T08:00:01Z in s", "accept"] {
            assert!(told.contains(part), "{told}");
        }
    }

    #[test]
    fn today_is_local_midnight() {
        let now = 1_563_249_700_000_000_000;
        assert_eq!(today(now, Tz::UTC, Precision::Milli), Some(utc("2019-07-16")));
        assert_eq!(today(now, Tz::America__New_York, Precision::Milli), Some(utc("2019-07-16 04:00:00")));
        assert_eq!(today(i64::MAX, Tz::UTC, Precision::Nano), Some(9_223_286_400_000_000_000));
    }
}
