//! Writing new files past the page cache.
//!
//! The cache would have to find pages for bytes that the disk gets at once anyway: from some hundred kilobytes on that
//! takes longer than the disk does.

use std::{
    fs::File,
    io::{self, ErrorKind, Write},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use object_store::PutPayload;
use parking_lot::Mutex;

use super::modes;

/// Smaller files are written through the page cache.
const MIN_BYTES: usize = 128 << 10;
/// What memory, places in the file and lengths of writes are multiples of: the largest block that disks have.
pub(super) const ALIGN: usize = 4 << 10;
/// With what a file is opened to be written past the page cache.
#[cfg(target_os = "linux")]
pub(super) const FLAGS: i32 = rustix::fs::OFlags::DIRECT.bits().cast_signed();
#[cfg(not(target_os = "linux"))]
pub(super) const FLAGS: i32 = 0;
/// Written at once.
const BUFFER: usize = 1 << 20;
/// How many buffers are kept for later files.
const SPARE_BUFFERS: usize = 4;

/// Memory that can be written past the page cache.
#[derive(Debug)]
pub(super) struct Aligned(Vec<u8>);

impl Aligned {
    /// Zeros.
    pub(super) fn new(len: usize) -> Self {
        Self(vec![0; len + ALIGN])
    }

    /// Makes it at least so long; what it held is lost.
    pub(super) fn grow(&mut self, len: usize) {
        if self.as_slice().len() < len {
            *self = Self::new(len);
        }
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        let start = self.0.as_ptr().align_offset(ALIGN);
        &self.0[start..start + self.0.len() - ALIGN]
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        let start = self.0.as_ptr().align_offset(ALIGN);
        let end = start + self.0.len() - ALIGN;
        &mut self.0[start..end]
    }
}

/// Writes files, past the page cache where they are large and the file system can.
#[derive(Debug, Default)]
pub(super) struct FileWriter {
    /// The file system has refused it.
    refused: AtomicBool,
    spare: Mutex<Vec<Aligned>>,
}

impl FileWriter {
    /// Makes a file of a mode that holds the payload; it is not synced yet.
    ///
    /// # Errors
    /// What the file system says: AlreadyExists, NotFound where its directory is missing, StorageFull and others.
    pub(super) fn create(&self, path: &Path, mode: u32, payload: &PutPayload) -> io::Result<File> {
        if payload.content_length() >= MIN_BYTES && !self.refused.load(Ordering::Relaxed) {
            match self.create_direct(path, mode, payload) {
                // The file system does not do this, or wants larger blocks.
                Err(e) if e.kind() == ErrorKind::InvalidInput => {
                    self.refused.store(true, Ordering::Relaxed);
                    std::fs::remove_file(path)
                        .or_else(|e| if e.kind() == ErrorKind::NotFound { Ok(()) } else { Err(e) })?;
                }
                done => return done,
            }
        }
        let mut file = modes::options(mode).write(true).create_new(true).open(path)?;
        payload.iter().try_for_each(|part| file.write_all(part))?;
        Ok(file)
    }

    #[cfg(target_os = "linux")]
    fn create_direct(&self, path: &Path, mode: u32, payload: &PutPayload) -> io::Result<File> {
        use std::os::unix::fs::OpenOptionsExt;

        let mut file = modes::options(mode).write(true).create_new(true).custom_flags(FLAGS).open(path)?;
        let mut buffer = self.spare.lock().pop().unwrap_or_else(|| Aligned::new(BUFFER));
        let written = write_blocks(&mut file, payload, buffer.as_mut_slice());
        let mut spare = self.spare.lock();
        if spare.len() < SPARE_BUFFERS {
            spare.push(buffer);
        }
        drop(spare);
        written?;
        file.set_len(payload.content_length() as u64)?;
        Ok(file)
    }

    #[cfg(not(target_os = "linux"))]
    fn create_direct(&self, _: &Path, _: u32, _: &PutPayload) -> io::Result<File> {
        Err(ErrorKind::InvalidInput.into())
    }
}

/// Writes the payload in whole buffers; the last one is filled with zeros up to the end of a block.
#[cfg(target_os = "linux")]
fn write_blocks(file: &mut File, payload: &PutPayload, buffer: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    for mut part in payload.iter().map(|part| part.as_ref()) {
        while !part.is_empty() {
            let taken = part.len().min(buffer.len() - filled);
            buffer[filled..filled + taken].copy_from_slice(&part[..taken]);
            (filled, part) = (filled + taken, &part[taken..]);
            if filled == buffer.len() {
                file.write_all(buffer)?;
                filled = 0;
            }
        }
    }
    let end = filled.next_multiple_of(ALIGN);
    buffer[filled..end].fill(0);
    file.write_all(&buffer[..end])
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    /// Bytes that are different at every place where two writes could be confused.
    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i ^ (i >> 8) ^ ((i >> 16) * 31)) as u8).collect()
    }

    #[test]
    fn files_of_all_sizes_hold_what_was_brought() {
        let dir = tempfile::tempdir().unwrap();
        let writer = FileWriter::default();
        let edges = [0, 1, ALIGN, MIN_BYTES, BUFFER, 2 * BUFFER, 2 * BUFFER + MIN_BYTES];
        for len in edges.into_iter().flat_map(|n| [n.saturating_sub(1), n, n + 1]) {
            let (bytes, path) = (bytes(len), dir.path().join(len.to_string()));
            for parts in [1, 3, 1000] {
                let payload: PutPayload =
                    bytes.chunks(len.div_ceil(parts).max(1)).map(Bytes::copy_from_slice).collect();
                writer.create(&path, modes::FILE, &payload).unwrap().sync_all().unwrap();
                assert!(std::fs::read(&path).unwrap() == bytes, "{len} bytes in {parts} parts");
                assert_eq!(writer.create(&path, modes::FILE, &payload).unwrap_err().kind(), ErrorKind::AlreadyExists);
                std::fs::remove_file(&path).unwrap();
            }
        }
    }

    #[test]
    fn a_file_system_that_refuses_gets_plain_writes() {
        let dir = tempfile::tempdir().unwrap();
        let writer = FileWriter { refused: true.into(), ..FileWriter::default() };
        let bytes = bytes(2 * MIN_BYTES + 1);
        writer.create(&dir.path().join("file"), modes::FILE, &bytes.clone().into()).unwrap();
        assert!(std::fs::read(dir.path().join("file")).unwrap() == bytes);
    }
}
