//! Requests of clients and tools: the OpenAPI document is correct, and Grafana's requests work.

use std::process::Command;

use tidelake_tests::{Server, tool};

/// Runs a program of tests/python against a new server with auth off.
fn python(script: &str) {
    let Some(python) = tool("TIDELAKE_PYTHON") else { return };
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ["--log", "error"]);
    let script = format!("{}/python/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(python).args([&script, &server.url()]).output().unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success(),
        "{script}: {}",
        &told[told.floor_char_boundary(told.len().saturating_sub(8_000))..]
    );
    server.stop();
}

#[test]
fn the_document_of_the_routes_of_http_is_true() {
    python("openapi.py");
}

#[test]
fn every_statement_and_macro_of_grafana_is_answered() {
    python("grafana.py");
}

#[test]
fn the_sample_of_rust_prints_what_its_page_shows() {
    let page = include_str!("../../docs/clients/rust.md");
    let block = |language: &str| page.split_once(&format!("```{language}\n")).unwrap().1.split_once("```").unwrap().0;
    assert!(include_str!("../examples/flight_sql.rs").ends_with(block("rust")), "the example is not the page's");
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start(directory.path().to_str().unwrap(), ["--log", "error"]);
    let example = std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/flight_sql");
    let output = Command::new(example).arg(server.url()).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), block("text"));
    server.stop();
}
