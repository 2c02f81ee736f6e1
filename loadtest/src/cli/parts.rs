//! The questions about a part of the span, and without the levels that know the answer before.

use super::args::Server;
use anyhow::{Context, Result};
use std::ops::Range;
use tidelake_loadtest::Devices;
use tidelake_loadtest::drive::HttpOptions;
use tidelake_loadtest::drive::query::{Asker, Door};
use tidelake_loadtest::generate::{FIRST_TS, STEP_MS};
use tidelake_loadtest::oracle::Oracle;
use tidelake_loadtest::report::{PartSample, Verified};
use tidelake_loadtest::verify::verify;
use tidelake_loadtest::workload::{Function, Question};

const MINUTE_MS: i64 = 60_000;

/// Which rows, and which levels may answer.
struct Part {
    name: &'static str,
    span: Option<Range<i64>>,
    levels: Option<&'static str>,
}

fn parts(set: &Devices) -> [Part; 4] {
    let length = i64::from(set.rows) * STEP_MS;
    let up = |ts: i64| (ts + MINUTE_MS - 1).div_euclid(MINUTE_MS) * MINUTE_MS;
    let start = up(FIRST_TS + length / 4);
    let minutes = start..start + (length / 2).div_euclid(MINUTE_MS) * MINUTE_MS;
    let cut = minutes.start + 27_500..minutes.end + 33_500;
    [
        Part { name: "all rows", span: None, levels: None },
        Part { name: "half of the span, whole minutes", span: Some(minutes), levels: None },
        Part { name: "half of the span, minutes cut", span: Some(cut), levels: None },
        Part { name: "all rows, none but the scan", span: None, levels: Some("scan") },
    ]
}

/// Asks q2 avg, q3 and q4 of each part over Flight SQL, and compares every answer with the oracle's.
pub(crate) async fn ask(server: &Server, set: Devices, repeat: usize) -> Result<(Vec<PartSample>, Verified)> {
    let (mut samples, mut verified) = (Vec::new(), Verified::default());
    for part in parts(&set) {
        let span = part.span.clone().unwrap_or(i64::MIN..i64::MAX);
        let oracle = tokio::task::spawn_blocking(move || Oracle::within(set, span)).await.context("compute")?;
        let options = HttpOptions { levels: part.levels.map(str::to_owned), ..server.options() };
        let mut asker = Asker::connect(Door::Flight, &server.addresses(), &options).await?;
        let average = Question::Q2 { function: Function::Avg, percent: 100 };
        for question in [average, Question::Q3 { percent: 100 }, Question::Q4 { percent: 100 }] {
            let sql = part.span.clone().map_or_else(|| question.sql(), |span| question.sql_within(span));
            let (sample, answer) = asker.sample(&question.family(), &sql, repeat).await?;
            match verify(&oracle, &question, &answer) {
                Ok(()) => verified.right += 1,
                Err(error) => verified.wrong.push(format!("{}: {error:#}", part.name)),
            }
            samples.push(PartSample { part: part.name.to_owned(), query: sample });
        }
    }
    Ok((samples, verified))
}
