//! Clauses of other systems after FROM, which the parser would take for an alias or refuse without a reason.

use datafusion::sql::sqlparser::{keywords::Keyword, tokenizer::Token};
use tidelake_format::Error;

use super::super::lex::{Tok, duration_at, is_keyword};

/// The error of a clause of another system that begins at `tokens[i]`, behind a table or a condition; `None` where none does.
pub(crate) fn refuse(tokens: &[Tok], i: usize) -> Option<Error> {
    let next = tokens.get(i + 1);
    let next_is = |word: &str| next.is_some_and(|t| t.is_word(word));
    let next_is_number = next.is_some_and(|t| matches!(t.token, Token::Number(..)));
    let next_is_text = next.is_some_and(|t| matches!(t.token, Token::SingleQuotedString(_)));
    let next_is_paren = next.is_some_and(|t| t.token == Token::LParen);
    let unsupported = |message: &str, instead: &str| Some(Error::unsupported(message).with("use", instead));
    let tok = &tokens[i];
    if tok.is_word("sample") && next_is("by") {
        let width = match (duration_at(tokens, i + 2), tokens.get(i + 3)) {
            (Some((number, _)), Some(Tok { token: Token::Word(unit), .. })) => format!("{number}{}", unit.value),
            _ => "1m".to_owned(),
        };
        let instead = format!("INTERVAL({width}), with _wstart as the time");
        return unsupported("SAMPLE BY is not a clause of this SQL", &instead);
    }
    if (tok.is_word("sample") || tok.is_word("tablesample")) && (next_is_number || next_is("bernoulli"))
        || tok.is_word("tablesample")
        || tok.is_word("using") && next_is("sample")
    {
        return unsupported("sampling is not supported", "WHERE random() < 0.1");
    }
    // `JOIN (…) latest ON …` names a subquery.
    let joins = tokens[..i].iter().rev().take_while(|t| !is_keyword(t, Keyword::SELECT));
    let is_joined = joins.filter(|t| is_keyword(t, Keyword::JOIN)).count() > 0;
    if tok.is_word("latest") && (next_is("by") || next_is("on") && !is_joined) {
        let instead = "SELECT tag, last_row(field) … GROUP BY tag";
        return unsupported("LATEST ON and LATEST BY are not supported", instead);
    }
    if ["asof", "splice"].iter().any(|word| tok.is_word(word)) && next.is_some_and(|t| is_keyword(t, Keyword::JOIN)) {
        let instead = "JOIN on equal times, such as date_bin(INTERVAL '1 minute', ts), or last(field) … WHERE ts <= …";
        return unsupported("joins on the nearest time are not supported", instead);
    }
    let then_is_text = tokens.get(i + 2).is_some_and(|t| matches!(t.token, Token::SingleQuotedString(_)));
    if tok.is_word("tz") && next_is_paren && then_is_text {
        return unsupported("TZ(…) is not a clause of this SQL", "the parameter tz of the request");
    }
    if (tok.is_word("match") || tok.is_word("nmatch")) && next_is_text {
        let operator = if tok.is_word("match") { "~" } else { "!~" };
        return unsupported(
            "MATCH and NMATCH are not operators of this SQL",
            &format!("{operator} 'regular expression'"),
        );
    }
    if tok.is_word("in") && next_is_text {
        let instead = "IN ('…', …), or ts >= '2026-01-01' AND ts < '2026-02-01' for a span of time";
        let found = next.map_or(String::new(), |t| format!("IN {}", t.token));
        return Some(Error::invalid("IN takes a list in parentheses").with("found", found).with("use", instead));
    }
    None
}
