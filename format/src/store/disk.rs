//! A cache on a local disk for blocks of immutable objects of a remote store.
//!
//! The disk holds region files of equal size, created once and reused, oldest first; their total size is the size
//! limit, and blocks are appended to one region after another. The content is found again when the cache is opened. Key
//! and bytes of a block share a checksum (XXH64), which is verified at every read, and the key is compared with the
//! requested one: a damaged, torn or overwritten block counts as missing. Objects never change, so an old block is
//! still correct.
//!
//! The cache is optional: if anything fails, the caller reads from the store. A directory is used by one process at a
//! time.

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

/// Minimum size: with fewer regions nothing could be kept while one is written and one is cleared.
pub(super) const LEAST_BYTES: u64 = 16 << 20;
/// Number of regions; each is an open file and is evicted as a whole.
const REGIONS: u64 = 128;
/// Minimum and maximum size of a region: a region holds several blocks, and its offsets have 32 bits.
const REGION_BYTES: (u64, u64) = (2 << 20, 1 << 30);
/// Prefix of the names of region files.
const REGION: &str = "foyer-storage-direct-fs-";
/// Size of the header page of a region.
const PAGE: usize = 4 << 10;
/// Name of the file locked by the process that uses the directory.
const LOCK: &str = "lock";
/// Prefix of cache keys: blocks of another layout version are not found.
const LAYOUT: &str = "1";

/// Bytes of blocks kept in memory, for reads that share blocks within a short time. Decoded data is cached elsewhere.
const MEMORY_BYTES: usize = 4 << 20;
/// Bytes of blocks queued, and of blocks being written; more blocks are dropped and fetched again later.
const WRITE_BYTES: usize = 16 << 20;

/// Opening reads one or more pages of each region.
const OPEN_DEADLINE: Duration = Duration::from_secs(60);
/// After a read that takes longer, the disk is not used for [`REST`]. Tests run on machines that stall at times.
const READ_DEADLINE: Duration = Duration::from_secs(if cfg!(test) { 30 } else { 2 });
const REST: Duration = Duration::from_secs(10);
/// Blocks not written by then are lost to the cache.
const CLOSE_DEADLINE: Duration = Duration::from_secs(20);
/// Minimum interval between logged faults.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// A block of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct BlockKey {
    /// Root and key of the object.
    pub(super) object: Arc<str>,
    pub(super) number: u64,
}

/// The bytes of a block, and the size of its object.
#[derive(Debug, Clone)]
pub(super) struct Block {
    pub(super) size: u64,
    pub(super) bytes: Bytes,
}

/// Result of a lookup.
#[derive(Debug)]
pub(super) enum Lookup {
    Found(Block),
    Missing,
    /// The block was there but could not be read.
    Failed,
}

/// Bytes of an object from `start` on, and the size of the object.
#[derive(Debug, Clone)]
pub(super) struct Fetched {
    pub(super) start: u64,
    pub(super) bytes: Bytes,
    pub(super) size: u64,
}

impl Fetched {
    /// One block of these bytes, if they contain all of it.
    pub(super) fn block(&self, number: u64) -> Option<Block> {
        let start = (number * BLOCK_BYTES).checked_sub(self.start)? as usize;
        let end = start + block_len(self.size, number) as usize;
        (end <= self.bytes.len()).then(|| Block { size: self.size, bytes: self.bytes.slice(start..end) })
    }
}

/// Receives the result of a request for a block.
pub(super) type Landing = watch::Receiver<Option<Fetched>>;

/// The cache of one process in one directory.
pub(super) struct DiskCache {
    path: PathBuf,
    /// Resources released on close; `None` once closed.
    open: Mutex<Option<Open>>,
    cache: HybridCache<BlockKey, Block>,
    closed: AtomicBool,
    /// End of the pause after the disk was too slow; `None` if the disk is in use.
    rests: Mutex<Option<Instant>>,
    logged: Mutex<Logged>,
    /// Requests in flight, by block.
    pub(super) flights: Mutex<HashMap<BlockKey, Landing>>,
}

/// The number of faults since the last logged one, and the time of that.
#[derive(Debug, Default)]
struct Logged {
    faults: u64,
    at: Option<Instant>,
}

struct Open {
    cache: HybridCache<BlockKey, Block>,
    /// A separate runtime, so that cache I/O and other work do not wait for each other.
    runtime: Runtime,
    lock: File,
}

impl fmt::Debug for DiskCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DiskCache").field(&self.path).finish()
    }
}

