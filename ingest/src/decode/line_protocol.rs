//! InfluxDB line protocol.

use tidelake_format::{Result, schema::Database};

use super::{Decoded, Lookup};

/// The unit of a request's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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

impl std::str::FromStr for LinePrecision {
    type Err = tidelake_format::Error;

    fn from_str(s: &str) -> Result<Self> {
        Ok(match s {
            "" | "n" | "ns" => Self::Nano,
            "u" | "us" | "µ" | "µs" | "μ" | "μs" => Self::Micro,
            "ms" => Self::Milli,
            "s" => Self::Second,
            "m" => Self::Minute,
            "h" => Self::Hour,
            _ => {
                return Err(tidelake_format::Error::invalid(
                    "invalid precision: expected n, ns, u, us, µ, ms, s, m or h",
                )
                .with("found", format!("{s:?}")));
            }
        })
    }
}

/// Decodes the body of a write. `now` is the time of lines without a timestamp, in ticks of the database.
pub fn decode(
    _body: &[u8],
    _lookup: &dyn Lookup,
    _database: &Database,
    _precision: LinePrecision,
    _now: i64,
) -> Decoded {
    Decoded::default()
}
