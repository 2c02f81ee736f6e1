//! One record batch as an Arrow IPC stream, and zstd around it: the bodies of segments and tag manifests.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
};

use arrow::{
    array::RecordBatch,
    buffer::Buffer,
    datatypes::DataType,
    ipc::{
        MetadataVersion,
        reader::StreamDecoder,
        writer::{IpcWriteOptions, StreamWriter},
    },
};

use crate::error::{Error, Result};

thread_local! {
    /// One encoder that waits on this thread: its tables are some hundred KiB, and a group commit needs one each time.
    static IDLE: Cell<Option<zstd::bulk::Compressor<'static>>> = const { Cell::new(None) };
    /// One decoder of this thread: to make one takes longer than to decode a small body, the more so in a virtual
    /// machine, where asking the processor what it can do leaves the machine.
    static DECODER: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Decodes a zstd frame of at most `capacity` bytes of content.
///
/// # Errors
/// When it is no such frame, or its content is larger.
pub(crate) fn inflate(frame: &[u8], capacity: usize) -> std::io::Result<Vec<u8>> {
    let of_thread = |cell: &RefCell<Option<zstd::bulk::Decompressor<'static>>>| {
        let mut kept = cell.borrow_mut();
        let decoder = match &mut *kept {
            Some(decoder) => decoder,
            none => none.insert(zstd::bulk::Decompressor::new()?),
        };
        decoder.decompress(frame, capacity)
    };
    // A thread that ends keeps nothing.
    DECODER.try_with(of_thread).unwrap_or_else(|_| zstd::bulk::decompress(frame, capacity))
}

/// A zstd encoder of level 1, used again for several bodies.
pub(crate) struct Compressor(Option<zstd::bulk::Compressor<'static>>);

impl Drop for Compressor {
    fn drop(&mut self) {
        // A thread that ends keeps nothing.
        let _ = IDLE.try_with(|idle| idle.set(self.0.take()));
    }
}

impl Compressor {
    pub(crate) fn new() -> Result<Self> {
        if let Some(idle) = IDLE.try_with(Cell::take).ok().flatten() {
            return Ok(Self(Some(idle)));
        }
        let new = zstd::bulk::Compressor::new(1).map_err(|e| Error::internal("zstd cannot start").source(e))?;
        Ok(Self(Some(new)))
    }

    /// One zstd frame with its content size.
    pub(crate) fn compress(&mut self, raw: &[u8]) -> Result<Vec<u8>> {
        let encoder = self.0.as_mut().ok_or_else(|| Error::internal("a zstd encoder is used after its end"))?;
        encoder.compress(raw).map_err(|e| Error::internal("zstd cannot compress").source(e))
    }
}

/// Decompresses one frame to exactly `raw` bytes, at most `limit`.
pub(crate) fn decompress(stored: &[u8], raw: usize, limit: usize) -> Result<Buffer> {
    let bad = |found: String| Error::corrupt("a body does not decompress").with("expected", raw).with("found", found);
    if raw > limit {
        return Err(Error::corrupt("a body is too large").with("limit", limit).with("found", raw));
    }
    // The frame states its own size: nothing is allocated for a size that it does not confirm.
    match zstd::zstd_safe::get_frame_content_size(stored) {
        Ok(Some(size)) if size == raw as u64 => {}
        other => return Err(bad(format!("{other:?}"))),
    }
    let bytes = inflate(stored, raw).map_err(|e| bad(e.to_string()))?;
    if bytes.len() != raw {
        return Err(bad(bytes.len().to_string()));
    }
    Ok(Buffer::from_vec(bytes))
}

/// Appends a batch as a stream whose length is a multiple of 8.
pub(crate) fn write(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
    let mut writer = StreamWriter::try_new_with_options(&mut *out, batch.schema_ref(), options)?;
    writer.write(batch)?;
    writer.finish()?;
    drop(writer);
    out.resize(out.len().next_multiple_of(8), 0);
    Ok(())
}

/// Reads the one batch of a stream, without copying it; only the plain types of columns are taken.
pub(crate) fn read(mut stream: Buffer) -> Result<RecordBatch> {
    let bad = |found: String| Error::corrupt("a body is not an Arrow stream of one batch").with("found", found);
    // Arrow's reader returns errors for most malformed messages, but asserts in places (a validity buffer that is too
    // short). Only bytes made on purpose come here: a checksum was right.
    let batch = catch_unwind(AssertUnwindSafe(|| {
        let mut decoder = StreamDecoder::new();
        let batch = decoder.decode(&mut stream)?;
        if let Some(schema) = decoder.schema()
            && let Some(field) = schema.fields().iter().find(|f| !is_plain(f.data_type()))
        {
            return Err(arrow::error::ArrowError::SchemaError(format!("unexpected type: {field}")));
        }
        Ok(batch)
    }))
    .map_err(|_| bad("a message that Arrow's reader cannot take".to_owned()))?
    .map_err(|e| bad(e.to_string()))?;
    batch.ok_or_else(|| bad("no batch".to_owned()))
}

/// Whether a type is one that columns have.
fn is_plain(ty: &DataType) -> bool {
    ty.is_integer()
        || matches!(
            ty,
            DataType::Boolean
                | DataType::Float32
                | DataType::Float64
                | DataType::Utf8
                | DataType::Binary
                | DataType::Timestamp(_, None)
        )
}
