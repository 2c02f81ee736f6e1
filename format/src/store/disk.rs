//! A cache on a local disk for blocks of immutable objects of a distant store.
//!
//! The disk holds region files of one size, made once and written over again, oldest first: together they are the size
//! limit, and blocks are written to one after the other. What is in them is found again when they are opened. Key and
//! bytes of a block are under one checksum (XXH64), which is compared at every read, and the key with the one that was
//! asked for: a block that was damaged, torn or written over is one that is not there. Objects never change, so a block
//! that is old is right.
//!
//! The cache is never needed: whatever goes wrong with it, the caller asks the store. One process at a time has a
//! directory.

use std::{
    collections::HashMap,
    fmt,
    fs::{self, File, TryLockError},
    io::{self, Read as _, Write},
    os::unix::fs::FileExt,
    path::{Path as FsPath, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use foyer::{
    BlockEngineConfig, Code, DeviceBuilder, FsDeviceBuilder, HybridCache, HybridCacheBuilder, HybridCacheProperties,
    LruConfig, PsyncIoEngineConfig, Spawner,
};
use parking_lot::Mutex;
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
    time::{Instant, timeout},
};

use super::{
    blocks::{BLOCK_BYTES, block_len},
    eviction::OldestFirst,
    modes,
};
use crate::error::{Error, Result};

/// The least size: fewer regions leave nothing to keep while one is written and one is cleared.
pub(super) const LEAST_BYTES: u64 = 16 << 20;
/// Into how many regions the cache is cut; each is an open file, and goes at once when there is no room.
const REGIONS: u64 = 128;
/// The least and the most that a region has: a region holds several blocks, and its offsets have 32 bits.
const REGION_BYTES: (u64, u64) = (2 << 20, 1 << 30);
/// How the files of regions are called.
const REGION: &str = "foyer-storage-direct-fs-";
/// A region begins with a page that says what it holds.
const PAGE: usize = 4 << 10;
/// Locked by the process that has the directory.
const LOCK: &str = "lock";
/// What keys begin with: blocks of another layout are not found.
const LAYOUT: &str = "1";

/// Blocks kept in memory: those that several reads share within a moment. What is decoded is kept elsewhere.
const MEMORY_BYTES: usize = 4 << 20;
/// Blocks on their way to the disk: so much waits and so much is written; more is dropped, and fetched again some day.
const WRITE_BYTES: usize = 16 << 20;

/// Opening reads a page or some of each region.
const OPEN_DEADLINE: Duration = Duration::from_secs(60);
/// A disk that takes longer for a block is asked no more for a while. Tests run on machines that stand still at times.
const READ_DEADLINE: Duration = Duration::from_secs(if cfg!(test) { 30 } else { 2 });
const REST: Duration = Duration::from_secs(10);
/// What was not written by then is lost to the cache.
const CLOSE_DEADLINE: Duration = Duration::from_secs(20);
/// Faults are logged at most so often.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// One block of one object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct BlockKey {
    /// Root and key.
    pub(super) object: Arc<str>,
    pub(super) number: u64,
}

/// The bytes of a block, and the size of its object.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) size: u64,
    pub(super) bytes: Bytes,
}

/// What the cache has of a block.
#[derive(Debug)]
pub(super) enum Lookup {
    Found(Block),
    Missing,
    /// It was there, and could not be read.
    Failed,
}

/// Bytes of an object from `start` on that are being fetched, and the size of the object.
#[derive(Debug, Clone)]
pub(super) struct Fetched {
    pub(super) start: u64,
    pub(super) bytes: Bytes,
    pub(super) size: u64,
}

impl Fetched {
    /// One block of it, where it has all of that.
    pub(super) fn block(&self, number: u64) -> Option<Block> {
        let start = (number * BLOCK_BYTES).checked_sub(self.start)? as usize;
        let end = start + block_len(self.size, number) as usize;
        (end <= self.bytes.len()).then(|| Block { size: self.size, bytes: self.bytes.slice(start..end) })
    }
}

/// What those who want the same block wait for.
pub(super) type Landing = watch::Receiver<Option<Fetched>>;

/// The cache of one process in one directory.
pub(super) struct DiskCache {
    path: PathBuf,
    /// What closes; `None` once it is closed.
    open: Mutex<Option<Open>>,
    cache: HybridCache<BlockKey, Block>,
    closed: AtomicBool,
    /// The disk does not answer in time.
    rests: Mutex<Option<Instant>>,
    logged: Mutex<Logged>,
    /// Blocks that are being fetched.
    pub(super) flights: Mutex<HashMap<BlockKey, Landing>>,
}

