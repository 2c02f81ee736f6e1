//! The shape of a query: its text with `?` in place of literals, plus the literals.
//!
//! All queries of one shape have the same plan, as long as each literal converts to its column's type without loss.

use arrow::datatypes::{DataType, TimeUnit};
use chrono_tz::Tz;
use datafusion::common::ScalarValue;
use tidelake_protocol::sql::parse_instant;

use crate::functions::window::nanoseconds;

/// A query's text with its literals extracted.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// The text with `?` for each literal.
    pub sql: String,
    pub(super) literals: Vec<Literal>,
}

/// A literal of a query.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    /// A number as written, with its sign.
    Number(String),
    Text(String),
}

impl Shape {
    /// The literals as values of these types; `None` where a conversion would lose information or change how the literal is
    /// compared.
    pub fn values(&self, types: &[DataType], zone: Tz) -> Option<Vec<ScalarValue>> {
        if types.len() != self.literals.len() {
            return None;
        }
        self.literals.iter().zip(types).map(|(literal, ty)| literal.value(ty, zone)).collect()
    }
}

impl Literal {
    fn value(&self, ty: &DataType, zone: Tz) -> Option<ScalarValue> {
        match (self, ty) {
            (Self::Text(text), DataType::Utf8) => Some(ScalarValue::Utf8(Some(text.clone()))),
            (Self::Text(text), DataType::Timestamp(unit, None)) => {
                let (nanos, tick) = (parse_instant(text, zone)?, i128::from(nanoseconds(*unit)));
                let ticks = i64::try_from(nanos.div_euclid(tick)).ok().filter(|_| nanos.rem_euclid(tick) == 0)?;
                instant(ticks, *unit)
            }
            (Self::Number(digits), DataType::Timestamp(unit, None)) => instant(digits.parse().ok()?, *unit),
            (Self::Number(digits), ty) if ty.is_integer() => {
                let value = ScalarValue::Int64(Some(digits.parse().ok()?));
                value.cast_to(ty).ok().filter(|v| !v.is_null())
            }
            (Self::Number(digits), DataType::Float64) => float(digits).map(|v| ScalarValue::Float64(Some(v))),
            (Self::Number(digits), DataType::Float32) => {
                let value = float(digits)?;
                let narrow = value as f32;
                (f64::from(narrow) == value).then_some(ScalarValue::Float32(Some(narrow)))
            }
            _ => None,
        }
    }
}

/// Parses a number that is compared with a float; an integer only where a float represents it exactly.
fn float(digits: &str) -> Option<f64> {
    match digits.parse::<i64>() {
        Ok(whole) if whole.unsigned_abs() <= 1 << 53 => Some(whole as f64),
        Ok(_) => None,
        Err(_) if digits.contains(['.', 'e', 'E']) => digits.parse().ok().filter(|v: &f64| v.is_finite()),
        Err(_) => None,
    }
}

fn instant(ticks: i64, unit: TimeUnit) -> Option<ScalarValue> {
    ScalarValue::Int64(Some(ticks)).cast_to(&DataType::Timestamp(unit, None)).ok()
}
