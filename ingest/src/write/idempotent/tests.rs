#![allow(clippy::unwrap_used)]

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
};

use arrow::array::{ArrayRef, Float64Array, RecordBatch};
use bytes::Bytes;
use futures::future::join_all;
use tidelake_format::{
    Kind, Result,
    garbage::{Collector, GarbageOptions, Sweep},
    layout::parse_log,
    meta::{Draft, FaultySegment},
    store::{
        Ambient, Store, System,
        faults::{Fault, Operation},
    },
};

use super::*;
use crate::{
    compact::CompactRequest,
    decode::line_protocol::LinePrecision,
    testing::{config, faults_seen_earlier, nano, open, rows},
    write::Durability,
};

fn keyed(ingest: &Ingest, key: &str) -> Ingest {
    ingest.with_key(Some(IdempotencyKey::new(key).unwrap()))
}

async fn line(ingest: &Ingest, text: &str) -> Result<Written> {
    ingest.write_line_protocol("db", Bytes::from(text.to_owned()), LinePrecision::Nano, Durability::Stored).await
}

async fn value(store: &Store) -> String {
    rows(store, "db", "cpu", &[]).await[&("cpu".to_owned(), 1)]["value"].clone()
}

/// A wall clock that can be advanced: a process that was frozen.
#[derive(Debug, Default)]
struct Later(AtomicI64);

impl Ambient for Later {
    fn wall_ns(&self) -> i64 {
        System.wall_ns() + self.0.load(Ordering::SeqCst) * 1_000_000
    }

    fn random(&self) -> u64 {
        System.random()
    }
}

#[tokio::test]
async fn a_copy_of_a_batch_changes_nothing_and_says_so() {
    let store = Store::in_memory();
    let (a, b) = (nano(&store, config()).await, nano(&store, config()).await);
    let first = line(&keyed(&a, "A"), "cpu value=1 1").await.unwrap();
    assert!(!first.replayed);
    sleep(Duration::from_millis(5)).await; // writes within a tick of the store are concurrent
    let second = line(&keyed(&a, "B"), "cpu value=2 1").await.unwrap();
    assert!(!second.replayed);
    for ingest in [&a, &b] {
        // Without the key this would restore the older value.
        let again = line(&keyed(ingest, "A"), "cpu value=1 1").await.unwrap();
        assert!(again.replayed);
        assert_eq!((again.accepted, again.token), (1, first.token));
    }
    assert_eq!(value(&store).await, "2.0");
    // Also after a fold and a restart.
    a.compact(CompactRequest::Fold).await.unwrap();
    let c = open(&store, config()).await;
    assert!(line(&keyed(&c, "A"), "cpu value=1 1").await.unwrap().replayed);
    assert_eq!(value(&store).await, "2.0");
    sleep(Duration::from_millis(5)).await;
    line(&c, "cpu value=1 1").await.unwrap();
    assert_eq!(value(&store).await, "1.0", "without a key a copy is a new write");
}

#[tokio::test]
async fn a_key_of_another_request_is_refused() {
    let store = Store::in_memory();
    let ingest = keyed(&nano(&store, config()).await, "A");
    line(&ingest, "cpu value=1 1").await.unwrap();
    let error = line(&ingest, "cpu value=1 2").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Invalid, "{error}");
    assert_eq!(rows(&store, "db", "cpu", &[]).await.len(), 1);
    // The same statement with other values.
    let bound = async |value: f64| {
        let values = [("1", Arc::new(Float64Array::from(vec![value])) as ArrayRef)];
        let parameters = RecordBatch::try_from_iter(values).unwrap();
        let sql = "insert into db.cpu (ts, value) values ('2026-01-01T00:00:00Z', ?)";
        keyed(&ingest, "C").execute(Some("db"), sql, Some(&parameters)).await
    };
    bound(1.0).await.unwrap();
    assert!(bound(1.0).await.unwrap().replayed);
    assert_eq!(bound(2.0).await.unwrap_err().kind(), Kind::Invalid);
    assert!(IdempotencyKey::new("").is_err() && IdempotencyKey::new(&"x".repeat(256)).is_err());
}

