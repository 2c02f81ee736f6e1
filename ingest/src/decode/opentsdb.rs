//! OpenTSDB's `/api/put` JSON: `{"metric", "timestamp", "value", "tags"}`, one or an array of them.
//!
//! A metric is a supertable with one field, `value` (DOUBLE if the metric is new), and NCHAR tags. A timestamp of more than 32
//! bits is in milliseconds, else in seconds. An invalid point is rejected by itself, in OpenTSDB's words; only a body that is
//! not JSON, or has another shape, is refused as a whole.

mod point;

#[cfg(test)]
mod tests;

use tidelake_format::{
    Error, Result,
    ids::ColumnId,
    schema::{Database, Role},
    types::Type,
};

use super::{
    Decoded, Decoder, Lookup, Protocol, Rejected, Words,
    builder::{Fault, Tag},
    request::Request,
    time,
};
use point::{Body, Entry, Point, Value};

/// The field for the values of a metric.
pub const VALUE: &str = "value";

/// Larger timestamps are in milliseconds.
const LAST_SECOND: i64 = u32::MAX as i64;

/// OpenTSDB has no texts for these: its metrics have no fields, and it keeps all points.
const WORDS: Words = Words {
    table: "metric",
    bad_column: |metric, name, role| match role {
        Role::Tag => format!("Invalid tag: {name:?} of metric {metric:?} cannot be a tag"),
        _ => format!("Invalid metric: {metric:?} cannot have the field {name:?}"),
    },
    too_old: "The data point is older than the retention of its database",
};

/// Decoder of put bodies.
#[derive(Debug, Clone, Copy)]
pub struct Points;

impl Decoder for Points {
    const PROTOCOL: Protocol = Protocol::OpenTsdb;

    fn decode(&self, body: &[u8], lookup: &dyn Lookup, database: &Database, now: i64) -> Result<Decoded> {
        decode(body, lookup, database, now)
    }
}

/// Decodes the body of a put: one data point or an array of them. `now` is in ticks of the database and determines which points
/// are older than the retention.
///
/// The text of a [`Rejected`] is the point's JSON, for the reply's `details`.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) if the body is not JSON of that shape; an invalid point is in [`Decoded::rejected`]
/// instead.
pub fn decode(body: &[u8], lookup: &dyn Lookup, database: &Database, now: i64) -> Result<Decoded> {
    if body.trim_ascii().is_empty() {
        return Err(Error::invalid("Missing request content"));
    }
    let Body(entries) =
        serde_json::from_slice(body).map_err(|e| Error::invalid("Unable to parse the given JSON").with("reason", e))?;
    let mut request = Request::new(lookup, database, now, &WORDS);
    for (at, entry) in entries.iter().enumerate() {
        let stored = match entry {
            Entry::Point(point) => store(&mut request, point),
            Entry::Other(what) => Err(format!("Expected a data point, found {what}")),
        };
        match stored {
            Ok(()) => request.accepted += 1,
            Err(reason) => request.reject(1, || Rejected { line: at + 1, reason, text: entry.to_json() }),
        }
    }
    Ok(request.finish())
}

