//! The windows of an aggregation over time: their width, step and start.

use arrow::datatypes::TimeUnit;
use chrono_tz::Tz;
use tidelake_format::{Error, Result};
use tidelake_protocol::sql::Duration;

use crate::functions::{grid::Grid, window::nanoseconds};

/// Windows of one width. They overlap if the step is shorter than the width.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Windows {
    /// Length of a window, greater than 0.
    pub(crate) width: Duration,
    /// Shift of each window forward; shorter than the width.
    pub(crate) offset: Duration,
    /// Distance from the start of a window to the start of the next; at most the width.
    pub(crate) step: Duration,
    /// Time zone in which days and longer units start at midnight.
    pub(crate) zone: Tz,
}

impl Windows {
    /// Converts the windows to ticks of a time column.
    ///
    /// # Errors
    /// Invalid for a width, an offset or a step that [`Grid::new`] rejects. Unsupported for overlapping calendar
    /// windows.
    pub(in crate::plan) fn of_unit(&self, unit: TimeUnit) -> Result<Starts> {
        let grid = Grid::new(self.width, self.offset, self.zone, unit)?;
        let (width, offset) = match grid {
            Grid::Fixed { width, offset } => (width, offset),
            calendar if self.step == self.width => return Ok(Starts::Calendar { grid: calendar, unit }),
            _ => return Err(Error::unsupported("calendar windows cannot overlap").with("step", self.step)),
        };
        let step = match Grid::new(self.step, Duration::ZERO, self.zone, unit)? {
            Grid::Fixed { width: step, .. } => step,
            _ => width,
        };
        Ok(Starts::Fixed { width: width.into(), step: step.into(), offset: (offset % step).into() })
    }
}

/// The starts of windows, in ticks.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Starts {
    /// Every `step` ticks, at `offset` modulo `step`.
    Fixed { width: i128, step: i128, offset: i128 },
    /// At the starts of days, weeks, months or years.
    Calendar { grid: Grid, unit: TimeUnit },
}

impl Starts {
    /// Start of the first window that ends after an instant; `None` outside the calendar.
    pub(super) fn first(&self, instant: i64) -> Option<i128> {
        match self {
            Self::Fixed { width, step, offset } => {
                let before = i128::from(instant) - width - offset;
                Some(before.div_euclid(*step) * step + step + offset)
            }
            Self::Calendar { grid, .. } => grid.window(instant).map(|(start, _)| start.into()),
        }
    }

    /// Start of the window after the one that starts at `start`; `None` if it is beyond the last tick.
    pub(super) fn next(&self, start: i128) -> Option<i128> {
        let next = match self {
            Self::Fixed { step, .. } => start + step,
            Self::Calendar { grid, .. } => grid.window(i64::try_from(start).ok()?)?.1.into(),
        };
        (next > start && next <= i128::from(i64::MAX)).then_some(next)
    }

    /// Number of windows that start from `first` to `last`; an upper bound for calendar windows.
    pub(super) fn count(&self, first: i128, last: i128) -> i128 {
        let step = match self {
            Self::Fixed { step, .. } => *step,
            Self::Calendar { grid, unit } => {
                let days = match grid {
                    Grid::Days { days, .. } => *days,
                    Grid::Months { months, .. } => months.saturating_mul(28),
                    Grid::Fixed { .. } => 1,
                };
                // The shortest day has 23 hours.
                let day = 23 * 3_600_000_000_000 / i128::from(nanoseconds(*unit));
                i128::from(days) * day
            }
        };
        if last < first { 0 } else { (last - first) / step.max(1) + 1 }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn starts(width: &str, offset: &str, step: &str, zone: Tz) -> Starts {
        let [width, offset, step] = [width, offset, step].map(|text| Duration::parse(text).unwrap());
        Windows { width, offset, step, zone }.of_unit(TimeUnit::Millisecond).unwrap()
    }

    /// The starts of the windows that contain an instant from `from` to `to`, found by trying each tick.
    fn holding(width: i128, step: i128, offset: i128, from: i64, to: i64) -> Vec<i128> {
        let starts = (i128::from(from) - width..=i128::from(to)).filter(|s| (s - offset).rem_euclid(step) == 0);
        starts.filter(|s| s + width > i128::from(from)).collect()
    }

    #[test]
    fn windows_follow_each_other_from_the_first_that_holds_an_instant() {
        for (width, offset, step) in [(10, 0, 10), (10, 3, 10), (10, 0, 4), (10, 7, 3), (7, 5, 2), (1, 0, 1)] {
            let of = starts(&format!("{width}a"), &format!("{offset}a"), &format!("{step}a"), Tz::UTC);
            for from in -25..25 {
                let to = from + 30;
                let mut found = vec![of.first(from).unwrap()];
                while let Some(next) = of.next(*found.last().unwrap()).filter(|next| *next <= i128::from(to)) {
                    found.push(next);
                }
                let expected = holding(width, step, offset, from, to);
                assert_eq!(found, expected, "{width} {offset} {step} from {from}");
                assert_eq!(of.count(found[0], to.into()), expected.len() as i128);
            }
        }
    }

    #[test]
    fn windows_of_the_calendar_have_the_length_of_their_days_and_months() {
        let hour = 3_600_000;
        let of = starts("1d", "0a", "1d", Tz::Europe__Berlin);
        // Clocks were put forward on 2021-03-28.
        let start = of.first(1_616_900_000_000).unwrap();
        let next = of.next(start).unwrap();
        assert_eq!((next - start, of.next(next).unwrap() - next), (23 * hour, 24 * hour));
        let of = starts("1n", "0a", "1n", Tz::UTC);
        let january = of.first(0).unwrap();
        let february = of.next(january).unwrap();
        assert_eq!((january, february), (0, 31 * 24 * hour));
        assert_eq!(of.next(february).unwrap() - february, 28 * 24 * hour);
        assert!(of.count(0, february) >= 2);
    }

    #[test]
    fn windows_end_with_the_last_tick() {
        let of = starts("10a", "0a", "10a", Tz::UTC);
        let last = of.first(i64::MAX).unwrap();
        assert_eq!((last, of.next(last)), (9_223_372_036_854_775_800, None));
        let first = of.first(i64::MIN).unwrap();
        assert!(first <= i128::from(i64::MIN) && of.next(first).unwrap() > i128::from(i64::MIN));
    }
}
