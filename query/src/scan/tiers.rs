//! Many small log blocks as few larger ones, in memory: rows of a fleet arrive series by series and second by second, and a
//! chunk of one row costs a query as much as one of a thousand.
//!
//! Neighbouring blocks are merged to groups, some of these to larger ones, and so on. Where a group ends is decided by the
//! positions of its blocks alone: those of one snapshot are those of the next one, but for what has come at the end and what
//! was folded at the beginning. So each row is merged once for each level, and never again.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    ops::Range,
    sync::Arc,
};

use futures::future::BoxFuture;
use tidelake_format::{
    Result,
    ids::{Position, TableId},
    offload::offload,
    rows::Block,
    segment::concat_blocks,
};

use super::{cache::Cache, tail::SortedBlock};

/// On average so many groups make one of the next level: as a power of two.
const FANOUT_BITS: u32 = 2;
/// Levels of groups.
const LEVELS: u32 = 6;
/// A group has no more rows than this.
const MOST_ROWS: u64 = 1 << 20;
/// A group takes no more bytes than this: what it takes to merge long rows is more than what it saves to look at fewer chunks.
const MOST_BYTES: usize = 64 << 20;
/// Chunks with more rows than this on average are left as they are.
const CHUNK_ROWS: u64 = 16;

/// A group by its table and blocks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    table: TableId,
    first: Position,
    last: Position,
    /// Of all positions, in order.
    digest: u64,
}

/// The groups that were merged so far.
pub(super) type Groups = Cache<GroupKey, SortedBlock>;

/// Blocks of one table, oldest first, as fewer ones with the same rows, in the same order: each has the position of its
/// last block.
///
/// # Errors
/// Internal when Arrow refuses to lay them together.
pub(super) async fn grouped(
    groups: &Groups,
    table: TableId,
    blocks: Vec<(Position, Arc<SortedBlock>)>,
) -> Result<Vec<(Position, Arc<SortedBlock>)>> {
    let levels: Vec<u32> = blocks.iter().map(|(position, _)| level(position)).collect();
    let mut found = Vec::new();
    for (range, level) in cut(&levels) {
        let last = blocks[range.end - 1].0;
        let merged = group(groups, table, &blocks[range.clone()], &levels[range], level).await?;
        found.extend(merged.into_iter().map(|block| (last, block)));
    }
    Ok(found)
}

/// The level of the group that ends with a block: each is that of one in four of the one below.
fn level(position: &Position) -> u32 {
    let mut hasher = DefaultHasher::new();
    position.hash(&mut hasher);
    (hasher.finish().trailing_zeros() / FANOUT_BITS).min(LEVELS)
}

/// Cuts blocks, by the levels of the groups that they end, into the largest groups: their blocks and level, 0 for one alone.
fn cut(levels: &[u32]) -> Vec<(Range<usize>, u32)> {
    let (mut found, mut start) = (Vec::new(), 0);
    for level in (0..=LEVELS).rev() {
        for (end, of) in levels.iter().enumerate().skip(start) {
            if *of >= level {
                found.push((start..end + 1, level));
                start = end + 1;
            }
        }
    }
    found
}

/// The rows of a group as one block; where merging all of it is no gain, those of its parts.
fn group<'a>(
    groups: &'a Groups,
    table: TableId,
    blocks: &'a [(Position, Arc<SortedBlock>)],
    levels: &'a [u32],
    level: u32,
) -> BoxFuture<'a, Result<Vec<Arc<SortedBlock>>>> {
    Box::pin(async move {
        if let [(_, block)] = blocks {
            return Ok(vec![block.clone()]);
        }
        if is_worth_it(blocks) {
            let merge = async || {
                let known = known_parts(groups, table, blocks, levels, level);
                let merged = offload(move || merged(table, &known)).await?;
                let weight = merged.weight;
                Ok((merged, weight))
            };
            return Ok(vec![groups.get(key(table, blocks), merge).await?]);
        }
        let mut found = Vec::new();
        for (range, level) in parts(levels, level) {
            found.extend(group(groups, table, &blocks[range.clone()], &levels[range], level).await?);
        }
        Ok(found)
    })
}

/// The groups of the next lower level that make up one of this level.
fn parts(levels: &[u32], level: u32) -> Vec<(Range<usize>, u32)> {
    let (mut found, mut start) = (Vec::new(), 0);
    for (end, of) in levels.iter().enumerate() {
        if *of + 1 >= level || end + 1 == levels.len() {
            found.push((start..end + 1, level.saturating_sub(1)));
            start = end + 1;
        }
    }
    found
}

