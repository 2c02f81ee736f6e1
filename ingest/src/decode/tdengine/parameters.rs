//! `?` parameters: values bound from a row of an Arrow batch.

use std::borrow::Cow;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    datatypes::{
        DataType, Date32Type, Date64Type, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
        Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use tidelake_format::{Error, Result};
use tidelake_protocol::sql::{Numbers, Value};

/// The parameters of one execution, used in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parameters<'a> {
    batch: &'a RecordBatch,
    row: usize,
    numbers: Numbers,
}

impl<'a> Parameters<'a> {
    pub(super) fn new(batch: &'a RecordBatch, row: usize) -> Self {
        Self { batch, row, numbers: Numbers::default() }
    }

    /// The value of the next parameter, or of the one with this number.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) if there are no more parameters, or no column accepts the value's type.
    pub(super) fn take(&mut self, number: Option<usize>) -> Result<Value<'a>> {
        let at = self.numbers.place(number)?;
        if at >= self.batch.num_columns() {
            return Err(Error::invalid("too few parameters are bound")
                .with("expected", format!("at least {}", at + 1))
                .with("found", self.batch.num_columns()));
        }
        value(self.batch.column(at), self.row).map_err(|e| e.with("parameter", at + 1))
    }

    /// Checks that all parameters were used.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) if some were not.
    pub(super) fn finish(&self) -> Result<()> {
        if self.numbers.count == self.batch.num_columns() {
            return Ok(());
        }
        Err(Error::invalid("too many parameters are bound")
            .with("expected", self.numbers.count)
            .with("found", self.batch.num_columns()))
    }
}

/// The error of a statement with parameters but no bound values.
pub(super) fn unbound() -> Error {
    Error::invalid("the statement has parameters, but none are bound")
}

/// Reads one value of an array.
pub(in crate::decode) fn value(array: &ArrayRef, row: usize) -> Result<Value<'_>> {
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    let instant = |value: i64, nanos: i128| Value::Instant(i128::from(value) * nanos);
    Ok(match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Bool(array.as_boolean().value(row)),
        DataType::Int8 => Value::Integer(array.as_primitive::<Int8Type>().value(row).into()),
        DataType::Int16 => Value::Integer(array.as_primitive::<Int16Type>().value(row).into()),
        DataType::Int32 => Value::Integer(array.as_primitive::<Int32Type>().value(row).into()),
        DataType::Int64 => Value::Integer(array.as_primitive::<Int64Type>().value(row).into()),
        DataType::UInt8 => Value::Integer(array.as_primitive::<UInt8Type>().value(row).into()),
        DataType::UInt16 => Value::Integer(array.as_primitive::<UInt16Type>().value(row).into()),
        DataType::UInt32 => Value::Integer(array.as_primitive::<UInt32Type>().value(row).into()),
        DataType::UInt64 => Value::Integer(array.as_primitive::<UInt64Type>().value(row).into()),
        DataType::Float16 => Value::Float(array.as_primitive::<Float16Type>().value(row).to_f64()),
        DataType::Float32 => Value::Float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Value::Text(Cow::Borrowed(array.as_string::<i32>().value(row))),
        DataType::LargeUtf8 => Value::Text(Cow::Borrowed(array.as_string::<i64>().value(row))),
        DataType::Utf8View => Value::Text(Cow::Borrowed(array.as_string_view().value(row))),
        DataType::Binary => Value::Bytes(Cow::Borrowed(array.as_binary::<i32>().value(row))),
        DataType::LargeBinary => Value::Bytes(Cow::Borrowed(array.as_binary::<i64>().value(row))),
        DataType::BinaryView => Value::Bytes(Cow::Borrowed(array.as_binary_view().value(row))),
        DataType::FixedSizeBinary(_) => Value::Bytes(Cow::Borrowed(array.as_fixed_size_binary().value(row))),
        DataType::Timestamp(TimeUnit::Second, _) => {
            instant(array.as_primitive::<TimestampSecondType>().value(row), 1_000_000_000)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            instant(array.as_primitive::<TimestampMillisecondType>().value(row), 1_000_000)
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            instant(array.as_primitive::<TimestampMicrosecondType>().value(row), 1_000)
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            instant(array.as_primitive::<TimestampNanosecondType>().value(row), 1)
        }
        DataType::Date32 => instant(array.as_primitive::<Date32Type>().value(row).into(), 86_400_000_000_000),
        DataType::Date64 => instant(array.as_primitive::<Date64Type>().value(row), 1_000_000),
        DataType::Union(..) => {
            let union = array.as_union();
            owned(value(&union.value(row), 0)?)
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            match dictionary.normalized_keys().get(row) {
                Some(key) => value(dictionary.values(), *key)?,
                None => Value::Null,
            }
        }
        other => {
            return Err(Error::invalid("unsupported parameter type").with("found", other));
        }
    })
}

/// Copies the value, without borrows from a temporary array.
fn owned(value: Value<'_>) -> Value<'static> {
    match value {
        Value::Null => Value::Null,
        Value::Bool(v) => Value::Bool(v),
        Value::Integer(v) => Value::Integer(v),
        Value::Float(v) => Value::Float(v),
        Value::Instant(v) => Value::Instant(v),
        Value::Text(v) => Value::Text(Cow::Owned(v.into_owned())),
        Value::Bytes(v) => Value::Bytes(Cow::Owned(v.into_owned())),
        Value::Shifted(ticks, shift) => Value::Shifted(ticks, shift),
        Value::Now(v) => Value::Now(v),
        Value::Today(v) => Value::Today(v),
        // Values of an array never have these forms.
        Value::Number(..) | Value::Parameter(_) => Value::Null,
    }
}
