//! Merges many small log blocks into few larger ones, in memory: a fleet's rows arrive series by series and second by
//! second, and a chunk of one row costs a query as much as a chunk of a thousand.
//!
//! Neighbouring blocks are merged into groups, groups into larger groups, and so on. The positions of the blocks alone
//! decide where a group ends, so successive snapshots have the same groups except for blocks added at the end and
//! folded at the beginning. Each row is therefore merged once per level.

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

/// Log2 of the average number of groups in a group of the next level.
const FANOUT_BITS: u32 = 2;
/// Number of group levels.
const LEVELS: u32 = 6;
/// Maximum rows of a group.
const MOST_ROWS: u64 = 1 << 20;
/// Maximum bytes of a group: merging long rows costs more than fewer chunks save.
const MOST_BYTES: usize = 64 << 20;
/// Blocks with more rows per chunk than this on average are not merged.
const CHUNK_ROWS: u64 = 16;

/// Identifies a group by its table and blocks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct GroupKey {
    table: TableId,
    first: Position,
    last: Position,
    /// Hash of all positions, in order.
    digest: u64,
}

/// Cache of merged groups.
pub(super) type Groups = Cache<GroupKey, SortedBlock>;

/// Merges the blocks of one table, oldest first, into fewer blocks with the same rows, in the same order; each has the
/// position of its last block.
///
/// # Errors
/// Internal if Arrow fails to concatenate them.
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

/// The highest level of the groups that end with a block: one block in four reaches each next level.
fn level(position: &Position) -> u32 {
    let mut hasher = DefaultHasher::new();
    position.hash(&mut hasher);
    (hasher.finish().trailing_zeros() / FANOUT_BITS).min(LEVELS)
}

/// Cuts blocks, by the levels of the groups they end, into the largest groups: their blocks and level, 0 for a single
/// block.
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

/// Returns the rows of a group as one block, or, if merging is not worth it, as the blocks of its parts.
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

/// Splits a group of this level into the groups of the next lower level.
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

/// The blocks of a group, with cached merged groups in place of their blocks, so that infrequent queries do not merge
/// rows again on the way up.
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

/// Whether blocks have few rows per chunk, and few rows and bytes in total.
fn is_worth_it(blocks: &[(Position, Arc<SortedBlock>)]) -> bool {
    let sum = |of: fn(&SortedBlock) -> u64| blocks.iter().map(|(_, block)| of(block)).sum::<u64>();
    let (rows, chunks) = (sum(|b| b.rows.num_rows() as u64), sum(|b| b.series.len() as u64));
    rows <= MOST_ROWS && rows <= chunks * CHUNK_ROWS && sum(|b| b.weight as u64) <= MOST_BYTES as u64
}

/// Merges to one row per key with the newest value of each column, as a query would.
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
    fn an_appended_block_keeps_earlier_groups_or_merges_them_into_larger_ones() {
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
