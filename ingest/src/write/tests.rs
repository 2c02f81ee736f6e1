#![allow(clippy::unwrap_used)]

mod evolution;
mod full;
mod holes;
mod order;
mod staged;
mod widen;

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use bytes::Bytes;
use futures::future::join_all;
use tidelake_format::{
    Kind,
    store::{
        Store,
        faults::{Fault, Operation},
    },
};

use super::*;
use crate::{
    compact::CompactRequest,
    decode::line_protocol::LinePrecision,
    testing::{config, memory, nano, open, rows},
};

pub(crate) async fn line(ingest: &Ingest, text: &str, durability: Durability) -> Result<Written> {
    ingest.write_line_protocol("db", Bytes::from(text.to_owned()), LinePrecision::Nano, durability).await
}

async fn sql(ingest: &Ingest, text: &str) -> Result<Executed> {
    ingest.execute(Some("db"), text, None).await
}

async fn segments(store: &Store) -> usize {
    store.list("log").await.unwrap().len()
}

#[tokio::test]
async fn an_acknowledged_row_is_in_the_snapshot_that_its_token_asks_for() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let written = line(&ingest, "cpu,host=a value=1 10\ncpu,host=b value=2 20", Durability::Stored).await.unwrap();
    assert_eq!((written.accepted, written.rejected.len()), (2, 0));
    let found = rows(&store, "db", "cpu", &[written.token.unwrap()]).await;
    let times: Vec<i64> = found.keys().map(|(_, ts)| *ts).collect();
    assert_eq!(times, [10, 20]);
    assert!(found.values().all(|r| r.contains_key("value") && r.contains_key("#host")), "{found:?}");
}

#[tokio::test]
async fn requests_that_wait_together_share_a_put() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    line(&ingest, "cpu value=1 1", Durability::Stored).await.unwrap();
    let texts: Vec<String> = (0..200).map(|i| format!("cpu value=1 {}", 100 + i)).collect();
    let written = join_all(texts.iter().map(|text| line(&ingest, text, Durability::Stored))).await;
    assert!(written.iter().all(|w| w.as_ref().unwrap().token.is_some()));
    assert!(segments(&store).await < 50, "{}", segments(&store).await);
    assert_eq!(rows(&store, "db", "cpu", &[]).await.len(), 201);
}

#[tokio::test]
async fn good_lines_beside_bad_ones_are_kept() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let written =
        line(&ingest, "cpu value=1 1\nbad\ncpu value=\"x\" 2\ncpu value=3 3", Durability::Stored).await.unwrap();
    assert_eq!(written.accepted, 2);
    assert_eq!(written.rejected.iter().map(|r| r.line).collect::<Vec<_>>(), [2, 3]);
    assert_eq!(rows(&store, "db", "cpu", &[]).await.len(), 2);
}

#[tokio::test]
async fn many_requests_with_new_columns_settle_on_one_schema() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let texts: Vec<String> = (0..40).map(|i| format!("cpu,host=a f{}={i},g{i}={i}i {i}", i % 5)).collect();
    for written in join_all(texts.iter().map(|text| line(&ingest, text, Durability::Stored))).await {
        assert_eq!(written.unwrap().accepted, 1);
    }
    let found = rows(&store, "db", "cpu", &[]).await;
    assert_eq!(found.len(), 40);
    assert!(found.values().all(|r| r.len() == 3), "{found:?}");
}

