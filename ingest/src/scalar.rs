//! Reads one value of an array.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{
        DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type,
    },
};
use tidelake_format::types::Scalar;

/// The value at a row; `None` for null and for types that no column has.
pub(crate) fn scalar_at(array: &ArrayRef, row: usize) -> Option<Scalar> {
    if array.is_null(row) {
        return None;
    }
    macro_rules! primitive {
        ($($ty:ty),*; $kind:ident as $to:ty) => { $(
            if let Some(values) = array.as_primitive_opt::<$ty>() {
                return Some(Scalar::$kind(values.value(row) as $to));
            }
        )* };
    }
    primitive!(Int8Type, Int16Type, Int32Type, Int64Type; Int as i64);
    primitive!(UInt8Type, UInt16Type, UInt32Type, UInt64Type; UInt as u64);
    primitive!(Float32Type, Float64Type; Float as f64);
    match array.data_type() {
        DataType::Boolean => Some(Scalar::Bool(array.as_boolean().value(row))),
        DataType::Utf8 => Some(Scalar::Text(array.as_string::<i32>().value(row).to_owned())),
        DataType::Binary => Some(Scalar::Bytes(array.as_binary::<i32>().value(row).to_owned())),
        DataType::Timestamp(unit, None) => Some(Scalar::Int(match unit {
            TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().value(row),
            TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().value(row),
            TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().value(row),
            TimeUnit::Second => return None,
        })),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Float32Array, StringArray, TimestampMicrosecondArray, UInt8Array};

    use super::*;

    #[test]
    fn every_type_of_value_is_read_and_null_is_none() {
        let arrays: [ArrayRef; 4] = [
            Arc::new(UInt8Array::from(vec![Some(255), None])),
            Arc::new(Float32Array::from(vec![Some(1.5), None])),
            Arc::new(StringArray::from(vec![Some("x"), None])),
            Arc::new(TimestampMicrosecondArray::from(vec![Some(-1), None])),
        ];
        let values: Vec<_> = arrays.iter().map(|a| scalar_at(a, 0).unwrap()).collect();
        assert_eq!(values, [Scalar::UInt(255), Scalar::Float(1.5), Scalar::Text("x".into()), Scalar::Int(-1)]);
        assert!(arrays.iter().all(|a| scalar_at(a, 1).is_none()));
    }
}
