//! Prints values of wire columns as JSON and CSV: one printer per column and batch.

use std::{io::Write, sync::LazyLock};

use arrow::{
    array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, StringArray, TimestampNanosecondArray},
    datatypes::{
        DataType, Field, FieldRef, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
        TimestampNanosecondType,
    },
    json::writer::{EncoderOptions, NullableEncoder, make_encoder},
    util::display::{ArrayFormatter, FormatOptions},
};
use chrono::{DateTime, Datelike, NaiveDate, Offset, TimeZone};
use chrono_tz::Tz;
use tidelake_format::Result;

use crate::wire::PRECISION;

static NESTED: LazyLock<EncoderOptions> = LazyLock::new(|| EncoderOptions::default().with_explicit_nulls(true));
static DISPLAY: LazyLock<FormatOptions<'static>> = LazyLock::new(FormatOptions::default);

/// Prints the values of one column of a batch.
pub(super) struct Column<'a> {
    array: &'a dyn Array,
    values: Values<'a>,
}

enum Values<'a> {
    Null,
    Bool(&'a BooleanArray),
    Int8(&'a [i8]),
    Int16(&'a [i16]),
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Text(&'a StringArray),
    Bytes(&'a BinaryArray),
    Time(&'a TimestampNanosecondArray, Clock),
    /// Lists, structs and maps, printed as JSON.
    Nested(NullableEncoder<'a>),
    /// Decimals, dates, times and intervals, in Arrow's format.
    Other(ArrayFormatter<'a>),
}

impl<'a> Column<'a> {
    /// Creates the printer of a column. Timestamps are printed in `zone`, with the fraction digits of the field's precision.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) for a type that cannot be printed.
    pub(super) fn new(array: &'a ArrayRef, field: &'a FieldRef, zone: Tz) -> Result<Self> {
        let values = match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Bool(array.as_boolean()),
            DataType::Int8 => Values::Int8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => Values::Int16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Values::Int32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Values::Int64(array.as_primitive::<Int64Type>().values()),
            DataType::Float32 => Values::Float32(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Values::Float64(array.as_primitive::<Float64Type>().values()),
            DataType::Utf8 => Values::Text(array.as_string()),
            DataType::Binary => Values::Bytes(array.as_binary()),
            DataType::Timestamp(TimeUnit::Nanosecond, None) => {
                Values::Time(array.as_primitive::<TimestampNanosecondType>(), Clock::new(zone, digits_of(field)))
            }
            nested if nested.is_nested() => Values::Nested(make_encoder(field, array, &NESTED)?),
            _ => Values::Other(ArrayFormatter::try_new(array, &DISPLAY)?),
        };
        Ok(Self { array: array.as_ref(), values })
    }

    /// Appends the value as JSON: 64-bit integers as numbers, NaN and infinities as null, instants as RFC 3339, bytes as
    /// hexadecimal digits, decimals, dates and times as text.
    pub(super) fn json(&mut self, row: usize, out: &mut Vec<u8>) {
        if self.array.is_null(row) {
            out.extend_from_slice(b"null");
            return;
        }
        match &mut self.values {
            Values::Null => out.extend_from_slice(b"null"),
            Values::Float32(v) if !v[row].is_finite() => out.extend_from_slice(b"null"),
            Values::Float64(v) if !v[row].is_finite() => out.extend_from_slice(b"null"),
            Values::Text(v) => json_text(v.value(row), out),
            Values::Bytes(_) | Values::Time(_, _) => {
                out.push(b'"');
                self.plain(row, out);
                out.push(b'"');
            }
            Values::Other(v) => json_text(&v.value(row).to_string(), out),
            _ => self.plain(row, out),
        }
    }

    /// Appends the value as a CSV cell: nothing for null, `""` for an empty text, quoted where necessary.
    pub(super) fn csv(&mut self, row: usize, out: &mut Vec<u8>) {
        if self.array.is_null(row) {
            return;
        }
        match &mut self.values {
            Values::Text(v) => csv_text(v.value(row).as_bytes(), out),
            Values::Nested(_) | Values::Other(_) => {
                let mut cell = Vec::new();
                self.plain(row, &mut cell);
                csv_text(&cell, out);
            }
            _ => self.plain(row, out),
        }
    }

    /// Appends the value of a valid row without quoting.
    fn plain(&mut self, row: usize, out: &mut Vec<u8>) {
        // Writing to memory cannot fail.
        let _ = match &mut self.values {
            Values::Null => Ok(()),
            Values::Bool(v) => write!(out, "{}", v.value(row)),
            Values::Int8(v) => write!(out, "{}", v[row]),
            Values::Int16(v) => write!(out, "{}", v[row]),
            Values::Int32(v) => write!(out, "{}", v[row]),
            Values::Int64(v) => write!(out, "{}", v[row]),
            Values::Float32(v) if v[row].is_finite() => {
                serde_json::to_writer(out, &v[row]).map_err(std::io::Error::other)
            }
            Values::Float64(v) if v[row].is_finite() => {
                serde_json::to_writer(out, &v[row]).map_err(std::io::Error::other)
            }
            Values::Float32(v) => write!(out, "{}", v[row]),
            Values::Float64(v) => write!(out, "{}", v[row]),
            Values::Text(v) => out.write_all(v.value(row).as_bytes()),
            Values::Bytes(v) => v.value(row).iter().try_for_each(|b| write!(out, "{b:02x}")),
            Values::Time(v, clock) => {
                clock.write(v.value(row), out);
                Ok(())
            }
            Values::Nested(v) => {
                v.encode(row, out);
                Ok(())
            }
            Values::Other(v) => write!(out, "{}", v.value(row)),
        };
    }
}

/// Appends a text as a JSON string.
pub(super) fn json_text(text: &str, out: &mut Vec<u8>) {
    // Serializing text to memory cannot fail.
    let _ = serde_json::to_writer(out, text);
}

/// Appends a text as a CSV cell.
pub(super) fn csv_text(text: &[u8], out: &mut Vec<u8>) {
    if !text.is_empty() && !text.iter().any(|b| matches!(b, b',' | b'"' | b'\n' | b'\r')) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for &byte in text {
        if byte == b'"' {
            out.push(b'"');
        }
        out.push(byte);
    }
    out.push(b'"');
}

fn digits_of(field: &Field) -> usize {
    field.metadata().get(PRECISION).and_then(|p| p.parse().ok()).filter(|p| *p <= 9).unwrap_or(9)
}

/// Prints instants as RFC 3339 in a zone. Caches the last date, as neighbouring values often share it.
struct Clock {
    zone: Tz,
    digits: usize,
    day: Option<i64>,
    date: String,
}

impl Clock {
    fn new(zone: Tz, digits: usize) -> Self {
        Self { zone, digits, day: None, date: String::new() }
    }

    fn write(&mut self, ns: i64, out: &mut Vec<u8>) {
        let (seconds, fraction) = (ns.div_euclid(1_000_000_000), ns.rem_euclid(1_000_000_000));
        // RFC 3339 offsets are whole minutes, but historical local mean times have seconds. The local time is printed with the
        // truncated offset, so the instant stays exact.
        let offset = match self.zone {
            Tz::UTC => 0,
            zone => DateTime::from_timestamp(seconds, 0).map_or(0, |instant| {
                i64::from(zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc()) / 60
            }),
        };
        let local = seconds + offset * 60;
        let (day, second) = (local.div_euclid(86_400), local.rem_euclid(86_400));
        if self.day != Some(day) {
            self.day = Some(day);
            let date = DateTime::from_timestamp(day * 86_400, 0).map_or(NaiveDate::default(), |d| d.date_naive());
            self.date = format!("{:04}-{:02}-{:02}T", date.year(), date.month(), date.day());
        }
        out.extend_from_slice(self.date.as_bytes());
        let two = |n: i64| [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        out.extend_from_slice(&two(second / 3_600));
        out.push(b':');
        out.extend_from_slice(&two(second / 60 % 60));
        out.push(b':');
        out.extend_from_slice(&two(second % 60));
        if self.digits > 0 {
            out.push(b'.');
            let mut unit = 100_000_000;
            for _ in 0..self.digits {
                out.push(b'0' + (fraction / unit % 10) as u8);
                unit /= 10;
            }
        }
        if self.zone == Tz::UTC {
            out.push(b'Z');
            return;
        }
        out.push(if offset < 0 { b'-' } else { b'+' });
        out.extend_from_slice(&two(offset.abs() / 60));
        out.push(b':');
        out.extend_from_slice(&two(offset.abs() % 60));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Float64Array, Int64Array, ListArray, NullArray};
    use chrono::SecondsFormat;

    use super::*;

    fn printed(array: ArrayRef, row: usize) -> (String, String) {
        let field = Arc::new(Field::new("c", array.data_type().clone(), true));
        let mut column = Column::new(&array, &field, Tz::UTC).unwrap();
        let (mut json, mut csv) = (Vec::new(), Vec::new());
        column.json(row, &mut json);
        column.csv(row, &mut csv);
        (String::from_utf8(json).unwrap(), String::from_utf8(csv).unwrap())
    }

    fn pair(json: &str, csv: &str) -> (String, String) {
        (json.to_owned(), csv.to_owned())
    }

    #[test]
    fn values_print_as_json_and_csv() {
        assert_eq!(
            printed(Arc::new(Int64Array::from(vec![i64::MIN])), 0),
            pair("-9223372036854775808", "-9223372036854775808")
        );
        assert_eq!(printed(Arc::new(Int64Array::from(vec![None])), 0), pair("null", ""));
        assert_eq!(printed(Arc::new(NullArray::new(1)), 0), pair("null", ""));
        assert_eq!(printed(Arc::new(Float64Array::from(vec![1e300])), 0), pair("1e+300", "1e+300"));
        assert_eq!(printed(Arc::new(Float64Array::from(vec![20.0])), 0), pair("20.0", "20.0"));
        assert_eq!(printed(Arc::new(Float64Array::from(vec![f64::NAN])), 0), pair("null", "NaN"));
        assert_eq!(printed(Arc::new(StringArray::from(vec!["a\"b,\n"])), 0), pair(r#""a\"b,\n""#, "\"a\"\"b,\n\""));
        assert_eq!(printed(Arc::new(StringArray::from(vec![""])), 0), pair("\"\"", "\"\""));
        assert_eq!(printed(Arc::new(BinaryArray::from_vec(vec![b"\x01\xff"])), 0), pair("\"01ff\"", "01ff"));
        assert_eq!(printed(Arc::new(BooleanArray::from(vec![true])), 0), pair("true", "true"));
        let decimal = Decimal128Array::from(vec![i128::from(u64::MAX)]).with_precision_and_scale(20, 0).unwrap();
        assert_eq!(printed(Arc::new(decimal), 0), pair("\"18446744073709551615\"", "18446744073709551615"));
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), None])]);
        assert_eq!(printed(Arc::new(list), 0), pair("[1,null]", "\"[1,null]\""));
    }

    #[test]
    fn instants_print_as_chrono_prints_them() {
        let zones = [Tz::UTC, Tz::Asia__Shanghai, Tz::America__St_Johns, Tz::Europe__Berlin];
        let instants = [
            0,
            1_563_249_700_123_456_789,
            -1,
            i64::MIN,
            i64::MAX,
            1_711_846_799_999_999_999,
            1_711_846_800_000_000_000,
        ];
        for zone in zones {
            for ns in instants {
                for (digits, format) in
                    [(9, SecondsFormat::Nanos), (3, SecondsFormat::Millis), (0, SecondsFormat::Secs)]
                {
                    let expected = DateTime::from_timestamp_nanos(ns).with_timezone(&zone);
                    if expected.offset().fix().local_minus_utc() % 60 != 0 {
                        continue; // chrono rounds such an offset away from the instant
                    }
                    let mut out = Vec::new();
                    let mut clock = Clock::new(zone, digits);
                    clock.write(ns ^ 0x7fff_ffff_ffff, &mut Vec::new());
                    clock.write(ns, &mut out);
                    let expected = expected.to_rfc3339_opts(format, zone == Tz::UTC);
                    assert_eq!(String::from_utf8(out).unwrap(), expected);
                }
            }
        }
    }
}
