//! Totals of a rollup: its buckets summed over all series.

use arrow::{
    array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray},
    buffer::NullBuffer,
    datatypes::{
        ArrowNativeTypeOp, DataType, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type,
    },
};
use std::sync::Arc;

use super::Rollup;
use crate::tags::Aggregate;

/// Maximum number of buckets from the first to the last: about two years of minutes.
const MOST_BUCKETS: i64 = 1 << 20;
/// Marks a bucket without rows.
const NONE: u32 = u32::MAX;

/// The buckets of a rollup, each with the rows of all series.
#[derive(Debug)]
pub struct Totals {
    /// The start of the first bucket.
    first: i64,
    width_ticks: i64,
    /// Per bucket from the first to the last: its index among those with rows.
    places: Vec<u32>,
    starts: Vec<i64>,
    first_row: Vec<u64>,
}

impl Totals {
    /// Adds up the rows of the buckets of a rollup; `None` if the rollup is empty or its times are too far apart.
    pub fn new(rollup: &Rollup) -> Option<Self> {
        let (starts, width_ticks) = (rollup.starts(), rollup.width_ticks());
        let (first, last) = (*starts.iter().min()?, *starts.iter().max()?);
        let buckets = last.checked_sub(first)? / width_ticks + 1;
        if buckets > MOST_BUCKETS {
            return None;
        }
        let mut rows = vec![0u64; buckets as usize];
        let counts = rollup.first_row().windows(2).map(|pair| pair[1] - pair[0]);
        for (start, count) in starts.iter().zip(counts) {
            rows[((start - first) / width_ticks) as usize] += count;
        }
        let (mut places, mut with_rows, mut first_row) = (vec![NONE; rows.len()], Vec::new(), vec![0]);
        for (at, rows) in rows.iter().enumerate().filter(|(_, rows)| **rows > 0) {
            places[at] = with_rows.len() as u32;
            with_rows.push(first + at as i64 * width_ticks);
            first_row.push(first_row[first_row.len() - 1] + rows);
        }
        Some(Self { first, width_ticks, places, starts: with_rows, first_row })
    }

    /// The start of each bucket, in ticks; ascending.
    pub fn starts(&self) -> &[i64] {
        &self.starts
    }

    /// The number of rows in the buckets before each one, then the number of all rows.
    pub fn first_row(&self) -> &[u64] {
        &self.first_row
    }

    /// An aggregate per bucket from `values`, the aggregate per bucket of the rollup. `None` for minimum and maximum of
    /// floats, which are not combined here.
    pub fn aggregate(&self, rollup: &Rollup, what: Aggregate, values: &ArrayRef) -> Option<ArrayRef> {
        macro_rules! extremes {
            ($($of:pat => $arrow:ty),* $(,)?) => {
                match values.data_type() {
                    $($of => {
                        let values = values.as_primitive::<$arrow>();
                        Some(if what == Aggregate::Min {
                            self.fold(rollup, values, |a, b| a.min(b))
                        } else {
                            self.fold(rollup, values, |a, b| a.max(b))
                        })
                    })*
                    _ => None,
                }
            };
        }
        match (what, values.data_type()) {
            (Aggregate::Count | Aggregate::Sum, DataType::UInt64) => {
                Some(self.fold(rollup, values.as_primitive::<UInt64Type>(), |a, b| a.add_wrapping(b)))
            }
            (Aggregate::Sum, DataType::Int64) => {
                Some(self.fold(rollup, values.as_primitive::<Int64Type>(), |a, b| a.add_wrapping(b)))
            }
            (Aggregate::Sum, DataType::Float64) => {
                Some(self.fold(rollup, values.as_primitive::<Float64Type>(), |a, b| a + b))
            }
            (Aggregate::Min | Aggregate::Max, _) => extremes! {
                DataType::Int8 => Int8Type, DataType::Int16 => Int16Type,
                DataType::Int32 => Int32Type, DataType::Int64 => Int64Type,
                DataType::UInt8 => UInt8Type, DataType::UInt16 => UInt16Type,
                DataType::UInt32 => UInt32Type, DataType::UInt64 => UInt64Type,
                DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
                DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
                DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
            },
            _ => None,
        }
    }

    /// Combines the values of each bucket; null if all of them are.
    fn fold<T: ArrowPrimitiveType>(
        &self,
        rollup: &Rollup,
        values: &PrimitiveArray<T>,
        together: impl Fn(T::Native, T::Native) -> T::Native,
    ) -> ArrayRef {
        let (mut all, mut known) = (vec![T::Native::default(); self.starts.len()], vec![false; self.starts.len()]);
        for (start, value) in rollup.starts().iter().zip(values) {
            let place = self.places[((start - self.first) / self.width_ticks) as usize] as usize;
            let Some(value) = value else { continue };
            all[place] = if known[place] { together(all[place], value) } else { value };
            known[place] = true;
        }
        let array = PrimitiveArray::<T>::new(all.into(), Some(NullBuffer::from(known)));
        Arc::new(array.with_data_type(values.data_type().clone()))
    }

    /// Memory used, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.places.len() * 4 + self.starts.len() * 16
    }
}
