//! Operator mistakes: removes a segment or swaps objects, then undoes it; and a store that is full for a while.

use std::{sync::Arc, time::Duration};

use rand::{Rng, seq::IndexedRandom};
use tidelake_format::layout;
use tokio::time::sleep;

use crate::world::World;

/// Mistakes are undone before a fold finds the same fault three times, two minutes apart.
const LONGEST_MS: u64 = 200_000;

/// Makes mistakes until no operation is left.
pub async fn mistakes(world: Arc<World>) {
    let kinds = [(world.plan.holes, 0), (world.plan.swaps, 1), (world.plan.fills, 2)];
    let kinds: Vec<u8> = kinds.into_iter().filter(|(is_on, _)| *is_on).map(|(_, kind)| kind).collect();
    while world.goes_on() && !kinds.is_empty() {
        let pause = world.draw_later(|rng| match rng.random_bool(0.7) {
            true => rng.random_range(0..20_000),
            false => rng.random_range(0..900_000),
        });
        sleep(Duration::from_millis(pause)).await;
        let time = Duration::from_millis(world.draw_later(|rng| rng.random_range(0..LONGEST_MS)));
        match world.draw_later(|rng| kinds.choose(rng).copied()) {
            Some(0) => take_away(&world, time).await,
            Some(1) => swap(&world, time).await,
            _ => fill(&world, time).await,
        }
    }
}

/// Removes a segment that is not the last of its writer, and restores it.
async fn take_away(world: &World, time: Duration) {
    let positions: Vec<_> = world.server.keys().iter().filter_map(|key| layout::parse_log(key)).collect();
    let is_below = |at: &usize| positions.get(at + 1).is_some_and(|next| next.writer == positions[*at].writer);
    let below: Vec<usize> = (0..positions.len()).filter(is_below).collect();
    let Some(at) = world.draw_later(|rng| below.choose(rng).copied()) else { return };
    let key = layout::log_key(positions[at]);
    if !world.server.take_away(&key) {
        return;
    }
    // The writer's stamps show a copy's age if its clock runs steadily.
    let is_steady = !world.plan.steps && !world.plan.skews;
    let is_copied = is_steady && world.draw_later(|rng| rng.random_bool(0.5));
    world.server.note(&format!("{key} is taken away for {time:?}"));
    world.server.count("segment taken away");
    sleep(time).await;
    world.server.note(&format!("{key} is back"));
    world.server.put_back(&key, is_copied);
}

/// Swaps two objects of one kind, and undoes it.
async fn swap(world: &World, time: Duration) {
    let keys: Vec<String> = world.server.keys().into_iter().filter(|key| key.starts_with("data/")).collect();
    let suffix = world.draw_later(|rng| [".tags", ".tags", ".parquet", ".rollup"][rng.random_range(0..4)]);
    let of_kind: Vec<&String> = keys.iter().filter(|key| key.ends_with(suffix)).collect();
    let two: Vec<&String> = world.draw_later(|rng| of_kind.choose_multiple(rng, 2).copied().collect());
    let [a, b] = two[..] else { return };
    if !world.server.swap(a, b) {
        return;
    }
    world.server.note(&format!("{a} and {b} change places for {time:?}"));
    world.server.count("two objects in each other's place");
    sleep(time).await;
    world.server.note(&format!("{a} and {b} are back"));
    world.server.swap_back(a);
    world.server.swap_back(b);
}

/// Fills the store for a while.
async fn fill(world: &World, time: Duration) {
    world.server.note(&format!("the store is full for {time:?}"));
    world.server.set_full(true);
    sleep(time).await;
    world.server.set_full(false);
}