impl DiskCache {
    /// Opens the cache in a directory, created if absent, with at most `bytes` bytes; `None` if another process uses
    /// it.
    pub(super) async fn open(path: &FsPath, bytes: u64) -> Result<Option<Arc<Self>>> {
        if bytes < LEAST_BYTES {
            return Err(Error::invalid("disk cache too small")
                .with("path", path.display())
                .with("expected", format!("{LEAST_BYTES} bytes or more"))
                .with("found", bytes));
        }
        let region_bytes = (bytes / REGIONS).clamp(REGION_BYTES.0, REGION_BYTES.1) / PAGE as u64 * PAGE as u64;
        let regions = bytes / region_bytes;
        let failed = |reason: &dyn fmt::Display| {
            Error::unavailable("cannot open the disk cache").with("path", path.display()).with("reason", reason)
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
                // Not dropped here: dropping a runtime would block.
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

    /// The cache key prefix of an object's blocks.
    pub(super) fn object(root: &str, key: &str) -> Arc<str> {
        format!("{LAYOUT}\n{BLOCK_BYTES}\n{root}\n{key}").into()
    }

    /// A block from the disk, or from memory shortly after it was read or fetched.
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
                "wrong length".to_owned()
            }
            Ok(Ok(None)) => "damaged or just overwritten".to_owned(),
            Ok(Err(e)) => e.to_string(),
            Err(_) => {
                *self.rests.lock() = Some(Instant::now() + REST);
                self.report(key, "the disk did not respond in time");
                return Lookup::Failed;
            }
        };
        if self.closed.load(Relaxed) {
            return Lookup::Missing;
        }
        // A block that cannot be read is removed, so that it is fetched and written again.
        self.cache.remove(key);
        self.report(key, &reason);
        Lookup::Failed
    }

    /// Caches a block, unless the disk is too slow. The bytes are copied if they are a slice of a larger buffer.
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
            "disk cache cannot read a block; reading it from the store"
        );
        *logged = Logged { faults: 0, at: Some(Instant::now()) };
    }

    /// Writes the blocks still in memory, ends the threads and unlocks the directory; later reads find nothing.
    pub(super) async fn close(&self) {
        self.closed.store(true, Relaxed);
        let Some(open) = self.open.lock().take() else { return };
        let path = self.path.clone();
        // `finish` has its own deadline.
        let _ = tokio::task::spawn_blocking(move || open.finish(&path)).await;
    }

    /// Waits until the inserted blocks are on the disk, except those kept in memory.
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
        // Closing would block here. If no thread can be created, the cache stays open and the directory locked.
        let spawned = thread::Builder::new().name("disk-cache".to_owned()).spawn(move || open.finish(&path));
        if let Err(error) = spawned {
            tracing::warn!(%error, "cannot start a thread to close the disk cache");
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
            Err(_) => "the disk did not respond in time".to_owned(),
        };
        tracing::warn!(path = %path.display(), reason, "disk cache not closed cleanly");
        // A write in progress uses a file descriptor by number: the descriptor must stay open until the process ends.
        std::mem::forget((cache, runtime, lock));
    }
}

/// Locks the directory and creates the regions; `None` if another process uses it. Also returns the regions that hold
/// blocks, oldest first.
fn prepare(path: &FsPath, regions: u64, region_bytes: u64) -> io::Result<Option<(File, Vec<Region>)>> {
    modes::create_dir_all(path, modes::DIRECTORY)?;
    // The volume may belong to another user: then the file modes keep other users out.
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
            // Left from another size limit, or truncated.
            _ => fs::remove_file(entry.path())?,
        }
    }
    let count = kept.len() as u64;
    kept.retain(|(_, _, region)| !is_clear(region));
    kept.sort_unstable();
    // If a crash left no region clear, none would ever be cleared again.
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

/// A region that holds blocks, and when it was last written.
#[derive(Debug)]
struct Region {
    number: u32,
    modified: SystemTime,
    path: PathBuf,
}

/// Restores the modification times of regions, from which the next process determines the oldest: opening a device sets
/// the length of its files, which a file system counts as a modification.
fn restore_times(regions: &[Region]) {
    for region in regions {
        let restored =
            File::options().write(true).open(&region.path).and_then(|file| file.set_modified(region.modified));
        if let Err(error) = restored {
            tracing::debug!(path = %region.path.display(), %error, "cannot restore the time of a disk cache region");
        }
    }
}

/// Whether a region's header page says that it is empty.
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

/// Reads a length and that many bytes, at most a block.
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
