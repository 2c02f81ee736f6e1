//! The papers' data and questions through functions alone: written by one, compacted by another, asked of a third.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{Advice, fadvise};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    Existing, HttpOptions, Progress, WriteOptions, WriteSample, create_database,
    platform::{Function, FunctionUrl, StoreRequests, Used, http_event, http_reply},
    query::{Addresses, Asker, Door, QuerySample},
    write::write,
};
use crate::{
    workload::answer::Value as Answered,
    workload::generate::{Devices, Order, Source},
    workload::oracle::Oracle,
    workload::verify::{Verified, verify},
    workload::{Function as Aggregate, Q1_GROUPS, Question, all_queries},
};

/// Segments younger than this are left alone by a fold.
const MARGIN: Duration = Duration::from_secs(6);
/// Invocations with nothing to do that are measured.
const IDLE_RUNS: u64 = 10;
/// How long an invocation may take.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The functions and the root.
#[derive(Debug, Clone)]
pub struct FunctionsOptions {
    /// A directory for each function, with its `bootstrap`.
    pub packages: PathBuf,
    /// What functions find in their environment: `TIDELAKE_STORE`, and where and as whom it is asked.
    pub environment: Vec<(String, String)>,
    /// Clients at once, and environments of `ingest-http`.
    pub clients: usize,
    /// Rows of one request.
    pub rows_per_request: usize,
    /// Runs of each question.
    pub repeat: usize,
    /// Memory of `ingest-http`, `compact` and `query-http`, in MB.
    pub memory_mb: [u32; 3],
    /// A wait before garbage is collected, and after that questions are asked and functions started: folded segments stay for
    /// a minute, and of a root that is compacted all the time there are never many.
    pub settle: Duration,
    /// Starts of each function whose first answer is timed, with its program in the page cache and without.
    pub starts: usize,
}

/// The time from the start of a process to its first answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Starts {
    /// The function.
    pub function: String,
    /// With its program in the page cache, in milliseconds, in the order of the runs.
    pub cached_ms: Vec<f64>,
    /// With its program dropped from it.
    pub dropped_ms: Vec<f64>,
}

/// What one invocation of `compact` answered, and what it took.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Compacted {
    /// From the event to the answer.
    pub seconds: f64,
    /// What the function said.
    pub reply: Value,
}

/// Invocations of `compact` that have nothing to do, in an environment that has opened the root.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Idle {
    /// How many they were.
    pub runs: u64,
    /// Their time, together.
    pub seconds: f64,
    /// Their requests to the store, together.
    pub store: StoreRequests,
}

/// What all of it gave.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionsSample {
    /// Writing.
    pub load: WriteSample,
    /// What `ingest-http` used.
    pub ingest: Used,
    /// Invocations of `compact` until there was no more to do.
    pub compacted: Vec<Compacted>,
    /// What they used.
    pub compact: Used,
    /// q1 to q4.
    pub queries: Vec<QuerySample>,
    /// What the answers were compared with, and the outcome.
    pub verified: Verified,
    /// What `query-http` used.
    pub query: Used,
    /// Bytes of the data files, with what stands beside them.
    pub stored: u64,
    /// Invocations of `compact` with nothing to do.
    pub idle: Idle,
    /// The collection of garbage before the starts.
    pub collected: Compacted,
    /// First answers of new processes.
    pub starts: Vec<Starts>,
}

impl FunctionsOptions {
    fn program(&self, name: &str) -> Result<PathBuf> {
        let program = self.packages.join(name).join("bootstrap");
        ensure!(program.is_file(), "{} does not exist: cargo xtask package", program.display());
        Ok(program)
    }

    fn environment(&self) -> Vec<(&str, String)> {
        self.environment.iter().map(|(name, value)| (name.as_str(), value.clone())).collect()
    }

    async fn url(&self, name: &str, environments: usize, memory_mb: u32, more: &[(&str, &str)]) -> Result<FunctionUrl> {
        let mut environment = self.environment.clone();
        environment.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        FunctionUrl::serve(self.program(name)?, environments, memory_mb, TIMEOUT, environment).await
    }
}

