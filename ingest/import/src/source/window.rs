//! A reader that bounds the length of a record and can return the text of the last one.

use std::io::{self, Read};

use super::MOST_RECORD;

/// Bytes that the parser may read ahead.
pub(super) const AHEAD: usize = 1 << 20;

/// Bytes of a file on their way to a parser.
pub(super) struct Window<R> {
    inner: R,
    /// Whether the bytes since the beginning of the current record are kept.
    keeps: bool,
    kept: Vec<u8>,
    /// Offset of the first kept byte.
    start: u64,
    /// Number of bytes read.
    read: u64,
    /// Offset of the current record.
    record: u64,
    limit: u64,
}

impl<R: Read> Window<R> {
    pub(super) fn new(inner: R, keeps: bool) -> Self {
        let limit = MOST_RECORD + AHEAD as u64;
        Self { inner, keeps, kept: Vec::new(), start: 0, read: 0, record: 0, limit }
    }

    /// Sets the offset at which the next record begins.
    pub(super) fn begin(&mut self, offset: u64) {
        self.record = offset;
        // Moves the rest only after much of it is unneeded.
        let unneeded = usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX).min(self.kept.len());
        if unneeded > 4 * AHEAD {
            self.kept.drain(..unneeded);
            self.start += unneeded as u64;
        }
    }

    /// The text between two offsets, without line breaks at its ends.
    pub(super) fn text(&self, from: u64, to: u64) -> String {
        let at =
            |offset: u64| usize::try_from(offset.saturating_sub(self.start)).unwrap_or(usize::MAX).min(self.kept.len());
        let bytes = &self.kept[at(from)..at(to).max(at(from))];
        String::from_utf8_lossy(bytes).trim_matches(['\r', '\n']).to_owned()
    }
}

impl<R: Read> Read for Window<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read - self.record.min(self.read) > self.limit {
            let limit = MOST_RECORD >> 20;
            return Err(io::Error::other(format!("a record is longer than {limit} MiB: is a quote not closed?")));
        }
        let read = self.inner.read(buffer)?;
        if self.keeps {
            self.kept.extend_from_slice(&buffer[..read]);
        }
        self.read += read as u64;
        Ok(read)
    }
}
