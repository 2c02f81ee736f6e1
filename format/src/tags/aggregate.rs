//! Builds count, sum, min, max, first and last of one field per series, run by run.

use std::{fmt::Debug, sync::Arc};

use arrow::{
    array::{
        Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, Float64Array, Int64Array, PrimitiveArray,
        UInt64Array,
    },
    datatypes::{
        DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type,
    },
};

use super::Aggregate;

/// Builds the aggregates of one field; the last series continues until [`Accumulator::start_series`].
pub(crate) trait Accumulator: Debug + Send {
    /// Begins the next series.
    fn start_series(&mut self);
    /// Adds the values of rows `start..start + ts.len()` of a column of the field's type; `ts` is ascending and greater
    /// than all earlier times of the series.
    fn add(&mut self, values: &ArrayRef, start: usize, ts: &[i64]);
    /// The aggregates, one value per series.
    fn finish(self: Box<Self>) -> Vec<(Aggregate, ArrayRef)>;
    /// Bytes held.
    fn bytes(&self) -> usize;
}

/// The accumulator for a type.
pub(crate) fn accumulator(ty: &DataType) -> Box<dyn Accumulator> {
    fn of<T: Summed>(ty: &DataType) -> Box<dyn Accumulator> {
        Box::new(Numbers::<T> { ty: ty.clone(), count: Vec::new(), sums: Vec::new(), rest: Vec::new() })
    }
    match ty {
        DataType::Int8 => of::<Int8Type>(ty),
        DataType::Int16 => of::<Int16Type>(ty),
        DataType::Int32 => of::<Int32Type>(ty),
        DataType::Int64 => of::<Int64Type>(ty),
        DataType::UInt8 => of::<UInt8Type>(ty),
        DataType::UInt16 => of::<UInt16Type>(ty),
        DataType::UInt32 => of::<UInt32Type>(ty),
        DataType::UInt64 => of::<UInt64Type>(ty),
        DataType::Float32 => of::<Float32Type>(ty),
        DataType::Float64 => of::<Float64Type>(ty),
        DataType::Timestamp(TimeUnit::Millisecond, None) => of::<TimestampMillisecondType>(ty),
        DataType::Timestamp(TimeUnit::Microsecond, None) => of::<TimestampMicrosecondType>(ty),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => of::<TimestampNanosecondType>(ty),
        _ => Box::new(Counts(Vec::new())),
    }
}

/// Counts values only.
#[derive(Debug)]
struct Counts(Vec<u64>);

impl Accumulator for Counts {
    fn start_series(&mut self) {
        self.0.push(0);
    }

    fn add(&mut self, values: &ArrayRef, start: usize, ts: &[i64]) {
        if let Some(count) = self.0.last_mut() {
            *count += (ts.len() - nulls_in(values, start, ts.len())) as u64;
        }
    }

    fn finish(self: Box<Self>) -> Vec<(Aggregate, ArrayRef)> {
        vec![(Aggregate::Count, Arc::new(UInt64Array::from(self.0)))]
    }

    fn bytes(&self) -> usize {
        self.0.capacity() * 8
    }
}

fn nulls_in(values: &ArrayRef, start: usize, len: usize) -> usize {
    values.nulls().filter(|n| n.null_count() > 0).map_or(0, |n| n.slice(start, len).null_count())
}

/// Sums values of a type in an i64, u64 or f64, stored as its bits.
trait Summed: ArrowPrimitiveType {
    /// Adds values to a sum.
    fn add(sum: u64, values: &[Self::Native]) -> u64;
    /// The sums as an array; `None` for a type without sums.
    fn array(sums: impl Iterator<Item = Option<u64>>) -> Option<ArrayRef>;
}

macro_rules! summed {
    ($($ty:ty),* => integer $sum:ty, $array:ty) => { $(
        impl Summed for $ty {
            fn add(sum: u64, values: &[Self::Native]) -> u64 {
                values.iter().fold(sum as $sum, |sum, v| sum.wrapping_add(*v as $sum)) as u64
            }

            fn array(sums: impl Iterator<Item = Option<u64>>) -> Option<ArrayRef> {
                Some(Arc::new(sums.map(|s| s.map(|s| s as $sum)).collect::<$array>()))
            }
        }
    )* };
    ($($ty:ty),* => float) => { $(
        impl Summed for $ty {
            fn add(sum: u64, values: &[Self::Native]) -> u64 {
                values.iter().fold(f64::from_bits(sum), |sum, v| sum + f64::from(*v)).to_bits()
            }

            fn array(sums: impl Iterator<Item = Option<u64>>) -> Option<ArrayRef> {
                Some(Arc::new(sums.map(|s| s.map(f64::from_bits)).collect::<Float64Array>()))
            }
        }
    )* };
    ($($ty:ty),* => none) => { $(
        impl Summed for $ty {
            fn add(_: u64, _: &[Self::Native]) -> u64 {
                0
            }

            fn array(_: impl Iterator<Item = Option<u64>>) -> Option<ArrayRef> {
                None
            }
        }
    )* };
}

