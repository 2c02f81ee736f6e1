//! Parsers of the parts of a line: ends, escapes and values.

use std::borrow::Cow;

use memchr::{memchr, memchr2};
use tidelake_format::types::Type;

use tidelake_protocol::number::Number;

/// Most bytes of measurement and tags, as in influxd.
pub(super) const MAX_KEY: usize = 65_535;

/// Reason why a line is rejected.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Refused {
    /// The line is not valid line protocol, with the fault.
    Syntax(Cow<'static, str>),
    /// The line is valid, but cannot be stored, with the reason.
    Value(String),
}

impl From<String> for Refused {
    fn from(reason: String) -> Self {
        Refused::Value(reason)
    }
}

pub(super) fn syntax(what: impl Into<Cow<'static, str>>) -> Refused {
    Refused::Syntax(what.into())
}

/// The end of measurement and tags: the first space without a `\` before it, or the end of the line.
#[inline]
pub(super) fn key_end(body: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(n) = memchr2(b' ', b'\n', &body[at..]) {
        at += n;
        if body[at] == b'\n' || at == start || body[at - 1] != b'\\' {
            return at;
        }
        at += 1;
    }
    body.len()
}

/// The end of the line at `start`, which could not be parsed: quoted values may contain line breaks, but an unclosed quote is
/// not a quoted value.
pub(super) fn line_end(body: &[u8], start: usize) -> usize {
    let mut at = key_end(body, start);
    // A quote counts only in a value: after more `=` than `,` (as influxd counts).
    let (mut equals, mut commas) = (0_usize, 0_usize);
    while let Some(byte) = body.get(at) {
        match byte {
            b'\n' => return at,
            b'\\' if body.get(at + 1).is_some_and(|b| *b != b'\n') => at += 1,
            b'=' => equals += 1,
            b',' => commas += 1,
            b'"' if equals > commas => match closing_quote(body, at + 1) {
                Some((close, _)) => at = close,
                None => return memchr(b'\n', &body[at..]).map_or(body.len(), |n| at + n),
            },
            _ => {}
        }
        at += 1;
    }
    body.len()
}

/// The closing quote of a text that starts at `at`, and whether a `\` precedes it.
#[inline]
fn closing_quote(body: &[u8], mut at: usize) -> Option<(usize, bool)> {
    let mut escaped = false;
    loop {
        at += memchr2(b'"', b'\\', body.get(at..)?)?;
        if body[at] == b'"' {
            return Some((at, escaped));
        }
        escaped = true;
        at += 2;
    }
}

/// A key after its measurement was split off.
pub(super) struct Key<'a> {
    pub(super) measurement: &'a [u8],
    /// The rest after the measurement's comma; `None` when no tags are left.
    tags: Option<&'a [u8]>,
}

/// Splits a key at its first comma.
pub(super) fn split_key(key: &[u8]) -> Result<Key<'_>, Refused> {
    match find_unescaped(key, |b| b == b',') {
        Some(0) => Err(syntax("missing measurement")),
        Some(comma) => Ok(Key { measurement: &key[..comma], tags: Some(&key[comma + 1..]) }),
        None => Ok(Key { measurement: key, tags: None }),
    }
}

impl<'a> Key<'a> {
    /// The next tag: name and value as written.
    pub(super) fn next_tag(&mut self) -> Result<Option<(&'a [u8], &'a [u8])>, Refused> {
        let Some(rest) = self.tags else { return Ok(None) };
        if matches!(rest.first(), None | Some(b',' | b'=')) {
            return Err(syntax("missing tag key"));
        }
        let equals = match find_unescaped(rest, |b| matches!(b, b'=' | b',')) {
            Some(at) if rest[at] == b'=' => at,
            _ => return Err(syntax("missing tag value")),
        };
        let (name, rest) = (&rest[..equals], &rest[equals + 1..]);
        if matches!(rest.first(), None | Some(b',')) {
            return Err(syntax("missing tag value"));
        }
        let value = match find_unescaped(rest, |b| matches!(b, b'=' | b',')) {
            Some(at) if rest[at] == b'=' => return Err(syntax("invalid tag format")),
            Some(at) => {
                self.tags = Some(&rest[at + 1..]);
                &rest[..at]
            }
            None => {
                self.tags = None;
                rest
            }
        };
        Ok(Some((name, value)))
    }
}

/// The first wanted byte that has no `\` before it.
fn find_unescaped(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> Option<usize> {
    (0..bytes.len()).find(|at| wanted(bytes[*at]) && (*at == 0 || bytes[at - 1] != b'\\'))
}

/// The end of the field key at `at`: its `=`.
pub(super) fn field_key_end(body: &[u8], at: usize) -> Result<usize, Refused> {
    let mut end = at;
    loop {
        match body.get(end) {
            Some(b'=') if end == at => return Err(syntax("missing field key")),
            Some(b'=') => return Ok(end),
            Some(b'\\') if body.get(end + 1).is_some_and(|b| *b != b'\n') => end += 2,
            None | Some(b',' | b' ' | b'\n') => return Err(syntax("invalid field format")),
            Some(_) => end += 1,
        }
    }
}

/// Resolves `\,`, `\=` and `\ ` in a name or tag value; any other `\` is literal.
pub(super) fn unescape(text: &str) -> Cow<'_, str> {
    resolve(text, |c| matches!(c, ',' | '=' | ' '))
}

/// Resolves `\"` and `\\` in a quoted text; any other `\` is literal.
pub(super) fn unescape_text(text: &str) -> Cow<'_, str> {
    resolve(text, |c| matches!(c, '"' | '\\'))
}

