//! Folding, merging and collecting.

use rand::Rng;
use tidelake_format::meta::garbage::{Sweep, collect};
use tidelake_ingest::{compact::CompactRequest, write::Ingest};

use super::{open, until};
use crate::{
    process::Process,
    world::{World, config},
};

/// Folds, merges and collects.
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
        match ingest.compact(request).await {
            Ok(report) => world.server.note(&format!("p{} compacted {report:?}", process.number)),
            Err(error) => world.judge("compacting", &error),
        }
    }
}
