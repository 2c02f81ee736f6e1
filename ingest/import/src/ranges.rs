//! Files that are read in ranges, such as objects of a bucket: from front to back, or anywhere through a bounded cache.

use std::{
    collections::VecDeque,
    fmt,
    io::{self, Read},
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use bytes::{Buf as _, Bytes};

use crate::progress::Progress;

/// Bytes of a request that reads a file from front to back. One request is ahead of the reader.
const CHUNK: u64 = 4 << 20;
/// Bytes that [`Blocks`] keep at most.
const KEPT: u64 = 128 << 20;
/// Bytes of a block.
const SMALLEST_BLOCK: u64 = 64 << 10;
const LARGEST_BLOCK: u64 = 4 << 20;

/// A file that is read in ranges. Its content does not change: a read of changed content is an error.
pub trait Ranges: fmt::Debug + Send + Sync {
    /// Size in bytes.
    fn bytes(&self) -> u64;

    /// Identifies the content, such as an ETag: other content has another version.
    fn version(&self) -> &str;

    /// Begins to read a range within the file.
    fn begin(&self, range: Range<u64>) -> Pending;
}

/// Waits for the bytes of a range: all of them, or an error. Dropped without being called, it cancels the read.
pub type Pending = Box<dyn FnOnce() -> io::Result<Bytes> + Send>;

/// Reads a file from its first byte to its last.
pub(crate) struct Sequential {
    ranges: Arc<dyn Ranges>,
    chunk: Bytes,
    ahead: Option<Pending>,
    /// End of the last range that was begun.
    begun: u64,
    progress: Progress,
}

impl Sequential {
    pub(crate) fn new(ranges: Arc<dyn Ranges>, progress: Progress) -> Self {
        Self { ranges, chunk: Bytes::new(), ahead: None, begun: 0, progress }
    }

    /// The next bytes, which stay unread; none at the end of the file.
    pub(crate) fn peek(&mut self) -> io::Result<&[u8]> {
        while self.chunk.is_empty() {
            let Some(next) = self.ahead.take().or_else(|| self.next()) else { break };
            self.ahead = self.next();
            self.chunk = next()?;
        }
        Ok(&self.chunk)
    }

    fn next(&mut self) -> Option<Pending> {
        let from = self.begun;
        self.begun = (from + CHUNK).min(self.ranges.bytes());
        (from < self.begun).then(|| self.ranges.begin(from..self.begun))
    }
}

impl Read for Sequential {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.peek()?.len().min(buffer.len());
        self.chunk.copy_to_slice(&mut buffer[..read]);
        (self.progress)(read as u64);
        Ok(read)
    }
}

/// A file with a cache of its blocks, for readers that read several places in turn.
pub(crate) struct Blocks {
    ranges: Arc<dyn Ranges>,
    block: u64,
    /// Blocks by their index, the least recently used first.
    kept: Mutex<VecDeque<(u64, Bytes)>>,
}

impl Blocks {
    /// A cache for a reader that alternates between this number of places.
    pub(crate) fn new(ranges: Arc<dyn Ranges>, places: usize) -> Self {
        let block = (KEPT / (places as u64 + 1)).clamp(SMALLEST_BLOCK, LARGEST_BLOCK);
        Self { ranges, block, kept: Mutex::default() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.ranges.bytes()
    }

    pub(crate) fn ranges(&self) -> Arc<dyn Ranges> {
        self.ranges.clone()
    }

    /// The bytes at a position up to the end of their block; none at the end of the file.
    pub(crate) fn at(&self, at: u64) -> io::Result<Bytes> {
        if at >= self.bytes() {
            return Ok(Bytes::new());
        }
        let index = at / self.block;
        let begin = index * self.block;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.iter().position(|(known, _)| *known == index);
        let bytes = match known.and_then(|known| kept.remove(known)) {
            Some((_, bytes)) => bytes,
            None => self.ranges.begin(begin..(begin + self.block).min(self.bytes()))()?,
        };
        if kept.len() as u64 >= KEPT / self.block {
            kept.pop_front();
        }
        kept.push_back((index, bytes.clone()));
        Ok(bytes.slice(usize::try_from(at - begin).map_err(io::Error::other)?..))
    }
}

/// A position in a file with a cache of its blocks.
pub(crate) struct InBlocks {
    pub(crate) blocks: Arc<Blocks>,
    pub(crate) at: u64,
}

impl Read for InBlocks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut bytes = self.blocks.at(self.at)?;
        let read = bytes.len().min(buffer.len());
        bytes.copy_to_slice(&mut buffer[..read]);
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use super::*;
    use crate::progress::unwatched;

