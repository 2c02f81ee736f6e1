//! The statement buffer: counts bytes of bodies, messages and their decompressed content while they are read.

use std::{
    fmt,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use tidelake_format::{Error, Result};

/// Default size, without a server's setting.
const DEFAULT_BYTES: usize = 256 << 20;

/// The statement buffer. Cheap to clone: all clones share one count. The server puts it into the extensions of each
/// request.
#[derive(Clone)]
pub struct StatementBuffer(Arc<(AtomicUsize, usize)>);

/// Bytes counted in the buffer until this is dropped.
#[derive(Debug)]
pub struct Taken {
    buffer: StatementBuffer,
    bytes: usize,
}

impl StatementBuffer {
    /// Creates an empty buffer of a size in bytes.
    pub fn new(most: usize) -> Self {
        Self(Arc::new((AtomicUsize::new(0), most)))
    }

    /// The count of bytes, for callers that count themselves, and the size.
    pub fn parts(&self) -> (&AtomicUsize, usize) {
        (&self.0.0, self.0.1)
    }

    /// Creates an empty count, to which bytes can be added.
    pub(crate) fn begin(&self) -> Taken {
        Taken { buffer: self.clone(), bytes: 0 }
    }
}

impl Default for StatementBuffer {
    /// The buffer of a process without a server's settings.
    fn default() -> Self {
        static BUFFER: LazyLock<StatementBuffer> = LazyLock::new(|| StatementBuffer::new(DEFAULT_BYTES));
        BUFFER.clone()
    }
}

impl fmt::Debug for StatementBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StatementBuffer").field("bytes", &self.0.0.load(Relaxed)).field("most", &self.0.1).finish()
    }
}

impl Taken {
    /// # Errors
    /// Unavailable, and nothing is added, if the buffer has no room for more bytes.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<()> {
        let (held, most) = self.buffer.parts();
        let room = |held: usize| held.checked_add(bytes).filter(|held| *held <= most);
        held.fetch_update(Relaxed, Relaxed, room).map_err(|held| {
            Error::unavailable(
                "statement buffer is full: no room for the decompressed request; send less at once, or try again",
            )
            .with("unpacked", format!("{bytes} bytes"))
            .with("free", format!("{} bytes", most.saturating_sub(held)))
        })?;
        self.bytes += bytes;
        Ok(())
    }

    /// Releases all its bytes.
    pub(crate) fn clear(&mut self) {
        self.buffer.parts().0.fetch_sub(self.bytes, Relaxed);
        self.bytes = 0;
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn bytes_are_in_the_buffer_until_they_are_dropped() {
        let buffer = StatementBuffer::new(100);
        let (mut one, mut two) = (buffer.begin(), buffer.clone().begin());
        one.add(60).unwrap();
        two.add(30).unwrap();
        let error = two.add(11).unwrap_err();
        assert_eq!((error.kind(), error.context("free")), (Kind::Unavailable, Some("10 bytes")));
        one.clear();
        two.add(70).unwrap();
        assert!(one.add(usize::MAX).is_err());
        drop(two);
        assert_eq!(buffer.parts().0.load(Relaxed), 0);
    }
}
