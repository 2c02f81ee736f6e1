//! The tokens of a whole statement, for a parser that takes a list of them.

use std::borrow::Cow;

use super::{
    DoubleQuotes,
    lexer::{Cursor, is_word_part, word_end},
};

/// A token and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: TokenKind<'a>,
    /// The offset of its first byte.
    pub start: usize,
    /// The offset after its last byte.
    pub end: usize,
}

/// What a token is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKind<'a> {
    /// A keyword or an unquoted name, as it is written.
    Word(&'a str),
    /// A quoted name, without its quotes, and the quote.
    Name(Cow<'a, str>, char),
    /// A quoted text, its escapes resolved.
    Text(Cow<'a, str>),
    /// `n'…'`, its escapes resolved.
    NationalText(Cow<'a, str>),
    /// What `x'…'` or `0x…` has for digits, not checked.
    Hex(Cow<'a, str>),
    /// An unsigned number: digits, with or without a point and an exponent.
    Number {
        /// The number as it is written.
        digits: &'a str,
        /// Whether an `L` follows it, which belongs to the token.
        is_long: bool,
    },
    /// `?`, `$1` and the like, as it is written.
    Parameter(&'a str),
    /// `$$…$$` or `$tag$…$tag$`, without escapes.
    DollarText {
        /// The tag, if there is one.
        tag: Option<&'a str>,
        /// The text.
        text: &'a str,
    },
    /// An operator or a punctuation mark, the longest that is there.
    Sign(&'a str),
    /// A character that begins no token.
    Other(char),
}

/// Why a statement cannot be read from a place on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable {
    /// The offset of the place: where a quote opens, or the end of the statement.
    pub at: usize,
    /// What is wrong.
    pub message: &'static str,
}

/// Reads the tokens of a statement one after the other, white space and comments left out. Nothing follows an error.
///
/// ```
/// use tidelake_protocol::sql::{DoubleQuotes, TokenKind, Tokens};
/// let tokens = Tokens::new("a->>'it''s'", DoubleQuotes::Text);
/// let kinds: Vec<_> = tokens.map(|token| token.map(|token| token.kind)).collect::<Result<_, _>>().unwrap();
/// assert_eq!(kinds, [TokenKind::Word("a"), TokenKind::Sign("->>"), TokenKind::Text("it's".into())]);
/// ```
#[derive(Debug, Clone)]
pub struct Tokens<'a> {
    cursor: Cursor<'a>,
    /// Where the token before this place ends, if it is a word or a quoted name.
    name_end: Option<usize>,
}

impl<'a> Tokens<'a> {
    /// The tokens of a statement.
    pub fn new(sql: &'a str, quotes: DoubleQuotes) -> Self {
        Self { cursor: Cursor::new(sql, quotes), name_end: None }
    }

    /// Reads the token here, where the statement goes on.
    fn token(&mut self) -> Result<Token<'a>, Unreadable> {
        let Cursor { sql, at: start, quotes } = self.cursor;
        let bytes = &sql.as_bytes()[start..];
        let is_quote = |at: usize| bytes.get(at) == Some(&b'\'');
        let (kind, end) = match bytes[0] {
            b'\'' => self.text(start, TokenKind::Text)?,
            b'"' if quotes == DoubleQuotes::Text => self.text(start, TokenKind::Text)?,
            b'"' => self.name('"', "expected close delimiter '\"' before eof.")?,
            b'`' => self.name('`', "expected close delimiter '`' before eof.")?,
            b'n' | b'N' if is_quote(1) => self.text(start + 1, TokenKind::NationalText)?,
            b'x' | b'X' if is_quote(1) => {
                // Here a backslash hides a quote for every meaning of double quotes; digits never have one.
                let (digits, end) =
                    self.quoted(start + 1, true, "unterminated string literal, expected a closing quote")?;
                (TokenKind::Hex(digits), end)
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => self.word(),
            // `#` and `@` begin a word where one follows, and are signs elsewhere.
            b'#' | b'@' if is_word_part(sql, start + if bytes.starts_with(b"@@") { 2 } else { 1 }) => self.word(),
            b'0'..=b'9' | b'.' => self.number()?,
            b'?' => {
                let digits = sql[start + 1..].chars().take_while(|c| c.is_numeric()).map(char::len_utf8).sum::<usize>();
                let end = start + 1 + digits;
                (TokenKind::Parameter(&sql[start..end]), end)
            }
            b'$' => self.dollar()?,
            _ => match sign_length(bytes) {
                0 => match sql[start..].chars().next().unwrap_or_default() {
                    c if c.is_alphabetic() => self.word(),
                    c => (TokenKind::Other(c), start + c.len_utf8()),
                },
                length => (TokenKind::Sign(&sql[start..start + length]), start + length),
            },
        };
        Ok(Token { kind, start, end })
    }

    fn word(&self) -> (TokenKind<'a>, usize) {
        let Cursor { sql, at, .. } = self.cursor;
        let end = word_end(sql, at);
        (TokenKind::Word(&sql[at..end]), end)
    }

    fn name(&self, quote: char, message: &'static str) -> Result<(TokenKind<'a>, usize), Unreadable> {
        let (name, end) = self.quoted(self.cursor.at, false, message)?;
        Ok((TokenKind::Name(name, quote), end))
    }

    fn text(
        &self,
        at: usize,
        kind: impl Fn(Cow<'a, str>) -> TokenKind<'a>,
    ) -> Result<(TokenKind<'a>, usize), Unreadable> {
        let (text, end) = self.quoted(
            at,
            self.cursor.quotes == DoubleQuotes::Text,
            "unterminated string literal, expected a closing quote",
        )?;
        Ok((kind(text), end))
    }

    /// The text between the quotes that open at `at`, and the offset after them.
    fn quoted(&self, at: usize, has_escapes: bool, message: &'static str) -> Result<(Cow<'a, str>, usize), Unreadable> {
        Cursor { at, ..self.cursor }.quoted(has_escapes).ok_or(Unreadable { at, message })
    }

    /// A number, `0x…`, or the `.` between names.
    fn number(&self) -> Result<(TokenKind<'a>, usize), Unreadable> {
        let Cursor { sql, at: start, .. } = self.cursor;
        let bytes = sql.as_bytes();
        let is = |at: usize, any: &[u8]| bytes.get(at).is_some_and(|b| any.contains(b));
        let digits_end = |at: usize| at + bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let point = (TokenKind::Sign(&sql[start..=start]), start + 1);
        if bytes[start..].starts_with(b"._") {
            // `._wstart` names a column of the table before the point, and is nothing anywhere else.
            return match self.name_end {
                Some(end) if end == start => Ok(point),
                _ => Err(Unreadable { at: start, message: "unexpected character '_'" }),
            };
        }
        let mut end = digits_end(start);
        if &sql[start..end] == "0" && is(end, b"x") {
            let digits = end + 1;
            let end = digits + bytes[digits..].iter().take_while(|b| b.is_ascii_hexdigit()).count();
            return Ok((TokenKind::Hex(Cow::Borrowed(&sql[digits..end])), end));
        }
        if is(end, b".") {
            end = digits_end(end + 1);
            if end == start + 1 {
                return Ok(point);
            }
        }
        if is(end, b"eE") {
            let digits = end + 1 + usize::from(is(end + 1, b"+-"));
            if is(digits, b"0123456789") {
                end = digits_end(digits);
            }
        }
        let is_long = is(end, b"L");
        Ok((TokenKind::Number { digits: &sql[start..end], is_long }, end + usize::from(is_long)))
    }

    /// A parameter such as `$1`, or a text between `$$` or `$tag$`.
    fn dollar(&self) -> Result<(TokenKind<'a>, usize), Unreadable> {
        let Cursor { sql, at: start, .. } = self.cursor;
        let is_in_tag = |c: &char| c.is_alphanumeric() || *c == '_';
        let end = start + 1 + sql[start + 1..].chars().take_while(is_in_tag).map(char::len_utf8).sum::<usize>();
        if sql.as_bytes().get(end) != Some(&b'$') {
            return Ok((TokenKind::Parameter(&sql[start..end]), end));
        }
        let (tag, delimiter, rest) = (&sql[start + 1..end], &sql[start..=end], &sql[end + 1..]);
        let tag = Some(tag).filter(|tag| !tag.is_empty());
        let Some(length) = rest.find(delimiter) else {
            let message = match tag {
                None => "unterminated dollar-quoted string",
                Some(_) => "unterminated dollar-quoted, expected $",
            };
            return Err(Unreadable { at: sql.len(), message });
        };
        Ok((TokenKind::DollarText { tag, text: &rest[..length] }, end + 1 + length + delimiter.len()))
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Result<Token<'a>, Unreadable>;

    fn next(&mut self) -> Option<Self::Item> {
        let end = self.cursor.sql.len();
        let token = if !self.cursor.skip_closed() {
            Err(Unreadable { at: end, message: "unexpected eof while in a multi-line comment" })
        } else if self.cursor.at == end {
            return None;
        } else {
            self.token()
        };
        self.cursor.at = token.as_ref().map_or(end, |token| token.end);
        self.name_end = match &token {
            Ok(Token { kind: TokenKind::Word(_) | TokenKind::Name(..), end, .. }) => Some(*end),
            _ => None,
        };
        Some(token)
    }
}

/// The length of the longest sign that a text begins with; 0 where it begins with none. A `.` is not among the signs: it may
/// begin a number.
pub(super) fn sign_length(text: &[u8]) -> usize {
    let second = text.get(1).copied().unwrap_or_default();
    let third = text.get(2).copied().unwrap_or_default();
    match (text.first().copied().unwrap_or_default(), second, third) {
        (b'!', b'~', b'~') if text.get(3) == Some(&b'*') => 4,
        (b'-', b'>', b'>')
        | (b'#', b'>', b'>')
        | (b'<', b'=', b'>')
        | (b'|', b'|', b'/')
        | (b'~', b'~', b'*')
        | (b'!', b'~', b'*' | b'~') => 3,
        (b'-' | b'#' | b'=' | b'@', b'>', _)
        | (b'<', b'=' | b'>' | b'<' | b'@', _)
        | (b'>', b'=' | b'>', _)
        | (b'=', b'=', _)
        | (b'!', b'=' | b'!' | b'~', _)
        | (b'|', b'|' | b'/', _)
        | (b'&', b'&', _)
        | (b':', b':' | b'=', _)
        | (b'^', b'@', _)
        | (b'~', b'~' | b'*', _)
        | (b'#', b'-', _)
        | (b'@', b'@' | b'?', _) => 2,
        (
            b'(' | b')' | b',' | b';' | b'=' | b'<' | b'>' | b'+' | b'-' | b'*' | b'/' | b'%' | b'!' | b'|' | b'&'
            | b'^' | b'~' | b':' | b'[' | b']' | b'{' | b'}' | b'\\' | b'#' | b'@',
            ..,
        ) => 1,
        _ => 0,
    }
}