    /// Bytes in memory that count the requests and those that were begun and not read yet.
    #[derive(Debug, Default)]
    struct Counted {
        bytes: Bytes,
        requests: AtomicU64,
        pending: Arc<AtomicU64>,
        most_pending: AtomicU64,
    }

    impl Ranges for Counted {
        fn bytes(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn version(&self) -> &str {
            "1"
        }

        fn begin(&self, range: Range<u64>) -> Pending {
            self.requests.fetch_add(1, Relaxed);
            let pending = self.pending.fetch_add(1, Relaxed) + 1;
            self.most_pending.fetch_max(pending, Relaxed);
            let bytes = self.bytes.slice(range.start as usize..range.end as usize);
            let pending = self.pending.clone();
            Box::new(move || {
                pending.fetch_sub(1, Relaxed);
                Ok(bytes)
            })
        }
    }

    fn counted(length: u64) -> Arc<Counted> {
        let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
        Arc::new(Counted { bytes: bytes.into(), ..Counted::default() })
    }

    #[test]
    fn a_file_is_read_once_from_front_to_back_with_one_request_ahead() {
        for length in [0, 1, CHUNK - 1, CHUNK, 3 * CHUNK + 5] {
            let file = counted(length);
            let mut all = Vec::new();
            let mut reader = Sequential::new(file.clone(), unwatched());
            assert_eq!(reader.peek().unwrap().is_empty(), length == 0);
            reader.read_to_end(&mut all).unwrap();
            assert!(all == file.bytes, "{length} bytes");
            assert_eq!(file.requests.load(Relaxed), length.div_ceil(CHUNK));
            assert!(file.most_pending.load(Relaxed) <= 2);
        }
    }

    #[test]
    fn places_that_are_read_in_turn_are_requested_once_and_the_cache_is_bounded() {
        let file = counted(3 * LARGEST_BLOCK + 7);
        let blocks = Arc::new(Blocks::new(file.clone(), 3));
        let mut places: Vec<InBlocks> =
            (0..3).map(|at| InBlocks { blocks: blocks.clone(), at: at * LARGEST_BLOCK }).collect();
        let mut buffer = [0; 1_000];
        for step in 0..100 {
            for (place, reader) in places.iter_mut().enumerate() {
                reader.read_exact(&mut buffer).unwrap();
                let from = place * LARGEST_BLOCK as usize + step * 1_000;
                assert!(buffer == file.bytes[from..from + 1_000]);
            }
        }
        assert_eq!(file.requests.load(Relaxed), 3);
        assert_eq!(blocks.at(3 * LARGEST_BLOCK + 6).unwrap().len(), 1);
        assert!(blocks.at(3 * LARGEST_BLOCK + 7).unwrap().is_empty());

        let many = Blocks::new(counted(KEPT + 10 * SMALLEST_BLOCK), 1 << 20);
        for index in 0..KEPT / SMALLEST_BLOCK + 10 {
            many.at(index * SMALLEST_BLOCK).unwrap();
            assert!(many.kept.lock().unwrap().len() as u64 <= KEPT / SMALLEST_BLOCK);
        }
    }
}
