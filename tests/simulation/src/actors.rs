//! Actors: writers, compactors, readers and fault injection.

mod compactor;
mod misfortune;
mod mistake;
mod query;
mod reader;
mod request;
mod statement;
mod writer;

use std::{sync::Arc, time::Duration};

use rand::Rng;
use tidelake_format::{Result, meta::Root};
use tokio::time::sleep;

pub use misfortune::{misfortune, repair, strikes};
pub use mistake::mistakes;
pub use query::Asker;
pub use request::Request;

use crate::{process::Process, world::World};

/// Role of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Writes, drops and creates.
    Writer,
    /// Folds, merges and collects garbage.
    Compactor,
    /// Reads.
    Reader,
}

/// Runs processes in a role, one after another, until no operation is left.
pub async fn live(world: Arc<World>, role: Role) {
    while world.goes_on() {
        let process = world.process_of(role);
        world.server.note(&format!("p{} starts as {role:?}", process.number));
        let (shared, inside) = (world.clone(), process.clone());
        let task = tokio::spawn(async move {
            let gate = inside.gate.clone();
            gate.freezable(work(shared, inside, role)).await;
        });
        world.expose(&process, role, task.abort_handle());
        match task.await {
            Ok(()) => {}
            Err(e) if e.is_cancelled() => {}
            Err(e) => world.violation(format!("a {role:?} panicked: {e}")),
        }
        world.buried(&process);
        let pause = world.draw(|rng| rng.random_range(0..60_000));
        sleep(Duration::from_millis(pause)).await;
    }
}

async fn work(world: Arc<World>, process: Process, role: Role) {
    match role {
        Role::Writer => writer::write(&world, &process).await,
        Role::Compactor => compactor::compact(&world, &process).await,
        Role::Reader => reader::read(&world, &process).await,
    }
}

/// Opens the root of a process, with retries.
pub async fn open(world: &World, process: &Process) -> Root {
    until(world, "opening", || Root::open(process.store.clone())).await
}

/// Retries until success, judging each error.
pub async fn until<T, F>(world: &World, what: &str, mut attempt: impl FnMut() -> F) -> T
where
    F: Future<Output = Result<T>>,
{
    loop {
        match attempt().await {
            Ok(done) => return done,
            Err(error) => world.judge(what, &error),
        }
        sleep(Duration::from_secs(5)).await;
    }
}
