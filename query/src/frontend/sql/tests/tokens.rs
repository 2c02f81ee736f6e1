//! Compares the tokens of queries with those of the SQL parser's own tokenizer.

use datafusion::sql::sqlparser::{
    dialect::Dialect,
    tokenizer::{Location, Span, TokenWithSpan, Tokenizer},
};
use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use tidelake_protocol::sql::DoubleQuotes;

use super::super::{lex, *};

/// Tidelake's SQL as a dialect of the parser's tokenizer.
#[derive(Debug)]
struct Reference {
    quotes: DoubleQuotes,
}

impl Dialect for Reference {
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

/// Each token with its lines, columns and bytes; or the error.
type Tokens = std::result::Result<Vec<(Token, Span, usize, usize)>, String>;

fn ours(sql: &str, quotes: DoubleQuotes) -> Tokens {
    let tokens = lex::tokens(sql, quotes).map_err(|e| e.to_string())?;
    Ok(tokens.into_iter().map(|t| (t.token, t.span, t.start, t.end)).collect())
}

fn theirs(sql: &str, quotes: DoubleQuotes) -> Tokens {
    let dialect = Reference { quotes };
    let tokens = Tokenizer::new(&dialect, sql).tokenize_with_location().map_err(|e| {
        lex::at(Error::invalid(format!("syntax error: {}", e.message.to_lowercase())), e.location).to_string()
    })?;
    // The offset of each position, in order.
    let mut offsets = Vec::with_capacity(sql.len() + 1);
    let (mut line, mut column) = (1, 1);
    for (offset, c) in sql.char_indices() {
        offsets.push((line, column, offset));
        (line, column) = if c == '\n' { (line + 1, 1) } else { (line, column + 1) };
    }
    offsets.push((line, column, sql.len()));
    let offset = |place: Location| {
        let key = |of: &(u64, u64, usize)| (of.0, of.1);
        offsets[offsets.binary_search_by_key(&(place.line, place.column), key).unwrap()].2
    };
    let kept = tokens.into_iter().filter(|t| !matches!(t.token, Token::Whitespace(_) | Token::EOF));
    Ok(kept
        .map(|TokenWithSpan { token, span }| {
            let token = match token {
                Token::DoubleQuotedString(text) => Token::SingleQuotedString(text),
                other => other,
            };
            (token, span, offset(span.start), offset(span.end))
        })
        .collect())
}

/// Whether a text may have one of the exceptions of [`exceptions_are_these`].
fn may_be_an_exception(sql: &str, quotes: DoubleQuotes) -> bool {
    let has_escapes = quotes == DoubleQuotes::Text || sql.contains("x'") || sql.contains("X'");
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '#' | '@' | '$');
    let mut rest = sql.chars();
    while let Some(c) = rest.next() {
        let (next, second) = (rest.clone().next().unwrap_or(' '), rest.clone().nth(1).unwrap_or(' '));
        let is = match c {
            '\\' => has_escapes && "0abfZ%_x".contains(next),
            '#' => !is_part(next) && !" ->".contains(next),
            '@' if next == '@' => !is_part(second) && second != ' ',
            '@' => !is_part(next) && !" >?'\"`".contains(next),
            _ => false,
        };
        if is {
            return true;
        }
    }
    false
}

/// Compares the tokens of both. Returns whether they are comparable.
fn compare(sql: &str) -> bool {
    let mut compared = false;
    for quotes in [DoubleQuotes::Text, DoubleQuotes::Identifier] {
        if !may_be_an_exception(sql, quotes) {
            assert_eq!(ours(sql, quotes), theirs(sql, quotes), "{quotes:?}: {sql:?}");
            compared = true;
        }
    }
    compared
}

