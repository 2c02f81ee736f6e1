//! The first or last row of chunks, from the tag manifest of their file instead of its pages.

use arrow::{
    array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, UInt32Array, new_null_array},
    compute::{cast, nullif, take},
    datatypes::{FieldRef, Int64Type, UInt64Type},
};
use tidelake_format::{
    Error, Result,
    ids::ColumnId,
    schema::field_id,
    tags::{Aggregate, TagManifest},
};

use super::{
    output::{Decoded, Run},
    read::Columns,
    select::{End, Piece},
};

/// One row of each of these chunks; `None` if the manifest lacks the value of a column. It has none of texts, booleans
/// and binaries.
///
/// # Errors
/// Arrow's, for a type that differs from the column's and cannot be cast to it.
pub(super) fn row_of_each(
    manifest: &TagManifest,
    pieces: &[Piece],
    end: End,
    columns: &Columns,
) -> Result<Option<Decoded>> {
    let chunks = UInt32Array::from_iter_values(pieces.iter().map(|piece| piece.local));
    let times = match end {
        End::First => manifest.min_ts(),
        End::Last => manifest.max_ts(),
    };
    let times = Int64Array::from_iter_values(chunks.values().iter().map(|at| times[*at as usize]));
    let mut values = Vec::with_capacity(columns.schema().fields().len());
    for field in columns.schema().fields() {
        match column(manifest, &chunks, &times, end, field)? {
            Some(column) => values.push(column),
            None => return Ok(None),
        }
    }
    let batch = RecordBatch::try_new(columns.schema().clone(), values)?;
    let runs = pieces.iter().map(|piece| Run { rank: piece.rank, rows: 1 }).collect();
    Ok(Some(Decoded { batch, dictionaries: Vec::new(), times: None, runs }))
}

/// The value of a column in the row at `times` of each chunk.
fn column(
    manifest: &TagManifest,
    chunks: &UInt32Array,
    times: &Int64Array,
    end: End,
    field: &FieldRef,
) -> Result<Option<ArrayRef>> {
    let id = field_id(field).ok_or_else(|| Error::internal("data column without an id"))?;
    if id == ColumnId::TS {
        return Ok(Some(cast(times, field.data_type())?));
    }
    let Some(counts) = manifest.aggregate(id, Aggregate::Count) else {
        // The column is younger than the file.
        return Ok(Some(new_null_array(field.data_type(), chunks.len())));
    };
    let (value, at) = match end {
        End::First => (Aggregate::First, Aggregate::FirstTs),
        End::Last => (Aggregate::Last, Aggregate::LastTs),
    };
    let (Some(values), Some(value_times)) = (manifest.aggregate(id, value), manifest.aggregate(id, at)) else {
        return Ok(None);
    };
    let (counts, value_times) = (counts.as_primitive::<UInt64Type>(), value_times.as_primitive::<Int64Type>());
    // The manifest has the end of the values that are not null; the row at the end of the chunk may be another.
    let is_null = |(chunk, time): (&u32, &i64)| {
        let chunk = *chunk as usize;
        counts.value(chunk) == 0 || value_times.value(chunk) != *time
    };
    let is_null: BooleanArray = chunks.values().iter().zip(times.values()).map(is_null).map(Some).collect();
    let values = nullif(&take(values, chunks, None)?, &is_null)?;
    Ok(Some(if values.data_type() == field.data_type() { values } else { cast(&values, field.data_type())? }))
}
