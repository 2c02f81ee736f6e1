//! A journal that makes many small segments of the log durable with one sync each.
//!
//! A segment in its own file takes two syncs: one of its content, one of its directory. A process that writes many
//! segments first appends each to its journal, into preallocated blocks, and names the segment's file without a sync.
//! Some seconds later one call syncs all these files, and the journal file is reused; by then most segments have been
//! folded and deleted, and never reach the disk.
//!
//! A process that opens a root settles the journals of terminated processes: segments that a power loss removed or tore
//! are restored with their modification time. Segments deleted meanwhile come back too, as after any power loss.
//!
//! A journal file is a block with its number, followed by records, each at the start of a block: number, checksum,
//! lengths, time, key, bytes. Records of an earlier use have another number. When several records are written
//! concurrently, a later one may be present without an earlier one, so a reader checks every block.

use std::{
    fs::{self, File, TryLockError},
    io::{self, ErrorKind},
    os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt},
    path::{Path as FsPath, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use object_store::{PutPayload, path::Path};
use parking_lot::{Condvar, Mutex};

use super::{
    direct::{ALIGN, Aligned, FLAGS},
    modes,
    naming::{path_in, publish},
};
use crate::layout::LOG;

/// Directory of the journals, below `log/` so that they are moved or copied together with their segments; never listed.
pub(super) const JOURNAL: &str = ".journal";
/// Name of the file locked by the process that settles journals.
const TURN: &str = "turn";
/// How long to wait for another process that is settling.
const TURN_DEADLINE: Duration = Duration::from_secs(60);
/// Size of a journal file in bytes.
const FILE_BYTES: usize = 16 << 20;
/// Maximum number of files of a process; when all are full, segments are synced one by one.
const MAX_FILES: usize = 8;
/// Number of full files that are settled before the oldest record reaches `RECORD_AGE`.
const FULL_FILES: usize = MAX_FILES - 2;
/// Age of a file's first record after which the file is settled.
const RECORD_AGE: Duration = Duration::from_secs(5);
/// Segments per second above which a process starts a journal; it ends the journal when it has written no segment for
/// `RECORD_AGE`.
const SEGMENTS_A_SECOND: u32 = 64;
/// A process that has held records for this time is not running.
const STALLED: Duration = Duration::from_secs(60);
/// Length of a record header, before the key.
const RECORD_HEADER: usize = 40;
const MAGIC: &[u8; 8] = b"tidejrnl";
/// Number of bytes that a disk writes atomically.
const SECTOR: usize = 512;

/// The journal of one process for one root.
#[derive(Debug)]
pub(super) struct Journal {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    /// Distinguishes the files of this process from those of others.
    run: u64,
    state: Mutex<State>,
    changed: Condvar,
    buffers: Mutex<Vec<Aligned>>,
}

#[derive(Debug, Default)]
struct State {
    /// Segments since the start of the second being counted.
    recent: u32,
    second: Option<Instant>,
    last: Option<Instant>,
    /// Whether the thread that creates and settles files is running.
    works: bool,
    /// Whether the journal cannot be used, or no longer.
    refused: bool,
    closed: bool,
    current: Option<Current>,
    spare: Vec<Arc<JournalFile>>,
    full: Vec<Current>,
    /// How many times a file was begun.
    begun: u64,
    /// Number of files on disk.
    files: usize,
}

/// The file to which records are appended.
#[derive(Debug)]
struct Current {
    file: Arc<JournalFile>,
    /// Offset of the next record.
    end: usize,
    /// The time of its first record.
    since: Option<Instant>,
}

#[derive(Debug)]
struct JournalFile {
    path: PathBuf,
    /// Locked for the lifetime of its process.
    file: File,
    /// The file's current number, repeated in each record.
    number: Mutex<Number>,
}

/// Run of the process, then a count.
type Number = [u8; 16];

/// A segment in the journal; held until the segment's file has its name.
#[derive(Debug)]
pub(super) struct Journaled {
    _file: Arc<JournalFile>,
}

/// The next task of the journal thread.
enum Step {
    Make,
    Settle(Vec<Current>),
    /// Stop: nothing is left to do; remove the spare files.
    End(Vec<Arc<JournalFile>>),
}

impl Journal {
    /// A journal that starts once the write rate justifies it, if the file system is suitable.
    pub(super) fn new(root: &FsPath, run: u64) -> Self {
        Self::with(root, run, !is_local(root))
    }

    fn with(root: &FsPath, run: u64, refused: bool) -> Self {
        let state = State { refused, ..State::default() };
        let shared = Shared {
            root: root.to_owned(),
            run,
            state: Mutex::new(state),
            changed: Condvar::new(),
            buffers: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Makes a segment durable whose file, last modified at `modified`, is not synced; `None` if the caller must sync
    /// it.
    pub(super) fn append(&self, key: &Path, payload: &PutPayload, modified: SystemTime) -> Option<Journaled> {
        let key = key.as_ref().as_bytes();
        let len = (RECORD_HEADER + key.len() + payload.content_length()).next_multiple_of(ALIGN);
        let (file, at) = self.reserve(len)?;
        let mut buffer = self.shared.buffers.lock().pop().unwrap_or_else(|| Aligned::new(len));
        buffer.grow(len);
        let number = *file.number.lock();
        encode(&mut buffer.as_mut_slice()[..len], &number, key, payload, modified);
        let written = file.file.write_all_at(&buffer.as_slice()[..len], at as u64).and_then(|()| file.file.sync_data());
        let mut buffers = self.shared.buffers.lock();
        if buffers.len() < 2 {
            buffers.push(buffer);
        }
        drop(buffers);
        match written {
            Ok(()) => Some(Journaled { _file: file }),
            Err(error) => {
                self.shared.refuse(&error);
                None
            }
        }
    }

    /// Reserves space for a record in the current file; the file is not settled while the caller holds it.
    fn reserve(&self, len: usize) -> Option<(Arc<JournalFile>, usize)> {
        let mut state = self.shared.state.lock();
        if state.refused || len > FILE_BYTES - ALIGN {
            return None;
        }
        let now = Instant::now();
        state.last = Some(now);
        if state.second.is_none_or(|second| now - second > Duration::from_secs(1)) {
            (state.second, state.recent) = (Some(now), 0);
        }
        state.recent += 1;
        if !state.works {
            if state.recent > SEGMENTS_A_SECOND {
                state.works = true;
                self.start(&mut state);
            }
            return None;
        }
        if state.current.as_ref().is_some_and(|current| current.end + len > FILE_BYTES) {
            let full = state.current.take();
            state.full.extend(full);
        }
        if state.current.is_none() {
            state.current = state.spare.pop().map(|file| Current { file, end: ALIGN, since: None });
            self.shared.changed.notify_one();
        }
        let current = state.current.as_mut()?;
        let at = current.end;
        current.end += len;
        current.since.get_or_insert(now);
        Some((current.file.clone(), at))
    }

    fn start(&self, state: &mut State) {
        let shared = self.shared.clone();
        // Opened before any segment is written: a sync through this handle reports every disk error since.
        let opened = File::open(&shared.root);
        let spawned = opened.and_then(|file_system| {
            thread::Builder::new().name("journal".to_owned()).spawn(move || shared.work(&file_system))
        });
        if let Err(error) = spawned {
            tracing::warn!(%error, "cannot start the journal thread; segments are synced one by one");
            (state.works, state.refused) = (false, true);
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn refuse(&self, error: &io::Error) {
        tracing::warn!(%error, root = %self.root.display(), "journal disabled; segments are synced one by one");
        self.state.lock().refused = true;
        self.changed.notify_one();
    }

    fn work(&self, file_system: &File) {
        loop {
            match self.next_step() {
                Step::Make => match self.make() {
                    Ok(file) => self.state.lock().spare.push(Arc::new(file)),
                    Err(error) => {
                        self.state.lock().files -= 1;
                        self.refuse(&error);
                    }
                },
                Step::Settle(files) => {
                    if let Err(error) = self.settle(file_system, files) {
                        // Their records are found by the next process that opens the root.
                        self.refuse(&error);
                        return;
                    }
                }
                Step::End(files) => {
                    for file in files {
                        // A file left behind holds no records and is removed by the next process that opens the root.
                        let _ = fs::remove_file(&file.path);
                    }
                    return;
                }
            }
        }
    }

    fn next_step(&self) -> Step {
        let mut state = self.state.lock();
        loop {
            let ends = state.closed || state.refused;
            let is_old = |c: &Current| ends || c.since.is_some_and(|since| since.elapsed() >= RECORD_AGE);
            if state.full.len() >= FULL_FILES || state.full.first().is_some_and(is_old) {
                return Step::Settle(state.full.drain(..).collect());
            }
            if state.current.as_ref().is_some_and(is_old) {
                return Step::Settle(state.current.take().into_iter().collect());
            }
            let is_idle = state.last.is_none_or(|last| last.elapsed() >= RECORD_AGE);
            if ends || is_idle && state.full.is_empty() && state.current.is_none() {
                state.works = false;
                state.files = 0;
                return Step::End(state.spare.drain(..).collect());
            }
            if state.spare.is_empty() && state.files < MAX_FILES {
                state.files += 1;
                return Step::Make;
            }
            self.changed.wait_for(&mut state, Duration::from_millis(500));
        }
    }

    /// Creates a file with all its blocks allocated: later writes to them change no metadata.
    fn make(&self) -> io::Result<JournalFile> {
        let directory = self.root.join(LOG).join(JOURNAL);
        modes::create_dir_all(&directory, modes::DIRECTORY)?;
        let number = self.begin();
        let path = directory.join(format!("{:016x}-{}", self.run, self.state.lock().begun));
        let open =
            |flags| modes::options(modes::FILE).read(true).write(true).create_new(true).custom_flags(flags).open(&path);
        let file = match open(FLAGS) {
            Err(e) if e.kind() == ErrorKind::InvalidInput => open(0)?,
            opened => opened?,
        };
        file.try_lock()?;
        // Before it was locked, a settling process may have taken it for the file of a terminated process.
        if file.metadata()?.nlink() == 0 {
            return Err(io::Error::new(
                ErrorKind::NotFound,
                "a new journal was removed by a process that settles journals",
            ));
        }
        let zeros = Aligned::new(1 << 20);
        for at in (0..FILE_BYTES).step_by(1 << 20) {
            file.write_all_at(zeros.as_slice(), at as u64)?;
        }
        let made = JournalFile { path, file, number: Mutex::new(number) };
        made.write_number(number)?;
        made.file.sync_all()?;
        for directory in [&directory, &self.root.join(LOG), &self.root] {
            File::open(directory)?.sync_all()?;
        }
        Ok(made)
    }

    fn begin(&self) -> Number {
        let mut state = self.state.lock();
        state.begun += 1;
        let mut number = [0; 16];
        number[..8].copy_from_slice(&self.run.to_le_bytes());
        number[8..].copy_from_slice(&state.begun.to_le_bytes());
        number
    }

    /// Makes the segments of full files durable in their own files, so that the journal files can be reused.
    fn settle(&self, file_system: &File, files: Vec<Current>) -> io::Result<()> {
        for Current { file, .. } in &files {
            // Segments that are not named yet would not be synced.
            while Arc::strong_count(file) > 1 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        sync_file_system(file_system)?;
        for Current { file, .. } in files {
            let number = self.begin();
            file.write_number(number)?;
            *file.number.lock() = number;
            self.state.lock().spare.push(file);
        }
        Ok(())
    }
}

impl JournalFile {
    fn write_number(&self, number: Number) -> io::Result<()> {
        let mut block = Aligned::new(ALIGN);
        block.as_mut_slice()[..8].copy_from_slice(MAGIC);
        block.as_mut_slice()[8..24].copy_from_slice(&number);
        self.file.write_all_at(block.as_slice(), 0)?;
        self.file.sync_data()
    }
}

fn encode(record: &mut [u8], number: &Number, key: &[u8], payload: &PutPayload, modified: SystemTime) {
    let modified_ns = modified.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_nanos() as u64);
    record[..16].copy_from_slice(number);
    record[20..24].copy_from_slice(&(key.len() as u32).to_le_bytes());
    record[24..32].copy_from_slice(&(payload.content_length() as u64).to_le_bytes());
    record[32..40].copy_from_slice(&modified_ns.to_le_bytes());
    let mut at = RECORD_HEADER;
    for part in [key].into_iter().chain(payload.iter().map(|part| part.as_ref())) {
        record[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    record[at..].fill(0);
    let checksum = crc32fast::hash(&record[20..at]);
    record[16..20].copy_from_slice(&checksum.to_le_bytes());
}

/// A segment as recorded in a journal.
#[derive(Debug, PartialEq, Eq)]
struct Record<'a> {
    key: &'a str,
    bytes: &'a [u8],
    modified: SystemTime,
}

/// The record at the start of some blocks and its length, if there is one with this number.
fn decode<'a>(blocks: &'a [u8], number: &[u8]) -> Option<(Record<'a>, usize)> {
    let header = blocks.get(..RECORD_HEADER)?;
    let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("8 bytes"));
    let half = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
    let (key_len, len) = (half(20) as usize, usize::try_from(word(24)).ok()?);
    let end = RECORD_HEADER.checked_add(key_len)?.checked_add(len)?;
    let checked = blocks.get(20..end)?;
    if header[..16] != *number || crc32fast::hash(checked) != half(16) {
        return None;
    }
    let (key, bytes) = blocks[RECORD_HEADER..end].split_at(key_len);
    let modified = UNIX_EPOCH + Duration::from_nanos(word(32));
    Some((Record { key: std::str::from_utf8(key).ok()?, bytes, modified }, end))
}

/// Whether a file that may be in use has records: the first one begins the second block.
fn has_records(file: &File) -> io::Result<bool> {
    let mut found = [0; ALIGN + 16];
    match file.read_exact_at(&mut found, 0) {
        Ok(()) => Ok(found.starts_with(MAGIC) && found[8..24] == found[ALIGN..]),
        Err(e) if e.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(e) => Err(e),
    }
}

/// All records of a file.
fn records(file: &[u8]) -> Vec<Record<'_>> {
    let mut found = Vec::new();
    if !file.starts_with(MAGIC) || file.len() < ALIGN {
        return found; // not a journal yet
    }
    let (number, mut at) = (&file[8..24], ALIGN);
    while at < file.len() {
        match decode(&file[at..], number) {
            Some((record, len)) => {
                found.push(record);
                at += len.next_multiple_of(ALIGN);
            }
            None => at += ALIGN,
        }
    }
    found
}

/// Result of [`settle`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Settled {
    /// Number of segments restored.
    pub(super) restored: usize,
    /// Whether another process has held records for longer than a running process does.
    pub(super) is_stalled: bool,
}

/// Restores the segments that are in the journals of terminated processes but not in the log, makes them durable and
/// removes these journals; `staging` is the path of a temporary file.
///
/// # Errors
/// Those of the file system; WouldBlock when another process does not finish settling.
pub(super) fn settle(root: &FsPath, run: u64, staging: &FsPath) -> io::Result<Settled> {
    let directory = root.join(LOG).join(JOURNAL);
    let mut settled = Settled::default();
    if !directory.exists() {
        return Ok(settled);
    }
    let turn = modes::options(modes::FILE).write(true).create(true).truncate(false).open(directory.join(TURN))?;
    let begun = Instant::now();
    while let Err(error) = turn.try_lock() {
        match error {
            TryLockError::WouldBlock if begun.elapsed() < TURN_DEADLINE => thread::sleep(Duration::from_millis(5)),
            error => return Err(error.into()),
        }
    }
    let file_system = File::open(root)?;
    let own = format!("{run:016x}-");
    let mut gone = Vec::new();
    for entry in fs::read_dir(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == TURN || name.to_string_lossy().starts_with(&own) {
            continue;
        }
        let file = match File::options().read(true).write(true).open(entry.path()) {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            file => file?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let age = file.metadata()?.modified()?.elapsed().unwrap_or_default();
                settled.is_stalled |= age > STALLED && has_records(&file)?;
                continue;
            }
            Err(TryLockError::Error(e)) => return Err(e),
        }
        let bytes = fs::read(entry.path())?;
        for record in records(&bytes) {
            settled.restored += usize::from(restore(root, &record, staging)?);
        }
        gone.push((entry.path(), file));
    }
    if !gone.is_empty() {
        sync_file_system(&file_system)?;
    }
    for (path, file) in gone {
        // The removal is not synced: if undone, the file must come back without records.
        file.write_all_at(&[0; ALIGN], 0)?;
        file.sync_data()?;
        fs::remove_file(path)?;
    }
    Ok(settled)
}

/// Restores a segment unless it exists or another object is in its place.
fn restore(root: &FsPath, record: &Record<'_>, staging: &FsPath) -> io::Result<bool> {
    let target = path_in(root, &Path::parse(record.key).map_err(io::Error::other)?);
    match fs::read(&target) {
        Ok(found) if is_torn(&found, record.bytes) => fs::remove_file(&target)?,
        Ok(_) => return Ok(false),
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        Err(e) => return Err(e),
    }
    modes::write_new(staging, modes::FILE, record.bytes)?;
    File::options().write(true).open(staging)?.set_modified(record.modified)?;
    modes::create_dir_all(target.parent().expect("a segment has a name below the root"), modes::DIRECTORY)?;
    publish(staging, &target)?;
    Ok(true)
}

/// Whether a file holds only a part of these bytes: the rest is missing or was never written.
fn is_torn(found: &[u8], whole: &[u8]) -> bool {
    let is_part = |(found, whole): (&[u8], &[u8])| whole.starts_with(found) || found.iter().all(|byte| *byte == 0);
    found != whole && found.len() <= whole.len() && found.chunks(SECTOR).zip(whole.chunks(SECTOR)).all(is_part)
}

/// Whether a directory is on a local file system of a kind on which the journal is known to work.
#[cfg(target_os = "linux")]
fn is_local(root: &FsPath) -> bool {
    use rustix::fs::FsWord;

    const EXT4: FsWord = 0xEF53;
    const XFS: FsWord = 0x5846_5342;
    rustix::fs::statfs(root).is_ok_and(|found| matches!(found.f_type, EXT4 | XFS))
}

#[cfg(not(target_os = "linux"))]
fn is_local(_: &FsPath) -> bool {
    false
}

#[cfg(target_os = "linux")]
fn sync_file_system(file_system: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(file_system)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(_: &File) -> io::Result<()> {
    Err(ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests;
