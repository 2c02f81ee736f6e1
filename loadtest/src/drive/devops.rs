//! The fleet's load and questions: several workers at once, each with a connection of its own.

use super::{
    Latencies,
    http::{Client, HttpOptions},
    latency::Percentiles,
    query::Raw,
};
use crate::devops::{Asked, DATABASE, Feed, Fleet, Form, check};
use anyhow::{Context, Result, bail};
use futures::future::try_join_all;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How the fleet was loaded.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LoadSample {
    /// Lines that the server acknowledged.
    pub lines: u64,
    /// Values that they hold.
    pub values: u64,
    /// Bytes of line protocol.
    pub bytes: u64,
    /// Time from the first request to the last reply.
    pub seconds: f64,
    /// Workers at once.
    pub workers: usize,
    /// Lines of a request.
    pub lines_per_request: usize,
    /// Of requests.
    pub latency: Percentiles,
}

/// Questions of one shape.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FormSample {
    /// The shape.
    pub form: Form,
    /// Whether values were parameters, so that every text was the same.
    pub with_parameters: bool,
    /// Workers at once.
    pub workers: usize,
    /// Questions asked.
    pub questions: usize,
    /// Questions a second, of all workers together.
    pub per_second: f64,
    /// Mean time of one, at the client, in milliseconds.
    pub mean_ms: f64,
    /// Of questions.
    pub latency: Percentiles,
}

/// Writes the whole fleet: each worker has hosts of its own and sends one request at a time.
///
/// # Errors
/// What the server refuses, or no answer in time.
pub async fn load(
    fleet: &Fleet,
    url: &str,
    options: &HttpOptions,
    workers: usize,
    lines_per_request: usize,
) -> Result<LoadSample> {
    let begun = Instant::now();
    let share = |worker: usize| (u64::from(fleet.hosts) * worker as u64 / workers as u64) as u32;
    let tasks = (0..workers.max(1)).map(|worker| {
        let hosts = share(worker)..share(worker + 1);
        let (fleet, url, options) = (*fleet, url.to_owned(), options.clone());
        tokio::spawn(async move {
            let mut client = Client::new(&url, options)?;
            let (mut body, mut latencies, mut sums) = (Vec::new(), Latencies::default(), [0u64; 3]);
            let mut feed = Feed::new(fleet, hosts);
            let target = format!("/write?db={DATABASE}");
            loop {
                body.clear();
                let (lines, values) = feed.next(lines_per_request, &mut body);
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

/// Asks so many random questions of one shape, dealt to the workers, and compares the first of each worker with the right
/// answer.
///
/// # Errors
/// A statement that fails, a wrong answer.
pub async fn ask(
    fleet: &Fleet,
    form: Form,
    with_parameters: bool,
    url: &str,
    options: &HttpOptions,
    workers: usize,
    questions: usize,
) -> Result<FormSample> {
    let begun = Instant::now();
    let tasks = (0..workers.max(1)).map(|worker| {
        let (fleet, url, options) = (*fleet, url.to_owned(), options.clone());
        tokio::spawn(async move {
            let mut client = Client::new(&url, options)?;
            let (mut latencies, mut total, mut first) = (Latencies::default(), Duration::ZERO, None);
            for nth in (worker..questions).step_by(workers.max(1)) {
                let asked = Asked::random(&fleet, form, nth as u32);
                let (body, content_type) = if with_parameters {
                    let (sql, params) = asked.parameters();
                    let body = serde_json::json!({ "sql": sql, "params": params, "format": "arrow" });
                    (body.to_string(), "application/json")
                } else {
                    (asked.sql(), "text/plain; charset=utf-8")
                };
                let sent = Instant::now();
                let reply = client.send("POST", "/api/v1/sql?format=arrow", content_type, body.as_bytes()).await?;
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
    for (asked, body) in firsts {
        let answer = Raw::Ipc(body).into_answer().with_context(|| asked.sql())?;
        check(fleet, &asked, &answer)?;
    }
    Ok(FormSample {
        form,
        with_parameters,
        workers,
        questions,
        per_second: questions as f64 / seconds.max(1e-9),
        mean_ms: total.as_secs_f64() * 1e3 / questions.max(1) as f64,
        latency: latencies.percentiles(),
    })
}
