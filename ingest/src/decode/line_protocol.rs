//! InfluxDB line protocol: `measurement[,tag=value…] field=value[,field=value…] [timestamp]`, one point per line.
//!
//! One pass over the bytes. The raw key (the bytes before the first space: measurement and tags) is looked up in a cache, so
//! its parts are parsed once per series and request; the fields of a line are first compared with those of the previous line.
//! Values go straight into columns; an invalid line is rolled back as a whole.
//!
//! Rules and error texts are influxd's (1.6), with these differences: a line may end in CR LF; a line break ends a line
//! everywhere but inside a quoted value (influxd also reads on after a `\`); an unclosed quote spoils only its own line; text
//! must be UTF-8; a field may be written as another number type than its column's, if the column holds the exact value (`40i`
//! in INT or DOUBLE, but never `40` in INT).

mod gathered;
mod parse;
mod span;

/// What was expected where a line has a syntax error of InfluxDB's words.
fn expected(what: &str) -> &'static str {
    match what {
        "invalid boolean" => ", expected a number, 5i, 5u, t, f or a text in double quotes",
        "invalid number" => ", expected a number such as 1.5, 15i or 15u",
        "invalid field format" => ", expected measurement,tag=value field=value time",
        "bad timestamp" => ", expected a whole number in the unit of precision",
        _ => "",
    }
}

#[cfg(test)]
mod tests;

use std::{borrow::Cow, sync::Arc};

use memchr::{memchr, memchr_iter};
use tidelake_format::{
    Result,
    ids::ColumnId,
    schema::{Database, Role},
    types::{Precision, Type},
};
pub use tidelake_protocol::times::LinePrecision;

use super::{
    Decoded, Decoder, Lookup, Protocol, Rejected, Words,
    builder::{Fault, Tag},
    request::{Mark, Request},
    time,
};
pub use gathered::Gathered;
use parse::{Literal, Refused, key_end, line_end, split_key, syntax, unescape};
use span::{Span, SpanMap};

/// influxd's words.
const WORDS: Words = Words {
    table: "measurement",
    bad_column: |measurement, name, role| match role {
        Role::Tag => format!("invalid tag key: input tag {name:?} on measurement {measurement:?} is invalid"),
        _ => format!("invalid field name: input field {name:?} on measurement {measurement:?} is invalid"),
    },
    too_old: "points beyond retention policy",
};

/// Concatenated bodies of line protocol.
#[derive(Debug, Clone)]
pub struct Lines {
    /// The unit of the timestamps.
    pub precision: LinePrecision,
    /// End of each body, ascending: no line continues in the next body, and each body counts its lines from 1.
    pub ends: Arc<[usize]>,
    /// Most bytes of a line up to its first line break.
    pub longest: usize,
}

impl Decoder for Lines {
    const PROTOCOL: Protocol = Protocol::InfluxDb;

    fn decode(&self, body: &[u8], lookup: &dyn Lookup, database: &Database, now: i64) -> Result<Decoded> {
        Ok(decode_each(body, &self.ends, lookup, database, self.precision, now, self.longest))
    }
}

/// Decodes the body of a write. `now` is the time of lines without a timestamp, in ticks of the database.
///
/// A new table has the time column `ts`, fields of BIGINT, BIGINT UNSIGNED, DOUBLE, BOOL or BINARY and NCHAR tags. A
/// series is named by its tags, sorted by name ([`canonical_name`](super::builder::canonical_name)). A timestamp finer
/// than the database's precision is rounded towards the past; one outside InfluxDB's nanosecond range is rejected, as
/// is a row older than the database's retention. does not hold is refused, as is a row older than the database keeps.
pub fn decode(body: &[u8], lookup: &dyn Lookup, database: &Database, precision: LinePrecision, now: i64) -> Decoded {
    decode_each(body, &[body.len()], lookup, database, precision, now, usize::MAX)
}