#[tokio::test]
async fn a_copy_hears_which_lines_were_refused_the_first_time() {
    let store = Store::in_memory();
    let ingest = keyed(&nano(&store, config()).await, "A");
    let body = "cpu value=1 1\nbad\n".to_owned() + &"worse\n".repeat(150);
    let first = line(&ingest, &body).await.unwrap();
    let again = line(&ingest, &body).await.unwrap();
    assert!(again.replayed);
    assert_eq!((again.accepted, again.dropped), (first.accepted, 151));
    assert_eq!(again.rejected[..], first.rejected[..100]);
    // Without accepted rows nothing is remembered.
    let none = keyed(&ingest, "B");
    assert_eq!(line(&none, "bad").await.unwrap().dropped, 1);
    assert!(!line(&none, "bad").await.unwrap().replayed);
}

#[tokio::test]
async fn of_copies_at_once_over_two_processes_one_is_written() {
    let store = Store::in_memory();
    let (a, b) = (nano(&store, config()).await, nano(&store, config()).await);
    line(&a, "cpu value=0 1").await.unwrap();
    for round in 0..20 {
        let (key, text) = (format!("K{round}"), format!("cpu value={round} {}", 10 + round));
        let copies = (0..6).map(|i| {
            let (ingest, text) = (keyed(if i % 2 == 0 { &a } else { &b }, &key), text.clone());
            async move {
                loop {
                    match line(&ingest, &text).await {
                        Err(e) if e.kind() == Kind::Unavailable => {}
                        other => return other.unwrap(),
                    }
                }
            }
        });
        let answers = join_all(copies).await;
        assert_eq!(answers.iter().filter(|w| !w.replayed).count(), 1, "{answers:?}");
        assert!(answers.iter().all(|w| w.token == answers[0].token && w.accepted == 1));
    }
    a.compact(CompactRequest::Fold).await.unwrap();
    assert_eq!(rows(&store, "db", "cpu", &[]).await.len(), 21);
}

/// Stops a request at its nth store request, before or after that took effect; then the process is gone.
async fn die_at(beneath: &Store, nth: usize, after: bool, text: &str) -> bool {
    let puts = Arc::new(AtomicUsize::new(0));
    let (seen, dead) = (puts.clone(), Arc::new(AtomicBool::new(false)));
    let gone = dead.clone();
    let ingest = open(beneath, config()).await;
    drop(ingest);
    let store = beneath.with_faults(move |request| {
        let ours = request.operation == Operation::Put;
        if gone.load(Ordering::SeqCst) {
            return Fault::Late(Duration::from_secs(1_000_000));
        }
        if ours && seen.fetch_add(1, Ordering::SeqCst) == nth {
            gone.store(true, Ordering::SeqCst);
            return if after { Fault::LostReply } else { Fault::Late(Duration::from_secs(1_000_000)) };
        }
        Fault::None
    });
    let ingest = open(&store, config()).await;
    let copy = keyed(&ingest, "A");
    let ended = tokio::time::timeout(Duration::from_millis(200), line(&copy, text)).await;
    drop((copy, ingest));
    let died = dead.load(Ordering::SeqCst);
    assert_eq!(died, !matches!(ended, Ok(Ok(_))));
    died
}

#[tokio::test]
async fn whatever_step_the_first_copy_dies_at_the_second_one_is_written_once() {
    let mut deaths = 0;
    for after in [false, true] {
        for nth in 0..4 {
            let store = Store::in_memory();
            let other = nano(&store, config()).await;
            line(&other, "cpu value=0 5").await.unwrap();
            let died = die_at(&store, nth, after, "cpu value=1 1").await;
            deaths += usize::from(died);
            let copy = keyed(&other, "A");
            let claimed = !store.list("idem").await.unwrap().is_empty();
            let put = store.list("log").await.unwrap().len() == 2;
            let answer = line(&copy, "cpu value=1 1").await;
            match (claimed, put) {
                (true, false) => {
                    let error = answer.unwrap_err();
                    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
                    continue; // a copy a minute later is the subject of another test
                }
                (true, true) => assert!(answer.unwrap().replayed),
                (false, _) => assert!(!answer.unwrap().replayed),
            }
            sleep(Duration::from_millis(5)).await;
            line(&other, "cpu value=2 1").await.unwrap();
            assert!(line(&copy, "cpu value=1 1").await.unwrap().replayed);
            assert_eq!(value(&store).await, "2.0");
        }
    }
    assert_eq!(deaths, 4, "a claim and a segment, before and after");
}

