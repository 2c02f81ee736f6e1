//! Reads through the cache on the local disk: cached blocks are read from it, the others from the store, with no more
//! requests than without it.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    path::Path as FsPath,
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use futures::{StreamExt, TryStreamExt, stream};
use object_store::GetOptions;
use tokio::{sync::watch, task::JoinHandle, time::timeout};

use super::{
    Shared, Store, all_bytes,
    blocks::{BLOCK_BYTES, block_len, requests, runs, touched},
    disk::{Block, BlockKey, DiskCache, Fetched, Landing, Lookup},
    whole,
};
use crate::{
    error::{Error, Result},
    layout,
};

/// Number of blocks read concurrently from the disk.
const LOOKUPS: usize = 8;
/// Number of concurrent requests of one read, as without a cache.
const FETCHES: usize = 10;

impl Store {
    /// The same store with a cache of at most `bytes` bytes (at least 16 MiB) in a directory of a local disk; the
    /// directory is created if absent.
    ///
    /// The cache holds blocks of objects under `data/`: data files, tag manifests and rollups. [`get`](Self::get),
    /// [`get_range`](Self::get_range) and [`get_ranges`](Self::get_ranges) read cached blocks without a request; they
    /// fetch missing ones in whole blocks, with no more requests than without a cache, and cache them. The cache
    /// persists across restarts. Damaged blocks are fetched again; if the cache cannot be read or written, the store is
    /// used. If another process has locked the directory, a warning is logged and the store is returned without a
    /// cache.
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) for a store that [is local](Self::is_local), where a cache gains
    /// nothing, and for a size that is too small; [`Kind::Unavailable`](crate::Kind::Unavailable) for a directory that
    /// cannot be used.
    pub async fn with_disk_cache(&self, directory: &FsPath, bytes: u64) -> Result<Self> {
        if self.is_local() {
            return Err(Error::invalid("a disk cache requires a store over a network")
                .with("store", self.describe())
                .with("path", directory.display()));
        }
        let disk = DiskCache::open(directory, bytes).await?;
        if disk.is_none() {
            tracing::warn!(path = %directory.display(), "disk cache in use by another process; continuing without a cache");
        }
        Ok(Shared { disk, ..Shared::clone(&self.shared) }.into())
    }

    /// The same store without the disk cache: for reads of objects that are not read again.
    #[must_use]
    pub fn without_disk_cache(&self) -> Self {
        Shared { disk: None, ..Shared::clone(&self.shared) }.into()
    }

    /// Closes the disk cache of this store and its clones, if there is one, so that the next process finds its content.
    /// Later reads do not use it. Takes at most 20 s.
    pub async fn close(&self) {
        if let Some(disk) = &self.shared.disk {
            disk.close().await;
        }
    }

    /// The cache, if there is one and the object is cacheable: other objects may be replaced under their key, or are
    /// read only once.
    pub(super) fn disk<'a>(&'a self, key: &'a str) -> Option<Cached<'a>> {
        let disk = self.shared.disk.as_ref()?;
        layout::parse_data(key)?;
        Some(Cached { store: self, disk, object: DiskCache::object(&self.shared.identity, key), key })
    }
}

/// An object of a store with a cache.
pub(super) struct Cached<'a> {
    store: &'a Store,
    disk: &'a Arc<DiskCache>,
    object: Arc<str>,
    key: &'a str,
}

