//! From text to tokens: quotes, parameters, durations; each token keeps its place in the text.

use datafusion::sql::sqlparser::{
    dialect::Dialect,
    keywords::Keyword,
    tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Word},
};
use tidelake_format::{Error, Result};
use tidelake_protocol::sql::{DoubleQuotes, Unit, comment_end};

/// The longest statement that is read as a query, in bytes.
pub(crate) const MAX_QUERY_BYTES: usize = 4 << 20;

/// A token and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Tok {
    pub(crate) token: Token,
    pub(crate) span: Span,
    /// Byte offsets in the text.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Tok {
    /// Whether this is the unquoted word, without case.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(&self.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    /// Whether this is a word or a quoted name.
    pub(crate) fn is_name(&self) -> bool {
        matches!(self.token, Token::Word(_))
    }

    /// A token of ours at the place of this one.
    pub(crate) fn with(&self, token: Token) -> Self {
        Self { token, ..self.clone() }
    }

    pub(crate) fn to_parser(&self) -> TokenWithSpan {
        TokenWithSpan { token: self.token.clone(), span: self.span }
    }
}

/// An unquoted word, as keyword where it is one.
pub(crate) fn word(text: &str) -> Token {
    Token::make_word(text, None)
}

/// The dialect of the tokenizer alone: names in backticks and, depending on the session, in double quotes.
#[derive(Debug)]
struct Lexical {
    quotes: DoubleQuotes,
}

impl Dialect for Lexical {
    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        ch == '`' || (ch == '"' && self.quotes == DoubleQuotes::Identifier)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        ch.is_alphabetic() || ch == '_' || ch == '#' || ch == '@'
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        ch.is_alphanumeric() || matches!(ch, '_' | '#' | '@' | '$')
    }

    fn supports_string_literal_backslash_escape(&self) -> bool {
        self.quotes == DoubleQuotes::Text
    }

    fn supports_nested_comments(&self) -> bool {
        true
    }
}

/// The tokens of a statement without white space and comments; `?` became `$1`, `$2`, …; a final `;` is gone.
#[derive(Debug, Clone)]
pub(crate) struct Lexed {
    pub(crate) tokens: Vec<Tok>,
    /// The number of parameters.
    pub(crate) parameters: usize,
}

/// Reads tokens.
///
/// # Errors
/// Invalid: an unterminated string, both kinds of parameters, a number with a word glued to it, several statements, none.
pub(crate) fn lex(sql: &str, quotes: DoubleQuotes) -> Result<Lexed> {
    if sql.len() > MAX_QUERY_BYTES {
        return Err(Error::invalid("the statement is too long")
            .with("limit", format!("{MAX_QUERY_BYTES} bytes"))
            .with("found", sql.len()));
    }
    let dialect = Lexical { quotes };
    let raw = Tokenizer::new(&dialect, sql)
        .tokenize_with_location()
        .map_err(|e| at(Error::invalid(format!("syntax error: {}", e.message.to_lowercase())), e.location))?;
    let mut places = Places::new(sql);
    let mut tokens = Vec::with_capacity(raw.len());
    for TokenWithSpan { token, span } in raw {
        let (start, end) = (places.offset(span.start), places.offset(span.end));
        let token = match token {
            Token::Whitespace(_) | Token::EOF => continue,
            Token::DoubleQuotedString(text) => Token::SingleQuotedString(text),
            other => other,
        };
        tokens.push(Tok { token, span, start, end });
    }
    while tokens.last().is_some_and(|t| t.token == Token::SemiColon) {
        tokens.pop();
    }
    if tokens.is_empty() {
        return Err(Error::invalid("the statement is empty: expected SELECT, SHOW, INSERT, …"));
    }
    if let Some(semicolon) = tokens.iter().find(|t| t.token == Token::SemiColon) {
        return Err(at(
            Error::invalid("several statements in one text: send them one by one").with("found", "';'"),
            semicolon.span.start,
        ));
    }
    glued(&tokens, sql)?;
    let parameters = number_parameters(&mut tokens)?;
    Ok(Lexed { tokens, parameters })
}

