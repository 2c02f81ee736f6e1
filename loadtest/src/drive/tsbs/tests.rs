#![allow(clippy::unwrap_used)]

use std::{path::Path, process::Command};

use super::*;
use crate::drive::adapter::Adapter;

const SET: Tsbs = Tsbs { hosts: 5, steps: 90, seed: 3 };

/// A peer whose adapter is a shell script; the rows wait in the pipe.
fn peer(rows: u64, rest: &str) -> Result<Peer> {
    let load = r#""load":{"peer":"Fake","version":"1.2","seconds":2.0}"#;
    let settled = format!(r#"{{"event":"settled","rows":{rows},"seconds":1.5,"bytes":4096,{load}}}"#);
    let script = format!("echo '{settled}'; {rest} cat >/dev/null");
    Peer::load(Adapter::start(Command::new("sh").args(["-c", &script])).unwrap(), Dialect::DuckDb, &SET)
}

#[test]
fn a_peer_reports_its_load_a_statement_that_fails_and_its_rate() {
    let failed = r#"echo '{"event":"table","millis":[],"error":"no such function"}';"#;
    let mut peer = peer(450, &format!(r#"{failed} echo '{{"event":"mixed","seconds":2.5}}';"#)).unwrap();
    assert_eq!((peer.load.rows, peer.load.seconds, peer.load.disk_bytes), (450, 2.0, 4_096));
    let questions = Question::all(&SET);
    let (timing, digest) = peer.ask(&questions[0], 3).unwrap();
    assert_eq!((timing.error.as_deref(), digest), (Some("no such function"), None));
    assert!(timing.median_ms().is_nan());
    assert!(peer.mixed(&questions[..2], 4).unwrap() == 2.5);
    peer.stop().unwrap();
}

#[test]
fn a_peer_that_lost_rows_or_says_something_else_is_an_error() {
    let error = peer(449, "").unwrap_err();
    assert!(error.to_string().contains("was sent 450 rows and holds Some(449)"), "{error:#}");
    let mut peer = peer(450, r#"echo '{"event":"mixed","seconds":1}';"#).unwrap();
    let error = peer.ask(&Question::all(&SET)[0], 1).unwrap_err();
    assert!(error.to_string().contains("expected event \"table\""), "{error:#}");
}

/// A Python that has DuckDB; `None` skips the test, unless nothing may be skipped.
#[expect(clippy::print_stderr, reason = "a skipped test says so")]
fn python() -> Option<std::ffi::OsString> {
    let found = std::env::var_os("TIDELAKE_PYTHON");
    if found.is_none() {
        assert!(std::env::var_os("TIDELAKE_REQUIRE_ALL").is_none(), "TIDELAKE_PYTHON is not set");
        eprintln!("SKIPPED: TIDELAKE_PYTHON is not set");
    }
    found
}

#[test]
fn duckdb_answers_every_question_as_the_generators_rows_do() {
    let Some(python) = python() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/tsbs_duckdb.py"))
        .arg("--work")
        .arg(dir.path().join("work"));
    let set = Tsbs { hosts: 20, steps: 800, seed: 3 };
    let mut peer = Peer::load(Adapter::start(&mut command).unwrap(), Dialect::DuckDb, &set).unwrap();
    for question in Question::all(&set) {
        let (timing, digest) = peer.ask(&question, 1).unwrap();
        assert_eq!(timing.error, None, "{}", question.name);
        expected(&set, &question).unwrap().compare(&digest.unwrap()).with_context(|| timing.sql.clone()).unwrap();
        assert!(!timing.millis.is_empty());
        let other = expected(&Tsbs { seed: 4, ..set }, &question).unwrap();
        let found = peer.ask(&question, 1).unwrap().1.unwrap();
        // These may be equal by chance, or do not depend on the values.
        let is_constant = matches!(question.name.split(' ').next(), Some("A10" | "latest" | "A5" | "A2" | "A8"));
        let is_same = found.compare(&other).is_ok();
        assert!(!is_same || is_constant || found.rows == 0, "{} does not depend on the rows", question.name);
    }
    assert!(peer.mixed(&Question::mixed(&set, 10), 3).unwrap() > 0.0);
    peer.stop().unwrap();
    assert!(!dir.path().join("work/answer.arrows").exists(), "answers are removed");
}

#[test]
fn a_failed_statement_has_no_time() {
    let (timing, digest) = timing("Tidelake, flight", "select 1".into(), Err(anyhow::anyhow!("no table")));
    assert_eq!((timing.error.as_deref(), digest, timing.rows), (Some("no table"), None, 0));
}
