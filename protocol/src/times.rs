//! The unit of clients' timestamps, and the handling of times that seem to be in another unit.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use tidelake_format::{Error, Result};

/// The unit of a request's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Default)]
pub enum LinePrecision {
    /// `n`, `ns` and the empty text.
    #[default]
    Nano,
    /// `u`, `us`, `µ`, `µs`.
    Micro,
    /// `ms`.
    Milli,
    /// `s`.
    Second,
    /// `m`.
    Minute,
    /// `h`.
    Hour,
}

impl LinePrecision {
    /// Nanoseconds in one unit.
    pub fn nanos(self) -> i64 {
        match self {
            LinePrecision::Nano => 1,
            LinePrecision::Micro => 1_000,
            LinePrecision::Milli => 1_000_000,
            LinePrecision::Second => 1_000_000_000,
            LinePrecision::Minute => 60_000_000_000,
            LinePrecision::Hour => 3_600_000_000_000,
        }
    }
}

impl FromStr for LinePrecision {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        Ok(match s {
            "" | "n" | "ns" => Self::Nano,
            // The micro sign and the Greek letter.
            "u" | "us" | "\u{b5}" | "\u{b5}s" | "\u{3bc}" | "\u{3bc}s" => Self::Micro,
            "ms" => Self::Milli,
            "s" => Self::Second,
            "m" => Self::Minute,
            "h" => Self::Hour,
            _ => {
                return Err(Error::invalid("invalid precision: expected n, ns, u, us, µ, ms, s, m or h")
                    .with("found", format!("{s:?}")));
            }
        })
    }
}

/// Handling of rows whose times seem to be in another unit than declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Implausible {
    /// The rows are refused.
    #[default]
    Refuse,
    /// The rows are stored, with a notice in the reply and a warning in the log.
    Warn,
    /// The rows are stored.
    Accept,
}

impl FromStr for Implausible {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "refuse" => Ok(Self::Refuse),
            "warn" => Ok(Self::Warn),
            "accept" => Ok(Self::Accept),
            _ => Err(Error::invalid("expected refuse, warn or accept").with("found", quoted(text))),
        }
    }
}

/// A text in quotes, shortened for a message.
pub fn quoted(text: &str) -> String {
    let mut short: String = text.chars().take(64).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    format!("'{short}'")
}
