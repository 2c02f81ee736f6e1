//! Decoded pages of numbers, kept in memory up to a limit for later passes over the same files.
//!
//! Decompressing and decoding take most of the time of a query that reads many rows of a few columns. Files never change, so their
//! decoded pages can be used as long as there is memory for them. Pages belong to their column chunks: a pass finds the chunk once,
//! and its pages without a lock.
//!
//! A chunk is held from its second use on, so that files that are read once displace nothing. If memory is used up, it displaces
//! only chunks that have not been used since its own last use: of a set of chunks that is read again and again and does not fit, one
//! part stays, instead of each chunk displacing the one that is needed next.

use std::{
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use arrow::array::{Array, ArrayRef};
use parking_lot::Mutex;

use super::numbers::CachedPage;
use crate::ids::FileId;

/// Maximum number of chunks that are not held but whose last use is remembered.
const MOST_REMEMBERED: usize = 1 << 16;

/// Decoded pages of many files, bounded by bytes.
#[derive(Debug)]
pub struct PageCache {
    state: Mutex<State>,
    held: Arc<Held>,
}

/// Bytes of the pages that are in memory, and their limit.
#[derive(Debug)]
struct Held {
    bytes: AtomicUsize,
    capacity: usize,
}

/// A column chunk: file, row group, column.
pub(super) type ChunkKey = (FileId, usize, usize);

#[derive(Debug, Default)]
struct State {
    chunks: HashMap<ChunkKey, Slot>,
    /// Time of the last use of chunks that are not held.
    remembered: HashMap<ChunkKey, u64>,
    /// Advances with each use of a chunk.
    clock: u64,
    /// No held chunk was last used before this time.
    oldest: u64,
}

#[derive(Debug)]
struct Slot {
    chunk: Arc<CachedChunk>,
    used: u64,
}

/// The pages of a column chunk that were decoded so far. They stay in memory, and counted, until the last pass that uses the chunk
/// has ended.
#[derive(Debug)]
pub(super) struct CachedChunk {
    pages: Box<[OnceLock<CachedPage>]>,
    dictionary: OnceLock<ArrayRef>,
    /// Bytes of this chunk.
    bytes: AtomicUsize,
    held: Arc<Held>,
}

impl PageCache {
    /// Creates an empty cache for up to `capacity` bytes of pages.
    pub fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), held: Arc::new(Held { bytes: AtomicUsize::new(0), capacity }) }
    }

    /// Bytes of the pages in memory.
    pub fn bytes(&self) -> usize {
        self.held.bytes.load(Relaxed)
    }

    /// Returns the chunk of a key, of `pages` pages. `None` if it is not held: on its first use, or because more recently used
    /// chunks leave no room for `bytes` bytes.
    pub(super) fn chunk(&self, key: ChunkKey, pages: usize, bytes: usize) -> Option<Arc<CachedChunk>> {
        let mut state = self.state.lock();
        state.clock += 1;
        let now = state.clock;
        if let Some(slot) = state.chunks.get_mut(&key) {
            slot.used = now;
            return Some(slot.chunk.clone());
        }
        let last = state.remember(key, now)?;
        let own = size_of::<CachedChunk>() + pages * size_of::<OnceLock<CachedPage>>();
        if !state.make_room(last, bytes.saturating_add(own), &self.held) || !self.held.add(own) {
            return None;
        }
        let chunk = Arc::new(CachedChunk {
            pages: (0..pages).map(|_| OnceLock::new()).collect(),
            dictionary: OnceLock::new(),
            bytes: AtomicUsize::new(own),
            held: self.held.clone(),
        });
        state.remembered.remove(&key);
        state.chunks.insert(key, Slot { chunk: chunk.clone(), used: now });
        Some(chunk)
    }
}

impl State {
    /// Returns when a chunk that is not held was last used, if that is known, and remembers this use.
    fn remember(&mut self, key: ChunkKey, now: u64) -> Option<u64> {
        let last = self.remembered.insert(key, now);
        if self.remembered.len() > MOST_REMEMBERED {
            let recent = now.saturating_sub(MOST_REMEMBERED as u64 / 2);
            self.remembered.retain(|_, used| *used > recent);
        }
        last
    }

    /// Drops chunks that were last used before the time `last`, the oldest first, until there is room for `bytes` bytes. Returns
    /// whether there is.
    fn make_room(&mut self, last: u64, bytes: usize, held: &Held) -> bool {
        let mut used = held.bytes.load(Relaxed);
        let fits = |used: usize| used.saturating_add(bytes) <= held.capacity;
        if fits(used) || bytes > held.capacity || last <= self.oldest {
            return fits(used);
        }
        let mut chunks: Vec<(u64, ChunkKey)> = self.chunks.iter().map(|(key, slot)| (slot.used, *key)).collect();
        chunks.sort_unstable_by_key(|(used, _)| *used);
        // More than is needed: the list is made again for the next chunk that does not fit.
        let spare = held.capacity / 16;
        let mut left = chunks.into_iter().peekable();
        while let Some((at, key)) = left.next_if(|(at, _)| *at < last && !fits(used.saturating_add(spare))) {
            if let Some(slot) = self.chunks.remove(&key) {
                used = used.saturating_sub(slot.chunk.bytes.load(Relaxed));
                self.remembered.insert(key, at);
            }
        }
        self.oldest = left.peek().map_or(last, |(at, _)| *at);
        fits(used)
    }
}

