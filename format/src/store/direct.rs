//! Writes new files with direct I/O.
//!
//! The page cache would have to allocate pages for bytes that go to disk at once anyway: above some hundred kilobytes
//! that takes longer than the disk.

use std::{
    fs::File,
    io::{self, ErrorKind, Write},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use object_store::PutPayload;
use parking_lot::Mutex;

use super::modes;

/// Minimum size of a file written with direct I/O.
const MIN_BYTES: usize = 128 << 10;
/// Alignment of memory, file offsets and write lengths: the largest block size of disks.
pub(super) const ALIGN: usize = 4 << 10;
/// Flags with which a file is opened for direct I/O.
#[cfg(target_os = "linux")]
pub(super) const FLAGS: i32 = rustix::fs::OFlags::DIRECT.bits().cast_signed();
#[cfg(not(target_os = "linux"))]
pub(super) const FLAGS: i32 = 0;
/// Number of bytes per write.
const BUFFER: usize = 1 << 20;
/// Number of buffers kept for later files.
const SPARE_BUFFERS: usize = 4;

/// Memory aligned for direct I/O.
#[derive(Debug)]
pub(super) struct Aligned(Vec<u8>);

impl Aligned {
    /// Allocates `len` zeros.
    pub(super) fn new(len: usize) -> Self {
        Self(vec![0; len + ALIGN])
    }

    /// Grows it to at least `len` bytes; the content is lost.
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

/// Writes files, with direct I/O if they are large and the file system supports it.
#[derive(Debug, Default)]
pub(super) struct FileWriter {
    /// Whether the file system has refused direct I/O.
    refused: AtomicBool,
    spare: Mutex<Vec<Aligned>>,
}

impl FileWriter {
    /// Creates a file with a mode and writes the payload; the file is not synced.
    ///
    /// # Errors
    /// Those of the file system: AlreadyExists, NotFound if the directory is missing, StorageFull and others.
    pub(super) fn create(&self, path: &Path, mode: u32, payload: &PutPayload) -> io::Result<File> {
        if payload.content_length() >= MIN_BYTES && !self.refused.load(Ordering::Relaxed) {
            match self.create_direct(path, mode, payload) {
                // The file system does not support direct I/O, or requires larger blocks.
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

/// Writes the payload in full buffers; the last one is padded with zeros to the end of a block.
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

    /// Bytes that differ at all positions where two writes could be confused.
    fn bytes(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i ^ (i >> 8) ^ ((i >> 16) * 31)) as u8).collect()
    }

    #[test]
    fn files_of_all_sizes_hold_the_payload() {
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
    fn a_file_system_without_direct_io_gets_plain_writes() {
        let dir = tempfile::tempdir().unwrap();
        let writer = FileWriter { refused: true.into(), ..FileWriter::default() };
        let bytes = bytes(2 * MIN_BYTES + 1);
        writer.create(&dir.path().join("file"), modes::FILE, &bytes.clone().into()).unwrap();
        assert!(std::fs::read(dir.path().join("file")).unwrap() == bytes);
    }
}
