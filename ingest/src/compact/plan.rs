//! Chooses the files of a partition to merge.
//!
//! A *run* is all files of one order: they do not overlap each other. Only runs adjacent in order are merged, so that no file
//! of an order between the inputs is left out. Runs of similar size are merged once there are enough of them: a row is then
//! rewritten once per level of size. A full file that overlaps no other in time gains nothing from a merge and is left alone.
//! `docs/compaction.md` describes the levels and sizes.

use std::collections::BTreeSet;

use tidelake_format::{
    ids::{FileId, Version},
    meta::FileEntry,
};

use crate::config::CompactConfig;

/// Extent of merging.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Merge where enough files of similar size exist, or a partition has become quiet.
    Due,
    /// Down to one run.
    Full,
}

/// Runs below this size are in the lowest level.
const LEAST: u64 = 16 << 10;
/// Runs of a quiet partition below this size are merged regardless of their ratio.
const SMALL: u64 = 8 << 20;
/// An older run of a quiet partition joins the newer ones if it is at most this many times as large.
const QUIET_RATIO: u64 = 4;
/// Most runs in one merge: each is read at the same time, some 16 MiB of it.
const MOST_RUNS: usize = 32;

#[derive(Debug, Clone, Copy)]
struct Run {
    order: Version,
    rows: u64,
    bytes: u64,
}

/// The inputs of the next merge of a partition, lowest order first; `None` if none is due. `dirty` files contain deleted rows
/// or values of dropped columns: once the partition is quiet they are rewritten, if necessary alone.
pub(crate) fn choose(
    files: &[FileEntry],
    dirty: &[FileId],
    extent: Extent,
    config: &CompactConfig,
    now_ms: i64,
) -> Option<Vec<FileEntry>> {
    let mut runs: Vec<Run> = Vec::new();
    let mut sorted: Vec<&FileEntry> = files.iter().collect();
    sorted.sort_by_key(|f| f.order);
    for file in &sorted {
        match runs.last_mut().filter(|r| r.order == file.order) {
            Some(run) => {
                run.rows += file.rows;
                run.bytes += file.total_bytes();
            }
            None => runs.push(Run { order: file.order, rows: file.rows, bytes: file.total_bytes() }),
        }
    }
    let inputs = |chosen: &[Run]| -> Option<Vec<FileEntry>> {
        let (first, last) = (chosen.first()?.order, chosen.last()?.order);
        let all: Vec<&FileEntry> = sorted.iter().filter(|f| (first..=last).contains(&f.order)).copied().collect();
        let inputs = without_settled(&all, config);
        let orders: BTreeSet<Version> = inputs.iter().map(|f| f.order).collect();
        (orders.len() > 1).then(|| inputs.into_iter().cloned().collect())
    };
    // Files of one order do not overlap: the dirty ones can be replaced without the others.
    let alone = || -> Option<Vec<FileEntry>> {
        let first = sorted.iter().find(|f| dirty.contains(&f.id))?.order;
        let is_one = |f: &&&FileEntry| f.order == first && dirty.contains(&f.id);
        Some(sorted.iter().filter(is_one).map(|f| (*f).clone()).collect())
    };
    match extent {
        Extent::Full => full(&runs, config).find_map(inputs).or_else(alone),
        Extent::Due => {
            let last = files.iter().map(|f| f.written_ms).max()?;
            let quiet = now_ms.saturating_sub(last) >= i64::try_from(config.merge_idle_ms).unwrap_or(i64::MAX);
            let tidied = quiet.then(|| bounded(newest(&runs, config), config));
            let due = tiers(&runs, config).into_iter().find_map(inputs).or_else(|| tidied.and_then(inputs));
            due.or_else(|| if quiet { alone() } else { None })
        }
    }
}

/// Removes full files that overlap no other in time: no newer or older file concerns their rows.
fn without_settled<'a>(files: &[&'a FileEntry], config: &CompactConfig) -> Vec<&'a FileEntry> {
    let is_full = |f: &FileEntry| f.rows >= config.file_rows / 2 || f.data.bytes >= config.file_bytes as u64 / 2;
    let overlaps = |a: &FileEntry, b: &FileEntry| a.min_ts <= b.max_ts && b.min_ts <= a.max_ts;
    let is_settled = |file: &FileEntry| {
        file.rows > 0 && is_full(file) && !files.iter().any(|other| other.id != file.id && overlaps(file, other))
    };
    files.iter().filter(|f| !is_settled(f)).copied().collect()
}

/// Limits a merge to a few minutes and to memory: takes the oldest of the runs, at least two.
fn bounded<'a>(runs: &'a [Run], config: &CompactConfig) -> &'a [Run] {
    let limit = most_rows(config).saturating_mul(2);
    let mut rows = 0u64;
    let fit = runs
        .iter()
        .take_while(|run| {
            rows = rows.saturating_add(run.rows);
            rows <= limit
        })
        .count();
    &runs[..runs.len().min(fit.clamp(2, MOST_RUNS))]
}

