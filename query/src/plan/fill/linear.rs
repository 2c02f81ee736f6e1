//! Linear interpolation between two known values.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray, PrimitiveArray},
    datatypes::{
        ArrowPrimitiveType, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};

/// Source of a window's value in one column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Cell {
    /// Value of this row.
    Known(usize),
    /// Between the values of two rows, for the window that starts at `start`.
    Between {
        left: usize,
        right: usize,
        start: i64,
    },
    Unknown,
}

/// Interpolates the cells of a column; the windows of the column's rows start at `starts`. `None` for columns that are
/// neither numbers nor times.
pub(super) fn fill(column: &ArrayRef, cells: &[Cell], starts: &[i64]) -> Option<ArrayRef> {
    macro_rules! filled {
        ($($pattern:pat => $ty:ty),* $(,)?) => {
            match column.data_type() {
                $($pattern => {
                    let filled = interpolate::<$ty>(column.as_primitive(), cells, starts);
                    Some(Arc::new(filled.with_data_type(column.data_type().clone())))
                })*
                _ => None,
            }
        };
    }
    filled! {
        DataType::Int8 => Int8Type,
        DataType::Int16 => Int16Type,
        DataType::Int32 => Int32Type,
        DataType::Int64 => Int64Type,
        DataType::UInt8 => UInt8Type,
        DataType::UInt16 => UInt16Type,
        DataType::UInt32 => UInt32Type,
        DataType::UInt64 => UInt64Type,
        DataType::Float32 => Float32Type,
        DataType::Float64 => Float64Type,
        DataType::Decimal128(..) => Decimal128Type,
        DataType::Timestamp(TimeUnit::Second, _) => TimestampSecondType,
        DataType::Timestamp(TimeUnit::Millisecond, _) => TimestampMillisecondType,
        DataType::Timestamp(TimeUnit::Microsecond, _) => TimestampMicrosecondType,
        DataType::Timestamp(TimeUnit::Nanosecond, _) => TimestampNanosecondType,
    }
}

fn interpolate<T>(values: &PrimitiveArray<T>, cells: &[Cell], starts: &[i64]) -> PrimitiveArray<T>
where
    T: ArrowPrimitiveType,
    T::Native: Line,
{
    let value = |cell: &Cell| match *cell {
        Cell::Known(row) => Some(values.value(row)),
        Cell::Between { left, right, start } => {
            let (from, to) = (i128::from(*starts.get(left)?), i128::from(*starts.get(right)?));
            Some(T::Native::between(values.value(left), values.value(right), i128::from(start) - from, to - from))
        }
        Cell::Unknown => None,
    };
    cells.iter().map(value).collect()
}

/// A type that can be interpolated.
trait Line: Sized {
    /// Value at `part` of `whole` between two values, 0 ≤ part ≤ whole; the first value if `whole` is 0. Integers are
    /// truncated, as in TDengine.
    fn between(from: Self, to: Self, part: i128, whole: i128) -> Self;
}

macro_rules! line_of_integers {
    ($($native:ty),*) => {$(
        impl Line for $native {
            fn between(from: Self, to: Self, part: i128, whole: i128) -> Self {
                // i128 is sufficient except for decimals and the ends of time: there f64 is precise enough.
                if whole == 0 {
                    return from;
                }
                let exact = || {
                    let (from, to) = (i128::from(from), i128::from(to));
                    Some(from.checked_mul(whole - part)?.checked_add(to.checked_mul(part)?)? / whole)
                };
                match exact().and_then(|value| Self::try_from(value).ok()) {
                    Some(value) => value,
                    None => f64::between(from as f64, to as f64, part, whole) as Self,
                }
            }
        }
    )*};
}

line_of_integers!(i8, i16, i32, i64, i128, u8, u16, u32, u64);

impl Line for f64 {
    fn between(from: Self, to: Self, part: i128, whole: i128) -> Self {
        if whole == 0 {
            return from;
        }
        let (way, part) = (to - from, part as f64 / whole as f64);
        if way.is_finite() { from + way * part } else { from * (1.0 - part) + to * part }
    }
}

impl Line for f32 {
    fn between(from: Self, to: Self, part: i128, whole: i128) -> Self {
        f64::between(from.into(), to.into(), part, whole) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_exact_and_truncated() {
        assert_eq!(i32::between(0, 10, 1, 3), 3);
        assert_eq!(i32::between(0, -10, 1, 3), -3);
        assert_eq!(i64::between(i64::MIN, i64::MAX, 1, 2), 0);
        assert_eq!(u64::between(u64::MAX, u64::MAX - 2, 1, 2), u64::MAX - 1);
        assert_eq!(i64::between(9_007_199_254_740_993, 9_007_199_254_740_995, 1, 2), 9_007_199_254_740_994);
        assert_eq!(u8::between(255, 255, 5, 7), 255);
        assert_eq!(i32::between(1, 2, 0, 0), 1);
    }

    #[test]
    fn floats_are_on_the_line() {
        assert!((f64::between(1.0, 2.0, 1, 4) - 1.25).abs() < 1e-15);
        assert!((f32::between(-1.0, 1.0, 1, 2)).abs() < 1e-7);
        assert!(f64::between(f64::NAN, 1.0, 1, 2).is_nan());
        assert!(f64::between(-1.7e308, 1.7e308, 1, 2).abs() < 1.0);
    }
}
