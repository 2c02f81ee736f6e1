//! Statements with their text, passed from the query path to the write path.

use std::sync::Arc;

use tidelake_format::Result;

use super::{AccessStatement, DoubleQuotes, Statement, parameters, parse};

/// A parsed statement that is not a query, with its text. The write path identifies a repeated request by the text and
/// reads the values of an INSERT from it.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    text: Arc<str>,
    statement: Statement,
}

impl Update {
    /// Parses a statement; `None` for a query.
    ///
    /// # Errors
    /// As [`parse`].
    pub fn parse(text: &str, quotes: DoubleQuotes) -> Result<Option<Self>> {
        Ok(parse(text, quotes)?.map(|statement| Self { text: text.into(), statement }))
    }

    /// The statement's text.
    pub fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The parsed statement.
    pub fn statement(&self) -> &Statement {
        &self.statement
    }

    /// Number of parameters: the number of `?`, or the highest `$n`. Only INSERT and DELETE have parameters.
    pub fn parameters(&self) -> usize {
        match &self.statement {
            Statement::Insert(insert) => parameters::count(&self.text, insert.quotes),
            Statement::Delete(delete) => delete.parameters,
            _ => 0,
        }
    }

    /// Whether the result is the text of a new token instead of a number of rows.
    pub fn creates_token(&self) -> bool {
        matches!(self.statement, Statement::Access(AccessStatement::CreateToken { .. }))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn parameters_are_counted_outside_quotes_and_comments() {
        for (sql, quotes, expected) in [
            ("insert into dev1 using devices tags(1,'d?',0) values(?, ?, '?')", DoubleQuotes::Identifier, 2),
            ("/* ? /* ? */ ? */ -- ?\n  INSERT INTO t VALUES (\"?\", `?`, ?)", DoubleQuotes::Identifier, 1),
            (r"insert into t values ('o\'?', ?)", DoubleQuotes::Text, 1),
            ("insert into t values ($2, $1, a$9)", DoubleQuotes::Text, 2),
            ("delete from d where ts < ?", DoubleQuotes::Text, 1),
            ("create table devices(ts timestamp, t int) tags(x int)", DoubleQuotes::Text, 0),
            ("use d", DoubleQuotes::Text, 0),
        ] {
            let update = Update::parse(sql, quotes).unwrap().unwrap();
            assert_eq!((update.parameters(), update.text().as_ref()), (expected, sql), "{sql}");
        }
    }

    #[test]
    fn queries_are_no_updates() {
        for sql in [
            "select ? where ? > 'a?'",
            "(select 1)",
            "with x as (select 1) select * from x",
            "explain select 1",
            "desc t",
        ] {
            assert_eq!(Update::parse(sql, DoubleQuotes::Text).unwrap(), None, "{sql}");
        }
    }

    #[test]
    fn of_all_statements_create_token_has_a_text_as_its_result() {
        let creates_token = |sql| Update::parse(sql, DoubleQuotes::Text).unwrap().unwrap().creates_token();
        assert!(creates_token("/* x */ create token t for ada"));
        assert!(!creates_token("create user token password 'secret-secret'") && !creates_token("drop token t"));
    }
}
