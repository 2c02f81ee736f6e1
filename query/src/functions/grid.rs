//! Computes where windows start: fixed lengths from the epoch, days and months of a calendar.

use arrow::datatypes::TimeUnit;
use chrono::{DateTime, Datelike, Days, LocalResult, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, TimeZone};
use chrono_tz::Tz;
use tidelake_format::{Error, Result};
use tidelake_protocol::sql::{Duration, Unit};

use super::window::nanoseconds;

/// The windows of one width, offset, zone and time unit. Every instant is in exactly one window.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Grid {
    /// `[k·width + offset, (k+1)·width + offset)` in ticks.
    Fixed { width: i64, offset: i64 },
    /// Whole days of a zone, counted from 1970-01-01.
    Days { days: i64, offset: TimeDelta, zone: Tz, unit: TimeUnit },
    /// Whole months of a zone, counted from 1900-01.
    Months { months: i64, offset_months: i64, offset: TimeDelta, zone: Tz, unit: TimeUnit },
}

impl Grid {
    /// Parses the arguments of the window functions.
    ///
    /// # Errors
    /// Invalid, naming the wrong argument.
    pub(crate) fn parse(width: &str, offset: &str, zone: &str, unit: TimeUnit) -> Result<Self> {
        let zone: Tz =
            zone.parse().map_err(|_| Error::invalid("expected an IANA time zone such as 'UTC'").with("found", zone))?;
        Self::new(Duration::parse(width)?, Duration::parse(offset)?, zone, unit)
    }

    /// Creates windows of a width, shifted by an offset.
    ///
    /// # Errors
    /// Invalid if the width is 0, not a whole number of ticks or too long, or the offset is not shorter than the width.
    pub(crate) fn new(width: Duration, offset: Duration, zone: Tz, unit: TimeUnit) -> Result<Self> {
        if width.count == 0 {
            return Err(Error::invalid("window width must be more than 0").with("found", width));
        }
        let too_long = || Error::invalid("window width must be at most 1000 years").with("found", width);
        let offset_error = || {
            Error::invalid("window offset must be shorter than the window").with("found", offset).with("width", width)
        };
        const LONGEST: i128 = 1_000 * 366 * 86_400_000_000_000;
        if let Some(months) = width.months() {
            if months > 12_000 {
                return Err(too_long());
            }
            let offset_months = offset.months().unwrap_or(0);
            let nanos = offset.nanoseconds().unwrap_or(0);
            if offset_months >= months || nanos >= i128::from(months) * 28 * 86_400_000_000_000 {
                return Err(offset_error());
            }
            let offset = delta(nanos).ok_or_else(offset_error)?;
            return Ok(Self::Months {
                months: i64::from(months),
                offset_months: i64::from(offset_months),
                offset,
                zone,
                unit,
            });
        }
        let nanos = width.nanoseconds().filter(|n| *n <= LONGEST).ok_or_else(too_long)?;
        let shift = offset.nanoseconds().filter(|n| *n < nanos).ok_or_else(offset_error)?;
        if width.unit.is_calendar() && zone != Tz::UTC {
            let days = width.count.checked_mul(if width.unit == Unit::Week { 7 } else { 1 }).ok_or_else(too_long)?;
            return Ok(Self::Days { days, offset: delta(shift).ok_or_else(offset_error)?, zone, unit });
        }
        let tick = i128::from(nanoseconds(unit));
        for (what, duration, nanos) in [("width", width, nanos), ("offset", offset, shift)] {
            if nanos % tick != 0 {
                return Err(Error::invalid(format!("window {what} must be a whole number of the database's ticks"))
                    .with("found", duration)
                    .with("tick", format!("{tick} ns")));
            }
        }
        let ticks = |n: i128| i64::try_from(n / tick).map_err(|_| too_long());
        Ok(Self::Fixed { width: ticks(nanos)?, offset: ticks(shift)? })
    }