/// The blocks of a group, and in place of some of them what they were merged to before: nothing is merged twice on the
/// way up when queries come seldom.
fn known_parts(
    groups: &Groups,
    table: TableId,
    blocks: &[(Position, Arc<SortedBlock>)],
    levels: &[u32],
    level: u32,
) -> Vec<Arc<SortedBlock>> {
    let mut found = Vec::new();
    for (range, below) in parts(levels, level) {
        let (blocks, levels) = (&blocks[range.clone()], &levels[range]);
        match blocks {
            [(_, block)] => found.push(block.clone()),
            _ => match groups.known(&key(table, blocks)) {
                Some(group) => found.push(group),
                None => found.extend(known_parts(groups, table, blocks, levels, below)),
            },
        }
    }
    found
}

fn key(table: TableId, blocks: &[(Position, Arc<SortedBlock>)]) -> GroupKey {
    let mut hasher = DefaultHasher::new();
    blocks.iter().for_each(|(position, _)| position.hash(&mut hasher));
    GroupKey { table, first: blocks[0].0, last: blocks[blocks.len() - 1].0, digest: hasher.finish() }
}

/// Whether blocks have few rows a chunk, and are few and small enough together.
fn is_worth_it(blocks: &[(Position, Arc<SortedBlock>)]) -> bool {
    let sum = |of: fn(&SortedBlock) -> u64| blocks.iter().map(|(_, block)| of(block)).sum::<u64>();
    let (rows, chunks) = (sum(|b| b.rows.num_rows() as u64), sum(|b| b.series.len() as u64));
    rows <= MOST_ROWS && rows <= chunks * CHUNK_ROWS && sum(|b| b.weight as u64) <= MOST_BYTES as u64
}

/// One row per key, the newest value of each column, as a query would find them.
fn merged(table: TableId, parts: &[Arc<SortedBlock>]) -> Result<SortedBlock> {
    let blocks = parts.iter().map(|part| Block { table, series: part.series.clone(), rows: part.rows.clone() });
    let united = concat_blocks(blocks.collect())?;
    SortedBlock::new(&united[0])
}

#[cfg(test)]
mod tests {
    use rand::{Rng, SeedableRng, rngs::StdRng};

    use super::*;

    #[test]
    fn parts_of_a_group_are_groups_of_the_level_below() {
        let levels: Vec<u32> =
            (0..5_000).map(|seq| level(&Position { writer: tidelake_format::ids::WriterId(9), seq })).collect();
        for (range, level) in cut(&levels).into_iter().filter(|(range, _)| range.len() > 1) {
            let levels = &levels[range];
            let parts = parts(levels, level);
            assert_eq!(parts[0].0.start, 0);
            assert_eq!(parts[parts.len() - 1].0.end, levels.len());
            assert!(parts.windows(2).all(|two| two[0].0.end == two[1].0.start));
            assert!(parts.iter().all(|(range, below)| *below < level && levels[range.end - 1] >= *below));
            assert!(parts.len() < levels.len() || parts.iter().all(|(range, _)| range.len() == 1));
        }
    }

    #[test]
    fn groups_cover_all_blocks_in_order_and_are_few() {
        let mut rng = StdRng::seed_from_u64(1);
        for n in 0..200 {
            let levels: Vec<u32> = (0..n * 10)
                .map(|_| level(&Position { writer: tidelake_format::ids::WriterId(rng.random()), seq: rng.random() }))
                .collect();
            let found = cut(&levels);
            let mut next = 0;
            for (range, level) in &found {
                assert_eq!(range.start, next, "{levels:?}");
                assert!(levels[range.end - 1] >= *level);
                assert!(levels[range.start..range.end - 1].iter().all(|l| l < level), "{levels:?}: {range:?}");
                next = range.end;
            }
            assert_eq!(next, levels.len());
            assert!(found.len() < 60, "{} groups of {} blocks", found.len(), levels.len());
        }
    }

    #[test]
    fn what_comes_at_the_end_leaves_the_groups_before_it_or_makes_larger_ones_of_them() {
        let levels: Vec<u32> =
            (0..500).map(|seq| level(&Position { writer: tidelake_format::ids::WriterId(7), seq })).collect();
        for n in 1..levels.len() {
            let (before, after) = (cut(&levels[..n - 1]), cut(&levels[..n]));
            let ends = |groups: &[(Range<usize>, u32)]| groups.iter().map(|g| g.0.end).collect::<Vec<_>>();
            let (before, after) = (ends(&before), ends(&after));
            assert!(after[..after.len() - 1].iter().all(|end| before.contains(end)), "{before:?} {after:?}");
        }
    }
}
