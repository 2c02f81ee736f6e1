//! An object store that is a directory on a local file system, durable and atomic.
//!
//! An object becomes visible when a staging file is linked to its name, unless the name is taken: the object is
//! complete or absent, and only one of several creators succeeds. Durable means: the file is synced and then named;
//! then its directory is synced, and every directory above it that this process has not synced. An attempt that finds
//! an existing object syncs it and its directories too; only then may a caller rely on it. Only creating is supported;
//! nothing is ever overwritten.
//!
//! A segment of the log may instead be made durable in a [`Journal`], before its file is named.
//!
//! Small reads and lookups run in place, since moving them to a blocking thread costs more than they do; small log
//! segments are created in place too if other threads take over the tasks of this one.

use std::{
    collections::HashMap,
    fmt,
    fs::{self, File},
    io::{self, ErrorKind},
    ops::Range,
    os::unix::fs::MetadataExt,
    path::{Path as FsPath, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, stream::BoxStream};
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result, path::Path,
};
use parking_lot::Mutex;
use tokio::runtime::RuntimeFlavor;

use super::{
    direct::FileWriter,
    journal::{self, JOURNAL, Journal, Settled},
    modes,
    naming::{path_in, publish},
    stamps::{STAMPS, Stamps},
};
use crate::layout::{CLOCK, DATA, IDEM, LOG, META, NODES, RESULTS};

/// Directory of the staging files, below the root; never listed.
const STAGING: &str = ".staging";
/// A staging file older than this belongs to no running attempt.
const STAGING_AGE: Duration = Duration::from_secs(3_600);
/// Reads and segments up to this size are processed in place.
const INLINE_BYTES: u64 = 256 << 10;
/// Ranges of one file closer than this are read together.
const NEAR_BYTES: u64 = 4 << 10;
/// Number of directories remembered as synced.
const KNOWN_DIRECTORIES: usize = 65_536;

/// The store; meant to be held in an `Arc`.
#[derive(Debug)]
pub(super) struct Directory {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    /// Distinguishes the staging files of this process from those of others.
    run: u64,
    /// Whether the group may read the files under `data/`.
    is_shared: bool,
    staged: AtomicU64,
    writer: FileWriter,
    journal: Journal,
    stamps: Stamps,
    /// Directories whose whole chain up to the root is known to be synced, with their inodes.
    synced: Mutex<HashMap<PathBuf, u64>>,
}

impl fmt::Display for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file://{}", self.inner.root.display())
    }
}

impl Directory {
    /// Opens a directory, creating it if absent, and removes staging files left by crashes.
    pub(super) fn open(root: &FsPath, run: u64) -> io::Result<Self> {
        let root = std::path::absolute(root)?;
        let missing = root.ancestors().take_while(|d| !d.exists()).count();
        modes::create_dir_all(&root.join(STAGING), modes::DIRECTORY)?;
        // New directories above the root must survive a crash as well: each is an entry of its parent.
        for above in root.ancestors().skip(1).take(missing) {
            File::open(above)?.sync_all()?;
        }
        let root = fs::canonicalize(root)?;
        let is_shared = modes::of(&root) == modes::SHARED_ROOT;
        narrow(&root, is_shared);
        let inner = Inner {
            journal: Journal::new(&root, run),
            stamps: Stamps::new(&root.join(STAGING)),
            root,
            run,
            is_shared,
            staged: AtomicU64::new(0),
            writer: FileWriter::default(),
            synced: Mutex::default(),
        };
        inner.collect_staging();
        inner.settle_journals()?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Syncs a directory, so that linked objects remain and deleted ones do not come back.
    pub(super) async fn sync(&self, prefix: &Path) -> Result<()> {
        let (inner, path, is_log) = (self.inner.clone(), self.inner.path(prefix), is_segment(prefix));
        let sync = move || {
            if is_log {
                let Settled { restored, is_stalled } = inner.settle_journals().map_err(generic)?;
                if restored > 0 || is_stalled {
                    let reason =
                        "segments were, or may still be, restored from the journal of a process that is not running";
                    return Err(generic(io::Error::other(reason)));
                }
            }
            if path.exists() { inner.sync_chain(&path) } else { Ok(()) }
        };
        blocking(sync).await
    }

    /// The next stamp of all processes of this directory, at least `least`.
    pub(super) fn stamp(&self, least: i64) -> i64 {
        self.inner.stamps.next(least)
    }

    /// Bytes that can still be written; `None` if the system does not report it.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::statvfs(&self.inner.root).ok()?;
        Some(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// The object with the smallest name in one directory.
    pub(super) fn first(&self, prefix: &Path) -> Result<Option<ObjectMeta>> {
        let names = match fs::read_dir(self.inner.path(prefix)) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(generic(e)),
        };
        let mut smallest: Option<String> = None;
        for entry in names {
            let entry = entry.map_err(generic)?;
            let (Ok(name), Ok(kind)) = (entry.file_name().into_string(), entry.file_type()) else { continue };
            if kind.is_file() && smallest.as_ref().is_none_or(|s| name < *s) {
                smallest = Some(name);
            }
        }
        let Some(name) = smallest else { return Ok(None) };
        let location = prefix.clone().join(name.as_str());
        let meta = fs::metadata(self.inner.path(&location)).map_err(|e| at(&location, e))?;
        Ok(Some(object_meta(location, &meta)?))
    }

    /// The names of the directories in one directory, unordered.
    pub(super) fn directories(&self, prefix: &Path) -> Result<Vec<String>> {
        let entries = match fs::read_dir(self.inner.path(prefix)) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(generic(e)),
        };
        let mut names = Vec::new();
        let directory = self.inner.path(prefix);
        for entry in entries {
            let entry = entry.map_err(generic)?;
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                names.extend(entry.file_name().into_string().ok().filter(|n| !self.inner.is_hidden(&directory, n)));
            }
        }
        Ok(names)
    }
}

