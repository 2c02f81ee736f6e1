//! Places of values that a plan cannot compute with. The engine reports them without a place, some of them only while rows are computed.
//!
//! A place is shown only if no other token of the text can be meant.

use datafusion::sql::sqlparser::tokenizer::{Location, Token};
use tidelake_format::{Error, Kind};
use tidelake_protocol::sql::DoubleQuotes;

use super::super::lex::{Tok, at, lex};

/// Adds the place of the value that an error is about, where the text of the statement shows it.
pub(in super::super) fn locate(error: Error, text: &str, quotes: DoubleQuotes) -> Error {
    let is_located = error.context("line").is_some() || error.message().contains("line: ");
    if error.kind() != Kind::Invalid || is_located {
        return error;
    }
    let Ok(lexed) = lex(text, quotes) else { return error };
    match place(&error, &lexed.tokens) {
        Some(place) => at(error, place),
        None => error,
    }
}

fn place(error: &Error, tokens: &[Tok]) -> Option<Location> {
    let found = error.context("found");
    match error.message() {
        "division by zero" => divisor(tokens),
        "this text has no value of the type" => {
            let text = found?.strip_prefix('\'')?.strip_suffix('\'')?;
            only(tokens, |at| {
                matches!(&tokens[at].token, Token::SingleQuotedString(one) if one == text) && is_cast(tokens, at)
            })
        }
        "this value is out of the range of the type" => {
            let value: f64 = found?.trim_start_matches('-').parse().ok()?;
            only(tokens, |at| number(&tokens[at].token) == Some(value) && is_cast(tokens, at))
        }
        "the fraction of a percentile is out of range" => {
            let value: f64 = found?.trim_start_matches('-').parse().ok()?;
            only(tokens, |at| number(&tokens[at].token) == Some(value))
        }
        "LIMIT is negative" => negative(tokens, "limit"),
        "OFFSET is negative" => negative(tokens, "offset"),
        "wrong number of parameters"
        | "invalid parameters of a query: expected one row with one value per parameter" => {
            let count = |text: &str| text.rsplit(' ').next().and_then(|count| count.parse::<usize>().ok());
            let (given, expected) = (count(found?).unwrap_or(0), count(error.context("expected")?)?);
            let missing = (given < expected).then(|| format!("${}", given + 1))?;
            let place = tokens.iter().find(|tok| matches!(&tok.token, Token::Placeholder(name) if *name == missing));
            place.map(|tok| tok.span.start)
        }
        _ => None,
    }
}

/// The divisor that is the only literal 0, or the divisor of the only division.
fn divisor(tokens: &[Tok]) -> Option<Location> {
    let divisors =
        tokens.windows(2).filter(|pair| matches!(pair[0].token, Token::Div | Token::Mod)).map(|pair| &pair[1]);
    let divisors: Vec<&Tok> = divisors.collect();
    let zeros: Vec<&Tok> = divisors.iter().copied().filter(|tok| number(&tok.token) == Some(0.0)).collect();
    // The functions divide too.
    let is_call = |pair: &[Tok]| pair[1].token == Token::LParen && (pair[0].is_word("mod") || pair[0].is_word("div"));
    if tokens.windows(2).any(is_call) {
        return None;
    }
    match (zeros.as_slice(), divisors.as_slice()) {
        ([one], _) | ([], [one]) => Some(one.span.start),
        _ => None,
    }
}

/// The sign behind the only such keyword with a negative number.
fn negative(tokens: &[Tok], word: &str) -> Option<Location> {
    let mut signs = tokens.windows(2).filter(|pair| pair[0].is_word(word) && pair[1].token == Token::Minus);
    let sign = signs.next()?;
    signs.next().is_none().then_some(sign[1].span.start)
}

