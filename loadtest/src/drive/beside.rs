//! Query times under concurrent writes: q1–q4 on an idle server and while a writer adds rows at a steady rate.
//!
//! Queries restricted to the data set's time span must return the same answer in both cases. Queries over all rows must count
//! at least the rows acknowledged when the query was sent, and at most the rows sent when its answer had arrived.

pub mod writer;

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use self::writer::{Writer, WriterOptions, check_rows};
use super::{
    http::HttpOptions,
    query::{Addresses, Asker, Door, SAMPLE_RUNS, SAMPLE_TIME},
    send::SendSample,
};
use crate::{
    measure::median,
    workload::oracle::Oracle,
    workload::verify::verify,
    workload::{Function, Question, part::Part},
};

/// Settings of a measurement of queries with a concurrent writer.
#[derive(Debug, Clone)]
pub struct BesideOptions {
    /// Where the server listens.
    pub addresses: Addresses,
    /// Limits of the query clients.
    pub http: HttpOptions,
    /// Settings of the writer.
    pub writer: WriterOptions,
    /// How long the writer runs before the first query, so that unfolded rows exist.
    pub lead: Duration,
    /// Minimum runs of each query.
    pub repeat: usize,
}

/// Times of one query, on an idle server and with the writer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BesideQuestion {
    /// Query name.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// Rows that the query covers.
    pub part: Part,
    /// Time of each run on the idle server, in milliseconds.
    pub quiet_millis: Vec<f64>,
    /// Time of each run with the writer, in milliseconds.
    pub millis: Vec<f64>,
}

impl BesideQuestion {
    /// Median with the writer divided by the idle median.
    pub fn ratio(&self) -> f64 {
        median(&self.millis) / median(&self.quiet_millis)
    }
}

/// Results of queries with a concurrent writer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BesideSample {
    /// Target write rate, in rows per second.
    pub asked_rows_per_second: f64,
    /// Result of the writer.
    pub writer: SendSample,
    /// The queries.
    pub questions: Vec<BesideQuestion>,
}

/// A part of the rows with its queries, their client and the oracle of their answers.
struct Asked {
    part: Part,
    /// Covers the part's rows if the part has a sub-span of the data set, else the whole data set.
    oracle: Oracle,
    asker: Asker,
    questions: Vec<(Question, BesideQuestion)>,
}

/// Runs q2 avg, q3 and q4 over every part (and q1 and q2 count over all rows and over the data set), first on the idle server,
/// then with the writer. `oracle` covers the data set.
///
/// # Errors
/// A failed statement or write, a wrong answer, or an answer without rows acknowledged before the query.
pub async fn ask_beside(options: &BesideOptions, oracle: &Oracle) -> Result<BesideSample> {
    let mut parts = Vec::new();
    for part in [Part::AllRows, Part::DataSet, Part::WholeMinutes, Part::CutMinutes, Part::ScanAlone] {
        parts.push(Asked::new(part, options, oracle).await?);
    }
    for part in &mut parts {
        part.ask(options.repeat, None).await?;
    }
    let mut writer = Writer::of_devices(*oracle.devices(), &options.writer);
    writer.beside(async { Ok(tokio::time::sleep(options.lead).await) }).await?;
    for part in &mut parts {
        part.ask(options.repeat, Some(&mut writer)).await?;
    }
    let writer = writer.stop().await?;
    let questions = parts.into_iter().flat_map(|part| part.questions).map(|(_, sample)| sample).collect();
    Ok(BesideSample { asked_rows_per_second: options.writer.rows_per_second, writer, questions })
}

impl Asked {
    async fn new(part: Part, options: &BesideOptions, oracle: &Oracle) -> Result<Self> {
        let set = *oracle.devices();
        let oracle = match (part, part.span(&set)) {
            (Part::WholeMinutes | Part::CutMinutes, Some(span)) => {
                tokio::task::spawn_blocking(move || Oracle::within(set, span)).await.context("compute the answers")?
            }
            _ => oracle.clone(),
        };
        let http = HttpOptions { levels: part.levels().map(str::to_owned), ..options.http.clone() };
        let asker = Asker::connect(Door::Flight, &options.addresses, &http).await?;
        let questions = questions(part).into_iter().map(|question| {
            let (name, sql) = (question.name(), part.sql(&question, &set));
            (question, BesideQuestion { name, sql, part, quiet_millis: Vec::new(), millis: Vec::new() })
        });
        Ok(Self { part, oracle, asker, questions: questions.collect() })
    }

    /// Runs each query repeatedly, checks every answer and records every time.
    async fn ask(&mut self, repeat: usize, mut writer: Option<&mut Writer>) -> Result<()> {
        let Self { part, oracle, asker, questions } = self;
        let is_fixed = part.span(oracle.devices()).is_some();
        for (question, sample) in questions {
            let mut all = Vec::new();
            let begun = Instant::now();
            // Repeated for as long as other statements: the first runs may find cold caches.
            while all.len() < repeat.max(1) || (begun.elapsed() < SAMPLE_TIME && all.len() < SAMPLE_RUNS) {
                let least = writer.as_ref().map_or(0, |writer| writer.acknowledged());
                let (raw, took) = match &mut writer {
                    Some(writer) => writer.beside(asker.ask(&sample.sql)).await?,
                    None => asker.ask(&sample.sql).await?,
                };
                let most = writer.as_ref().map(|writer| writer.begun());
                all.push(took.as_secs_f64() * 1e3);
                let answer = raw.into_answer()?;
                match most.filter(|_| !is_fixed) {
                    None => verify(oracle, question, &answer),
                    Some(most) => check_rows(oracle, question, &answer, least, most),
                }
                .with_context(|| format!("{}: {}", part.name(), sample.sql))?;
            }
            *if writer.is_some() { &mut sample.millis } else { &mut sample.quiet_millis } = all;
        }
        Ok(())
    }
}

fn questions(part: Part) -> Vec<Question> {
    let percent = 100;
    let [average, count] = [Function::Avg, Function::Count].map(|function| Question::Q2 { function, percent });
    let three = [average, Question::Q3 { percent }, Question::Q4 { percent }];
    match part {
        Part::AllRows | Part::DataSet => [Question::Q1 { group: 0 }, count].into_iter().chain(three).collect(),
        Part::WholeMinutes | Part::CutMinutes | Part::ScanAlone => three.to_vec(),
    }
}