impl Inner {
    fn path(&self, location: &Path) -> PathBuf {
        path_in(&self.root, location)
    }

    fn collect_staging(&self) {
        let Ok(entries) = fs::read_dir(self.root.join(STAGING)) else { return };
        for entry in entries.flatten() {
            let modified = entry.metadata().and_then(|m| m.modified());
            let age = modified.ok().and_then(|m| SystemTime::now().duration_since(m).ok());
            if age.is_some_and(|age| age > STAGING_AGE) && entry.file_name() != STAMPS {
                // Another process may remove it at the same time.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn settle_journals(&self) -> io::Result<Settled> {
        let settled = journal::settle(&self.root, self.run, &self.staging())?;
        if settled.restored > 0 {
            tracing::info!(segments = settled.restored, root = %self.root.display(), "segments restored from a journal");
        }
        Ok(settled)
    }

    /// A new name for a staging file.
    fn staging(&self) -> PathBuf {
        let n = self.staged.fetch_add(1, Ordering::Relaxed);
        self.root.join(STAGING).join(format!("{:016x}-{n}", self.run))
    }

    fn create(&self, location: &Path, payload: &PutPayload) -> Result<()> {
        let staging = self.staging();
        let created = self.create_from(&staging, location, payload);
        if created.is_err() {
            // A leftover is removed when the root is opened.
            let _ = fs::remove_file(&staging);
        }
        created
    }

    fn create_from(&self, staging: &FsPath, location: &Path, payload: &PutPayload) -> Result<()> {
        let target = self.path(location);
        let parent = target.parent().expect("an object has a name below the root").to_owned();
        let small_segment = is_segment(location) && payload.content_length() <= INLINE_BYTES as usize;
        // The second creator need not write and sync its bytes; a segment has only one writer.
        if !small_segment && target.exists() {
            return Err(self.exists(location, &target, &parent, ErrorKind::AlreadyExists.into()));
        }
        let is_shared = self.is_shared && is_below(location, DATA);
        let (file_mode, directory_mode) = match is_shared {
            true => (modes::SHARED_FILE, modes::SHARED_DIRECTORY),
            false => (modes::FILE, modes::DIRECTORY),
        };
        let file = match self.writer.create(staging, file_mode, payload) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let directory = staging.parent().expect("staging files lie in a directory");
                modes::create_dir_all(directory, modes::DIRECTORY).map_err(generic)?;
                self.writer.create(staging, file_mode, payload)
            }
            made => made,
        };
        let file = file.map_err(generic)?;
        if is_shared {
            modes::set(staging, file_mode).map_err(generic)?;
        }
        let journaled = if small_segment {
            let modified = file.metadata().and_then(|meta| meta.modified()).map_err(generic)?;
            self.journal.append(location, payload, modified)
        } else {
            None
        };
        if journaled.is_none() {
            file.sync_all().map_err(generic)?;
        }
        // A garbage collector may remove an empty directory between its creation and the link.
        for attempt in 0.. {
            match publish(staging, &target) {
                Ok(()) => break,
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    return Err(self.exists(location, &target, &parent, e));
                }
                Err(e) if e.kind() == ErrorKind::NotFound && attempt < 8 => {
                    modes::create_dir_all(&parent, directory_mode).map_err(generic)?;
                    let mut made = parent.ancestors().take_while(|above| is_shared && *above != self.root);
                    made.try_for_each(|above| modes::set(above, directory_mode)).map_err(generic)?;
                }
                Err(e) => return Err(generic(e)),
            }
        }
        if journaled.is_some() { Ok(()) } else { self.sync_chain(&parent).map_err(visible) }
    }

    /// The error of a creator whose key is taken, after the existing object was made durable.
    fn exists(&self, location: &Path, target: &FsPath, parent: &FsPath, found: io::Error) -> Error {
        match File::open(target).and_then(|f| f.sync_all()) {
            // Deleted since: the caller notices when it reads the object back.
            Err(e) if e.kind() != ErrorKind::NotFound => return visible(generic(e)),
            _ => {}
        }
        self.forget(parent);
        match self.sync_chain(parent) {
            Ok(()) => Error::AlreadyExists { path: location.to_string(), source: found.into() },
            Err(e) => visible(e),
        }
    }

    /// Syncs a directory, and those above it unless they are known to be synced.
    fn sync_chain(&self, directory: &FsPath) -> Result<()> {
        let opened = File::open(directory).map_err(generic)?;
        let inode = opened.metadata().map_err(generic)?.ino();
        opened.sync_all().map_err(generic)?;
        if self.synced.lock().get(directory) == Some(&inode) {
            return Ok(());
        }
        let mut above = directory;
        while above != self.root {
            above = above.parent().expect("every object lies below the root");
            File::open(above).and_then(|d| d.sync_all()).map_err(generic)?;
        }
        let mut synced = self.synced.lock();
        if synced.len() >= KNOWN_DIRECTORIES {
            synced.clear();
        }
        synced.insert(directory.to_owned(), inode);
        Ok(())
    }

    fn forget(&self, directory: &FsPath) {
        self.synced.lock().remove(directory);
    }

    fn delete(&self, location: &Path) -> Result<()> {
        let path = self.path(location);
        fs::remove_file(&path).map_err(|e| at(location, e))?;
        // A writer's directory is removed with its last segment; directories that are not empty stay.
        let parent = path.parent().expect("an object has a name below the root");
        if location.parts().count() > 2 && fs::remove_dir(parent).is_ok() {
            self.forget(parent);
        }
        Ok(())
    }

    /// Whether an entry of a directory is not an object and contains none.
    fn is_hidden(&self, directory: &FsPath, name: &str) -> bool {
        match name {
            STAGING => directory == self.root,
            JOURNAL => directory.parent() == Some(&self.root) && directory.ends_with(LOG),
            _ => false,
        }
    }

    fn walk(&self, directory: &FsPath, location: &Path, found: &mut Vec<ObjectMeta>) -> Result<()> {
        let entries = match fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(()),
            Err(e) => return Err(generic(e)),
        };
        for entry in entries {
            let entry = entry.map_err(generic)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            if self.is_hidden(directory, &name) {
                continue;
            }
            let below = location.clone().join(name.as_str());
            if entry.file_type().map_err(generic)?.is_dir() {
                self.walk(&entry.path(), &below, found)?;
            } else {
                match entry.metadata() {
                    Ok(meta) => found.push(object_meta(below, &meta)?),
                    // Deleted since.
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    Err(e) => return Err(generic(e)),
                }
            }
        }
        Ok(())
    }

    fn list(&self, prefix: Option<&Path>, after: Option<&Path>) -> Result<Vec<ObjectMeta>> {
        let prefix = prefix.cloned().unwrap_or_default();
        let mut found = Vec::new();
        self.walk(&self.path(&prefix), &prefix, &mut found)?;
        found.retain(|m| after.is_none_or(|after| m.location > *after));
        found.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        Ok(found)
    }
}

