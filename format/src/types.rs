//! Column types, time precision and single values.

use std::fmt;

use arrow::datatypes::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The unit of a database's timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
pub enum Precision {
    /// Milliseconds, TDengine's default.
    #[default]
    #[serde(rename = "ms")]
    Milli,
    /// Microseconds.
    #[serde(rename = "us")]
    Micro,
    /// Nanoseconds, InfluxDB's default.
    #[serde(rename = "ns")]
    Nano,
}

impl Precision {
    /// Ticks per second: 1_000, 1_000_000 or 1_000_000_000.
    pub fn per_second(self) -> i64 {
        match self {
            Precision::Milli => 1_000,
            Precision::Micro => 1_000_000,
            Precision::Nano => 1_000_000_000,
        }
    }

    /// The Arrow unit.
    pub fn unit(self) -> TimeUnit {
        match self {
            Precision::Milli => TimeUnit::Millisecond,
            Precision::Micro => TimeUnit::Microsecond,
            Precision::Nano => TimeUnit::Nanosecond,
        }
    }

    /// The Arrow type of a timestamp: this unit, no zone (an instant, UTC).
    pub fn data_type(self) -> DataType {
        DataType::Timestamp(self.unit(), None)
    }

    /// The precision of a timestamp of this Arrow type, in any zone; `None` for seconds and for other types.
    pub fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Timestamp(TimeUnit::Millisecond, _) => Some(Precision::Milli),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Some(Precision::Micro),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => Some(Precision::Nano),
            _ => None,
        }
    }

    /// `ms`, `us` or `ns`.
    pub fn as_str(self) -> &'static str {
        match self {
            Precision::Milli => "ms",
            Precision::Micro => "us",
            Precision::Nano => "ns",
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Precision {
    type Err = Error;

    fn from_str(s: &str) -> Result<Self> {
        match s.to_ascii_lowercase().as_str() {
            "ms" => Ok(Precision::Milli),
            "us" => Ok(Precision::Micro),
            "ns" => Ok(Precision::Nano),
            _ => Err(Error::invalid("invalid precision: expected 'ms', 'us' or 'ns'").with("found", s)),
        }
    }
}

/// The type of a column, in TDengine's terms.
///
/// A width `n` is a limit on values, checked when they are written: bytes for BINARY and VARBINARY, characters for
/// NCHAR. With `None` (columns created by line protocol) only [`Type::MAX_BYTES`] limits values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// true or false.
    Bool,
    /// 8-bit signed.
    TinyInt,
    /// 16-bit signed.
    SmallInt,
    /// 32-bit signed.
    Int,
    /// 64-bit signed.
    BigInt,
    /// 8-bit unsigned.
    UTinyInt,
    /// 16-bit unsigned.
    USmallInt,
    /// 32-bit unsigned.
    UInt,
    /// 64-bit unsigned.
    UBigInt,
    /// 32-bit IEEE 754.
    Float,
    /// 64-bit IEEE 754.
    Double,
    /// An instant in the database's precision.
    Timestamp,
    /// BINARY(n) = VARCHAR(n): UTF-8 text of at most n bytes.
    Binary(Option<u32>),
    /// NCHAR(n): UTF-8 text of at most n characters.
    NChar(Option<u32>),
    /// JSON text; tags only.
    Json,
    /// VARBINARY(n): at most n bytes.
    VarBinary(Option<u32>),
}

impl Type {
    /// Maximum length of a value of any type, in bytes.
    pub const MAX_BYTES: usize = 65_517;

    /// The Arrow type of this column in memory, in segments and in data files.
    pub fn data_type(self, precision: Precision) -> DataType {
        match self {
            Type::Bool => DataType::Boolean,
            Type::TinyInt => DataType::Int8,
            Type::SmallInt => DataType::Int16,
            Type::Int => DataType::Int32,
            Type::BigInt => DataType::Int64,
            Type::UTinyInt => DataType::UInt8,
            Type::USmallInt => DataType::UInt16,
            Type::UInt => DataType::UInt32,
            Type::UBigInt => DataType::UInt64,
            Type::Float => DataType::Float32,
            Type::Double => DataType::Float64,
            Type::Timestamp => precision.data_type(),
            Type::Binary(_) | Type::NChar(_) | Type::Json => DataType::Utf8,
            Type::VarBinary(_) => DataType::Binary,
        }
    }

