//! Which files of a partition to merge.
//!
//! A *run* is all files of one order: they do not overlap each other. Only runs that are adjacent in order are merged,
//! so that no file of an order between the inputs is left out. Runs of similar size are merged when there are enough
//! of them: a row is then rewritten once for each level of size.

use tidelake_format::{ids::Version, meta::FileEntry};

use crate::config::CompactConfig;

/// How far to merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Where enough files of similar size have come together, or a partition has become quiet.
    Due,
    /// Down to one run.
    Full,
}

/// Runs below this size are of one level, whatever their size.
const LEAST: u64 = 8 << 20;
/// A quiet partition's older run joins the newer ones when it is at most this many times as large.
const QUIET_RATIO: u64 = 4;

#[derive(Debug, Clone, Copy)]
struct Run {
    order: Version,
    rows: u64,
    bytes: u64,
}

/// The inputs of the next merge of a partition, lowest order first; `None` when none is due.
pub(crate) fn choose(
    files: &[FileEntry],
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
    let chosen = match extent {
        Extent::Full => &runs[..],
        Extent::Due => {
            let last = files.iter().map(|f| f.written_ms).max()?;
            let quiet = now_ms.saturating_sub(last) >= i64::try_from(config.merge_idle_ms).unwrap_or(i64::MAX);
            match tier(&runs, config) {
                None if quiet => newest(&runs, config),
                tier => tier?,
            }
        }
    };
    let (first, last) = (chosen.first()?.order, chosen.last()?.order);
    let inputs = || sorted.iter().filter(|f| (first..=last).contains(&f.order)).map(|f| (*f).clone());
    (first != last).then(|| inputs().collect())
}

/// Adjacent runs, no larger than those of some level, with enough of that level among them: the lowest such level.
fn tier<'a>(runs: &'a [Run], config: &CompactConfig) -> Option<&'a [Run]> {
    let levels: Vec<u32> = runs.iter().map(|r| level(r, config)).collect();
    for at in 0..level_count(&levels) {
        let mut start = 0;
        while start < runs.len() {
            let end = (start..runs.len()).find(|i| levels[*i] > at).unwrap_or(runs.len());
            let own: Vec<usize> = (start..end).filter(|i| levels[*i] == at).collect();
            if own.len() >= config.merge_files
                && let (Some(first), Some(last)) = (own.first(), own.last())
            {
                return Some(&runs[*first..=*last]);
            }
            start = end + 1;
        }
    }
    None
}

fn level_count(levels: &[u32]) -> u32 {
    levels.iter().filter(|l| **l < CLOSED).max().map_or(0, |l| l + 1)
}

/// The level of runs that are too large to be merged again unless it is asked for.
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

fn closed(run: &Run, config: &CompactConfig) -> bool {
    run.rows >= config.file_rows.saturating_mul(config.merge_files as u64)
}

/// The newest runs of a quiet partition, as far back as the older one is not much larger than they are together.
fn newest<'a>(runs: &'a [Run], config: &CompactConfig) -> &'a [Run] {
    let (mut from, mut bytes) = (runs.len(), 0u64);
    for (i, run) in runs.iter().enumerate().rev() {
        if closed(run, config) || (from < runs.len() && run.bytes > bytes.saturating_mul(QUIET_RATIO).max(LEAST)) {
            break;
        }
        (from, bytes) = (i, bytes + run.bytes);
    }
    &runs[from..]
}

#[cfg(test)]
mod tests {
    use tidelake_format::{ids::FileId, meta::ObjectRef};

    use super::*;

    fn file(order: u64, megabytes: u64) -> FileEntry {
        let object = |id| ObjectRef { id: FileId(id), bytes: megabytes << 19 };
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

    fn orders(files: &[FileEntry], extent: Extent, now_ms: i64) -> Option<Vec<u64>> {
        let config = CompactConfig { merge_files: 4, ..CompactConfig::default() };
        choose(files, extent, &config, now_ms).map(|chosen| chosen.iter().map(|f| f.order.0).collect())
    }

    #[test]
    fn four_adjacent_runs_of_one_level_are_merged_with_what_lies_between() {
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
    fn a_quiet_partition_is_tidied_without_rewriting_its_bulk() {
        let files = [file(1, 900), file(2, 30), file(3, 7), file(4, 1)];
        assert_eq!(orders(&files, Extent::Due, 0), None);
        assert_eq!(orders(&files, Extent::Due, 600_000), Some(vec![2, 3, 4]));
        assert_eq!(orders(&[file(1, 900), file(2, 1)], Extent::Due, 600_000), None);
        assert_eq!(orders(&[], Extent::Due, 600_000), None);
    }
}
