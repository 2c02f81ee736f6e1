//! A writer beside queries: what q1–q4 take while new rows arrive at a steady pace, against what they take when all is quiet.
//!
//! The writer adds rows to the devices that are there, later than all of theirs, a second of every device after the other.
//! A question about the old rows alone has the answer of before, and a question about all rows counts at least what had
//! been acknowledged when it was sent and at most what had been sent when its answer was there.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::{
    encode::Text,
    http::HttpOptions,
    query::{Addresses, Asker, Door, SAMPLE_RUNS, SAMPLE_TIME, median},
    send::{Acknowledgement, Bodies, SendOptions, SendSample, TEXT, send},
};
use crate::{
    answer::{Answer, Value},
    generate::{Device, Devices, FIRST_TS, STEP_MS},
    oracle::Oracle,
    verify::verify,
    workload::{DATABASE, Function, Question},
};

/// How the writer writes.
#[derive(Debug, Clone)]
pub struct BesideOptions {
    /// Where the server listens.
    pub addresses: Addresses,
    /// Bounds of the clients.
    pub http: HttpOptions,
    /// Rows a second of all writers together.
    pub rows_per_second: f64,
    /// Writers at once.
    pub writers: usize,
    /// Rows of one request.
    pub rows_per_request: usize,
    /// How long the writers write before the first question: a tail of unfolded rows is there then.
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
    /// Whether it is about the rows of before alone.
    pub old_rows: bool,
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
    /// Rows a second that the writers were to send.
    pub asked_rows_per_second: f64,
    /// What they did.
    pub writer: SendSample,
    /// The questions.
    pub questions: Vec<BesideQuestion>,
}

/// What has been written so far.
#[derive(Debug, Default)]
struct Counts {
    /// Rows that are on their way or arrived.
    begun: AtomicU64,
    /// Rows that were acknowledged.
    acknowledged: AtomicU64,
    is_over: AtomicBool,
}

/// Asks q1, q2 (avg, count), q3 and q4 about all rows and about the old ones, quiet; then again beside the writer. The
/// oracle knows the rows that are there.
///
/// # Errors
/// A statement or a write that fails, a wrong answer, an answer that misses rows that had been acknowledged.
pub async fn ask_beside(options: &BesideOptions, oracle: &Oracle) -> Result<BesideSample> {
    let set = *oracle.devices();
    let counts = Arc::new(Counts::default());
    let mut asker = Asker::connect(Door::Flight, &options.addresses, &options.http).await?;
    let mut questions = questions(&set);
    for (question, sample) in &mut questions {
        sample.quiet_millis = ask(&mut asker, question, sample, oracle, &counts, options.repeat).await?;
    }
    let sending = SendOptions {
        url: options.addresses.url.clone(),
        http: options.http.clone(),
        target: format!("/write?db={DATABASE}&precision=ms"),
        content_type: TEXT,
        acknowledgement: Acknowledgement::Status,
        pace: Some(options.rows_per_second / options.writers.max(1) as f64),
    };
    let writers = writers(set, options, &counts);
    let acknowledged = counts.clone();
    // A task of its own: a question's answer is read by one thread, which the writers should not wait for.
    let mut writing =
        tokio::spawn(
            async move { send(&sending, writers, &|rows| acknowledged.acknowledged.store(rows, SeqCst)).await },
        );
    let asked = async {
        tokio::time::sleep(options.lead).await;
        for (question, sample) in &mut questions {
            sample.millis = ask(&mut asker, question, sample, oracle, &counts, options.repeat).await?;
        }
        Ok::<_, anyhow::Error>(())
    };
    let asked = tokio::select! {
        asked = asked => asked,
        ended = &mut writing => match ended.context("the writer ended")? {
            Ok(_) => bail!("the writer ended before the questions did"),
            Err(error) => return Err(error.context("the writer")),
        },
    };
    counts.is_over.store(true, SeqCst);
    let writer = writing.await.context("the writer ended")??;
    asked?;
    let questions = questions.into_iter().map(|(_, sample)| sample).collect();
    Ok(BesideSample { asked_rows_per_second: options.rows_per_second, writer, questions })
}

/// The time of the first new row.
fn end(set: &Devices) -> i64 {
    FIRST_TS + i64::from(set.rows) * STEP_MS
}

fn questions(set: &Devices) -> Vec<(Question, BesideQuestion)> {
    let percent = 100;
    let two = [Function::Avg, Function::Count].map(|function| Question::Q2 { function, percent });
    let all = [Question::Q1 { group: 0 }, two[0], two[1], Question::Q3 { percent }, Question::Q4 { percent }];
    let sample = |question: Question, old_rows: bool| {
        let sql = if old_rows { question.sql_within(FIRST_TS..end(set)) } else { question.sql() };
        let (quiet_millis, millis) = (Vec::new(), Vec::new());
        (question, BesideQuestion { name: question.name(), sql, old_rows, quiet_millis, millis })
    };
    [false, true].iter().flat_map(|old_rows| all.map(|question| sample(question, *old_rows))).collect()
}