/// Writes all rows, compacts until there is no more to do, collects garbage, asks every question, and starts each function
/// anew.
///
/// # Errors
/// A function that fails or ends; a wrong answer is no error, but counted.
pub async fn through_functions(
    set: Devices,
    oracle: &Oracle,
    options: &FunctionsOptions,
    progress: Progress<'_>,
) -> Result<FunctionsSample> {
    let [ingest_mb, compact_mb, query_mb] = options.memory_mb;
    let url = options.url("ingest-http", options.clients, ingest_mb, &[]).await?;
    let mut writing = WriteOptions::new(&url.url);
    (writing.clients, writing.rows_per_request) = (options.clients, options.rows_per_request);
    create_database(&url.url, &writing.http, Existing::Keep).await?;
    let load = write(&Source::Generated(set, Order::Device), &writing, progress).await?;
    let ingest = url.finish();

    sleep(MARGIN).await;
    let mut compactor = Function::start(&options.program("compact")?, compact_mb, &options.environment()).await?;
    compactor.timeout = TIMEOUT;
    let mut compacted = Vec::new();
    for task in ["compact", "full"] {
        loop {
            let done = compact(&mut compactor, task).await?;
            let has_more = done.reply["has_more"] == true;
            compacted.push(done);
            if !has_more {
                break;
            }
        }
    }
    let compact_used = compactor.finish();
    let idle = idle(options).await?;
    sleep(options.settle).await;
    let mut collector = Function::start(&options.program("compact")?, compact_mb, &options.environment()).await?;
    collector.timeout = TIMEOUT;
    let collected = compact(&mut collector, "collect").await?;
    drop(collector);

    let (mut queries, mut verified, mut query) = (Vec::new(), Verified::default(), Used::default());
    // The papers' first question has more rows than a reply in one piece may hold: they are sent as they are made.
    for (response, questions) in
        [("stream", all_queries(&Q1_GROUPS[..2], &[])), ("buffered", all_queries(&[], &[50, 100]))]
    {
        let url = options.url("query-http", 1, query_mb, &[("TIDELAKE_RESPONSE", response)]).await?;
        let addresses = Addresses { url: url.url.clone(), flight: None };
        for door in [Door::HttpArrow, Door::HttpJson] {
            let mut asker = Asker::connect(door, &addresses, &HttpOptions::default()).await?;
            for question in &questions {
                let (sample, answer) = asker.sample(&question.name(), &question.sql(), options.repeat).await?;
                queries.push(sample);
                match verify(oracle, question, &answer) {
                    Ok(()) => verified.right += 1,
                    Err(error) => verified.wrong.push(format!("{}: {error:#}", door.name())),
                }
            }
        }
        query.add(url.finish());
    }
    let stored = stored(options).await?;
    let starts = starts(options).await?;
    Ok(FunctionsSample {
        load,
        ingest,
        compacted,
        compact: compact_used,
        queries,
        verified,
        query,
        stored,
        idle,
        collected,
        starts,
    })
}

/// The bytes of the files that there are.
async fn stored(options: &FunctionsOptions) -> Result<u64> {
    let url = options.url("query-http", 1, options.memory_mb[2], &[]).await?;
    let addresses = Addresses { url: url.url.clone(), flight: None };
    let mut asker = Asker::connect(Door::HttpJson, &addresses, &HttpOptions::default()).await?;
    let (_, answer) = asker.sample("stored", "select cast(sum(bytes) as bigint) as bytes from system.files", 1).await?;
    match answer.column("bytes")?.value(0) {
        Answered::Int(bytes) => Ok(bytes.unsigned_abs()),
        found => bail!("bytes of the files: {found:?}"),
    }
}

/// What `compact` uses where nothing has been written for a while, on a root of one row beside the other one.
async fn idle(options: &FunctionsOptions) -> Result<Idle> {
    let mut beside = options.clone();
    for (name, value) in &mut beside.environment {
        if name == "TIDELAKE_STORE" {
            value.push_str("-idle");
        }
    }
    let program = beside.program("ingest-http")?;
    let mut writer = Function::start(&program, beside.memory_mb[0], &beside.environment()).await?;
    let reply = writer.http("POST", "/write?db=idle&precision=ms", &[], b"m v=1 1700000000000").await?;
    ensure!(reply.status == 204, "ingest-http: {} {}", reply.status, reply.text());
    sleep(MARGIN).await;
    // The first folds the row; of the others, the first invocation opens the root.
    idle_runs(&beside, 1).await?;
    let [_, before] = idle_runs(&beside, 1).await?;
    let [later, after] = idle_runs(&beside, 1 + IDLE_RUNS).await?;
    Ok(Idle { runs: IDLE_RUNS, seconds: later.seconds, store: after.store.since(&before.store) })
}

