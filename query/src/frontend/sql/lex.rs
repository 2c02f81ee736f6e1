//! The tokens of a query in the SQL parser's types, each with its position in the text.
//!
//! [`Tokens`] reads the text. This module converts its tokens, numbers parameters, and computes lines and columns.

use datafusion::sql::sqlparser::{
    ast::DollarQuotedString,
    keywords::Keyword,
    tokenizer::{Location, Span, Token, TokenWithSpan, Word},
};
use tidelake_format::{Error, Result};
use tidelake_protocol::sql::{Cursor, DoubleQuotes, TokenKind, Tokens, Unit};

/// Maximum length of a query, in bytes.
pub(crate) const MAX_QUERY_BYTES: usize = 4 << 20;

/// A character that is not allowed in names of a statement. Names that the front end generates contain it, so that they are unique.
pub(crate) const UNNAMED: char = '\u{1f}';

/// A token and its position.
#[derive(Debug, Clone)]
pub(crate) struct Tok {
    pub(crate) token: Token,
    pub(crate) span: Span,
    /// Byte offsets in the text.
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Tok {
    /// Whether this is the given unquoted word; ignores case.
    pub(crate) fn is_word(&self, word: &str) -> bool {
        matches!(&self.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
    }

    /// Whether this is a word or a quoted name.
    pub(crate) fn is_name(&self) -> bool {
        matches!(self.token, Token::Word(_))
    }

    /// A generated token at the position of this one.
    pub(crate) fn with(&self, token: Token) -> Self {
        Self { token, ..self.clone() }
    }

    pub(crate) fn to_parser(&self) -> TokenWithSpan {
        TokenWithSpan { token: self.token.clone(), span: self.span }
    }
}

/// An unquoted word, marked as a keyword where it is one.
pub(crate) fn word(text: &str) -> Token {
    Token::make_word(text, None)
}

/// The tokens of a statement, without white space, comments and trailing `;`. `?` is replaced by `$1`, `$2`, ….
#[derive(Debug, Clone)]
pub(crate) struct Lexed {
    pub(crate) tokens: Vec<Tok>,
    /// Number of parameters.
    pub(crate) parameters: usize,
}

/// Tokenizes one statement.
///
/// # Errors
/// Invalid for a quote or comment that is not closed, both kinds of parameters, a word directly after a number, several
/// statements, an empty or too long text.
pub(crate) fn lex(sql: &str, quotes: DoubleQuotes) -> Result<Lexed> {
    if sql.len() > MAX_QUERY_BYTES {
        return Err(Error::invalid("the statement is too long")
            .with("limit", format!("{MAX_QUERY_BYTES} bytes"))
            .with("found", sql.len()));
    }
    let mut tokens = tokens(sql, quotes).map_err(|error| match error.message().contains("unterminated string") {
        true => error.with("expected", "a closing quote"),
        false => error,
    })?;
    while tokens.last().is_some_and(|t| t.token == Token::SemiColon) {
        tokens.pop();
    }
    if tokens.is_empty() {
        return Err(Error::invalid("empty statement: expected SELECT, SHOW, INSERT, …"));
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

/// The tokens of a text, with their positions.
///
/// # Errors
/// Invalid for a quote or comment that is not closed and for a name with [`UNNAMED`].
pub(crate) fn tokens(sql: &str, quotes: DoubleQuotes) -> Result<Vec<Tok>> {
    let mut places = Places::new(sql);
    let mut tokens = Vec::new();
    for token in Tokens::new(sql, quotes) {
        let token = token.map_err(|unreadable| {
            at(Error::invalid(format!("syntax error: {}", unreadable.message)), places.location(unreadable.at))
        })?;
        let span = Span::new(places.location(token.start), places.location(token.end));
        if matches!(&token.kind, TokenKind::Name(name, _) if name.contains(UNNAMED)) {
            let error = Error::invalid("a name has no control character U+001F")
                .with("found", format!("{:?}", &sql[token.start..token.end]));
            return Err(at(error, span.start));
        }
        tokens.push(Tok { token: parser_token(token.kind), span, start: token.start, end: token.end });
    }
    Ok(tokens)
}

/// Converts to the parser's token.
fn parser_token(kind: TokenKind<'_>) -> Token {
    match kind {
        TokenKind::Word(text) => word(text),
        TokenKind::Name(name, quote) => {
            Token::Word(Word { value: name.into_owned(), quote_style: Some(quote), keyword: Keyword::NoKeyword })
        }
        TokenKind::Text(text) => Token::SingleQuotedString(text.into_owned()),
        TokenKind::NationalText(text) => Token::NationalStringLiteral(text.into_owned()),
        TokenKind::Hex(digits) => Token::HexStringLiteral(digits.into_owned()),
        TokenKind::Number { digits, is_long } => Token::Number(digits.to_owned(), is_long),
        TokenKind::Parameter(text) => Token::Placeholder(text.to_owned()),
        TokenKind::DollarText { tag, text } => {
            Token::DollarQuotedString(DollarQuotedString { value: text.to_owned(), tag: tag.map(str::to_owned) })
        }
        TokenKind::Sign(sign) => parser_sign(sign),
        TokenKind::Other(c) => Token::Char(c),
    }
}

/// The parser's token for an operator or a punctuation mark.
fn parser_sign(sign: &str) -> Token {
    match sign {
        "(" => Token::LParen,
        ")" => Token::RParen,
        "," => Token::Comma,
        "." => Token::Period,
        ";" => Token::SemiColon,
        "=" => Token::Eq,
        "==" => Token::DoubleEq,
        "<>" | "!=" => Token::Neq,
        "<" => Token::Lt,
        "<=" => Token::LtEq,
        ">" => Token::Gt,
        ">=" => Token::GtEq,
        "<=>" => Token::Spaceship,
        "+" => Token::Plus,
        "-" => Token::Minus,
        "*" => Token::Mul,
        "/" => Token::Div,
        "%" => Token::Mod,
        "||" => Token::StringConcat,
        ":" => Token::Colon,
        "::" => Token::DoubleColon,
        ":=" => Token::Assignment,
        "=>" => Token::RArrow,
        "->" => Token::Arrow,
        "->>" => Token::LongArrow,
        "@>" => Token::AtArrow,
        "<@" => Token::ArrowAt,
        "@?" => Token::AtQuestion,
        "@@" => Token::AtAt,
        "@" => Token::AtSign,
        "#" => Token::Sharp,
        "#-" => Token::HashMinus,
        "#>" => Token::HashArrow,
        "#>>" => Token::HashLongArrow,
        "~" => Token::Tilde,
        "~*" => Token::TildeAsterisk,
        "~~" => Token::DoubleTilde,
        "~~*" => Token::DoubleTildeAsterisk,
        "!" => Token::ExclamationMark,
        "!!" => Token::DoubleExclamationMark,
        "!~" => Token::ExclamationMarkTilde,
        "!~*" => Token::ExclamationMarkTildeAsterisk,
        "!~~" => Token::ExclamationMarkDoubleTilde,
        "!~~*" => Token::ExclamationMarkDoubleTildeAsterisk,
        "&" => Token::Ampersand,
        "&&" => Token::Overlap,
        "|" => Token::Pipe,
        "|/" => Token::PGSquareRoot,
        "||/" => Token::PGCubeRoot,
        "^" => Token::Caret,
        "^@" => Token::CaretAt,
        "<<" => Token::ShiftLeft,
        ">>" => Token::ShiftRight,
        "[" => Token::LBracket,
        "]" => Token::RBracket,
        "{" => Token::LBrace,
        "}" => Token::RBrace,
        "\\" => Token::Backslash,
        // The parser refuses any other sign.
        other => Token::CustomBinaryOperator(other.to_owned()),
    }
}

/// Refuses a word directly after a number, unless both are a duration (`1h`).
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

/// Number and unit where the tokens at `i` and `i + 1` are a duration such as `10s`.
pub(crate) fn duration_at(tokens: &[Tok], i: usize) -> Option<(&str, Unit)> {
    let (number, unit) = (tokens.get(i)?, tokens.get(i + 1)?);
    match (&number.token, &unit.token) {
        (Token::Number(n, false), Token::Word(w)) if number.end == unit.start && w.quote_style.is_none() => {
            Some((n.as_str(), Unit::parse(&w.value)?))
        }
        _ => None,
    }
}

/// Replaces each `?` by `$n` in order and keeps `$n`. Returns the number of parameters.
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
                Error::invalid("mixed parameters: expected all '?' or all '$n'").with("found", "both"),
                tok.span.start,
            ));
        }
    }
    Ok(unnamed.max(highest))
}