/// Backdates a claim by a minute.
fn age(claim: &std::path::Path) {
    age_by(claim, Duration::from_secs(62));
}

fn age_by(claim: &std::path::Path, age: Duration) {
    let past = std::time::SystemTime::now() - age;
    std::fs::File::options().write(true).open(claim).unwrap().set_modified(past).unwrap();
}

#[tokio::test]
async fn rows_of_which_only_a_part_is_in_the_store_are_not_said_to_be_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
    let (a, b) = (nano(&store, config()).await, open(&store, config()).await);
    line(&keyed(&a, "A"), "cpu value=1 1").await.unwrap();
    let place = |key: String| directory.path().join(key);
    let segment = place(store.list("log").await.unwrap()[0].location.to_string());
    let bytes = std::fs::read(&segment).unwrap();
    std::fs::write(&segment, &bytes[..bytes.len() / 2]).unwrap();
    let error = line(&keyed(&b, "A"), "cpu value=1 1").await.unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    age(&place(store.list("idem").await.unwrap()[0].location.to_string()));
    assert!(!line(&keyed(&b, "A"), "cpu value=1 1").await.unwrap().replayed);
    assert_eq!(value(&store).await, "1.0", "the truncated first copy is void and blocks nothing");
    assert!(line(&keyed(&a, "A"), "cpu value=1 1").await.unwrap().replayed);
    b.compact(CompactRequest::Fold).await.unwrap();
    assert_eq!(value(&store).await, "1.0");
}

#[tokio::test]
async fn rows_whose_segment_was_put_back_are_not_given_up() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
    let (a, b) = (nano(&store, config()).await, open(&store, config()).await);
    line(&keyed(&a, "A"), "cpu value=1 1").await.unwrap();
    line(&a, "cpu value=2 1").await.unwrap();
    let segments: Vec<Position> =
        store.list("log").await.unwrap().iter().filter_map(|o| parse_log(o.location.as_ref())).collect();
    assert_eq!(segments[1], segments[0].next(), "one writer");
    // The claim and the segments are old; the first segment was restored just now.
    age_by(&directory.path().join(store.list("idem").await.unwrap()[0].location.to_string()), Duration::from_secs(300));
    let next = directory.path().join(log_key(segments[1]));
    age_by(&next, Duration::from_secs(290));
    let copy = keyed(&b, "A");
    assert!(line(&copy, "cpu value=1 1").await.unwrap().replayed, "its writer went on in time");
    // Its writer continued after the time at which copies give up: the fold decides.
    age_by(&next, Duration::from_secs(200));
    let error = line(&copy, "cpu value=1 1").await.unwrap_err();
    assert_eq!((error.kind(), error.context("key")), (Kind::Unavailable, Some(&*log_key(segments[0]))), "{error}");
    assert_eq!(value(&store).await, "2.0");
    b.compact(CompactRequest::Fold).await.unwrap();
    assert!(line(&copy, "cpu value=1 1").await.unwrap().replayed);
    assert_eq!(value(&store).await, "2.0");
}

