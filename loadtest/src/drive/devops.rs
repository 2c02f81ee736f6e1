//! Loading and querying the fleet: several concurrent workers, each with its own connection.

use super::{
    Latencies,
    http::{Client, HttpOptions},
    latency::Percentiles,
    query::Raw,
};
use crate::workload::devops::{Asked, DATABASE, Feed, Fleet, Form, check, check_values, influxql};
use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::{Duration, Instant};

/// Result of loading the fleet.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadSample {
    /// Lines that the server acknowledged.
    pub lines: u64,
    /// Number of values in those lines.
    pub values: u64,
    /// Bytes of line protocol.
    pub bytes: u64,
    /// Seconds from the first request to the last reply.
    pub seconds: f64,
    /// Concurrent workers.
    pub workers: usize,
    /// Lines per request.
    pub lines_per_request: usize,
    /// Request latency.
    pub latency: Percentiles,
}

/// Result of the queries of one shape.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FormSample {
    /// The shape.
    pub form: Form,
    /// Whether values were passed as parameters, so that all queries had the same text.
    pub with_parameters: bool,
    /// Concurrent workers.
    pub workers: usize,
    /// Number of queries.
    pub questions: usize,
    /// Queries per second of all workers together.
    pub per_second: f64,
    /// Mean query time at the client, in milliseconds.
    pub mean_ms: f64,
    /// Query latency.
    pub latency: Percentiles,
}

/// Writes the whole fleet: each worker writes its own hosts, one request at a time.
///
/// # Errors
/// A refused request, or no reply in time.
pub async fn load(
    fleet: &Fleet,
    url: &str,
    options: &HttpOptions,
    workers: usize,
    lines_per_request: usize,
) -> Result<LoadSample> {
    let lines_of = |hosts| {
        let mut feed = Feed::new(*fleet, hosts);
        move |lines, body: &mut Vec<u8>| feed.next(lines, body)
    };
    load_lines(DATABASE, fleet.hosts, lines_of, url, options, workers, lines_per_request).await
}

/// Writes lines into a database: each worker writes those of its own hosts, one request at a time. `lines_of` returns a source
/// of some hosts' lines, which appends up to a number of lines to a body and returns the numbers of lines and of values.
///
/// # Errors
/// A refused request, or no reply in time.
pub(super) async fn load_lines<F>(
    database: &str,
    hosts: u32,
    lines_of: impl Fn(Range<u32>) -> F,
    url: &str,
    options: &HttpOptions,
    workers: usize,
    lines_per_request: usize,
) -> Result<LoadSample>
where
    F: FnMut(usize, &mut Vec<u8>) -> (usize, usize) + Send + 'static,
{
    let begun = Instant::now();
    let workers = workers.max(1);
    let share = |worker: usize| (u64::from(hosts) * worker as u64 / workers as u64) as u32;
    let tasks = (0..workers).map(|worker| {
        let mut next = lines_of(share(worker)..share(worker + 1));
        let (url, options, target) = (url.to_owned(), options.clone(), format!("/write?db={database}"));
        tokio::spawn(async move {
            let mut client = Client::new(&url, options)?;
            let (mut body, mut latencies, mut sums) = (Vec::new(), Latencies::default(), [0u64; 3]);
            loop {
                body.clear();
                let (lines, values) = next(lines_per_request, &mut body);
                if lines == 0 {
                    return Ok::<_, anyhow::Error>((sums, latencies));
                }
                let sent = Instant::now();
                let (reply, _) = client.send_again("POST", &target, "text/plain; charset=utf-8", &body).await?;
                latencies.record(sent.elapsed());
                if !reply.is_success() {
                    bail!("POST {target}: {}", reply.excerpt());
                }
                for (sum, more) in sums.iter_mut().zip([lines, values, body.len()]) {
                    *sum += more as u64;
                }
            }
        })
    });
    let (mut sums, mut latencies) = ([0; 3], Latencies::default());
    for done in try_join_all(tasks).await? {
        let (more, of_worker) = done?;
        latencies.merge(&of_worker);
        sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
    let [lines, values, bytes] = sums;
    let (seconds, latency) = (begun.elapsed().as_secs_f64(), latencies.percentiles());
    Ok(LoadSample { lines, values, bytes, seconds, workers, lines_per_request, latency })
}

/// Query language of the queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// Tidelake SQL with literal values.
    Text,
    /// Tidelake SQL with parameters.
    Parameters,
    /// InfluxQL.
    Influxql,
}

