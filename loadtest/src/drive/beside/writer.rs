//! Clients that write at a steady rate until stopped, and count the sent and acknowledged rows.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

use anyhow::{Context, Result, bail};
use tokio::task::JoinHandle;

use crate::{
    drive::{
        http::HttpOptions,
        send::{Acknowledgement, Bodies, SendOptions, SendSample, TEXT, send},
    },
    workload::answer::{Answer, Value},
    workload::devops::{self, Feed, Fleet},
    workload::generate::encode::Text,
    workload::generate::{Device, Devices},
    workload::oracle::Oracle,
    workload::{DATABASE, Function, Question},
};

/// Settings of the writer.
#[derive(Debug, Clone)]
pub struct WriterOptions {
    /// The server's HTTP endpoint, `http://host:port`.
    pub url: String,
    /// Limits of the clients.
    pub http: HttpOptions,
    /// Total rows per second of all clients.
    pub rows_per_second: f64,
    /// Number of concurrent clients.
    pub clients: usize,
    /// Rows per request.
    pub rows_per_request: usize,
}

impl WriterOptions {
    /// Returns the send options for line protocol with timestamps of this precision.
    fn sending(&self, database: &str, precision: &str) -> SendOptions {
        SendOptions {
            url: self.url.clone(),
            http: self.http.clone(),
            target: format!("/write?db={database}&precision={precision}"),
            content_type: TEXT,
            acknowledgement: Acknowledgement::Status,
            pace: Some(self.rows_per_second / self.clients.max(1) as f64),
        }
    }
}

/// Numbers of rows written so far.
#[derive(Debug, Default)]
struct Counts {
    /// Rows whose request has started or completed.
    begun: AtomicU64,
    /// Rows that were acknowledged.
    acknowledged: AtomicU64,
    is_over: AtomicBool,
}

/// A running writer; its clients stop when it is dropped.
#[derive(Debug)]
pub struct Writer {
    counts: Arc<Counts>,
    task: JoinHandle<Result<SendSample>>,
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Writer {
    /// Starts a writer that adds rows to the devices of a data set, after their last row and second by second.
    pub fn of_devices(set: Devices, options: &WriterOptions) -> Self {
        let clients = options.clients.max(1) as u64;
        let share = |client: u64| 1 + (u64::from(set.devices) * client / clients) as u32;
        let sources = (0..clients).map(|client| later_rows(set, share(client)..share(client + 1), options));
        Self::start(options.sending(DATABASE, "ms"), sources.collect())
    }

    /// Starts a writer that adds lines to the hosts of a fleet, after their last line.
    pub fn of_fleet(fleet: Fleet, options: &WriterOptions) -> Self {
        let clients = options.clients.max(1) as u64;
        let share = |client: u64| (u64::from(fleet.hosts) * client / clients) as u32;
        let lines = options.rows_per_request;
        let sources = (0..clients).map(|client| {
            let mut feed = Feed::later(fleet, share(client)..share(client + 1));
            Box::new(move |body: &mut Vec<u8>| feed.next(lines, body).0 as u64) as Bodies
        });
        Self::start(options.sending(devops::DATABASE, "ns"), sources.collect())
    }

    /// Starts one client per source, on a separate task: writers must not wait for the thread that reads query answers.
    fn start(sending: SendOptions, sources: Vec<Bodies>) -> Self {
        let counts = Arc::new(Counts::default());
        let sources = sources.into_iter().map(|source| until_over(source, counts.clone())).collect();
        let acknowledged = counts.clone();
        let task = tokio::spawn(async move {
            send(&sending, sources, &|rows| acknowledged.acknowledged.store(rows, SeqCst)).await
        });
        Self { counts, task }
    }

    /// Runs `work` while the writer runs, and returns its result.
    ///
    /// # Errors
    /// Those of `work`; a failure or end of the writer before `work` has completed.
    pub async fn beside<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        tokio::select! {
            done = work => done,
            ended = &mut self.task => match ended.context("the writer ended")? {
                Ok(_) => bail!("the writer ended before the queries"),
                Err(error) => Err(error.context("the writer")),
            },
        }
    }

    /// Number of rows whose request has started or completed.
    pub fn begun(&self) -> u64 {
        self.counts.begun.load(SeqCst)
    }

    /// Rows that were acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.counts.acknowledged.load(SeqCst)
    }

    /// Stops the clients after their current request.
    ///
    /// # Errors
    /// A request that the server refused.
    pub async fn stop(mut self) -> Result<SendSample> {
        self.counts.is_over.store(true, SeqCst);
        (&mut self.task).await.context("the writer ended")?
    }
}

/// Wraps a source: it ends once the writer is stopped, and its rows are counted.
fn until_over(mut source: Bodies, counts: Arc<Counts>) -> Bodies {
    Box::new(move |body| {
        if counts.is_over.load(SeqCst) {
            return 0;
        }
        let rows = source(body);
        counts.begun.fetch_add(rows, SeqCst);
        rows
    })
}

