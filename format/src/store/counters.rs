//! Counts of store requests, as a bill would list them, and of requests saved by the disk cache.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Requests and bytes so far, by kind; the difference of two readings is the cost of the time between.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// PUT requests, including retries.
    pub put: u64,
    /// Bytes sent in PUT requests.
    pub put_bytes: u64,
    /// GET requests: one per span of near ranges.
    pub get: u64,
    /// Bytes received in replies to GET requests.
    pub get_bytes: u64,
    /// HEAD requests.
    pub head: u64,
    /// LIST requests, one per page.
    pub list: u64,
    /// DELETE requests.
    pub delete: u64,
    /// Blocks read from the disk cache instead of the store.
    pub cache_blocks: u64,
    /// Bytes of these blocks.
    pub cache_bytes: u64,
    /// Blocks that were not in the disk cache.
    pub cache_misses: u64,
    /// Cache misses caused by a block that could not be read.
    pub cache_errors: u64,
}

impl StoreCounters {
    /// Total number of requests.
    pub fn requests(&self) -> u64 {
        self.put + self.get + self.head + self.list + self.delete
    }

    /// The difference to an earlier reading.
    pub fn since(&self, earlier: &StoreCounters) -> StoreCounters {
        StoreCounters {
            put: self.put - earlier.put,
            put_bytes: self.put_bytes - earlier.put_bytes,
            get: self.get - earlier.get,
            get_bytes: self.get_bytes - earlier.get_bytes,
            head: self.head - earlier.head,
            list: self.list - earlier.list,
            delete: self.delete - earlier.delete,
            cache_blocks: self.cache_blocks - earlier.cache_blocks,
            cache_bytes: self.cache_bytes - earlier.cache_bytes,
            cache_misses: self.cache_misses - earlier.cache_misses,
            cache_errors: self.cache_errors - earlier.cache_errors,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    put: AtomicU64,
    put_bytes: AtomicU64,
    get: AtomicU64,
    get_bytes: AtomicU64,
    head: AtomicU64,
    list: AtomicU64,
    delete: AtomicU64,
    cache_blocks: AtomicU64,
    cache_bytes: AtomicU64,
    cache_misses: AtomicU64,
    cache_errors: AtomicU64,
    /// Counters that include all counts of this one.
    whole: Option<Arc<Counters>>,
}

impl Counters {
    /// Creates counters at zero whose counts are included in `whole`.
    pub(super) fn part_of(whole: Arc<Counters>) -> Self {
        Self { whole: Some(whole), ..Self::default() }
    }

    /// Applies `count` to these counters and to all that include them.
    fn each(&self, count: impl Fn(&Self)) {
        let mut next = Some(self);
        while let Some(counters) = next {
            count(counters);
            next = counters.whole.as_deref();
        }
    }

    pub(super) fn put(&self, bytes: usize) {
        self.each(|c| {
            c.put.fetch_add(1, Relaxed);
            c.put_bytes.fetch_add(bytes as u64, Relaxed);
        });
    }

    pub(super) fn get(&self) {
        self.each(|c| _ = c.get.fetch_add(1, Relaxed));
    }

    pub(super) fn got(&self, bytes: usize) {
        self.each(|c| _ = c.get_bytes.fetch_add(bytes as u64, Relaxed));
    }

    pub(super) fn head(&self) {
        self.each(|c| _ = c.head.fetch_add(1, Relaxed));
    }

    pub(super) fn list(&self) {
        self.each(|c| _ = c.list.fetch_add(1, Relaxed));
    }

    pub(super) fn delete(&self) {
        self.each(|c| _ = c.delete.fetch_add(1, Relaxed));
    }

    /// Counts a block read from the disk cache.
    pub(super) fn cached(&self, bytes: usize) {
        self.each(|c| {
            c.cache_blocks.fetch_add(1, Relaxed);
            c.cache_bytes.fetch_add(bytes as u64, Relaxed);
        });
    }

    /// Counts a block missing from the disk cache; `failed` if it was there but could not be read.
    pub(super) fn not_cached(&self, failed: bool) {
        self.each(|c| {
            c.cache_misses.fetch_add(1, Relaxed);
            c.cache_errors.fetch_add(u64::from(failed), Relaxed);
        });
    }

    pub(super) fn read(&self) -> StoreCounters {
        StoreCounters {
            put: self.put.load(Relaxed),
            put_bytes: self.put_bytes.load(Relaxed),
            get: self.get.load(Relaxed),
            get_bytes: self.get_bytes.load(Relaxed),
            head: self.head.load(Relaxed),
            list: self.list.load(Relaxed),
            delete: self.delete.load(Relaxed),
            cache_blocks: self.cache_blocks.load(Relaxed),
            cache_bytes: self.cache_bytes.load(Relaxed),
            cache_misses: self.cache_misses.load(Relaxed),
            cache_errors: self.cache_errors.load(Relaxed),
        }
    }
}
