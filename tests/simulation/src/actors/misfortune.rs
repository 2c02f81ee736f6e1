//! Fault injection: kills and freezes processes, moves their clocks, and cuts the power.

use std::{sync::Arc, time::Duration};

use rand::Rng;
use tokio::time::sleep;

use super::Role;
use crate::{
    process::{Life, Process},
    server::{LONGEST_FLIGHT, Place},
    world::World,
};

/// Injects faults until no operation is left.
pub async fn misfortune(world: Arc<World>) {
    while world.goes_on() {
        let pause = world.draw(|rng| match rng.random_bool(0.5) {
            true => rng.random_range(0..5_000),
            false => rng.random_range(0..200_000),
        });
        sleep(Duration::from_millis(pause)).await;
        if world.plan.is_directory && world.draw(|rng| rng.random_bool(0.05)) {
            lose_power(&world);
            continue;
        }
        let Some(process) = world.victim() else { continue };
        match world.draw(|rng| rng.random_range(0..10)) {
            0..3 => {
                world.server.note(&format!("p{} dies", process.number));
                world.server.count("death at any time");
                world.kill(&process);
            }
            3..7 => {
                process.gate.set(Life::Frozen);
                world.server.count("freeze at any time");
                freeze(&world, process);
            }
            _ if world.plan.steps => {
                let by_ms = world.draw(|rng| rng.random_range(-300_000..=300_000));
                world.server.note(&format!("p{} has its clock moved by {by_ms} ms", process.number));
                world.server.count(if by_ms < 0 { "clock stepped back" } else { "clock stepped ahead" });
                process.hands.step(by_ms);
            }
            _ => {}
        }
    }
}

/// Handles processes stopped at a request; runs until the end.
pub async fn strikes(world: Arc<World>) {
    loop {
        world.server.struck.notified().await;
        if world.server.take_cut() {
            lose_power(&world);
        }
        for (number, place, life) in world.server.take_struck() {
            let Some((process, role)) = world.find(number) else { continue };
            world.server.note(&format!("p{number} is struck at a request: {place:?}, {life:?}"));
            world.server.count(name(role, life));
            world.server.count(match place {
                Place::Before => "stopped before a request",
                Place::Sent => "stopped while a request was on its way",
                Place::Answered => "stopped with the reply",
            });
            match life {
                Life::Dead => world.kill(&process),
                _ => freeze(&world, process),
            }
        }
    }
}

fn lose_power(world: &World) {
    world.server.note("the power is lost");
    world.server.count("loss of power");
    world.lose_power();
}

fn name(role: Role, life: Life) -> &'static str {
    match (role, life) {
        (Role::Writer, Life::Dead) => "death of a writer between two steps",
        (Role::Writer, _) => "freeze of a writer between two steps",
        (Role::Compactor, Life::Dead) => "death of a compactor between two steps",
        (Role::Compactor, _) => "freeze of a compactor between two steps",
        (Role::Reader, Life::Dead) => "death of a reader between two steps",
        (Role::Reader, _) => "freeze of a reader between two steps",
    }
}

/// Freezes a process and thaws it after a while.
fn freeze(world: &World, process: Process) {
    let time = Duration::from_millis(world.draw(|rng| match rng.random_range(0..4) {
        0 => rng.random_range(0..10_000),
        1 => rng.random_range(0..600_000),
        2 => rng.random_range(0..4 * 3_600_000),
        _ => rng.random_range(0..12 * 3_600_000),
    }));
    world.server.note(&format!("p{} freezes for {time:?}", process.number));
    if time > Duration::from_secs(3_600) {
        world.server.count("freeze of hours");
    }
    let stands_still = !world.plan.steps && world.draw(|rng| rng.random_bool(0.7));
    if stands_still {
        world.server.count("monotonic clock stood still");
        process.hands.stand_still();
    }
    tokio::spawn(async move {
        sleep(time).await;
        process.hands.go_on();
        process.gate.set(Life::Running);
    });
}

/// Deletes torn objects after a while, as an alerted operator does.
pub async fn repair(world: Arc<World>) {
    let mut repaired = 0;
    while world.goes_on() {
        let pause = world.draw(|rng| rng.random_range(0..600));
        sleep(2 * LONGEST_FLIGHT + Duration::from_secs(pause)).await;
        let torn = world.server.torn();
        for key in &torn[repaired..] {
            // Long enough that no copy of the request is still in flight.
            sleep(2 * LONGEST_FLIGHT).await;
            world.server.note(&format!("{key} is deleted, as it is torn"));
            world.server.delete_torn(key);
        }
        repaired = torn.len();
    }
}