/// Faults since one was logged, and when that was.
#[derive(Debug, Default)]
struct Logged {
    faults: u64,
    at: Option<Instant>,
}

struct Open {
    cache: HybridCache<BlockKey, Block>,
    /// Threads of its own: its reads and writes wait for no others, and others not for them.
    runtime: Runtime,
    lock: File,
}

impl fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DiskCache").field(&self.path).finish()
    }
}

impl DiskCache {
    /// Opens the cache in a directory, which is made where it is missing, with at most `bytes` bytes; `None` where
    /// another process has it.
    pub(super) async fn open(path: &FsPath, bytes: u64) -> Result<Option<Arc<Self>>> {
        if bytes < LEAST_BYTES {
            return Err(Error::invalid("a disk cache is too small")
                .with("path", path.display())
                .with("expected", format!("{LEAST_BYTES} bytes or more"))
                .with("found", bytes));
        }
        let region_bytes = (bytes / REGIONS).clamp(REGION_BYTES.0, REGION_BYTES.1) / PAGE as u64 * PAGE as u64;
        let regions = bytes / region_bytes;
        let failed = |reason: &dyn fmt::Display| {
            Error::unavailable("the disk cache cannot be opened").with("path", path.display()).with("reason", reason)
        };
        let owned = path.to_owned();
        let prepared = tokio::task::spawn_blocking(move || prepare(&owned, regions, region_bytes));
        let prepared = prepared.await.map_err(|e| failed(&e))?;
        let Some((lock, found)) = prepared.map_err(|e| failed(&e))? else { return Ok(None) };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(8)
            .thread_name("disk-cache")
            .enable_time()
            .build()
            .map_err(|e| failed(&e))?;
        let (owned, handle) = (path.to_owned(), runtime.handle().clone());
        let numbers: Vec<u32> = found.iter().map(|region| region.number).collect();
        let built = runtime.spawn(async move {
            let capacity = (regions * region_bytes) as usize;
            let device = FsDeviceBuilder::new(owned).with_capacity(capacity).build()?;
            let engine = BlockEngineConfig::<_, _, HybridCacheProperties>::new(device)
                .with_block_size(region_bytes as usize)
                .with_clean_block_threshold(2)
                .with_eviction_pickers(vec![Box::new(OldestFirst::new(&numbers))])
                .with_buffer_pool_size(WRITE_BYTES)
                .with_submit_queue_size_threshold(WRITE_BYTES);
            let built = HybridCacheBuilder::new()
                .with_name("tidelake")
                .memory(MEMORY_BYTES)
                .with_shards(1)
                .with_eviction_config(LruConfig::default())
                .with_weighter(|key: &BlockKey, block: &Block| key.object.len() + block.bytes.len() + 64)
                .storage()
                .with_io_engine_config(PsyncIoEngineConfig::new())
                .with_engine_config(engine)
                .with_spawner(Spawner::from(handle))
                .build()
                .await;
            restore_times(&found);
            built
        });
        let cache = match timeout(OPEN_DEADLINE, built).await {
            Ok(Ok(Ok(cache))) => cache,
            other => {
                // Not dropped here, where nothing may block.
                runtime.shutdown_background();
                return Err(match other {
                    Ok(Ok(Err(e))) => failed(&e),
                    Ok(Err(e)) => failed(&e),
                    _ => failed(&format!("it took more than {} s", OPEN_DEADLINE.as_secs())),
                });
            }
        };
        let open = Open { cache: cache.clone(), runtime, lock };
        Ok(Some(Arc::new(Self {
            path: path.to_owned(),
            open: Mutex::new(Some(open)),
            cache,
            closed: AtomicBool::new(false),
            rests: Mutex::default(),
            logged: Mutex::default(),
            flights: Mutex::default(),
        })))
    }

    /// What blocks of an object are kept under.
    pub(super) fn object(root: &str, key: &str) -> Arc<str> {
        format!("{LAYOUT}\n{BLOCK_BYTES}\n{root}\n{key}").into()
    }

