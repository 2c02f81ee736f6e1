//! Counts of store requests: what a bill would show.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Requests and bytes so far, by kind; differences of two readings cost what happened between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StoreCounters {
    /// PUT requests, repeated ones included.
    pub put: u64,
    /// Bytes sent in PUT requests.
    pub put_bytes: u64,
    /// GET requests: one per span of near ranges.
    pub get: u64,
    /// Bytes received in answer to GET requests.
    pub get_bytes: u64,
    /// HEAD requests.
    pub head: u64,
    /// LIST requests, one per page.
    pub list: u64,
    /// DELETE requests.
    pub delete: u64,
}

impl StoreCounters {
    /// All requests.
    pub fn requests(&self) -> u64 {
        self.put + self.get + self.head + self.list + self.delete
    }

    /// What happened since an earlier reading.
    pub fn since(&self, earlier: &StoreCounters) -> StoreCounters {
        StoreCounters {
            put: self.put - earlier.put,
            put_bytes: self.put_bytes - earlier.put_bytes,
            get: self.get - earlier.get,
            get_bytes: self.get_bytes - earlier.get_bytes,
            head: self.head - earlier.head,
            list: self.list - earlier.list,
            delete: self.delete - earlier.delete,
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
    /// What counts all of this too.
    whole: Option<Arc<Counters>>,
}

impl Counters {
    /// From zero; `whole` counts the same and more.
    pub(super) fn part_of(whole: Arc<Counters>) -> Self {
        Self { whole: Some(whole), ..Self::default() }
    }

    /// This one and those that it is a part of.
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

    pub(super) fn read(&self) -> StoreCounters {
        StoreCounters {
            put: self.put.load(Relaxed),
            put_bytes: self.put_bytes.load(Relaxed),
            get: self.get.load(Relaxed),
            get_bytes: self.get_bytes.load(Relaxed),
            head: self.head.load(Relaxed),
            list: self.list.load(Relaxed),
            delete: self.delete.load(Relaxed),
        }
    }
}