    /// Start and end of the window that contains an instant, in ticks; saturates at the ends of i64. `None` outside the
    /// calendar.
    pub(crate) fn window(&self, ts: i64) -> Option<(i64, i64)> {
        match self {
            Grid::Fixed { width, offset } => {
                if let Some(start) = ts.checked_sub(*offset).and_then(|t| ts.checked_sub(t.rem_euclid(*width)))
                    && let Some(end) = start.checked_add(*width)
                {
                    return Some((start, end));
                }
                let (ts, width, offset) = (i128::from(ts), i128::from(*width), i128::from(*offset));
                let start = (ts - offset).div_euclid(width) * width + offset;
                let clamp = |v: i128| v.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
                Some((clamp(start), clamp(start + width)))
            }
            Grid::Days { days, offset, zone, unit } => {
                let local = local(ts, *unit, *zone)?.checked_sub_signed(*offset)?;
                let day = i64::from(local.date().num_days_from_ce() - EPOCH_DAY);
                let boundary = |k: i64| {
                    let date = from_epoch_day(k.checked_mul(*days)?)?;
                    instant(date.and_time(NaiveTime::MIN).checked_add_signed(*offset)?, *unit, *zone)
                };
                settle(day.div_euclid(*days), ts, boundary)
            }
            Grid::Months { months, offset_months, offset, zone, unit } => {
                let local = local(ts, *unit, *zone)?.checked_sub_signed(*offset)?;
                let month = (i64::from(local.year()) - 1900) * 12 + i64::from(local.month0()) - offset_months;
                let boundary = |k: i64| {
                    let month = k.checked_mul(*months)?.checked_add(*offset_months)?;
                    let year = i32::try_from(month.div_euclid(12).checked_add(1900)?).ok()?;
                    let date = NaiveDate::from_ymd_opt(year, month.rem_euclid(12) as u32 + 1, 1)?;
                    instant(date.and_time(NaiveTime::MIN).checked_add_signed(*offset)?, *unit, *zone)
                };
                settle(month.div_euclid(*months), ts, boundary)
            }
        }
    }
}

/// Days from 0001-01-01 to 1970-01-01, in chrono's count.
const EPOCH_DAY: i32 = 719_163;

/// Window k, or a neighbour if clocks were put back across its boundary.
fn settle(mut k: i64, ts: i64, boundary: impl Fn(i64) -> Option<i64>) -> Option<(i64, i64)> {
    for _ in 0..4 {
        let (start, end) = (boundary(k)?, boundary(k.checked_add(1)?)?);
        if ts < start {
            k -= 1;
        } else if ts >= end && end != i64::MAX {
            k += 1;
        } else {
            return Some((start, end));
        }
    }
    None
}

fn delta(nanos: i128) -> Option<TimeDelta> {
    TimeDelta::new(i64::try_from(nanos / 1_000_000_000).ok()?, (nanos % 1_000_000_000) as u32)
}

fn from_epoch_day(day: i64) -> Option<NaiveDate> {
    let epoch = NaiveDate::from_ymd_opt(1970, 1, 1)?;
    let days = Days::new(day.unsigned_abs());
    if day < 0 { epoch.checked_sub_days(days) } else { epoch.checked_add_days(days) }
}

/// Local time of a zone at an instant in ticks; `None` outside chrono's calendar.
fn local(ts: i64, unit: TimeUnit, zone: Tz) -> Option<NaiveDateTime> {
    let per_second = 1_000_000_000 / nanoseconds(unit);
    let nanos = u32::try_from(ts.rem_euclid(per_second) * nanoseconds(unit)).ok()?;
    let utc = DateTime::from_timestamp(ts.div_euclid(per_second), nanos)?.naive_utc();
    // Zones are at most a day from UTC: keep the addition within chrono's range.
    utc.checked_add_days(Days::new(2))?;
    utc.checked_sub_days(Days::new(2))?;
    Some(zone.from_utc_datetime(&utc).naive_local())
}

/// Instant of a local time of a zone, in ticks: the earlier one if the local time occurs twice, the first instant after
/// it if it is skipped. Saturates at the first and last tick.
fn instant(local: NaiveDateTime, unit: TimeUnit, zone: Tz) -> Option<i64> {
    let utc = resolve_local(local, zone)?;
    let per_second = 1_000_000_000 / nanoseconds(unit);
    let ticks = i128::from(utc.and_utc().timestamp()) * i128::from(per_second)
        + i128::from(utc.and_utc().timestamp_subsec_nanos() / nanoseconds(unit) as u32);
    Some(ticks.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64)
}

/// UTC time of a local time; see [`instant`].
fn resolve_local(local: NaiveDateTime, zone: Tz) -> Option<NaiveDateTime> {
    local.checked_add_days(Days::new(2))?;
    local.checked_sub_days(Days::new(2))?;
    let mut probe = local;
    for _ in 0..=96 {
        match zone.from_local_datetime(&probe) {
            LocalResult::Single(t) | LocalResult::Ambiguous(t, _) => return Some(t.naive_utc()),
            LocalResult::None => probe = probe.checked_add_signed(TimeDelta::minutes(15))?,
        }
    }
    None
}