summed!(Int8Type, Int16Type, Int32Type, Int64Type => integer i64, Int64Array);
summed!(UInt8Type, UInt16Type, UInt32Type, UInt64Type => integer u64, UInt64Array);
summed!(Float32Type, Float64Type => float);
summed!(TimestampMillisecondType, TimestampMicrosecondType, TimestampNanosecondType => none);

/// Min, max, first and last of a series that has a value.
#[derive(Debug, Clone, Copy)]
struct Rest<N> {
    min: N,
    max: N,
    first: (i64, N),
    last: (i64, N),
}

struct Numbers<T: Summed> {
    ty: DataType,
    count: Vec<u64>,
    sums: Vec<u64>,
    rest: Vec<Option<Rest<T::Native>>>,
}

impl<T: Summed> Debug for Numbers<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Numbers").field("type", &self.ty).field("series", &self.count.len()).finish()
    }
}

impl<T: Summed> Numbers<T> {
    /// Adds values without nulls.
    fn add_all(&mut self, values: &[T::Native], ts: &[i64]) {
        let (Some(first), Some(last), Some(at)) = (values.first(), values.last(), self.count.len().checked_sub(1))
        else {
            return;
        };
        self.count[at] += values.len() as u64;
        self.sums[at] = T::add(self.sums[at], values);
        let (mut min, mut max) = (*first, *first);
        for v in values {
            min = if v.is_lt(min) { *v } else { min };
            max = if v.is_gt(max) { *v } else { max };
        }
        let last = (ts[ts.len() - 1], *last);
        self.rest[at] = Some(match self.rest[at] {
            None => Rest { min, max, first: (ts[0], *first), last },
            Some(old) => Rest {
                min: if min.is_lt(old.min) { min } else { old.min },
                max: if max.is_gt(old.max) { max } else { old.max },
                first: old.first,
                last,
            },
        });
    }

    fn values(&self, of: impl Fn(&Rest<T::Native>) -> T::Native) -> ArrayRef {
        let values: PrimitiveArray<T> = self.rest.iter().map(|r| r.as_ref().map(&of)).collect();
        Arc::new(values.with_data_type(self.ty.clone()))
    }

    fn times(&self, of: impl Fn(&Rest<T::Native>) -> i64) -> ArrayRef {
        Arc::new(self.rest.iter().map(|r| r.as_ref().map(&of)).collect::<Int64Array>())
    }
}

impl<T: Summed> Accumulator for Numbers<T> {
    fn start_series(&mut self) {
        self.count.push(0);
        self.sums.push(0);
        self.rest.push(None);
    }

    fn add(&mut self, values: &ArrayRef, start: usize, ts: &[i64]) {
        let array: &PrimitiveArray<T> = values.as_primitive();
        let native = &array.values()[start..start + ts.len()];
        match array.nulls().filter(|n| n.null_count() > 0) {
            None => self.add_all(native, ts),
            Some(nulls) => {
                let (mut valid, mut times) = (Vec::with_capacity(ts.len()), Vec::with_capacity(ts.len()));
                for i in nulls.slice(start, ts.len()).valid_indices() {
                    valid.push(native[i]);
                    times.push(ts[i]);
                }
                self.add_all(&valid, &times);
            }
        }
    }

    fn finish(self: Box<Self>) -> Vec<(Aggregate, ArrayRef)> {
        let sums = self.count.iter().zip(&self.sums).map(|(count, sum)| (*count > 0).then_some(*sum));
        let sum = T::array(sums);
        let mut all: Vec<(Aggregate, ArrayRef)> =
            vec![(Aggregate::Count, Arc::new(UInt64Array::from(self.count.clone())))];
        all.extend(sum.map(|sum| (Aggregate::Sum, sum)));
        all.extend([
            (Aggregate::Min, self.values(|r| r.min)),
            (Aggregate::Max, self.values(|r| r.max)),
            (Aggregate::First, self.values(|r| r.first.1)),
            (Aggregate::FirstTs, self.times(|r| r.first.0)),
            (Aggregate::Last, self.values(|r| r.last.1)),
            (Aggregate::LastTs, self.times(|r| r.last.0)),
        ]);
        all
    }

    fn bytes(&self) -> usize {
        self.count.capacity() * 16 + self.rest.capacity() * size_of::<Option<Rest<T::Native>>>()
    }
}