/// Refuses a word that touches the number before it unless both are a duration (`1h`).
fn glued(tokens: &[Tok], sql: &str) -> Result<()> {
    for pair in tokens.windows(2) {
        if let (Token::Number(number, _), Token::Word(w)) = (&pair[0].token, &pair[1].token)
            && pair[0].end == pair[1].start
            && w.quote_style.is_none()
        {
            let whole = number.bytes().all(|b| b.is_ascii_digit());
            if !whole || Unit::parse(&w.value).is_none() {
                return Err(at(
                    Error::invalid(
                        "expected a number, or a duration (a whole number and one of b u a s m h d w n y), or a space",
                    )
                    .with("found", &sql[pair[0].start..pair[1].end]),
                    pair[0].span.start,
                ));
            }
        }
    }
    Ok(())
}

/// Whether the tokens at `i` and `i + 1` are a duration such as `10s`: the number and the unit.
pub(crate) fn duration_at(tokens: &[Tok], i: usize) -> Option<(&str, Unit)> {
    let (number, unit) = (tokens.get(i)?, tokens.get(i + 1)?);
    match (&number.token, &unit.token) {
        (Token::Number(n, false), Token::Word(w)) if number.end == unit.start && w.quote_style.is_none() => {
            Some((n.as_str(), Unit::parse(&w.value)?))
        }
        _ => None,
    }
}

/// `?` → `$n` in order; `$n` stays.
fn number_parameters(tokens: &mut [Tok]) -> Result<usize> {
    let (mut unnamed, mut highest) = (0_usize, 0_usize);
    for tok in tokens {
        let Token::Placeholder(text) = &tok.token else { continue };
        if text == "?" {
            unnamed += 1;
            tok.token = Token::Placeholder(format!("${unnamed}"));
        } else {
            match text[1..].parse::<usize>() {
                Ok(n) if (1..=65_535).contains(&n) && text.starts_with('$') => highest = highest.max(n),
                _ => {
                    return Err(at(
                        Error::invalid("a parameter is '?', or '$1' to '$65535'").with("found", text),
                        tok.span.start,
                    ));
                }
            }
        }
        if unnamed > 0 && highest > 0 {
            return Err(at(
                Error::invalid("parameters are either all '?' or all '$n'").with("found", "both"),
                tok.span.start,
            ));
        }
    }
    Ok(unnamed.max(highest))
}

/// The first word of a text in upper case, after white space, comments, `;` and `(`; empty where there is none.
pub(crate) fn first_word(sql: &str) -> String {
    let bytes = sql.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        if let Some(end) = comment_end(bytes, i) {
            i = end;
        } else if bytes[i].is_ascii_whitespace() || matches!(bytes[i], b'(' | b';') {
            i += 1;
        } else {
            break;
        }
    }
    bytes[i.min(bytes.len())..]
        .iter()
        .take_while(|b| b.is_ascii_alphanumeric() || **b == b'_')
        .map(|b| char::from(b.to_ascii_uppercase()))
        .collect()
}

/// An error with its place in the text.
pub(crate) fn at(error: Error, place: Location) -> Error {
    if place.line == 0 { error } else { error.with("line", place.line).with("column", place.column) }
}

/// Turns the tokenizer's lines and columns (1-based, in characters) into byte offsets, going forward only.
struct Places<'a> {
    rest: std::iter::Peekable<std::str::CharIndices<'a>>,
    line: u64,
    column: u64,
    length: usize,
}

impl<'a> Places<'a> {
    fn new(text: &'a str) -> Self {
        Self { rest: text.char_indices().peekable(), line: 1, column: 1, length: text.len() }
    }

    fn offset(&mut self, place: Location) -> usize {
        while (self.line, self.column) < (place.line, place.column) {
            match self.rest.next() {
                Some((_, '\n')) => {
                    self.line += 1;
                    self.column = 1;
                }
                Some(_) => self.column += 1,
                None => break,
            }
        }
        self.rest.peek().map_or(self.length, |(i, _)| *i)
    }
}

/// The name in a word token.
pub(crate) fn name_of(tok: &Tok) -> Option<&str> {
    match &tok.token {
        Token::Word(Word { value, .. }) => Some(value),
        _ => None,
    }
}

/// Whether the token is this keyword, unquoted.
pub(crate) fn is_keyword(tok: &Tok, keyword: Keyword) -> bool {
    matches!(&tok.token, Token::Word(w) if w.keyword == keyword)
}
