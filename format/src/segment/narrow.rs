//! Integers of a block in the narrowest type that holds them: fewer bytes to copy, compress and store. Most integers are small, but
//! line protocol has only 64-bit ones, for example.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch},
    datatypes::{
        DataType, FieldRef, Int8Type, Int16Type, Int32Type, Int64Type, Schema, UInt8Type, UInt16Type, UInt32Type,
        UInt64Type,
    },
};

use crate::error::{Error, Result};

/// Metadata of a field that is stored in a narrower type: the bits of its own type, in decimal.
const BITS: &str = "bits";

/// Blocks of fewer rows stay as they are: their columns are as small as the description of a narrower type.
const ROWS: usize = 64;

/// Narrows the integers of the fields; the series and the time stay as they are.
pub(super) fn narrowed(rows: &RecordBatch) -> Result<RecordBatch> {
    if rows.num_rows() < ROWS {
        return Ok(rows.clone());
    }
    replaced(rows, |field, column| {
        let narrow = narrow(column)?;
        let bits = field.data_type().primitive_width()? * 8;
        let mut metadata = field.metadata().clone();
        metadata.insert(BITS.to_owned(), bits.to_string());
        let field = field.as_ref().clone().with_data_type(narrow.data_type().clone()).with_metadata(metadata);
        Some(Ok((Arc::new(field), narrow)))
    })
}

/// Gives the fields that [`narrowed`] changed their own types again.
///
/// # Errors
/// [`Kind::Corrupt`](crate::Kind::Corrupt) for a width that a column cannot have, and for columns of more than `limit` bytes.
pub(super) fn widened(rows: RecordBatch, limit: usize) -> Result<RecordBatch> {
    let bits_of = |field: &FieldRef| field.metadata().get(BITS).map(|bits| bits.parse().unwrap_or(0_usize));
    let widths: Vec<usize> = rows.schema_ref().fields().iter().filter_map(bits_of).collect();
    if widths.is_empty() {
        return Ok(rows);
    }
    let bytes = rows.num_rows() * widths.iter().map(|bits| bits.min(&64)).sum::<usize>() / 8;
    if bytes > limit {
        return Err(Error::corrupt("integers of a log segment are too large")
            .with("limit", limit)
            .with("found", bytes));
    }
    replaced(&rows, |field, column| {
        let mut metadata = field.metadata().clone();
        let bits = metadata.remove(BITS)?;
        let wide = match widen(column, &bits) {
            Some(wide) => wide,
            None => {
                return Some(Err(Error::corrupt("a column of a log segment cannot be widened")
                    .with("column", field.name())
                    .with("bits", bits)
                    .with("found", field.data_type())));
            }
        };
        let field = field.as_ref().clone().with_data_type(wide.data_type().clone()).with_metadata(metadata);
        Some(Ok((Arc::new(field), wide)))
    })
}

/// Replaces the columns for which `other` returns a column.
fn replaced(
    rows: &RecordBatch,
    other: impl Fn(&FieldRef, &ArrayRef) -> Option<Result<(FieldRef, ArrayRef)>>,
) -> Result<RecordBatch> {
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (at, (field, column)) in rows.schema_ref().fields().iter().zip(rows.columns()).enumerate() {
        // The first column is the series of the rows, which older readers do not widen.
        let replaced = if at == 0 { None } else { other(field, column).transpose()? };
        let (field, column) = replaced.unwrap_or_else(|| (field.clone(), column.clone()));
        fields.push(field);
        columns.push(column);
    }
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// The narrowest array of the same integers, also of those under nulls; `None` if that is the array itself.
fn narrow(column: &ArrayRef) -> Option<ArrayRef> {
    macro_rules! narrow {
        ($wide:ty, $bits:expr; $($native:ty => $narrow:ty),+) => {{
            let values = column.as_primitive::<$wide>();
            let bits: u32 = $bits(values.values());
            $(if bits <= <$native>::BITS {
                return Some(converted::<$wide, $narrow>(values, |value| value as $native));
            })+
            None
        }};
    }
    // The bits of all values together: negative numbers are inverted, which keeps the bits that they need, and the sign needs one.
    macro_rules! signed {
        ($native:ty) => {
            |values: &[$native]| {
                <$native>::BITS + 1
                    - values.iter().fold(0, |all, v| all | (v ^ (v >> (<$native>::BITS - 1)))).leading_zeros()
            }
        };
    }
    macro_rules! unsigned {
        ($native:ty) => {
            |values: &[$native]| <$native>::BITS - values.iter().fold(0, |all, v| all | v).leading_zeros()
        };
    }
    match column.data_type() {
        DataType::Int64 => narrow!(Int64Type, signed!(i64); i8 => Int8Type, i16 => Int16Type, i32 => Int32Type),
        DataType::Int32 => narrow!(Int32Type, signed!(i32); i8 => Int8Type, i16 => Int16Type),
        DataType::Int16 => narrow!(Int16Type, signed!(i16); i8 => Int8Type),
        DataType::UInt64 => narrow!(UInt64Type, unsigned!(u64); u8 => UInt8Type, u16 => UInt16Type, u32 => UInt32Type),
        DataType::UInt32 => narrow!(UInt32Type, unsigned!(u32); u8 => UInt8Type, u16 => UInt16Type),
        DataType::UInt16 => narrow!(UInt16Type, unsigned!(u16); u8 => UInt8Type),
        _ => None,
    }
}

/// The array in the type of as many bits; `None` if that is no wider integer.
fn widen(column: &ArrayRef, bits: &str) -> Option<ArrayRef> {
    macro_rules! widen {
        ($narrow:ty; $($bits:literal => $native:ty, $wide:ty);+) => {
            match bits {
                $($bits => Some(converted::<$narrow, $wide>(column.as_primitive(), |value| <$native>::from(value))),)+
                _ => None,
            }
        };
    }
    match column.data_type() {
        DataType::Int8 => widen!(Int8Type; "16" => i16, Int16Type; "32" => i32, Int32Type; "64" => i64, Int64Type),
        DataType::Int16 => widen!(Int16Type; "32" => i32, Int32Type; "64" => i64, Int64Type),
        DataType::Int32 => widen!(Int32Type; "64" => i64, Int64Type),
        DataType::UInt8 => widen!(UInt8Type; "16" => u16, UInt16Type; "32" => u32, UInt32Type; "64" => u64, UInt64Type),
        DataType::UInt16 => widen!(UInt16Type; "32" => u32, UInt32Type; "64" => u64, UInt64Type),
        DataType::UInt32 => widen!(UInt32Type; "64" => u64, UInt64Type),
        _ => None,
    }
}

fn converted<A: ArrowPrimitiveType, B: ArrowPrimitiveType>(
    values: &PrimitiveArray<A>,
    convert: impl Fn(A::Native) -> B::Native,
) -> ArrayRef {
    Arc::new(values.unary::<_, B>(convert))
}
