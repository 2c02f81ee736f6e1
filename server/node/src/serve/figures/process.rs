//! The process as Linux reports it in `/proc/self`; zero on other systems.

use std::fs;

use serde::Serialize;

/// Resources of this process.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Process {
    pub(super) resident_bytes: u64,
    pub(super) processor_seconds: f64,
    pub(super) processors: usize,
    pub(super) threads: u64,
    pub(super) open_files: u64,
}

impl Process {
    pub(super) fn read() -> Self {
        let text = |name: &str| fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        let pages = text("statm").split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
        let stat = text("stat");
        // The name of the program, in parentheses, may contain spaces. Then come the fields from the third on (proc_pid_stat(5)).
        let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let ticks = field(14) + field(15);
        Self {
            resident_bytes: pages.unwrap_or(0) * rustix::param::page_size() as u64,
            processor_seconds: ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            threads: field(20),
            open_files: fs::read_dir("/proc/self/fd").map_or(0, |files| files.count() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn the_figures_are_those_of_this_process() {
        let before = Process::read();
        let held = black_box(vec![1_u8; 64 << 20]);
        let files: Vec<_> = (0..10).map(|_| fs::File::open("/proc/self/stat").unwrap()).collect();
        while Process::read().processor_seconds < before.processor_seconds + 0.05 {
            black_box((0..1_000_000_u64).sum::<u64>());
        }
        let after = Process::read();
        assert!(after.resident_bytes >= before.resident_bytes + (48 << 20), "{before:?} {after:?}");
        assert!(after.open_files >= before.open_files + 8 && after.threads > 0, "{before:?} {after:?}");
        drop((held, files));
    }
}
