//! Values of columns as JSON.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    datatypes::{DataType, Float64Type, Int64Type, UInt64Type},
    util::display::array_value_to_string,
};
use serde_json::Value;

/// A value as JSON: numbers and booleans as such, times in RFC 3339, all others as text.
pub(crate) fn value(column: &ArrayRef, row: usize) -> Value {
    if column.is_null(row) {
        return Value::Null;
    }
    match column.data_type() {
        DataType::Boolean => Value::Bool(column.as_boolean().value(row)),
        DataType::Int64 => Value::from(column.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => Value::from(column.as_primitive::<UInt64Type>().value(row)),
        // NaN and infinities have no number in JSON.
        DataType::Float64 => Value::from(column.as_primitive::<Float64Type>().value(row)),
        other => {
            let mut text = array_value_to_string(column, row).unwrap_or_default();
            if matches!(other, DataType::Timestamp(_, None)) {
                text.push('Z');
            }
            if !other.is_numeric() {
                return Value::String(text);
            }
            serde_json::from_str(&text).unwrap_or(Value::String(text))
        }
    }
}
