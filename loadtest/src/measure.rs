//! Sizes of a root directory, resource usage of a process, and a description of the machine.

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{Seek, Write};
use std::path::Path;
use std::time::Instant;

/// Objects of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kind {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of the objects.
    pub bytes: u64,
    /// Disk usage, as `du` counts it.
    pub disk_bytes: u64,
}

/// Contents of a server's root directory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Parquet files.
    pub data: Kind,
    /// Tag manifests.
    pub tags: Kind,
    /// Rollups.
    pub rollup: Kind,
    /// Log segments.
    pub log: Kind,
    /// Versions of the chain.
    pub meta: Kind,
    /// Anything else.
    pub other: Kind,
}

impl Size {
    /// All kinds together.
    pub fn total(&self) -> Kind {
        let kinds = [self.data, self.tags, self.rollup, self.log, self.meta, self.other];
        kinds.into_iter().fold(Kind::default(), |sum, kind| Kind {
            objects: sum.objects + kind.objects,
            bytes: sum.bytes + kind.bytes,
            disk_bytes: sum.disk_bytes + kind.disk_bytes,
        })
    }

    /// The kinds with their names.
    pub fn kinds(&self) -> [(&'static str, Kind); 6] {
        [
            ("data files", self.data),
            ("tag manifests", self.tags),
            ("rollups", self.rollup),
            ("log segments", self.log),
            ("chain", self.meta),
            ("other", self.other),
        ]
    }
}

/// Measures a root directory (`<root>/data`, `<root>/log`, `<root>/meta`, …). Skips objects deleted meanwhile.
///
/// # Errors
/// The directory cannot be read.
pub fn size(root: &Path) -> Result<Size> {
    let mut size = Size::default();
    fs::read_dir(root).with_context(|| format!("read directory {}", root.display()))?;
    add(root, root, &mut size);
    Ok(size)
}

fn add(root: &Path, dir: &Path, size: &mut Size) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            add(root, &path, size);
            continue;
        }
        let below = path.strip_prefix(root).unwrap_or(&path);
        let is_hidden = below.iter().any(|part| part.to_string_lossy().starts_with('.'));
        let top = below.iter().next().and_then(|part| part.to_str()).filter(|_| !is_hidden);
        let kind = match (top, path.extension().and_then(|extension| extension.to_str())) {
            (Some("data"), Some("parquet")) => &mut size.data,
            (Some("data"), Some("tags")) => &mut size.tags,
            (Some("data"), Some("rollup")) => &mut size.rollup,
            (Some("log"), _) => &mut size.log,
            (Some("meta"), _) => &mut size.meta,
            _ => &mut size.other,
        };
        kind.objects += 1;
        kind.bytes += metadata.len();
        kind.disk_bytes += disk_bytes(&metadata);
    }
}

#[cfg(unix)]
fn disk_bytes(metadata: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::blocks(metadata) * 512
}

#[cfg(not(unix))]
fn disk_bytes(metadata: &fs::Metadata) -> u64 {
    metadata.len()
}

/// Median time of a 4 KiB write plus sync in `directory`, in milliseconds. Overwrites an existing file sequentially, which is
/// the cheapest case.
///
/// # Errors
/// Any error of the file system.
pub fn sync_ms(directory: &Path) -> Result<f64> {
    const WRITES: usize = 200;
    const BYTES: usize = 4 << 10;
    let path = directory.join("sync");
    let times = (|| {
        let mut file = fs::File::create(&path)?;
        file.write_all(&vec![1; WRITES * BYTES])?;
        file.sync_all()?;
        file.rewind()?;
        let mut times = Vec::with_capacity(WRITES);
        for _ in 0..WRITES {
            let begun = Instant::now();
            file.write_all(&[2; BYTES])?;
            file.sync_data()?;
            times.push(begun.elapsed().as_secs_f64() * 1e3);
        }
        fs::remove_file(&path)?;
        std::io::Result::Ok(times)
    })();
    let times = times.with_context(|| format!("write {}", path.display()))?;
    Ok(median(&times))
}

/// Memory of a process, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Resident memory.
    pub resident: u64,
    /// Peak resident memory.
    pub peak: u64,
}

/// The memory of a process on this machine, from `/proc/<pid>/status`.
///
/// # Errors
/// No such process, or a system without `/proc`.
pub fn memory(pid: u32) -> Result<Memory> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    Ok(Memory { resident: kilobytes(&text, "VmRSS:")?, peak: kilobytes(&text, "VmHWM:")? })
}

/// The bytes of a line such as `VmRSS:   1234 kB`.
fn kilobytes(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no line {name}"))?;
    let number = line.trim().trim_end_matches("kB").trim();
    let kilobytes: u64 = number.parse().with_context(|| format!("{name} expected a number of kB, found {line:?}"))?;
    Ok(kilobytes * 1024)
}

/// Clock ticks per second; Linux reports 100 on all current architectures.
const TICKS: f64 = 100.0;

