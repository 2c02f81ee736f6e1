//! A writer beside queries: what q1–q4 take while new rows arrive at a steady pace, against what they take when all is quiet.
//!
//! A question about the data set's rows alone has the answer of before, and a question about all rows counts at least what had
//! been acknowledged when it was sent and at most what had been sent when its answer was there.

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

/// How it is asked beside a writer.
#[derive(Debug, Clone)]
pub struct BesideOptions {
    /// Where the server listens.
    pub addresses: Addresses,
    /// Bounds of the clients that ask.
    pub http: HttpOptions,
    /// How the writer writes.
    pub writer: WriterOptions,
    /// How long the writer writes before the first question: a tail of unfolded rows is there then.
    pub lead: Duration,
    /// Runs of each question, at least.
    pub repeat: usize,
}

/// One question, quiet and beside the writer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BesideQuestion {
    /// The question's name.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// What it is about.
    pub part: Part,
    /// Each run when all was quiet, in milliseconds.
    pub quiet_millis: Vec<f64>,
    /// Each run beside the writer, in milliseconds.
    pub millis: Vec<f64>,
}

impl BesideQuestion {
    /// The median beside the writer over the quiet one.
    pub fn ratio(&self) -> f64 {
        median(&self.millis) / median(&self.quiet_millis)
    }
}

/// Questions beside a writer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BesideSample {
    /// Rows a second that the writer was to send.
    pub asked_rows_per_second: f64,
    /// What it did.
    pub writer: SendSample,
    /// The questions.
    pub questions: Vec<BesideQuestion>,
}

/// A part of the rows with its questions, and who asks and who knows.
struct Asked {
    part: Part,
    /// Of the part's rows, where it has a span; else of the data set's.
    oracle: Oracle,
    asker: Asker,
    questions: Vec<(Question, BesideQuestion)>,
}

/// Asks q2 avg, q3 and q4 about every part, of all rows and the data set's q1 and q2 count too, quiet; then again beside
/// the writer. The oracle knows the data set's rows.
///
/// # Errors
/// A statement or a write that fails, a wrong answer, an answer that misses rows that had been acknowledged.
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

    /// Asks each question again and again, checks every answer, and keeps the time of each.
    async fn ask(&mut self, repeat: usize, mut writer: Option<&mut Writer>) -> Result<()> {
        let Self { part, oracle, asker, questions } = self;
        let is_fixed = part.span(oracle.devices()).is_some();
        for (question, sample) in questions {
            let mut all = Vec::new();
            let begun = Instant::now();
            // As long as other statements are asked: the first runs of one may be colder than the rest.
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