impl Cached<'_> {
    /// As [`Store::get`].
    pub(super) async fn get(&self) -> Result<Bytes> {
        if let Some(first) = self.look_up(0).await {
            return self.get_all(first.size, Some(first)).await;
        }
        let (flight, landing) = {
            let mut under_way = self.disk.flights.lock();
            let landing = under_way.get(&self.block(0)).cloned();
            (landing.is_none().then(|| self.depart(&mut under_way, None)), landing)
        };
        let landed = match landing {
            Some(landing) => landed(landing).await,
            None => None,
        };
        let fetched = match landed {
            Some(fetched) => fetched,
            None => {
                let flight = flight.unwrap_or_else(|| self.depart(&mut self.disk.flights.lock(), None));
                let mut all = self.fetch(vec![flight], 0..0).await?;
                all.pop().ok_or_else(|| Error::internal("request without a reply").with("key", self.key))?
            }
        };
        if fetched.start == 0 && fetched.bytes.len() as u64 == fetched.size {
            return Ok(fetched.bytes);
        }
        self.get_all(fetched.size, fetched.block(0)).await
    }

    async fn get_all(&self, size: u64, first: Option<Block>) -> Result<Bytes> {
        let mut found = self.read(&[0..size], first).await?;
        Ok(found.pop().unwrap_or_default())
    }

    /// As [`Store::get_ranges`].
    pub(super) async fn get_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.read(ranges, None).await
    }

    /// `first` is the first block, if the caller already has it.
    async fn read(&self, ranges: &[Range<u64>], first: Option<Block>) -> Result<Vec<Bytes>> {
        let numbers = touched(ranges);
        let mut found = Found::default();
        if let Some(first) = first {
            found.add(0, first);
        }
        let wanted: Vec<u64> = numbers.iter().copied().filter(|number| !found.has(*number)).collect();
        let looked_up = stream::iter(wanted).map(|number| async move { (number, self.look_up(number).await) });
        let mut looked_up = looked_up.buffered(LOOKUPS);
        while let Some((number, block)) = looked_up.next().await {
            if let Some(block) = block {
                found.add(number, block);
            }
        }
        let last = ranges.iter().filter(|range| !range.is_empty()).max_by_key(|range| range.end);
        // Requests of other readers are awaited once, since they may fail.
        for waits in [true, false] {
            let missing: Vec<u64> =
                numbers.iter().copied().filter(|number| !found.has(*number) && !found.is_beyond(*number)).collect();
            let Some(last) = last.filter(|_| !missing.is_empty()) else { break };
            let (flights, landings) = self.share(&missing, requests(ranges), waits);
            for fetched in self.fetch(flights, last.clone()).await? {
                found.add_fetched(fetched);
            }
            for (number, landing) in landings {
                let block = landed(landing).await.and_then(|fetched| fetched.block(number));
                if let Some(block) = block.filter(|_| !found.has(number)) {
                    found.add(number, block);
                }
            }
        }
        ranges.iter().map(|range| found.range(self.key, range)).collect()
    }

    fn block(&self, number: u64) -> BlockKey {
        BlockKey { object: self.object.clone(), number }
    }

    async fn look_up(&self, number: u64) -> Option<Block> {
        let counters = &self.store.shared.counters;
        match self.disk.get(&self.block(number)).await {
            Lookup::Found(block) => {
                counters.cached(block.bytes.len());
                Some(block)
            }
            missing => {
                counters.not_cached(matches!(missing, Lookup::Failed));
                None
            }
        }
    }

    /// The requests for the missing blocks, at most `most`, and the requests of other readers to wait for.
    fn share(&self, missing: &[u64], most: usize, waits: bool) -> (Vec<Flight>, Vec<(u64, Landing)>) {
        let mut under_way = self.disk.flights.lock();
        let (mut landings, mut own) = (Vec::new(), Vec::new());
        for number in missing {
            match under_way.get(&self.block(*number)).filter(|_| waits) {
                Some(landing) => landings.push((*number, landing.clone())),
                None => own.push(*number),
            }
        }
        let runs = runs(&own, most);
        landings.retain(|(number, _)| !runs.iter().any(|run| run.contains(number)));
        (runs.into_iter().map(|run| self.depart(&mut under_way, Some(run))).collect(), landings)
    }

    /// Announces a request: for a run of blocks, or for the whole object.
    fn depart(&self, under_way: &mut HashMap<BlockKey, Landing>, run: Option<Range<u64>>) -> Flight {
        let (sender, landing) = watch::channel(None);
        let mut blocks = Vec::new();
        for number in run.clone().unwrap_or(0..1) {
            let key = self.block(number);
            // If another request for the same block is in flight, readers wait for that one.
            under_way.entry(key.clone()).or_insert_with(|| {
                blocks.push(key);
                landing.clone()
            });
        }
        Flight { disk: self.disk.clone(), object: self.object.clone(), run, blocks, sender }
    }

    /// Fetches, caches and shares blocks. It runs in its own task: a reader that is not polled for a while, or is
    /// dropped, must not delay others waiting for the same blocks. Once the caller is gone, only requests awaited by
    /// others are sent. `last` is the last range that the caller wants.
    async fn fetch(&self, flights: Vec<Flight>, last: Range<u64>) -> Result<Vec<Fetched>> {
        if flights.is_empty() {
            return Ok(Vec::new());
        }
        let (store, key) = (self.store.clone(), self.key.to_owned());
        let here = Arc::new(());
        let caller = Arc::downgrade(&here);
        let task: JoinHandle<Result<Vec<Fetched>>> = tokio::spawn(async move {
            let (store, key, last, caller) = (&store, &key, &last, &caller);
            let fetch = |flight: Flight| async move {
                if caller.strong_count() == 0 && !flight.is_awaited() {
                    return Ok(None);
                }
                let fetched = store.fetch(key, flight.bytes(), last).await?;
                flight.land(&fetched);
                Ok(Some(fetched))
            };
            let all = stream::iter(flights).map(fetch).buffered(FETCHES);
            all.try_filter_map(|fetched| std::future::ready(Ok(fetched))).try_collect().await
        });
        let ended = |e| Error::internal("read through the disk cache ended early").with("key", self.key).source(e);
        let fetched = task.await.map_err(ended)?;
        drop(here);
        fetched
    }
}

/// A request in flight.
struct Flight {
    disk: Arc<DiskCache>,
    object: Arc<str>,
    /// The blocks of the request; `None` for the whole object.
    run: Option<Range<u64>>,
    /// The blocks for which other readers wait for this request.
    blocks: Vec<BlockKey>,
    sender: watch::Sender<Option<Fetched>>,
}