#[async_trait]
impl ObjectStore for Directory {
    async fn put_opts(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        if opts.mode != PutMode::Create || !opts.attributes.is_empty() {
            return Err(unsupported("anything but creating an object without attributes"));
        }
        if is_segment(location) && payload.content_length() <= INLINE_BYTES as usize && may_block_in_place() {
            tokio::task::block_in_place(|| self.inner.create(location, &payload))?;
        } else {
            let (inner, location) = (self.inner.clone(), location.clone());
            blocking(move || inner.create(&location, &payload)).await?;
        }
        Ok(PutResult { e_tag: None, version: None })
    }

    async fn put_multipart_opts(&self, _: &Path, _: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        Err(unsupported("a multipart upload"))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let path = self.inner.path(location);
        let (file, meta) = if options.head {
            (None, fs::metadata(&path))
        } else {
            let file = File::open(&path).map_err(|e| at(location, e))?;
            let meta = file.metadata();
            (Some(file), meta)
        };
        let meta = meta.map_err(|e| at(location, e))?;
        if !meta.is_file() {
            return Err(at(location, ErrorKind::NotFound.into()));
        }
        let meta = object_meta(location.clone(), &meta)?;
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range.as_range(meta.size).map_err(|e| generic(io::Error::other(e)))?,
            None => 0..meta.size,
        };
        let payload = match file {
            Some(file) if range.end - range.start > INLINE_BYTES => GetResultPayload::File(file, path),
            Some(file) => {
                let bytes = read_at(&file, &range).map_err(|e| at(location, e))?;
                GetResultPayload::Stream(futures::stream::once(async { Ok(bytes) }).boxed())
            }
            None => GetResultPayload::Stream(futures::stream::empty().boxed()),
        };
        Ok(GetResult { payload, meta, range, attributes: Attributes::default() })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let file = File::open(self.inner.path(location)).map_err(|e| at(location, e))?;
        let (location, ranges) = (location.clone(), ranges.to_vec());
        let inline = ranges.iter().map(|r| r.end.saturating_sub(r.start)).sum::<u64>() <= INLINE_BYTES;
        let read = move || read_ranges(&file, &ranges).map_err(|e| at(&location, e));
        if inline { read() } else { blocking(read).await }
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let inner = self.inner.clone();
        locations
            .map(move |location| {
                let inner = inner.clone();
                async move {
                    let location = location?;
                    blocking(move || inner.delete(&location).map(|()| location)).await
                }
            })
            .buffered(4)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listing(prefix.cloned(), None)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.listing(prefix.cloned(), Some(offset.clone()))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.cloned().unwrap_or_default();
        let names = self.directories(&prefix)?;
        let mut common_prefixes: Vec<_> = names.into_iter().map(|n| prefix.clone().join(n.as_str())).collect();
        common_prefixes.sort_unstable();
        let inner = self.inner.clone();
        let depth = prefix.parts().count() + 1;
        let mut objects = blocking(move || inner.list(Some(&prefix), None)).await?;
        objects.retain(|m| m.location.parts().count() == depth);
        Ok(ListResult { common_prefixes, objects })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(unsupported("a copy"))
    }
}

