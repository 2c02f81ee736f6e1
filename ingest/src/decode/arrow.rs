//! Arrow batches: matches columns by name, casts without loss.
//!
//! A batch column maps to the table column of its name (exact, else without case). Unknown columns are an error; columns that
//! the batch lacks are absent from its rows. Integers and floats cast to any numeric type that holds the exact value (FLOAT
//! rounds), texts of any Arrow layout to BINARY, NCHAR and JSON, timestamps of any unit and zone to whole ticks of the
//! database's precision: unlike line protocol, a batch carries its unit, so nothing is truncated. An integer in a TIMESTAMP
//! column is a number of ticks.
//!
//! A row's `tbname` names its series; without that column its tags do, as in line protocol; in a table without tags the series
//! has the table's name. A batch is accepted or refused as a whole.

mod cast;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array},
    compute,
    datatypes::{DataType, Field, Int64Type, Schema},
    row::{RowConverter, SortField},
};
use chrono_tz::Tz;
use hashbrown::HashMap;
use tidelake_format::{
    Error, Reason, Result,
    rows::{Block, series_field},
    schema::{Column, Database, Role, Supertable, TBNAME, check_name},
    types::Type,
};

use super::{
    Decoded,
    builder::{BlockBuilder, Tag, canonical_name, untagged_name},
    tdengine::{Clock, Typed as _, value},
    time,
};

/// Field metadata key for the role of a new table's column: `tag`, or anything else for a field.
pub const ROLE: &str = "tidelake.role";

/// Decodes a batch into rows of `table`, with columns matched by name. `now` is in ticks of the database.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid), naming row, column, expected and found; [`Kind::NotFound`](crate::Kind::NotFound)
/// for a column that the table lacks. On error no row of the batch is accepted.
pub fn decode(batch: &RecordBatch, table: &Supertable, database: &Database, now: i64) -> Result<Decoded> {
    let columns = Columns::of(batch, table)?;
    let rows = batch.num_rows();
    if rows == 0 {
        return Ok(Decoded::default());
    }
    // Timestamp texts without an offset are UTC; nothing is relative to now.
    let clock = Clock { zone: Tz::UTC, precision: database.precision, now_ns: 0 };
    let ts = cast::column(&columns.time.1, columns.time.0, clock)?;
    check_times(&ts, table, time::oldest_kept(table.kept_ms(database), database.precision, now), clock)?;
    let (series, set) = series(&columns, table, clock, rows)?;
    let mut fields = vec![series_field(), table.time().field(database.precision)];
    let mut arrays: Vec<ArrayRef> = vec![Arc::new(series), ts];
    for (column, array) in &columns.fields {
        fields.push(column.field(database.precision));
        arrays.push(cast::column(array, column, clock)?);
    }
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)?;
    let block = Block::try_new(table.id, set.series, batch)?;
    Ok(Decoded { blocks: vec![block], accepted: rows, ..Decoded::default() })
}

/// Columns of the table that a batch of this schema creates: `(name, role, type)`, time first.
///
/// The time column is the first timestamp named `ts` or `time`, else the first timestamp. A column whose metadata [`ROLE`] is
/// `tag` is a tag; all others, texts and dictionaries included, are fields. `tbname` is not a column.
///
/// # Errors
/// [`Kind::Invalid`](crate::Kind::Invalid) if there is no time column or an Arrow type has no counterpart.
pub fn infer_table(schema: &Schema) -> Result<Vec<(String, Role, Type)>> {
    let is_time = |f: &Field| matches!(f.data_type(), DataType::Timestamp(..) | DataType::Date32 | DataType::Date64);
    let named = |f: &Field| f.name().eq_ignore_ascii_case("ts") || f.name().eq_ignore_ascii_case("time");
    let fields = schema.fields();
    let time = fields
        .iter()
        .position(|f| is_time(f) && named(f))
        .or_else(|| fields.iter().position(|f| is_time(f)))
        .ok_or_else(|| Error::invalid("no timestamp column for a new table").with("found", names(schema)))?;
    let mut columns = vec![(fields[time].name().clone(), Role::Time, Type::Timestamp)];
    let (mut fields_of_it, mut tags) = (Vec::new(), Vec::new());
    for (at, field) in fields.iter().enumerate() {
        if at == time || field.name().eq_ignore_ascii_case(TBNAME) {
            continue;
        }
        let ty = counterpart(field.data_type()).ok_or_else(|| {
            Error::invalid("unsupported Arrow type").with("column", field.name()).with("found", field.data_type())
        })?;
        match field.metadata().get(ROLE).map(String::as_str) {
            Some("tag") => tags.push((field.name().clone(), Role::Tag, ty)),
            _ => fields_of_it.push((field.name().clone(), Role::Field, ty)),
        }
    }
    columns.extend(fields_of_it);
    columns.extend(tags);
    Ok(columns)
}

/// The column type that holds every value of an Arrow type.
fn counterpart(data_type: &DataType) -> Option<Type> {
    Some(match data_type {
        DataType::Float16 => Type::Float,
        DataType::Date32 | DataType::Date64 => Type::Timestamp,
        DataType::LargeUtf8 | DataType::Utf8View => Type::Binary(None),
        DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => Type::VarBinary(None),
        DataType::Dictionary(_, values) => return counterpart(values),
        other => return Type::of(other),
    })
}

