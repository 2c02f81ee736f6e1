//! One growing column with lazily created validity.

use std::{fmt, sync::Arc};

use arrow::{
    array::{
        ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, PrimitiveArray, StringArray,
        TimestampMicrosecondArray, TimestampMillisecondArray, TimestampNanosecondArray,
    },
    buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer},
    datatypes::ArrowPrimitiveType,
};
use tidelake_format::{
    Error, Result,
    ids::ColumnId,
    types::{Precision, Type},
};

use super::series::Tag;

/// Reason why a value does not fit a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The column's type does not accept this kind of value.
    Type,
    /// The number is outside the range of the type.
    Range,
    /// The number is in range, but the type cannot hold it exactly.
    Inexact,
    /// A text is longer than the column's width, or than the longest allowed in any type.
    Width {
        /// The limit in bytes, or characters for NCHAR.
        limit: usize,
        /// The length in the same unit.
        found: usize,
    },
    /// The texts of one block exceed 2 GiB in total.
    BlockFull,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Type => f.write_str("of the wrong type"),
            Fault::Range => f.write_str("out of range"),
            Fault::Inexact => f.write_str("not exactly representable"),
            Fault::Width { limit, found } => write!(f, "too long: {found}, at most {limit}"),
            Fault::BlockFull => f.write_str("more than 2 GiB of text in one request"),
        }
    }
}

