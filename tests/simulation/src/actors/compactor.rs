//! The compactor: folds, merges and collects garbage.

use std::sync::atomic::Ordering::Relaxed;

use rand::Rng;
use tidelake_format::garbage::{Sweep, collect};
use tidelake_ingest::{compact::CompactRequest, write::Ingest};

use super::{open, until};
use crate::{
    process::Process,
    world::{World, config},
};

/// A running compaction, also while its process is frozen.
struct UnderWay<'a>(&'a World);

impl<'a> UnderWay<'a> {
    fn new(world: &'a World) -> Self {
        if world.compacting.fetch_add(1, Relaxed) > 0 {
            world.server.count("two compactors at once");
        }
        Self(world)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.compacting.fetch_sub(1, Relaxed);
    }
}

/// Folds, merges and collects garbage.
pub(super) async fn compact(world: &World, process: &Process) {
    let root = open(world, process).await;
    let ingest = until(world, "starting to compact", || Ingest::open(root.clone(), config(process.number))).await;
    while world.next().await {
        let request = match world.draw(|rng| rng.random_range(0..10)) {
            0..4 => CompactRequest::Fold,
            4..7 => CompactRequest::Due,
            7 => CompactRequest::Full,
            other => {
                let sweep = if other == 8 { Sweep::Quick } else { Sweep::Full };
                world.server.note(&format!("p{} collects {sweep:?}", process.number));
                if let Err(error) = collect(&root, sweep).await {
                    world.judge("collecting", &error);
                }
                continue;
            }
        };
        world.server.note(&format!("p{} compacts {request:?}", process.number));
        let _one = UnderWay::new(world);
        match ingest.compact(request).await {
            Ok(report) => world.server.note(&format!("p{} compacted {report:?}", process.number)),
            Err(error) => world.judge("compacting", &error),
        }
    }
}
