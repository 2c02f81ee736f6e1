//! Encodes and decodes tag manifests.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array},
    compute::{
        kernels::{cmp::eq, zip::zip},
        nullif,
    },
    datatypes::{DataType, Field, Int64Type, Schema, UInt64Type},
};
use bytes::{BufMut, Bytes, BytesMut};

use super::{Aggregate, TagManifest, first_rows};
use crate::{
    error::{Error, Result},
    rows::SeriesSet,
    schema::{field_id, field_with_id},
    segment::{check_crc, check_start, ipc, u32_at, u64_at},
};

/// Magic bytes at the start of every tag manifest.
const MAGIC: &[u8; 8] = b"TLTAGMAN";
/// The format version that this code writes, and the newest it reads.
const FORMAT_VERSION: u16 = 1;
const HEADER: usize = 32;
/// Maximum size of a body before compression.
const MAX_RAW: usize = 1 << 32;

impl TagManifest {
    /// Encodes the manifest; the same rows written in the same way always give the same bytes.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) when Arrow rejects the columns.
    pub fn encode(&self) -> Result<Bytes> {
        let mut raw = vec![0; 8];
        ipc::write(self.series.batch(), &mut raw)?;
        let split = (raw.len() - 8) as u64;
        raw[..8].copy_from_slice(&split.to_le_bytes());
        ipc::write(&self.rows_batch()?, &mut raw)?;
        let body = ipc::compress(&raw)?;
        let mut out = BytesMut::with_capacity(HEADER + body.len());
        out.put_slice(MAGIC);
        out.put_u16_le(FORMAT_VERSION);
        out.put_u16_le(0);
        out.put_u32_le(self.len() as u32);
        out.put_u64_le(raw.len() as u64);
        out.put_u32_le(crc32fast::hash(&body));
        let crc = crc32fast::hash(&out);
        out.put_u32_le(crc);
        out.put_slice(&body);
        Ok(out.freeze())
    }

    /// The columns other than the series set.
    fn rows_batch(&self) -> Result<RecordBatch> {
        let mut fields = vec![
            Field::new("rows", DataType::UInt64, false),
            Field::new("min_ts", DataType::Int64, false),
            Field::new("max_ts", DataType::Int64, false),
        ];
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt64Array::from(self.row_count.clone())),
            Arc::new(self.min_ts.clone()),
            Arc::new(self.max_ts.clone()),
        ];
        for (id, what, values) in &self.aggregates {
            fields.push(field_with_id(what.name(), values.data_type().clone(), true, *id));
            columns.push(match what {
                Aggregate::FirstTs => unless_equal(values, &self.min_ts),
                Aggregate::LastTs => unless_equal(values, &self.max_ts),
                _ => values.clone(),
            });
        }
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// Decodes a manifest; `key` is used in messages only.
    ///
    /// # Errors
    /// [`Kind::Unsupported`](crate::Kind::Unsupported) for a newer format version, otherwise
    /// [`Kind::Corrupt`](crate::Kind::Corrupt); both name the key and the expected and found values.
    pub fn decode(key: &str, bytes: &Bytes) -> Result<Self> {
        decode(bytes).map_err(|e| e.with("key", key))
    }
}

fn decode(bytes: &Bytes) -> Result<TagManifest> {
    let count = check_start(bytes, MAGIC, (FORMAT_VERSION, 0), HEADER, "tag manifest")?;
    check_crc("the header of a tag manifest", &bytes[..28], u32_at(bytes, 28))?;
    let body = &bytes[HEADER..];
    check_crc("a tag manifest", body, u32_at(bytes, 24))?;
    let raw = ipc::decompress(body, usize::try_from(u64_at(bytes, 16)).unwrap_or(usize::MAX), MAX_RAW)?;
    let split = (raw.len() >= 8).then(|| u64_at(&raw, 0)).and_then(|n| n.checked_add(8));
    let split = split
        .filter(|n| *n <= raw.len() as u64)
        .ok_or_else(|| Error::corrupt("tag manifest truncated within its series").with("found", raw.len()))?
        as usize;
    let series = SeriesSet::try_new(ipc::read(raw.slice_with_length(8, split - 8))?)?;
    let rows = ipc::read(raw.slice(split))?;
    if series.len() != count || rows.num_rows() != count {
        return Err(Error::corrupt("number of series in a tag manifest does not match its header")
            .with("expected", count)
            .with("found", format!("{} names, {} rows", series.len(), rows.num_rows())));
    }
    from_batches(series, &rows)
}

fn from_batches(series: SeriesSet, rows: &RecordBatch) -> Result<TagManifest> {
    let bad = || Error::corrupt("unexpected columns in a tag manifest").with("found", rows.schema());
    let column = |at: usize| rows.columns().get(at).filter(|c| c.null_count() == 0).ok_or_else(bad);
    let row_count = column(0)?.as_primitive_opt::<UInt64Type>().ok_or_else(bad)?.values().to_vec();
    if row_count.iter().try_fold(0u64, |sum, n| sum.checked_add(*n)).is_none_or(|sum| sum > 1 << 48) {
        return Err(Error::corrupt("impossible number of rows in a tag manifest"));
    }
    let min_ts = column(1)?.as_primitive_opt::<Int64Type>().ok_or_else(bad)?.clone();
    let max_ts = column(2)?.as_primitive_opt::<Int64Type>().ok_or_else(bad)?.clone();
    let mut aggregates = Vec::with_capacity(rows.num_columns());
    let mut counts: Option<(crate::ids::ColumnId, UInt64Array)> = None;
    for (field, values) in rows.schema_ref().fields().iter().zip(rows.columns()).skip(3) {
        let what = Aggregate::ALL.into_iter().find(|a| a.name() == field.name()).ok_or_else(bad)?;
        let id = field_id(field).ok_or_else(bad)?;
        let values = match what {
            Aggregate::Count => {
                let values = values.as_primitive_opt::<UInt64Type>().filter(|v| v.null_count() == 0).ok_or_else(bad)?;
                counts = Some((id, values.clone()));
                Arc::new(values.clone())
            }
            Aggregate::FirstTs | Aggregate::LastTs => {
                let stored = values.as_primitive_opt::<Int64Type>().ok_or_else(bad)?;
                let counts = counts.as_ref().filter(|c| c.0 == id).map(|c| &c.1).ok_or_else(bad)?;
                times(stored, counts, if what == Aggregate::FirstTs { &min_ts } else { &max_ts })?
            }
            _ => values.clone(),
        };
        aggregates.push((id, what, values));
    }
    Ok(TagManifest { series, first_row: first_rows(&row_count), row_count, min_ts, max_ts, aggregates })
}

/// The times that differ from the implied ones; the others are null.
fn unless_equal(times: &ArrayRef, implied: &Int64Array) -> ArrayRef {
    let times = times.as_primitive::<Int64Type>().iter().zip(implied.values());
    Arc::new(times.map(|(time, implied)| time.filter(|t| t != implied)).collect::<Int64Array>())
}

/// The stored times, `default` where none is stored, null for a series without values.
fn times(stored: &Int64Array, counts: &UInt64Array, default: &Int64Array) -> Result<ArrayRef> {
    let all = counts.values().iter().all(|n| *n > 0);
    if all && stored.null_count() == stored.len() {
        return Ok(Arc::new(default.clone()));
    }
    let filled = zip(&arrow::compute::is_not_null(stored)?, stored, default)?;
    if all {
        return Ok(filled);
    }
    Ok(nullif(&filled, &eq(counts, &UInt64Array::new_scalar(0))?)?)
}