/// The time of the invocations after the first one, and what all of them did.
async fn idle_runs(options: &FunctionsOptions, runs: u64) -> Result<[Used; 2]> {
    let program = options.program("compact")?;
    let mut compactor = Function::start(&program, options.memory_mb[1], &options.environment()).await?;
    let mut later = Used::default();
    for run in 0..runs {
        let done = compact(&mut compactor, "compact").await?;
        if run > 0 {
            later.seconds += done.seconds;
        }
    }
    Ok([later, compactor.finish()])
}

async fn compact(function: &mut Function, task: &str) -> Result<Compacted> {
    let begun = Instant::now();
    match function.invoke(&json!({ "task": task })).await? {
        super::platform::Outcome::Answered(bytes) => {
            let reply = serde_json::from_slice(&bytes).context("a reply of compact")?;
            Ok(Compacted { seconds: begun.elapsed().as_secs_f64(), reply })
        }
        outcome => bail!("compact: {outcome:?}"),
    }
}

/// First answers: of `ingest-http` to a write of one row, of `ingest-queue` to a message of one, of `compact` to its schedule, of
/// `query-http` to q2 about all rows.
async fn starts(options: &FunctionsOptions) -> Result<Vec<Starts>> {
    let write = http_event("POST", "/write?db=starts&precision=ms", &[], b"m v=1 1700000000000");
    let question = Question::Q2 { function: Aggregate::Avg, percent: 100 };
    let ask = http_event("POST", "/rest/sql", &[], question.sql().as_bytes());
    let message = json!({"Records": [{
        "messageId": "starts", "body": "m v=1 1700000000000", "eventSource": "aws:sqs",
        "messageAttributes": {
            "db": {"stringValue": "starts", "dataType": "String"}, "precision": {"stringValue": "ms", "dataType": "String"},
        },
    }]});
    let [ingest_mb, compact_mb, query_mb] = options.memory_mb;
    let mut all = Vec::new();
    for (name, memory_mb, event) in [
        ("ingest-http", ingest_mb, write),
        ("ingest-queue", ingest_mb, message),
        ("compact", compact_mb, json!({"task": "compact"})),
        ("query-http", query_mb, ask),
    ] {
        let program = options.program(name)?;
        let mut starts = Starts { function: name.to_owned(), cached_ms: Vec::new(), dropped_ms: Vec::new() };
        for run in 0..options.starts * 2 {
            let is_dropped = run % 2 == 1;
            if is_dropped {
                drop_from_cache(&program)?;
            }
            let mut environment = options.environment();
            if name == "ingest-queue" {
                environment.push(("TIDELAKE_QUEUE_DATABASE", "starts".to_owned()));
            }
            let (took, answer) = Function::first_answer(&program, memory_mb, &environment, &event).await?;
            if name.ends_with("-http") {
                let reply = http_reply(&answer)?;
                ensure!(reply.status < 300, "{name}: {} {}", reply.status, reply.text());
            } else {
                let reply: Value = serde_json::from_slice(&answer).with_context(|| format!("a reply of {name}"))?;
                let is_done = reply["batchItemFailures"] == json!([]) || reply["has_more"].is_boolean();
                ensure!(is_done, "{name}: {reply}");
            }
            let list = if is_dropped { &mut starts.dropped_ms } else { &mut starts.cached_ms };
            list.push(took.as_secs_f64() * 1e3);
        }
        all.push(starts);
    }
    Ok(all)
}

/// Has the system forget the pages of a file that no process has mapped.
fn drop_from_cache(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    fadvise(&file, 0, None, Advice::DontNeed).with_context(|| format!("drop {} from the page cache", path.display()))
}
