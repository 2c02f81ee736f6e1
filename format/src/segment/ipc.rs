//! Encodes one record batch as an Arrow IPC stream inside a zstd frame: the bodies of segments and tag manifests.

use std::panic::{AssertUnwindSafe, catch_unwind};

use arrow::{
    array::RecordBatch,
    buffer::Buffer,
    datatypes::DataType,
    ipc::{
        MetadataVersion,
        reader::StreamDecoder,
        writer::{IpcWriteOptions, StreamEncoder, StreamWriter},
    },
};

use crate::{
    compression::{self, inflate},
    error::{Error, Result},
};

const ZSTD_LEVEL: i32 = 1;

/// Compresses a body into one zstd frame.
pub(crate) fn compress(raw: &[u8]) -> Result<Vec<u8>> {
    compression::compress(raw, ZSTD_LEVEL)
}

/// Decompresses one frame to exactly `raw` bytes; `raw` may be at most `limit`.
pub(crate) fn decompress(stored: &[u8], raw: usize, limit: usize) -> Result<Buffer> {
    let bad = |found: String| Error::corrupt("cannot decompress body").with("expected", raw).with("found", found);
    if raw > limit {
        return Err(Error::corrupt("body too large").with("limit", limit).with("found", raw));
    }
    // The frame states its own size: memory is allocated only if that confirms `raw`.
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

fn options() -> Result<IpcWriteOptions> {
    Ok(IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?)
}

/// Appends a batch as a stream whose length is a multiple of 8.
pub(crate) fn write(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let mut writer = StreamWriter::try_new_with_options(&mut *out, batch.schema_ref(), options()?)?;
    writer.write(batch)?;
    writer.finish()?;
    drop(writer);
    out.resize(out.len().next_multiple_of(8), 0);
    Ok(())
}

/// The stream that [`write()`] appends, in parts without copying columns.
pub(crate) fn parts(batch: &RecordBatch) -> Result<Vec<Buffer>> {
    let mut encoder = StreamEncoder::try_new_with_options(batch.schema_ref(), options()?)?;
    let mut parts = encoder.encode(batch)?;
    parts.extend(encoder.finish()?);
    let len: usize = parts.iter().map(Buffer::len).sum();
    parts.push(Buffer::from(&[0; 8][..len.next_multiple_of(8) - len]));
    Ok(parts)
}

/// Reads the single batch of a stream without copying; only plain column types are accepted.
pub(crate) fn read(mut stream: Buffer) -> Result<RecordBatch> {
    let bad = |found: String| Error::corrupt("a body is not an Arrow stream of one batch").with("found", found);
    // Arrow's reader returns errors for most malformed messages, but panics on some (a validity buffer that is too
    // short). Only deliberately malformed bytes reach this point, since the checksum matched.
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
    .map_err(|_| bad("message rejected by Arrow's reader".to_owned()))?
    .map_err(|e| bad(e.to_string()))?;
    batch.ok_or_else(|| bad("no batch".to_owned()))
}

/// Whether a column can have this type.
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