/// Candidates for the next full merge, cheapest first: all runs, or else as many adjacent ones as one merge takes.
fn full<'a>(runs: &'a [Run], config: &'a CompactConfig) -> impl Iterator<Item = &'a [Run]> {
    let mut windows: Vec<&[Run]> = (0..runs.len().saturating_sub(1)).map(|at| bounded(&runs[at..], config)).collect();
    if windows.first().is_some_and(|w| w.len() == runs.len()) {
        windows.truncate(1);
    }
    windows.sort_by_key(|w| w.iter().map(|r| r.bytes).sum::<u64>() / w.len().max(1) as u64);
    windows.into_iter()
}

/// Adjacent runs up to some level, with enough runs of that level among them; the lowest such level first.
fn tiers<'a>(runs: &'a [Run], config: &CompactConfig) -> Vec<&'a [Run]> {
    let levels: Vec<u32> = runs.iter().map(|r| level(r, config)).collect();
    let mut found = Vec::new();
    for at in 0..level_count(&levels) {
        let mut start = 0;
        while start < runs.len() {
            let end = (start..runs.len()).find(|i| levels[*i] > at).unwrap_or(runs.len());
            let own: Vec<usize> = (start..end).filter(|i| levels[*i] == at).collect();
            if own.len() >= config.merge_files
                && let (Some(first), Some(last)) = (own.first(), own.last())
            {
                found.push(bounded(&runs[*first..=*last], config));
            }
            start = end + 1;
        }
    }
    found
}

fn level_count(levels: &[u32]) -> u32 {
    levels.iter().filter(|l| **l < CLOSED).max().map_or(0, |l| l + 1)
}

/// The level of runs that are too large to be merged again except on request.
const CLOSED: u32 = u32::MAX;

fn level(run: &Run, config: &CompactConfig) -> u32 {
    if closed(run, config) {
        return CLOSED;
    }
    let (mut level, mut limit) = (0, LEAST);
    while run.bytes >= limit {
        level += 1;
        limit = limit.saturating_mul(config.merge_files as u64);
        if limit == u64::MAX {
            break;
        }
    }
    level
}

fn most_rows(config: &CompactConfig) -> u64 {
    config.file_rows.saturating_mul(config.merge_files as u64)
}

fn closed(run: &Run, config: &CompactConfig) -> bool {
    run.rows >= most_rows(config)
}

/// The newest runs of a quiet partition, back to an older run that is much larger than all newer ones together.
fn newest<'a>(runs: &'a [Run], config: &CompactConfig) -> &'a [Run] {
    let (mut from, mut bytes) = (runs.len(), 0u64);
    for (i, run) in runs.iter().enumerate().rev() {
        if closed(run, config) || (from < runs.len() && run.bytes > bytes.saturating_mul(QUIET_RATIO).max(SMALL)) {
            break;
        }
        (from, bytes) = (i, bytes + run.bytes);
    }
    &runs[from..]
}

#[cfg(test)]
mod tests {
    use tidelake_format::meta::ObjectRef;

    use super::*;

    fn file(order: u64, megabytes: u64) -> FileEntry {
        let object = |id| ObjectRef { id: FileId(id), bytes: megabytes << 19, crc: None };
        FileEntry {
            id: FileId(u128::from(order)),
            partition: 0,
            order: Version(order),
            clean: Version(order),
            written_ms: 0,
            data: object(1),
            tags: object(2),
            rollup: None,
            rows: megabytes << 10,
            series: 1,
            min_ts: 0,
            max_ts: 1,
            hash: 0,
        }
    }

    #[test]
    fn a_run_with_deleted_rows_is_rewritten_alone_in_a_quiet_partition() {
        let files = [file(1, 900), file(2, 1), file(3, 1)];
        let choose = |extent, now_ms| {
            let chosen = choose(&files[..1], &[files[0].id], extent, &CompactConfig::default(), now_ms);
            chosen.map(|chosen| chosen.len())
        };
        assert_eq!(choose(Extent::Due, 0), None);
        assert_eq!(choose(Extent::Due, 600_000), Some(1));
        assert_eq!(choose(Extent::Full, 0), Some(1));
        assert_eq!(super::choose(&files[..1], &[], Extent::Full, &CompactConfig::default(), 0), None);
        let dirty = [files[2].id];
        let chosen = super::choose(&files, &dirty, Extent::Full, &CompactConfig::default(), 0).unwrap();
        assert_eq!(chosen.len(), 3);
    }

    fn orders(files: &[FileEntry], extent: Extent, now_ms: i64) -> Option<Vec<u64>> {
        let config = CompactConfig { merge_files: 4, ..CompactConfig::default() };
        choose(files, &[], extent, &config, now_ms).map(|chosen| chosen.iter().map(|f| f.order.0).collect())
    }

    #[test]
    fn four_runs_of_one_level_are_merged_with_the_runs_between() {
        let files = [file(1, 900), file(2, 20), file(3, 21), file(4, 1), file(5, 22), file(6, 23), file(7, 2)];
        assert_eq!(orders(&files, Extent::Due, 0), Some(vec![2, 3, 4, 5, 6]));
        assert_eq!(orders(&files[..5], Extent::Due, 0), None);
        let split = [file(1, 20), file(2, 20), file(3, 900), file(4, 20), file(5, 20)];
        assert_eq!(orders(&split, Extent::Due, 0), None);
    }

