//! Decoded pages of numbers, kept in memory up to a limit for later passes over the same files.
//!
//! Decompressing and decoding take most of the time of a query that reads many rows of a few columns. Files never change, so their
//! decoded pages can be used as long as there is memory for them. Pages belong to their column chunks: a pass finds the chunk once,
//! and its pages without a lock.
//!
//! A chunk is held from the second pass on that uses it, so that files that are read once displace nothing. If memory is used up, it
//! displaces only chunks that have not been used since its own last use: of a set of chunks that is read again and again and does not
//! fit, one part stays, instead of each chunk displacing the one that is needed next.

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
type ChunkKey = (FileId, usize, usize);

#[derive(Debug, Default)]
struct State {
    chunks: HashMap<ChunkKey, (Arc<CachedChunk>, Use)>,
    /// The last use of chunks that are not held.
    remembered: HashMap<ChunkKey, Use>,
    /// Advances with each use of a chunk.
    clock: u64,
    /// No held chunk was last used before this time.
    oldest: u64,
}

/// The last use of a chunk.
#[derive(Debug, Clone, Copy)]
struct Use {
    at: u64,
    /// The pass that used it, and the time of the last use by another pass; `None` if there was none.
    pass: u64,
    before: Option<u64>,
}

impl Use {
    fn by(last: Option<Use>, pass: u64, at: u64) -> Self {
        let before = match last {
            Some(last) if last.pass == pass => last.before,
            last => last.map(|last| last.at),
        };
        Self { at, pass, before }
    }
}

/// A cache for the pages of one file, for one pass.
#[derive(Debug, Clone)]
pub struct Pages {
    /// The cache.
    pub cache: Arc<PageCache>,
    /// ID of the file.
    pub file: FileId,
    /// Number of the pass, or of the statement that makes several: uses by one pass count once.
    pub pass: u64,
}

impl Pages {
    pub(super) fn chunk(&self, group: usize, column: usize, pages: usize, bytes: usize) -> Option<Arc<CachedChunk>> {
        self.cache.chunk((self.file, group, column), self.pass, pages, bytes)
    }
}

/// The pages of a column chunk that were decoded so far. They stay in memory, and counted, while a pass uses the chunk.
#[derive(Debug)]
pub(super) struct CachedChunk {
    pages: Box<[OnceLock<CachedPage>]>,
    dictionary: OnceLock<ArrayRef>,
    /// Counted bytes of this chunk.
    bytes: AtomicUsize,
    /// Those of them that no page takes yet.
    reserved: AtomicUsize,
    held: Arc<Held>,
}

impl PageCache {
    /// Creates an empty cache for up to `capacity` bytes of pages.
    pub fn new(capacity: usize) -> Self {
        Self { state: Mutex::default(), held: Arc::new(Held { bytes: AtomicUsize::new(0), capacity }) }
    }

    /// Bytes of the pages in memory, and of those that passes are about to decode.
    pub fn bytes(&self) -> usize {
        self.held.bytes.load(Relaxed)
    }

    /// Returns the chunk of a key, of `pages` pages, for a pass that will hold about `bytes` bytes of it. `None` if the chunk is not
    /// held: on its first use, or because more recently used chunks leave no room.
    fn chunk(&self, key: ChunkKey, pass: u64, pages: usize, bytes: usize) -> Option<Arc<CachedChunk>> {
        let own = size_of::<CachedChunk>() + pages * size_of::<OnceLock<CachedPage>>();
        let wanted = bytes.saturating_add(own);
        let mut state = self.state.lock();
        state.clock += 1;
        let now = state.clock;
        let held = state.chunks.get_mut(&key).map(|(chunk, last)| {
            *last = Use::by(Some(*last), pass, now);
            (chunk.clone(), *last)
        });
        if let Some((chunk, used)) = held {
            let lacks = wanted.saturating_sub(chunk.bytes.load(Relaxed));
            let displaced = match used.before {
                Some(before) if lacks > 0 => state.make_room(before, lacks, &self.held),
                _ => Vec::new(),
            };
            drop(state);
            drop(displaced);
            chunk.reserve(lacks);
            return Some(chunk);
        }
        let before = state.remember(key, pass, now)?;
        let displaced = state.make_room(before, wanted, &self.held);
        let chunk = self.held.add(wanted).then(|| {
            Arc::new(CachedChunk {
                pages: (0..pages).map(|_| OnceLock::new()).collect(),
                dictionary: OnceLock::new(),
                bytes: AtomicUsize::new(wanted),
                reserved: AtomicUsize::new(bytes),
                held: self.held.clone(),
            })
        });
        if let Some(chunk) = &chunk
            && let Some(used) = state.remembered.remove(&key)
        {
            state.chunks.insert(key, (chunk.clone(), used));
        }
        drop(state);
        // Not under the lock: their pages are freed.
        drop(displaced);
        chunk
    }
}