/// The first word of a text in upper case, after white space, comments, `;` and `(`; empty without a word.
pub(crate) fn first_word(sql: &str) -> String {
    // The meaning of double quotes does not matter for a word.
    let mut cursor = Cursor::new(sql, DoubleQuotes::Identifier);
    while cursor.take(b'(') || cursor.take(b';') {}
    cursor.peek_word().to_ascii_uppercase()
}

/// Adds line and column to an error.
pub(crate) fn at(error: Error, place: Location) -> Error {
    if place.line == 0 { error } else { error.with("line", place.line).with("column", place.column) }
}

/// Converts ascending byte offsets to lines and columns (1-based, in characters).
struct Places<'a> {
    text: &'a [u8],
    at: usize,
    line: u64,
    column: u64,
}

impl<'a> Places<'a> {
    fn new(text: &'a str) -> Self {
        Self { text: text.as_bytes(), at: 0, line: 1, column: 1 }
    }

    fn location(&mut self, offset: usize) -> Location {
        for byte in &self.text[self.at..offset] {
            if *byte == b'\n' {
                self.line += 1;
                self.column = 1;
            } else if byte & 0xc0 != 0x80 {
                // The first byte of a character.
                self.column += 1;
            }
        }
        self.at = offset;
        Location::new(self.line, self.column)
    }
}

/// The text of a word token.
pub(crate) fn name_of(tok: &Tok) -> Option<&str> {
    match &tok.token {
        Token::Word(Word { value, .. }) => Some(value),
        _ => None,
    }
}

/// Whether the token is this unquoted keyword.
pub(crate) fn is_keyword(tok: &Tok, keyword: Keyword) -> bool {
    matches!(&tok.token, Token::Word(w) if w.keyword == keyword)
}
