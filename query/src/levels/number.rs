//! Numbers of any width: their sums, and the total order of their extremes.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, ArrowPrimitiveType, AsArray, Decimal128Array, Float64Array},
    buffer::{NullBuffer, ScalarBuffer},
    compute::cast,
    datatypes::{ArrowNativeType, DataType, Float64Type, Int64Type, UInt64Type},
};
use tidelake_format::Result;

use super::codes::{Book, sum_in_lanes, total};
use crate::functions::sum::{PARTIAL, sum_of, sum_of_unsigned};

/// A number, widened to the widest type of its kind; keys follow Arrow's total order.
pub(super) trait Number: Copy + Default + Send + 'static {
    /// i64, u64 or f64.
    type Wide: ArrowNativeType + Send;
    /// Accumulator of sums: i128 for integers, so that no sum wraps, or f64.
    type Sum: Copy + Default + Send;
    /// Ordered like `total_cmp`.
    type Key: Copy + Ord;
    fn narrow(wide: Self::Wide) -> Self;
    fn key(self) -> Self::Key;
    fn unkey(key: Self::Key) -> Self;
    /// Converts a tick of a timestamp column, whose native type is i64.
    fn of_ticks(ticks: i64) -> Self;
    fn plus(a: Self::Sum, b: Self::Sum) -> Self::Sum;
    /// A sum of one number, or the exact sum of a chunk.
    fn as_sum(wide: Self::Wide) -> Self::Sum;
    fn float(wide: Self::Wide) -> f64;
    fn sum(values: &[Self]) -> Self::Sum;
    /// A sum of numbers as a float.
    fn float_sum(sum: Self::Sum) -> f64;
    /// Number of leading evenly spaced values, the first value, and the step; `None` if sums of such numbers are not
    /// exact.
    fn even(values: &[Self]) -> Option<(usize, Self::Wide, Self::Wide)>;
    /// Same as [`Number::sum`], for codes.
    fn sum_of_codes(book: &Book<Self>, codes: &[u8]) -> Self::Sum;
    /// Sums in the type of the states of `sum`.
    fn sums(values: Vec<Self::Sum>, nulls: NullBuffer) -> ArrayRef;
    /// Values of an array of aggregates, widened; not copied if they are wide already.
    fn widen(array: &ArrayRef) -> Result<ScalarBuffer<Self::Wide>>;
}

/// Sums floats in eight independent lanes, so that additions need not wait for each other.
fn in_lanes<T: Copy>(values: &[T], float: impl Fn(T) -> f64) -> f64 {
    let mut lanes = [0.0; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|v| float(*v)).sum();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, v)| *lane += float(*v));
    }
    lanes.iter().sum::<f64>() + rest
}

/// Sums codes of numbers narrower than 64 bits; no slice is long enough to wrap.
macro_rules! narrow_sum_of_codes {
    ($wide:ty, $book:ident, $codes:ident) => {
        match $book.even() {
            Some((first, step)) => {
                let steps = step.wrapping_mul(total($codes) as $wide);
                first.wrapping_mul($codes.len() as $wide).wrapping_add(steps)
            }
            None => sum_in_lanes($codes, |code| <$wide>::from($book.entry(code)), <$wide>::wrapping_add),
        }
    };
}

/// Sums numbers narrower than 64 bits.
fn narrow_sum<T: Copy + Into<i64>>(values: &[T]) -> i128 {
    i128::from(values.iter().fold(0_i64, |sum, v| sum.wrapping_add((*v).into())))
}

macro_rules! integer {
    ($($native:ty => $wide:ty, $wide_type:ty, $exact:path;)*) => {$(
        impl Number for $native {
            type Wide = $wide;
            type Sum = i128;
            type Key = $native;
            fn narrow(wide: $wide) -> Self { wide as $native }
            fn key(self) -> $native { self }
            fn unkey(key: $native) -> Self { key }
            fn of_ticks(ticks: i64) -> Self { ticks as $native }
            fn plus(a: i128, b: i128) -> i128 { a + b }
            fn as_sum(wide: $wide) -> i128 { i128::from(wide) }
            fn float(wide: $wide) -> f64 { wide as f64 }
            fn sum(values: &[Self]) -> i128 {
                $exact(values)
            }
            fn float_sum(sum: i128) -> f64 {
                // Conversions from 128 bits are slow, and most sums fit into 64.
                i64::try_from(sum).map_or_else(|_| sum as f64, |sum| sum as f64)
            }
            fn even(values: &[Self]) -> Option<(usize, $wide, $wide)> {
                let step_to = |at: usize| <$wide>::from(values[at]).checked_sub(<$wide>::from(values[at - 1]));
                let first = <$wide>::from(*values.first()?);
                let step = if values.len() > 1 { step_to(1)? } else { 0 };
                let goes_on = |at: &usize| step_to(*at) == Some(step);
                Some(((1..values.len()).take_while(goes_on).count() + 1, first, step))
            }
            #[inline]
            fn sum_of_codes(book: &Book<Self>, codes: &[u8]) -> i128 {
                if size_of::<$native>() < 8 {
                    return i128::from(narrow_sum_of_codes!($wide, book, codes));
                }
                match book.even() {
                    Some((first, step)) => {
                        i128::from(first) * codes.len() as i128 + i128::from(step) * i128::from(total(codes))
                    }
                    None => sum_in_lanes(codes, |code| i128::from(book.entry(code)), |a, b| a + b),
                }
            }
            fn sums(values: Vec<i128>, nulls: NullBuffer) -> ArrayRef {
                Arc::new(Decimal128Array::new(values.into(), Some(nulls)).with_data_type(PARTIAL))
            }
            fn widen(array: &ArrayRef) -> Result<ScalarBuffer<$wide>> {
                let wide = cast(array, &<$wide_type as ArrowPrimitiveType>::DATA_TYPE)?;
                Ok(wide.as_primitive::<$wide_type>().values().clone())
            }
        }
    )*};
}

