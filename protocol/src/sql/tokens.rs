//! Tokenizer of a whole statement, for a parser that takes a list of tokens.

use std::borrow::Cow;

use super::{
    DoubleQuotes,
    lexer::{Cursor, is_word_part, word_end},
};

/// A token with its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token<'a> {
    /// Kind of the token.
    pub kind: TokenKind<'a>,
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

/// Kinds of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenKind<'a> {
    /// A keyword or unquoted name, as written.
    Word(&'a str),
    /// A quoted name without quotes, and the quote character.
    Name(Cow<'a, str>, char),
    /// A text literal with escapes resolved.
    Text(Cow<'a, str>),
    /// `n'…'` with escapes resolved.
    NationalText(Cow<'a, str>),
    /// The digits of `x'…'` or `0x…`, not checked.
    Hex(Cow<'a, str>),
    /// An unsigned number: digits, with or without a point and an exponent.
    Number {
        /// The number as written.
        digits: &'a str,
        /// Whether an `L`, which is part of the token, follows.
        is_long: bool,
    },
    /// `?`, `$1` and the like, as written.
    Parameter(&'a str),
    /// `$$…$$` or `$tag$…$tag$`, without escapes.
    DollarText {
        /// The tag, if there is one.
        tag: Option<&'a str>,
        /// The text.
        text: &'a str,
    },
    /// An operator or punctuation mark; the longest match.
    Sign(&'a str),
    /// A character that cannot begin a token.
    Other(char),
}

/// An error at a position of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unreadable {
    /// Offset of the opening quote, or of the end of the statement.
    pub at: usize,
    /// Error message.
    pub message: &'static str,
}

/// Iterates over the tokens of a statement without white space and comments; ends after an error.
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
    /// End of the previous token, if it is a word or a quoted name.
    name_end: Option<usize>,
}

impl<'a> Tokens<'a> {
    /// The tokens of a statement.
    pub fn new(sql: &'a str, quotes: DoubleQuotes) -> Self {
        Self { cursor: Cursor::new(sql, quotes), name_end: None }
    }

    /// Reads the token at the position, which is not at the end.
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
                // A backslash escapes a quote here whatever double quotes mean; valid digits never have one.
                let (digits, end) = self.quoted(start + 1, true, "unterminated string literal")?;
                (TokenKind::Hex(digits), end)
            }
            b'A'..=b'Z' | b'a'..=b'z' | b'_' => self.word(),
            // `#` and `@` begin a word if a word character follows; otherwise they are signs.
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
        let (text, end) = self.quoted(at, self.cursor.quotes == DoubleQuotes::Text, "unterminated string literal")?;
        Ok((kind(text), end))
    }

    /// The text of the quotes that open at `at`, and the offset after them.
    fn quoted(&self, at: usize, has_escapes: bool, message: &'static str) -> Result<(Cow<'a, str>, usize), Unreadable> {
        Cursor { at, ..self.cursor }.quoted(has_escapes).ok_or(Unreadable { at, message })
    }

    /// Reads a number, `0x…`, or the `.` between names.
    fn number(&self) -> Result<(TokenKind<'a>, usize), Unreadable> {
        let Cursor { sql, at: start, .. } = self.cursor;
        let bytes = sql.as_bytes();
        let is = |at: usize, any: &[u8]| bytes.get(at).is_some_and(|b| any.contains(b));
        let digits_end = |at: usize| at + bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let point = (TokenKind::Sign(&sql[start..=start]), start + 1);
        if bytes[start..].starts_with(b"._") {
            // `._wstart` is valid only directly after a table name.
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

    /// Reads a parameter such as `$1`, or a text between `$$` or `$tag$`.
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

/// Length of the longest sign at the start of a text; 0 if there is none. `.` is not a sign here because it may begin a
/// number.
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
