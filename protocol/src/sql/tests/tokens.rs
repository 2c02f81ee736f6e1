//! The tokens of whole statements, and that other statements read the same ones.

use super::*;

fn kinds(sql: &str) -> Vec<TokenKind<'_>> {
    Tokens::new(sql, DoubleQuotes::Text).map(|token| token.unwrap().kind).collect()
}

#[test]
fn each_sign_is_the_longest_that_is_there() {
    const SIGNS: &str = "( ) , . ; = == <> != < <= > >= <=> + - * / % || : :: := => -> ->> @> <@ @? @@ @ # #- #> #>> ~ ~* ~~ \
                         ~~* ! !! !~ !~* !~~ !~~* & && | |/ ||/ ^ ^@ << >> [ ] { } \\";
    let signs: Vec<_> = SIGNS.split_whitespace().map(TokenKind::Sign).collect();
    assert_eq!(kinds(SIGNS), signs);
    // Beside words and numbers the spaces are not needed.
    for sign in SIGNS.split_whitespace().filter(|sign| !matches!(*sign, "." | "#" | "@" | "@@")) {
        let sql = format!("`a`{sign}b");
        assert_eq!(
            kinds(&sql),
            [TokenKind::Name("a".into(), '`'), TokenKind::Sign(sign), TokenKind::Word("b")],
            "{sql}"
        );
    }
}

#[test]
fn tokens_know_their_places_and_borrow_their_text() {
    let sql = "é /* é */ 'a''b' \"ab\" 1.5e3L";
    let tokens: Vec<_> = Tokens::new(sql, DoubleQuotes::Text).map(Result::unwrap).collect();
    let texts: Vec<_> = tokens.iter().map(|token| &sql[token.start..token.end]).collect();
    assert_eq!(texts, ["é", "'a''b'", "\"ab\"", "1.5e3L"]);
    assert_eq!(tokens[1].kind, TokenKind::Text("a'b".into()));
    assert!(matches!(tokens[2].kind, TokenKind::Text(std::borrow::Cow::Borrowed("ab"))));
    assert_eq!(tokens[3].kind, TokenKind::Number { digits: "1.5e3", is_long: true });
}

#[test]
fn nothing_follows_what_cannot_be_read() {
    for (sql, at, says) in [
        ("a 'b", 2, "string"),
        ("a n'b", 3, "string"),
        ("a `b", 2, "close delimiter '`'"),
        ("a /* b", 6, "comment"),
        ("a $$b", 5, "dollar"),
        ("a $t$b", 6, "dollar"),
        ("1 ._b", 2, "'_'"),
    ] {
        let mut tokens = Tokens::new(sql, DoubleQuotes::Text).skip(1);
        let unreadable = tokens.next().unwrap().unwrap_err();
        assert!(unreadable.at == at && unreadable.message.contains(says), "{sql}: {unreadable:?}");
        assert_eq!(tokens.next(), None, "{sql}");
    }
}

#[test]
fn a_comment_that_is_not_closed_is_refused_in_every_statement() {
    for sql in [
        "delete from t where ts < 5 /* and dev = 'a'",
        "delete from t where ts < 5 /* and /* dev */ = 'a'",
        "delete from t /*",
        "drop table t /* x",
        "drop table t; /* x",
        "use d /*",
        "create database d /* keep 30",
        "grant read on d.* to u /*",
    ] {
        let error = parse(sql).unwrap_err();
        assert!(error.kind() == Kind::Invalid && error.to_string().contains("unclosed comment"), "{sql}: {error}");
    }
    parse("drop table t -- to the end").unwrap();
    parse("drop table t /* /* x */ */").unwrap();
}

#[test]
fn blanks_are_the_same_for_every_statement_and_words_of_definitions_are_ascii() {
    let sql = "delete\u{a0}from\u{3000}t\u{85}where\x0bx\x0c== 1";
    assert!(matches!(parse(sql).unwrap(), Statement::Delete(_)));
    for sql in ["use é", "use dé", "use d#", "use d@", "use\u{200b}d", "delete from t where x => 1"] {
        assert_eq!(parse(sql).unwrap_err().kind(), Kind::Invalid, "{sql}");
    }
    assert_eq!(parse("use `dé`").unwrap(), Statement::Use("dé".into()));
}
