#![allow(clippy::unwrap_used)]

use std::io::Write;

use serde_json::json;
use tidelake_format::{
    layout,
    rows::ticks,
    snapshot::{SnapshotOptions, SnapshotReader},
    store::faults::{Fault, Operation, Request},
};

use tidelake_lambda::testing::context;

use super::*;
use crate::settings::writing;

fn function(store: &Store, set: &[(&str, &str)]) -> QueueFunction {
    let mut variables =
        Variables::new(|name| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned()));
    let config = writing(&mut variables, 512 << 20);
    let settings = QueueSettings::read(&mut variables);
    variables.finish().unwrap();
    let telemetry = Box::leak(Box::new(Telemetry::silent()));
    QueueFunction::new(store.clone(), config, settings, telemetry)
}

type Sent<'a> = (&'a str, String, &'a [(&'a str, &'a str)]);

/// An SQS event with these message IDs, bodies and attributes.
fn sqs(messages: &[Sent<'_>]) -> Value {
    let record = |(id, body, attributes): &Sent<'_>| {
        let attributes: Map<String, Value> = attributes
            .iter()
            .map(|(name, value)| ((*name).to_owned(), json!({"stringValue": value, "dataType": "String"})))
            .collect();
        json!({
            "messageId": id, "receiptHandle": "h", "body": body, "messageAttributes": attributes,
            "attributes": {"ApproximateReceiveCount": "1"}, "md5OfBody": "", "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-west-1:1:rows", "awsRegion": "eu-west-1"
        })
    };
    json!({ "Records": messages.iter().map(record).collect::<Vec<_>>() })
}

fn gzip(text: &str) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

fn ids(unwritten: &Unwritten) -> Vec<&str> {
    unwritten.batch_item_failures.iter().map(|item| item.item_identifier.as_str()).collect()
}

async fn segments(store: &Store) -> usize {
    store.list(layout::LOG).await.unwrap().len()
}

