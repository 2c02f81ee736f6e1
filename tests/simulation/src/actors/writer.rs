//! A client and the write path of its process.

use rand::{Rng, seq::IndexedRandom};
use tidelake_format::{Error, Kind, ids::Token};
use tidelake_ingest::{
    decode::line_protocol::LinePrecision,
    write::{Durability, Ingest},
};

use super::{open, until};
use crate::{
    model::{Batch, End, Removal, Row},
    process::Process,
    read::DATABASE,
    server::EPOCH_MS,
    world::{TABLES, World, config},
};

const FIELDS: [&str; 4] = ["a", "b", "c", "d"];

/// Writes, and now and then drops the table that does not stay.
pub(super) async fn write(world: &World, process: &Process) {
    let root = open(world, process).await;
    let ingest = until(world, "starting to write", || Ingest::open(root.clone(), config(process.number))).await;
    while world.next().await {
        match world.draw(|rng| rng.random_range(0..100)) {
            0..4 => drop_table(world, process, &ingest).await,
            4..16 => again(world, process, &ingest).await,
            16..36 => insert(world, process, &ingest).await,
            36..46 => {
                // Requests at once may share a segment.
                tokio::join!(
                    lines(world, process, &ingest),
                    lines(world, process, &ingest),
                    again(world, process, &ingest)
                );
            }
            _ => lines(world, process, &ingest).await,
        }
    }
}

/// A few rows of few keys, so that many meet.
fn batch(world: &World, series: &str, fields: &[&str]) -> Batch {
    world.draw(|rng| {
        let table = if rng.random_bool(0.75) { TABLES[0] } else { TABLES[1] };
        let rows = rng.random_range(1..=4);
        let rows = (0..rows).map(|_| {
            let n = rng.random_range(1..=fields.len().min(3));
            let fields: Vec<&&str> = fields.choose_multiple(rng, n).collect();
            let ts = EPOCH_MS + rng.random_range(0..3) * 86_400_000 + rng.random_range(0..4) * 1_000;
            let fields = fields.into_iter().map(|f| ((*f).to_owned(), world.value())).collect();
            Row { series: format!("{series}{}", rng.random_range(0..4)), ts, fields }
        });
        Batch { table: table.to_owned(), rows: rows.collect() }
    })
}

async fn lines(world: &World, process: &Process, ingest: &Ingest) {
    let batch = batch(world, "line", &FIELDS);
    world.sent.lock().push(batch.clone());
    send_lines(world, process, ingest, &batch).await;
}

/// A batch that was sent before, by whoever it was.
async fn again(world: &World, process: &Process, ingest: &Ingest) {
    let sent = world.sent.lock().clone();
    let Some(batch) = world.draw(|rng| sent.choose(rng).cloned()) else { return };
    world.server.count("repeated batch");
    send_lines(world, process, ingest, &batch).await;
}

async fn send_lines(world: &World, process: &Process, ingest: &Ingest, batch: &Batch) {
    let mut body = String::new();
    for row in &batch.rows {
        let fields: Vec<String> = row.fields.iter().map(|(f, v)| format!("{f}={v}i")).collect();
        body += &format!("{},dev={},site=x {} {}\n", batch.table, row.series, fields.join(","), row.ts);
    }
    let id = world.model.lock().write(process.number, world.server.elapsed_ms(), batch);
    world.server.note(&format!("p{} event {id} writes {body:?}", process.number));
    let written = ingest.write_line_protocol(DATABASE, body.into(), LinePrecision::Milli, Durability::Stored).await;
    match written {
        Ok(written) if written.rejected.is_empty() => end(world, id, Ok(written.token)),
        Ok(written) => world.violation(format!("event {id}: good lines were rejected: {:?}", written.rejected)),
        Err(error) => end(world, id, Err(error)),
    }
}

async fn insert(world: &World, process: &Process, ingest: &Ingest) {
    let batch = batch(world, "d", &FIELDS[..2]);
    let table = batch.table.as_str();
    let create = format!(
        "create stable if not exists {table} (ts timestamp, a bigint, b bigint) tags (dev binary(16), site binary(16))"
    );
    if let Err(error) = ingest.execute(Some(DATABASE), &create, None).await {
        world.judge("creating a table", &error);
        return;
    }
    let mut sql = "insert into".to_owned();
    for row in &batch.rows {
        let (names, values): (Vec<&str>, Vec<String>) =
            row.fields.iter().map(|(f, v)| (f.as_str(), v.to_string())).unzip();
        sql += &format!(
            " {table}_{} using {table} tags('{}', 'y') (ts, {}) values ({}, {})",
            row.series,
            row.series,
            names.join(", "),
            row.ts,
            values.join(", ")
        );
    }
    let id = world.model.lock().write(process.number, world.server.elapsed_ms(), &batch);
    world.server.note(&format!("p{} event {id} executes {sql}", process.number));
    let done = ingest.execute(Some(DATABASE), &sql, None).await;
    end(world, id, done.map(|done| done.token));
}

async fn drop_table(world: &World, process: &Process, ingest: &Ingest) {
    let removal = Removal { table: TABLES[1].to_owned(), series: None, range: (i64::MIN, i64::MAX) };
    let id = world.model.lock().remove(process.number, world.server.elapsed_ms(), removal);
    world.server.note(&format!("p{} event {id} drops a table", process.number));
    world.server.count("drop table");
    let sql = format!("drop table if exists {}", TABLES[1]);
    let done = ingest.execute(Some(DATABASE), &sql, None).await;
    end(world, id, done.map(|done| done.token));
}

/// What the client was told. Only what is wrong with the request itself says that nothing was stored.
fn end(world: &World, id: usize, told: Result<Option<Token>, Error>) {
    let at = world.server.elapsed_ms();
    match told {
        Ok(token) => {
            world.server.note(&format!("event {id} is acknowledged, {token:?}"));
            world.model.lock().end(id, End::Acknowledged { at, token });
        }
        Err(error) => {
            world.judge(&format!("event {id}"), &error);
            if error.kind() == Kind::Invalid {
                world.model.lock().end(id, End::Refused);
            }
        }
    }
}