/// Processor time used by all threads of a process on this machine so far, in seconds, to 10 ms.
///
/// # Errors
/// No such process, or a system without `/proc`.
pub fn cpu_seconds(pid: u32) -> Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    // The second field is a name in brackets, which may hold spaces; user and system time are the 14th and 15th.
    let rest = text.rsplit_once(')').with_context(|| format!("{path}: expected a name in brackets"))?.1;
    let ticks = rest.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<_, _>>().with_context(|| format!("{path}: expected ticks"))?;
    Ok(ticks as f64 / TICKS)
}

/// Processor time used by everything on this machine since it started, in seconds of one processor, to 10 ms: that of user
/// processes and the kernel, without waiting and without what a hypervisor took.
///
/// # Errors
/// A system without `/proc`.
pub fn busy_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat").context("read /proc/stat")?;
    let line =
        text.lines().next().and_then(|line| line.strip_prefix("cpu ")).context("/proc/stat: expected a line cpu")?;
    let fields = line.split_whitespace().map(str::parse::<u64>);
    let fields: Vec<u64> = fields.collect::<Result<_, _>>().context("/proc/stat: expected ticks")?;
    // user nice system idle iowait irq softirq steal guest guest_nice; user and nice include the guests'.
    let [user, nice, system, _, _, irq, softirq, ..] = fields[..] else {
        bail!("/proc/stat: expected seven numbers, found {line:?}")
    };
    Ok((user + nice + system + irq + softirq) as f64 / TICKS)
}

/// Bytes that a process on this machine has written to disk so far, from `/proc/<pid>/io`.
///
/// # Errors
/// No such process, one of another user, or a system without `/proc`.
pub fn written_bytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/io");
    let text = fs::read_to_string(&path).with_context(|| format!("read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("write_bytes:")).context("no line write_bytes")?;
    line.trim().parse().with_context(|| format!("{path}: expected a number of bytes, found {line:?}"))
}

/// Pins all threads of a process, and threads and processes that it starts later, to the processors of a `taskset` list.
///
/// # Errors
/// No `taskset`, no such process or processor.
pub fn pin(pid: u32, cores: &str) -> Result<()> {
    let mut command = std::process::Command::new("taskset");
    let output = command.args(["-a", "-p", "-c", cores, &pid.to_string()]).output().context("run taskset")?;
    anyhow::ensure!(output.status.success(), "taskset -c {cores}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}

/// The machine of a report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu: String,
    /// Cores available to this process.
    pub cores: usize,
    /// Memory in bytes.
    pub memory: u64,
    /// Operating system and architecture.
    pub system: String,
}

/// Describes this machine; unknown values are empty or 0.
pub fn machine() -> Machine {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split_once(": "));
    Machine {
        cpu: cpu.map(|(_, name)| name.trim().to_owned()).unwrap_or_default(),
        cores: std::thread::available_parallelism().map_or(0, usize::from),
        memory: kilobytes(&read("/proc/meminfo"), "MemTotal:").unwrap_or(0),
        system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
    }
}

/// The commit of the source tree around the working directory, with `-dirty` when tracked files differ; `None` without git.
pub fn commit() -> Option<String> {
    let command = std::process::Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=12"]).output();
    let output = command.ok().filter(|output| output.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Median; the mean of the two middle values for an even count, NaN without values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        count if count.is_multiple_of(2) => (sorted[count / 2 - 1] + sorted[count / 2]) / 2.0,
        count => sorted[count / 2],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_counted_by_kind() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            ("meta/1", 3),
            ("log/aa/0", 10),
            ("log/aa/1", 10),
            ("data/1/0/x.parquet", 1000),
            ("data/1/0/y.tags", 50),
            ("data/1/0/z.rollup", 7),
            ("idem/k", 1),
            ("log/.journal/aa-1", 4),
        ];
        for (name, bytes) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, vec![0; bytes]).unwrap();
        }
        let size = size(dir.path()).unwrap();
        let found: Vec<(u64, u64)> = size.kinds().iter().map(|(_, kind)| (kind.objects, kind.bytes)).collect();
        assert_eq!(found, [(1, 1000), (1, 50), (1, 7), (2, 20), (1, 3), (2, 5)]);
        assert_eq!((size.total().objects, size.total().bytes), (8, 1085));
        assert!(super::size(&dir.path().join("none")).unwrap_err().to_string().contains("none"));
    }

    #[test]
    fn this_process_has_memory_and_this_machine_cores() {
        let memory = memory(std::process::id()).unwrap();
        assert!(memory.peak >= memory.resident && memory.resident > 1 << 20);
        assert!(machine().cores > 0 && machine().memory > 1 << 28);
        assert!(super::memory(u32::MAX).is_err());
        let (before, all_before) = (cpu_seconds(std::process::id()).unwrap(), busy_seconds().unwrap());
        let begun = std::time::Instant::now();
        while begun.elapsed().as_millis() < 300 {}
        assert!(cpu_seconds(std::process::id()).unwrap() > before && busy_seconds().unwrap() > all_before);
        let file = tempfile::NamedTempFile::new_in(".").unwrap();
        let before = written_bytes(std::process::id()).unwrap();
        fs::write(file.path(), [1; 100_000]).unwrap();
        assert!(written_bytes(std::process::id()).unwrap() >= before + 100_000);
        assert!(written_bytes(u32::MAX).is_err());
        assert!(cpu_seconds(u32::MAX).is_err() && pin(u32::MAX, "0").is_err());
    }
}