#[tokio::test]
async fn rows_of_a_quarantined_segment_replaced_by_a_torn_one_are_not_reported_as_written() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
    let (a, b) = (nano(&store, config()).await, open(&store, config()).await);
    line(&keyed(&a, "A"), "cpu value=1 1").await.unwrap();
    let key = store.list("log").await.unwrap()[0].location.to_string();
    let segment = directory.path().join(&key);
    let bytes = std::fs::read(&segment).unwrap();
    std::fs::write(&segment, &bytes[..bytes.len() / 2]).unwrap();
    for _ in 0..FaultySegment::READS {
        assert_eq!(b.compact(CompactRequest::Due).await.unwrap_err().kind(), Kind::Corrupt);
        faults_seen_earlier(b.root()).await;
    }
    b.compact(CompactRequest::Due).await.unwrap();
    // The segment is restored, and that copy is truncated as well.
    std::fs::write(&segment, &bytes[..bytes.len() / 3]).unwrap();
    for _ in 0..2 {
        let error = line(&keyed(&b, "A"), "cpu value=1 1").await.unwrap_err();
        assert_eq!((error.kind(), error.context("key")), (Kind::Unavailable, Some(&*key)), "{error}");
    }
    // Once the segment is complete, its rows are read again, and a copy gets their reply.
    std::fs::write(&segment, &bytes).unwrap();
    assert!(line(&keyed(&b, "A"), "cpu value=1 1").await.unwrap().replayed);
    assert_eq!(value(&store).await, "1.0");
}

#[tokio::test]
async fn a_minute_later_a_copy_gives_up_on_the_first_one_whose_late_rows_never_count() {
    let directory = tempfile::tempdir().unwrap();
    let beneath = Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
    let other = nano(&beneath, config()).await;
    line(&other, "cpu value=0 5").await.unwrap();
    let frozen = Arc::new(Later::default());
    let store = beneath.with_ambient(frozen.clone()).with_faults(|request| {
        let segment = request.operation == Operation::Put && request.key.contains("log/");
        if segment { Fault::Late(Duration::from_secs(4)) } else { Fault::None }
    });
    let first = keyed(&open(&store, config()).await, "A");
    let first = tokio::spawn(async move { line(&first, "cpu value=1 1").await });
    let claims = || beneath.list("idem");
    while claims().await.unwrap().is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    // A minute passes.
    frozen.0.store(61_000, Ordering::SeqCst);
    age(&directory.path().join(claims().await.unwrap()[0].location.to_string()));
    let copy = keyed(&other, "A");
    assert!(!line(&copy, "cpu value=1 1").await.unwrap().replayed);
    assert_eq!(claims().await.unwrap().len(), 2);
    sleep(Duration::from_millis(5)).await;
    line(&other, "cpu value=2 1").await.unwrap();
    let error = first.await.unwrap().unwrap_err();
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert_eq!(beneath.list("log").await.unwrap().len(), 4, "the late segment is in the log");
    for _ in 0..2 {
        assert_eq!(value(&beneath).await, "2.0");
        assert!(line(&copy, "cpu value=1 1").await.unwrap().replayed);
        other.compact(CompactRequest::Fold).await.unwrap();
    }
    // The void position is kept after the fold for as long as the key.
    let catalog = other.root().refresh().await.unwrap();
    assert_eq!(catalog.watermarks().map(|(_, w)| w.voids.len()).sum::<usize>(), 1);
}

#[tokio::test]
async fn a_request_refused_for_a_dropped_table_is_written_when_repeated() {
    let store = Store::in_memory();
    let (a, b) = (nano(&store, config()).await, nano(&store, config()).await);
    line(&a, "cpu value=1 1").await.unwrap();
    b.execute(Some("db"), "drop table cpu", None).await.unwrap(); // replies after two seconds
    b.execute(Some("db"), "create table cpu (ts timestamp, value double) tags (host binary(8))", None).await.unwrap();
    // This process still has the old table in its catalog, and detects the drop too late.
    let refused = line(&keyed(&a, "A"), "cpu value=2 1").await.unwrap_err();
    assert_eq!(refused.kind(), Kind::NotFound, "{refused}");
    let again = line(&keyed(&a, "A"), "cpu value=2 1").await.unwrap();
    assert!(!again.replayed);
    assert_eq!(value(&store).await, "2.0");
    assert!(line(&keyed(&b, "A"), "cpu value=2 1").await.unwrap().replayed);
}

