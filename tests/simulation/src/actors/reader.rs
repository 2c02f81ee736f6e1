//! The reader: reads snapshots with and without tokens, rereads them later, and checks them.

use std::{sync::Arc, time::Duration};

use rand::{Rng, seq::IndexedRandom};
use tidelake_format::{
    Error, Kind,
    ids::Token,
    meta::Root,
    snapshot::{Snapshot, SnapshotOptions, SnapshotReader},
};

use super::{open, query::Asker};
use crate::{
    model::Seen,
    process::Process,
    read::{Content, content, digest, identity},
    server::DAY_MS,
    world::{TABLES, World},
};

/// How long a snapshot, including objects that later versions removed, stays readable.
const GRACE_MS: u64 = 3_600_000;

/// A snapshot kept to be read again.
struct Kept {
    snapshot: Arc<Snapshot>,
    taken: u64,
    table: &'static str,
    digest: u64,
}

/// Reads until no operation is left.
pub(super) async fn read(world: &World, process: &Process) {
    let root = open(world, process).await;
    let staleness_ms = if process.number.is_multiple_of(2) { 0 } else { 1_000 };
    let options = SnapshotOptions {
        max_staleness: Some(Duration::from_millis(staleness_ms)),
        tail_cache_bytes: [0, 1 << 20][usize::from(!process.number.is_multiple_of(3))],
        ..SnapshotOptions::default()
    };
    let snapshots = SnapshotReader::new(root.clone(), options);
    let mut asker = None;
    let mut kept: Option<Kept> = None;
    while world.next().await {
        if let Some(kept) = kept.take_if(|_| world.draw(|rng| rng.random_bool(0.5))) {
            again(world, &root, &kept).await;
        }
        let known = world.model.lock().acknowledged();
        let tokens: Vec<(usize, Token)> = match world.draw(|rng| rng.random_range(0..3)) {
            0 => known.last().copied().into_iter().collect(),
            1 => world.draw(|rng| known.choose_multiple(rng, 2).copied().collect()),
            _ => Vec::new(),
        };
        if world.draw(|rng| rng.random_bool(0.25)) {
            asker.get_or_insert_with(|| Asker::new(&root)).ask(world, process, &tokens).await;
            continue;
        }
        let begun = world.server.elapsed_ms();
        let asked: Vec<Token> = tokens.iter().map(|(_, token)| *token).collect();
        let snapshot = match snapshots.snapshot(&asked).await {
            Ok(snapshot) => snapshot,
            Err(error) => {
                token_error(world, &tokens, &error);
                continue;
            }
        };
        let taken = world.server.elapsed_ms();
        for table in TABLES {
            let what = format!("p{} read {table} of {}", process.number, snapshot.catalog.version);
            let content = match content(&root, &snapshot, table).await {
                Ok(content) => content,
                Err(error) => {
                    failed(world, &what, begun, &error);
                    continue;
                }
            };
            let digest = digest(&content);
            world.server.note(&format!("{what}: {} rows, {digest:016x}", content.rows.len()));
            let tokens = tokens.iter().map(|(id, _)| *id).collect();
            // Expired and deleted rows disappear without a change of the content's identity.
            let removals = world.model.lock().removals(table, begun.saturating_sub(staleness_ms), taken);
            // Concurrent writes may change their order with a copy.
            if let Some(removals) = removals.filter(|_| table != TABLES[2] && !world.server.has_copies()) {
                world.same(&what, format!("{removals} {}", identity(&snapshot)), table, digest);
            }
            let Content { rows, sites } = content;
            let table = table.to_owned();
            let seen = Seen { table, rows, sites, begun, ended: taken, tokens, staleness_ms, is_tidied: false };
            world.saw(&what, &seen);
        }
        if kept.is_none() {
            let table = world.draw(|rng| TABLES[rng.random_range(0..TABLES.len())]);
            if let Ok(content) = content(&root, &snapshot, table).await {
                kept = Some(Kept { snapshot, taken: begun, table, digest: digest(&content) });
            }
        }
    }
}

/// Checks that a snapshot returns the same rows as long as its objects exist.
async fn again(world: &World, root: &Root, kept: &Kept) {
    let what = format!("reading {} of {} again", kept.table, kept.snapshot.catalog.version);
    match content(root, &kept.snapshot, kept.table).await {
        Ok(content) if digest(&content) == kept.digest => world.server.count_deed("snapshot read again"),
        Ok(content) => world.violation(format!("{what} gave other rows: {content:?}")),
        Err(error) => failed(world, &what, kept.taken, &error),
    }
}

/// A young snapshot's objects must exist. Its age counts from its request, because its process may have been frozen
/// before it got the snapshot.
fn failed(world: &World, what: &str, taken: u64, error: &Error) {
    world.judge(what, error);
    let age = world.server.elapsed_ms() - taken;
    if error.kind() == Kind::NotFound && age < GRACE_MS {
        world.violation(format!("{what}, {age} ms after it was taken, found an object gone: {error:?}"));
    }
}

/// Judges an error of a read with tokens: acknowledged writes must be found.
pub(super) fn token_error(world: &World, tokens: &[(usize, Token)], error: &Error) {
    world.judge("a snapshot with tokens", error);
    let absent = error.message().starts_with("the write of the token")
        || error.message().starts_with("the version of the token")
        || error.message().starts_with("token expired");
    let oldest = tokens.iter().filter_map(|(id, _)| world.model.lock().acknowledged_at(*id)).min();
    let age = world.server.elapsed_ms() - oldest.unwrap_or_default();
    if absent && age < 2 * DAY_MS.unsigned_abs() {
        world.violation(format!("a write that was acknowledged {age} ms ago is not found: {error}"));
    }
}
