#![allow(clippy::unwrap_used)]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use futures::future::join_all;
use tidelake_format::{
    check, layout,
    store::faults::{Fault, Operation, Request},
};
use tidelake_ingest::{
    config::IngestConfig,
    decode::line_protocol::LinePrecision,
    write::{Durability, Ingest},
};

use tidelake_lambda::testing::{aws, context};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

fn function(store: &Store) -> CompactFunction {
    let config = CompactConfig { fold_margin_ms: Some(0), merge_files: 2, ..crate::settings::compaction(512 << 20) };
    CompactFunction::new(store.clone(), config, None, Box::leak(Box::new(Telemetry::silent())))
}

/// Writes this many segments of one row each.
async fn segments(store: &Store, count: u64) {
    let now_ms = now_ms();
    let ingest = writer(store).await;
    for n in 0..count {
        write(&ingest, &format!("m,host=h{n} v={n} {}", now_ms + n)).await;
    }
    ingest.shutdown().await;
    // A fold takes only segments older than the millisecond in which it begins.
    tokio::time::sleep(Duration::from_millis(3)).await;
}

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

async fn write(ingest: &Ingest, line: &str) {
    let line = Bytes::from(line.to_owned());
    ingest.write_line_protocol("db", line, LinePrecision::Milli, Durability::Stored).await.unwrap();
}

async fn writer(store: &Store) -> Ingest {
    let config = IngestConfig {
        compact: CompactConfig { background: false, ..CompactConfig::default() },
        ..IngestConfig::default()
    };
    Ingest::open(Root::open(store.clone()).await.unwrap(), config).await.unwrap()
}

/// The partitions of the table, and the rows in all its data files.
async fn filed(store: &Store) -> (u64, u64) {
    let root = Root::open(store.clone()).await.unwrap();
    let catalog = root.catalog();
    let table = catalog.table(catalog.database("db").unwrap().id, "m").unwrap().id;
    catalog.partitions(table).fold((0, 0), |(partitions, rows), (_, summary)| (partitions + 1, rows + summary.rows))
}

/// A platform that accepts one invocation; returns its path and event.
async fn invocation(platform: &TcpListener) -> (String, Value) {
    let (mut stream, _) = platform.accept().await.unwrap();
    let (mut request, mut part) = (String::new(), [0; 4096]);
    let (head, body) = loop {
        let read = stream.read(&mut part).await.unwrap();
        assert!(read > 0, "the request ended early: {request}");
        request.push_str(std::str::from_utf8(&part[..read]).unwrap());
        if let Some((head, body)) = request.split_once("\r\n\r\n")
            && let Ok(event) = serde_json::from_str::<Value>(body)
        {
            break (head.to_owned(), event);
        }
    };
    assert!(head.to_lowercase().contains("x-amz-invocation-type: event"), "{head}");
    stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await.unwrap();
    (head.lines().next().unwrap().to_owned(), body)
}

#[tokio::test]
async fn an_invocation_folds_all_segments_and_the_next_finds_nothing() {
    let store = Store::in_memory();
    segments(&store, 5).await;
    let function = function(&store);
    let scheduled = json!({"source": "aws.events", "detail-type": "Scheduled Event"});
    let done = function.compact(scheduled, &context(30_000)).await.unwrap();
    assert_eq!((done.segments, done.folded_rows, done.has_more), (5, 5, false));
    let debt = Compactor::new(Root::open(store.clone()).await.unwrap(), function.config.clone()).debt().await.unwrap();
    assert_eq!((debt.segments, debt.folded, debt.files), (0, 5, 1), "folded ones stay for a while");
    let done = function.compact(json!({}), &context(30_000)).await.unwrap();
    assert_eq!(done, Done::new(&CompactReport::default(), 0, false));
    // The files of two folds are merged once there are two files of similar size; another environment may do that.
    segments(&store, 3).await;
    let done = self::function(&store).compact(json!({"task": "compact"}), &context(30_000)).await.unwrap();
    assert_eq!((done.segments, done.merged_rows), (3, 8));
    assert!(done.merged_files >= 2, "{done:?}");
}

#[tokio::test]
async fn without_time_nothing_is_begun_and_there_is_more_to_do() {
    let store = Store::in_memory();
    segments(&store, 2).await;
    let function = function(&store);
    function.compact(json!({"task": "collect"}), &context(30_000)).await.unwrap();
    let done = function.compact(json!({}), &context(0)).await;
    // The compactor is open already, but no time is left for a step.
    let done = done.unwrap();
    assert_eq!((done.segments, done.has_more), (0, true));
    let done = function.compact(json!({"task": "fold", "turn": 1}), &context(30_000)).await.unwrap();
    assert_eq!((done.segments, done.has_more), (2, false));
    assert_eq!(store.list(layout::LOG).await.unwrap().len(), 2, "folded segments stay for a minute");
}

