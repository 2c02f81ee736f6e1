//! The series of one block, and canonical series names.

use std::{
    fmt::Write as _,
    hash::{BuildHasher, Hash},
    sync::Arc,
};

use arrow::{
    array::{ArrayRef, StringArray},
    buffer::{Buffer, OffsetBuffer, ScalarBuffer},
    datatypes::FieldRef,
};
use hashbrown::{DefaultHashBuilder, HashTable};
use tidelake_format::{
    Error, Result,
    rows::SeriesSet,
    schema::Column,
    types::{Precision, Scalar, Type},
};

use super::{
    column::{Fault, FieldColumn, check_width},
    series_set,
};

/// The value of a tag, in its column's type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tag<'a> {
    /// BOOL.
    Bool(bool),
    /// Any signed integer, and TIMESTAMP in ticks.
    Int(i64),
    /// Any unsigned integer.
    UInt(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// BINARY, NCHAR and JSON.
    Text(&'a str),
    /// VARBINARY.
    Bytes(&'a [u8]),
}

impl<'a> Tag<'a> {
    /// Parses the text of a tag as its column's type: `1` is a number in a numeric column.
    ///
    /// # Errors
    /// [`Fault::Type`] if the text is not a value of the type, [`Fault::Range`] or [`Fault::Width`] if the value is outside its
    /// limits. A JSON tag must be valid JSON; NaN and infinities are not accepted.
    pub fn parse(ty: Type, text: &'a str) -> Result<Self, Fault> {
        match ty {
            Type::Bool => match text {
                _ if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("t") || text == "1" => {
                    Ok(Tag::Bool(true))
                }
                _ if text.eq_ignore_ascii_case("false") || text.eq_ignore_ascii_case("f") || text == "0" => {
                    Ok(Tag::Bool(false))
                }
                _ => Err(Fault::Type),
            },
            Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt | Type::Timestamp => {
                Self::of_int(ty, parse_integer(text)?)
            }
            Type::UTinyInt | Type::USmallInt | Type::UInt | Type::UBigInt => Self::of_int(ty, parse_integer(text)?),
            Type::Float => {
                let value: f32 = fast_float2::parse(text).map_err(|_| Fault::Type)?;
                if value.is_finite() { Ok(Tag::Float(value)) } else { Err(Fault::Range) }
            }
            Type::Double => {
                let value: f64 = fast_float2::parse(text).map_err(|_| Fault::Type)?;
                if value.is_finite() { Ok(Tag::Double(value)) } else { Err(Fault::Range) }
            }
            Type::Binary(_) | Type::NChar(_) | Type::Json => Self::of_text(ty, text),
            Type::VarBinary(_) => {
                check_width(ty, text)?;
                Ok(Tag::Bytes(text.as_bytes()))
            }
        }
    }

    /// Converts a text to a BINARY, NCHAR or JSON tag.
    ///
    /// # Errors
    /// [`Fault::Width`], or [`Fault::Type`] for any other type and for invalid JSON.
    pub fn of_text(ty: Type, text: &'a str) -> Result<Self, Fault> {
        check_width(ty, text)?;
        if ty == Type::Json && !text.is_empty() && serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            return Err(Fault::Type);
        }
        Ok(Tag::Text(text))
    }

    /// Converts an integer to a tag of any numeric type or TIMESTAMP that holds it exactly.
    ///
    /// # Errors
    /// [`Fault::Range`], [`Fault::Inexact`] or [`Fault::Type`].
    pub fn of_int(ty: Type, value: i128) -> Result<Self, Fault> {
        let within = |low: i64, high: i64| (i128::from(low)..=i128::from(high)).contains(&value);
        let signed = |low, high| if within(low, high) { Ok(Tag::Int(value as i64)) } else { Err(Fault::Range) };
        let unsigned = |high: u64| {
            if (0..=i128::from(high)).contains(&value) { Ok(Tag::UInt(value as u64)) } else { Err(Fault::Range) }
        };
        match ty {
            Type::TinyInt => signed(i8::MIN.into(), i8::MAX.into()),
            Type::SmallInt => signed(i16::MIN.into(), i16::MAX.into()),
            Type::Int => signed(i32::MIN.into(), i32::MAX.into()),
            Type::BigInt | Type::Timestamp => signed(i64::MIN, i64::MAX),
            Type::UTinyInt => unsigned(u8::MAX.into()),
            Type::USmallInt => unsigned(u16::MAX.into()),
            Type::UInt => unsigned(u32::MAX.into()),
            Type::UBigInt => unsigned(u64::MAX),
            Type::Float if (value as f32) as i128 == value => Ok(Tag::Float(value as f32)),
            Type::Double if (value as f64) as i128 == value => Ok(Tag::Double(value as f64)),
            Type::Float | Type::Double => Err(Fault::Inexact),
            Type::Bool | Type::Binary(_) | Type::NChar(_) | Type::Json | Type::VarBinary(_) => Err(Fault::Type),
        }
    }

    /// Converts a catalog value to a tag; the type selects FLOAT or DOUBLE.
    pub fn of_scalar(ty: Type, value: &'a Scalar) -> Self {
        match value {
            Scalar::Bool(v) => Tag::Bool(*v),
            Scalar::Int(v) => Tag::Int(*v),
            Scalar::UInt(v) => Tag::UInt(*v),
            Scalar::Float(v) if ty == Type::Float => Tag::Float(*v as f32),
            Scalar::Float(v) => Tag::Double(*v),
            Scalar::Text(v) => Tag::Text(v),
            Scalar::Bytes(v) => Tag::Bytes(v),
        }
    }
}

/// Parses decimal digits with an optional sign, within 128 bits.
fn parse_integer(text: &str) -> Result<i128, Fault> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if digits.is_empty() || digits.bytes().any(|b| !b.is_ascii_digit()) {
        return Err(Fault::Type);
    }
    text.parse().map_err(|_| Fault::Range)
}

