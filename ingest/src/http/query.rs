//! The database statements that InfluxDB's write clients send to `/query`: CREATE, DROP and SHOW DATABASES.

use axum::{
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, Uri, header},
    response::Response,
};
use serde_json::{Value, json};
use tidelake_format::{Error, Kind, Result, schema::Database};
use tidelake_protocol::{
    http::{
        Api,
        routes::{MAX_FORM_BYTES, QUERY_POST},
    },
    sql::{self, CreateDatabase},
};

use super::{
    Door,
    body::{self, Fault},
    reply::{self, Parameters},
};
use crate::write::Ingest;

/// Most statements in one request: each statement refreshes the catalog.
const MAX_STATEMENTS: usize = 1_000;
/// Accepted values of `epoch`; the empty one means RFC 3339.
const EPOCHS: [&str; 10] = ["", "n", "ns", "u", "us", "µ", "ms", "s", "m", "h"];

/// A statement that `/query` supports.
#[derive(Debug, PartialEq, Eq)]
enum Statement {
    /// The database name, and whether WITH gives options.
    Create(String, bool),
    Drop(String),
    Show,
}

/// Whether a request may change data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Change,
}

impl Statement {
    /// Warnings about the statement, in the form of InfluxDB's `messages`.
    fn messages(&self) -> Option<Value> {
        let text = "options of WITH are not supported and were ignored; set the retention with ALTER DATABASE … KEEP";
        matches!(self, Statement::Create(_, true)).then(|| json!([{ "level": "warning", "text": text }]))
    }
}

/// `GET /query?q=…`: read-only, because any web page can make a browser send a GET.
pub(super) async fn get(Door(ingest): Door, uri: Uri) -> Response {
    let parameters = Parameters::of(&uri);
    match check(&parameters) {
        Ok(()) => run(&ingest, parameters.get("q"), Access::Read).await,
        Err(error) => refused(StatusCode::BAD_REQUEST, &error),
    }
}

/// `POST /query`; `q` is in the URL or in a form.
pub(super) async fn post(Door(ingest): Door, uri: Uri, headers: HeaderMap, body: Body) -> Response {
    let form = match body::read(&ingest, &headers, body, MAX_FORM_BYTES).await {
        Ok((form, _)) => form,
        Err(Fault::TooLarge { limit }) => {
            let error = Error::invalid(format!("the form is larger than {limit} bytes"));
            return refused(StatusCode::PAYLOAD_TOO_LARGE, &error);
        }
        Err(Fault::Error(error)) => return refused(Api::Influx1.status(error.kind()), &error),
    };
    let form = String::from_utf8_lossy(&form);
    let (in_url, in_form) = (Parameters::of(&uri), Parameters::read(form.trim()));
    if let Err(error) = check(&in_url).and_then(|()| check(&in_form)) {
        return refused(StatusCode::BAD_REQUEST, &error);
    }
    run(&ingest, in_url.get("q").or_else(|| in_form.get("q")), Access::Change).await
}

/// # Errors
/// Invalid for a parameter that no InfluxDB 1 client sends, and for an unknown unit.
fn check(parameters: &Parameters<'_>) -> Result<()> {
    parameters.check(&QUERY_POST)?;
    let epoch = parameters.get("epoch").unwrap_or_default();
    if EPOCHS.contains(&epoch) {
        return Ok(());
    }
    Err(Error::invalid("invalid epoch").with("expected", "n, ns, u, us, µ, ms, s, m or h").with("found", epoch))
}

