//! What quotes mean in each dialect.

use super::*;

const TEXT: DoubleQuotes = DoubleQuotes::Text;
const NAME: DoubleQuotes = DoubleQuotes::Identifier;

/// The one subtable that a statement declares and its one tag.
fn declared(sql: &str, quotes: DoubleQuotes) -> Result<(String, String), Error> {
    match super::super::parse(sql, quotes)?.expect("no query") {
        Statement::CreateSubtables(mut all) => {
            let one = all.remove(0);
            let Literal::Text(text) = one.values[0].clone() else { panic!("{:?}", one.values) };
            Ok((one.table.name, text))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_backslash_is_an_escape_where_double_quotes_hold_texts_and_itself_where_they_hold_names() {
    for (literal, as_text, as_name) in [
        (r"'it''s'", "it's", "it's"),
        (r"''", "", ""),
        (r"''''", "'", "'"),
        (r#"'say "x"'"#, r#"say "x""#, r#"say "x""#),
        (r"'a\\b'", r"a\b", r"a\\b"),
        (r"'a\b'", "ab", r"a\b"),
        (r"'C:\new'", "C:\new", r"C:\new"),
        (r"'\\'", r"\", r"\\"),
        (r"'\x0aff'", r"\x0aff", r"\x0aff"),
        (r"'50\%'", r"50\%", r"50\%"),
    ] {
        let sql = format!("create table d using s tags ({literal})");
        assert_eq!(declared(&sql, TEXT).unwrap().1, as_text, "{sql}");
        assert_eq!(declared(&sql, NAME).unwrap().1, as_name, "{sql}");
    }
    // A backslash before the last quote is the text's last character, or hides the quote.
    let sql = r"create table d using s tags ('a\')";
    assert_eq!(declared(sql, NAME).unwrap().1, r"a\");
    assert!(declared(sql, TEXT).unwrap_err().to_string().contains("a closing quote"));
    let sql = r"create table d using s tags ('a\'b')";
    assert_eq!(declared(sql, TEXT).unwrap().1, "a'b");
    assert!(declared(sql, NAME).is_err());
}

#[test]
fn double_quotes_hold_texts_or_names() {
    let sql = r#"create table d using s tags ("a""b")"#;
    assert_eq!(declared(sql, TEXT).unwrap().1, r#"a"b"#);
    let error = declared(sql, NAME).unwrap_err().to_string();
    assert!(error.contains("a text in single quotes"), "{error}");
    let sql = r#"create table "My ""D""" using "S" tags ('x')"#;
    assert_eq!(declared(sql, NAME).unwrap().0, r#"My "D""#);
    assert!(declared(sql, TEXT).is_err());
    let sql = r#"delete from "T" where "Ts" < 3 and "g" = 'x'"#;
    let Some(Statement::Delete(delete)) = super::super::parse(sql, NAME).unwrap() else { panic!() };
    assert_eq!(delete.table.name, "T");
    assert_eq!(
        delete.filter.unwrap(),
        Predicate::And(vec![
            Predicate::Compare { column: "Ts".into(), op: Comparison::Less, value: Literal::Bare("3".into()) },
            Predicate::Compare { column: "g".into(), op: Comparison::Equal, value: Literal::Text("x".into()) },
        ])
    );
    let unterminated = super::super::parse(r#"use "x"#, NAME).unwrap_err().to_string();
    assert!(unterminated.contains("a closing '\"'"), "{unterminated}");
}