#[tokio::test]
async fn a_collection_that_runs_out_of_time_continues_later() {
    let plain = Store::in_memory();
    segments(&plain, 2).await;
    let late = |request: &Request<'_>| match request.operation {
        Operation::List => Fault::Late(Duration::from_millis(400)),
        _ => Fault::None,
    };
    let function = function(&plain.clone().with_faults(late));
    function.compact(json!({"task": "fold"}), &context(30_000)).await.unwrap();
    for task in ["collect", "sweep"] {
        let done = function.compact(json!({"task": task}), &context(300)).await.unwrap();
        assert!(done.has_more, "{task}: {done:?}");
        let done = function.compact(json!({"task": task}), &context(30_000)).await.unwrap();
        assert!(!done.has_more, "{task}: {done:?}");
    }
}

#[tokio::test]
async fn an_invocation_with_work_left_requests_another_that_continues() {
    let store = Store::in_memory();
    segments(&store, 3).await;
    let platform = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", platform.local_addr().unwrap());
    let next = Continue { aws: aws(&endpoint).unwrap(), function: "compact-it".to_owned() };
    let function = CompactFunction { next: Some(next), ..function(&store) };
    function.compact(json!({"task": "collect"}), &context(30_000)).await.unwrap();

    let context_without_time = context(0);
    let (done, (asked, event)) =
        tokio::join!(function.compact(json!({"task": "full"}), &context_without_time), invocation(&platform));
    assert!(done.unwrap().has_more);
    assert_eq!(asked, "POST /2015-03-31/functions/compact-it/invocations HTTP/1.1");
    assert_eq!(event, json!({"task": "full", "turn": 1}));
    let done = function.compact(event, &context(30_000)).await.unwrap();
    assert_eq!((done.segments, done.has_more, filed(&store).await.1), (3, false, 3));
    // The last invocation of a series leaves the rest to the schedule.
    segments(&store, 2).await;
    let last = json!({"task": "full", "turn": MOST_TURNS});
    assert!(function.compact(last, &context(0)).await.unwrap().has_more);
    let asked = tokio::time::timeout(Duration::from_millis(300), platform.accept()).await;
    assert!(asked.is_err(), "neither after the last turn nor without more to do");
}

#[tokio::test]
async fn several_at_once_fold_every_row_once() {
    let store = Store::in_memory();
    segments(&store, 40).await;
    let functions: Vec<CompactFunction> = (0..6).map(|_| function(&store)).collect();
    for task in ["compact", "full", "sweep"] {
        let context = context(30_000);
        let all = functions.iter().map(|function| function.compact(json!({"task": task}), &context));
        for done in join_all(all).await {
            done.unwrap_or_else(|error| panic!("{task}: {error}"));
        }
        assert_eq!(filed(&store).await.1, 40, "{task}");
    }
    let debt =
        Compactor::new(Root::open(store.clone()).await.unwrap(), functions[0].config.clone()).debt().await.unwrap();
    assert_eq!((debt.segments, debt.files), (0, filed(&store).await.0));
    let checked = check::check(&store, Default::default()).await.unwrap();
    assert!(checked.is_sound(), "{checked:?}");
}

#[tokio::test]
async fn a_scheduled_invocation_drops_rows_beyond_keep() {
    const DAY_MS: u64 = 86_400_000;
    let store = Store::in_memory();
    let ingest = writer(&store).await;
    ingest.execute(None, "create database db precision 'ms' duration 1d keep 100d", None).await.unwrap();
    let now_ms = now_ms();
    for days in 0..20 {
        write(&ingest, &format!("m,host=a v={days} {}", now_ms - days * DAY_MS)).await;
    }
    tokio::time::sleep(Duration::from_millis(3)).await;
    let function = function(&store);
    let done = function.compact(json!({}), &context(30_000)).await.unwrap();
    assert_eq!((done.folded_rows, done.expired_rows), (20, 0));
    ingest.execute(None, "alter database db keep 10d", None).await.unwrap();
    ingest.shutdown().await;
    let done = function.compact(json!({}), &context(30_000)).await.unwrap();
    // A part of the partition of ten days ago may be within KEEP.
    assert!((9..=10).contains(&done.expired_rows), "{done:?}");
    assert_eq!(filed(&store).await.1, 20 - done.expired_rows);
}

#[tokio::test]
async fn an_unknown_task_is_refused_with_the_known_tasks() {
    let function = function(&Store::in_memory());
    let error = function.compact(json!({"task": "shrink"}), &context(30_000)).await.unwrap_err().to_string();
    assert!(error.contains("sweep") && error.contains("shrink"), "{error}");
}