/// [`decode`] for several concatenated `bodies`, each up to one of `ends` (ascending): no line continues in the next body, and
/// each body counts its lines from 1. A line of more than `longest` bytes up to its first line break is rejected.
pub fn decode_each(
    bodies: &[u8],
    ends: &[usize],
    lookup: &dyn Lookup,
    database: &Database,
    precision: LinePrecision,
    now: i64,
    longest: usize,
) -> Decoded {
    let (mut request, mut seen) = (Request::new(lookup, database, now, &WORDS), Seen::default());
    let scale = Scale::new(precision, database.precision);
    let mut start = 0;
    for end in ends {
        let mut reading = Reading { body: &bodies[..*end], request, seen, tags: Vec::new(), scale, now, longest };
        reading.run(start);
        (request, seen, start) = (reading.request, reading.seen, *end);
    }
    request.finish()
}

/// Conversion from the request's unit to the database's.
#[derive(Clone, Copy)]
struct Scale {
    multiply: i64,
    divide: i64,
    unit: i64,
    to: Precision,
}

impl Scale {
    fn new(from: LinePrecision, to: Precision) -> Self {
        let (from, tick) = (from.nanos(), time::nanos_per_tick(to));
        Self { multiply: (from / tick).max(1), divide: (tick / from).max(1), unit: from, to }
    }

    /// Ticks, or `None` outside InfluxDB's range.
    #[inline]
    fn ticks(self, value: i64) -> Option<i64> {
        let limit = time::MAX_NANOS / self.unit;
        if !(-limit..=limit).contains(&value) {
            return None;
        }
        let ticks = if self.divide == 1 { value.checked_mul(self.multiply)? } else { value.div_euclid(self.divide) };
        time::in_range(ticks, self.to).then_some(ticks)
    }
}

/// One key of the body (measurement and tags as written), and the destination of its rows.
#[derive(Clone, Copy)]
struct Place {
    key: Span,
    target: usize,
    series: u32,
    /// The place that followed this one most recently.
    next: usize,
}

/// Field keys of a target, as written in the body, and their columns.
#[derive(Default)]
struct Fields {
    /// By position in the line: the last key seen there, and its column.
    in_line: Vec<(Span, usize)>,
    /// All field keys of the body.
    known: SpanMap,
}

/// Keys seen so far in a body.
#[derive(Default)]
struct Seen {
    places: Vec<Place>,
    /// Places by key.
    cache: SpanMap,
    /// Targets by measurement.
    measurements: SpanMap,
    /// The place of the previous line.
    last: usize,
    /// The fields of each target, as written.
    fields: Vec<Fields>,
}

struct Reading<'a> {
    body: &'a [u8],
    request: Request<'a>,
    seen: Seen,
    /// The tags of the current key.
    tags: Vec<(ColumnId, Type, Cow<'a, str>)>,
    scale: Scale,
    now: i64,
    /// The longest accepted line, in bytes.
    longest: usize,
}

impl<'a> Reading<'a> {
    /// Reads all lines from `at` on.
    fn run(&mut self, mut at: usize) {
        let body = self.body;
        let mut line = 1;
        while at < body.len() {
            match body[at] {
                b'\n' => {
                    line += 1;
                    at += 1;
                }
                b' ' | b'\t' | b'\r' | 0 => at += 1,
                b'#' => at = memchr(b'\n', &body[at..]).map_or(body.len(), |n| at + n),
                _ => {
                    let window = body.get(at..at.saturating_add(self.longest).saturating_add(1));
                    if window.is_some_and(|window| memchr(b'\n', window).is_none()) {
                        let end = line_end(body, at);
                        let reason = format!("line longer than the limit of {} bytes", self.longest);
                        self.reject(line, at, end, Refused::Value(reason));
                        line += memchr_iter(b'\n', &body[at..end]).count();
                        at = end;
                        continue;
                    }
                    let (end, may_break) = match self.line(at) {
                        Ok(read) => {
                            self.request.accepted += 1;
                            (read.end, read.quoted)
                        }
                        Err(refused) => {
                            let end = line_end(body, at);
                            self.reject(line, at, end, refused);
                            (end, true)
                        }
                    };
                    if may_break {
                        line += memchr_iter(b'\n', &body[at..end]).count();
                    }
                    at = end;
                }
            }
        }
    }

