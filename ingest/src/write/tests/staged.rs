//! Bulk ingests that create their table: a new one, or one in place of another.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray},
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use futures::{channel::mpsc, stream};
use tidelake_format::{
    Error, Kind, Result,
    garbage::{Collector, GarbageOptions, Sweep},
    layout,
    meta::Root,
    store::{
        Store,
        faults::{Fault, Operation},
    },
};

use super::{IdempotencyKey, IfAbsent, IfExists, Ingest, IngestTarget, Written, line, segments};
use crate::{
    compact::CompactRequest,
    config::IngestConfig,
    testing::{config, nano, open, rows},
    write::Durability,
};

const TABLE: &str = "bulk";

fn target(if_exists: IfExists) -> IngestTarget {
    IngestTarget { database: "db".into(), table: TABLE.into(), if_absent: IfAbsent::Create, if_exists }
}

/// Ten rows; the row at `null` has no time.
fn batch_with(from: i64, value: i64, null: Option<i64>) -> RecordBatch {
    let times = (from..from + 10).map(|ts| (Some(ts) != null).then_some(ts));
    let columns: [(&str, ArrayRef); 3] = [
        ("ts", Arc::new(TimestampNanosecondArray::from_iter(times))),
        ("v", Arc::new(Int64Array::from_iter_values((0..10).map(|_| value)))),
        ("tbname", Arc::new(StringArray::from_iter_values((0..10).map(|i| format!("d{}", i % 3))))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn batch(from: i64, value: i64) -> RecordBatch {
    batch_with(from, value, None)
}

/// Each batch is a separate segment.
fn parts() -> IngestConfig {
    IngestConfig { bulk_segment_bytes: 1, ..config() }
}

async fn send(ingest: &Ingest, if_exists: IfExists, batches: Vec<Result<RecordBatch>>) -> Result<Written> {
    ingest.ingest_batches(target(if_exists), stream::iter(batches)).await
}

/// The times and values of the table; `None` if it does not exist.
async fn held(store: &Store) -> Option<Vec<(i64, String)>> {
    let root = Root::open(store.clone()).await.unwrap();
    let db = root.catalog().database("db").unwrap().id;
    root.catalog().table(db, TABLE)?;
    let rows = rows(store, "db", TABLE, &[]).await;
    let mut held: Vec<_> = rows.into_iter().map(|((_, ts), row)| (ts, row["v"].clone())).collect();
    held.sort();
    Some(held)
}

fn values(range: std::ops::Range<i64>, value: &str) -> Option<Vec<(i64, String)>> {
    Some(range.map(|ts| (ts, value.to_owned())).collect())
}

/// Streams that are refused or break off at some point.
fn broken() -> Vec<Vec<Result<RecordBatch>>> {
    let gone = || Err(Error::unavailable("the client went away"));
    let other = RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    vec![
        vec![gone()],
        vec![Ok(batch_with(0, 2, Some(3)))],
        vec![Ok(batch(0, 2)), gone()],
        vec![Ok(batch(0, 2)), Ok(batch(10, 2)), Ok(batch_with(20, 2, Some(25)))],
        vec![Ok(batch(0, 2)), Ok(other)],
        (0..100).map(|n| Ok(batch(n * 10, 2))).collect(), // too large
    ]
}

#[tokio::test]
async fn a_table_keeps_its_rows_when_the_stream_that_was_to_replace_it_fails() {
    for config in [parts(), config()] {
        let store = Store::in_memory();
        let ingest = nano(&store, IngestConfig { bulk_bytes: 20_000, ..config }).await;
        send(&ingest, IfExists::Fail, vec![Ok(batch(100, 1))]).await.unwrap();
        let before = ingest.root().refresh().await.unwrap().version;
        for (at, stream) in broken().into_iter().enumerate() {
            send(&ingest, IfExists::Replace, stream).await.unwrap_err();
            assert_eq!(held(&store).await, values(100..110, "1"), "after stream {at}");
        }
        assert_eq!(ingest.root().refresh().await.unwrap().version, before);
        send(&ingest, IfExists::Replace, vec![Ok(batch(0, 2)), Ok(batch(10, 2))]).await.unwrap();
        assert_eq!(held(&store).await, values(0..20, "2"));
    }
}

#[tokio::test]
async fn a_table_that_was_to_be_created_is_not_there_after_a_stream_that_failed_and_may_be_sent_again() {
    for if_exists in [IfExists::Fail, IfExists::Replace] {
        let store = Store::in_memory();
        let ingest = nano(&store, IngestConfig { bulk_bytes: 20_000, ..parts() }).await;
        for (at, stream) in broken().into_iter().enumerate() {
            send(&ingest, if_exists, stream).await.unwrap_err();
            assert_eq!(held(&store).await, None, "after stream {at}");
        }
        send(&ingest, if_exists, vec![Ok(batch(0, 2))]).await.unwrap();
        assert_eq!(held(&store).await, values(0..10, "2"));
    }
    // A stream that may append creates its table before its rows exist, but not for a first batch that is refused.
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let stream = || vec![Ok(batch(0, 2).slice(0, 0)), Ok(batch_with(0, 2, Some(3)))];
    for stream in [stream(), stream().split_off(1)] {
        send(&ingest, IfExists::Append, stream).await.unwrap_err();
        assert_eq!(held(&store).await, None);
    }
}

#[tokio::test]
async fn a_table_is_replaced_atomically_and_accepts_rows_afterwards() {
    let store = Store::in_memory();
    let ingest = nano(&store, parts()).await;
    send(&ingest, IfExists::Fail, vec![Ok(batch(0, 1)), Ok(batch(5, 2))]).await.unwrap();
    send(&ingest, IfExists::Replace, vec![Ok(batch(0, 1)), Ok(batch(0, 3))]).await.unwrap();
    assert_eq!(held(&store).await, values(0..10, "3"), "later batches are newer");

    let (sender, batches) = mpsc::unbounded();
    let writer = ingest.clone();
    let running = tokio::spawn(async move { writer.ingest_batches(target(IfExists::Replace), batches).await });
    let before = segments(&store).await;
    for n in 0..3 {
        sender.unbounded_send(Ok(batch(1_000 + n * 10, 4))).unwrap();
        while segments(&store).await <= before + n as usize {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(held(&store).await, values(0..10, "3"));
    }
    // Rows written to the old table meanwhile are dropped with it.
    send(&ingest, IfExists::Append, vec![Ok(batch(50, 9))]).await.unwrap();
    ingest.compact(CompactRequest::Full).await.unwrap();
    drop(sender);
    let written = running.await.unwrap().unwrap();
    assert_eq!(written.accepted, 30);
    assert_eq!(rows(&store, "db", TABLE, &[written.token.unwrap()]).await.len(), 30);
    assert_eq!(held(&store).await, values(1_000..1_030, "4"));

    send(&ingest, IfExists::Append, vec![Ok(batch(1_005, 5))]).await.unwrap();
    ingest.compact(CompactRequest::Full).await.unwrap();
    let found = held(&store).await.unwrap();
    assert!(found.contains(&(1_014, "5".to_owned())) && found.contains(&(1_000, "4".to_owned())), "{found:?}");
    line(&ingest, "other value=1 1", Durability::Stored).await.unwrap();
    // The ingest's parts count as folded.
    let now = GarbageOptions { segments_ms: -1_000_000, ..GarbageOptions::default() };
    Collector::new(ingest.root().clone(), now).collect(Sweep::Quick).await.unwrap();
    assert_eq!(segments(&store).await, 1);
    assert_eq!(held(&store).await.unwrap(), found);
}

#[tokio::test]
async fn a_stream_without_rows_creates_or_replaces_a_table() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let none = || vec![Ok(batch(0, 1).slice(0, 0))];
    let appended = IngestTarget { if_absent: IfAbsent::Fail, ..target(IfExists::Append) };
    for batches in [none(), Vec::new()] {
        let absent = ingest.ingest_batches(appended.clone(), stream::iter(batches)).await.unwrap_err();
        assert_eq!(absent.kind(), Kind::NotFound, "{absent}");
    }
    for if_exists in [IfExists::Fail, IfExists::Append, IfExists::Replace] {
        // Nothing specifies the table's columns.
        let error = send(&ingest, if_exists, Vec::new()).await.unwrap_err();
        assert_eq!((error.kind(), held(&store).await), (Kind::Invalid, None), "{error}");
        send(&ingest, if_exists, none()).await.unwrap();
        assert_eq!(held(&store).await, Some(Vec::new()), "{if_exists:?}");
        ingest.execute(Some("db"), "drop table bulk", None).await.unwrap();
    }
    send(&ingest, IfExists::Fail, none()).await.unwrap();
    for batches in [none(), Vec::new()] {
        let exists = send(&ingest, IfExists::Fail, batches).await.unwrap_err();
        assert_eq!((exists.kind(), exists.message()), (Kind::Invalid, "the table already exists"));
    }
    send(&ingest, IfExists::Append, vec![Ok(batch(0, 1))]).await.unwrap();
    for batches in [none(), Vec::new()] {
        send(&ingest, IfExists::Append, batches).await.unwrap();
        assert_eq!(held(&store).await, values(0..10, "1"));
    }
    let other = RecordBatch::try_from_iter([("x", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    let unknown = send(&ingest, IfExists::Append, vec![Ok(other.slice(0, 0))]).await.unwrap_err();
    assert_eq!(unknown.kind(), Kind::NotFound, "{unknown}");
    send(&ingest, IfExists::Replace, none()).await.unwrap();
    assert_eq!(held(&store).await, Some(Vec::new()));
}

#[tokio::test]
async fn concurrently_created_tables_have_their_own_rows() {
    let store = Store::in_memory();
    nano(&store, config()).await;
    let one = open(&store, parts()).await;
    // Five processes at once, and more ingests in one process than it retries.
    let create = |n: i64| {
        let (store, one) = (store.clone(), one.clone());
        async move {
            let ingest = if n < 5 { open(&store, parts()).await } else { one };
            let target = IngestTarget { table: format!("t{n}"), ..target(IfExists::Fail) };
            let columns: [(&str, ArrayRef); 2] = [
                ("ts", Arc::new(TimestampNanosecondArray::from_iter_values([n, n + 1]))),
                ("v", Arc::new(Int64Array::from(vec![n, n]))),
            ];
            let batch = RecordBatch::try_from_iter(columns).unwrap();
            ingest.ingest_batches(target, stream::iter([Ok(batch)])).await.unwrap();
        }
    };
    futures::future::join_all((0..20).map(create)).await;
    for n in 0..20 {
        let found = rows(&store, "db", &format!("t{n}"), &[]).await;
        let found: Vec<_> = found.into_iter().map(|((_, ts), row)| (ts, row["v"].clone())).collect();
        assert_eq!(found, [(n, n.to_string()), (n + 1, n.to_string())]);
    }
}

#[tokio::test]
async fn a_series_of_another_table_is_refused_unless_that_table_is_replaced() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    send(&ingest, IfExists::Append, vec![Ok(batch(0, 1))]).await.unwrap();
    send(&ingest, IfExists::Replace, vec![Ok(batch(0, 2))]).await.unwrap();
    send(&ingest, IfExists::Append, vec![Ok(batch(0, 3))]).await.unwrap();
    let other = IngestTarget { table: "other".into(), ..target(IfExists::Fail) };
    let error = ingest.ingest_batches(other, stream::iter([Ok(batch(0, 2))])).await.unwrap_err();
    assert_eq!(error.context("supertable"), Some(TABLE), "{error}");
}

/// Replaces the table under a key, in a process that dies at its nth PUT, before or after that took effect.
async fn die_at(beneath: &Store, nth: usize, after: bool) -> bool {
    let (puts, dead) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
    let gone = dead.clone();
    let never = Fault::Late(Duration::from_secs(1_000_000));
    let store = beneath.with_faults(move |request| {
        if gone.load(Ordering::SeqCst) {
            return never;
        }
        if request.operation == Operation::Put && puts.fetch_add(1, Ordering::SeqCst) == nth {
            gone.store(true, Ordering::SeqCst);
            return if after { Fault::LostReply } else { never };
        }
        Fault::None
    });
    let ingest = open(&store, parts()).await.with_key(Some(IdempotencyKey::new("A").unwrap()));
    let replacing = send(&ingest, IfExists::Replace, vec![Ok(batch(0, 2)), Ok(batch(10, 2))]);
    let died = async {
        while !dead.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    tokio::select! {
        written = replacing => assert!(!written.unwrap().replayed),
        () = died => {}
    }
    dead.load(Ordering::SeqCst)
}

#[tokio::test]
async fn whatever_step_a_replacing_ingest_dies_at_the_table_has_its_old_rows_or_all_of_the_new_ones() {
    let deaths = [false, true].map(|after| async move {
        let (mut nth, mut outcomes) = (0, Vec::new());
        loop {
            let store = Store::in_memory();
            let other = nano(&store, config()).await;
            send(&other, IfExists::Append, vec![Ok(batch(0, 1))]).await.unwrap();
            let died = die_at(&store, nth, after).await;
            let (found, old, new) = (held(&store).await, values(0..10, "1"), values(0..20, "2"));
            assert!(found == old || found == new, "{found:?}");
            if !died {
                return outcomes;
            }
            // A copy changes nothing if the new rows are visible, and never reports success if they are not.
            let claimed = !store.list(layout::IDEM).await.unwrap().is_empty();
            let copy = other.with_key(Some(IdempotencyKey::new("A").unwrap()));
            let answer = send(&copy, IfExists::Replace, vec![Ok(batch(0, 2)), Ok(batch(10, 2))]).await;
            match (claimed, found == new) {
                (true, false) => assert_eq!(answer.unwrap_err().kind(), Kind::Unavailable),
                (_, replaced) => {
                    assert_eq!(answer.unwrap().replayed, replaced);
                    assert_eq!(held(&store).await, new);
                }
            }
            outcomes.push((claimed, found == new));
            nth += 1;
        }
    });
    let [before, after] = deaths;
    let (before, after) = tokio::join!(before, after);
    assert!(before.iter().chain(&after).all(|(claimed, replaced)| *claimed || !replaced));
    assert!(before.contains(&(true, false)) && after.ends_with(&[(true, false), (true, true)]), "{before:?} {after:?}");
}

#[tokio::test]
async fn a_copy_of_an_ingest_that_created_its_table_gets_its_answer() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let keyed = |key: &str| ingest.with_key(Some(IdempotencyKey::new(key).unwrap()));
    let schema = Schema::new(vec![
        Field::new("ts", DataType::Timestamp(TimeUnit::Nanosecond, None), false),
        Field::new("v", DataType::Int64, true),
    ]);
    for (key, batch) in [("rows", batch(0, 1)), ("none", RecordBatch::new_empty(Arc::new(schema)))] {
        let first = send(&keyed(key), IfExists::Fail, vec![Ok(batch.clone())]).await.unwrap();
        let again = send(&keyed(key), IfExists::Fail, vec![Ok(batch)]).await.unwrap();
        assert_eq!((first.replayed, again.replayed), (false, true));
        assert_eq!((again.accepted, again.token), (first.accepted, first.token));
        ingest.execute(Some("db"), "drop table bulk", None).await.unwrap();
    }
}