fn resolve(text: &str, escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.as_bytes().contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match chars.peek() {
            Some(next) if c == '\\' && escaped(*next) => out.extend(chars.next()),
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Literal {
    /// Without a suffix.
    Float(Number),
    /// With an `i`.
    Int(i64),
    /// With a `u`.
    UInt(u64),
    /// `t`, `T`, `true`, `True`, `TRUE` and their opposites.
    Bool(bool),
    /// In quotes: its range in the body, and whether it contains a `\`.
    Text { start: usize, end: usize, escaped: bool },
}

impl Literal {
    /// Parses the value at `at`; returns it and the position after it.
    #[inline]
    pub(super) fn scan(body: &[u8], at: usize) -> Result<(Literal, usize), Refused> {
        match body.get(at) {
            Some(b'0'..=b'9' | b'-' | b'.') => Self::scan_number(body, at),
            Some(b'"') => match closing_quote(body, at + 1) {
                Some((close, escaped)) => Ok((Literal::Text { start: at + 1, end: close, escaped }, close + 1)),
                None => Err(syntax("unbalanced quotes")),
            },
            None | Some(b',' | b' ' | b'\n') => Err(syntax("missing field value")),
            Some(b'\r') if matches!(body.get(at + 1), None | Some(b'\n')) => Err(syntax("missing field value")),
            Some(b'n' | b'N') => Err(syntax("invalid number")),
            Some(_) => Self::scan_bool(body, at),
        }
    }

    #[inline]
    fn scan_number(body: &[u8], at: usize) -> Result<(Literal, usize), Refused> {
        let number = Number::scan(body, at);
        match body.get(number.end) {
            Some(b'i') => {
                if let Some(value) = number.short_integer() {
                    return Ok((Literal::Int(value), number.end + 1));
                }
                let value = Self::whole(body, &number, "ParseInt")?;
                Ok((Literal::Int(value), number.end + 1))
            }
            Some(b'u') => Ok((Literal::UInt(Self::whole(body, &number, "ParseUint")?), number.end + 1)),
            _ if number.is_number() => Ok((Literal::Float(number), number.end)),
            _ if number.end > at + 1 || body[at] == b'.' => Err(syntax("invalid float")),
            _ => Err(syntax("invalid number")),
        }
    }

    fn whole<T: TryFrom<i128>>(body: &[u8], number: &Number, parser: &str) -> Result<T, Refused> {
        if !number.integral || !number.is_number() {
            return Err(syntax("invalid number"));
        }
        number.integer(body).and_then(|value| T::try_from(value).ok()).ok_or_else(|| {
            let text = String::from_utf8_lossy(&body[number.start..number.end]);
            let kind = if parser == "ParseInt" { "integer" } else { "unsigned" };
            syntax(format!("unable to parse {kind} {text}: strconv.{parser}: parsing {text:?}: value out of range"))
        })
    }

    fn scan_bool(body: &[u8], at: usize) -> Result<(Literal, usize), Refused> {
        let rest = &body[at..];
        let len = rest.iter().take(6).take_while(|b| b.is_ascii_alphabetic()).count();
        let value = match &rest[..len] {
            b"t" | b"T" | b"true" | b"True" | b"TRUE" => true,
            b"f" | b"F" | b"false" | b"False" | b"FALSE" => false,
            _ => return Err(syntax("invalid boolean")),
        };
        Ok((Literal::Bool(value), at + len))
    }

    /// influxd's error for garbage right after the value.
    pub(super) fn garbage(&self) -> Refused {
        match self {
            Literal::Float(_) | Literal::Int(_) | Literal::UInt(_) => syntax("invalid number"),
            Literal::Bool(_) => syntax("invalid boolean"),
            Literal::Text { .. } => syntax("invalid field format"),
        }
    }

    /// The type in InfluxDB's words.
    pub(super) fn influx_type(&self) -> &'static str {
        match self {
            Literal::Float(_) => "float",
            Literal::Int(_) => "integer",
            Literal::UInt(_) => "unsigned",
            Literal::Bool(_) => "boolean",
            Literal::Text { .. } => "string",
        }
    }

    /// The column type that such a value creates.
    pub(super) fn column_type(&self) -> Type {
        match self {
            Literal::Float(_) => Type::Double,
            Literal::Int(_) => Type::BigInt,
            Literal::UInt(_) => Type::UBigInt,
            Literal::Bool(_) => Type::Bool,
            Literal::Text { .. } => Type::Binary(None),
        }
    }
}

/// Parses a timestamp: digits with an optional `-`, up to a space or the end of the line.
#[inline]
pub(super) fn timestamp(body: &[u8], at: usize) -> Result<(i64, usize), Refused> {
    let number = Number::scan(body, at);
    let ended = match body.get(number.end) {
        None | Some(b' ' | b'\n') => true,
        Some(b'\r') => matches!(body.get(number.end + 1), None | Some(b'\n')),
        Some(_) => false,
    };
    if !ended || !number.integral {
        return Err(syntax("bad timestamp"));
    }
    let value = number
        .short_integer()
        .or_else(|| if number.is_number() { number.integer(body).and_then(|v| i64::try_from(v).ok()) } else { None });
    let value = value.ok_or_else(|| {
        let text = String::from_utf8_lossy(&body[number.start..number.end]);
        let why = if number.is_number() { "value out of range" } else { "invalid syntax" };
        syntax(format!("strconv.ParseInt: parsing {text:?}: {why}"))
    })?;
    Ok((value, number.end))
}
