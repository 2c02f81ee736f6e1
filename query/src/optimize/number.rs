//! Numbers of any width: their sums, and the total order in which their extremes are found.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, ArrowPrimitiveType, AsArray, Float64Array, Int64Array, UInt64Array},
    buffer::{NullBuffer, ScalarBuffer},
    compute::cast,
    datatypes::{ArrowNativeType, DataType, Float64Type, Int64Type, UInt64Type},
};
use tidelake_format::Result;

use super::codes::{Book, sum_in_lanes, total};

/// A number as the widest of its kind, with the total order of Arrow as the order of keys.
pub(super) trait Number: Copy + Default + Send + 'static {
    /// i64, u64 or f64.
    type Wide: ArrowNativeType + Send;
    /// Ordered as `total_cmp` orders.
    type Key: Copy + Ord;
    fn narrow(wide: Self::Wide) -> Self;
    fn key(self) -> Self::Key;
    fn unkey(key: Self::Key) -> Self;
    /// A tick of a timestamp column, whose native type is i64.
    fn of_ticks(ticks: i64) -> Self;
    fn plus(a: Self::Wide, b: Self::Wide) -> Self::Wide;
    fn float(wide: Self::Wide) -> f64;
    /// The sum as [`Number::plus`] gives it.
    fn sum(values: &[Self]) -> Self::Wide;
    /// The sum as a number, which does not wrap.
    fn float_sum(values: &[Self]) -> f64;
    /// How many numbers at the beginning have the same distance each from the one before, the first of them, and the
    /// distance; `None` where sums of such numbers are not exact.
    fn even(values: &[Self]) -> Option<(usize, Self::Wide, Self::Wide)>;
    /// As [`Number::sum`].
    fn sum_of_codes(book: &Book<Self>, codes: &[u8]) -> Self::Wide;
    /// As [`Number::float_sum`].
    fn float_sum_of_codes(book: &Book<Self>, codes: &[u8]) -> f64;
    fn sums(values: Vec<Self::Wide>, nulls: NullBuffer) -> ArrayRef;
    /// The values of an array of aggregates, widened; without a copy when they are wide already.
    fn widen(array: &ArrayRef) -> Result<ScalarBuffer<Self::Wide>>;
}

/// A sum of floats in eight independent lanes, so that additions need not wait for each other.
fn in_lanes<T: Copy>(values: &[T], float: impl Fn(T) -> f64) -> f64 {
    let mut lanes = [0.0; 8];
    let chunks = values.chunks_exact(8);
    let rest: f64 = chunks.remainder().iter().map(|v| float(*v)).sum();
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(lane, v)| *lane += float(*v));
    }
    lanes.iter().sum::<f64>() + rest
}

macro_rules! integer {
    ($($native:ty => $wide:ty, $wide_type:ty, $array:ty;)*) => {$(
        impl Number for $native {
            type Wide = $wide;
            type Key = $native;
            fn narrow(wide: $wide) -> Self { wide as $native }
            fn key(self) -> $native { self }
            fn unkey(key: $native) -> Self { key }
            fn of_ticks(ticks: i64) -> Self { ticks as $native }
            fn plus(a: $wide, b: $wide) -> $wide { a.wrapping_add(b) }
            fn float(wide: $wide) -> f64 { wide as f64 }
            fn sum(values: &[Self]) -> $wide {
                values.iter().fold(0, |sum: $wide, v| sum.wrapping_add(<$wide>::from(*v)))
            }
            fn float_sum(values: &[Self]) -> f64 {
                // no slice is long enough for a sum of narrow integers to wrap
                if size_of::<$native>() < 8 { Self::sum(values) as f64 } else { in_lanes(values, |v| v as f64) }
            }
            fn even(values: &[Self]) -> Option<(usize, $wide, $wide)> {
                let wide = |at: usize| <$wide>::from(values[at]);
                let step = if values.len() > 1 { wide(1).wrapping_sub(wide(0)) } else { 0 };
                let goes_on = |at: &usize| wide(*at).wrapping_sub(wide(at - 1)) == step;
                let n = (1..values.len()).take_while(goes_on).count() + 1;
                (!values.is_empty()).then(|| (n, wide(0), step))
            }
            fn sum_of_codes(book: &Book<Self>, codes: &[u8]) -> $wide {
                match book.even() {
                    Some((first, step)) => {
                        let steps = step.wrapping_mul(total(codes) as $wide);
                        first.wrapping_mul(codes.len() as $wide).wrapping_add(steps)
                    }
                    None => sum_in_lanes(codes, |code| <$wide>::from(book.entry(code)), <$wide>::wrapping_add),
                }
            }
            fn float_sum_of_codes(book: &Book<Self>, codes: &[u8]) -> f64 {
                if size_of::<$native>() < 8 {
                    return Self::sum_of_codes(book, codes) as f64;
                }
                sum_in_lanes(codes, |code| book.entry(code) as f64, |a, b| a + b)
            }
            fn sums(values: Vec<$wide>, nulls: NullBuffer) -> ArrayRef {
                Arc::new(<$array>::new(values.into(), Some(nulls)))
            }
            fn widen(array: &ArrayRef) -> Result<ScalarBuffer<$wide>> {
                let wide = cast(array, &<$wide_type as ArrowPrimitiveType>::DATA_TYPE)?;
                Ok(wide.as_primitive::<$wide_type>().values().clone())
            }
        }
    )*};
}

integer! {
    i8 => i64, Int64Type, Int64Array;
    i16 => i64, Int64Type, Int64Array;
    i32 => i64, Int64Type, Int64Array;
    i64 => i64, Int64Type, Int64Array;
    u8 => u64, UInt64Type, UInt64Array;
    u16 => u64, UInt64Type, UInt64Array;
    u32 => u64, UInt64Type, UInt64Array;
    u64 => u64, UInt64Type, UInt64Array;
}

macro_rules! float {
    ($($native:ty, $bits:ty;)*) => {$(
        impl Number for $native {
            type Wide = f64;
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
            fn float(wide: f64) -> f64 { wide }
            fn sum(values: &[Self]) -> f64 { in_lanes(values, f64::from) }
            fn float_sum(values: &[Self]) -> f64 { Self::sum(values) }
            fn even(_: &[Self]) -> Option<(usize, f64, f64)> { None }
            fn sum_of_codes(book: &Book<Self>, codes: &[u8]) -> f64 {
                sum_in_lanes(codes, |code| f64::from(book.entry(code)), |a, b| a + b)
            }
            fn float_sum_of_codes(book: &Book<Self>, codes: &[u8]) -> f64 { Self::sum_of_codes(book, codes) }
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
    fn sums_wrap_and_float_sums_do_not() {
        assert_eq!(i64::sum(&[i64::MAX, 1]), i64::MIN);
        assert_eq!(i64::float_sum(&[i64::MAX, 1]), 9_223_372_036_854_775_808.0);
        assert_eq!(u64::sum(&[u64::MAX, 2]), 1);
        assert_eq!(i32::float_sum(&[i32::MAX, i32::MAX, -1]), 4_294_967_293.0);
        let many: Vec<f32> = (0..21).map(|v| v as f32 / 2.0).collect();
        assert_eq!(f32::sum(&many), 105.0);
    }
}
