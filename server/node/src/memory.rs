//! Memory limit of this process: that of its control group, else the machine's memory.

use std::path::Path;

use tidelake_protocol::settings::Share;

/// Assumed memory if the machine does not report any.
const UNKNOWN: usize = 4 << 30;
/// Minimum of a share.
const LEAST: usize = 8 << 20;
/// Memory of the program, its threads and the allocator; up to half of a small machine.
const PROGRAM: usize = 128 << 20;
/// Memory from which shares are computed of all of it.
const LARGE: usize = 2 << 30;
/// Memory per query for read-ahead and for copies outside any budget, such as those of a hash join.
const PER_QUERY: usize = 128 << 20;
/// Maximum number of concurrent queries.
const QUERIES: usize = 16;

/// Bytes of memory that this process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(usize);

impl Limit {
    pub(crate) fn of(bytes: usize) -> Self {
        Self(bytes)
    }

    /// `numerator / denominator` of the limit, between 8 MiB and `most`. On small machines it is a share of half of the
    /// memory that the program leaves: shares are exceeded for moments, and the allocator keeps partly used pages of freed
    /// memory.
    fn share(self, numerator: usize, denominator: usize, most: usize) -> usize {
        let shared = match self.0 {
            large if large >= LARGE => large,
            small => small.saturating_sub(PROGRAM.min(small / 2)) / 2,
        };
        (shared / denominator).saturating_mul(numerator).clamp(LEAST.min(most), most)
    }

    /// The share that is the default of a setting.
    pub(crate) fn share_of(self, share: Share) -> usize {
        let most = share.most_mib.map_or(usize::MAX, |mib| mib << 20);
        self.share(share.numerator, share.denominator, most).max(share.least_mib << 20)
    }

    /// Number of concurrent queries.
    pub(crate) fn queries(self) -> usize {
        (self.0 / PER_QUERY).clamp(2, QUERIES)
    }
}

/// The memory limit that the system reports, in bytes.
pub(crate) fn found() -> usize {
    limit_under(Path::new("/")).0
}

/// The smallest of the limits of this process's control groups (version 2 or 1) and the machine's memory.
fn limit_under(root: &Path) -> Limit {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).ok();
    let number = |text: Option<String>| text?.trim().parse::<usize>().ok();
    let machine = read("proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
        line.trim().strip_suffix("kB")?.trim().parse::<usize>().ok()?.checked_mul(1_024)
    });
    let groups = read("proc/self/cgroup").unwrap_or_default();
    let mut found = vec![machine];
    for line in groups.lines().take(64) {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (base, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            c if c.split(',').any(|c| c == "memory") => ("sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => continue,
        };
        // In a container the visible root is the group itself, whatever the path says, so all parents are read.
        let mut path = Path::new(path.trim_start_matches('/'));
        loop {
            found.push(number(read(&format!("{base}/{}/{file}", path.display()))));
            match path.parent() {
                Some(parent) => path = parent,
                None => break,
            }
        }
    }
    Limit(found.into_iter().flatten().filter(|n| *n > 0).min().unwrap_or(UNKNOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn under(files: &[(&str, &str)]) -> Limit {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        limit_under(root.path())
    }

    #[test]
    fn the_smallest_limit_of_control_groups_and_machine_counts() {
        let machine = ("proc/meminfo", "MemTotal:       8388608 kB\nMemFree: 1 kB\n");
        let group = ("proc/self/cgroup", "0::/a/b\n");
        assert_eq!(under(&[]), Limit(UNKNOWN));
        assert_eq!(under(&[machine]), Limit(8 << 30));
        assert_eq!(under(&[machine, group, ("sys/fs/cgroup/a/b/memory.max", "max\n")]), Limit(8 << 30));
        assert_eq!(under(&[machine, group, ("sys/fs/cgroup/a/memory.max", "1073741824\n")]), Limit(1 << 30));
        assert_eq!(under(&[machine, group, ("sys/fs/cgroup/memory.max", "536870912")]), Limit(512 << 20));
        let first = ("proc/self/cgroup", "7:cpu:/x\n5:memory,y:/docker/1\n");
        let limit = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648");
        assert_eq!(under(&[machine, first, limit]), Limit(2 << 30));
        let none = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712");
        assert_eq!(under(&[machine, first, none]), Limit(8 << 30));
    }

    #[test]
    fn shares_are_bounded_on_both_sides_and_leave_room_for_the_program() {
        assert_eq!(Limit(8 << 30).share(3, 8, usize::MAX), 3 << 30);
        assert_eq!(Limit(8 << 30).share(1, 8, 256 << 20), 256 << 20);
        assert_eq!(Limit(16 << 20).share(1, 8, 256 << 20), LEAST);
        assert_eq!((Limit(1 << 30).queries(), Limit(2 << 30).queries()), (8, 16));
        for megabytes in [256, 400, 512, 1_024, 1_500] {
            let limit = Limit(megabytes << 20);
            // Queries and what they keep, ingest and statement buffers, tail cache, tail and its sorted blocks, compaction.
            let query = limit.share(3, 8, usize::MAX);
            let tail = limit.share(1, 4, usize::MAX);
            let all = query + query / 4 + query / 16 + 3 * limit.share(1, 8, usize::MAX) + tail + tail.min(64 << 20);
            let all = all + limit.share(1, 4, usize::MAX).max(64 << 20);
            assert!(all < limit.0, "{megabytes}: {all}");
            assert!(limit.queries() <= 16 && limit.queries() >= 2);
        }
    }
}
