//! Kills, freezes and moves the clocks of whoever runs.

use std::{sync::Arc, time::Duration};

use rand::Rng;
use tokio::time::sleep;

use crate::{process::Life, world::World};

/// Strikes again and again until no operation is left.
pub async fn misfortune(world: Arc<World>) {
    while world.goes_on() {
        let pause = world.draw(|rng| match rng.random_bool(0.5) {
            true => rng.random_range(0..5_000),
            false => rng.random_range(0..200_000),
        });
        sleep(Duration::from_millis(pause)).await;
        let Some((process, task)) = world.victim() else { continue };
        match world.draw(|rng| rng.random_range(0..10)) {
            0..3 => {
                world.server.note(&format!("p{} dies", process.number));
                world.server.count("death");
                world.kill(&process, &task);
            }
            3..7 => {
                let time = Duration::from_millis(world.draw(|rng| match rng.random_range(0..4) {
                    0 => rng.random_range(0..10_000),
                    1 => rng.random_range(0..600_000),
                    2 => rng.random_range(0..4 * 3_600_000),
                    _ => rng.random_range(0..12 * 3_600_000),
                }));
                world.server.note(&format!("p{} freezes for {time:?}", process.number));
                world.server.count("freeze");
                process.gate.set(Life::Frozen);
                let stands_still = !world.plan.steps && world.draw(|rng| rng.random_bool(0.7));
                tokio::spawn(async move {
                    sleep(time).await;
                    if stands_still {
                        process.hands.stood_still(time);
                    }
                    process.gate.set(Life::Running);
                });
            }
            _ if world.plan.steps => {
                let by_ms = world.draw(|rng| rng.random_range(-300_000..=300_000));
                world.server.note(&format!("p{} has its clock moved by {by_ms} ms", process.number));
                world.server.count("clock step");
                process.hands.step(by_ms);
            }
            _ => {}
        }
    }
}