impl Words {
    /// Name in printed output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Parameters => "parameters",
            Self::Influxql => "InfluxQL",
        }
    }

    /// Returns method, target, content type and body of the request.
    fn request(self, asked: &Asked) -> Result<(&'static str, String, &'static str, String)> {
        let ours = "/api/v1/sql?format=arrow".to_owned();
        Ok(match self {
            Self::Text => ("POST", ours, "text/plain; charset=utf-8", asked.sql()),
            Self::Parameters => {
                let (sql, params) = asked.parameters();
                let body = serde_json::json!({ "sql": sql, "params": params, "format": "arrow" });
                ("POST", ours, "application/json", body.to_string())
            }
            Self::Influxql => {
                let text = percent_encoded(&influxql(asked)?);
                ("GET", format!("/query?db={DATABASE}&epoch=ms&q={text}"), "", String::new())
            }
        })
    }

    fn check(self, fleet: &Fleet, asked: &Asked, body: Vec<u8>) -> Result<()> {
        match self {
            Self::Text | Self::Parameters => check(fleet, asked, &Raw::Ipc(body).into_answer()?),
            Self::Influxql => check_values(fleet, asked, &influxdb_values(&body)?),
        }
    }
}

/// Percent-encodes a text for a query string.
fn percent_encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Returns the second column of an InfluxDB reply to one statement with at most one series.
fn influxdb_values(body: &[u8]) -> Result<Vec<Option<f64>>> {
    let reply: serde_json::Value = serde_json::from_slice(body).context("expected a reply in JSON")?;
    let result = &reply["results"][0];
    if let Some(error) = result["error"].as_str() {
        bail!("InfluxDB: {error}");
    }
    let rows = result["series"][0]["values"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(rows.iter().map(|row| row[1].as_f64()).collect())
}

/// Runs the random queries of one shape with these numbers, divided among the workers, and checks the first answer of each
/// worker.
///
/// # Errors
/// A statement that fails, a wrong answer.
pub async fn ask(
    fleet: &Fleet,
    form: Form,
    words: Words,
    url: &str,
    options: &HttpOptions,
    workers: usize,
    questions: Range<u32>,
) -> Result<FormSample> {
    let begun = Instant::now();
    let tasks = (0..workers.max(1)).map(|worker| {
        let (fleet, url, options, questions) = (*fleet, url.to_owned(), options.clone(), questions.clone());
        tokio::spawn(async move {
            let mut client = Client::new(&url, options)?;
            let (mut latencies, mut total, mut first) = (Latencies::default(), Duration::ZERO, None);
            for nth in questions.skip(worker).step_by(workers.max(1)) {
                let asked = Asked::random(&fleet, form, nth);
                let (method, target, content_type, body) = words.request(&asked)?;
                let sent = Instant::now();
                let reply = client.send(method, &target, content_type, body.as_bytes()).await?;
                let took = sent.elapsed();
                latencies.record(took);
                total += took;
                if !reply.is_success() {
                    bail!("{}: {}", asked.sql(), reply.excerpt());
                }
                first.get_or_insert((asked, reply.body));
            }
            Ok::<_, anyhow::Error>((latencies, total, first))
        })
    });
    let (mut latencies, mut total, mut firsts) = (Latencies::default(), Duration::ZERO, Vec::new());
    for done in try_join_all(tasks).await? {
        let (of_worker, time, first) = done?;
        latencies.merge(&of_worker);
        total += time;
        firsts.extend(first);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let questions = questions.len();
    for (asked, body) in firsts {
        words.check(fleet, &asked, body).with_context(|| asked.sql())?;
    }
    Ok(FormSample {
        form,
        with_parameters: words == Words::Parameters,
        workers,
        questions,
        per_second: questions as f64 / seconds.max(1e-9),
        mean_ms: total.as_secs_f64() * 1e3 / questions.max(1) as f64,
        latency: latencies.percentiles(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_statement_travels_in_a_query_string_and_its_reply_gives_the_values() {
        assert_eq!(percent_encoded("a = 'b' and t >= 1ms"), "a%20%3D%20%27b%27%20and%20t%20%3E%3D%201ms");
        let reply = br#"{"results":[{"statement_id":0,"series":[{"name":"cpu","columns":["time","max"],"values":[[0,1.5],[60000,2]]}]}]}"#;
        assert_eq!(influxdb_values(reply).unwrap(), [Some(1.5), Some(2.0)]);
        assert_eq!(influxdb_values(br#"{"results":[{"statement_id":0}]}"#).unwrap(), []);
        let failed = influxdb_values(br#"{"results":[{"statement_id":0,"error":"no such database"}]}"#);
        assert_eq!(failed.unwrap_err().to_string(), "InfluxDB: no such database");
    }

    #[test]
    fn influxdb_is_asked_about_the_same_host_and_hour() {
        let fleet = Fleet { hosts: 7, steps: 8_640, seed: 1 };
        let asked = Asked::random(&fleet, Form::OneHostOneHour, 3);
        let (ours, values) = asked.parameters();
        let theirs = influxql(&asked).unwrap();
        assert!(
            ours.contains("hostname = ?") && theirs.contains(&format!("hostname = {}", values[0]).replace('"', "'"))
        );
        assert!(values[1..].iter().all(|ms| theirs.contains(&format!("{ms}ms"))), "{theirs}");
        assert!(influxql(&Asked::random(&fleet, Form::LastPoint, 0)).is_err());
    }
}