/// Whether a literal is what a cast converts: `CAST('a' AS INT)`, `'a'::INT` or `TIMESTAMP 'a'`. An equal value of a column may fail
/// elsewhere.
fn is_cast(tokens: &[Tok], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map(|at| &tokens[at]);
    let sign = usize::from(before(1).is_some_and(|tok| tok.token == Token::Minus));
    let is_word = |tok: Option<&Tok>, words: &[&str]| tok.is_some_and(|tok| words.iter().any(|word| tok.is_word(word)));
    let next = tokens.get(at + 1);
    next.is_some_and(|tok| tok.token == Token::DoubleColon)
        || is_word(before(1), &["timestamp", "date", "time", "interval"])
        || (is_word(before(2 + sign), &["cast"]) && is_word(next, &["as"]))
}

/// The place of the only token for which `is` holds.
fn only(tokens: &[Tok], is: impl Fn(usize) -> bool) -> Option<Location> {
    let mut found = (0..tokens.len()).filter(|at| is(*at));
    let first = found.next()?;
    found.next().is_none().then_some(tokens[first].span.start)
}

fn number(token: &Token) -> Option<f64> {
    match token {
        Token::Number(digits, _) => digits.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text from the place on, if an error of these words has one.
    fn at_of(sql: &str, message: &str, expected: &str, found: &str) -> Option<String> {
        let error = Error::invalid(message).with("expected", expected).with("found", found);
        let error = locate(error, sql, DoubleQuotes::Identifier);
        let number = |key| error.context(key).map(|text| text.parse::<usize>().unwrap());
        let (line, column) = (number("line")?, number("column")?);
        Some(sql.lines().nth(line - 1).unwrap().chars().skip(column - 1).collect())
    }

    #[test]
    fn a_value_that_occurs_once_has_a_place() {
        let divided = |sql| at_of(sql, "division by zero", "", "");
        assert_eq!(divided("select 1,\n 'ü', 2 / 0 from t").as_deref(), Some("0 from t"));
        assert_eq!(divided("select 4 / 2, v % 0.0").as_deref(), Some("0.0"));
        assert_eq!(divided("select a / b from t").as_deref(), Some("b from t"));
        assert_eq!(divided("select 1 / 0, 2 / 0"), None, "either may be meant");
        assert_eq!(divided("select a / b, b / a from t"), None);
        let cast = |sql| at_of(sql, "this text has no value of the type", "INT", "'a'");
        assert_eq!(cast("select cast('a' as int)").as_deref(), Some("'a' as int)"));
        assert_eq!(cast("select 'a', 'a'::int").as_deref(), Some("'a'::int"));
        assert_eq!(cast("select cast('a' as int), cast('a' as bigint)"), None);
        assert_eq!(cast("select cast(c as int) from t where c = 'a'"), None, "the column has the value too");
        let range = |sql| at_of(sql, "this value is out of the range of the type", "TINYINT", "-300");
        assert_eq!(range("select cast(-300 as tinyint)").as_deref(), Some("300 as tinyint)"));
        let fraction = |sql| at_of(sql, "the fraction of a percentile is out of range", "0 to 1", "1.5");
        assert_eq!(fraction("select f(v, 1.50), 1.25").as_deref(), Some("1.50), 1.25"));
    }

    #[test]
    fn negative_limits_and_missing_parameters_have_a_place() {
        let limit = |sql| at_of(sql, "LIMIT is negative", "0 or more", "-1");
        assert_eq!(limit("select 1 limit -1").as_deref(), Some("-1"));
        assert_eq!(limit("select * from (select 1 limit -1) limit -1"), None);
        assert_eq!(at_of("select 1 offset -2", "OFFSET is negative", "", "-2").as_deref(), Some("-2"));
        let parameters = "invalid parameters of a query: expected one row with one value per parameter";
        assert_eq!(at_of("select ? + 1, ?", parameters, "1 row x 2", "none").as_deref(), Some("? + 1, ?"));
        assert_eq!(at_of("select ? + 1, ?", parameters, "1 row x 2", "1 row x 1").as_deref(), Some("?"));
        assert_eq!(at_of("select ?", "wrong number of parameters", "1", "2"), None);
    }
}
