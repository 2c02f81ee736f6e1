//! Decides which region of the disk cache is evicted.

use std::{
    collections::{BTreeMap, HashMap},
    sync::atomic::Ordering::Relaxed,
};

use foyer::{EvictionInfo, EvictionPicker};

/// The oldest regions, one in this many, are on probation: blocks read from them are written again.
const PROBATION_ONE_IN: usize = 10;

/// Evicts the region that was filled first, even by an earlier process; the library's own picker does not restore that
/// order.
#[derive(Debug)]
pub(super) struct OldestFirst {
    /// Queue position of each region found when the cache was opened.
    found: HashMap<u32, u64>,
    /// Full regions by queue position.
    queue: BTreeMap<u64, u32>,
    next: u64,
}

impl OldestFirst {
    /// `found` are the regions that hold blocks, oldest first.
    pub(super) fn new(found: &[u32]) -> Self {
        let turns = found.iter().copied().zip(0..).collect();
        Self { found: turns, queue: BTreeMap::new(), next: found.len() as u64 }
    }
}

impl EvictionPicker for OldestFirst {
    fn pick(&mut self, info: EvictionInfo<'_>) -> Option<u32> {
        let going = (info.blocks.len() / PROBATION_ONE_IN).saturating_sub(info.clean);
        for region in self.queue.values().take(going) {
            info.blocks[*region as usize].statistics().probation.store(true, Relaxed);
        }
        self.queue.values().next().copied()
    }

    fn on_block_evictable(&mut self, _: EvictionInfo<'_>, region: u32) {
        let turn = self.found.remove(&region).unwrap_or_else(|| {
            self.next += 1;
            self.next
        });
        self.queue.insert(turn, region);
    }

    fn on_block_evict(&mut self, _: EvictionInfo<'_>, region: u32) {
        self.queue.retain(|_, queued| *queued != region);
    }
}