/// Simulates that everything done by `write` was done this many days ago, by a function that is gone, and has been folded and
/// collected since; returns whether a copy is written again.
async fn is_written_again_after(days: u32, key: IdempotencyKey, dies: bool) -> bool {
    const DAY_MS: i64 = 86_400_000;
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path().to_str().unwrap(), &[]).unwrap();
    let (first, later) = (nano(&store, config()).await, open(&store, config()).await);
    line(&later, "cpu value=0 5").await.unwrap();
    let claim_path = || async { directory.path().join(store.list("idem").await.unwrap()[0].location.to_string()) };
    if dies {
        // The request dies between its claim and its rows, and a copy that detects that writes them.
        let dying = store.with_faults(|request| {
            let segment = request.operation == Operation::Put && request.key.contains("log/");
            if segment { Fault::Late(Duration::from_secs(1_000_000)) } else { Fault::None }
        });
        let copy = open(&dying, config()).await.with_key(Some(key.clone()));
        tokio::time::timeout(Duration::from_millis(300), line(&copy, "cpu value=1 1")).await.unwrap_err();
        age(&claim_path().await);
    }
    assert!(!line(&first.with_key(Some(key.clone())), "cpu value=1 1").await.unwrap().replayed);
    sleep(Duration::from_millis(5)).await; // writes within a tick of the store are concurrent
    line(&later, "cpu value=2 1").await.unwrap();
    sleep(Duration::from_millis(5)).await;
    first.compact(CompactRequest::Fold).await.unwrap();
    let age = i64::from(days) * DAY_MS;
    // A watermark never goes back; a new one may begin anywhere.
    let known: Vec<_> = first.root().refresh().await.unwrap().watermarks().map(|(id, w)| (id, w.clone())).collect();
    let forget = |draft: &mut Draft| Ok(known.iter().for_each(|(writer, _)| draft.remove_watermark(*writer)));
    first.root().commit(&[], forget).await.unwrap();
    let earlier = |draft: &mut Draft| {
        for (writer, watermark) in &known {
            let start_ms = watermark.start_ms - age;
            draft.set_watermark(*writer, Watermark { start_ms, ..watermark.clone() });
        }
        Ok(())
    };
    first.root().commit(&[], earlier).await.unwrap();
    for meta in store.list("idem").await.unwrap() {
        age_by(&directory.path().join(meta.location.to_string()), Duration::from_millis(age as u64));
    }
    let now = GarbageOptions { segments_ms: -1, ..GarbageOptions::default() };
    Collector::new(first.root().clone(), now).collect(Sweep::Full).await.unwrap();
    assert!(store.list("log").await.unwrap().is_empty());
    first.compact(CompactRequest::Fold).await.unwrap(); // forgets writers
    let copy = open(&store, config()).await.with_key(Some(key));
    let replayed = line(&copy, "cpu value=1 1").await.unwrap().replayed;
    assert_eq!(value(&store).await, if replayed { "2.0" } else { "1.0" });
    !replayed
}

#[tokio::test]
async fn the_key_of_a_queue_message_is_kept_as_long_as_queues_redeliver() {
    for dies in [false, true] {
        let message = || IdempotencyKey::of_message("A").unwrap();
        for days in [0, 2, 4, 14] {
            assert!(!is_written_again_after(days, message(), dies).await, "{days} days, dies: {dies}");
        }
        assert!(is_written_again_after(18, message(), dies).await, "a collector forgets it");
        let request = || IdempotencyKey::new("A").unwrap();
        assert!(!is_written_again_after(0, request(), dies).await);
        assert!(is_written_again_after(4, request(), dies).await);
    }
}

/// Executes the statement of a message; returns whether it was a copy.
async fn of_message(ingest: &Ingest, id: &str, sql: &str) -> Result<bool> {
    let key = IdempotencyKey::of_message(id).unwrap();
    Ok(ingest.with_key(Some(key)).execute(Some("db"), sql, None).await?.replayed)
}

