//! Runs the papers' data and queries on serverless functions only: one function writes, one compacts, one answers queries.

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

/// A fold skips segments younger than this.
const MARGIN: Duration = Duration::from_secs(6);
/// Number of measured idle invocations.
const IDLE_RUNS: u64 = 10;
/// Maximum duration of an invocation.
const TIMEOUT: Duration = Duration::from_secs(300);

/// The functions and the root.
#[derive(Debug, Clone)]
pub struct FunctionsOptions {
    /// A directory for each function, with its `bootstrap`.
    pub packages: PathBuf,
    /// Environment variables of the functions: `TIDELAKE_STORE`, and the store's endpoint and credentials.
    pub environment: Vec<(String, String)>,
    /// Number of concurrent clients and of `ingest-http` environments.
    pub clients: usize,
    /// Rows per request.
    pub rows_per_request: usize,
    /// Runs of each query.
    pub repeat: usize,
    /// Memory of `ingest-http`, `compact` and `query-http`, in MB.
    pub memory_mb: [u32; 3],
    /// Wait before garbage collection, which precedes the queries and function starts. Folded segments are kept for a minute; a
    /// continuously compacted root never holds many of them.
    pub settle: Duration,
    /// Number of timed cold starts per function, with its program in the page cache and again without.
    pub starts: usize,
}

/// Times from the start of a process to its first answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Starts {
    /// The function.
    pub function: String,
    /// With its program in the page cache, in milliseconds, in the order of the runs.
    pub cached_ms: Vec<f64>,
    /// With its program dropped from the page cache, in milliseconds.
    pub dropped_ms: Vec<f64>,
}

/// Reply and duration of one `compact` invocation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Compacted {
    /// Seconds from the event to the answer.
    pub seconds: f64,
    /// Reply of the function.
    pub reply: Value,
}

/// Idle invocations of `compact` in an environment that has already opened the root.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Idle {
    /// Number of invocations.
    pub runs: u64,
    /// Total time of the invocations, in seconds.
    pub seconds: f64,
    /// Total store requests of the invocations.
    pub store: StoreRequests,
}

/// Results of the whole measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FunctionsSample {
    /// Writing.
    pub load: WriteSample,
    /// Resources used by `ingest-http`.
    pub ingest: Used,
    /// Invocations of `compact` until nothing was left to compact.
    pub compacted: Vec<Compacted>,
    /// Resources used by those invocations.
    pub compact: Used,
    /// q1 to q4.
    pub queries: Vec<QuerySample>,
    /// Result of comparing the answers with the oracle's.
    pub verified: Verified,
    /// Resources used by `query-http`.
    pub query: Used,
    /// Bytes of the data files and their companion files.
    pub stored: u64,
    /// Idle invocations of `compact`.
    pub idle: Idle,
    /// Garbage collection before the function starts.
    pub collected: Compacted,
    /// Times to the first answer of new processes.
    pub starts: Vec<Starts>,
}

impl FunctionsOptions {
    fn program(&self, name: &str) -> Result<PathBuf> {
        let program = self.packages.join(name).join("bootstrap");
        ensure!(program.is_file(), "{} does not exist: run cargo xtask package", program.display());
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

/// Writes all rows, compacts until nothing is left to compact, collects garbage, runs every query, and times new starts of each
/// function.
///
/// # Errors
/// A function that fails or exits. Wrong answers are counted, not returned as errors.
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
    // q1 returns more rows than a buffered reply may hold, so its reply is streamed.
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

/// Total bytes of the live files.
async fn stored(options: &FunctionsOptions) -> Result<u64> {
    let url = options.url("query-http", 1, options.memory_mb[2], &[]).await?;
    let addresses = Addresses { url: url.url.clone(), flight: None };
    let mut asker = Asker::connect(Door::HttpJson, &addresses, &HttpOptions::default()).await?;
    let (_, answer) = asker.sample("stored", "select cast(sum(bytes) as bigint) as bytes from system.files", 1).await?;
    match answer.column("bytes")?.value(0) {
        Answered::Int(bytes) => Ok(bytes.unsigned_abs()),
        found => bail!("expected the total bytes of the files, found {found:?}"),
    }
}

/// Measures idle `compact` invocations on a separate root that holds a single row.
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
    // The first call folds the row; in the second, the first invocation opens the root.
    idle_runs(&beside, 1).await?;
    let [_, before] = idle_runs(&beside, 1).await?;
    let [later, after] = idle_runs(&beside, 1 + IDLE_RUNS).await?;
    Ok(Idle { runs: IDLE_RUNS, seconds: later.seconds, store: after.store.since(&before.store) })
}

/// Total time of the invocations after the first, and the resources used by all of them.
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

/// Times the first answers of `ingest-http` to a write of one row, `ingest-queue` to a message of one row, `compact` to its
/// schedule event, and `query-http` to q2 over all rows.
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

/// Drops a file's pages from the page cache; no process may have it mapped.
fn drop_from_cache(path: &Path) -> Result<()> {
    let file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    fadvise(&file, 0, None, Advice::DontNeed).with_context(|| format!("drop {} from the page cache", path.display()))
}
