//! The stored bytes of a block: a zstd frame that contains its two Arrow streams.

use arrow::{array::RecordBatch, buffer::Buffer};

use super::{ipc, narrow::narrowed};
use crate::{
    compression,
    error::{Error, Result},
    rows::{Block, batch_bytes},
    store::Store,
};

/// Maximum size of a body before compression.
pub(super) const MAX_RAW: usize = 1 << 30;
/// Bodies of these sizes are not compressed: they occupy one disk block either way, and compressing one takes as long
/// as encoding it.
const SMALL: std::ops::RangeInclusive<usize> = 256..=3_800;
/// Bodies of at least this size are built from parts and copied once, to where they are compressed or stored. For
/// smaller ones creating the parts takes longer than copying.
const LARGE: usize = 1 << 20;
/// Bodies of at least this size are sampled: one piece per `PER_PIECE` bytes, at least one.
const SAMPLED: usize = 4 << 20;
const PER_PIECE: usize = 16 << 20;
/// Size of a sampled piece: twice the encoder's window, so that repetitions the encoder could use are within it.
const PIECE: usize = 1 << 20;

/// Decides which large bodies are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// All bodies: sending a byte to a bucket takes longer than compressing it.
    Always,
    /// Bodies smaller than 4 MiB, and those whose sample shrinks by more than a fifth: a local disk writes bytes about
    /// as fast as they can be compressed, and the processor has other work.
    WherePays,
}

impl Compression {
    /// The setting for a store.
    pub fn of(store: &Store) -> Self {
        if store.is_directory() { Self::WherePays } else { Self::Always }
    }

    fn pays(self, parts: &[Buffer], len: usize) -> Result<bool> {
        if self == Self::Always || len < SAMPLED {
            return Ok(true);
        }
        let pieces = len.div_ceil(PER_PIECE);
        let mut sample = Vec::with_capacity(PIECE * pieces);
        for i in 0..pieces {
            // The middle of each equal part of the body.
            copy_range(parts, len * (2 * i + 1) / (2 * pieces) - PIECE / 2, PIECE, &mut sample);
        }
        Ok(ipc::compress(&sample)?.len() < sample.len() / 5 * 4)
    }
}

/// A stored block, and its length before compression.
pub(super) struct Body {
    stored: Stored,
    pub(super) raw: usize,
}

enum Stored {
    Frame(Vec<u8>),
    /// The content of an uncompressed frame that is still to be written.
    Content(Vec<Buffer>),
}

impl Body {
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) when the body exceeds 1 GiB; [`Kind::Internal`](crate::Kind::Internal)
    /// when Arrow or zstd rejects it.
    pub(super) fn of(block: &Block, compression: Compression) -> Result<Self> {
        // What is read again has its own types.
        check(block, batch_bytes(&block.rows) + batch_bytes(block.series.batch()))?;
        let rows = narrowed(&block.rows)?;
        let estimate = batch_bytes(&rows) + batch_bytes(block.series.batch());
        if estimate >= LARGE {
            return Self::of_large(block, &rows, compression);
        }
        let mut raw = Vec::with_capacity(2_048 + estimate);
        raw.extend_from_slice(&[0; 8]);
        ipc::write(block.series.batch(), &mut raw)?;
        let series = (raw.len() - 8) as u64;
        raw[..8].copy_from_slice(&series.to_le_bytes());
        ipc::write(&rows, &mut raw)?;
        let frame = if SMALL.contains(&raw.len()) {
            let mut frame = Vec::with_capacity(compression::stored_len(raw.len()));
            compression::store([raw.as_slice()], raw.len(), &mut frame);
            frame
        } else {
            ipc::compress(&raw)?
        };
        Ok(Self { stored: Stored::Frame(frame), raw: raw.len() })
    }

    fn of_large(block: &Block, rows: &RecordBatch, compression: Compression) -> Result<Self> {
        let series = ipc::parts(block.series.batch())?;
        let mut parts = vec![Buffer::from(&(len_of(&series) as u64).to_le_bytes())];
        parts.extend(series);
        parts.extend(ipc::parts(rows)?);
        let len = len_of(&parts);
        check(block, len)?;
        if !compression.pays(&parts, len)? {
            return Ok(Self { stored: Stored::Content(parts), raw: len });
        }
        let mut raw = Vec::with_capacity(len);
        parts.iter().for_each(|part| raw.extend_from_slice(part));
        Ok(Self { stored: Stored::Frame(ipc::compress(&raw)?), raw: len })
    }

    /// Stored size in bytes.
    pub(super) fn len(&self) -> usize {
        match &self.stored {
            Stored::Frame(frame) => frame.len(),
            Stored::Content(_) => compression::stored_len(self.raw),
        }
    }

    /// Appends the stored bytes.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match &self.stored {
            Stored::Frame(frame) => out.extend_from_slice(frame),
            Stored::Content(parts) => compression::store(parts.iter().map(Buffer::as_slice), self.raw, out),
        }
    }
}

fn check(block: &Block, bytes: usize) -> Result<()> {
    if bytes <= MAX_RAW {
        return Ok(());
    }
    Err(Error::invalid("rows of one table too large for one segment")
        .with("table", block.table.0)
        .with("limit", MAX_RAW)
        .with("found", bytes))
}

fn len_of(parts: &[Buffer]) -> usize {
    parts.iter().map(Buffer::len).sum()
}

/// Appends `len` bytes from offset `at` of the concatenated parts.
fn copy_range(parts: &[Buffer], at: usize, len: usize, out: &mut Vec<u8>) {
    let (mut skip, end) = (at, out.len() + len);
    for part in parts {
        let rest = part.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(part.len());
        out.extend_from_slice(&rest[..rest.len().min(end - out.len())]);
    }
}