/// Statements with every kind of token and with near misses.
const STATEMENTS: &[&str] = &[
    "",
    " \t\r\n\x0b\x0c\u{a0}\u{2003}\u{2028} ",
    ";",
    ";;",
    "select 1",
    "select 1;",
    "select 1; select 2",
    "SELECT * FROM t",
    "select\r\n\ta ,\rb\nfrom t",
    "select a.b.c, a . b, `a`.`b`, a.*, a.1, a.1e3",
    "select t._wstart, `t`._x, \"t\"._y from t",
    "select t ._x",
    "select t/**/._x",
    "select 1._x",
    "select )._x",
    "select ._x",
    "select 'a'._x",
    "select $1._x",
    "select _c0, _rowts, __x, _1",
    "select x$y, x#y, x@y, $, a$",
    "select #t, ##t, @v, @@v, @1, #1, @_, #@",
    "# ",
    "#",
    "@",
    "@@",
    "@ @@ # ",
    "a @> b, a <@ b, a @? b, a @@ b, a #> b, a #>> b, a #- b, @'x', @`x`, @\"x\"",
    "select ä, Ünï_1, 日本, ñ$, ª, ß from été",
    "select a\u{300}, \u{300}, ٣, a٣, ½, Ⅷ, ²",
    "select 😀, a😀b",
    "select n, N, x, X, nx, xn, n1, x1, N_, X_",
    "select n'a', N'b''c', n'd\\'e', n 'x'",
    "select n'a",
    "select N\"a\"",
    "select x'00ff', X'00FF', x'', x'zz', x'a\\'b', x 'a', ax'b'",
    "select x'00",
    "select x\"00\"",
    "select 0x00ff, 0xFF, 0x, 0xg, 00x1, 0X1, 10x1, 0x1.5, 0xffL",
    "select e'a\\n', E'a', b'01', B\"01\", r'a', R\"a\", u&'a', U&'\\d041', q'[a]', nq'[a]'",
    "select 0, 1, 01, 123456789012345678901234567890",
    "select 1.5, .5, 1., 1.e5, 1.5e3, 1.5E3, 1.5e-3, 1.5E+3, .5e1, 0.0",
    "select 1e, 1e+, 1e-, 1ex, 1e5x, 1.5e, 1..2, 1.2.3, ..1, ...",
    "select 1L, 1.5L, 1l, 1LL, 1e5L, .5L, .L, L1",
    "select 1_000, 1_, _1, 1.5_0",
    "select 1h, 10s, 1n, 1.5h, 1x, 1h1m, 1 h, 1`h`, 1'h'",
    "select ts - 1h, now - 1d, now+10s",
    "select -1, +1, - 1, --1\n 2",
    "select ''",
    "select 'a', 'a''b', '''', '''a''', 'a'' '",
    "select 'a' 'b'",
    "select 'a\nb', 'a\r\nb'",
    "select 'a\\nb\\tc\\rd', 'a\\\\c', 'a\\'b', 'a\\\"b', 'a\\qb', 'a\\éb', \"a\\'b\\\"c\"",
    "select 'a\\",
    "select 'a\\'",
    "select 'a\\\\'",
    "select 'a\\\nb'",
    "select 'é日😀', 'a\u{300}'",
    "select 'abc",
    "select 'abc\ndef",
    "select '",
    "select \"\"",
    "select \"a\", \"a\"\"b\", \"\"\"\", \"a'b\", 'a\"b'",
    "select \"a\\\"b\"",
    "select \"a\\\\\"",
    "select \"abc",
    "select ``",
    "select `a`, `a``b`, ````, `a b`, `a\\`, `é`, `a\nb`",
    "select `abc",
    "select `",
    "select -- a comment\n 1 -- another",
    "-- only",
    "--",
    "--\n--\r--x\n1",
    "select 1--2",
    "select 1 - -2",
    "select 1 -/**/-2",
    "/**/",
    "/* a */ select /* b /* c */ d */ 1",
    "/*/ */ 1",
    "/*/**/ 1 */ 2",
    "/***/ 1 /* ' */ 2 /* \" */ 3 /* -- */ 4",
    "/* a",
    "/* a /* b */",
    "select 1 /*",
    "/",
    "*/",
    "a//b",
    "a/b, a / b, a /-- c\nb",
    "select ?, ?, ?",
    "select ?1, ?22, ?a, ??, ?½",
    "select $1, $2, $1",
    "select $0, $a, $_a, $é, $, $1a",
    "select $$a$$, $$$$, $$a$b$$, $$ 'x' $$, $$$a$$, $$a$$$",
    "select $t$a$t$, $t$$t$, $t$a$b$t$, $t$ $$ $t$, $t$a$T$ $t$, $1$x$1$, $é$x$é$",
    "select $$a",
    "select $$",
    "select $$a$",
    "select $t$a",
    "select $t$a$t",
    "select a$1$b, a$$b$$",
    "select (1), ((1)), ( )",
    "select [1, 2][1], {a: 1}, {}",
    "select a::int, a :: int, a:b, a:=1, :a, ::, :::",
    "select a = b, a == b, a => b, a === b, a =! b",
    "select a <> b, a != b, a < b, a <= b, a > b, a >= b, a <=> b",
    "select a<b, a<-b, a<+b, a<=-1, a<=+1, a>=-1, a>-1, a<>-1, a!=-1, a=-1",
    "select a << b, a >> b, a <<= b, a >>> b, a <> > b",
    "select a -> b, a ->> b, a->'b'->>'c', a ->>> b, a-->b\n",
    "select a || b, a | b, |/ a, ||/ a, a ||| b, a |> b, a |& b",
    "select a & b, a && b, a &&& b, a &< b, a &> b",
    "select a ^ b, a ^@ b, a ^^ b",
    "select a % b, a%b, a%%b, %a, %",
    "select ~a, a ~ b, a ~* b, a ~~ b, a ~~* b, a ~= b, a ~~~ b, a ~-b",
    "select !a, !!a, a !~ b, a !~* b, a !~~ b, a !~~* b, a !!! b, a !- b",
    "select a + b, a ++ b, a * b, a ** b, a *+ b",
    "select a \\ b, \\, \\.",
    "select a \u{0} b",
    "select \u{1}, \u{7f}, \u{feff}1",
    "select a–b, a‘b’, a，b",
    "select \u{85}1\u{85}, \u{3000}1, \u{200b}1",
    "select * from db.devices where devgroup=0;",
    "select count(temperature), sum(temperature) from db.devices where devgroup<10 interval(1m);",
    "select _wstart, avg(x) from t where ts >= '2024-01-01' and ts < now interval(1d, 6h) sliding(1h) fill(value, 0)",
    "select last(*) from t partition by tbname interval(10s) fill(prev) order by 1 desc limit 5 offset 2",
    "select tags tbname, g from s",
    "select percentile(x, 95), apercentile(x, 50.5, 't-digest') from t",
    "select case when a > 1 then 'x' else \"y\" end from t",
    "select distinct a, b from t where not (a in (1, 2, 3) or b like 'x%') and c is not null",
    "select * from t where a between -1 and +1.5e3",
    "select cast(a as varchar(20)), try_cast(a as bigint) from t",
    "select timestamp '2020-01-01T00:00:00Z', date '2020-01-01', interval '1 day'",
    "select * from a join b on a.ts = b.ts left join c using (ts)",
    "select * from t where a = ? and b = ? limit ?",
    "select * from t where a = $1 and b = $2 limit $3",
    "with x as (select 1 as a), y as (select * from x) select * from y union all select 2",
    "select row_number() over (partition by a order by b rows between 1 preceding and current row) from t",
    "select first_value(a) filter (where b > 1) from t group by grouping sets ((a), (b), ())",
    "select unnest([1,2,3]), make_array(1, 2)[1], {'a': 1}['a']",
    "select extract(year from ts), ts at time zone 'UTC' from t",
    "select substring('abc' from 1 for 2), position('a' in 'b'), trim(both ' ' from a)",
    "select j->'a', j->>'a', j contains 'a' from t",
    "select exists (select 1), a > all (select b from t)",
    "values (1, 'a'), (2, 'b')",
    "table t",
    "from t select a",
    "from t",
    "explain select 1",
    "explain analyze verbose select 1",
    "show databases",
    "show db.stables like 'x%'",
    "show create table `db`.`t`",
    "show tags from t",
    "show variables like \"x\"",
    "describe db.t",
    "desc `T`",
    "insert into d1 using s tags ('x', 1) values (now, 1.5, 'a', null) (now + 1s, -2e-3, \"b\", true)",
    "insert into ? using s tags (?, ?) values (?, ?)",
    "insert into t (ts, a) values ('2020-01-01 00:00:00.000', 0x1f), (1563249700000, 0b101)",
    "create database if not exists d keep 365d,730d precision 'us'",
    "create stable s (ts timestamp, v float) tags (g int, name binary(20))",
    "create table d1 using s tags (1, 'a') d2 using s tags (2, 'b')",
    "alter table d1 set tag g = 2, name = 'é'",
    "alter user ada limit queries 4, memory '512MiB', time 30s",
    "create user ada password 'it''s'",
    "create token t for u with write on w1.* expires in 90d",
    "grant all on db.* to ada",
    "delete from t where ts < '2020-01-01' and g = 1",
    "delete from t where ts >= now - 10d and (a <> 'x' or b != 2)",
    "drop table if exists db.t, db.u",
    "use db;",
    "kill query '1a2b'",
    "give up 'log/W/1'",
    "copy t to 'x'",
    "set time_zone = 'UTC'",
];

