//! Runs `tests/sql/*.slt`: statements of the dialect with answers that DuckDB gives, or that a reader computes by hand.
//!
//! Each file has a server and a database of its own. Values are those of the CSV answer; types are those of the JSON answer.

use std::{fmt, fs, path::Path};

use async_trait::async_trait;
use reqwest::Client;
use serde_json::Value;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType as Column, Runner, strict_column_validator};
use tidelake_tests::Server;

/// The database of a file's statements.
const DATABASE: &str = "slt";

/// A connection to a server.
struct Database {
    client: Client,
    url: String,
}

/// The text of a refusal or of a failed request.
#[derive(Debug)]
struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl Database {
    async fn answer(&self, sql: &str, format: &str) -> Result<String, Refused> {
        let url = format!("{}/api/v1/sql?format={format}&database={DATABASE}", self.url);
        let failed = |error: reqwest::Error| Refused(error.to_string());
        let reply = self.client.post(url).body(sql.to_owned()).send().await.map_err(failed)?;
        let is_success = reply.status().is_success();
        let body = reply.text().await.map_err(failed)?;
        if is_success { Ok(body) } else { Err(Refused(body)) }
    }
}

#[async_trait]
impl AsyncDB for Database {
    type Error = Refused;
    type ColumnType = Column;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<Column>, Refused> {
        let reads = ["select", "with", "values", "from", "show", "describe", "desc", "explain"];
        let first = sql.split(|c: char| !c.is_alphabetic()).find(|word| !word.is_empty()).unwrap_or_default();
        if !reads.contains(&first.to_lowercase().as_str()) {
            return self.answer(sql, "json").await.map(|_| DBOutput::StatementComplete(0));
        }
        let described: Value =
            serde_json::from_str(&self.answer(sql, "json").await?).map_err(|e| Refused(e.to_string()))?;
        let columns = described["columns"].as_array().map_or(&[][..], Vec::as_slice);
        let types = columns.iter().map(|column| kind(column["type"].as_str().unwrap_or_default())).collect();
        // The first row has the names.
        let rows = rows(&self.answer(sql, "csv").await?).split_off(1);
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &'static str {
        "tidelake"
    }
}

/// The kind of a SQL type.
fn kind(name: &str) -> Column {
    match name {
        "TINYINT" | "SMALLINT" | "INT" | "BIGINT" | "TINYINT UNSIGNED" | "SMALLINT UNSIGNED" | "INT UNSIGNED"
        | "BIGINT UNSIGNED" => Column::Integer,
        "FLOAT" | "DOUBLE" => Column::FloatingPoint,
        name if name.starts_with("DECIMAL") => Column::FloatingPoint,
        _ => Column::Text,
    }
}

/// The fields of a CSV answer. Nothing between two commas is null, `""` is an empty text.
fn rows(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut was_quoted, mut inside) = (false, false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if inside && chars.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => (inside, was_quoted) = (!inside, true),
            ',' | '\n' if !inside => {
                row.push(match (field.is_empty(), was_quoted) {
                    (true, false) => "NULL".to_owned(),
                    (true, true) => "(empty)".to_owned(),
                    (false, _) => std::mem::take(&mut field),
                });
                was_quoted = false;
                if c == '\n' {
                    rows.push(std::mem::take(&mut row));
                }
            }
            '\r' if !inside => {}
            c => field.push(c),
        }
    }
    rows
}

#[test]
fn fields_of_csv_are_read() {
    assert_eq!(
        rows("a,b\n1,\n\"\",\"x,\"\"y\"\"\n\"\n"),
        [
            vec!["a".to_owned(), "b".to_owned()],
            vec!["1".to_owned(), "NULL".to_owned()],
            vec!["(empty)".to_owned(), "x,\"y\"\n".to_owned()],
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_have_the_answers_of_the_files() {
    let mut files: Vec<_> = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("sql"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "slt"))
        .collect();
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    let mut faults = Vec::new();
    for file in files {
        let directory = tempfile::tempdir().unwrap();
        let server = Server::start(directory.path().join("root").to_str().unwrap(), [""; 0]);
        let client = Client::new();
        let url = server.url();
        let create = client.post(format!("{url}/api/v1/sql")).body(format!("create database {DATABASE}"));
        assert_eq!(create.send().await.unwrap().status(), 200);
        let mut runner = Runner::new(|| async { Ok(Database { client: client.clone(), url: url.clone() }) });
        runner.with_column_validator(strict_column_validator);
        if let Err(error) = runner.run_file_async(&file).await {
            faults.push(error.display(false).to_string());
        }
        server.stop();
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}