/// The values so far; skipped rows hold a default under a null.
#[derive(Debug)]
enum Values {
    Bool(Vec<bool>),
    I8(Vec<i8>),
    I16(Vec<i16>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    U8(Vec<u8>),
    U16(Vec<u16>),
    U32(Vec<u32>),
    U64(Vec<u64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
    Bytes { ends: Vec<i32>, data: Vec<u8> },
}

/// Evaluates one expression on the vector of any type; texts have an arm of their own.
macro_rules! on_vec {
    ($values:expr, $v:ident => $then:expr, $ends:ident, $data:ident => $bytes:expr) => {
        match $values {
            Values::Bool($v) => $then,
            Values::I8($v) => $then,
            Values::I16($v) => $then,
            Values::I32($v) => $then,
            Values::I64($v) => $then,
            Values::U8($v) => $then,
            Values::U16($v) => $then,
            Values::U32($v) => $then,
            Values::U64($v) => $then,
            Values::F32($v) => $then,
            Values::F64($v) => $then,
            Values::Bytes { ends: $ends, data: $data } => $bytes,
        }
    };
}

/// One column: values of some rows, null in the others. Setting a row again replaces its value.
#[derive(Debug)]
pub struct FieldColumn {
    id: ColumnId,
    ty: Type,
    values: Values,
    len: usize,
    /// `None` while no row is null.
    valid: Option<BooleanBufferBuilder>,
}

impl FieldColumn {
    /// An empty column.
    pub fn new(id: ColumnId, ty: Type) -> Self {
        let values = match ty {
            Type::Bool => Values::Bool(Vec::new()),
            Type::TinyInt => Values::I8(Vec::new()),
            Type::SmallInt => Values::I16(Vec::new()),
            Type::Int => Values::I32(Vec::new()),
            Type::BigInt | Type::Timestamp => Values::I64(Vec::new()),
            Type::UTinyInt => Values::U8(Vec::new()),
            Type::USmallInt => Values::U16(Vec::new()),
            Type::UInt => Values::U32(Vec::new()),
            Type::UBigInt => Values::U64(Vec::new()),
            Type::Float => Values::F32(Vec::new()),
            Type::Double => Values::F64(Vec::new()),
            Type::Binary(_) | Type::NChar(_) | Type::Json | Type::VarBinary(_) => {
                Values::Bytes { ends: Vec::new(), data: Vec::new() }
            }
        };
        Self { id, ty, values, len: 0, valid: None }
    }

    /// The column's id.
    pub fn id(&self) -> ColumnId {
        self.id
    }

    /// The column's type.
    pub fn ty(&self) -> Type {
        self.ty
    }

    /// Number of filled rows, nulls included.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no row is filled.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Drops everything after the first `rows` rows.
    pub fn truncate(&mut self, rows: usize) {
        if self.len <= rows {
            return;
        }
        self.len = rows;
        on_vec!(&mut self.values, v => v.truncate(rows), ends, data => {
            ends.truncate(rows);
            data.truncate(ends.last().map_or(0, |end| *end as usize));
        });
        if let Some(valid) = &mut self.valid {
            valid.truncate(rows);
        }
    }

    /// Makes `row` the next row to push: pads the rows before it with nulls, drops its earlier value.
    #[inline(always)]
    fn prepare(&mut self, row: usize) {
        if self.len != row {
            self.prepare_slow(row);
        }
        if let Some(valid) = &mut self.valid {
            valid.append(true);
        }
    }

    #[cold]
    fn prepare_slow(&mut self, row: usize) {
        self.truncate(row);
        self.pad(row);
    }

    /// Pads with nulls up to `rows` rows.
    fn pad(&mut self, rows: usize) {
        let len = self.len;
        if len >= rows {
            return;
        }
        self.len = rows;
        let valid = self.valid.get_or_insert_with(|| {
            let mut valid = BooleanBufferBuilder::new(rows.max(1_024));
            valid.append_n(len, true);
            valid
        });
        valid.append_n(rows - len, false);
        on_vec!(&mut self.values, v => v.resize(rows, Default::default()), ends, data => {
            ends.resize(rows, data.len() as i32);
        });
    }

    /// Sets a null.
    pub fn set_null(&mut self, row: usize) {
        self.truncate(row);
        self.pad(row + 1);
    }

    /// Sets a signed integer (or ticks of a TIMESTAMP), if the type holds it exactly.
    ///
    /// # Errors
    /// [`Fault::Range`], [`Fault::Inexact`] (FLOAT and DOUBLE) or [`Fault::Type`].
    #[inline]
    pub fn set_int(&mut self, row: usize, value: i64) -> Result<(), Fault> {
        self.prepare(row);
        let pushed = match &mut self.values {
            Values::I32(v) => push_as(v, value),
            Values::I64(v) => push_as(v, value),
            Values::I8(v) => push_as(v, value),
            Values::I16(v) => push_as(v, value),
            Values::U8(v) => push_as(v, value),
            Values::U16(v) => push_as(v, value),
            Values::U32(v) => push_as(v, value),
            Values::U64(v) => push_as(v, value),
            Values::F32(v) => push_if(v, value as f32, (value as f32) as i128 == i128::from(value), Fault::Inexact),
            Values::F64(v) => push_if(v, value as f64, (value as f64) as i128 == i128::from(value), Fault::Inexact),
            Values::Bool(_) | Values::Bytes { .. } => Err(Fault::Type),
        };
        self.settle(row, pushed)
    }

    /// Sets an unsigned integer, if the type holds it exactly.
    ///
    /// # Errors
    /// As [`set_int`](Self::set_int).
    pub fn set_uint(&mut self, row: usize, value: u64) -> Result<(), Fault> {
        if let Ok(value) = i64::try_from(value) {
            return self.set_int(row, value);
        }
        self.prepare(row);
        let pushed = match &mut self.values {
            Values::U64(v) => push_if(v, value, true, Fault::Range),
            Values::F32(v) => push_if(v, value as f32, (value as f32) as u128 == u128::from(value), Fault::Inexact),
            Values::F64(v) => push_if(v, value as f64, (value as f64) as u128 == u128::from(value), Fault::Inexact),
            Values::Bool(_) | Values::Bytes { .. } => Err(Fault::Type),
            _ => Err(Fault::Range),
        };
        self.settle(row, pushed)
    }

    /// Sets a finite float into FLOAT (rounded) or DOUBLE; never into an integer.
    ///
    /// # Errors
    /// [`Fault::Range`] if it is not finite in the type, or [`Fault::Type`].
    #[inline]
    pub fn set_float(&mut self, row: usize, value: f64) -> Result<(), Fault> {
        self.prepare(row);
        let pushed = match &mut self.values {
            Values::F64(v) => push_if(v, value, value.is_finite(), Fault::Range),
            Values::F32(v) => push_if(v, value as f32, (value as f32).is_finite(), Fault::Range),
            _ => Err(Fault::Type),
        };
        self.settle(row, pushed)
    }

    /// Sets any float, NaN and infinities included (Arrow allows them), into FLOAT (rounded) or DOUBLE.
    ///
    /// # Errors
    /// [`Fault::Range`] if a finite value is infinite in FLOAT, or [`Fault::Type`].
    pub fn set_any_float(&mut self, row: usize, value: f64) -> Result<(), Fault> {
        self.prepare(row);
        let pushed = match &mut self.values {
            Values::F64(v) => push_if(v, value, true, Fault::Range),
            Values::F32(v) => push_if(v, value as f32, (value as f32).is_finite() || !value.is_finite(), Fault::Range),
            _ => Err(Fault::Type),
        };
        self.settle(row, pushed)
    }

    /// Sets a float parsed with 32 bits into FLOAT.
    ///
    /// # Errors
    /// [`Fault::Range`] if it is not finite, or [`Fault::Type`] if the column is not FLOAT.
    #[inline]
    pub fn set_float32(&mut self, row: usize, value: f32) -> Result<(), Fault> {
        self.prepare(row);
        let pushed = match &mut self.values {
            Values::F32(v) => push_if(v, value, value.is_finite(), Fault::Range),
            _ => Err(Fault::Type),
        };
        self.settle(row, pushed)
    }

    /// Sets a boolean into BOOL.
    ///
    /// # Errors
    /// [`Fault::Type`].
    pub fn set_bool(&mut self, row: usize, value: bool) -> Result<(), Fault> {
        self.prepare(row);
        let pushed = match &mut self.values {
            Values::Bool(v) => push_if(v, value, true, Fault::Type),
            _ => Err(Fault::Type),
        };
        self.settle(row, pushed)
    }

    /// Sets a text into BINARY, NCHAR or JSON, or its bytes into VARBINARY, if the width allows.
    ///
    /// # Errors
    /// [`Fault::Width`], [`Fault::BlockFull`] or [`Fault::Type`].
    pub fn set_text(&mut self, row: usize, text: &str) -> Result<(), Fault> {
        check_width(self.ty, text)?;
        self.set_bytes_unchecked(row, text.as_bytes())
    }

    /// Sets bytes into VARBINARY, if the width allows.
    ///
    /// # Errors
    /// [`Fault::Width`], [`Fault::BlockFull`] or [`Fault::Type`].
    pub fn set_bytes(&mut self, row: usize, bytes: &[u8]) -> Result<(), Fault> {
        match self.ty {
            Type::VarBinary(limit) => check_bytes(limit, bytes.len())?,
            _ => return Err(Fault::Type),
        }
        self.set_bytes_unchecked(row, bytes)
    }

    /// Sets an already typed value.
    ///
    /// # Errors
    /// As the method for its type.
    pub fn set(&mut self, row: usize, value: Tag<'_>) -> Result<(), Fault> {
        match value {
            Tag::Bool(v) => self.set_bool(row, v),
            Tag::Int(v) => self.set_int(row, v),
            Tag::UInt(v) => self.set_uint(row, v),
            Tag::Float(v) => self.set_float32(row, v),
            Tag::Double(v) => self.set_float(row, v),
            Tag::Text(v) => self.set_text(row, v),
            Tag::Bytes(v) => self.set_bytes(row, v),
        }
    }

    fn set_bytes_unchecked(&mut self, row: usize, bytes: &[u8]) -> Result<(), Fault> {
        self.prepare(row);
        let pushed = match &mut self.values {
            Values::Bytes { ends, data } => match i32::try_from(data.len() + bytes.len()) {
                Ok(end) => {
                    data.extend_from_slice(bytes);
                    ends.push(end);
                    Ok(())
                }
                Err(_) => Err(Fault::BlockFull),
            },
            _ => Err(Fault::Type),
        };
        self.settle(row, pushed)
    }

    /// Counts the row, or removes its validity bit if the push failed.
    #[inline(always)]
    fn settle(&mut self, row: usize, pushed: Result<(), Fault>) -> Result<(), Fault> {
        match (&pushed, &mut self.valid) {
            (Ok(()), _) => self.len = row + 1,
            (Err(_), Some(valid)) => valid.truncate(row),
            (Err(_), None) => {}
        }
        pushed
    }

    /// Builds the array of `rows` rows.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) when a text is not UTF-8.
    pub fn finish(mut self, rows: usize, precision: Precision) -> Result<ArrayRef> {
        self.truncate(rows);
        self.pad(rows);
        let nulls = self.valid.map(|mut valid| NullBuffer::new(valid.finish()));
        Ok(match self.values {
            Values::Bool(v) => Arc::new(BooleanArray::new(v.into(), nulls)),
            Values::I64(v) if self.ty == Type::Timestamp => timestamps(v, nulls, precision),
            Values::I8(v) => primitive::<arrow::datatypes::Int8Type>(v, nulls),
            Values::I16(v) => primitive::<arrow::datatypes::Int16Type>(v, nulls),
            Values::I32(v) => primitive::<arrow::datatypes::Int32Type>(v, nulls),
            Values::I64(v) => primitive::<arrow::datatypes::Int64Type>(v, nulls),
            Values::U8(v) => primitive::<arrow::datatypes::UInt8Type>(v, nulls),
            Values::U16(v) => primitive::<arrow::datatypes::UInt16Type>(v, nulls),
            Values::U32(v) => primitive::<arrow::datatypes::UInt32Type>(v, nulls),
            Values::U64(v) => primitive::<arrow::datatypes::UInt64Type>(v, nulls),
            Values::F32(v) => primitive::<arrow::datatypes::Float32Type>(v, nulls),
            Values::F64(v) => primitive::<arrow::datatypes::Float64Type>(v, nulls),
            Values::Bytes { mut ends, data } => {
                ends.insert(0, 0);
                let offsets = OffsetBuffer::new(ScalarBuffer::from(ends));
                let data = Buffer::from_vec(data);
                if matches!(self.ty, Type::VarBinary(_)) {
                    Arc::new(BinaryArray::try_new(offsets, data, nulls)?)
                } else {
                    let texts = StringArray::try_new(offsets, data, nulls)
                        .map_err(|e| Error::invalid("text is not valid UTF-8").with("reason", e))?;
                    Arc::new(texts)
                }
            }
        })
    }
}

/// A timestamp array in a database's precision.
pub(super) fn timestamps(ticks: Vec<i64>, nulls: Option<NullBuffer>, precision: Precision) -> ArrayRef {
    let ticks = ScalarBuffer::from(ticks);
    match precision {
        Precision::Milli => Arc::new(TimestampMillisecondArray::new(ticks, nulls)),
        Precision::Micro => Arc::new(TimestampMicrosecondArray::new(ticks, nulls)),
        Precision::Nano => Arc::new(TimestampNanosecondArray::new(ticks, nulls)),
    }
}

/// Checks the width of a text.
///
/// # Errors
/// [`Fault::Width`], or [`Fault::Type`] if the type holds no text.
pub(super) fn check_width(ty: Type, text: &str) -> Result<(), Fault> {
    match ty {
        Type::Binary(limit) | Type::VarBinary(limit) => check_bytes(limit, text.len()),
        Type::NChar(limit) => {
            if let Some(limit) = limit
                && text.len() > limit as usize
            {
                let found = text.chars().count();
                if found > limit as usize {
                    return Err(Fault::Width { limit: limit as usize, found });
                }
            }
            check_bytes(None, text.len())
        }
        Type::Json => check_bytes(Some(Type::Json.width()), text.len()),
        _ => Err(Fault::Type),
    }
}

fn check_bytes(limit: Option<u32>, found: usize) -> Result<(), Fault> {
    let limit = limit.map_or(Type::MAX_BYTES, |limit| (limit as usize).min(Type::MAX_BYTES));
    if found > limit { Err(Fault::Width { limit, found }) } else { Ok(()) }
}

#[inline(always)]
fn push_as<T: TryFrom<i64>>(values: &mut Vec<T>, value: i64) -> Result<(), Fault> {
    values.push(T::try_from(value).map_err(|_| Fault::Range)?);
    Ok(())
}

#[inline(always)]
fn push_if<T>(values: &mut Vec<T>, value: T, fits: bool, fault: Fault) -> Result<(), Fault> {
    if !fits {
        return Err(fault);
    }
    values.push(value);
    Ok(())
}

fn primitive<T: ArrowPrimitiveType>(values: Vec<T::Native>, nulls: Option<NullBuffer>) -> ArrayRef {
    Arc::new(PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls))
}
