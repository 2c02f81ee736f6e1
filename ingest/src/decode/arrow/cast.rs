//! Casts one column of a batch to its table column.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    compute::{self, CastOptions},
    datatypes::{DataType, Int64Type, TimeUnit},
};
use tidelake_format::{Error, Result, schema::Column, types::Type};

use crate::decode::{
    builder::{Fault, FieldColumn},
    tdengine::{Clock, Typed as _, value},
    time,
};

/// Casts a column; a value that does not fit exactly is an error that names its row.
pub(super) fn column(array: &ArrayRef, column: &Column, clock: Clock) -> Result<ArrayRef> {
    let target = column.ty.data_type(clock.precision);
    match (array.data_type(), column.ty) {
        (DataType::Timestamp(unit, _), Type::Timestamp) => timestamps(array, *unit, column, clock),
        (DataType::Timestamp(..), _) => by_row(array, column, clock),
        (from, _) if *from == target && is_unlimited(column.ty) => Ok(Arc::clone(array)),
        (from, _) if from.is_integer() && target.is_integer() => {
            // The cast turns values out of range into nulls.
            let cast = compute::cast_with_options(array, &target, &CastOptions { safe: true, ..Default::default() })?;
            if cast.null_count() == array.null_count() { Ok(cast) } else { by_row(array, column, clock) }
        }
        (DataType::Float32, Type::Double) => Ok(compute::cast(array, &target)?),
        (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, Type::Binary(_) | Type::NChar(_)) => {
            let texts =
                compute::cast_with_options(array, &DataType::Utf8, &CastOptions { safe: false, ..Default::default() })?;
            let widest = texts.as_string::<i32>().offsets().lengths().max().unwrap_or(0);
            // A text has at most as many characters as bytes.
            let fits = widest <= (column.ty.width() as usize).min(Type::MAX_BYTES);
            if fits { Ok(texts) } else { by_row(array, column, clock) }
        }
        _ => by_row(array, column, clock),
    }
}

/// Whether every value of the Arrow type is valid for the column's type.
fn is_unlimited(ty: Type) -> bool {
    !matches!(ty, Type::Binary(_) | Type::NChar(_) | Type::Json | Type::VarBinary(_) | Type::Timestamp)
}

/// Converts timestamps to ticks of the database; each must be a whole tick.
fn timestamps(array: &ArrayRef, unit: TimeUnit, column: &Column, clock: Clock) -> Result<ArrayRef> {
    let (from, tick) = (nanos(unit), time::nanos_per_tick(clock.precision));
    let values = compute::cast(array, &DataType::Int64)?;
    let values = values.as_primitive::<Int64Type>();
    let (multiply, divide) = ((from / tick).max(1), (tick / from).max(1));
    let mut ticks = Vec::with_capacity(values.len());
    for (row, value) in values.values().iter().enumerate() {
        let fault = |fault| self::fault(column, row, &format!("{value} {}", unit_name(unit)), fault);
        if values.is_null(row) {
            ticks.push(0);
            continue;
        }
        if value % divide != 0 {
            return Err(fault(Fault::Inexact));
        }
        match (value / divide).checked_mul(multiply).filter(|ticks| time::in_range(*ticks, clock.precision)) {
            Some(value) => ticks.push(value),
            None => return Err(fault(Fault::Range)),
        }
    }
    let ticks = arrow::array::Int64Array::new(ticks.into(), values.nulls().cloned());
    Ok(compute::cast(&ticks, &clock.precision.data_type())?)
}

fn nanos(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

/// Casts any other pair of types, value by value.
fn by_row(array: &ArrayRef, column: &Column, clock: Clock) -> Result<ArrayRef> {
    let mut cells = FieldColumn::new(column.id, column.ty);
    let as_float = matches!(array.data_type(), DataType::Float16 | DataType::Float32 | DataType::Float64)
        && matches!(column.ty, Type::Float | Type::Double);
    let floats = if as_float { Some(compute::cast(array, &DataType::Float64)?) } else { None };
    for row in 0..array.len() {
        let value = value(array, row).map_err(|e| e.with("column", &column.name))?;
        let set = match &floats {
            // NaN and infinite floats of Arrow are preserved.
            Some(floats) if array.is_valid(row) => {
                cells.set_any_float(row, floats.as_primitive::<arrow::datatypes::Float64Type>().value(row))
            }
            _ => match value.typed("", column.ty, clock) {
                Ok(Some(typed)) => cells.set(row, typed),
                Ok(None) => {
                    cells.set_null(row);
                    Ok(())
                }
                Err(fault) => Err(fault),
            },
        };
        set.map_err(|fault| self::fault(column, row, &value.describe(), fault))?;
    }
    cells.finish(array.len(), clock.precision)
}

/// The error of one value.
pub(super) fn fault(column: &Column, row: usize, found: &str, fault: Fault) -> Error {
    Error::invalid(format!("invalid value: {fault}"))
        .with("row", row + 1)
        .with("column", &column.name)
        .with("expected", column.ty)
        .with("found", found)
}