impl Directory {
    fn listing(&self, prefix: Option<Path>, after: Option<Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let inner = self.inner.clone();
        futures::stream::once(blocking(move || inner.list(prefix.as_ref(), after.as_ref())))
            .flat_map(|listed| match listed {
                Ok(found) => futures::stream::iter(found.into_iter().map(Ok)).boxed(),
                Err(e) => futures::stream::once(async { Err(e) }).boxed(),
            })
            .boxed()
    }
}

/// Removes the access of other users to a root: the modes of its first-level directories protect everything below. A
/// directory that contains other entries may not belong to the root alone and is left unchanged.
fn narrow(root: &FsPath, is_shared: bool) {
    const OWN: [&str; 9] = [STAGING, META, LOG, DATA, CLOCK, IDEM, NODES, RESULTS, "lost+found"];
    let Ok(entries) = fs::read_dir(root) else { return };
    let entries: Vec<_> = entries.flatten().collect();
    let foreign = entries.iter().find(|entry| entry.file_name().to_str().is_none_or(|name| !OWN.contains(&name)));
    if let Some(foreign) = foreign {
        let (mode, found) = (modes::of(root), foreign.file_name());
        if mode & 0o077 != 0 {
            tracing::warn!(
                path = %root.display(), mode = format!("{mode:04o}"), found = %found.display(),
                "other users of this machine can access this root; its mode is unchanged because the directory holds other files: use a separate directory"
            );
        }
        return;
    }
    let root_mode = if is_shared { modes::SHARED_ROOT } else { modes::DIRECTORY };
    let below = entries.iter().filter(|entry| entry.file_name() != "lost+found").map(|entry| {
        let is_data = is_shared && entry.file_name() == DATA;
        (entry.path(), if is_data { modes::SHARED_DIRECTORY } else { modes::DIRECTORY })
    });
    for (path, mode) in [(root.to_owned(), root_mode)].into_iter().chain(below) {
        if let Err(error) = modes::set(&path, mode)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(
                path = %path.display(), mode = format!("{:04o}", modes::of(&path)), %error,
                "other users of this machine can access this directory of a root: run `chmod 0700` on it as its owner"
            );
        }
    }
}