integer! {
    i8 => i64, Int64Type, narrow_sum;
    i16 => i64, Int64Type, narrow_sum;
    i32 => i64, Int64Type, narrow_sum;
    i64 => i64, Int64Type, sum_of;
    u8 => u64, UInt64Type, narrow_sum;
    u16 => u64, UInt64Type, narrow_sum;
    u32 => u64, UInt64Type, narrow_sum;
    u64 => u64, UInt64Type, sum_of_unsigned;
}

macro_rules! float {
    ($($native:ty, $bits:ty;)*) => {$(
        impl Number for $native {
            type Wide = f64;
            type Sum = f64;
            type Key = $bits;
            fn narrow(wide: f64) -> Self { wide as $native }
            fn key(self) -> $bits {
                let bits = self.to_bits() as $bits;
                bits ^ (bits >> (<$bits>::BITS - 1)) & <$bits>::MAX
            }
            fn unkey(key: $bits) -> Self {
                <$native>::from_bits((key ^ (key >> (<$bits>::BITS - 1)) & <$bits>::MAX) as _)
            }
            fn of_ticks(ticks: i64) -> Self { ticks as $native }
            fn plus(a: f64, b: f64) -> f64 { a + b }
            fn as_sum(wide: f64) -> f64 { wide }
            fn float(wide: f64) -> f64 { wide }
            fn sum(values: &[Self]) -> f64 { in_lanes(values, f64::from) }
            fn float_sum(sum: f64) -> f64 { sum }
            fn even(_: &[Self]) -> Option<(usize, f64, f64)> { None }
            fn sum_of_codes(book: &Book<Self>, codes: &[u8]) -> f64 {
                sum_in_lanes(codes, |code| f64::from(book.entry(code)), |a, b| a + b)
            }
            fn sums(values: Vec<f64>, nulls: NullBuffer) -> ArrayRef {
                Arc::new(Float64Array::new(values.into(), Some(nulls)))
            }
            fn widen(array: &ArrayRef) -> Result<ScalarBuffer<f64>> {
                let wide = cast(array, &DataType::Float64)?;
                Ok(wide.as_primitive::<Float64Type>().values().clone())
            }
        }
    )*};
}

float! {
    f32, i32;
    f64, i64;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_floats_as_total_cmp_and_come_back_unchanged() {
        let values =
            [f64::NAN, -f64::NAN, 0.0, -0.0, 1.5, -1.5, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 5e-324];
        for a in values {
            assert_eq!(f64::unkey(a.key()).to_bits(), a.to_bits());
            assert_eq!(f32::unkey((a as f32).key()).to_bits(), (a as f32).to_bits());
            for b in values {
                assert_eq!(a.key().cmp(&b.key()), a.total_cmp(&b), "{a} {b}");
                assert_eq!((a as f32).key().cmp(&(b as f32).key()), (a as f32).total_cmp(&(b as f32)), "{a} {b}");
            }
        }
    }

    #[test]
    fn no_sum_wraps() {
        assert_eq!(i64::sum(&[i64::MAX, 1]), i128::from(i64::MAX) + 1);
        assert_eq!(i64::sum(&[i64::MIN, -1, 7]), i128::from(i64::MIN) + 6);
        assert_eq!(i64::sum(&[1 << 49; 10_000]), 10_000 << 49);
        assert_eq!(i64::float_sum(i64::sum(&[i64::MAX, 1])), 9_223_372_036_854_775_808.0);
        assert_eq!(u64::sum(&[u64::MAX, 2]), i128::from(u64::MAX) + 2);
        assert_eq!(i32::float_sum(i32::sum(&[i32::MAX, i32::MAX, -1])), 4_294_967_293.0);
        let many: Vec<f32> = (0..21).map(|v| v as f32 / 2.0).collect();
        assert_eq!(f32::sum(&many), 105.0);
    }
}