    /// A block from the disk, or from memory just after it was read or fetched.
    pub(super) async fn get(&self, key: &BlockKey) -> Lookup {
        if !self.is_usable() || !self.cache.contains(key) {
            return Lookup::Missing;
        }
        let found = timeout(READ_DEADLINE, self.cache.get(key)).await;
        let reason = match found {
            Ok(Ok(Some(entry))) => {
                let block = entry.value();
                if block.bytes.len() as u64 == block_len(block.size, key.number) {
                    return Lookup::Found(block.clone());
                }
                "its length does not fit".to_owned()
            }
            Ok(Ok(None)) => "it is damaged, or was written over just now".to_owned(),
            Ok(Err(e)) => e.to_string(),
            Err(_) => {
                *self.rests.lock() = Some(Instant::now() + REST);
                self.report(key, "the disk does not answer in time");
                return Lookup::Failed;
            }
        };
        if self.closed.load(Relaxed) {
            return Lookup::Missing;
        }
        // What cannot be read once is fetched and written anew.
        self.cache.remove(key);
        self.report(key, &reason);
        Lookup::Failed
    }

    /// Keeps a block, if the disk is quick enough. The bytes are copied where they are a part of more.
    pub(super) fn insert(&self, key: BlockKey, block: Block, is_part: bool) {
        if !self.is_usable() || self.cache.contains(&key) {
            return;
        }
        let bytes = if is_part { Bytes::copy_from_slice(&block.bytes) } else { block.bytes };
        self.cache.insert(key, Block { bytes, ..block });
    }

    fn is_usable(&self) -> bool {
        if self.closed.load(Relaxed) {
            return false;
        }
        let mut rests = self.rests.lock();
        match *rests {
            Some(until) if Instant::now() < until => false,
            Some(_) => {
                *rests = None;
                true
            }
            None => true,
        }
    }

    fn report(&self, key: &BlockKey, reason: &str) {
        let mut logged = self.logged.lock();
        logged.faults += 1;
        if logged.at.is_some_and(|at| at.elapsed() < LOG_INTERVAL) {
            return;
        }
        let object = key.object.rsplit('\n').next().unwrap_or_default();
        tracing::warn!(
            path = %self.path.display(), key = object, block = key.number, reason, faults = logged.faults,
            "the disk cache could not read a block; the store is asked"
        );
        *logged = Logged { faults: 0, at: Some(Instant::now()) };
    }

    /// Writes what is still in memory, ends the threads and frees the directory; later reads find nothing.
    pub(super) async fn close(&self) {
        self.closed.store(true, Relaxed);
        let Some(open) = self.open.lock().take() else { return };
        let path = self.path.clone();
        // It ends by its own deadline.
        let _ = tokio::task::spawn_blocking(move || open.finish(&path)).await;
    }

    /// What was inserted is on the disk, apart from what is kept in memory.
    #[cfg(test)]
    pub(super) async fn written(&self) {
        self.cache.storage().wait().await;
    }
}

impl Drop for DiskCache {
    fn drop(&mut self) {
        self.closed.store(true, Relaxed);
        let Some(open) = self.open.lock().take() else { return };
        let path = self.path.clone();
        // Not here, where nothing may block. Without a thread nothing of it ends, and nobody else gets the directory.
        let spawned = thread::Builder::new().name("disk-cache".to_owned()).spawn(move || open.finish(&path));
        if let Err(error) = spawned {
            tracing::warn!(%error, "no thread to close the disk cache");
        }
    }
}

impl Open {
    fn finish(self, path: &FsPath) {
        let Self { cache, runtime, lock } = self;
        let closed = runtime.block_on(async { timeout(CLOSE_DEADLINE, cache.close()).await });
        let reason = match closed {
            Ok(Ok(())) => {
                drop(cache);
                runtime.shutdown_timeout(Duration::from_secs(1));
                drop(lock);
                return;
            }
            Ok(Err(e)) => e.to_string(),
            Err(_) => "the disk does not answer in time".to_owned(),
        };
        tracing::warn!(path = %path.display(), reason, "the disk cache was not closed in order");
        // A write that is under way goes by the number of an open file: that must stay its own until the process ends.
        std::mem::forget((cache, runtime, lock));
    }
}