/// Rows of the devices `ids`, later than those of the data set.
fn later_rows(set: Devices, ids: std::ops::Range<u32>, options: &WriterOptions) -> Bodies {
    let devices: Vec<Device> = ids.map(Device::numbered).collect();
    let (rows, mut written) = (options.rows_per_request, 0);
    Box::new(move |body: &mut Vec<u8>| {
        if devices.is_empty() {
            return 0;
        }
        for at in written..written + rows {
            let device = &devices[at % devices.len()];
            let number = u64::from(set.rows) + (at / devices.len()) as u64;
            let row = set.row(device.devid, u32::try_from(number).unwrap_or(u32::MAX));
            Text::Line.push(body, device, &[row]);
        }
        written += rows;
        rows as u64
    })
}

/// Checks the row count of an answer over all rows: the oracle's count plus `least` to `most`. Answers without a count, such as
/// an average, are not checked.
///
/// # Errors
/// Too few or too many rows, or an answer of another shape.
pub fn check_rows(oracle: &Oracle, question: &Question, answer: &Answer, least: u64, most: u64) -> Result<()> {
    let sum = |name: &str| -> Result<u64> {
        let column = answer.column(name)?;
        let counts = (0..column.len()).map(|row| match column.value(row) {
            Value::Int(count) => u64::try_from(count).with_context(|| format!("a count of {count}")),
            other => bail!("expected a count, found {other:?}"),
        });
        counts.sum()
    };
    // An answer over all groups must contain all acknowledged rows. Their number in a subset of the groups is known only to
    // within one row per device: for subsets only the old rows are checked.
    let old = |percent: u32| oracle.total(percent).map_or(0, |cell| cell.count.unsigned_abs());
    let within = |percent: u32| old(percent) + if percent < 100 { 0 } else { least }..=old(percent) + most;
    let (found, expected) = match question {
        Question::Q1 { group } => {
            let old = oracle.rows_of_group(*group);
            (answer.rows() as u64, old..=old + most)
        }
        Question::Q2 { function: Function::Count, percent } => (sum("count(*)")?, within(*percent)),
        Question::Q2 { .. } => return Ok(()),
        Question::Q3 { percent } | Question::Q4 { percent } => (sum("count(temperature)")?, within(*percent)),
    };
    if !expected.contains(&found) {
        bail!("expected {} to {} rows, found {found}", expected.start(), expected.end());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::{
        workload::answer::Column,
        workload::generate::{FIRST_TS, STEP_MS},
    };
    use std::collections::BTreeSet;

    const SET: Devices = Devices { devices: 5, rows: 10, seed: 1 };

    #[test]
    fn sources_add_later_rows_of_devices_of_their_own_until_it_is_over() {
        let options = WriterOptions {
            url: "http://127.0.0.1:1".into(),
            http: HttpOptions::default(),
            rows_per_second: 1e5,
            clients: 2,
            rows_per_request: 7,
        };
        let counts = Arc::new(Counts::default());
        let sources = [1..3, 3..6].map(|ids| until_over(later_rows(SET, ids, &options), counts.clone()));
        let mut sources = Vec::from(sources);
        let mut body = Vec::new();
        for _ in 0..3 {
            assert_eq!(sources.iter_mut().map(|source| source(&mut body)).sum::<u64>(), 14);
        }
        assert_eq!(counts.begun.load(SeqCst), 42);
        counts.is_over.store(true, SeqCst);
        assert_eq!(sources.iter_mut().map(|source| source(&mut body)).sum::<u64>(), 0);
        let text = String::from_utf8(body).unwrap();
        let keys: BTreeSet<(&str, i64)> = text
            .lines()
            .map(|line| (line.split(' ').next().unwrap(), line.rsplit(' ').next().unwrap().parse().unwrap()))
            .collect();
        let end = FIRST_TS + i64::from(SET.rows) * STEP_MS;
        assert_eq!((keys.len(), text.lines().count()), (42, 42));
        assert!(keys.iter().all(|(_, ts)| *ts >= end));
        assert_eq!(keys.iter().filter(|(_, ts)| *ts == end).count(), 5);
    }

    #[test]
    fn an_answer_is_about_all_old_rows_and_as_many_new_ones_as_there_may_be() {
        let oracle = Oracle::new(SET);
        let three = |counts: Vec<Option<i64>>| Answer {
            names: vec!["count(temperature)".into()],
            columns: vec![Column::Int(counts)],
        };
        let q4 = Question::Q4 { percent: 100 };
        for (count, is_right) in [(51, false), (52, true), (57, true), (58, false)] {
            let found = check_rows(&oracle, &q4, &three(vec![Some(40), Some(count - 40)]), 2, 7);
            assert_eq!(found.is_ok(), is_right, "{count}: {found:?}");
        }
        // Devices 1 to 3 of five.
        let some = Question::Q3 { percent: 4 };
        for (count, is_right) in [(29, false), (30, true), (37, true), (38, false)] {
            assert_eq!(check_rows(&oracle, &some, &three(vec![Some(count)]), 2, 7).is_ok(), is_right, "{count}");
        }
        // Device 3 alone.
        let q1 = Question::Q1 { group: 3 };
        for (rows, is_right) in [(9, false), (10, true), (17, true), (18, false)] {
            assert_eq!(check_rows(&oracle, &q1, &three(vec![Some(1); rows]), 2, 7).is_ok(), is_right, "{rows}");
        }
        let [average, count] = [Function::Avg, Function::Count].map(|function| Question::Q2 { function, percent: 100 });
        check_rows(&oracle, &average, &three(vec![]), 2, 7).unwrap();
        check_rows(&oracle, &count, &three(vec![]), 2, 7).unwrap_err();
    }
}