impl State {
    /// Remembers this use of a chunk that is not held, and returns when another pass last used it, if one is known to have.
    fn remember(&mut self, key: ChunkKey, pass: u64, now: u64) -> Option<u64> {
        let used = Use::by(self.remembered.get(&key).copied(), pass, now);
        self.remembered.insert(key, used);
        if self.remembered.len() > MOST_REMEMBERED {
            let recent = now.saturating_sub(MOST_REMEMBERED as u64 / 2);
            self.remembered.retain(|_, used| used.at > recent);
        }
        used.before
    }

    /// Takes out chunks that were last used before the time `before` and that no pass uses now, the oldest first, until there is room
    /// for `bytes` bytes without them.
    fn make_room(&mut self, before: u64, bytes: usize, held: &Held) -> Vec<Arc<CachedChunk>> {
        let mut used = held.bytes.load(Relaxed);
        let fits = |used: usize| used.saturating_add(bytes) <= held.capacity;
        if fits(used) || bytes > held.capacity || before <= self.oldest {
            return Vec::new();
        }
        let mut chunks: Vec<(u64, ChunkKey)> = self.chunks.iter().map(|(key, (_, used))| (used.at, *key)).collect();
        chunks.sort_unstable_by_key(|(at, _)| *at);
        self.oldest = before;
        // More than is needed: the list is made again for the next chunk that does not fit.
        let spare = held.capacity / 16;
        let mut displaced = Vec::new();
        for (at, key) in chunks {
            if at >= before || fits(used.saturating_add(spare)) {
                self.oldest = self.oldest.min(at);
                break;
            }
            let Some((chunk, last)) = self.chunks.remove(&key) else { continue };
            if Arc::strong_count(&chunk) > 1 {
                self.oldest = self.oldest.min(at);
                self.chunks.insert(key, (chunk, last));
                continue;
            }
            used = used.saturating_sub(chunk.bytes.load(Relaxed));
            self.remembered.insert(key, last);
            displaced.push(chunk);
        }
        // They count until they are dropped, but make room now.
        displaced.iter().for_each(|chunk| chunk.give_up());
        displaced
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

    /// Whether there is room for a page of `bytes` bytes.
    pub(super) fn has_room(&self, bytes: usize) -> bool {
        bytes <= self.reserved.load(Relaxed)
            || self.held.bytes.load(Relaxed).saturating_add(bytes) <= self.held.capacity
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

    /// Returns the memory that is reserved for pages: their encoding is not one that is held.
    pub(super) fn holds_nothing(&self) {
        let reserved = self.reserved.swap(0, Relaxed);
        self.bytes.fetch_sub(reserved, Relaxed);
        self.held.subtract(reserved);
    }

    /// Reserves memory for further pages, if there is room.
    fn reserve(&self, bytes: usize) {
        if bytes > 0 && self.held.add(bytes) {
            self.bytes.fetch_add(bytes, Relaxed);
            self.reserved.fetch_add(bytes, Relaxed);
        }
    }

    /// Counts this chunk no longer; for a chunk that is about to be dropped.
    fn give_up(&self) {
        self.reserved.store(0, Relaxed);
        self.held.subtract(self.bytes.swap(0, Relaxed));
    }

    fn hold<T>(&self, place: &OnceLock<T>, bytes: usize, value: impl FnOnce() -> T) {
        if place.get().is_some() {
            return;
        }
        let less = |reserved: usize| reserved.checked_sub(bytes);
        if self.reserved.fetch_update(Relaxed, Relaxed, less).is_err() {
            if !self.held.add(bytes) {
                return;
            }
            self.bytes.fetch_add(bytes, Relaxed);
        }
        if place.set(value()).is_err() {
            // Another pass was faster.
            self.reserved.fetch_add(bytes, Relaxed);
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

    /// Lets a pass use chunk `n`, whose page has [`EACH`] bytes, and returns whether its page was held before.
    fn uses(cache: &PageCache, pass: u64, n: usize) -> bool {
        let Some(chunk) = cache.chunk(key(n), pass, 1, EACH) else { return false };
        let was_held = chunk.page(0).is_some();
        chunk.put(0, &CachedPage::codes(Bytes::from(vec![n as u8; EACH])));
        assert!(cache.bytes() <= cache.held.capacity);
        was_held
    }

    /// Lets a pass use chunks, and returns of how many the page was held before.
    fn hits(cache: &PageCache, pass: u64, chunks: std::ops::Range<usize>) -> usize {
        chunks.filter(|n| uses(cache, pass, *n)).count()
    }

    #[test]
    fn a_chunk_is_held_from_the_second_pass_on() {
        let cache = PageCache::new(10 * EACH);
        assert_eq!([1, 1, 2, 2, 3].map(|pass| uses(&cache, pass, 0)), [false, false, false, true, true]);
        assert!(cache.bytes() >= EACH);
        assert_eq!((0..4).map(|pass| hits(&PageCache::new(0), pass, 0..1)).sum::<usize>(), 0);
    }

    #[test]
    fn a_part_of_a_set_that_does_not_fit_stays() {
        let cache = PageCache::new(10 * EACH + EACH / 2);
        let found: Vec<usize> = (0..6).map(|pass| hits(&cache, pass, 0..20)).collect();
        assert_eq!(found, [0, 0, 10, 10, 10, 10]);
        // A pass over other files displaces nothing, however often it uses them, and passes that alone go on displace everything.
        assert_eq!((0..3).map(|_| hits(&cache, 7, 100..120)).sum::<usize>(), 0);
        assert_eq!(hits(&cache, 8, 0..20), 10);
        let found: Vec<usize> = (10..14).map(|pass| hits(&cache, pass, 200..210)).collect();
        assert_eq!(found, [0, 0, 10, 10]);
    }

    #[test]
    fn chunks_that_a_pass_looks_up_before_it_decodes_have_their_room() {
        let cache = PageCache::new(10 * EACH + EACH / 2);
        (0..3).for_each(|pass| _ = hits(&cache, pass, 50..60));
        let mut held = Vec::new();
        for pass in 5..7 {
            held = (0..10).filter_map(|n| Some((n, cache.chunk(key(n), pass, 1, EACH)?))).collect();
        }
        assert_eq!(held.len(), 10, "all of them displace older ones");
        held.iter().for_each(|(n, chunk)| chunk.put(0, &CachedPage::codes(Bytes::from(vec![*n as u8; EACH]))));
        drop(held);
        assert_eq!(hits(&cache, 8, 0..10), 10);
    }

    #[test]
    fn a_chunk_of_which_more_is_used_displaces_others() {
        let cache = PageCache::new(10 * EACH + EACH / 2);
        (0..2).for_each(|pass| {
            _ = cache.chunk(key(0), pass, 10, EACH).map(|chunk| chunk.put(0, &CachedPage::Even(1, 1)))
        });
        (2..4).for_each(|pass| _ = hits(&cache, pass, 50..59));
        for pass in 4..6 {
            let chunk = cache.chunk(key(0), pass, 10, 6 * EACH).unwrap();
            (1..6).for_each(|at| chunk.put(at, &CachedPage::codes(Bytes::from(vec![1; EACH]))));
            assert!(cache.bytes() <= cache.held.capacity);
        }
        let chunk = cache.chunk(key(0), 6, 10, 6 * EACH).unwrap();
        assert_eq!((0..10).filter(|at| chunk.page(*at).is_some()).count(), 6);
        // Pages of an encoding that is not held take no room.
        let before = cache.bytes();
        chunk.reserve(EACH);
        chunk.holds_nothing();
        assert!(cache.bytes() <= before);
    }

    #[test]
    fn chunks_in_use_are_not_displaced() {
        let cache = PageCache::new(EACH + EACH / 2);
        (0..2).for_each(|pass| _ = hits(&cache, pass, 0..1));
        let used = cache.chunk(key(0), 2, 1, EACH).unwrap();
        (3..6).for_each(|pass| assert!(!uses(&cache, pass, 1)));
        drop(used);
        assert_eq!([6, 7].map(|pass| uses(&cache, pass, 1)), [false, true]);
        assert!(!uses(&cache, 8, 0));
    }

    #[test]
    fn passes_that_use_the_same_chunks_at_once_count_each_page_once() {
        let cache = PageCache::new(40 * EACH);
        let cache = &cache;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || (0..5).for_each(|pass| _ = hits(cache, 10 * thread + pass, 0..30)));
            }
        });
        let held: usize = cache.state.lock().chunks.values().map(|(chunk, _)| chunk.bytes.load(Relaxed)).sum();
        assert_eq!((cache.bytes(), hits(cache, 99, 0..30)), (held, 30));
        cache.state.lock().chunks.clear();
        assert_eq!(cache.bytes(), 0);
    }
}