#[tokio::test]
async fn a_statement_of_a_message_that_comes_again_changes_nothing() {
    let store = Store::in_memory();
    let (a, b) = (nano(&store, config()).await, open(&store, config()).await);
    let run = async |sql: &str| a.execute(Some("db"), sql, None).await.map(|done| done.affected_rows);
    for sql in ["create table st (ts timestamp, v int) tags (n int)", "create table s1 using st tags (1)"] {
        run(sql).await.unwrap();
    }
    let messages: [(&str, &str, &str); 7] = [
        // A message, a statement executed after it, and a check that fails or finds nothing if the message is executed again.
        ("delete from st where ts > 5", "insert into s1 values (1, 1) (10, 10)", "delete from st"),
        ("delete from st where ts > 6", "insert into s1 values (1, 1) (10, 10)", "delete from st"),
        ("create table plain (ts timestamp, v int)", "drop table plain", "create table plain (ts timestamp, v int)"),
        ("drop table plain", "create table plain (ts timestamp, v int)", "drop table plain"),
        ("create table s2 using st tags (2)", "drop table s2", "create table s2 using st tags (3)"),
        ("create table if not exists s1 using st tags (1)", "drop table s1", "create table s1 using st tags (4)"),
        ("alter table st add column w int", "alter table st drop column w", "alter table st add column w int"),
    ];
    for (id, (message, after, check)) in messages.into_iter().enumerate() {
        let id = id.to_string();
        assert!(!of_message(&a, &id, message).await.unwrap(), "{message}");
        sleep(Duration::from_millis(5)).await; // writes within a tick of the store are concurrent
        run(after).await.unwrap();
        for ingest in [&a, &b] {
            assert!(of_message(ingest, &id, message).await.unwrap(), "{message}");
        }
        a.compact(CompactRequest::Fold).await.unwrap();
        let late = open(&store, config()).await;
        assert!(of_message(&late, &id, message).await.unwrap(), "{message}");
        let affected = run(check).await.unwrap_or_else(|e| panic!("{message}: {e}"));
        assert_eq!(affected, if check == "delete from st" { 2 } else { 0 }, "{message}");
    }
    // Another message is executed, even with the same statement; a failed one is tried again; client keys concern only rows.
    assert!(of_message(&a, "another", "alter table st add column w int").await.is_err());
    run("alter table st drop column w").await.unwrap();
    assert!(!of_message(&a, "another", "alter table st add column w int").await.unwrap());
    let keyed = keyed(&a, "A");
    let executed = keyed.execute(Some("db"), "alter table st drop column w", None).await.unwrap();
    assert!(!executed.replayed);
    keyed.execute(Some("db"), "alter table st drop column w", None).await.unwrap_err();
}

#[tokio::test]
async fn a_series_whose_creation_failed_is_created_on_redelivery() {
    let plain = Store::in_memory();
    nano(&plain, config()).await;
    let refuses = Arc::new(AtomicBool::new(false));
    let switch = refuses.clone();
    let store = plain.clone().with_faults(move |request| match request.operation {
        Operation::Put if switch.load(Ordering::SeqCst) => Fault::Refused,
        _ => Fault::None,
    });
    let ingest = open(&store, config()).await;
    ingest.execute(Some("db"), "create table st (ts timestamp, v int) tags (n int)", None).await.unwrap();
    let sql = "create table if not exists s1 using st tags (1)";
    refuses.store(true, Ordering::SeqCst);
    assert!(of_message(&ingest, "m", sql).await.is_err());
    refuses.store(false, Ordering::SeqCst);
    assert!(!of_message(&ingest, "m", sql).await.unwrap());
    let other = open(&store, config()).await;
    let error = other.execute(Some("db"), "create table s1 using st tags (2)", None).await.unwrap_err();
    assert!(error.to_string().contains("exist"), "{error}");
}

#[tokio::test]
async fn of_copies_of_a_statement_at_once_over_two_processes_one_is_executed() {
    let store = Store::in_memory();
    let (a, b) = (nano(&store, config()).await, open(&store, config()).await);
    line(&a, "cpu value=1 1").await.unwrap();
    for sql in ["alter table cpu add column w int", "delete from cpu", "create table c2 (ts timestamp, v int)"] {
        let copies = join_all((0..8).map(|i| of_message(if i % 2 == 0 { &a } else { &b }, sql, sql))).await;
        let copies: Vec<bool> = copies.into_iter().map(Result::unwrap).collect();
        assert_eq!(copies.iter().filter(|replayed| !**replayed).count(), 1, "{sql}: {copies:?}");
    }
}