/// Columns of a batch by their role in the table.
struct Columns<'t> {
    time: (&'t Column, ArrayRef),
    fields: Vec<(&'t Column, ArrayRef)>,
    tags: Vec<(&'t Column, ArrayRef)>,
    name: Option<ArrayRef>,
}

impl<'t> Columns<'t> {
    fn of(batch: &RecordBatch, table: &'t Supertable) -> Result<Self> {
        let (mut time, mut fields, mut tags, mut name) = (None, Vec::new(), Vec::new(), None);
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let array = plain(array)?;
            let twice = if field.name().eq_ignore_ascii_case(TBNAME) {
                name.replace(array).is_some()
            } else {
                let column = table.column(field.name()).ok_or_else(|| {
                    Error::not_found(format!("Invalid column name: {}", field.name()))
                        .because(Reason::ColumnNotFound)
                        .with("table", &table.name)
                })?;
                match column.role {
                    Role::Time => time.replace((column, array)).is_some(),
                    Role::Field => push_new(&mut fields, column, array),
                    Role::Tag => push_new(&mut tags, column, array),
                }
            };
            if twice {
                return Err(Error::invalid("duplicate column in the batch").with("column", field.name()));
            }
        }
        let Some(time) = time else {
            return Err(Error::invalid("the batch has no time column")
                .with("expected", &table.time().name)
                .with("found", names(&batch.schema())));
        };
        if name.is_none() && tags.is_empty() && table.tags().next().is_some() {
            return Err(Error::invalid("the batch identifies no series: expected a column tbname, or tags")
                .with("table", &table.name)
                .with("found", names(&batch.schema())));
        }
        Ok(Self { time, fields, tags, name })
    }
}

fn push_new<'t>(columns: &mut Vec<(&'t Column, ArrayRef)>, column: &'t Column, array: ArrayRef) -> bool {
    let twice = columns.iter().any(|(c, _)| c.id == column.id);
    columns.push((column, array));
    twice
}

/// Decodes dictionaries and run ends.
fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => Ok(compute::cast(array, values)?),
        DataType::RunEndEncoded(_, values) => Ok(compute::cast(array, values.data_type())?),
        _ => Ok(Arc::clone(array)),
    }
}

fn check_times(ts: &ArrayRef, table: &Supertable, oldest: i64, clock: Clock) -> Result<()> {
    let bad = |row: usize, what: &str| {
        Error::invalid(what.to_owned()).with("row", row + 1).with("column", &table.time().name)
    };
    if let Some(row) = (0..ts.len()).find(|row| ts.is_null(*row)) {
        return Err(bad(row, "the time must not be null"));
    }
    let ticks = compute::cast(ts, &DataType::Int64)?;
    let ticks = ticks.as_primitive::<Int64Type>().values();
    if let Some(row) = ticks.iter().position(|ts| *ts < oldest || !time::in_range(*ts, clock.precision)) {
        return Err(bad(row, "Timestamp data out of range")
            .with("expected", format!("at least {oldest} {}", clock.precision))
            .with("found", ticks[row]));
    }
    Ok(())
}

/// The series of each row, and a block that holds all series.
fn series(columns: &Columns<'_>, table: &Supertable, clock: Clock, rows: usize) -> Result<(UInt32Array, Block)> {
    let mut builder = BlockBuilder::new(table, clock.precision);
    let mut indices = Vec::with_capacity(rows);
    if let Some(names) = &columns.name {
        let names = compute::cast(names, &DataType::Utf8)?;
        let names = names.as_string::<i32>();
        for row in 0..rows {
            if names.is_null(row) {
                return Err(Error::invalid("tbname must not be null").with("row", row + 1));
            }
            let name = names.value(row);
            let known = indices.last().copied().filter(|_| row > 0 && names.value(row - 1) == name);
            indices.push(match known.or_else(|| builder.find_series(name)) {
                Some(series) => series,
                None => {
                    check_name("table", name).map_err(|e| e.with("row", row + 1))?;
                    with_tags(columns, clock, row, |tags| builder.series(name, tags))?
                }
            });
        }
    } else if columns.tags.is_empty() {
        let series = builder.series(&untagged_name(&table.name), &[]);
        indices.resize(rows, series);
    } else {
        let arrays: Vec<ArrayRef> = columns.tags.iter().map(|(_, array)| Arc::clone(array)).collect();
        let sort_fields = arrays.iter().map(|a| SortField::new(a.data_type().clone())).collect();
        let keys = RowConverter::new(sort_fields)?.convert_columns(&arrays)?;
        let mut known: HashMap<&[u8], u32> = HashMap::new();
        let mut name = String::new();
        for row in 0..rows {
            let key = keys.row(row).data();
            indices.push(match known.get(key) {
                Some(series) => *series,
                None => {
                    let series = with_tags(columns, clock, row, |tags| {
                        canonical_name(&table.name, tags, &mut name);
                        builder.series(&name, tags)
                    })?;
                    known.insert(key, series);
                    series
                }
            });
        }
    }
    Ok((UInt32Array::from(indices), builder.finish()?))
}

/// Reads the tags of a row and passes them to `then`.
fn with_tags<T>(
    columns: &Columns<'_>,
    clock: Clock,
    row: usize,
    then: impl FnOnce(&mut Vec<(&Column, Tag<'_>)>) -> T,
) -> Result<T> {
    let mut values = Vec::with_capacity(columns.tags.len());
    for (column, array) in &columns.tags {
        values.push((*column, value(array, row).map_err(|e| e.with("column", &column.name))?));
    }
    let mut tags = Vec::with_capacity(values.len());
    for (column, value) in &values {
        let tag =
            value.typed("", column.ty, clock).map_err(|fault| cast::fault(column, row, &value.describe(), fault))?;
        tags.extend(tag.map(|tag| (*column, tag)));
    }
    Ok(then(&mut tags))
}

fn names(schema: &Schema) -> String {
    schema.fields().iter().map(|f| f.name().as_str()).take(32).collect::<Vec<_>>().join(", ")
}
