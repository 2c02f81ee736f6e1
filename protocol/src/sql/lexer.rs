//! Lexer: reads words, names, literals and signs of a statement from a position.

use std::borrow::Cow;

use tidelake_format::{Error, Result};

use super::{DoubleQuotes, Unit, statement::TableName, tokens::sign_length};
use crate::number::Number;

/// A read position in a statement.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    /// The statement.
    pub sql: &'a str,
    /// Byte offset of the position, at a character boundary.
    pub at: usize,
    /// Meaning of double quotes.
    pub quotes: DoubleQuotes,
}

/// One literal of a statement.
#[derive(Debug, Clone)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// TRUE or FALSE.
    Bool(bool),
    /// A decimal number with its text.
    Number(Number, &'a str),
    /// A hexadecimal, binary or bound integer.
    Integer(i128),
    /// A bound float.
    Float(f64),
    /// A quoted text with escapes resolved, or a bound text.
    Text(Cow<'a, str>),
    /// Bound bytes.
    Bytes(Cow<'a, [u8]>),
    /// An instant in nanoseconds since the epoch.
    Instant(i128),
    /// A number of ticks, plus nanoseconds: `1563249700000 + 1s`.
    Shifted(i128, i128),
    /// `?`, or `$n` with n - 1.
    Parameter(Option<usize>),
    /// NOW, plus nanoseconds.
    Now(i128),
    /// TODAY(), plus nanoseconds.
    Today(i128),
}

impl<'a> Cursor<'a> {
    /// A cursor at the beginning of a statement.
    pub fn new(sql: &'a str, quotes: DoubleQuotes) -> Self {
        Self { sql, at: 0, quotes }
    }

    /// The statement.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.sql.as_bytes()
    }

    /// The byte at the position; 0 at the end.
    #[inline]
    pub fn byte(&self) -> u8 {
        self.bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Skips blanks and comments, but stops at an unclosed comment; parsing then fails, because no token begins with `/*`.
    #[inline]
    pub fn skip(&mut self) {
        let _ = self.skip_closed();
    }

    /// As [`Cursor::skip`]; returns whether every comment is closed.
    #[inline]
    pub(super) fn skip_closed(&mut self) -> bool {
        loop {
            match self.byte() {
                b' ' | b'\t' | b'\r' | b'\n' => self.at += 1,
                b'-' | b'/' => match comment(self.bytes(), self.at) {
                    Some((end, true)) => self.at = end,
                    Some((_, false)) => return false,
                    None => return true,
                },
                0x0b | 0x0c | 0x80.. => match self.rare_blank() {
                    0 => return true,
                    length => self.at += length,
                },
                _ => return true,
            }
        }
    }

    /// Length of a non-ASCII or rare blank at the position; 0 if there is none.
    #[cold]
    fn rare_blank(&self) -> usize {
        self.sql[self.at..].chars().next().filter(|c| c.is_whitespace()).map_or(0, char::len_utf8)
    }

    /// Checks that at most one `;` is left.
    ///
    /// # Errors
    /// Anything else is left.
    pub fn finish(&mut self) -> Result<()> {
        self.skip();
        while self.byte() == b';' {
            self.at += 1;
            if self.skip_closed() && self.at < self.sql.len() && self.byte() != b';' {
                return Err(Error::invalid("expected one statement, found another after ';'").with("near", self.near()));
            }
        }
        if self.at < self.sql.len() { Err(self.unexpected("the end of the statement")) } else { Ok(()) }
    }

    /// Whether the rest of the statement is empty.
    pub fn is_at_end(&mut self) -> bool {
        self.skip();
        matches!(self.byte(), 0 | b';')
    }

    /// Consumes a sign if it is next.
    #[inline]
    pub fn take(&mut self, sign: u8) -> bool {
        self.skip();
        let is = self.byte() == sign;
        self.at += usize::from(is);
        is
    }

    /// Consumes a sign.
    pub fn expect(&mut self, sign: u8) -> Result<()> {
        if self.take(sign) { Ok(()) } else { Err(self.unexpected(&format!("'{}'", sign as char))) }
    }

    /// Returns the unquoted word at the position without consuming it; empty if there is none. Words of statements
    /// consist of ASCII letters, digits, `_` and `$`; a word with other characters does not count.
    pub fn peek_word(&mut self) -> &'a str {
        self.skip();
        let rest = &self.bytes()[self.at..];
        if !matches!(rest.first(), Some(b'A'..=b'Z' | b'a'..=b'z' | b'_')) {
            return "";
        }
        let len = rest.iter().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$')).count();
        let end = self.at + len;
        if is_word_part(self.sql, end) { "" } else { &self.sql[self.at..end] }
    }

    /// Returns the sign at the position without consuming it; empty if there is none.
    pub(super) fn peek_sign(&mut self) -> &'a str {
        self.skip();
        &self.sql[self.at..self.at + sign_length(&self.bytes()[self.at..])]
    }

    /// Consumes a keyword if it is next.
    pub fn take_word(&mut self, word: &str) -> bool {
        let is = self.peek_word().eq_ignore_ascii_case(word);
        self.at += if is { word.len() } else { 0 };
        is
    }

    /// Consumes a keyword.
    pub fn expect_word(&mut self, word: &str) -> Result<()> {
        if self.take_word(word) { Ok(()) } else { Err(self.unexpected(word)) }
    }

    /// Consumes IF NOT EXISTS if it is next.
    pub fn if_not_exists(&mut self) -> Result<bool> {
        let is = self.take_word("IF");
        if is {
            self.expect_word("NOT")?;
            self.expect_word("EXISTS")?;
        }
        Ok(is)
    }

    /// Consumes IF EXISTS if it is next.
    pub fn if_exists(&mut self) -> Result<bool> {
        let is = self.take_word("IF");
        if is {
            self.expect_word("EXISTS")?;
        }
        Ok(is)
    }

    /// Whether a text literal is next; whether double quotes begin one depends on [`DoubleQuotes`].
    pub fn is_text(&self) -> bool {
        self.byte() == b'\'' || (self.byte() == b'"' && self.quotes == DoubleQuotes::Text)
    }

    /// Consumes a name: a word, which is lower-cased, or anything in backticks (or in double quotes, if they quote names),
    /// unchanged.
    pub fn name(&mut self, what: &str) -> Result<String> {
        let word = self.peek_word();
        if !word.is_empty() {
            self.at += word.len();
            return Ok(word.to_ascii_lowercase());
        }
        let quote = self.byte();
        if quote != b'`' && (quote != b'"' || self.quotes == DoubleQuotes::Text) {
            return Err(self.unexpected(what));
        }
        let Some((name, end)) = self.quoted(false) else {
            return Err(self.unexpected(&format!("a closing '{}'", quote as char)));
        };
        if name.is_empty() {
            return Err(self.unexpected(what));
        }
        self.at = end;
        Ok(name.into_owned())
    }

    /// Consumes `[database.]name`.
    pub fn table_name(&mut self) -> Result<TableName> {
        let first = self.name("a table name")?;
        // No blanks around the dot: otherwise `d1 .5` would be a qualified name.
        if self.byte() == b'.' {
            self.at += 1;
            return Ok(TableName { database: Some(first), name: self.name("a table name")? });
        }
        Ok(TableName { database: None, name: first })
    }

    /// Consumes a text literal and resolves its escapes.
    pub fn text(&mut self) -> Result<Cow<'a, str>> {
        if !self.is_text() {
            return Err(self.unexpected("a text in single quotes"));
        }
        let Some((text, end)) = self.quoted(self.quotes == DoubleQuotes::Text) else {
            return Err(self.unexpected("a closing quote"));
        };
        self.at = end;
        Ok(text)
    }

    /// The text of the quotes that open at the position, and the offset after them; `None` if they are not closed. A
    /// doubled quote is one quote; with `has_escapes` a backslash begins an escape.
    pub(super) fn quoted(&self, has_escapes: bool) -> Option<(Cow<'a, str>, usize)> {
        let (bytes, start, quote) = (self.bytes(), self.at + 1, self.byte());
        let escape = if has_escapes { b'\\' } else { quote };
        let end = start + memchr::memchr2(quote, escape, &bytes[start..])?;
        if bytes[end] == quote && bytes.get(end + 1) != Some(&quote) {
            return Some((Cow::Borrowed(&self.sql[start..end]), end + 1));
        }
        let (text, end) = self.unescaped(quote, escape, start)?;
        Some((Cow::Owned(text), end))
    }

    fn unescaped(&self, quote: u8, escape: u8, start: usize) -> Option<(String, usize)> {
        let bytes = self.bytes();
        let (mut out, mut at) = (String::new(), start);
        loop {
            let n = memchr::memchr2(quote, escape, &bytes[at..])?;
            out.push_str(&self.sql[at..at + n]);
            at += n;
            if bytes[at] == quote {
                if bytes.get(at + 1) != Some(&quote) {
                    return Some((out, at + 1));
                }
                out.push(quote as char);
                at += 2;
                continue;
            }
            let c = self.sql[at + 1..].chars().next()?;
            match c {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                'r' => out.push('\r'),
                // Escapes of LIKE patterns and of VARBINARY bytes are kept.
                '%' | '_' | 'x' => out.extend(['\\', c]),
                c => out.push(c),
            }
            at += 1 + c.len_utf8();
        }
    }

    /// Consumes a literal or a time expression: `now`, `now() + 1s`, `today() - 1d`, `1563249700000 + 1s`.
    pub fn value(&mut self) -> Result<Value<'a>> {
        self.skip();
        let start = self.at;
        let value = match self.byte() {
            b'\'' | b'"' => return self.text().map(Value::Text),
            b'?' | b'$' => return self.parameter().map(Value::Parameter),
            b'0'..=b'9' | b'-' | b'+' | b'.' => self.number()?,
            _ => match self.peek_word() {
                word if word.eq_ignore_ascii_case("null") => Value::Null,
                word if word.eq_ignore_ascii_case("true") => Value::Bool(true),
                word if word.eq_ignore_ascii_case("false") => Value::Bool(false),
                word if word.eq_ignore_ascii_case("now") => Value::Now(0),
                word if word.eq_ignore_ascii_case("today") => Value::Today(0),
                _ => return Err(self.unexpected("a value")),
            },
        };
        if self.at == start {
            self.at += self.peek_word().len();
        }
        match value {
            Value::Now(_) | Value::Today(_) => {
                if self.take(b'(') {
                    self.expect(b')')?;
                }
                let shift = self.shift()?.unwrap_or(0);
                Ok(if matches!(value, Value::Now(_)) { Value::Now(shift) } else { Value::Today(shift) })
            }
            Value::Number(number, _) if number.integral => match (number.integer(self.bytes()), self.shift()?) {
                (Some(ticks), Some(shift)) => Ok(Value::Shifted(ticks, shift)),
                _ => Ok(value),
            },
            value => Ok(value),
        }
    }

    /// Consumes `?`, or `$n`, which returns n - 1.
    pub fn parameter(&mut self) -> Result<Option<usize>> {
        if self.byte() == b'?' {
            self.at += 1;
            return Ok(None);
        }
        let digits = &self.bytes()[self.at + 1..];
        let len = digits.iter().take_while(|b| b.is_ascii_digit()).count();
        match self.sql[self.at + 1..self.at + 1 + len].parse() {
            Ok(n @ 1..=65_535_usize) => {
                self.at += 1 + len;
                Ok(Some(n - 1))
            }
            _ => Err(self.unexpected("a parameter, '?' or '$1' to '$65535'")),
        }
    }

    fn number(&mut self) -> Result<Value<'a>> {
        let start = self.at;
        let negative = self.byte() == b'-';
        let sign = usize::from(matches!(self.byte(), b'-' | b'+'));
        let digits = &self.sql[self.at + sign..];
        let radix = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => 16,
            [b'0', b'b' | b'B', ..] => 2,
            _ => 10,
        };
        if radix != 10 {
            let len = digits[2..].bytes().take_while(u8::is_ascii_alphanumeric).count();
            let Ok(value) = i128::from_str_radix(&digits[2..2 + len], radix) else {
                return Err(self.unexpected("a number"));
            };
            self.at += sign + 2 + len;
            return Ok(Value::Integer(if negative { -value } else { value }));
        }
        let number = Number::scan(self.bytes(), if negative { start } else { start + sign });
        let next = self.bytes().get(number.end).copied().unwrap_or(b' ');
        if !number.is_number() || next.is_ascii_alphanumeric() || matches!(next, b'_' | b'.') {
            return Err(self.unexpected("a number"));
        }
        self.at = number.end;
        Ok(Value::Number(number, &self.sql[number.start..number.end]))
    }

    /// Consumes `+ 1s` or `- 1s` if it is next; returns nanoseconds.
    fn shift(&mut self) -> Result<Option<i128>> {
        self.skip();
        let sign = match self.byte() {
            b'+' => 1,
            b'-' => -1,
            _ => return Ok(None),
        };
        self.at += 1;
        self.skip();
        let start = self.at;
        let number = Number::scan(self.bytes(), start);
        self.at = number.end;
        let unit = Unit::of(char::from(self.byte())).and_then(Unit::nanoseconds);
        let count = if number.integral && number.is_number() { number.integer(self.bytes()) } else { None };
        match (count.and_then(|n| i64::try_from(n).ok()), unit) {
            (Some(count), Some(unit)) if count >= 0 => {
                self.at += 1;
                Ok(Some(sign * i128::from(count) * i128::from(unit)))
            }
            _ => {
                self.at = start;
                Err(self.unexpected("a duration like 1s (units b u a s m h d w)"))
            }
        }
    }

    /// The text at the position, shortened for messages.
    pub fn near(&self) -> String {
        let rest = self.sql.get(self.at..).unwrap_or("");
        let mut short: String = rest.chars().take(32).collect();
        if short.len() < rest.len() {
            short.push('…');
        }
        short
    }

    /// A syntax error at the position.
    #[cold]
    pub fn unexpected(&mut self, expected: &str) -> Error {
        if !self.skip_closed() {
            return self.locate(Error::invalid("syntax error: unclosed comment, expected */"), self.at);
        }
        let near = if self.at < self.sql.len() { self.near() } else { "end of statement".to_owned() };
        self.locate(Error::invalid(format!("syntax error near \"{near}\": expected {expected}")), self.at)
    }

    /// An error with the line and the column of a byte offset, both from 1 and columns in characters.
    #[cold]
    pub fn locate(&self, error: Error, at: usize) -> Error {
        let before = self.sql.get(..at).unwrap_or(self.sql);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        error.with("line", line).with("column", before[line_start..].chars().count() + 1)
    }
}

