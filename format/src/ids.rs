//! Identifiers. IDs of tables, columns, files and writers are never reused; names exist only in the chain.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Permanent ID of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DatabaseId(pub u32);

/// Permanent ID of a supertable: one dropped and created again under its name has a new ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TableId(pub u32);

/// Permanent ID of a column of one supertable; also the Parquet `field_id`. The time column always has
/// [`ColumnId::TS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ColumnId(pub u32);

impl ColumnId {
    /// The time column of every supertable.
    pub const TS: ColumnId = ColumnId(0);
    /// The `field_id` of the series name (`tbname`) in data files; no column of a supertable has it.
    pub const TBNAME: ColumnId = ColumnId(i32::MAX as u32);
}

/// Number of a version, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, Default)]
#[serde(transparent)]
pub struct Version(pub u64);

impl Version {
    /// The version that a commit on top of this version creates.
    pub fn next(self) -> Version {
        Version(self.0 + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}", self.0)
    }
}

macro_rules! random_hex_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u128);

        impl $name {
            /// Generates a random ID.
            pub fn random(rng: &mut impl rand::Rng) -> Self {
                Self(rng.random())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(s: &str) -> Result<Self> {
                let bad = || Error::invalid("invalid ID: expected 32 lower-case hexadecimal digits").with("found", s);
                if s.len() != 32 || s.bytes().any(|b| !matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
                    return Err(bad());
                }
                u128::from_str_radix(s, 16).map(Self).map_err(|_| bad())
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let s = std::borrow::Cow::<str>::deserialize(d)?;
                s.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

random_hex_id! {
    /// ID of a writer: a process (or one of its streams) that numbers its log segments 0, 1, 2, … without gaps.
    WriterId
}
random_hex_id! {
    /// ID of an object under `data/`: a data file, or a sidecar with its own ID.
    FileId
}

impl WriterId {
    /// Lower half of the ID of a bulk ingest's writer.
    const BULK: u64 = 0x62c1_7c5e_b01c_0de5;

    /// The ID of the writer of one bulk ingest. Readers see all of its segments or none.
    pub fn bulk(random: u64) -> Self {
        Self(u128::from(random) << 64 | u128::from(Self::BULK))
    }

    /// Whether this writer belongs to a bulk ingest.
    pub fn is_bulk(self) -> bool {
        self.0 & u128::from(u64::MAX) == u128::from(Self::BULK)
    }
}

/// Identifies a log segment, and so the acknowledged rows in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The writer of the segment.
    pub writer: WriterId,
    /// Number of the segment, from 0 without gaps.
    pub seq: u64,
}

impl Position {
    /// Base of the number of a bulk ingest's end segment, which is `END` plus the number of segments before it.
    pub const END: u64 = 1 << 63;

    /// The position of the writer's next segment, once this one is durable.
    #[must_use]
    pub fn next(self) -> Self {
        Self { seq: self.seq.saturating_add(1), ..self }
    }

    /// Whether this is a segment of a bulk ingest that counts only once the end segment exists.
    pub fn is_part(&self) -> bool {
        self.writer.is_bulk() && self.seq < Self::END
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.writer, self.seq)
    }
}

/// Consistency token in the reply to a write or a commit: a query that sends it sees that write, or fails.
///
/// As text, `v<version>` for a commit and `<writer>-<seq>` for a log segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Token {
    /// A commit.
    Version(Version),
    /// A log segment.
    Position(Position),
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Token::Version(v) => v.fmt(f),
            Token::Position(p) => p.fmt(f),
        }
    }
}

impl FromStr for Token {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        let bad = || Error::invalid("invalid token: expected 'v<version>' or '<writer>-<seq>'").with("found", s);
        if let Some(version) = s.strip_prefix('v') {
            return version.parse().map(|v| Token::Version(Version(v))).map_err(|_| bad());
        }
        let (writer, seq) = s.split_once('-').ok_or_else(bad)?;
        Ok(Token::Position(Position { writer: writer.parse()?, seq: seq.parse().map_err(|_| bad())? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_round_trip() {
        for token in [Token::Version(Version(7)), Token::Position(Position { writer: WriterId(0xabc), seq: u64::MAX })]
        {
            assert_eq!(token.to_string().parse::<Token>().unwrap(), token);
        }
        for bad in ["", "v", "vx", "7", "abc-1", "00000000000000000000000000000ABC-1"] {
            assert_eq!(bad.parse::<Token>().unwrap_err().kind(), crate::error::Kind::Invalid, "{bad}");
        }
    }
}
