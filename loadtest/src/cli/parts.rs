//! Queries over a part of the time span, and without the levels that hold precomputed aggregates.

use super::args::Server;
use anyhow::{Context, Result};
use tidelake_loadtest::Devices;
use tidelake_loadtest::drive::HttpOptions;
use tidelake_loadtest::drive::query::{Asker, Door};
use tidelake_loadtest::workload::oracle::Oracle;
use tidelake_loadtest::workload::part::Part;
use tidelake_loadtest::workload::verify::verify;
use tidelake_loadtest::workload::{Function, Question};
use tidelake_loadtest::{report::PartSample, workload::verify::Verified};

/// Parts, in the order of the report.
const PARTS: [Part; 4] = [Part::AllRows, Part::WholeMinutes, Part::CutMinutes, Part::ScanAlone];

/// Runs q2 avg, q3 and q4 over each part through Flight SQL, and compares every answer with the oracle's.
pub(crate) async fn ask(server: &Server, set: Devices, repeat: usize) -> Result<(Vec<PartSample>, Verified)> {
    let (mut samples, mut verified) = (Vec::new(), Verified::default());
    for part in PARTS {
        let span = part.span(&set).unwrap_or(i64::MIN..i64::MAX);
        let oracle = tokio::task::spawn_blocking(move || Oracle::within(set, span)).await.context("compute")?;
        let options = HttpOptions { levels: part.levels().map(str::to_owned), ..server.options() };
        let mut asker = Asker::connect(Door::Flight, &server.addresses(), &options).await?;
        let average = Question::Q2 { function: Function::Avg, percent: 100 };
        for question in [average, Question::Q3 { percent: 100 }, Question::Q4 { percent: 100 }] {
            let (sample, answer) = asker.sample(&question.family(), &part.sql(&question, &set), repeat).await?;
            match verify(&oracle, &question, &answer) {
                Ok(()) => verified.right += 1,
                Err(error) => verified.wrong.push(format!("{}: {error:#}", part.name())),
            }
            samples.push(PartSample { part, query: sample });
        }
    }
    Ok((samples, verified))
}
