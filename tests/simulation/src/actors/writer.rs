//! The writer: a client and the write path of its process.

use rand::{Rng, seq::IndexedRandom};
use tidelake_format::ids::Token;
use tidelake_ingest::write::{IdempotencyKey, Ingest};

use super::{
    open,
    request::{Request, new_bulk, new_insert, new_lines, prepare, send, told},
    statement::{add_column, delete, drop_series, drop_table, set_tag},
    until,
};
use crate::{
    process::Process,
    world::{Keyed, World, config},
};

/// Time after which a request is not resent under its key; a key is remembered for a day.
const KNOWN_MS: u64 = 8 * 3_600_000;

/// Writes rows, removes rows and defines tables.
pub(super) async fn write(world: &World, process: &Process) {
    let root = open(world, process).await;
    let ingest = until(world, "starting to write", || Ingest::open(root.clone(), config(process.number))).await;
    while world.next_of_writer().await {
        match world.draw(|rng| rng.random_range(0..100)) {
            0..4 => drop_table(world, process, &ingest).await,
            4..10 => again(world, process, &ingest).await,
            10..24 => rows(world, process, &ingest, new_insert(world)).await,
            24..32 => {
                // Concurrent requests may share a segment.
                tokio::join!(
                    rows(world, process, &ingest, new_lines(world)),
                    rows(world, process, &ingest, new_insert(world)),
                    again(world, process, &ingest)
                );
            }
            32..39 => {
                world.server.count_deed("bulk ingest");
                rows(world, process, &ingest, new_bulk(world)).await;
            }
            39..46 => keyed(world, process, &ingest).await,
            46..54 => keyed_again(world, process, &ingest).await,
            54..61 => delete(world, process, &ingest).await,
            61..64 => drop_series(world, process, &ingest).await,
            64..70 => set_tag(world, process, &ingest).await,
            70..73 => add_column(world, process, &ingest).await,
            _ => rows(world, process, &ingest, new_lines(world)).await,
        }
    }
}

async fn rows(world: &World, process: &Process, ingest: &Ingest, request: Request) {
    if let Request::Lines(batch) = &request {
        world.sent.lock().push(batch.clone());
    }
    if !prepare(world, ingest, &request).await {
        return;
    }
    let (earlier, tokens): (Vec<usize>, Vec<Token>) = brought(world).into_iter().unzip();
    let request = correction(world, &earlier).unwrap_or(request);
    let id = world.model.lock().write(process.number, world.server.elapsed_ms(), request.batch());
    world.model.lock().brings(id, &earlier);
    world.server.note(&format!("p{} event {id} after {earlier:?} writes {request:?}", process.number));
    told(world, process, id, send(world, &ingest.after(&tokens), &request).await);
}

/// Writes whose tokens a client sends: sometimes the last acknowledged ones, through any process.
fn brought(world: &World) -> Vec<(usize, Token)> {
    if !world.plan.skews || world.draw_later(|rng| rng.random_bool(0.5)) {
        return Vec::new();
    }
    world.server.count_deed("write with tokens of earlier ones");
    let mut known = world.model.lock().acknowledged();
    known.retain(|(_, token)| matches!(token, Token::Position(_)));
    known[known.len().saturating_sub(2)..].to_vec()
}

/// A client that sends the token of a line protocol write may correct it at once with new values for the same rows. If
/// the writes go through processes with different clocks within one tick of the store, only the token orders them.
fn correction(world: &World, earlier: &[usize]) -> Option<Request> {
    let last = *earlier.last()?;
    if world.draw_later(|rng| rng.random_bool(0.5)) {
        return None;
    }
    let mut batch = world.model.lock().batch(last)?;
    if !batch.rows.iter().all(|row| row.series.starts_with("line")) {
        return None;
    }
    for (_, value) in batch.rows.iter_mut().flat_map(|row| &mut row.fields) {
        *value = world.value();
    }
    world.server.count_deed("write that corrects the one before it");
    Some(Request::Lines(batch))
}

/// Resends any earlier batch without a key: a new write.
async fn again(world: &World, process: &Process, ingest: &Ingest) {
    let sent = world.sent.lock().clone();
    let Some(batch) = world.draw(|rng| sent.choose(rng).cloned()) else { return };
    world.server.count("batch delivered again");
    let request = Request::Lines(batch);
    let id = world.model.lock().write(process.number, world.server.elapsed_ms(), request.batch());
    world.server.note(&format!("p{} event {id} writes again {request:?}", process.number));
    told(world, process, id, send(world, ingest, &request).await);
}

/// Sends a request under a new key, sometimes as two concurrent copies.
async fn keyed(world: &World, process: &Process, ingest: &Ingest) {
    let request = match world.draw(|rng| rng.random_range(0..4)) {
        0 | 1 => new_lines(world),
        2 => new_insert(world),
        _ => new_bulk(world),
    };
    if !prepare(world, ingest, &request).await {
        return;
    }
    let Ok(key) = IdempotencyKey::new(&format!("k{}", world.value())) else { return };
    let begun = world.server.elapsed_ms();
    let event = world.model.lock().write(process.number, begun, request.batch());
    let keyed = Keyed { key, event, begun, request };
    world.keyed.lock().push(keyed.clone());
    world.server.count_deed("request under a key");
    if world.draw(|rng| rng.random_bool(0.3)) {
        world.server.count("copies under one key at once");
        world.model.lock().write_again(event, process.number);
        tokio::join!(send_keyed(world, process, ingest, &keyed), send_keyed(world, process, ingest, &keyed));
    } else {
        send_keyed(world, process, ingest, &keyed).await;
    }
}

/// Resends any earlier request under its key: the same write.
async fn keyed_again(world: &World, process: &Process, ingest: &Ingest) {
    let now = world.server.elapsed_ms();
    let known: Vec<Keyed> = world.keyed.lock().iter().filter(|k| now - k.begun < KNOWN_MS).cloned().collect();
    // Usually one of the last: its first copy may still be running, or its process may just have died.
    let last = &known[known.len().saturating_sub(3)..];
    let Some(keyed) = world.draw(|rng| if rng.random_bool(0.6) { last } else { &known }.choose(rng).cloned()) else {
        return;
    };
    world.server.count("request delivered again under its key");
    world.model.lock().write_again(keyed.event, process.number);
    send_keyed(world, process, ingest, &keyed).await;
}

async fn send_keyed(world: &World, process: &Process, ingest: &Ingest, keyed: &Keyed) {
    let Keyed { key, event, request, .. } = keyed;
    world.server.note(&format!("p{} event {event} under {key:?}: {request:?}", process.number));
    let sent = send(world, &ingest.with_key(Some(key.clone())), request).await;
    told(world, process, *event, sent);
}
