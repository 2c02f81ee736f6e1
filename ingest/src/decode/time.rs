//! Timestamps: the range that every precision shares, and literals.

use chrono::{DateTime, NaiveTime, TimeZone};
use chrono_tz::Tz;
use tidelake_format::types::Precision;
pub use tidelake_protocol::times::Implausible;
pub(crate) use tidelake_protocol::times::quoted;
use tidelake_protocol::{
    http::headers,
    sql::{parse_instant, to_instant},
};

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
         the header {}: accept if it is right",
        at(unit_nanos),
        name(unit_nanos),
        at(seems),
        name(seems),
        headers::IMPLAUSIBLE_TIMES
    )
}

/// Reads a timestamp written as text, as [`parse_instant`] does, in ticks towards the past.
///
/// # Errors
/// [`Fault::Type`] for a text that is no instant, [`Fault::Range`] for a time out of range.
pub fn parse_timestamp(text: &str, zone: Tz, precision: Precision) -> Result<i64, Fault> {
    ticks_of_nanos(parse_instant(text, zone).ok_or(Fault::Type)?, precision).ok_or(Fault::Range)
}

/// The ticks of the last local midnight before `now_ns`.
pub fn today(now_ns: i64, zone: Tz, precision: Precision) -> Option<i64> {
    let local = zone.from_utc_datetime(&DateTime::from_timestamp_nanos(now_ns).naive_utc()).naive_local();
    ticks_of_nanos(to_instant(local.date().and_time(NaiveTime::MIN), zone)?, precision)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utc(text: &str) -> i64 {
        parse_timestamp(text, Tz::UTC, Precision::Milli).unwrap()
    }

    #[test]
    fn a_text_is_in_ticks_and_local_unless_it_has_an_offset() {
        let shanghai = Tz::Asia__Shanghai;
        for (text, ms) in [
            ("2019-07-16 12:01:40", 1_563_249_700_000),
            ("2019-07-16T06:31:40.123456789+0230", 1_563_249_700_123),
            ("1969-12-31T23:59:59.9999Z", -1),
        ] {
            assert_eq!(parse_timestamp(text, shanghai, Precision::Milli).unwrap(), ms, "{text}");
        }
    }

    #[test]
    fn a_text_that_is_no_time_and_one_that_no_precision_holds_are_refused() {
        for (text, fault) in [
            ("x", Fault::Type),
            ("2019-07-16T", Fault::Type),
            ("1677-09-20", Fault::Range),
            ("2262-04-13", Fault::Range),
            ("9999-12-31 00:00:00", Fault::Range),
        ] {
            let found = parse_timestamp(text, Tz::UTC, Precision::Nano).unwrap_err();
            assert_eq!(format!("{found:?}"), format!("{fault:?}"), "{text}");
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