impl Flight {
    fn bytes(&self) -> Option<Range<u64>> {
        self.run.as_ref().map(|run| run.start * BLOCK_BYTES..run.end * BLOCK_BYTES)
    }

    /// Whether other readers wait for the blocks.
    fn is_awaited(&self) -> bool {
        // the map of flights holds one receiver per block
        self.sender.receiver_count() > self.blocks.len()
    }

    fn land(&self, fetched: &Fetched) {
        let first = fetched.start / BLOCK_BYTES;
        let end = first + (fetched.bytes.len() as u64).div_ceil(BLOCK_BYTES).max(1);
        for number in first..end {
            if let Some(block) = fetched.block(number) {
                let is_part = block.bytes.len() < fetched.bytes.len();
                self.disk.insert(BlockKey { object: self.object.clone(), number }, block, is_part);
            }
        }
        self.sender.send_replace(Some(fetched.clone()));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut under_way = self.disk.flights.lock();
        for block in &self.blocks {
            under_way.remove(block);
        }
    }
}

/// The result of another reader's request; `None` if it failed or takes too long.
async fn landed(mut landing: Landing) -> Option<Fetched> {
    timeout(Store::READ_DEADLINE, landing.wait_for(Option::is_some)).await.ok()?.ok()?.clone()
}

impl Store {
    /// Some bytes of an object, fewer if it ends before them, or all of it; the caller wants those up to the end of
    /// `last`.
    async fn fetch(&self, key: &str, range: Option<Range<u64>>, last: &Range<u64>) -> Result<Fetched> {
        let path = self.path(key)?;
        let options = GetOptions::new().with_range(range.clone());
        let fetched = self.retried("get", key, || async {
            let read = async {
                let found = self.begin(&path, options.clone()).await?;
                let (size, start) = (found.meta.size, range.as_ref().map_or(0, |range| range.start));
                let expected = range.as_ref().map_or(size, |range| range.end.min(size)).saturating_sub(start);
                let bytes = all_bytes(found).await?;
                if bytes.len() as u64 != expected {
                    let source = format!("reply has {} of {expected} bytes", bytes.len());
                    return Err(object_store::Error::Generic { store: "get", source: source.into() });
                }
                Ok(Fetched { start, bytes, size })
            };
            match read.await {
                Ok(fetched) => Ok(Ok(fetched)),
                Err(e) if range.is_none() => Err(e),
                Err(e) => self.or_too_short(key, last, e).await.map(Err),
            }
        });
        let fetched = fetched.await??;
        self.shared.counters.got(fetched.bytes.len());
        Ok(fetched)
    }
}

/// The fetched parts of an object by their start; they do not overlap.
#[derive(Debug, Default)]
struct Found {
    parts: BTreeMap<u64, Bytes>,
    size: Option<u64>,
}

impl Found {
    fn add(&mut self, number: u64, block: Block) {
        self.size = Some(block.size);
        self.parts.insert(number * BLOCK_BYTES, block.bytes);
    }

    /// Adds fetched bytes; they replace blocks that were fetched again between missing ones.
    fn add_fetched(&mut self, fetched: Fetched) {
        let end = fetched.start + fetched.bytes.len() as u64;
        self.size = Some(fetched.size);
        self.parts.retain(|start, _| !(fetched.start..end).contains(start));
        self.parts.insert(fetched.start, fetched.bytes);
    }

    /// The part that contains a byte, and its start.
    fn part(&self, at: u64) -> Option<(u64, &Bytes)> {
        let (start, bytes) = self.parts.range(..=at).next_back()?;
        (at - start < bytes.len() as u64).then_some((*start, bytes))
    }

    fn has(&self, number: u64) -> bool {
        let start = number * BLOCK_BYTES;
        self.part(start).is_some() || self.parts.contains_key(&start)
    }

    /// Whether the object is known to end before a block.
    fn is_beyond(&self, number: u64) -> bool {
        self.size.is_some_and(|size| block_len(size, number) == 0)
    }

    fn range(&self, key: &str, range: &Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let size = self.size.unwrap_or(range.end);
        whole(key, range, size.min(range.end).saturating_sub(range.start))?;
        let lacks = || Error::unavailable("a block of an object could not be read").with("key", key);
        let (start, bytes) = self.part(range.start).ok_or_else(lacks)?;
        if range.end <= start + bytes.len() as u64 {
            return Ok(bytes.slice((range.start - start) as usize..(range.end - start) as usize));
        }
        let mut joined = BytesMut::with_capacity((range.end - range.start) as usize);
        let mut at = range.start;
        while at < range.end {
            let (start, bytes) = self.part(at).ok_or_else(lacks)?;
            let end = range.end.min(start + bytes.len() as u64);
            joined.extend_from_slice(&bytes[(at - start) as usize..(end - start) as usize]);
            at = end;
        }
        Ok(joined.freeze())
    }
}

#[cfg(test)]
mod tests;
