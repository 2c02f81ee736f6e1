//! Validates each client message before Arrow decodes it: the decoder trusts lengths and offsets, may panic on bad ones and
//! allocates whatever size a message claims.

use arrow::ipc::{RecordBatch, root_as_message};
use arrow_flight::FlightData;
use tidelake_format::{Error, Result};

/// Maximum number of rows of a batch: no message is large enough for more.
const MAX_ROWS: i64 = 1 << 29;
/// Maximum number of bytes of a message's buffers when decompressed.
const MAX_DECOMPRESSED: i64 = 256 << 20;

/// Checks that a message is valid and that its buffers are within its body. Returns the number of bytes of its compressed buffers
/// when decompressed.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) with the failed check.
pub(super) fn check(data: &FlightData) -> Result<usize> {
    let message = root_as_message(&data.data_header).map_err(|e| wrong("cannot read the header").with("reason", e))?;
    let dictionary = || message.header_as_dictionary_batch().and_then(|d| d.data());
    match message.header_as_record_batch().or_else(dictionary) {
        Some(batch) => check_batch(&batch, &data.data_body),
        None => Ok(0),
    }
}

fn check_batch(batch: &RecordBatch<'_>, body: &[u8]) -> Result<usize> {
    let rows = |n: i64| (0..=MAX_ROWS).contains(&n);
    let nodes = batch.nodes().into_iter().flatten();
    if !rows(batch.length())
        || nodes.into_iter().any(|n| !rows(n.length()) || !(0..=n.length()).contains(&n.null_count()))
    {
        return Err(wrong("number of rows out of range"));
    }
    let mut decompressed = 0i64;
    for buffer in batch.buffers().into_iter().flatten() {
        let range = usize::try_from(buffer.offset()).ok().zip(usize::try_from(buffer.length()).ok());
        let bytes =
            range.and_then(|(offset, length)| body.get(offset..offset.checked_add(length)?)).ok_or_else(|| {
                wrong("buffer outside the body")
                    .with("expected", format!("within {} bytes", body.len()))
                    .with("found", format!("{} bytes at {}", buffer.length(), buffer.offset()))
            })?;
        if batch.compression().is_some()
            && let Some((size, _)) = bytes.split_first_chunk()
        {
            // −1 means that this buffer is not compressed.
            let size = i64::from_le_bytes(*size);
            decompressed = decompressed.saturating_add(size.max(0));
            if size < -1 || decompressed > MAX_DECOMPRESSED {
                return Err(wrong("decompressed size out of range").with("limit", MAX_DECOMPRESSED));
            }
        }
    }
    Ok(usize::try_from(decompressed).unwrap_or(usize::MAX))
}

fn wrong(what: &str) -> Error {
    Error::invalid("invalid Arrow IPC message").with("reason", what)
}