#[test]
fn statements_have_the_tokens_of_the_parsers_own_tokenizer() {
    STATEMENTS.iter().for_each(|sql| assert!(compare(sql), "an exception: {sql:?}"));
    // The statements of the other tests and of the manual, and each beginning of them.
    let texts = [include_str!("answers.rs"), include_str!("faults.rs"), include_str!("fill.rs")];
    let quoted = texts.iter().flat_map(|text| text.lines()).flat_map(|line| line.split('"').skip(1).step_by(2));
    let manual = include_str!("../../../../../docs/sql.md");
    let mut count = 0;
    for sql in quoted.chain(manual.split('`').skip(1).step_by(2)).chain(manual.lines()) {
        let ends = sql.char_indices().map(|(end, _)| end);
        count += ends.chain([sql.len()]).filter(|end| compare(&sql[..*end])).count();
    }
    assert!(count > 20_000, "{count}");
}

/// The pieces of random texts.
const FRAGMENTS: &[&str] = &[
    "'", "'", "'", "\"", "\"", "`", "`", "''", "\"\"", "``", "\\", "\\\\", "\\'", "\\\"", "\\n", "\\é", "n'", "N'",
    "x'", "X'", "e'", "b'", "u&'", "--", "--x\n", "/*", "/*", "*/", "*/", "/", "*", " ", " ", " ", "\n", "\r", "\r\n",
    "\t", "\u{a0}", "\u{2028}", "\u{85}", ";", ",", "(", ")", "[", "]", "{", "}", ".", ".", "..", "._", "._x", "_",
    "0", "1", "12", "0x", "0xf", "1.5", ".5", "1.", "1e5", "1e", "e-3", "E+", "1h", "L", "l", "?", "?1", "$", "$",
    "$$", "$1", "$t$", "$é$", "@", "@v", "@@v", "@>", "@?", "#t", "#-", "#>", "#>>", "# ", "a", "select", "Ab_1", "x",
    "n", "é", "日", "😀", "٣", "½", "ⅷ", "\u{300}", "+", "-", "->", "->>", "=", "==", ">", "<", "!", "~", "~*", "|",
    "&", "^", ":", "%", "\0", "\u{7f}",
];

