//! Row requests in the forms sent by clients.

use std::{sync::Arc, time::Duration};

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray},
    datatypes::{DataType, Field, Schema, TimeUnit},
};
use futures::{StreamExt, stream};
use rand::{Rng, seq::IndexedRandom};
use tidelake_format::{Error, Kind, Result, ids::Token};
use tidelake_ingest::{
    decode::line_protocol::LinePrecision,
    write::{Durability, IfAbsent, IfExists, Ingest, IngestTarget, Written},
};
use tokio::time::sleep;

use crate::{
    model::{Batch, Row, Told},
    process::Process,
    read::DATABASE,
    server::{DAY_MS, EPOCH_MS, MIDNIGHT_MS},
    world::{TABLES, World},
};

/// Fields of lines; statements and bulk ingests use the first two and [`ADDED`].
const FIELDS: [&str; 4] = ["a", "b", "c", "d"];
/// A field that several writers add.
pub(super) const ADDED: &str = "e";

/// A request of rows.
#[derive(Debug, Clone)]
pub enum Request {
    /// Line protocol.
    Lines(Batch),
    /// INSERT … USING.
    Insert(Batch),
    /// A bulk ingest of Arrow batches, each in its own segment.
    Bulk(Batch),
}

impl Request {
    /// The rows.
    pub fn batch(&self) -> &Batch {
        match self {
            Request::Lines(batch) | Request::Insert(batch) | Request::Bulk(batch) => batch,
        }
    }
}

/// A few rows of few keys, so that keys often collide.
fn batch(world: &World, series: &str, fields: &[&str]) -> Batch {
    world.draw(|rng| {
        let table = TABLES[match rng.random_range(0..100) {
            0..80 if world.is_hurry() => 1,
            0..65 => 0,
            65..88 => 1,
            _ => 2,
        }];
        // In the table with expiry all rows have one time, so a request is accepted or refused as a whole.
        // Accepted until its day expires.
        let old = MIDNIGHT_MS - 1_000 - DAY_MS * [0, 1, 2, 2, 2][rng.random_range(0..5)];
        let rows = rng.random_range(1..=4);
        let rows = (0..rows).map(|_| {
            let n = rng.random_range(1..=fields.len().min(3));
            let fields: Vec<&&str> = fields.choose_multiple(rng, n).collect();
            let ts = if table == TABLES[2] { old } else { random_ts(rng) };
            let fields = fields.into_iter().map(|f| ((*f).to_owned(), world.value())).collect();
            Row { series: format!("{series}{}", rng.random_range(0..4)), ts, fields }
        });
        Batch { table: table.to_owned(), rows: rows.collect() }
    })
}

/// A random time of the first two tables' rows.
pub(super) fn random_ts(rng: &mut impl Rng) -> i64 {
    EPOCH_MS + rng.random_range(0..3) * DAY_MS + rng.random_range(0..4) * 1_000
}

pub(super) fn new_lines(world: &World) -> Request {
    Request::Lines(batch(world, "line", &FIELDS))
}

pub(super) fn new_insert(world: &World) -> Request {
    let added = world.draw(|rng| rng.random_bool(0.2));
    let fields: &[&str] = if added { &["a", "b", ADDED] } else { &FIELDS[..2] };
    Request::Insert(batch(world, "d", fields))
}

pub(super) fn new_bulk(world: &World) -> Request {
    Request::Bulk(batch(world, "d", &FIELDS[..2]))
}

/// Creates the table if rows of this kind need one; returns whether it exists.
pub(super) async fn prepare(world: &World, ingest: &Ingest, request: &Request) -> bool {
    let table = request.batch().table.as_str();
    if matches!(request, Request::Lines(_)) || table == TABLES[2] {
        return true;
    }
    super::statement::create(world, ingest, table).await
}