impl Held {
    /// Counts more bytes, if the limit permits.
    fn add(&self, bytes: usize) -> bool {
        let more = |held: usize| held.checked_add(bytes).filter(|held| *held <= self.capacity);
        self.bytes.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    fn subtract(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

impl CachedChunk {
    /// The page at an index, if it is held.
    pub(super) fn page(&self, at: usize) -> Option<&CachedPage> {
        self.pages.get(at)?.get()
    }

    /// Whether the cache is not full.
    pub(super) fn has_room(&self) -> bool {
        self.held.bytes.load(Relaxed) < self.held.capacity
    }

    /// Holds a page, if there is room.
    pub(super) fn put(&self, at: usize, page: &CachedPage) {
        let Some(place) = self.pages.get(at) else { return };
        self.hold(place, page.bytes(), || page.clone());
    }

    /// The values of the codes, if they are held.
    pub(super) fn dictionary(&self) -> Option<&ArrayRef> {
        self.dictionary.get()
    }

    /// Holds the values of the codes, if there is room.
    pub(super) fn put_dictionary(&self, dictionary: &ArrayRef) {
        self.hold(&self.dictionary, dictionary.get_array_memory_size(), || dictionary.clone());
    }

    fn hold<T>(&self, place: &OnceLock<T>, bytes: usize, value: impl FnOnce() -> T) {
        if place.get().is_some() || !self.held.add(bytes) {
            return;
        }
        match place.set(value()) {
            Ok(()) => {
                self.bytes.fetch_add(bytes, Relaxed);
            }
            // Another pass was faster.
            Err(_) => self.held.subtract(bytes),
        }
    }
}

impl Drop for CachedChunk {
    fn drop(&mut self) {
        self.held.subtract(*self.bytes.get_mut());
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const EACH: usize = 100_000;

    fn key(n: usize) -> ChunkKey {
        (FileId(7), n / 10, n % 10)
    }

    /// Uses chunk `n`, whose page has [`EACH`] bytes, and returns whether its page was held before.
    fn uses(cache: &PageCache, n: usize) -> bool {
        let Some(chunk) = cache.chunk(key(n), 1, EACH) else { return false };
        let was_held = chunk.page(0).is_some();
        chunk.put(0, &CachedPage::codes(Bytes::from(vec![n as u8; EACH])));
        assert!(cache.bytes() <= cache.held.capacity);
        was_held
    }

    fn hits(cache: &PageCache, chunks: std::ops::Range<usize>) -> usize {
        chunks.filter(|n| uses(cache, *n)).count()
    }

    #[test]
    fn a_chunk_is_held_from_its_second_use_on() {
        let cache = PageCache::new(10 * EACH);
        assert_eq!([0; 3].map(|n| uses(&cache, n)), [false, false, true]);
        assert!(cache.bytes() >= EACH);
        assert_eq!(hits(&PageCache::new(0), 0..1), 0);
    }

    #[test]
    fn a_part_of_a_set_that_does_not_fit_stays() {
        let cache = PageCache::new(10 * EACH + EACH / 2);
        let found: Vec<usize> = (0..6).map(|_| hits(&cache, 0..20)).collect();
        assert_eq!(found, [0, 0, 10, 10, 10, 10]);
        // Passes over other files displace nothing when they happen once, and everything when they alone go on.
        assert_eq!((hits(&cache, 100..120), hits(&cache, 0..20)), (0, 10));
        let found: Vec<usize> = (0..4).map(|_| hits(&cache, 200..210)).collect();
        assert_eq!(found, [0, 0, 10, 10]);
    }

    #[test]
    fn bytes_are_counted_until_the_last_user_has_ended() {
        let cache = PageCache::new(EACH + EACH / 2);
        hits(&cache, 0..1);
        let used = cache.chunk(key(0), 1, EACH).unwrap();
        used.put(0, &CachedPage::codes(Bytes::from(vec![7; EACH])));
        (0..3).for_each(|_| assert!(!uses(&cache, 1)));
        let held = cache.bytes();
        assert!(held >= EACH && cache.chunk(key(0), 1, EACH).is_none(), "it was displaced, and is counted");
        drop(used);
        assert!(cache.bytes() < held);
        assert_eq!([1; 3].map(|n| uses(&cache, n)), [false, true, true]);
    }

    #[test]
    fn passes_that_use_the_same_chunks_at_once_count_each_page_once() {
        let cache = PageCache::new(40 * EACH);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..5).for_each(|_| _ = hits(&cache, 0..30)));
            }
        });
        let held: usize = cache.state.lock().chunks.values().map(|slot| slot.chunk.bytes.load(Relaxed)).sum();
        assert_eq!((cache.bytes(), hits(&cache, 0..30)), (held, 30));
        cache.state.lock().chunks.clear();
        assert_eq!(cache.bytes(), 0);
    }
}
