//! Converts literals to values of a column's type.

use std::borrow::Cow;

use chrono_tz::Tz;
use tidelake_format::types::{Precision, Type};
use tidelake_protocol::sql::Value;

use crate::decode::{
    builder::{Fault, Tag},
    time,
};

/// Context for reading times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    pub(crate) zone: Tz,
    pub(crate) precision: Precision,
    pub(crate) now_ns: i64,
}

/// Conversion of a parsed value to a column type.
pub(in crate::decode) trait Typed: Sized {
    /// Decodes a text for VARBINARY: `\x` and hexadecimal digits, or the text's own bytes.
    fn into_bytes(self, ty: Type) -> Result<Self, Fault>;

    /// Converts the value to type `ty`; `None` is null.
    ///
    /// A number may be quoted, a boolean may be a number, and a text column stores a number as written. A number such as `3.0`
    /// is also an integer.
    ///
    /// # Errors
    /// The fault: nothing is cut or wrapped, and only floats are rounded.
    fn typed(&self, sql: &str, ty: Type, clock: Clock) -> Result<Option<Tag<'_>>, Fault>;

    /// Converts the value to a time, in ticks of the database.
    fn ticks(&self, sql: &str, clock: Clock) -> Result<i64, Fault>;

    /// The value for a message, shortened.
    fn describe(&self) -> String;
}

impl Typed for Value<'_> {
    fn into_bytes(self, ty: Type) -> Result<Self, Fault> {
        let Value::Text(text) = self else { return Ok(self) };
        if !matches!(ty, Type::VarBinary(_)) {
            return Ok(Value::Text(text));
        }
        let Some(digits) = text.strip_prefix("\\x") else {
            return Ok(Value::Bytes(Cow::Owned(text.into_owned().into_bytes())));
        };
        if digits.len() % 2 == 1 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(Fault::Type);
        }
        let nibble = |b: u8| (b as char).to_digit(16).unwrap_or(0) as u8;
        Ok(Value::Bytes(digits.as_bytes().chunks(2).map(|pair| nibble(pair[0]) << 4 | nibble(pair[1])).collect()))
    }

    fn typed(&self, sql: &str, ty: Type, clock: Clock) -> Result<Option<Tag<'_>>, Fault> {
        Ok(Some(match (self, ty) {
            (Value::Null, _) => return Ok(None),
            (_, Type::Timestamp) => Tag::Int(self.ticks(sql, clock)?),
            (Value::Bool(v), Type::Bool) => Tag::Bool(*v),
            (Value::Number(number, _), Type::Bool) if number.integral => {
                Tag::Bool(number.integer(sql.as_bytes()) != Some(0))
            }
            (Value::Integer(v), Type::Bool) => Tag::Bool(*v != 0),
            (Value::Number(number, _), Type::Float) => {
                Tag::Float(number.float(sql.as_bytes()).filter(|v| v.is_finite()).ok_or(Fault::Range)?)
            }
            (Value::Number(number, _), Type::Double) => {
                Tag::Double(number.double(sql.as_bytes()).filter(|v| v.is_finite()).ok_or(Fault::Range)?)
            }
            (Value::Integer(v), Type::Float) => Tag::Float(*v as f32),
            (Value::Integer(v), Type::Double) => Tag::Double(*v as f64),
            (Value::Float(v), Type::Float) if (*v as f32).is_finite() => Tag::Float(*v as f32),
            (Value::Float(v), Type::Double) if v.is_finite() => Tag::Double(*v),
            (Value::Float(_), Type::Float | Type::Double) => return Err(Fault::Range),
            (Value::Number(_, text), Type::Binary(_) | Type::NChar(_)) => Tag::of_text(ty, text)?,
            (Value::Number(number, _), _) if number.integral => {
                Tag::of_int(ty, number.integer(sql.as_bytes()).ok_or(Fault::Range)?)?
            }
            (Value::Number(number, _), _) if ty.is_numeric() => {
                let value = number.double(sql.as_bytes()).ok_or(Fault::Range)?;
                Tag::of_int(ty, whole(value)?)?
            }
            (Value::Integer(v), _) => Tag::of_int(ty, *v)?,
            (Value::Float(v), _) if ty.is_numeric() => Tag::of_int(ty, whole(*v)?)?,
            (Value::Text(text), Type::Binary(_) | Type::NChar(_) | Type::Json) => Tag::of_text(ty, text)?,
            (Value::Text(text), _) => Tag::parse(ty, text.trim())?,
            (Value::Bytes(bytes), Type::VarBinary(_)) => Tag::Bytes(bytes),
            _ => return Err(Fault::Type),
        }))
    }

    fn ticks(&self, sql: &str, clock: Clock) -> Result<i64, Fault> {
        let Clock { zone, precision, now_ns } = clock;
        let from_nanos = |nanos: i128| time::ticks_of_nanos(nanos, precision).ok_or(Fault::Range);
        let from_ticks = |ticks: i128| {
            i64::try_from(ticks).ok().filter(|ticks| time::in_range(*ticks, precision)).ok_or(Fault::Range)
        };
        match self {
            Value::Number(number, _) if number.integral => {
                from_ticks(number.integer(sql.as_bytes()).ok_or(Fault::Range)?)
            }
            Value::Integer(ticks) => from_ticks(*ticks),
            Value::Shifted(ticks, shift) => {
                let tick = i128::from(time::nanos_per_tick(precision));
                from_nanos(ticks.checked_mul(tick).and_then(|n| n.checked_add(*shift)).ok_or(Fault::Range)?)
            }
            Value::Instant(nanos) => from_nanos(*nanos),
            Value::Now(shift) => from_nanos(i128::from(now_ns) + shift),
            Value::Today(shift) => {
                let today = time::today(now_ns, zone, precision).ok_or(Fault::Range)?;
                from_nanos(i128::from(today) * i128::from(time::nanos_per_tick(precision)) + shift)
            }
            Value::Text(text) => {
                let text = text.trim();
                if let Ok(ticks) = text.parse::<i64>() {
                    return from_ticks(ticks.into());
                }
                time::parse_timestamp(text, zone, precision)
            }
            _ => Err(Fault::Type),
        }
    }

    fn describe(&self) -> String {
        match self {
            Value::Null => "NULL".to_owned(),
            Value::Bool(v) => if *v { "TRUE" } else { "FALSE" }.to_owned(),
            Value::Number(_, text) => text.chars().take(64).collect(),
            Value::Integer(v) => v.to_string(),
            Value::Float(v) => v.to_string(),
            Value::Text(text) => time::quoted(text),
            Value::Bytes(bytes) => format!("{} bytes", bytes.len()),
            Value::Instant(nanos) => format!("a time of {nanos} ns"),
            Value::Shifted(ticks, shift) => format!("{ticks} plus {shift} ns"),
            Value::Parameter(_) => "?".to_owned(),
            Value::Now(shift) => format!("now plus {shift} ns"),
            Value::Today(shift) => format!("today plus {shift} ns"),
        }
    }
}

/// Converts a float without a fraction to an integer.
fn whole(value: f64) -> Result<i128, Fault> {
    // No integer type holds values beyond 2^63, and the cast below saturates far above them.
    if !value.is_finite() {
        return Err(Fault::Range);
    }
    if value.fract() == 0.0 { Ok(value as i128) } else { Err(Fault::Inexact) }
}
