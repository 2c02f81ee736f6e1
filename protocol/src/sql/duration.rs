//! Durations in TDengine's notation: a whole number and a unit letter, `10s`, `1n`.

use std::fmt;

use tidelake_format::{Error, Result, types::Precision};

/// The unit letter of a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Unit {
    /// `b`
    Nanosecond,
    /// `u`
    Microsecond,
    /// `a`
    Millisecond,
    /// `s`
    Second,
    /// `m`
    Minute,
    /// `h`
    Hour,
    /// `d`: a calendar day.
    Day,
    /// `w`: seven days.
    Week,
    /// `n`: a calendar month.
    Month,
    /// `y`: twelve months.
    Year,
}

impl Unit {
    /// Parses a text of one letter, ignoring case.
    pub fn parse(text: &str) -> Option<Self> {
        let mut letters = text.chars();
        letters.next().filter(|_| letters.next().is_none()).and_then(Self::of)
    }

    /// The unit of a letter, ignoring case.
    pub fn of(letter: char) -> Option<Self> {
        Some(match letter.to_ascii_lowercase() {
            'b' => Unit::Nanosecond,
            'u' => Unit::Microsecond,
            'a' => Unit::Millisecond,
            's' => Unit::Second,
            'm' => Unit::Minute,
            'h' => Unit::Hour,
            'd' => Unit::Day,
            'w' => Unit::Week,
            'n' => Unit::Month,
            'y' => Unit::Year,
            _ => return None,
        })
    }

    /// The letter.
    pub fn letter(self) -> char {
        match self {
            Unit::Nanosecond => 'b',
            Unit::Microsecond => 'u',
            Unit::Millisecond => 'a',
            Unit::Second => 's',
            Unit::Minute => 'm',
            Unit::Hour => 'h',
            Unit::Day => 'd',
            Unit::Week => 'w',
            Unit::Month => 'n',
            Unit::Year => 'y',
        }
    }

    /// Length of the unit in nanoseconds, with a day as 24 hours; `None` for months and years.
    pub fn nanoseconds(self) -> Option<i64> {
        Some(match self {
            Unit::Nanosecond => 1,
            Unit::Microsecond => 1_000,
            Unit::Millisecond => 1_000_000,
            Unit::Second => 1_000_000_000,
            Unit::Minute => 60_000_000_000,
            Unit::Hour => 3_600_000_000_000,
            Unit::Day => 86_400_000_000_000,
            Unit::Week => 604_800_000_000_000,
            Unit::Month | Unit::Year => return None,
        })
    }

    /// Whether windows of this unit follow the calendar of a time zone.
    pub fn is_calendar(self) -> bool {
        matches!(self, Unit::Day | Unit::Week | Unit::Month | Unit::Year)
    }

    /// The unit's word in SQL's INTERVAL.
    fn word(self) -> &'static str {
        match self {
            Unit::Nanosecond => "nanosecond",
            Unit::Microsecond => "microsecond",
            Unit::Millisecond => "millisecond",
            Unit::Second => "second",
            Unit::Minute => "minute",
            Unit::Hour => "hour",
            Unit::Day => "day",
            Unit::Week => "week",
            Unit::Month => "month",
            Unit::Year => "year",
        }
    }
}

/// A non-negative duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Duration {
    /// Number of units, 0 ≤ count.
    pub count: i64,
    /// The unit.
    pub unit: Unit,
}

impl Duration {
    /// The empty duration.
    pub const ZERO: Self = Self { count: 0, unit: Unit::Millisecond };

    /// Parses a duration such as `10s`.
    ///
    /// # Errors
    /// Invalid unless the text is a whole number below 2^63 followed by one unit letter.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = || {
            Error::invalid("invalid duration: expected a whole number and one of the units b u a s m h d w n y")
                .with("found", text)
        };
        let split = text.char_indices().next_back().ok_or_else(bad)?.0;
        let unit = Unit::parse(&text[split..]).ok_or_else(bad)?;
        if !text[..split].bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let count = text[..split].parse().map_err(|_| bad())?;
        Ok(Self { count, unit })
    }

    /// Length in nanoseconds, with a day as 24 hours; `None` for months and years.
    pub fn nanoseconds(self) -> Option<i128> {
        self.unit.nanoseconds().map(|n| i128::from(n) * i128::from(self.count))
    }

    /// Exact length in ticks of a precision; `None` if it is not whole, does not fit, or is in months or years.
    pub fn ticks(self, precision: Precision) -> Option<i64> {
        let tick = i128::from(1_000_000_000 / precision.per_second());
        let nanoseconds = self.nanoseconds()?;
        if nanoseconds % tick != 0 { None } else { i64::try_from(nanoseconds / tick).ok() }
    }

    /// Number of months; `None` for units other than months and years, and beyond i32.
    pub fn months(self) -> Option<i32> {
        let months = match self.unit {
            Unit::Month => self.count,
            Unit::Year => self.count.checked_mul(12)?,
            _ => return None,
        };
        i32::try_from(months).ok()
    }

    /// The text between the quotes of SQL's `INTERVAL '…'`.
    pub fn interval_text(self) -> String {
        format!("{} {}", self.count, self.unit.word())
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.count, self.unit.letter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_reads_back_as_it_prints() {
        for text in ["1b", "2u", "10a", "3s", "1m", "24h", "7d", "1w", "5n", "2y"] {
            assert_eq!(Duration::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Duration::parse("1M").unwrap().unit, Unit::Minute);
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for text in ["", "m", "1", "1x", "-1m", "1.5h", "1 m", "99999999999999999999s", "1é", "é"] {
            assert!(Duration::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn ticks_are_exact_or_none() {
        assert_eq!(Duration::parse("1m").unwrap().ticks(Precision::Milli), Some(60_000));
        assert_eq!(Duration::parse("1u").unwrap().ticks(Precision::Milli), None);
        assert_eq!(Duration::parse("9223372036854775807h").unwrap().ticks(Precision::Nano), None);
        assert_eq!(Duration::parse("1n").unwrap().ticks(Precision::Milli), None);
    }
}