async fn run(ingest: &Ingest, text: Option<&str>, access: Access) -> Response {
    let Some(text) = text.filter(|q| !q.trim().is_empty()) else {
        return refused(StatusCode::BAD_REQUEST, &Error::invalid("missing required parameter \"q\""));
    };
    let statements = match parse(text) {
        Ok(statements) => statements,
        Err(error) => {
            let error = Error::invalid(format!("error parsing query: {error}"));
            return refused(StatusCode::BAD_REQUEST, &error);
        }
    };
    if access == Access::Read && statements.iter().any(|statement| *statement != Statement::Show) {
        let error = Error::invalid("GET is read-only; send CREATE DATABASE and DROP DATABASE by POST");
        let mut response = refused(StatusCode::METHOD_NOT_ALLOWED, &error);
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    let mut results = Vec::new();
    for (id, statement) in statements.into_iter().enumerate() {
        let messages = statement.messages();
        match execute(ingest, statement).await {
            Ok(series) => {
                let mut result = json!({ "statement_id": id });
                if let Some(series) = series {
                    result["series"] = json!([series]);
                }
                if let Some(messages) = messages {
                    result["messages"] = messages;
                }
                results.push(result);
            }
            Err(error) if error.kind().is_retryable() || matches!(error.kind(), Kind::Internal | Kind::Corrupt) => {
                return refused(Api::Influx1.status(error.kind()), &error);
            }
            Err(error) => {
                results.push(json!({ "statement_id": id, "error": error.to_string() }));
                break;
            }
        }
    }
    reply::json(StatusCode::OK, &json!({ "results": results }))
}

async fn execute(ingest: &Ingest, statement: Statement) -> Result<Option<Value>> {
    match statement {
        Statement::Create(name, _) => {
            let precision = Some(ingest.config().auto_precision);
            let create = CreateDatabase {
                name,
                if_not_exists: true,
                precision,
                keep_ms: Some(Database::LONGEST_KEEP_MS),
                partition_ms: None,
                ignored: Vec::new(),
            };
            ingest.execute_parsed(sql::Statement::CreateDatabase(create)).await?;
            Ok(None)
        }
        Statement::Drop(name) => {
            ingest.execute_parsed(sql::Statement::DropDatabase { name, if_exists: true }).await?;
            Ok(None)
        }
        Statement::Show => {
            let catalog = ingest.root().refresh().await?;
            let known = catalog.databases().filter(|d| ingest.principal().knows(d));
            let names: Vec<Value> = known.map(|d| json!([d.name])).collect();
            Ok(Some(json!({ "name": "databases", "columns": ["name"], "values": names })))
        }
    }
}

/// Reads statements separated by semicolons.
fn parse(text: &str) -> Result<Vec<Statement>> {
    let mut words = Words { rest: text };
    let mut statements = Vec::new();
    loop {
        while words.skip(";") {}
        if words.is_empty() {
            break;
        }
        let statement = if words.skip("create") {
            words.expect("database")?;
            let name = words.name()?;
            let has_options = words.skip("with");
            if has_options {
                while !words.is_empty() && !words.rest.trim_start().starts_with(';') {
                    words.name()?; // retention and replication are not configurable here
                }
            }
            Statement::Create(name, has_options)
        } else if words.skip("drop") {
            words.expect("database")?;
            if words.skip("if") {
                words.expect("exists")?;
            }
            Statement::Drop(words.name()?)
        } else if words.skip("show") {
            if !words.skip("databases") {
                let instead = "POST /api/v1/sql with SQL: SHOW STABLES, SHOW TABLES or DESCRIBE table";
                return Err(words.unexpected("DATABASES").with("use", instead));
            }
            Statement::Show
        } else {
            let expected = "CREATE DATABASE, DROP DATABASE or SHOW DATABASES";
            return Err(words.unexpected(expected).with("use", "POST /api/v1/sql with SQL: InfluxQL is not supported"));
        };
        if !words.is_empty() && !words.skip(";") {
            return Err(words.unexpected(";"));
        }
        statements.push(statement);
        if statements.len() > MAX_STATEMENTS {
            let error = Error::invalid("the request has too many statements; send them in several requests");
            return Err(error.with("limit", MAX_STATEMENTS));
        }
    }
    if statements.is_empty() {
        return Err(words.unexpected("a statement"));
    }
    Ok(statements)
}

/// Splits a text into words.
struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    fn is_empty(&self) -> bool {
        self.rest.trim_start().is_empty()
    }

    /// The next word: a run of letters, digits and underscores, or one other character.
    fn peek(&self) -> &'a str {
        let rest = self.rest.trim_start();
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let first = rest.chars().next().map_or(0, char::len_utf8);
        &rest[..word.max(first)]
    }

    fn skip(&mut self, word: &str) -> bool {
        let found = self.peek();
        let same = !found.is_empty() && found.eq_ignore_ascii_case(word);
        if same {
            self.rest = &self.rest.trim_start()[found.len()..];
        }
        same
    }

    fn expect(&mut self, word: &str) -> Result<()> {
        if self.skip(word) { Ok(()) } else { Err(self.unexpected(&word.to_ascii_uppercase())) }
    }

    /// A name, bare or in double quotes with backslash escapes.
    fn name(&mut self) -> Result<String> {
        let rest = self.rest.trim_start();
        let Some(quoted) = rest.strip_prefix('"') else {
            let word = self.peek();
            if word.is_empty() || word == ";" {
                return Err(self.unexpected("identifier"));
            }
            self.rest = &rest[word.len()..];
            return Ok(word.to_owned());
        };
        let (mut name, mut escaped) = (String::new(), false);
        for (i, c) in quoted.char_indices() {
            match c {
                '"' if !escaped => {
                    self.rest = &quoted[i + 1..];
                    return Ok(name);
                }
                '\\' if !escaped => escaped = true,
                _ => {
                    name.push(c);
                    escaped = false;
                }
            }
        }
        Err(Error::invalid("unterminated quoted identifier").with("found", rest))
    }

    fn unexpected(&self, expected: &str) -> Error {
        let found = match self.peek() {
            "" => "EOF",
            word => word,
        };
        Error::invalid(format!("found {found}, expected {expected}"))
    }
}

fn refused(status: StatusCode, error: &Error) -> Response {
    Api::Influx1.answer_as(status, error).map(Body::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_known_clients_are_parsed() {
        let create = |name: &str| Statement::Create(name.to_owned(), false);
        let ignoring = |name: &str| Statement::Create(name.to_owned(), true);
        for (text, statements) in [
            (r#"CREATE DATABASE "telegraf""#, vec![create("telegraf")]),
            ("CREATE DATABASE x WITH REPLICATION 1", vec![ignoring("x")]),
            ("create database x with duration 7d name \"a b\"; show databases;", vec![ignoring("x"), Statement::Show]),
            ("drop database x", vec![Statement::Drop("x".into())]),
            (r#"DROP DATABASE IF EXISTS "a\"b""#, vec![Statement::Drop("a\"b".into())]),
            ("SHOW DATABASES", vec![Statement::Show]),
        ] {
            assert_eq!(parse(text).unwrap(), statements, "{text}");
        }
    }

    #[test]
    fn other_statements_are_refused_with_the_word_found() {
        for (text, found) in [
            ("SELECT * FROM cpu", "found SELECT"),
            ("CREATE TABLE x", "found TABLE, expected DATABASE"),
            ("CREATE DATABASE", "found EOF, expected identifier"),
            ("SHOW DATABASES x", "found x, expected ;"),
            (";", "found EOF"),
            ("CREATE DATABASE \"x", "unterminated"),
            ("é", "found é"),
            (&"SHOW DATABASES;".repeat(MAX_STATEMENTS + 1), "too many statements"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().contains(found), "{text}: {error}");
        }
        assert_eq!(parse(&"SHOW DATABASES;".repeat(MAX_STATEMENTS)).unwrap().len(), MAX_STATEMENTS);
    }
}
