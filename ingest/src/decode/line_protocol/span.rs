//! Byte ranges of a body; they remain valid when the body grows.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// A byte range of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    start: usize,
    end: usize,
}

impl Span {
    pub(super) fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    #[inline]
    pub(super) fn len(self) -> usize {
        self.end - self.start
    }

    /// The bytes.
    #[inline]
    pub(super) fn of(self, body: &[u8]) -> &[u8] {
        &body[self.start..self.end]
    }
}

/// Maps byte strings of a body to numbers; all calls must pass the same body, which may have grown.
#[derive(Debug, Default)]
pub(super) struct SpanMap {
    table: HashTable<(Span, usize)>,
    hasher: DefaultHashBuilder,
}

impl SpanMap {
    #[inline]
    pub(super) fn get(&self, body: &[u8], key: &[u8]) -> Option<usize> {
        let hash = self.hasher.hash_one(key);
        self.table.find(hash, |(span, _)| span.of(body) == key).map(|(_, number)| *number)
    }

    /// Adds bytes that are not in the map yet.
    pub(super) fn insert(&mut self, body: &[u8], key: Span, number: usize) {
        let hash = self.hasher.hash_one(key.of(body));
        self.table.insert_unique(hash, (key, number), |(span, _)| self.hasher.hash_one(span.of(body)));
    }
}