/// Asks one question again and again, checks every answer, and gives the time of each.
async fn ask(
    asker: &mut Asker,
    question: &Question,
    sample: &BesideQuestion,
    oracle: &Oracle,
    counts: &Counts,
    repeat: usize,
) -> Result<Vec<f64>> {
    let mut millis = Vec::new();
    let begun = Instant::now();
    // As long as other statements are asked: the first runs of one may be colder than the rest.
    while millis.len() < repeat.max(1) || (begun.elapsed() < SAMPLE_TIME && millis.len() < SAMPLE_RUNS) {
        let least = counts.acknowledged.load(SeqCst);
        let (raw, took) = asker.ask(&sample.sql).await?;
        let most = counts.begun.load(SeqCst);
        millis.push(took.as_secs_f64() * 1e3);
        let answer = raw.into_answer()?;
        if sample.old_rows || most == 0 {
            verify(oracle, question, &answer)?;
        } else if let Some((rows, share)) = counted(question, &answer)? {
            let (least, most) = match share {
                Share::All => (oracle.devices().len() + least, oracle.devices().len() + most),
                // How many of the new rows are of one group is known to within a second of all devices: nothing is asked
                // of them but that no old row is missing.
                Share::Group(group) => (oracle.rows_of_group(group), oracle.rows_of_group(group) + most),
            };
            ensure!((least..=most).contains(&rows), "{}: expected {least} to {most} rows, found {rows}", sample.sql);
        }
    }
    Ok(millis)
}

/// Which rows a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    All,
    Group(u32),
}

/// The number of rows that an answer tells of, and which; none where it does not tell, as an average.
fn counted(question: &Question, answer: &Answer) -> Result<Option<(u64, Share)>> {
    let sum = |name: &str| -> Result<u64> {
        let column = answer.column(name)?;
        let counts = (0..column.len()).map(|row| match column.value(row) {
            Value::Int(count) => u64::try_from(count).with_context(|| format!("a count of {count}")),
            other => bail!("expected a count, found {other:?}"),
        });
        counts.sum()
    };
    Ok(match question {
        Question::Q1 { group } => Some((answer.rows() as u64, Share::Group(*group))),
        Question::Q2 { function: Function::Count, .. } => Some((sum("count(*)")?, Share::All)),
        Question::Q2 { .. } => None,
        Question::Q3 { .. } | Question::Q4 { .. } => Some((sum("count(temperature)")?, Share::All)),
    })
}

/// Writers that share the devices and go on until it is over.
fn writers(set: Devices, options: &BesideOptions, counts: &Arc<Counts>) -> Vec<Bodies> {
    let writers = options.writers.max(1) as u64;
    let share = |writer: u64| 1 + (u64::from(set.devices) * writer / writers) as u32;
    (0..writers)
        .map(|writer| {
            let (ids, counts, rows) = (share(writer)..share(writer + 1), counts.clone(), options.rows_per_request);
            let devices: Vec<Device> = ids.map(Device::numbered).collect();
            let mut written = 0;
            Box::new(move |body: &mut Vec<u8>| {
                if counts.is_over.load(SeqCst) || devices.is_empty() {
                    return 0;
                }
                for at in written..written + rows {
                    let device = &devices[at % devices.len()];
                    let number = u64::from(set.rows) + (at / devices.len()) as u64;
                    let row = set.row(device.devid, u32::try_from(number).unwrap_or(u32::MAX));
                    Text::Line.push(body, device, &[row]);
                }
                written += rows;
                counts.begun.fetch_add(rows as u64, SeqCst);
                rows as u64
            }) as Bodies
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::answer::Column;
    use std::collections::BTreeSet;

    const SET: Devices = Devices { devices: 5, rows: 10, seed: 1 };

    fn options() -> BesideOptions {
        BesideOptions {
            addresses: Addresses { url: "http://127.0.0.1:1".into(), flight: None },
            http: HttpOptions::default(),
            rows_per_second: 1e5,
            writers: 2,
            rows_per_request: 7,
            lead: Duration::ZERO,
            repeat: 1,
        }
    }

    #[test]
    fn writers_add_later_rows_of_devices_of_their_own_until_it_is_over() {
        let counts = Arc::new(Counts::default());
        let mut writers = writers(SET, &options(), &counts);
        let mut body = Vec::new();
        for _ in 0..3 {
            assert_eq!(writers.iter_mut().map(|writer| writer(&mut body)).sum::<u64>(), 14);
        }
        assert_eq!(counts.begun.load(SeqCst), 42);
        counts.is_over.store(true, SeqCst);
        assert_eq!(writers.iter_mut().map(|writer| writer(&mut body)).sum::<u64>(), 0);
        let text = String::from_utf8(body).unwrap();
        let keys: BTreeSet<(&str, i64)> = text
            .lines()
            .map(|line| (line.split(' ').next().unwrap(), line.rsplit(' ').next().unwrap().parse().unwrap()))
            .collect();
        assert_eq!((keys.len(), text.lines().count()), (42, 42));
        assert!(keys.iter().all(|(_, ts)| *ts >= end(&SET)));
        assert_eq!(keys.iter().filter(|(_, ts)| *ts == end(&SET)).count(), 5);
    }

    #[test]
    fn an_answer_tells_how_many_rows_it_is_about() {
        let counts = Column::Int(vec![Some(3), Some(4)]);
        let answer = Answer { names: vec!["count(temperature)".into()], columns: vec![counts] };
        assert_eq!(counted(&Question::Q4 { percent: 100 }, &answer).unwrap(), Some((7, Share::All)));
        assert_eq!(counted(&Question::Q1 { group: 3 }, &answer).unwrap(), Some((2, Share::Group(3))));
        let average = Question::Q2 { function: Function::Avg, percent: 100 };
        assert_eq!(counted(&average, &answer).unwrap(), None);
        assert!(counted(&Question::Q2 { function: Function::Count, percent: 100 }, &answer).is_err());
    }
}