/// Takes the directory and makes it fit for the regions; `None` where another process has it. Also which regions hold
/// something, oldest first.
fn prepare(path: &FsPath, regions: u64, region_bytes: u64) -> io::Result<Option<(File, Vec<Region>)>> {
    modes::create_dir_all(path, modes::DIRECTORY)?;
    // A volume may belong to another user: then the modes of the files keep others out.
    let _ = modes::set(path, modes::DIRECTORY);
    let lock = modes::options(modes::FILE).write(true).create(true).truncate(false).open(path.join(LOCK))?;
    let _ = modes::set(&path.join(LOCK), modes::FILE);
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(e)) => return Err(e),
    }
    let mut kept: Vec<(SystemTime, u32, PathBuf)> = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(number) = name.to_str().and_then(|name| name.strip_prefix(REGION)) else { continue };
        let meta = entry.metadata()?;
        match number.parse::<u32>() {
            Ok(number) if u64::from(number) < regions && meta.len() == region_bytes => {
                kept.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), number, entry.path()));
            }
            // Of another size limit, or truncated.
            _ => fs::remove_file(entry.path())?,
        }
    }
    let count = kept.len() as u64;
    kept.retain(|(_, _, region)| !is_clear(region));
    kept.sort_unstable();
    // Where a crash left no region clear, none would ever be cleared again.
    if count == regions && kept.len() as u64 == regions {
        let (_, _, oldest) = kept.remove(0);
        File::options().write(true).open(oldest)?.write_all_at(&[0; PAGE], 0)?;
    }
    for number in 0..regions {
        let region = path.join(format!("{REGION}{number:08}"));
        modes::options(modes::FILE).write(true).create(true).truncate(false).open(&region)?;
        modes::set(&region, modes::FILE)?;
    }
    let regions = kept.into_iter().map(|(modified, number, path)| Region { number, modified, path });
    Ok(Some((lock, regions.collect())))
}

/// A region that holds something, and when it was written to.
#[derive(Debug)]
struct Region {
    number: u32,
    modified: SystemTime,
    path: PathBuf,
}

/// Gives regions their times back, by which the next process knows the oldest: opening a device sets the length of its files,
/// which for a file system is a change.
fn restore_times(regions: &[Region]) {
    for region in regions {
        let restored =
            File::options().write(true).open(&region.path).and_then(|file| file.set_modified(region.modified));
        if let Err(error) = restored {
            tracing::debug!(path = %region.path.display(), %error, "a region of the disk cache seems to be new");
        }
    }
}

/// Whether a region says that it holds nothing.
fn is_clear(region: &FsPath) -> bool {
    let mut page = [1; PAGE];
    let read = File::open(region).and_then(|file| file.read_exact_at(&mut page, 0));
    read.is_ok() && page.iter().all(|byte| *byte == 0)
}

/// `number` (8 bytes), length of `object` (4 bytes), `object`; numbers are little-endian.
impl Code for BlockKey {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        writer.write_all(&self.number.to_le_bytes())?;
        writer.write_all(&(self.object.len() as u32).to_le_bytes())?;
        Ok(writer.write_all(self.object.as_bytes())?)
    }

    fn decode(reader: &mut impl io::Read) -> foyer::Result<Self> {
        let number = u64::from_le_bytes(array(reader)?);
        let object = counted(reader)?;
        let object = String::from_utf8(object).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
        Ok(Self { object: object.into(), number })
    }

    fn estimated_size(&self) -> usize {
        12 + self.object.len()
    }
}

/// `size` (8 bytes), length of `bytes` (4 bytes), `bytes`; numbers are little-endian.
impl Code for Block {
    fn encode(&self, writer: &mut impl Write) -> foyer::Result<()> {
        writer.write_all(&self.size.to_le_bytes())?;
        writer.write_all(&(self.bytes.len() as u32).to_le_bytes())?;
        Ok(writer.write_all(&self.bytes)?)
    }

    fn decode(reader: &mut impl io::Read) -> foyer::Result<Self> {
        let size = u64::from_le_bytes(array(reader)?);
        Ok(Self { size, bytes: counted(reader)?.into() })
    }

    fn estimated_size(&self) -> usize {
        12 + self.bytes.len()
    }
}

fn array<const N: usize>(reader: &mut impl io::Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    reader.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// As many bytes as are announced before them, at most a block.
fn counted(reader: &mut impl io::Read) -> io::Result<Vec<u8>> {
    let len = u64::from(u32::from_le_bytes(array(reader)?));
    if len > BLOCK_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "longer than a block"));
    }
    let mut bytes = Vec::with_capacity(len as usize);
    reader.take(len).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}