#[test]
fn texts_of_any_kind_have_the_tokens_of_the_parsers_own_tokenizer() {
    let seed = std::env::var("TIDELAKE_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let rounds = std::env::var("TIDELAKE_FUZZ").ok().and_then(|s| s.parse().ok()).unwrap_or(40_000);
    let mut random = StdRng::seed_from_u64(seed);
    let (mut compared, mut read) = (0, 0);
    for _ in 0..rounds {
        let length = random.random_range(1..14);
        let sql: String = (0..length).map(|_| *FRAGMENTS.choose(&mut random).unwrap()).collect();
        compared += usize::from(compare(&sql));
        read += usize::from(ours(&sql, DoubleQuotes::Text).is_ok());
    }
    assert!(compared * 2 > rounds && read * 5 > rounds, "of {rounds}, {compared} compared and {read} read");
}

/// The intended differences of the tokens.
#[test]
fn exceptions_are_these() {
    let tokens = |tokens: Tokens| tokens.unwrap().into_iter().map(|t| t.0.to_string()).collect::<Vec<_>>();
    // All statements have the same escapes, so that a query finds what an INSERT with the same literal wrote. The backslash
    // before `%` and `_` is part of patterns, the one before `x` of VARBINARY values.
    for (sql, own, other) in
        [(r"'\%\_\x0a'", r"'\%\_\x0a'", "'%_x0a'"), (r"'\0\a\b\f\Z'", "'0abfZ'", "'\0\u{7}\u{8}\u{c}\u{1a}'")]
    {
        assert_eq!(tokens(ours(sql, DoubleQuotes::Text)), [own]);
        assert_eq!(tokens(theirs(sql, DoubleQuotes::Text)), [other]);
    }
    // `#` and `@` begin a word only if letters, digits or `_ # @ $` follow. The parser's tokenizer takes any character into the
    // word, and so loses a bracket or a quote.
    for (sql, own, other) in [
        ("#(a)", vec!["#", "(", "a", ")"], vec!["#(a", ")"]),
        ("@(a)", vec!["@", "(", "a", ")"], vec!["@(a", ")"]),
        ("@@(a)", vec!["@@", "(", "a", ")"], vec!["@@(a", ")"]),
        ("#'a'", vec!["#", "'a'"], vec![]),
        ("#\n", vec!["#"], vec!["#\n"]),
    ] {
        assert_eq!(tokens(ours(sql, DoubleQuotes::Identifier)), own, "{sql:?}");
        match theirs(sql, DoubleQuotes::Identifier) {
            Ok(words) => assert_eq!(tokens(Ok(words)), other, "{sql:?}"),
            Err(e) => assert!(e.contains("unterminated") && other.is_empty(), "{sql:?}: {e}"),
        }
    }
}
