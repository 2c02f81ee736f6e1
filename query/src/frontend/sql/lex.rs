//! The tokens of a query as the SQL parser takes them: parameters, durations; each token keeps its place in the text.
//!
//! [`Tokens`] reads the text; what is here gives its tokens the parser's types, and numbers lines and columns.

use datafusion::sql::sqlparser::{
    ast::DollarQuotedString,
    keywords::Keyword,
    tokenizer::{Location, Span, Token, TokenWithSpan, Word},
};
use tidelake_format::{Error, Result};
use tidelake_protocol::sql::{Cursor, DoubleQuotes, TokenKind, Tokens, Unit};

/// The longest statement that is read as a query, in bytes.
pub(crate) const MAX_QUERY_BYTES: usize = 4 << 20;

/// A character that no name of a statement has: names that the front end makes for itself have it, so that they are no others.
pub(crate) const UNNAMED: char = '\u{1f}';

/// A token and its place.
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
/// Invalid: a quote or a comment that is not closed, both kinds of parameters, a number with a word glued to it, several
/// statements, none.
pub(crate) fn lex(sql: &str, quotes: DoubleQuotes) -> Result<Lexed> {
    if sql.len() > MAX_QUERY_BYTES {
        return Err(Error::invalid("the statement is too long")
            .with("limit", format!("{MAX_QUERY_BYTES} bytes"))
            .with("found", sql.len()));
    }
    let mut tokens = tokens(sql, quotes)?;
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

/// The tokens of a text, with their places.
///
/// # Errors
/// Invalid where the text cannot be read: a quote or a comment that is not closed.
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

/// The parser's token.
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

/// The parser's token of an operator or a punctuation mark.
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
        // The parser knows no other sign, and refuses it.
        other => Token::CustomBinaryOperator(other.to_owned()),
    }
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
    // Double quotes mean nothing to a word.
    let mut cursor = Cursor::new(sql, DoubleQuotes::Identifier);
    while cursor.take(b'(') || cursor.take(b';') {}
    cursor.peek_word().to_ascii_uppercase()
}

/// An error with its place in the text.
pub(crate) fn at(error: Error, place: Location) -> Error {
    if place.line == 0 { error } else { error.with("line", place.line).with("column", place.column) }
}

/// Turns byte offsets into lines and columns (1-based, in characters), going forward only.
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