#[tokio::test]
async fn two_processes_on_one_directory_write_every_row_once_and_it_survives_a_crash() {
    let directory = tempfile::tempdir().unwrap();
    let store = || Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
    let (a, b) = (nano(&store(), config()).await, nano(&store(), config()).await);
    let write = |ingest: Ingest, from: i64| async move {
        for i in 0..50 {
            line(&ingest, &format!("cpu,host=h{} value={i} {}", i % 3, from + i), Durability::Stored).await.unwrap();
        }
    };
    tokio::join!(write(a.clone(), 0), write(b.clone(), 25));
    drop((a, b)); // no shutdown
    let found = rows(&store(), "db", "cpu", &[]).await;
    let expected: std::collections::BTreeSet<_> = (0..50).flat_map(|i| [(i % 3, i), (i % 3, 25 + i)]).collect();
    assert_eq!(found.len(), expected.len());
    let again = open(&store(), config()).await;
    again.compact(CompactRequest::Full).await.unwrap();
    assert_eq!(rows(&store(), "db", "cpu", &[]).await, found);
}

#[tokio::test]
async fn rows_acknowledged_from_the_buffer_are_flushed_by_time_and_by_shutdown() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    line(&ingest, "cpu value=1 1", Durability::Stored).await.unwrap();
    assert_eq!(line(&ingest, "cpu value=1 2", Durability::Buffered).await.unwrap().token, None);
    tokio::time::timeout(Duration::from_secs(10), async {
        while rows(&store, "db", "cpu", &[]).await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
    .unwrap();
    line(&ingest, "cpu value=1 3", Durability::Buffered).await.unwrap();
    ingest.shutdown().await;
    assert_eq!(rows(&store, "db", "cpu", &[]).await.len(), 3);
    assert_eq!(line(&ingest, "cpu value=1 4", Durability::Stored).await.unwrap_err().kind(), Kind::Unavailable);
}

#[tokio::test]
async fn of_requests_for_one_row_the_later_wins_however_they_are_acknowledged() {
    use Durability::{Buffered, Stored};
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    line(&ingest, "cpu,host=a x=0,y=0 1", Stored).await.unwrap();
    let segments = async || store.list("log/").await.unwrap().len();
    let before = segments().await;
    // Buffered rows share a block with adjacent ones, but never across a request of another kind.
    let mut orders = vec![vec![Buffered, Buffered], vec![Buffered, Stored], vec![Stored, Buffered]];
    orders.push(vec![Buffered, Buffered, Stored, Buffered, Buffered]);
    let mut expected = std::collections::BTreeMap::new();
    for (round, order) in orders.iter().enumerate() {
        let ts = round as i64 + 2;
        let mut waiting = Vec::new();
        for (i, durability) in order.iter().enumerate() {
            let (ingest, text) = (ingest.clone(), format!("cpu,host=a x={i} {ts}\n"));
            let durability = *durability;
            waiting.push(tokio::spawn(async move { line(&ingest, &text, durability).await.unwrap() }));
            // The order in which they join the group, not that of their replies.
            tokio::task::yield_now().await;
        }
        for (written, durability) in join_all(waiting).await.into_iter().zip(order) {
            let written = written.unwrap();
            assert_eq!((written.accepted, written.token.is_some()), (1, *durability == Stored));
        }
        expected.insert(ts, format!("{}.0", order.len() - 1));
    }
    // Lines that need schema changes, invalid lines and bodies of several lines take the other path.
    assert_eq!(line(&ingest, "cpu,host=a z=1i 90", Buffered).await.unwrap().accepted, 1);
    assert_eq!(line(&ingest, "cpu,host=a x=1 91\ncpu,host=a x=2 92", Buffered).await.unwrap().accepted, 2);
    let wrong = line(&ingest, "cpu,host=a x=t 93", Buffered).await.unwrap();
    assert_eq!((wrong.accepted, wrong.dropped), (0, 1));
    assert!(wrong.rejected[0].reason.contains("already exists as type float"), "{:?}", wrong.rejected);
    ingest.shutdown().await;
    assert!(segments().await > before);
    let found = rows(&store, "db", "cpu", &[]).await;
    for (ts, x) in expected {
        assert_eq!(found[&("host=a".to_owned(), ts)]["x"], x, "{ts}");
    }
    assert_eq!(found.len(), 1 + orders.len() + 3);
    assert_eq!(found[&("host=a".to_owned(), 90)]["z"], "1");
}

#[tokio::test]
async fn buffered_rows_without_a_value_in_a_dropped_column_are_kept() {
    let store = Store::in_memory();
    let ingest = nano(&store, IngestConfig { no_sync_ms: 300, ..config() }).await;
    line(&ingest, "cpu,host=a x=0,y=0 1", Durability::Stored).await.unwrap();
    for text in ["cpu,host=a x=1 2", "cpu,host=a y=1 3"] {
        line(&ingest, text, Durability::Buffered).await.unwrap();
    }
    ingest.execute(Some("db"), "alter stable cpu drop column y", None).await.unwrap();
    line(&ingest, "cpu,host=a x=2 4", Durability::Buffered).await.unwrap();
    ingest.shutdown().await;
    let found = rows(&store, "db", "cpu", &[]).await;
    let x = |ts| found.get(&("host=a".to_owned(), ts)).and_then(|row| row.get("x")).map(String::as_str);
    assert_eq!([1, 2, 4].map(x), [Some("0.0"), Some("1.0"), Some("2.0")]);
    assert!(found.values().all(|row| !row.contains_key("y")), "{found:?}");
}

#[tokio::test]
async fn puts_that_fail_or_lose_their_reply_are_repeated_until_every_row_is_there_once() {
    let store = Store::in_memory();
    nano(&store, config()).await;
    let puts = AtomicUsize::new(0);
    let faulty = store.with_faults(move |request| {
        if request.operation != Operation::Put || !request.key.starts_with("log/") {
            return Fault::None;
        }
        [Fault::Refused, Fault::LostReply, Fault::None][puts.fetch_add(1, Ordering::Relaxed) % 3]
    });
    let ingest = open(&faulty, config()).await;
    for round in 0..6 {
        let texts: Vec<String> = (0..10).map(|i| format!("cpu,host=h{i} value={round} {round}")).collect();
        for written in join_all(texts.iter().map(|text| line(&ingest, text, Durability::Stored))).await {
            assert!(written.unwrap().token.is_some());
        }
    }
    assert_eq!(rows(&store, "db", "cpu", &[]).await.len(), 60);
    // The numbers of every writer are consecutive, and no row was written under two of them.
    ingest.compact(CompactRequest::Fold).await.unwrap();
    let report: u64 = ingest
        .root()
        .catalog()
        .tables(ingest.root().catalog().database("db").unwrap().id)
        .map(|t| ingest.root().catalog().partitions(t.id).map(|(_, s)| s.rows).sum::<u64>())
        .sum();
    assert_eq!(report, 60);
}

#[tokio::test]
async fn a_store_that_is_away_makes_requests_fail_in_time_and_their_rows_are_written_when_it_is_back() {
    let store = Store::in_memory();
    nano(&store, config()).await;
    let away = Arc::new(AtomicBool::new(true));
    let seen = away.clone();
    let faulty = store.with_faults(move |request| {
        let hit = request.operation == Operation::Put && request.key.starts_with("log/");
        if hit && seen.load(Ordering::Relaxed) { Fault::Refused } else { Fault::None }
    });
    line(&open(&store, config()).await, "cpu value=1 1", Durability::Stored).await.unwrap();
    let ingest = open(&faulty, IngestConfig { confirm_ms: 100, ..config() }).await;
    let error = line(&ingest, "cpu value=1 2", Durability::Stored).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert_eq!(rows(&store, "db", "cpu", &[]).await.len(), 1);
    away.store(false, Ordering::Relaxed);
    tokio::time::timeout(Duration::from_secs(60), async {
        while rows(&store, "db", "cpu", &[]).await.len() < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_panic_in_one_group_does_not_stop_the_writer() {
    let store = Store::in_memory();
    nano(&store, config()).await;
    let puts = AtomicUsize::new(0);
    let faulty = store.with_faults(move |request| {
        let first = request.operation == Operation::Put
            && request.key.starts_with("log/")
            && puts.fetch_add(1, Ordering::Relaxed) == 0;
        assert!(!first, "the bug");
        Fault::None
    });
    let ingest = open(&faulty, IngestConfig { writers: Some(1), ..config() }).await;
    line(&open(&store, config()).await, "cpu value=1 1", Durability::Stored).await.unwrap();
    let error = line(&ingest, "cpu value=1 2", Durability::Stored).await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    line(&ingest, "cpu value=1 3", Durability::Stored).await.unwrap();
    assert_eq!(rows(&store, "db", "cpu", &[]).await.len(), 2);
}

#[tokio::test]
async fn a_full_buffer_refuses_and_takes_again_when_it_has_room() {
    let store = Store::in_memory();
    let small = IngestConfig { group_bytes: 1 << 10, body_bytes: 4 << 10, buffer_bytes: 4 << 10, ..config() };
    let ingest = nano(&store, small).await;
    let held = ingest.reserve(4 << 10).await.unwrap();
    assert_eq!(line(&ingest, "cpu value=1 1", Durability::Stored).await.unwrap_err().kind(), Kind::Unavailable);
    drop(held);
    line(&ingest, "cpu value=1 1", Durability::Stored).await.unwrap();
}

#[tokio::test]
async fn databases_are_created_by_writes_only_if_the_settings_allow_it() {
    let store = Store::in_memory();
    let ingest = open(&store, IngestConfig { auto_create_database: false, ..config() }).await;
    let error = line(&ingest, "cpu value=1 1", Durability::Stored).await.unwrap_err();
    assert_eq!((error.kind(), error.message()), (Kind::NotFound, "database not found: \"db\""));
    ingest.execute(None, "CREATE DATABASE db", None).await.unwrap();
    assert_eq!(line(&ingest, "cpu value=1", Durability::Stored).await.unwrap().accepted, 1);
}

/// A database with the paper's supertable and a second one.
async fn devices() -> (Store, Ingest) {
    let (store, ingest) = memory().await;
    ingest.execute(None, "create database db keep 73000d", None).await.unwrap();
    let create = "create table devices(ts timestamp, temperature int, humidity float) \
                  tags(devid int, devname binary(16), devgroup int)";
    sql(&ingest, create).await.unwrap();
    sql(&ingest, "create stable other(ts timestamp, v int) tags(t int)").await.unwrap();
    (store, ingest)
}

#[tokio::test]
async fn the_statements_of_the_paper_write_its_rows() {
    let (store, ingest) = devices().await;
    let insert = "insert into dev1 using devices tags(1,'dev_1',1) values(1563249700000,40,12.000000)\
                  (1563249701000,44,9.000000) dev2 using devices tags(2,'dev_2',2) values(1563249700000,51,3.000000);";
    let executed = sql(&ingest, insert).await.unwrap();
    assert_eq!(executed.affected_rows, 3);
    let found = rows(&store, "db", "devices", &[executed.token.unwrap()]).await;
    assert_eq!(found.len(), 3);
    let row = &found[&("dev1".to_owned(), 1_563_249_701_000)];
    let expected =
        [("#devgroup", "1"), ("#devid", "1"), ("#devname", "dev_1"), ("humidity", "9.0"), ("temperature", "44")];
    assert_eq!(row.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn an_insert_without_using_finds_the_series_in_log_and_files() {
    let (store, ingest) = devices().await;
    sql(&ingest, "insert into d1 using devices tags(1,'x',1) values(1, 1, 1)").await.unwrap();
    sql(&ingest, "insert into d1 values(2, 2, 2)").await.unwrap();
    // Another process finds the series in the log, and after a fold in the tag manifests.
    let second = open(&store, config()).await;
    sql(&second, "insert into d1 values(3, 3, 3)").await.unwrap();
    second.compact(CompactRequest::Fold).await.unwrap();
    let third = open(&store, config()).await;
    sql(&third, "insert into d1 values(4, 4, 4)").await.unwrap();
    let found = rows(&store, "db", "devices", &[]).await;
    assert_eq!(found.keys().map(|(_, ts)| *ts).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(found.values().all(|r| r["#devname"] == "x"), "{found:?}");

    let error = sql(&third, "insert into d2 values(4, 4, 4)").await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
    for ingest in [&ingest, &second, &third, &open(&store, config()).await] {
        let error = sql(ingest, "insert into d1 using other tags(1) values(4, 4)").await.unwrap_err();
        assert_eq!(error.kind(), Kind::Invalid, "{error}");
    }
}

#[tokio::test]
async fn a_declared_series_is_found_and_declared_only_once() {
    let (store, ingest) = devices().await;
    sql(&ingest, "create table d1 using devices tags(1,'x',7)").await.unwrap();
    sql(&ingest, "create table if not exists d1 using devices tags(2,'y',8)").await.unwrap();
    let second = open(&store, config()).await;
    let error = sql(&second, "create table d1 using devices tags(1,'x',7)").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    sql(&second, "insert into d1 values(1, 1, 1)").await.unwrap();
    let found = rows(&store, "db", "devices", &[]).await;
    assert_eq!(found[&("d1".to_owned(), 1)]["#devgroup"], "7");
}

#[tokio::test]
async fn invalid_definitions_are_refused_with_the_right_kind() {
    let (_, ingest) = devices().await;
    for (text, kind) in [
        ("create database db", Kind::Invalid),
        ("create table devices(ts timestamp, v int) tags(t int)", Kind::Invalid),
        ("drop table nothing", Kind::NotFound),
        ("drop database nothing", Kind::NotFound),
        ("use nothing", Kind::NotFound),
        ("insert into d using nothing tags(1) values(1, 1)", Kind::NotFound),
        ("insert into d using devices tags(1,'x',1) values(1, 'text', 1)", Kind::Invalid),
        ("insert into", Kind::Invalid),
        ("select 1", Kind::Unsupported),
    ] {
        let error = sql(&ingest, text).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{text}: {error}");
    }
    for text in ["create database if not exists db", "drop table if exists nothing", "drop database if exists nothing"]
    {
        sql(&ingest, text).await.unwrap();
    }
    assert_eq!(sql(&ingest, "use DB").await.unwrap().use_database.as_deref(), Some("db"));
}

#[tokio::test]
async fn rows_for_a_table_that_another_process_dropped_are_not_acknowledged() {
    let (store, ingest) = devices().await;
    sql(&ingest, "insert into d1 using devices tags(1,'x',1) values(1, 1, 1)").await.unwrap();
    let other = open(&store, config()).await;
    sql(&other, "drop table devices").await.unwrap(); // replies after two seconds
    let error = sql(&ingest, "insert into d1 values(2, 2, 2)").await.unwrap_err();
    assert_eq!(error.kind(), Kind::NotFound, "{error}");
    sql(&ingest, "create table devices(ts timestamp, v int) tags(t int)").await.unwrap();
    sql(&ingest, "insert into d1 using devices tags(1) values(3, 3)").await.unwrap();
    assert_eq!(rows(&store, "db", "devices", &[]).await.len(), 1);
}

#[tokio::test]
async fn batches_create_append_to_or_replace_tables_as_requested() {
    use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampNanosecondArray};
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let batch = |from: i64| {
        let columns: [(&str, ArrayRef); 3] = [
            ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(from..from + 100))),
            ("v", Arc::new(Int64Array::from_iter_values(0..100))),
            ("tbname", Arc::new(StringArray::from_iter_values((0..100).map(|i| format!("d{}", i % 7))))),
        ];
        Ok(RecordBatch::try_from_iter(columns).unwrap())
    };
    let write = |from: Vec<i64>, if_absent: IfAbsent, if_exists: IfExists| {
        let target = IngestTarget { database: "db".into(), table: "bulk".into(), if_absent, if_exists };
        let batches: Vec<_> = from.into_iter().map(batch).collect();
        ingest.ingest_batches(target, futures::stream::iter(batches))
    };
    let absent = write(vec![0], IfAbsent::Fail, IfExists::Append).await.unwrap_err();
    assert_eq!(absent.kind(), Kind::NotFound, "{absent}");
    let written = write(vec![0, 100], IfAbsent::Create, IfExists::Fail).await.unwrap();
    assert_eq!(written.accepted, 200);
    assert_eq!(rows(&store, "db", "bulk", &[written.token.unwrap()]).await.len(), 200);
    assert_eq!(segments(&store).await, 0, "a table that is made comes with its files");
    let exists = write(vec![0], IfAbsent::Create, IfExists::Fail).await.unwrap_err();
    assert_eq!(exists.kind(), Kind::Invalid, "{exists}");
    write(vec![1_000, 1_100], IfAbsent::Fail, IfExists::Append).await.unwrap();
    assert_eq!(segments(&store).await, 1, "what fits is visible all at once");
    let found = rows(&store, "db", "bulk", &[]).await;
    assert_eq!((found.len(), found[&("d1".to_owned(), 1_001)]["v"].as_str()), (400, "1"));
    write(vec![5], IfAbsent::Create, IfExists::Replace).await.unwrap();
    assert_eq!(rows(&store, "db", "bulk", &[]).await.len(), 100);
}

fn bulk_batch(from: i64, rows: i64, pad: usize) -> arrow::array::RecordBatch {
    use arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampNanosecondArray};
    let text = "x".repeat(pad);
    let columns: [(&str, ArrayRef); 3] = [
        ("ts", Arc::new(TimestampNanosecondArray::from_iter_values(from..from + rows))),
        ("v", Arc::new(StringArray::from_iter_values((0..rows).map(|_| &text)))),
        ("tbname", Arc::new(StringArray::from_iter_values((0..rows).map(|i| format!("d{}", i % 7))))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn bulk_target() -> IngestTarget {
    IngestTarget {
        database: "db".into(),
        table: "bulk".into(),
        if_absent: IfAbsent::Create,
        if_exists: IfExists::Append,
    }
}

/// Parts of some 17 MiB: two make a segment.
const PART_ROWS: i64 = 300;

fn part(number: i64) -> arrow::array::RecordBatch {
    bulk_batch(number * PART_ROWS, PART_ROWS, 60_000)
}

async fn count(store: &Store) -> usize {
    let root = Root::open(store.clone()).await.unwrap();
    let db = root.catalog().database("db").unwrap().id;
    if root.catalog().table(db, "bulk").is_none() {
        return 0;
    }
    rows(store, "db", "bulk", &[]).await.len()
}

#[tokio::test]
async fn a_bulk_ingest_of_several_segments_shows_all_at_once_also_to_who_folds_in_between() {
    let store = Store::in_memory();
    let ingest = nano(&store, config()).await;
    let (send, batches) = futures::channel::mpsc::unbounded();
    let writer = ingest.with_key(Some(IdempotencyKey::new("bulk").unwrap()));
    let running = tokio::spawn(async move { writer.ingest_batches(bulk_target(), batches).await });
    for number in 0..5 {
        send.unbounded_send(Ok(part(number))).unwrap();
        let wanted = (number as usize).div_ceil(2);
        tokio::time::timeout(Duration::from_secs(60), async {
            while segments(&store).await < wanted {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
        .await
        .unwrap();
        assert_eq!(count(&store).await, 0, "after {number} parts");
    }
    ingest.compact(CompactRequest::Fold).await.unwrap();
    assert_eq!((segments(&store).await, count(&store).await), (2, 0), "a fold takes no part of it");
    drop(send);
    let written = running.await.unwrap().unwrap();
    assert_eq!((written.accepted, written.replayed), (5 * PART_ROWS as u64, false));
    assert_eq!(count(&store).await, 5 * PART_ROWS as usize);
    assert_eq!(rows(&store, "db", "bulk", &[written.token.unwrap()]).await.len(), 5 * PART_ROWS as usize);
    ingest.compact(CompactRequest::Fold).await.unwrap();
    assert_eq!(count(&store).await, 5 * PART_ROWS as usize);
    let again = ingest.with_key(Some(IdempotencyKey::new("bulk").unwrap()));
    let copy = again.ingest_batches(bulk_target(), futures::stream::iter([Ok(part(0))])).await.unwrap();
    assert!(copy.replayed);
    assert_eq!((copy.accepted, copy.token), (written.accepted, written.token));
}

#[tokio::test]
async fn a_bulk_ingest_that_dies_before_its_end_or_is_too_large_leaves_nothing_to_see() {
    let store = Store::in_memory();
    let ingest = nano(&store, IngestConfig { bulk_bytes: 80 << 20, ..config() }).await;
    let broken = (0..5).map(|number| match number {
        4 => Err(tidelake_format::Error::unavailable("the client went away")),
        _ => Ok(part(number)),
    });
    let error = ingest.ingest_batches(bulk_target(), futures::stream::iter(broken)).await.unwrap_err();
    assert_eq!(error.message(), "the client went away");
    assert_eq!((segments(&store).await, count(&store).await), (2, 0));
    let large = futures::stream::iter((0..6).map(|number| Ok(part(number))));
    let error = ingest.ingest_batches(bulk_target(), large).await.unwrap_err();
    assert_eq!((error.kind(), error.context("limit_bytes")), (Kind::Invalid, Some("83886080")));
    assert_eq!(count(&store).await, 0);
    // Parts without an end do not block later writes.
    ingest.ingest_batches(bulk_target(), futures::stream::iter([Ok(bulk_batch(0, 10, 1))])).await.unwrap();
    assert_eq!(count(&store).await, 10);
    ingest.compact(CompactRequest::Fold).await.unwrap();
    assert_eq!(count(&store).await, 10);
}

/// The single line of a request was rejected, with a reason that contains these words.
fn assert_refused(written: Written, words: &str) {
    assert_eq!((written.accepted, written.rejected.len()), (0, 1));
    assert!(written.rejected[0].reason.contains(words), "{written:?}");
}

#[tokio::test]
async fn lines_columns_and_tables_beyond_limits_are_rejected_and_the_rest_written() {
    let store = Store::in_memory();
    let limits = IngestConfig { line_bytes: 64, columns: 4, tables: 2, ..config() };
    let ingest = nano(&store, limits).await;
    let long = format!("cpu value=1,text=\"{}\" 1\ncpu value=2 2\ncpu v=\"{}", "x".repeat(64), "y".repeat(64));
    let written = line(&ingest, &long, Durability::Stored).await.unwrap();
    assert_eq!(written.accepted, 1);
    assert_eq!(written.rejected.iter().map(|r| r.line).collect::<Vec<_>>(), [1, 3]);
    assert!(written.rejected.iter().all(|r| r.reason.contains("limit of 64 bytes")), "{written:?}");
    line(&ingest, "cpu b=1,c=1 3", Durability::Stored).await.unwrap();
    assert_refused(line(&ingest, "cpu d=1 4", Durability::Stored).await.unwrap(), "limit: 4");
    assert_refused(line(&ingest, "wide a=1,b=1,c=1,d=1 4", Durability::Stored).await.unwrap(), "limit: 4");
    line(&ingest, "mem value=1 5", Durability::Stored).await.unwrap();
    assert_refused(line(&ingest, "disk value=1 5", Durability::Stored).await.unwrap(), "limit: 2");
    line(&ingest, "cpu value=1 6", Durability::Stored).await.unwrap();
    assert_eq!(rows(&store, "db", "cpu", &[]).await.len(), 3);
}