    /// A column type with this Arrow type, texts without a width; `None` if no column type has it.
    pub fn of(data_type: &DataType) -> Option<Type> {
        Some(match data_type {
            DataType::Boolean => Type::Bool,
            DataType::Int8 => Type::TinyInt,
            DataType::Int16 => Type::SmallInt,
            DataType::Int32 => Type::Int,
            DataType::Int64 => Type::BigInt,
            DataType::UInt8 => Type::UTinyInt,
            DataType::UInt16 => Type::USmallInt,
            DataType::UInt32 => Type::UInt,
            DataType::UInt64 => Type::UBigInt,
            DataType::Float32 => Type::Float,
            DataType::Float64 => Type::Double,
            DataType::Timestamp(..) => Type::Timestamp,
            DataType::Utf8 => Type::Binary(None),
            DataType::Binary => Type::VarBinary(None),
            _ => return None,
        })
    }

    /// Whether sum, min, max and avg apply.
    pub fn is_numeric(self) -> bool {
        !matches!(
            self,
            Type::Bool | Type::Timestamp | Type::Binary(_) | Type::NChar(_) | Type::Json | Type::VarBinary(_)
        )
    }

    /// The name without a width, as TDengine prints it (`VARCHAR` for BINARY, `INT UNSIGNED`, …).
    pub fn name(self) -> &'static str {
        match self {
            Type::Bool => "BOOL",
            Type::TinyInt => "TINYINT",
            Type::SmallInt => "SMALLINT",
            Type::Int => "INT",
            Type::BigInt => "BIGINT",
            Type::UTinyInt => "TINYINT UNSIGNED",
            Type::USmallInt => "SMALLINT UNSIGNED",
            Type::UInt => "INT UNSIGNED",
            Type::UBigInt => "BIGINT UNSIGNED",
            Type::Float => "FLOAT",
            Type::Double => "DOUBLE",
            Type::Timestamp => "TIMESTAMP",
            Type::Binary(_) => "VARCHAR",
            Type::NChar(_) => "NCHAR",
            Type::Json => "JSON",
            Type::VarBinary(_) => "VARBINARY",
        }
    }

    /// The width in bytes (characters for NCHAR) that TDengine reports for this column.
    pub fn width(self) -> u32 {
        match self {
            Type::Bool | Type::TinyInt | Type::UTinyInt => 1,
            Type::SmallInt | Type::USmallInt => 2,
            Type::Int | Type::UInt | Type::Float => 4,
            Type::BigInt | Type::UBigInt | Type::Double | Type::Timestamp => 8,
            Type::Binary(n) | Type::NChar(n) | Type::VarBinary(n) => n.unwrap_or(Self::MAX_BYTES as u32),
            Type::Json => 4_095,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Binary(Some(n)) | Type::NChar(Some(n)) | Type::VarBinary(Some(n)) => {
                write!(f, "{}({n})", self.name())
            }
            _ => f.write_str(self.name()),
        }
    }
}

/// A single value: a tag of an override, a literal of a statement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scalar {
    /// BOOL.
    Bool(bool),
    /// Any signed integer, and TIMESTAMP in ticks of the database's precision.
    Int(i64),
    /// Any unsigned integer.
    UInt(u64),
    /// FLOAT and DOUBLE.
    Float(f64),
    /// BINARY, NCHAR and JSON.
    Text(String),
    /// VARBINARY.
    Bytes(Vec<u8>),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scalar::Bool(v) => v.fmt(f),
            Scalar::Int(v) => v.fmt(f),
            Scalar::UInt(v) => v.fmt(f),
            Scalar::Float(v) => v.fmt(f),
            Scalar::Text(v) => v.fmt(f),
            Scalar::Bytes(v) => {
                f.write_str("\\x")?;
                v.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_print_as_in_tdengine() {
        assert_eq!(Type::Binary(Some(16)).to_string(), "VARCHAR(16)");
        assert_eq!(Type::UInt.to_string(), "INT UNSIGNED");
        assert_eq!(Type::NChar(None).to_string(), "NCHAR");
    }
}