/// Whether an object is a log segment: its writer waits for it, whereas creators of other objects may have several in
/// progress.
fn is_segment(location: &Path) -> bool {
    is_below(location, LOG)
}

fn is_below(location: &Path, first: &str) -> bool {
    location.parts().next().is_some_and(|part| part.as_ref() == first)
}

/// Whether the tasks of this thread continue on another thread while it blocks.
fn may_block_in_place() -> bool {
    tokio::runtime::Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|source| Error::JoinError { source })?
}

fn read_at(file: &File, range: &Range<u64>) -> io::Result<Bytes> {
    let len = (range.end - range.start) as usize;
    // Not filled with zeros first, which would take about as long as reading.
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len {
        let at = range.start + bytes.len() as u64;
        match rustix::io::pread(file, rustix::buffer::spare_capacity(&mut bytes), at) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => (),
            Err(e) => return Err(e.into()),
        }
    }
    bytes.truncate(len);
    Ok(bytes.into())
}

fn read_ranges(file: &File, ranges: &[Range<u64>]) -> io::Result<Vec<Bytes>> {
    let size = file.metadata()?.len();
    if let Some(bad) = ranges.iter().find(|r| r.start > r.end || r.end > size) {
        let reason = format!("range {}..{} of an object of {size} bytes", bad.start, bad.end);
        return Err(io::Error::new(ErrorKind::UnexpectedEof, reason));
    }
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_unstable_by_key(|i| ranges[*i].start);
    let mut found = vec![Bytes::new(); ranges.len()];
    let mut at = 0;
    while at < order.len() {
        let mut span = ranges[order[at]].clone();
        let mut end = at + 1;
        while end < order.len() && ranges[order[end]].start <= span.end.saturating_add(NEAR_BYTES) {
            span.end = span.end.max(ranges[order[end]].end);
            end += 1;
        }
        let bytes = read_at(file, &span)?;
        for i in &order[at..end] {
            found[*i] = bytes.slice((ranges[*i].start - span.start) as usize..(ranges[*i].end - span.start) as usize);
        }
        at = end;
    }
    Ok(found)
}

fn object_meta(location: Path, meta: &fs::Metadata) -> Result<ObjectMeta> {
    let modified = meta.modified().map_err(generic)?;
    Ok(ObjectMeta { location, last_modified: modified.into(), size: meta.len(), e_tag: None, version: None })
}

fn at(location: &Path, e: io::Error) -> Error {
    match e.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => {
            Error::NotFound { path: location.to_string(), source: e.into() }
        }
        _ => generic(e),
    }
}

/// The error of an attempt whose object others may see: even if the cause is a full disk, something may have been
/// written.
fn visible(e: Error) -> Error {
    generic(io::Error::other(format!("object visible but possibly not durable: {e}")))
}

fn generic(e: io::Error) -> Error {
    Error::Generic { store: "directory", source: e.into() }
}

fn unsupported(what: &str) -> Error {
    Error::NotSupported { source: format!("a directory store does not support {what}").into() }
}