/// Most bytes of a series name; a longer one is cut and ends in a hash.
const MAX_NAME: usize = 192;

/// Writes the name of the series with these tags, sorted by name, to `out`: `devgroup=1,devid=1,devname=dev_1`.
///
/// Each value has one spelling (`01` in an INT tag is `1`), absent tags are left out, and `\`, `,` and `=` in names and values
/// are escaped with a `\`; a control character is `\u{hex}`. So different tag sets have different names. A name over 192 bytes
/// keeps its beginning, then has `,=` (which no other name can have there) and the xxh3-128 of the whole name in hexadecimal.
/// Without tags the series is named after its table.
pub fn canonical_name(table: &str, tags: &mut [(&Column, Tag<'_>)], out: &mut String) {
    out.clear();
    if tags.is_empty() {
        out.push_str(&untagged_name(table));
        return;
    }
    tags.sort_unstable_by(|a, b| a.0.name.cmp(&b.0.name));
    for (i, (column, value)) in tags.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        push_escaped(out, &column.name);
        out.push('=');
        match value {
            Tag::Bool(v) => out.push_str(if *v { "true" } else { "false" }),
            Tag::Int(v) => push_display(out, v),
            Tag::UInt(v) => push_display(out, v),
            Tag::Float(v) => push_display(out, v),
            Tag::Double(v) => push_display(out, v),
            Tag::Text(v) => push_escaped(out, v),
            Tag::Bytes(v) => {
                out.push_str("0x");
                v.iter().for_each(|b| push_display(out, format_args!("{b:02x}")));
            }
        }
    }
    shorten(out);
}

/// The name of a table's single series without tags: the table's name, escaped if it could be confused with tags.
pub fn untagged_name(table: &str) -> String {
    if !table.contains('=') {
        return table.to_owned();
    }
    let mut out = String::new();
    push_escaped(&mut out, table);
    shorten(&mut out);
    out
}

fn push_display(out: &mut String, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("a String takes any text");
}

fn push_escaped(out: &mut String, text: &str) {
    if !text.bytes().any(|b| matches!(b, b'\\' | b',' | b'=') || !(32..127).contains(&b)) {
        return out.push_str(text);
    }
    for c in text.chars() {
        match c {
            '\\' | ',' | '=' => out.extend(['\\', c]),
            c if c.is_control() => push_display(out, format_args!("\\u{{{:x}}}", c as u32)),
            c => out.push(c),
        }
    }
}

fn shorten(name: &mut String) {
    if name.len() <= MAX_NAME {
        return;
    }
    let hash = xxhash_rust::xxh3::xxh3_128(name.as_bytes());
    let mut end = MAX_NAME - 34;
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    // A trailing odd backslash would escape the `,`.
    if name.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1 {
        name.pop();
    }
    push_display(name, format_args!(",={hash:032x}"));
}

/// Names and tags of the series, indexed by name.
#[derive(Debug)]
pub(super) struct SeriesTable {
    precision: Precision,
    names: String,
    ends: Vec<usize>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    tags: Vec<(FieldColumn, FieldRef)>,
}

impl SeriesTable {
    pub(super) fn new(precision: Precision) -> Self {
        Self {
            precision,
            names: String::new(),
            ends: Vec::new(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
            tags: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    fn hash(hasher: &DefaultHashBuilder, name: &str) -> u64 {
        let mut state = hasher.build_hasher();
        name.hash(&mut state);
        std::hash::Hasher::finish(&state)
    }

    fn name<'a>(names: &'a str, ends: &[usize], at: u32) -> &'a str {
        let start = if at == 0 { 0 } else { ends[at as usize - 1] };
        &names[start..ends[at as usize]]
    }

    pub(super) fn find(&self, name: &str) -> Option<u32> {
        let hash = Self::hash(&self.hasher, name);
        self.index.find(hash, |at| Self::name(&self.names, &self.ends, *at) == name).copied()
    }

    pub(super) fn intern(&mut self, name: &str, tags: &[(&Column, Tag<'_>)]) -> u32 {
        if let Some(at) = self.find(name) {
            return at;
        }
        let at = self.ends.len() as u32;
        self.names.push_str(name);
        self.ends.push(self.names.len());
        let (names, ends, hasher) = (&self.names, &self.ends, &self.hasher);
        self.index.insert_unique(Self::hash(hasher, name), at, |i| Self::hash(hasher, Self::name(names, ends, *i)));
        for (column, value) in tags {
            let place = self.tags.iter().position(|(c, _)| c.id() == column.id).unwrap_or_else(|| {
                self.tags.push((FieldColumn::new(column.id, column.ty), column.field(self.precision)));
                self.tags.len() - 1
            });
            let (tag, row) = (&mut self.tags[place].0, at as usize);
            // The value was checked against this type when it became a Tag; on a mismatch it would be null.
            let _ = tag.set(row, *value);
        }
        at
    }

    pub(super) fn finish(self) -> Result<SeriesSet> {
        let series = self.ends.len();
        if i32::try_from(self.names.len()).is_err() {
            return Err(Error::invalid("series names of one request exceed 2 GiB").with("series", series));
        }
        let offsets = std::iter::once(0).chain(self.ends.iter().map(|end| *end as i32)).collect::<Vec<i32>>();
        let names = StringArray::try_new(
            OffsetBuffer::new(ScalarBuffer::from(offsets)),
            Buffer::from_vec(self.names.into_bytes()),
            None,
        )?;
        let mut fields = Vec::new();
        let mut columns: Vec<ArrayRef> = vec![Arc::new(names)];
        for (column, field) in self.tags {
            fields.push(field);
            columns.push(column.finish(series, self.precision)?);
        }
        series_set(fields, columns)
    }
}
