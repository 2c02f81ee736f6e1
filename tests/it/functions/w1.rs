//! The load test writes 1e7 benchmark rows through functions only; the resources used are counted.

use std::process::Command;

use serde_json::Value;
use tidelake_tests::{S3Server, Server, process::binary, tool};

/// 1e7 rows.
const DATA: [&str; 4] = ["--devices", "1000", "--rows", "10000"];
const ROWS_PER_REQUEST: u64 = 2_000;

fn run(mut command: Command) {
    let output = command.output().unwrap();
    let told = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{}", told[0], told[1]);
}

#[test]
fn ten_million_rows_are_written_compacted_and_asked_by_functions_alone() {
    let Some(s3) = S3Server::start() else { return };
    let (Some(loadtest), Some(packages)) = (tool("TIDELAKE_LOADTEST_BIN"), tool("TIDELAKE_FUNCTIONS")) else { return };
    let out = tempfile::tempdir().unwrap();
    let mut command = Command::new(&loadtest);
    command.args([
        "functions",
        "--packages",
        &packages,
        "--store",
        &s3.root("w1"),
        "--starts",
        "3",
        "--settle",
        "0",
        "--out",
    ]);
    command.arg(out.path()).args(DATA).args(["--rows-per-request", &ROWS_PER_REQUEST.to_string()]);
    run_with(command, &s3);

    let report: Value = serde_json::from_slice(&std::fs::read(out.path().join("report.json")).unwrap()).unwrap();
    let sample = &report["sample"];
    assert_eq!(sample["verified"]["wrong"], Value::Array(Vec::new()));
    assert!(sample["verified"]["right"].as_u64().unwrap() >= 16, "{}", sample["verified"]);
    let count = |of: &str, what: &str| sample[of]["store"][what].as_u64().unwrap();
    // One PUT per invocation, plus the requests that open the root and create database and table.
    let requests = 10_000_000 / ROWS_PER_REQUEST;
    let (invocations, tables) = (sample["ingest"]["invocations"].as_u64().unwrap(), 2);
    assert_eq!(invocations, requests + tables + repeated(sample));
    let beside = count("ingest", "put") - requests;
    assert!(beside <= 8 + repeated(sample), "{beside} more PUTs than requests");
    // Plus one request per second and working environment for a newer version.
    let asked = count("ingest", "list") + count("ingest", "get") + count("ingest", "head");
    let seconds = sample["ingest"]["seconds"].as_f64().unwrap().ceil() as u64;
    assert!(asked <= 60 + seconds, "{}", sample["ingest"]);
    // A scheduled run without work.
    let (runs, idle) = (sample["idle"]["runs"].as_u64().unwrap(), &sample["idle"]["store"]);
    let count = |what: &str| idle[what].as_u64().unwrap();
    assert_eq!((count("put"), count("delete"), count("head")), (0, 0, 0), "{idle}");
    assert!(count("list") <= runs && count("get") <= 2 * runs, "{runs} runs: {idle}");
    assert!(report["idle_month"].as_f64().unwrap() <= 0.5, "{}", report["idle_month"]);
    let number = |of: &Value| of.as_f64().unwrap_or_else(|| panic!("a number: {of}"));
    let (stored, price) = (number(&sample["stored"]), number(&report["prices"]["stored_gigabyte_month"]));
    assert!(stored > 1e6 && stored < 1e9, "{stored} bytes");
    assert!((number(&report["stored_month"]) - stored / 1e9 * price).abs() < 1e-9);
    // Memory limit: half for ingest-http, else the functions' memory.
    for (function, most) in [("ingest", 128_u64), ("compact", 1_769), ("query", 512)] {
        let peak = sample[function]["peak_memory"].as_u64().unwrap();
        assert!(peak > 0 && peak <= most << 20, "{function}: {peak} bytes");
    }
    let started: Vec<&str> =
        sample["starts"].as_array().unwrap().iter().map(|s| s["function"].as_str().unwrap()).collect();
    assert_eq!(started, ["ingest-http", "ingest-queue", "compact", "query-http"]);

    // A root written by functions passes `check`.
    let mut command = Command::new(binary());
    command.args(["check", "--store", &s3.root("w1")]);
    run_with(command, &s3);
    // The server reads the root written by functions and returns the same results.
    let server = Server::start_with(&s3.root("w1"), ["--fold-interval", "1h"], &s3.environment());
    let mut command = Command::new(&loadtest);
    command
        .args(["query", "--url", &server.url(), "--verify", "--repeat", "1", "--groups", "0", "--percent", "100"])
        .args(DATA);
    run(command);
}

fn repeated(sample: &Value) -> u64 {
    ["repeated_busy", "repeated_broken"].iter().map(|name| sample["load"][name].as_u64().unwrap()).sum()
}

fn run_with(mut command: Command, s3: &S3Server) {
    command.envs(s3.environment());
    run(command);
}