/// Sends a request; returns the reply to its client.
pub(super) async fn send(world: &World, ingest: &Ingest, request: &Request) -> Result<Option<Token>> {
    match request {
        Request::Lines(batch) => {
            let body = lines(batch).into();
            let sent = ingest.write_line_protocol(DATABASE, body, LinePrecision::Milli, Durability::Stored).await;
            written(world, sent?)
        }
        Request::Insert(batch) => {
            let done = ingest.execute(Some(DATABASE), &insert(batch), None).await?;
            if done.replayed {
                world.server.count_deed("copy answered by what was there");
            }
            Ok(done.token)
        }
        Request::Bulk(batch) => {
            let target = IngestTarget {
                database: DATABASE.to_owned(),
                table: batch.table.clone(),
                if_absent: IfAbsent::Fail,
                if_exists: IfExists::Append,
            };
            let pauses: Vec<u64> = batch
                .rows
                .iter()
                .map(|_| world.draw(|rng| if rng.random_bool(0.9) { 0 } else { rng.random_range(0..300_000) }))
                .collect();
            let rows: Vec<(Row, u64)> = batch.rows.iter().cloned().zip(pauses).collect();
            let table = batch.table.clone();
            let batches = stream::iter(rows).then(move |(row, pause)| {
                let table = table.clone();
                async move {
                    sleep(Duration::from_millis(pause)).await;
                    arrow_of(&table, &row)
                }
            });
            written(world, ingest.ingest_batches(target, batches).await?)
        }
    }
}

fn written(world: &World, written: Written) -> Result<Option<Token>> {
    if written.replayed {
        world.server.count_deed("copy answered by what was there");
    }
    match (written.accepted, written.dropped) {
        (_, 0) => Ok(written.token),
        (0, _) => Err(Error::invalid("every row was rejected").with("found", format!("{:?}", written.rejected))),
        _ => Err(Error::internal("a part of a request was rejected").with("found", format!("{:?}", written.rejected))),
    }
}

fn lines(batch: &Batch) -> String {
    let mut body = String::new();
    for row in &batch.rows {
        let fields: Vec<String> = row.fields.iter().map(|(f, v)| format!("{f}={v}i")).collect();
        body += &format!("{},dev={},site=x {} {}\n", batch.table, row.series, fields.join(","), row.ts);
    }
    body
}

fn insert(batch: &Batch) -> String {
    let table = batch.table.as_str();
    let mut sql = "insert into".to_owned();
    for row in &batch.rows {
        let (names, values): (Vec<&str>, Vec<String>) =
            row.fields.iter().map(|(f, v)| (f.as_str(), v.to_string())).unzip();
        sql += &format!(
            " {table}_{} using {table} (dev, site) tags('{}', 'y') (ts, {}) values ({}, {})",
            row.series,
            row.series,
            names.join(", "),
            row.ts,
            values.join(", ")
        );
    }
    sql
}

/// One row as a batch.
fn arrow_of(table: &str, row: &Row) -> Result<RecordBatch> {
    let value = |name: &str| row.fields.iter().find(|(f, _)| f == name).map(|(_, v)| *v);
    let fields = vec![
        Field::new("tbname", DataType::Utf8, false),
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), false),
        Field::new("a", DataType::Int64, true),
        Field::new("b", DataType::Int64, true),
        Field::new("dev", DataType::Utf8, true),
        Field::new("site", DataType::Utf8, true),
    ];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![format!("{table}_{}", row.series)])),
        Arc::new(TimestampMillisecondArray::from(vec![row.ts])),
        Arc::new(Int64Array::from(vec![value("a")])),
        Arc::new(Int64Array::from(vec![value("b")])),
        Arc::new(StringArray::from(vec![row.series.as_str()])),
        Arc::new(StringArray::from(vec!["y"])),
    ];
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// Records the reply to the client. Only an error about the request itself means that nothing was stored.
pub(super) fn told(world: &World, process: &Process, id: usize, told: Result<Option<Token>, Error>) {
    let at = world.server.elapsed_ms();
    match told {
        Ok(token) => {
            world.server.note(&format!("event {id} is acknowledged, {token:?}"));
            world.model.lock().told(id, process.number, at, Told::Done(token));
        }
        Err(error) => {
            world.judge(&format!("event {id}"), &error);
            if error.kind() == Kind::Invalid || is_of_nothing(&error) {
                world.model.lock().told(id, process.number, at, Told::Refused);
            }
        }
    }
}

/// Whether a statement failed because its object does not exist.
fn is_of_nothing(error: &Error) -> bool {
    error.kind() == Kind::NotFound && error.message().starts_with("Table does not exist")
}
