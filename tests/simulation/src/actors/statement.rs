//! Statements of a client: removals and definitions.

use std::time::Duration;

use rand::Rng;
use tidelake_ingest::write::Ingest;
use tokio::time::sleep;

use super::request::{ADDED, random_ts, told};
use crate::{
    model::Removal,
    process::Process,
    read::DATABASE,
    world::{TABLES, World},
};

const ALL: (i64, i64) = (i64::MIN, i64::MAX);

/// Creates a table unless it exists; returns whether the statement was answered.
pub(super) async fn create(world: &World, ingest: &Ingest, table: &str) -> bool {
    let sql = format!(
        "create stable if not exists {table} (ts timestamp, a bigint, b bigint) tags (dev binary(16), site binary(16))"
    );
    match ingest.execute(Some(DATABASE), &sql, None).await {
        Ok(_) => true,
        Err(error) => {
            world.judge("creating a table", &error);
            false
        }
    }
}

async fn remove(world: &World, process: &Process, ingest: &Ingest, sql: &str, removal: Removal) {
    let id = world.model.lock().remove(process.number, world.server.elapsed_ms(), removal);
    world.server.note(&format!("p{} event {id} executes {sql}", process.number));
    let done = ingest.execute(Some(DATABASE), sql, None).await;
    told(world, process, id, done.map(|done| done.token));
}

/// Drops the fleeting table.
pub(super) async fn drop_table(world: &World, process: &Process, ingest: &Ingest) {
    world.server.count_deed("table dropped");
    let table = TABLES[1];
    if world.draw(|rng| rng.random_bool(0.2)) {
        world.server.count_deed("table dropped while all write to it");
        world.hurry();
        sleep(Duration::from_millis(world.draw(|rng| rng.random_range(1_000..3_000)))).await;
    }
    let removal = Removal { table: table.to_owned(), series: None, range: ALL, drops: true };
    remove(world, process, ingest, &format!("drop table if exists {table}"), removal).await;
    if world.draw(|rng| rng.random_bool(0.5)) {
        world.server.count_deed("table dropped and created");
        create(world, ingest, table).await;
    }
}

fn random_series(world: &World) -> (&'static str, String) {
    world.draw(|rng| (TABLES[usize::from(rng.random_bool(0.25))], format!("d{}", rng.random_range(0..4))))
}

/// Drops a subtable.
pub(super) async fn drop_series(world: &World, process: &Process, ingest: &Ingest) {
    world.server.count_deed("subtable dropped");
    let (table, series) = random_series(world);
    let sql = format!("drop table {table}_{series}");
    let removal = Removal { table: table.to_owned(), series: Some(series), range: ALL, drops: true };
    remove(world, process, ingest, &sql, removal).await;
}

/// Deletes a time range of all series, of one series by its tag, or of a subtable.
pub(super) async fn delete(world: &World, process: &Process, ingest: &Ingest) {
    world.server.count_deed("delete");
    let (table, series) = random_series(world);
    let (a, b, which) = world.draw(|rng| (random_ts(rng), random_ts(rng), rng.random_range(0..4)));
    let range = (a.min(b), a.max(b));
    let time = format!("ts >= {} and ts <= {}", range.0, range.1);
    let (sql, series) = match which {
        0 => (format!("delete from {table} where {time}"), None),
        1 => (format!("delete from {table}_{series} where {time}"), Some(series)),
        2 => (format!("delete from {table} where {time} and dev = '{series}'"), Some(series)),
        _ => {
            let series = series.replace('d', "line");
            (format!("delete from {table} where dev = '{series}' and {time}"), Some(series))
        }
    };
    let removal = Removal { table: table.to_owned(), series, range, drops: false };
    remove(world, process, ingest, &sql, removal).await;
}

/// Sets a tag of a subtable.
pub(super) async fn set_tag(world: &World, process: &Process, ingest: &Ingest) {
    world.server.count_deed("tag set");
    let (table, series) = random_series(world);
    let site = format!("s{}", world.value());
    let id = world.model.lock().set_site(process.number, world.server.elapsed_ms(), table, &series, &site);
    let sql = format!("alter table {table}_{series} set tag site = '{site}'");
    world.server.note(&format!("p{} event {id} executes {sql}", process.number));
    let done = ingest.execute(Some(DATABASE), &sql, None).await;
    told(world, process, id, done.map(|done| done.token));
}

/// Adds a column that other clients add too.
pub(super) async fn add_column(world: &World, process: &Process, ingest: &Ingest) {
    world.server.count_deed("column added");
    let table = world.draw(|rng| TABLES[usize::from(rng.random_bool(0.25))]);
    let sql = format!("alter stable {table} add column {ADDED} bigint");
    world.server.note(&format!("p{} executes {sql}", process.number));
    let add = || ingest.execute(Some(DATABASE), &sql, None);
    let (first, second) = tokio::join!(add(), add());
    if first.is_ok() && second.is_ok() {
        // Between them the table may have been dropped and made again, but not of the one that stays.
        if table == TABLES[0] {
            world.violation(format!("a column was added twice: {sql}"));
        }
    }
    for error in [first, second].into_iter().filter_map(Result::err) {
        world.judge("adding a column", &error);
    }
}
