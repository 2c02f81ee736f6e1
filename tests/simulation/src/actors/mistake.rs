//! People who take a segment away or put objects into each other's place, notice it and undo it; and a store that is full
//! for a while.

use std::{sync::Arc, time::Duration};

use rand::{Rng, seq::IndexedRandom};
use tidelake_format::layout;
use tokio::time::sleep;

use crate::world::World;

/// A mistake is undone before a fold has found the same fault three times, two minutes apart.
const LONGEST_MS: u64 = 200_000;

/// One mistake after another, until no operation is left.
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

/// Takes a segment away that is not the last one of its writer, and brings it back.
async fn take_away(world: &World, time: Duration) {
    let positions: Vec<_> = world.server.keys().iter().filter_map(|key| layout::parse_log(key)).collect();
    let is_below = |at: &usize| positions.get(at + 1).is_some_and(|next| next.writer == positions[*at].writer);
    let below: Vec<usize> = (0..positions.len()).filter(is_below).collect();
    let Some(at) = world.draw_later(|rng| below.choose(rng).copied()) else { return };
    let key = layout::log_key(positions[at]);
    if !world.server.take_away(&key) {
        return;
    }
    // How old a copy is, the stamps of its writer tell, if its clock and they run steadily.
    let is_steady = !world.plan.steps && !world.plan.skews;
    let is_copied = is_steady && world.draw_later(|rng| rng.random_bool(0.5));
    world.server.note(&format!("{key} is taken away for {time:?}"));
    world.server.count("segment taken away");
    sleep(time).await;
    world.server.note(&format!("{key} is back"));
    world.server.put_back(&key, is_copied);
}

/// Puts two objects of one kind into each other's place, and undoes it.
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

/// Leaves no room in the store for a while.
async fn fill(world: &World, time: Duration) {
    world.server.note(&format!("the store is full for {time:?}"));
    world.server.set_full(true);
    sleep(time).await;
    world.server.set_full(false);
}
