//! The shape of a SQL query: extracts the literals that its WHERE compares with columns.

use std::fmt::Write as _;

use datafusion::sql::sqlparser::{keywords::Keyword, tokenizer::Token};
use tidelake_protocol::sql::DoubleQuotes;

use super::lex::{self, Tok};
use crate::frontend::shape::{Literal, Shape};

/// Queries with more literals have no shape: such literals are mostly a list, whose length varies too.
const MOST: usize = 64;

/// Keywords that end the WHERE of the outermost query.
const ENDS: [Keyword; 16] = [
    Keyword::SELECT,
    Keyword::FROM,
    Keyword::GROUP,
    Keyword::ORDER,
    Keyword::HAVING,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::FETCH,
    Keyword::UNION,
    Keyword::INTERSECT,
    Keyword::EXCEPT,
    Keyword::WINDOW,
    Keyword::QUALIFY,
    Keyword::PARTITION,
    Keyword::INTERVAL,
    Keyword::CASE,
];

/// The shape of a query without parameters that compares columns with literals in its outermost WHERE; `None` for any other
/// text, valid or not.
pub(super) fn shape(sql: &str, quotes: DoubleQuotes) -> Option<Shape> {
    if !matches!(lex::first_word(sql).as_str(), "SELECT" | "WITH") {
        return None;
    }
    let lexed = lex::lex(sql, quotes).ok().filter(|l| l.parameters == 0)?;
    let tokens = lexed.tokens.as_slice();
    let (mut text, mut literals, mut written) = (String::with_capacity(sql.len()), Vec::new(), 0);
    let mut take = |from: usize, to: usize| {
        let (start, end) = (&tokens[from], &tokens[to]);
        let _ = write!(text, "{}?", &sql[written..start.start]);
        written = end.end;
        literals.push(match &end.token {
            Token::Number(digits, _) if from < to => Literal::Number(format!("-{digits}")),
            Token::Number(digits, _) => Literal::Number(digits.clone()),
            Token::SingleQuotedString(value) => Literal::Text(value.clone()),
            _ => return,
        });
    };
    let (mut depth, mut inside, mut i) = (0_usize, false, 0);
    while i < tokens.len() {
        match &tokens[i].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::Word(word) if word.keyword == Keyword::WHERE => inside = depth == 0,
            Token::Word(word) if ENDS.contains(&word.keyword) => inside = false,
            Token::Word(_) if inside => {
                if let Some(ranges) = compared(tokens, i) {
                    i = ranges.last().map_or(i, |(_, to)| *to);
                    ranges.into_iter().for_each(|(from, to)| take(from, to));
                }
            }
            _ => (),
        }
        i += 1;
    }
    text += &sql[written..];
    (1..=MOST).contains(&literals.len()).then_some(Shape { sql: text, literals })
}

/// The literals (first and last token) that are compared with the column whose name ends at `i`: `name op literal`,
/// `name between literal and literal`, `name in (literal, …)`, each a whole operand of AND, OR, NOT or parentheses.
fn compared(tokens: &[Tok], i: usize) -> Option<Vec<(usize, usize)>> {
    let mut first = i;
    while first >= 2 && tokens[first - 1].token == Token::Period && tokens[first - 2].is_name() {
        first -= 2;
    }
    let keyword = |at: usize, keyword| tokens.get(at).is_some_and(|t| lex::is_keyword(t, keyword));
    let before = first.checked_sub(1)?;
    let opens = [Keyword::WHERE, Keyword::AND, Keyword::OR, Keyword::NOT].iter().any(|k| keyword(before, *k));
    if !opens && tokens[before].token != Token::LParen {
        return None;
    }
    let negated = usize::from(keyword(i + 1, Keyword::NOT));
    let at = i + 1 + negated;
    let mut found = Vec::new();
    let end = match &tokens.get(at)?.token {
        Token::Eq | Token::Neq | Token::Lt | Token::LtEq | Token::Gt | Token::GtEq if negated == 0 => {
            found.push(literal(tokens, at + 1)?);
            found[0].1 + 1
        }
        _ if keyword(at, Keyword::BETWEEN) => {
            found.push(literal(tokens, at + 1)?);
            let and = found[0].1 + 1;
            found.push(keyword(and, Keyword::AND).then(|| literal(tokens, and + 1))??);
            found[1].1 + 1
        }
        _ if keyword(at, Keyword::IN) && tokens.get(at + 1)?.token == Token::LParen => {
            let mut next = at + 2;
            loop {
                found.push(literal(tokens, next)?);
                next = found.last()?.1 + 1;
                match tokens.get(next)?.token {
                    Token::Comma => next += 1,
                    Token::RParen => break next + 1,
                    _ => return None,
                }
            }
        }
        _ => return None,
    };
    let closes = match tokens.get(end).map(|t| &t.token) {
        None | Some(Token::RParen) => true,
        Some(Token::Word(word)) => ENDS.contains(&word.keyword) || matches!(word.keyword, Keyword::AND | Keyword::OR),
        Some(_) => false,
    };
    closes.then_some(found)
}