    #[cold]
    fn reject(&mut self, line: usize, start: usize, end: usize, refused: Refused) {
        let bytes = &self.body[start..end];
        self.request.reject(1, || {
            let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
            let cut = &bytes[..bytes.len().min(Rejected::MAX_TEXT)];
            let mut text = String::from_utf8_lossy(cut).into_owned();
            if cut.len() < bytes.len() {
                text.truncate(text.trim_end_matches(char::REPLACEMENT_CHARACTER).len());
                text.push('…');
            }
            let reason = match refused {
                Refused::Syntax(what) => format!("unable to parse '{text}': {what}{}", expected(&what)),
                Refused::Value(reason) => reason,
            };
            Rejected { line, reason, text }
        });
    }

    /// Reads the line at `start`; a rejected line is rolled back.
    #[inline]
    fn line(&mut self, start: usize) -> Result<Read, Refused> {
        let (place, key_end) = match self.expected(start) {
            Some(place) => (place, start + place.key.len()),
            None => {
                let key_end = key_end(self.body, start);
                let Some(at) = self.seen.cache.get(self.body, &self.body[start..key_end]) else {
                    return self.first_line(start, key_end);
                };
                self.follow(at);
                (self.seen.places[at], key_end)
            }
        };
        let mark = self.request.targets[place.target].mark();
        let read = self.rest(place.target, key_end);
        match read {
            Ok(read) => self.request.targets[place.target].builder.end_row(place.series, read.ts),
            Err(_) => self.roll_back(place.target, mark),
        }
        read
    }

    /// The place of the line at `start`, if it is that of the previous line or the one that followed it earlier: most requests
    /// hold runs of one series, or cycle through their series in one order.
    #[inline]
    fn expected(&mut self, start: usize) -> Option<Place> {
        let seen = &mut self.seen;
        let last = *seen.places.get(seen.last)?;
        if is_key(self.body, start, last.key.of(self.body)) {
            return Some(last);
        }
        let next = *seen.places.get(last.next)?;
        if !is_key(self.body, start, next.key.of(self.body)) {
            return None;
        }
        seen.last = last.next;
        Some(next)
    }

    /// Records that a line of this place followed the last one.
    fn follow(&mut self, place: usize) {
        let seen = &mut self.seen;
        if let Some(last) = seen.places.get_mut(seen.last) {
            last.next = place;
        }
        seen.last = place;
    }

