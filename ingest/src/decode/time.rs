//! Timestamps: the range shared by all precisions, and literals.

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

/// The last valid nanosecond; the first is its negative. The range is InfluxDB's, and every reader of nanoseconds can represent
/// it: 1677-09-21 to 2262-04-11.
pub const MAX_NANOS: i64 = i64::MAX - 1;

/// Whether ticks of a precision are in the range of nanoseconds.
pub fn in_range(ticks: i64, precision: Precision) -> bool {
    let limit = MAX_NANOS / nanos_per_tick(precision);
    (-limit..=limit).contains(&ticks)
}

/// Nanoseconds in a tick: 1_000_000, 1_000 or 1.
pub fn nanos_per_tick(precision: Precision) -> i64 {
    1_000_000_000 / precision.per_second()
}

/// Nanoseconds as ticks, rounded towards the past; `None` if out of range.
pub fn ticks_of_nanos(nanos: i128, precision: Precision) -> Option<i64> {
    let ticks = i64::try_from(nanos.div_euclid(i128::from(nanos_per_tick(precision)))).ok()?;
    in_range(ticks, precision).then_some(ticks)
}

/// The oldest retained timestamp, in ticks, at the time `now` (in ticks); a KEEP beyond the range of ticks is unlimited.
pub fn oldest_kept(keep_ms: i64, precision: Precision, now: i64) -> i64 {
    let keep = keep_ms.checked_mul(precision.per_second() / 1_000).filter(|keep| *keep < i64::MAX);
    keep.and_then(|keep| now.checked_sub(keep)).unwrap_or(i64::MIN)
}

/// The seconds from 2010 to 2040: the likely range of timestamps that clients send.
const THIS_ERA: std::ops::Range<i64> = 1_262_304_000..2_208_988_800;

/// The unit, in nanoseconds, that a value given in a smaller unit seems to count: as written it is in early 1970, in that unit
/// it is between 2010 and 2040. Small numbers, and multiples of 10^6 seconds of the larger unit, are taken as intended 1970
/// times.
#[inline]
pub fn seems_to_count(value: i64, unit_nanos: i64) -> Option<i64> {
    if !(THIS_ERA.start..THIS_ERA.end * 1_000_000).contains(&value) {
        return None; // a small number, or nanoseconds of the present
    }
    // Units, and their number per second: no division until one of them fits.
    for (nanos, a_second) in [(1_000_000_000, 1), (1_000_000, 1_000), (1_000, 1_000_000)] {
        let is_now = (THIS_ERA.start * a_second..THIS_ERA.end * a_second).contains(&value);
        if is_now && nanos > unit_nanos && value % (1_000_000 * a_second) != 0 {
            return Some(nanos);
        }
    }
    None
}

/// Describes the doubt that a time is in the wrong unit; `None` if it is plausible.
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
        "implausible time {value}: {} in {}, the unit in effect, but {} in {}, the likely unit: send the right unit, or \
         the header {}: accept if the time is right",
        at(unit_nanos),
        name(unit_nanos),
        at(seems),
        name(seems),
        headers::IMPLAUSIBLE_TIMES
    )
}

/// Parses a timestamp text as [`parse_instant`] does, into ticks rounded towards the past.
///
/// # Errors
/// [`Fault::Type`] if the text is not an instant, [`Fault::Range`] if the time is out of range.
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
    fn a_text_without_offset_is_local_time_in_ticks() {
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
    fn texts_that_are_not_times_or_out_of_range_are_refused() {
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
    fn every_precision_has_the_range_of_nanoseconds() {
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
    fn times_in_the_wrong_unit_are_detected_but_small_or_round_ones_are_not() {
        let (ns, us, ms, s) = (1, 1_000, 1_000_000, 1_000_000_000);
        for (value, unit, expected) in [
            (1_767_254_401, ns, Some(s)),
            (1_767_254_401, us, Some(s)),
            (1_767_254_401, ms, Some(s)),
            (1_767_254_401_000, ns, Some(ms)),
            (1_767_254_401_000, us, Some(ms)),
            (1_767_254_401_000_000, ns, Some(us)),
            // Each value is plausible in its own unit.
            (1_767_254_401, s, None),
            (1_767_254_401_000, ms, None),
            (1_767_254_401_000_000, us, None),
            (1_767_254_401_000_000_000, ns, None),
            // Values that tests and people write when they mean 1970: counts, and whole seconds in a finer unit.
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