/// Byte offset after the comment at `at`: `-- …` to the end of the line, or `/* … */`, which may be nested; the end of
/// the text if it is not closed. `None` if no comment begins at `at`.
pub fn comment_end(bytes: &[u8], at: usize) -> Option<usize> {
    comment(bytes, at).map(|(end, _)| end)
}

/// As [`comment_end`], and whether the comment is closed.
fn comment(bytes: &[u8], at: usize) -> Option<(usize, bool)> {
    if bytes[at..].starts_with(b"--") {
        return Some((memchr::memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |n| at + n + 1), true));
    }
    if !bytes[at..].starts_with(b"/*") {
        return None;
    }
    let (mut depth, mut at) = (1_usize, at + 2);
    while at < bytes.len() && depth > 0 {
        if bytes[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
        } else if bytes[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else {
            at += 1;
        }
    }
    Some((at, depth == 0))
}

/// Offset after the word that begins at `at`.
pub(super) fn word_end(sql: &str, at: usize) -> usize {
    let rest = &sql[at..];
    let is_part = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'#' | b'@' | b'$');
    match at + rest.bytes().take_while(is_part).count() {
        end if sql.as_bytes().get(end).is_none_or(u8::is_ascii) => end,
        end => end + sql[end..].chars().take_while(|c| is_part_of_words(*c)).map(char::len_utf8).sum::<usize>(),
    }
}

/// Whether the character at `at` is part of a word.
pub(super) fn is_word_part(sql: &str, at: usize) -> bool {
    sql.get(at..).and_then(|rest| rest.chars().next()).is_some_and(is_part_of_words)
}

fn is_part_of_words(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '#' | '@' | '$')
}