/// First and last token of the literal that starts at `at`.
fn literal(tokens: &[Tok], at: usize) -> Option<(usize, usize)> {
    match tokens.get(at)?.token {
        Token::Minus => matches!(tokens.get(at + 1)?.token, Token::Number(_, false)).then_some((at, at + 1)),
        Token::Number(_, false) | Token::SingleQuotedString(_) => Some((at, at)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, TimeUnit};
    use chrono_tz::Tz;

    use super::*;

    fn text(sql: &str) -> Option<String> {
        shape(sql, DoubleQuotes::Identifier).map(|s| s.sql)
    }

    #[test]
    fn literals_beside_columns_of_the_outermost_where_are_taken() {
        let takes = |sql: &str, expected: &str| assert_eq!(text(sql).as_deref(), Some(expected), "{sql}");
        takes("select 1 from t where a = 5", "select 1 from t where a = ?");
        takes("SELECT a>1 FROM t WHERE t.a>=-5 AND `b`<>'x''y'\n", "SELECT a>1 FROM t WHERE t.a>=? AND `b`<>?\n");
        takes(
            "select * from t where (a < 1.5 or not b = 'x') and c > 2 order by 1",
            "select * from t where (a < ? or not b = ?) and c > ? order by 1",
        );
        takes(
            "select * from t where h in ('a', 'b') and ts between 1 and 2 limit 3",
            "select * from t where h in (?, ?) and ts between ? and ? limit 3",
        );
        takes("select * from t where h not in (1) interval(1m)", "select * from t where h not in (?) interval(1m)");
        takes(
            "with x as (select 1 where a = 1) select * from x where a = 1",
            "with x as (select 1 where a = 1) select * from x where a = ?",
        );
        takes("select 1 where a = 1 union select 2 where a = 2", "select 1 where a = ? union select 2 where a = ?");
        let quoted = shape("select * from t where \"a\" = \"b\"", DoubleQuotes::Text);
        assert_eq!(quoted, None, "a string is compared with a string");
    }

    #[test]
    fn anything_else_stays_in_the_text() {
        for sql in [
            "select 5 from t",
            "select (select max(a) from t where a > 5) from t",
            "select count(*) filter (where a > 5) from t",
            "select * from t where a + 1 > 5",
            "select * from t where 5 < a",
            "select * from t where a > 5 + 1",
            "select * from t where a > 5::int",
            "select * from t where ts > now - 1h",
            "select * from t where ts > 5h",
            "select * from t where ts > timestamp '2020-01-01'",
            "select * from t where a between 1 and b",
            "select * from t where a in (1, b)",
            "select * from t where a in (select 1 where b = 1)",
            "select * from t where case when a > 5 then b = 1 else c = 2 end",
            "select * from t where a = ? and b = 5",
            "select * from t group by a having a > 5",
            "select * from t where a = 'never closed",
            "explain select * from t where a = 5",
            "insert into t select * from t where a = 5",
            "show tables where a = 5",
        ] {
            assert_eq!(text(sql), None, "{sql}");
        }
        let many = |n: usize| format!("select * from t where a in ({})", vec!["1"; n].join(", "));
        assert!(text(&many(MOST)).is_some());
        assert_eq!(text(&many(MOST + 1)), None);
    }

    #[test]
    fn literals_become_values_only_without_loss() {
        let value = |literal: &str, ty: DataType| {
            let sql = format!("select 1 where a = {literal}");
            shape(&sql, DoubleQuotes::Identifier).unwrap().values(&[ty], Tz::UTC).map(|v| v[0].to_string())
        };
        let ok = |literal: &str, ty: DataType, expected: &str| {
            assert_eq!(value(literal, ty.clone()).as_deref(), Some(expected), "{literal} as {ty}");
        };
        let not = |literal: &str, ty: DataType| assert_eq!(value(literal, ty.clone()), None, "{literal} as {ty}");
        ok("-128", DataType::Int8, "-128");
        not("128", DataType::Int8);
        not("-1", DataType::UInt64);
        not("1.0", DataType::Int32);
        not("'1'", DataType::Int32);
        not("9223372036854775808", DataType::Int64);
        ok("0.5", DataType::Float32, "0.5");
        not("0.1", DataType::Float32);
        ok("0.1", DataType::Float64, "0.1");
        not("9007199254740993", DataType::Float64);
        not("9223372036854775808", DataType::Float64);
        ok("'5'", DataType::Utf8, "5");
        not("5", DataType::Utf8);
        let milli = DataType::Timestamp(TimeUnit::Millisecond, None);
        ok("1500", milli.clone(), "1500");
        ok("'1970-01-01T00:00:01.5Z'", milli.clone(), "1500");
        not("'1970-01-01T00:00:01.0005Z'", milli.clone());
        not("'yesterday'", milli.clone());
        not("1.5", milli);
        not("1", DataType::Boolean);
        let two = shape("select 1 where a = 1 and b = 2", DoubleQuotes::Identifier).unwrap();
        assert_eq!(two.values(&[DataType::Int64], Tz::UTC), None);
    }
}
