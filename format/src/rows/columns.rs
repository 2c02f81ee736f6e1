//! The two key columns of rows, as slices.

use arrow::{
    array::{Array, AsArray, RecordBatch},
    datatypes::{
        DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt32Type,
    },
};

use crate::error::{Error, Result};

/// The `series` column of rows.
///
/// # Errors
/// [`Kind::Internal`](crate::Kind::Internal) when the first column is not UInt32 without nulls.
pub fn series_of(rows: &RecordBatch) -> Result<&[u32]> {
    match rows.columns().first().and_then(|c| c.as_primitive_opt::<UInt32Type>()) {
        Some(series) if series.null_count() == 0 => Ok(series.values()),
        _ => Err(Error::internal("first column is not UInt32 without nulls").with("found", rows.schema())),
    }
}

/// The time column of rows, in ticks.
pub(crate) fn ticks_of(rows: &RecordBatch) -> Result<&[i64]> {
    rows.columns().get(1).filter(|c| c.null_count() == 0).and_then(|c| ticks(c)).ok_or_else(|| {
        Error::internal("second column of rows is not a timestamp without nulls").with("found", rows.schema())
    })
}

/// The values of a timestamp array, in ticks; `None` for another type.
pub fn ticks(array: &dyn Array) -> Option<&[i64]> {
    match array.data_type() {
        DataType::Timestamp(TimeUnit::Millisecond, None) => {
            Some(array.as_primitive::<TimestampMillisecondType>().values())
        }
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            Some(array.as_primitive::<TimestampMicrosecondType>().values())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, None) => {
            Some(array.as_primitive::<TimestampNanosecondType>().values())
        }
        _ => None,
    }
}