    /// Reads a line whose key is new to the request.
    #[inline(never)]
    fn first_line(&mut self, start: usize, key_end: usize) -> Result<Read, Refused> {
        let body = self.body;
        let key = &body[start..key_end];
        let mut tags = std::mem::take(&mut self.tags);
        let mut parts = split_key(key)?;
        if key.len() > parse::MAX_KEY {
            return Err(syntax(format!("max key length exceeded: {} > {}", key.len(), parse::MAX_KEY)));
        }
        if body.get(key_end) != Some(&b' ') {
            while parts.next_tag()?.is_some() {}
            return Err(syntax("missing fields"));
        }
        let target = match self.seen.measurements.get(body, parts.measurement) {
            Some(target) => target,
            None => {
                let target = self.request.target(&unescape(self.str(parts.measurement)?))?;
                // A key begins with its measurement.
                let measurement = Span::new(start, start + parts.measurement.len());
                self.seen.measurements.insert(body, measurement, target);
                target
            }
        };
        self.request.check_room(target)?;
        self.seen.fields.resize_with(self.request.targets.len(), Fields::default);
        let mark = self.request.targets[target].mark();
        tags.clear();
        let read = self.key_tags(target, &mut parts, &mut tags).and_then(|()| self.rest(target, key_end));
        match &read {
            Ok(read) => {
                let values: Vec<(ColumnId, Tag<'_>)> =
                    tags.iter().filter_map(|(id, ty, text)| Tag::parse(*ty, text).ok().map(|tag| (*id, tag))).collect();
                let row = &mut self.request.targets[target];
                let series = row.series(&values, &mut self.request.name);
                self.request.end_row(target, series, read.ts);
                let (at, key) = (self.seen.places.len(), Span::new(start, key_end));
                self.seen.places.push(Place { key, target, series, next: at });
                self.seen.cache.insert(body, key, at);
                self.follow(at);
            }
            Err(_) => self.roll_back(target, mark),
        }
        self.tags = tags;
        read
    }

    fn roll_back(&mut self, target: usize, mark: Mark) {
        self.request.targets[target].roll_back(mark);
        // A cached key may refer to a column that the rollback removed.
        self.seen.fields[target] = Fields::default();
    }

    /// Reads the tags of a key and checks each against its column's type.
    fn key_tags(
        &mut self,
        target: usize,
        parts: &mut parse::Key<'a>,
        tags: &mut Vec<(ColumnId, Type, Cow<'a, str>)>,
    ) -> Result<(), Refused> {
        while let Some((name, value)) = parts.next_tag()? {
            let (name, value) = (unescape(self.str(name)?), unescape(self.str(value)?));
            let target = &mut self.request.targets[target];
            let (id, ty) = target.column(&name, Role::Tag, Type::NChar(None))?;
            if tags.iter().any(|(other, ..)| *other == id) {
                return Err(syntax("duplicate tags"));
            }
            if let Err(fault) = Tag::parse(ty, &value) {
                let table = &target.table().name;
                return Err(Refused::Value(format!(
                    "tag type conflict: input tag {name:?} on measurement {table:?} is {}, {fault} for type {ty}",
                    time::quoted(&value)
                )));
            }
            tags.push((id, ty, value));
        }
        Ok(())
    }

    /// Reads fields and timestamp, from the space after the key.
    #[inline]
    fn rest(&mut self, target: usize, key_end: usize) -> Result<Read, Refused> {
        let body = self.body;
        let mut at = skip_blanks(body, key_end);
        let mut quoted = false;
        for nth in 0.. {
            let (column, value_at) = self.field_key(target, nth, at)?;
            let (literal, end) = Literal::scan(body, value_at)?;
            quoted |= matches!(literal, Literal::Text { .. });
            self.set(target, nth, column, literal)?;
            at = end;
            match body.get(at) {
                Some(b',') => at += 1,
                Some(b' ' | b'\n') | None => break,
                Some(b'\r') if is_line_end(body, at) => break,
                Some(_) => return Err(literal.garbage()),
            }
        }
        let at = skip_blanks(body, at);
        if is_line_end(body, at) {
            return Ok(Read { ts: self.now, end: at, quoted });
        }
        let (value, mut end) = parse::timestamp(body, at)?;
        while body.get(end) == Some(&b' ') {
            end += 1;
        }
        if !is_line_end(body, end) {
            return Err(syntax("point is invalid"));
        }
        let ts = self
            .scale
            .ticks(value)
            .ok_or_else(|| syntax(format!("time outside range {} - {}", -time::MAX_NANOS, time::MAX_NANOS)))?;
        self.request.check_unit(value, self.scale.unit)?;
        self.request.check_kept(target, ts)?;
        Ok(Read { ts, end, quoted })
    }

    /// The column of the nth field, whose key is at `at` (`None` if the key is new), and the start of its value.
    #[inline]
    fn field_key(&mut self, target: usize, nth: usize, at: usize) -> Result<(Option<usize>, usize), Refused> {
        let fields = &mut self.seen.fields[target];
        if let Some((key, column)) = fields.in_line.get(nth) {
            let end = at + key.len();
            if self.body.get(end) == Some(&b'=') && self.body[at..end] == *key.of(self.body) {
                return Ok((Some(*column), end + 1));
            }
        }
        let end = parse::field_key_end(self.body, at)?;
        let column = fields.known.get(self.body, &self.body[at..end]);
        fields.in_line.truncate(nth);
        // The column of a new key is set once its value determines the type.
        fields.in_line.push((Span::new(at, end), column.unwrap_or(usize::MAX)));
        Ok((column, end + 1))
    }

    /// Sets the column of the line's `nth` field to its value.
    #[inline]
    fn set(&mut self, target: usize, nth: usize, column: Option<usize>, literal: Literal) -> Result<(), Refused> {
        let column = match column {
            Some(column) => column,
            None => self.new_field(target, nth, literal)?,
        };
        let text = match literal {
            Literal::Text { start, end, escaped } => {
                let text = self.str(&self.body[start..end])?;
                if escaped { parse::unescape_text(text) } else { Cow::Borrowed(text) }
            }
            _ => Cow::Borrowed(""),
        };
        let (cell, row) = self.request.targets[target].builder.cell(column);
        let set = match literal {
            Literal::Float(number) if cell.ty() == Type::Float => {
                cell.set_float32(row, number.float(self.body).ok_or_else(|| syntax("invalid float"))?)
            }
            Literal::Float(number) => {
                cell.set_float(row, number.double(self.body).ok_or_else(|| syntax("invalid float"))?)
            }
            Literal::Int(value) => cell.set_int(row, value),
            Literal::UInt(value) => cell.set_uint(row, value),
            Literal::Bool(value) => cell.set_bool(row, value),
            // TIMESTAMP and JSON columns do not accept string fields.
            Literal::Text { .. } if matches!(cell.ty(), Type::Timestamp | Type::Json) => Err(Fault::Type),
            Literal::Text { .. } => cell.set_text(row, &text),
        };
        set.map_err(|fault| self.conflict(target, nth, column, literal, fault))
    }

    /// Finds or adds the column of the `nth` field, whose key is new.
    #[cold]
    fn new_field(&mut self, target: usize, nth: usize, literal: Literal) -> Result<usize, Refused> {
        let key = self.seen.fields[target].in_line[nth].0;
        let name = unescape(self.str(key.of(self.body))?);
        let column = self.request.targets[target].field(&name, literal.column_type())?;
        let fields = &mut self.seen.fields[target];
        fields.in_line[nth].1 = column;
        fields.known.insert(self.body, key, column);
        Ok(column)
    }

    #[cold]
    fn conflict(&self, target: usize, nth: usize, column: usize, literal: Literal, fault: Fault) -> Refused {
        let key = String::from_utf8_lossy(self.seen.fields[target].in_line[nth].0.of(self.body));
        let target = &self.request.targets[target];
        let ty = target.builder.column_type(column);
        let (name, table) = (unescape(&key), &target.table().name);
        let input = format!("input field {name:?} on measurement {table:?} is type {}", literal.influx_type());
        Refused::Value(match fault {
            // influxd rejects non-finite floats as invalid numbers.
            Fault::Range if matches!(literal, Literal::Float(_)) && ty == Type::Double => {
                return syntax("invalid float");
            }
            Fault::Type => format!("field type conflict: {input}, already exists as type {}", influx_type(ty)),
            fault => format!("field type conflict: {input}, {fault} for type {ty}"),
        })
    }

    /// Bytes of the body as text.
    fn str(&self, bytes: &'a [u8]) -> Result<&'a str, Refused> {
        std::str::from_utf8(bytes).map_err(|_| syntax("invalid UTF-8"))
    }
}

/// A line read successfully.
#[derive(Clone, Copy)]
struct Read {
    /// The line's time in ticks.
    ts: i64,
    /// Position of the line's break, or the end of the body.
    end: usize,
    /// Whether a value was quoted, and so may contain line breaks.
    quoted: bool,
}

/// Whether this exact key is at `start`, followed by a space.
#[inline]
fn is_key(body: &[u8], start: usize, key: &[u8]) -> bool {
    body.get(start + key.len()) == Some(&b' ') && body[start..start + key.len()] == *key
}

#[inline]
fn skip_blanks(body: &[u8], mut at: usize) -> usize {
    while matches!(body.get(at), Some(b' ' | b'\t' | 0)) {
        at += 1;
    }
    at
}

/// Whether the line ends here: at LF, CR LF, or the end of the body.
#[inline]
fn is_line_end(body: &[u8], at: usize) -> bool {
    match body.get(at) {
        None | Some(b'\n') => true,
        Some(b'\r') => matches!(body.get(at + 1), None | Some(b'\n')),
        Some(_) => false,
    }
}

/// A column's type in InfluxDB's words.
fn influx_type(ty: Type) -> &'static str {
    match ty {
        Type::Bool => "boolean",
        Type::TinyInt | Type::SmallInt | Type::Int | Type::BigInt => "integer",
        Type::UTinyInt | Type::USmallInt | Type::UInt | Type::UBigInt => "unsigned",
        Type::Float | Type::Double => "float",
        Type::Timestamp => "timestamp",
        Type::Binary(_) | Type::NChar(_) | Type::Json | Type::VarBinary(_) => "string",
    }
}