/// Stores one point in full, or nothing of it.
fn store(request: &mut Request<'_>, point: &Point<'_>) -> Result<(), String> {
    let metric = match &point.metric {
        Some(Value::Text(metric)) if !metric.is_empty() => metric,
        None | Some(Value::Null | Value::Text(_)) => return Err("Metric name was empty".to_owned()),
        Some(_) => return Err("Metric name was not a string".to_owned()),
    };
    let ts = point
        .timestamp
        .as_ref()
        .and_then(|ts| ticks(ts, request.database))
        .ok_or_else(|| "Invalid timestamp".to_owned())?;
    let number = match &point.value {
        None | Some(Value::Null) => return Err("Empty value".to_owned()),
        Some(Value::Text(text)) if text.is_empty() => return Err("Empty value".to_owned()),
        Some(value) => number(value).ok_or_else(|| "Unable to parse value to a number".to_owned())?,
    };
    if point.tags.is_empty() {
        return Err("Missing tags".to_owned());
    }
    let at = request.target(metric)?;
    request.check_kept(at, ts)?;
    let target = &mut request.targets[at];
    let mark = target.mark();
    let stored = target.field(VALUE, Type::Double).and_then(|field| {
        let (cell, row) = target.builder.cell(field);
        let ty = cell.ty();
        let set = match number {
            Parsed::Int(value) if ty.is_numeric() => cell.set_int(row, value),
            Parsed::UInt(value) if ty.is_numeric() => cell.set_uint(row, value),
            Parsed::Float(value) => match cell.set_float(row, value) {
                // An integer column accepts 40.0.
                Err(Fault::Type) if value.fract() == 0.0 && value.abs() < 9e18 => cell.set_int(row, value as i64),
                set => set,
            },
            Parsed::Int(_) | Parsed::UInt(_) => Err(Fault::Type),
        };
        set.map_err(|fault| format!("The value is {fault} for type {ty} of metric {metric:?}"))?;
        let mut tags: Vec<(ColumnId, Tag<'_>)> = Vec::with_capacity(point.tags.len());
        let texts = point.tags.iter().map(|(name, value)| (name, value.to_text()));
        let texts: Vec<_> = texts.collect();
        for (name, value) in &texts {
            let value = value.as_deref().filter(|text| !text.is_empty() && !name.is_empty());
            let value = value.ok_or_else(|| format!("Invalid tag: {name:?} has no value or no name"))?;
            let (id, ty) = target.column(name, Role::Tag, Type::NChar(None))?;
            if tags.iter().any(|(other, _)| *other == id) {
                return Err(format!("Duplicate tag: {name:?}"));
            }
            let tag = Tag::parse(ty, value)
                .map_err(|fault| format!("Invalid tag: {name:?} is {}, {fault} for type {ty}", time::quoted(value)))?;
            tags.push((id, tag));
        }
        Ok(target.series(&tags, &mut request.name))
    });
    match stored {
        Ok(series) => {
            request.end_row(at, series, ts);
            Ok(())
        }
        Err(reason) => {
            target.roll_back(mark);
            Err(reason)
        }
    }
}

/// A timestamp in ticks, or `None` if it is invalid or out of range.
fn ticks(value: &Value<'_>, database: &Database) -> Option<i64> {
    let value = match value {
        Value::Int(value) => *value,
        Value::Float(value) if value.fract() == 0.0 && value.abs() < 9e15 => *value as i64,
        Value::Text(text) if !text.starts_with('+') => text.parse().ok()?,
        _ => return None,
    };
    if value <= 0 {
        return None;
    }
    let nanos = i128::from(value) * if value > LAST_SECOND { 1_000_000 } else { 1_000_000_000 };
    time::ticks_of_nanos(nanos, database.precision)
}

/// A parsed value.
#[derive(Debug, Clone, Copy)]
enum Parsed {
    Int(i64),
    UInt(u64),
    Float(f64),
}

/// Reads a finite number, also from a text.
fn number(value: &Value<'_>) -> Option<Parsed> {
    match value {
        Value::Int(value) => Some(Parsed::Int(*value)),
        Value::UInt(value) => Some(Parsed::UInt(*value)),
        Value::Float(value) => value.is_finite().then_some(Parsed::Float(*value)),
        Value::Text(text) => {
            let text = text.trim();
            if let Ok(value) = text.parse() {
                return Some(Parsed::Int(value));
            }
            // Parsers accept "NaN" and "inf" as numbers, OpenTSDB does not.
            let value: f64 = fast_float2::parse(text).ok()?;
            value.is_finite().then_some(Parsed::Float(value))
        }
        Value::Null | Value::Bool(_) | Value::Other(_) => None,
    }
}