    #[test]
    fn files_of_one_order_are_one_run() {
        let files = [file(1, 20), file(1, 20), file(1, 20), file(1, 20)];
        assert_eq!(orders(&files, Extent::Due, 0), None);
        assert_eq!(orders(&files, Extent::Full, 0), None);
        assert_eq!(orders(&[file(1, 20), file(1, 20), file(2, 1)], Extent::Full, 0), Some(vec![1, 1, 2]));
    }

    #[test]
    fn small_runs_of_a_quiet_partition_are_merged_without_its_large_run() {
        let files = [file(1, 900), file(2, 30), file(3, 7), file(4, 1)];
        assert_eq!(orders(&files, Extent::Due, 0), None);
        assert_eq!(orders(&files, Extent::Due, 600_000), Some(vec![2, 3, 4]));
        assert_eq!(orders(&[file(1, 900), file(2, 1)], Extent::Due, 600_000), None);
        assert_eq!(orders(&[], Extent::Due, 600_000), None);
    }

    /// A file with the given time range.
    fn at(order: u64, megabytes: u64, min_ts: i64, max_ts: i64) -> FileEntry {
        FileEntry { min_ts, max_ts, ..file(order, megabytes) }
    }

    #[test]
    fn full_files_without_overlap_in_time_are_not_rewritten() {
        let config = CompactConfig { merge_files: 4, file_bytes: 100 << 20, ..CompactConfig::default() };
        let orders = |files: &[FileEntry]| {
            let chosen = choose(files, &[], Extent::Full, &config, 0)?;
            Some(chosen.iter().map(|f| (f.order.0, f.min_ts)).collect::<Vec<_>>())
        };
        let tails = [at(1, 900, 0, 9), at(1, 1, 10, 11), at(2, 900, 20, 29), at(2, 1, 30, 31)];
        assert_eq!(orders(&tails), Some(vec![(1, 10), (2, 30)]));
        assert_eq!(orders(&[at(1, 900, 0, 9), at(2, 900, 10, 19), at(3, 1, 20, 21)]), None);
        // A late row affects only the file whose time range contains it.
        let late = [at(1, 900, 0, 9), at(2, 900, 10, 19), at(3, 1, 15, 15)];
        assert_eq!(orders(&late), Some(vec![(2, 10), (3, 15)]));
    }

    #[test]
    fn each_merge_is_bounded_by_memory_and_repeated_merges_end_in_one_run() {
        let config = CompactConfig::default();
        let mut files: Vec<FileEntry> = (1..=1_000).map(|order| file(order, 1)).collect();
        let (mut steps, mut rewritten) = (0, 0);
        while let Some(chosen) = choose(&files, &[], Extent::Full, &config, 0) {
            let orders: BTreeSet<Version> = chosen.iter().map(|f| f.order).collect();
            assert!((2..=MOST_RUNS).contains(&orders.len()));
            let (first, last) = (chosen[0].order, chosen[chosen.len() - 1].order);
            let mut sum = file(last.0, 0);
            (sum.rows, sum.data.bytes) = (0, 0);
            files.retain(|f| {
                let taken = (first..=last).contains(&f.order);
                if taken {
                    (sum.rows, sum.data.bytes) = (sum.rows + f.rows, sum.data.bytes + f.total_bytes());
                }
                !taken
            });
            rewritten += sum.data.bytes >> 20;
            files.push(sum);
            steps += 1;
            assert!(steps < 200);
        }
        assert_eq!(files.len(), 1);
        assert!(rewritten <= 3 * 1_000, "each row is rewritten {rewritten} / 1000 times");
    }

    #[test]
    fn small_runs_are_rewritten_once_per_size_level() {
        let config = CompactConfig::default();
        let mut files: Vec<FileEntry> = Vec::new();
        let (mut rewritten, mut most) = (0u64, 0);
        const FOLDS: u64 = 14_400;
        for order in 1..=FOLDS {
            let mut new = file(order, 0);
            (new.data.bytes, new.tags.bytes, new.rows) = (1_000, 24, 10);
            files.push(new);
            while let Some(chosen) = choose(&files, &[], Extent::Due, &config, 0) {
                let (first, last) = (chosen[0].order, chosen[chosen.len() - 1].order);
                let bytes = chosen.iter().map(FileEntry::total_bytes).sum::<u64>();
                rewritten += bytes;
                files.retain(|f| !(first..=last).contains(&f.order));
                let mut merged = file(last.0, 0);
                (merged.data.bytes, merged.tags.bytes) = (bytes, 0);
                files.push(merged);
            }
            most = most.max(files.len());
        }
        assert!(most <= 40, "{most} files at once");
        let times = rewritten / (FOLDS * 1_024);
        assert!(times <= 15, "each row was rewritten {times} times");
    }
}