/// An SQS event of a FIFO queue, with a group for each message.
fn fifo(messages: &[Sent<'_>], groups: &[&str]) -> Value {
    let mut event = sqs(messages);
    for (record, group) in event["Records"].as_array_mut().unwrap().iter_mut().zip(groups) {
        record["eventSourceARN"] = "arn:aws:sqs:eu-west-1:1:rows.fifo".into();
        record["attributes"]["MessageGroupId"] = (*group).into();
    }
    event
}

/// The times of all rows of a table in the log, once for each time that they were written.
async fn times(store: &Store, table: &str) -> Vec<i64> {
    let options = SnapshotOptions { max_staleness: Some(Duration::ZERO), ..SnapshotOptions::default() };
    let reader = SnapshotReader::new(Root::open(store.clone()).await.unwrap(), options);
    let snapshot = reader.snapshot(&[]).await.unwrap();
    let db = snapshot.catalog.database("db").unwrap().id;
    let table = snapshot.catalog.table(db, table).unwrap().id;
    let blocks = snapshot.blocks(table).unwrap();
    let mut times: Vec<i64> = blocks.flat_map(|(_, block)| ticks(block.rows.column(1)).unwrap().to_vec()).collect();
    times.sort_unstable();
    times
}

const IN_DB: (&str, &str) = ("TIDELAKE_QUEUE_DATABASE", "db");
const ANY_FORMAT: (&str, &str) = ("TIDELAKE_QUEUE_FORMAT", "line,opentsdb, tdengine");

#[tokio::test]
async fn a_batch_becomes_one_segment_whatever_its_messages_are_written_in() {
    let store = Store::in_memory();
    let function = function(&store, &[IN_DB, ANY_FORMAT, ("TIDELAKE_QUEUE_DATABASES", "other")]);
    let packed = STANDARD.encode(gzip("packed v=1 1\npacked v=2 2"));
    let points = json!({"metric": "m", "timestamp": 1_700_000_000, "value": 1, "tags": {"host": "a"}}).to_string();
    let messages: [Sent<'_>; 5] = [
        ("1", "weather,city=a t=1i 1".into(), &[]),
        ("2", "weather,city=b t=2i,wind=3 2".into(), &[("precision", "ms")]),
        ("3", packed, &[("content-encoding", "gzip"), ("db", "other")]),
        ("4", points, &[("format", "opentsdb")]),
        ("5", "weather,city=a t=3i 3".into(), &[]),
    ];
    // New tables and columns need commits that take time: the other messages wait.
    let unwritten = function.write(sqs(&messages), &context(30_000)).await.unwrap();
    assert_eq!((ids(&unwritten), segments(&store).await), (Vec::new(), 1));
    function.write(sqs(&messages[..2]), &context(30_000)).await.unwrap();
    assert_eq!(segments(&store).await, 2);
}

#[tokio::test]
async fn only_an_unwritable_message_is_named_in_the_reply() {
    let store = Store::in_memory();
    let function = function(&store, &[IN_DB, ANY_FORMAT]);
    let messages: [Sent<'_>; 7] = [
        ("good", "m v=1 1".into(), &[]),
        ("nonsense", "no fields".into(), &[]),
        ("half", "m v=2 2\nm v=\"text\" 3".into(), &[]),
        ("format", "m v=4 4".into(), &[("format", "xml")]),
        ("packed", "###".into(), &[("content-encoding", "gzip")]),
        ("statement", "insert into nowhere values (1)".into(), &[("format", "tdengine")]),
        ("last", "m v=5 5".into(), &[]),
    ];
    let unwritten = function.write(sqs(&messages), &context(30_000)).await.unwrap();
    assert_eq!(ids(&unwritten), ["nonsense", "half", "format", "packed", "statement"]);
    assert_eq!(segments(&store).await, 1);
    let several = self::function(&store, &[("TIDELAKE_QUEUE_DATABASES", "a,b")]);
    let none = several.write(sqs(&messages[..1]), &context(30_000)).await.unwrap();
    assert_eq!(ids(&none), ["good"], "a message without a database");
}

#[tokio::test]
async fn a_message_that_comes_again_is_written_once_where_that_is_asked_for() {
    let store = Store::in_memory();
    let function = function(&store, &[IN_DB, ("TIDELAKE_DEDUP", "true")]);
    let (a, b) = (sqs(&[("a", "m v=1 1".into(), &[])]), sqs(&[("b", "m v=2 1".into(), &[])]));
    for event in [&a, &b, &a, &b] {
        assert_eq!(ids(&function.write(event.clone(), &context(30_000)).await.unwrap()), Vec::<&str>::new());
    }
    assert_eq!(segments(&store).await, 2);
    // Another environment knows the message too; the same holds for a statement.
    let other = self::function(&store, &[IN_DB, ANY_FORMAT, ("TIDELAKE_DEDUP", "true")]);
    other.write(a, &context(30_000)).await.unwrap();
    assert_eq!(segments(&store).await, 2);
    let insert = sqs(&[("i", "insert into m values (3, 3)".into(), &[("format", "tdengine")])]);
    for _ in 0..2 {
        assert_eq!(ids(&other.write(insert.clone(), &context(30_000)).await.unwrap()), Vec::<&str>::new());
    }
    assert_eq!(segments(&store).await, 3);
}

#[tokio::test]
async fn what_comes_after_a_failure_in_its_group_of_a_fifo_queue_is_not_written() {
    let messages: [Sent<'_>; 7] = [
        ("a1", "m v=1 1".into(), &[]),
        ("b1", "m v=1 2".into(), &[]),
        ("a2", "m v=1 3\nm v=\"text\" 4".into(), &[]),
        ("a3", "m v=1 5".into(), &[]),
        ("c1", "no fields".into(), &[]),
        ("b2", "m v=1 6".into(), &[]),
        ("c2", "m v=1 7".into(), &[]),
    ];
    let groups = ["a", "b", "a", "a", "c", "b", "c"];
    for dedup in ["false", "true"] {
        let store = Store::in_memory();
        let function = function(&store, &[IN_DB, ("TIDELAKE_DEDUP", dedup)]);
        function.write(sqs(&[("0", "m v=1 0".into(), &[])]), &context(30_000)).await.unwrap();
        let unwritten = function.write(fifo(&messages, &groups), &context(30_000)).await.unwrap();
        assert_eq!(ids(&unwritten), ["a2", "a3", "c1", "c2"]);
        assert_eq!((times(&store, "m").await, segments(&store).await), (vec![0, 1, 2, 3, 6], 2));
    }
    // In a standard queue a group identifies the sender, and implies no order.
    let store = Store::in_memory();
    let function = function(&store, &[IN_DB]);
    let mut event = fifo(&messages, &groups);
    for record in event["Records"].as_array_mut().unwrap() {
        record["eventSourceARN"] = "arn:aws:sqs:eu-west-1:1:rows".into();
    }
    assert_eq!(ids(&function.write(event, &context(30_000)).await.unwrap()), ["a2", "c1"]);
    assert_eq!(times(&store, "m").await, [1, 2, 3, 5, 6, 7]);
}

#[tokio::test]
async fn a_statement_of_a_fifo_queue_runs_between_the_rows_before_and_after_it() {
    let store = Store::in_memory();
    let function = function(&store, &[IN_DB, ANY_FORMAT]);
    let statement: &[(&str, &str)] = &[("format", "tdengine")];
    function.write(sqs(&[("0", "m v=1 1\nn v=1 1".into(), &[])]), &context(30_000)).await.unwrap();
    let messages: [Sent<'_>; 6] = [
        ("a1", "m v=1 2".into(), &[]),
        ("b1", "insert into nothing values (1, 1)".into(), statement),
        ("a2", "insert into m values (3, 1)".into(), statement),
        ("a3", "m v=1 4\nm v=1 5".into(), &[]),
        ("a4", "m v=1 6".into(), &[]),
        ("b2", "n v=1 2".into(), &[]),
    ];
    let event = fifo(&messages, &["a", "b", "a", "a", "a", "b"]);
    assert_eq!(ids(&function.write(event, &context(60_000)).await.unwrap()), ["b1", "b2"]);
    assert_eq!((times(&store, "m").await, times(&store, "n").await), (vec![1, 2, 3, 4, 5, 6], vec![1]));
    // The rows before the statement, the statement, the rows after it.
    assert_eq!(segments(&store).await, 4);
}

/// Contents of the root: databases, number of tables, whether it has users.
async fn contents(store: &Store) -> (Vec<String>, usize, bool) {
    let catalog = Root::open(store.clone()).await.unwrap().refresh().await.unwrap();
    let databases: Vec<_> = catalog.databases().cloned().collect();
    let tables = databases.iter().map(|database| catalog.tables(database.id).count()).sum();
    (databases.iter().map(|database| database.name.clone()).collect(), tables, catalog.users().is_empty())
}

#[tokio::test]
async fn a_message_executes_no_statement_but_insert() {
    let store = Store::in_memory();
    let mine = function(&store, &[IN_DB, ("TIDELAKE_QUEUE_FORMAT", "tdengine")]);
    let rows = function(&store, &[IN_DB]);
    rows.write(sqs(&[("0", "m,k=a v=1 1".into(), &[])]), &context(30_000)).await.unwrap();
    let before = contents(&store).await;
    let refused = [
        "delete from m",
        "drop table m",
        "drop database db",
        "create database db2",
        "create table t (ts timestamp, v double)",
        "create table s using m tags ('b')",
        "alter database db keep 1d",
        "alter table m add column w double",
        "create user evil password 'correct horse' admin",
        "grant admin to evil",
        "use db",
        "select 1",
        "insert into m values (9, 9); drop database db",
    ];
    for sql in refused {
        let event = sqs(&[("1", sql.into(), &[])]);
        assert_eq!(ids(&mine.write(event, &context(30_000)).await.unwrap()), ["1"], "{sql}");
    }
    assert_eq!((contents(&store).await, times(&store, "m").await), (before, vec![1]));
    for sql in ["insert into b using m tags ('b') values (2, 2)", "insert into db.b (ts, v) values (3, 3)"] {
        let event = sqs(&[("1", sql.into(), &[])]);
        assert_eq!(ids(&mine.write(event, &context(30_000)).await.unwrap()), Vec::<&str>::new(), "{sql}");
    }
    assert_eq!(times(&store, "m").await, [1, 2, 3]);
}

#[tokio::test]
async fn an_attribute_of_a_message_widens_neither_its_format_nor_its_databases() {
    let store = Store::in_memory();
    // Another database exists, and senders of messages have no right to it.
    let other = function(&store, &[("TIDELAKE_QUEUE_DATABASE", "secret")]);
    other.write(sqs(&[("0", "m v=1 1".into(), &[])]), &context(30_000)).await.unwrap();
    let line = function(&store, &[IN_DB]);
    line.write(sqs(&[("0", "m v=1 1".into(), &[])]), &context(30_000)).await.unwrap();
    let (before, segments_before) = (contents(&store).await, segments(&store).await);
    let points = json!({"metric": "m", "timestamp": 1_700_000_000, "value": 1, "tags": {"host": "a"}}).to_string();
    let messages: [Sent<'_>; 6] = [
        ("statement", "drop database secret".into(), &[("format", "tdengine")]),
        ("insert", "insert into m values (2, 2)".into(), &[("format", "tdengine")]),
        ("points", points, &[("format", "opentsdb")]),
        ("elsewhere", "m v=2 2".into(), &[("db", "secret")]),
        ("nowhere", "m v=2 2".into(), &[("db", "new")]),
        ("case", "m v=2 2".into(), &[("db", "DB2")]),
    ];
    let unwritten = line.write(sqs(&messages), &context(30_000)).await.unwrap();
    assert_eq!(ids(&unwritten), messages.each_ref().map(|(id, ..)| *id));
    assert_eq!((contents(&store).await, segments(&store).await), (before, segments_before));
    let sql = function(&store, &[IN_DB, ANY_FORMAT]);
    let named: [Sent<'_>; 1] = [("named", "insert into secret.m values (2, 2)".into(), &[("format", "tdengine")])];
    assert_eq!(ids(&sql.write(sqs(&named), &context(30_000)).await.unwrap()), ["named"]);
    // Attributes choose among the values that the settings allow.
    let chosen: [Sent<'_>; 2] = [
        ("1", "m v=3 3".into(), &[("format", "line"), ("db", "db"), ("precision", "ms")]),
        ("2", "insert into db.m values (4, 4)".into(), &[("format", "tdengine")]),
    ];
    assert_eq!(ids(&sql.write(sqs(&chosen), &context(30_000)).await.unwrap()), Vec::<&str>::new());
    assert_eq!(times(&store, "m").await, [1, 4, 3_000_000]);
}

#[test]
fn a_queue_without_a_database_does_not_start() {
    let read = |set: &'static [(&str, &str)]| {
        let of = |name: &str| set.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        let mut variables = Variables::new(of);
        QueueSettings::read(&mut variables);
        variables.finish()
    };
    assert!(read(&[]).unwrap_err().to_string().contains("TIDELAKE_QUEUE_DATABASES"));
    assert!(read(&[("TIDELAKE_QUEUE_FORMAT", "line,xml")]).is_err());
    assert!(read(&[IN_DB]).is_ok() && read(&[("TIDELAKE_QUEUE_DATABASES", "*")]).is_ok());
    assert!(read(&[("TIDELAKE_QUEUE_FORMAT", "opentsdb")]).is_ok(), "its rows have a database of their own");
}

#[tokio::test]
async fn rows_without_a_time_get_the_time_of_their_message_on_every_delivery() {
    let store = Store::in_memory();
    let function = function(&store, &[IN_DB, ANY_FORMAT]);
    let statement: &[(&str, &str)] = &[("format", "tdengine")];
    function.write(sqs(&[("0", "n v=1 1".into(), &[])]), &context(30_000)).await.unwrap();
    let messages: [Sent<'_>; 3] = [
        ("1", "m v=1".into(), &[]),
        ("2", "m v=2".into(), &[]),
        ("3", "insert into n values (now, 2)".into(), statement),
    ];
    let mut event = sqs(&messages);
    for record in event["Records"].as_array_mut().unwrap() {
        record["attributes"]["SentTimestamp"] = "1799000000123".into();
    }
    let in_time = |times: Vec<i64>| times.iter().all(|ts| ts / 1_000_000 == 1_799_000_000_123);
    for come in 1..=2 {
        let unwritten = function.write(event.clone(), &context(30_000)).await.unwrap();
        assert_eq!(ids(&unwritten), Vec::<&str>::new());
        let mut found = times(&store, "m").await;
        assert_eq!(found.len(), 2 * come);
        found.dedup();
        assert_eq!(found.len(), 2, "two messages of one millisecond are two rows");
        assert!(in_time(found));
    }
    let found = times(&store, "n").await;
    assert!(found.len() == 3 && found[1] == found[2] && in_time(found[1..].to_vec()), "{found:?}");
    let record = json!({
        "kinesis": {"sequenceNumber": "495", "data": STANDARD.encode(b"k v=1"),
                    "approximateArrivalTimestamp": 1_799_000_000.123},
        "eventSource": "aws:kinesis", "eventID": "shardId-000000000006:495",
    });
    for _ in 0..2 {
        function.write(json!({ "Records": [record] }), &context(30_000)).await.unwrap();
    }
    let found = times(&store, "k").await;
    assert!(found.len() == 2 && found[0] == found[1] && in_time(found));
}

#[tokio::test]
async fn failed_kinesis_records_are_named_by_sequence_number() {
    let store = Store::in_memory();
    let function = function(&store, &[IN_DB]);
    let record = |number: &str, data: &[u8]| {
        json!({
            "kinesis": {"kinesisSchemaVersion": "1.0", "partitionKey": "p", "sequenceNumber": number,
                        "data": STANDARD.encode(data), "approximateArrivalTimestamp": 1_545_084_650.987},
            "eventSource": "aws:kinesis", "eventVersion": "1.0", "eventName": "aws:kinesis:record",
            "eventID": format!("shardId-000000000006:{number}"), "awsRegion": "us-east-2",
            "invokeIdentityArn": "arn:aws:iam::1:role/r", "eventSourceARN": "arn:aws:kinesis:us-east-2:1:stream/s"
        })
    };
    let records = [record("495", b"m v=1 1"), record("496", &gzip("m v=2 2")), record("497", b"m v=x")];
    let unwritten = function.write(json!({ "Records": records }), &context(30_000)).await.unwrap();
    assert_eq!((ids(&unwritten), segments(&store).await), (vec!["497"], 1));
    let reply = serde_json::to_value(&unwritten).unwrap();
    assert_eq!(reply, json!({"batchItemFailures": [{"itemIdentifier": "497"}]}));
}

#[tokio::test]
async fn all_messages_are_redelivered_when_the_store_does_not_respond() {
    let store = Store::in_memory();
    let no_segments = |request: &Request<'_>| match request.operation {
        Operation::Put if request.key.starts_with(layout::LOG) => Fault::Refused,
        _ => Fault::None,
    };
    let function = function(&store.with_faults(no_segments), &[IN_DB]);
    let messages: [Sent<'_>; 2] = [("1", "m v=1 1".into(), &[]), ("2", "m v=2 2".into(), &[])];
    let unwritten = function.write(sqs(&messages), &context(400)).await.unwrap();
    assert_eq!(ids(&unwritten), ["1", "2"]);
}

#[tokio::test]
async fn an_unknown_event_is_refused_with_the_missing_part() {
    let function = function(&Store::in_memory(), &[IN_DB]);
    for (event, expected) in [
        (json!({"source": "aws.events"}), "records of SQS or Kinesis"),
        (json!({"Records": [{"eventSource": "aws:s3"}]}), "aws:s3"),
        (json!({"Records": [{"eventSource": "aws:sqs", "messageId": "1"}]}), "body"),
        (json!([]), "records of SQS"),
    ] {
        let error = function.write(event, &context(30_000)).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn unpacking_is_bounded() {
    assert_eq!(&unpacked(gzip("abc"), 3).unwrap()[..], b"abc");
    assert_eq!(&unpacked(zstd::encode_all(&b"abc"[..], 1).unwrap(), 3).unwrap()[..], b"abc");
    assert!(unpacked(gzip("abcd"), 3).is_err() && unpacked(vec![0x1f, 0x8b, 9], 3).is_err());
    assert_eq!(&unpacked(b"plain, however long".to_vec(), 3).unwrap()[..], b"plain, however long");
}
