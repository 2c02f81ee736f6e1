//! Converts a file's batches to the batches sent: the time column as a timestamp, tags marked for a new table.

use std::sync::Arc;

use anyhow::{Context, bail};
use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch, TimestampNanosecondArray},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit},
};
use chrono_tz::Tz;
use tidelake_format::types::Precision;
use tidelake_ingest::decode::time::{doubt, parse_timestamp};

use super::roles::{self, Roles};
use crate::transfer::rows::Numbered;

/// Field metadata key that makes a column a tag of a new table.
pub(super) const ROLE: &str = "tidelake.role";

/// Conversion of a file's rows to a table's rows.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    time: usize,
    schema: SchemaRef,
    /// The word for a row's position: "row" or "line".
    place: &'static str,
    /// Nanoseconds per unit of the numbers in the time column, if numbers that seem to be in another unit are rejected.
    checked_unit: Option<i64>,
}

impl Shape {
    /// Builds the conversion. Numbers in the time column are in `unit`.
    ///
    /// # Errors
    /// The time column holds neither times, text nor integers; or the server would choose another time column for the new table.
    pub(super) fn new(
        schema: &Schema,
        roles: &Roles,
        unit: TimeUnit,
        is_new: bool,
        place: &'static str,
    ) -> anyhow::Result<Self> {
        let name = schema.field(roles.time).name();
        let time = match schema.field(roles.time).data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                DataType::Timestamp(TimeUnit::Nanosecond, None)
            }
            integer if integer.is_integer() => DataType::Timestamp(unit, None),
            other @ (DataType::Timestamp(..) | DataType::Date32 | DataType::Date64) => other.clone(),
            other => bail!("the time column {name:?} holds {other}; expected times or integers"),
        };
        let fields = schema.fields().iter().enumerate().map(|(at, field)| {
            let data_type = if at == roles.time { &time } else { field.data_type() };
            let field = Field::new(field.name(), data_type.clone(), field.is_nullable());
            let role = if roles.tags.contains(&at) { "tag" } else { "field" };
            if is_new { field.with_metadata([(ROLE.to_owned(), role.to_owned())].into()) } else { field }
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        if is_new {
            let taken = roles::new_table_time(&schema);
            if taken != Some(roles.time) {
                let other = taken.map_or("none", |at| schema.field(at).name());
                bail!(
                    "the new table's time column would be {other:?}, not {name:?}: rename {other:?} in the \
                     file, or create the table first"
                );
            }
        }
        Ok(Self { time: roles.time, schema, place, checked_unit: None })
    }

    /// Rejects numbers in the time column that seem to be in another unit.
    pub(super) fn checked(self) -> Self {
        let nanos = match self.schema.field(self.time).data_type() {
            DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
            DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
            DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
            _ => 1_000_000_000,
        };
        Self { checked_unit: Some(nanos), ..self }
    }

    /// The schema of all batches.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Converts a batch.
    ///
    /// # Errors
    /// A time cannot be parsed; the error names line and column.
    pub(super) fn apply(&self, numbered: &Numbered) -> anyhow::Result<RecordBatch> {
        let mut columns = numbered.batch.columns().to_vec();
        columns[self.time] = self.times(numbered)?;
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    fn times(&self, numbered: &Numbered) -> anyhow::Result<ArrayRef> {
        let (column, field) = (numbered.batch.column(self.time), self.schema.field(self.time));
        let at = |row: usize| format!("{} {}: column {:?}", self.place, numbered.places[row], field.name());
        if let Some(row) = (0..column.len()).find(|row| column.is_null(*row)) {
            bail!("{} is empty: expected a time in every row", at(row));
        }
        if column.data_type().is_integer() {
            let ticks = cast_with_options(column, &DataType::Int64, &strict()).context("the time column")?;
            let values = ticks.as_primitive::<Int64Type>().values();
            let doubt = |(row, value): (usize, &i64)| Some((row, doubt(*value, self.checked_unit?)?));
            if let Some((row, doubt)) = values.iter().enumerate().find_map(doubt) {
                bail!("{}: {doubt} (here: --precision, or --allow-implausible-times)", at(row));
            }
            return Ok(cast_with_options(&ticks, field.data_type(), &strict())?);
        }
        if !matches!(column.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
            return Ok(column.clone());
        }
        let texts = cast_with_options(column, &DataType::Utf8, &strict())?;
        let mut times = Vec::with_capacity(column.len());
        for (row, text) in texts.as_string::<i32>().iter().enumerate() {
            let text = text.unwrap_or_default();
            let time = parse_timestamp(text, Tz::UTC, Precision::Nano).map_err(|_| {
                anyhow::anyhow!("{} holds {text:?}; expected a time such as 2026-01-31T10:00:00Z", at(row))
            })?;
            times.push(time);
        }
        Ok(Arc::new(TimestampNanosecondArray::from(times)))
    }
}

fn strict() -> CastOptions<'static> {
    CastOptions { safe: false, ..CastOptions::default() }
}

#[cfg(test)]
mod tests {
    use arrow::{
        array::{Int64Array, StringArray},
        datatypes::TimestampMillisecondType,
    };

    use super::*;

    fn numbered(times: ArrayRef) -> Numbered {
        let hosts = Arc::new(StringArray::from(vec!["a", "b"])) as ArrayRef;
        Numbered { batch: RecordBatch::try_from_iter([("at", times), ("site", hosts)]).unwrap(), places: vec![2, 5] }
    }

    fn shape(numbered: &Numbered) -> Shape {
        let roles = Roles { time: 0, tags: vec![1], name: None };
        Shape::new(&numbered.batch.schema(), &roles, TimeUnit::Millisecond, true, "line").unwrap()
    }

    #[test]
    fn the_time_column_becomes_a_timestamp_and_tags_are_marked() {
        let rows = numbered(Arc::new(Int64Array::from(vec![7, 8])));
        let shape = shape(&rows);
        assert_eq!(shape.schema().field(1).metadata()[ROLE], "tag");
        let sent = shape.apply(&rows).unwrap();
        assert_eq!(sent.column(0).as_primitive::<TimestampMillisecondType>().values().to_vec(), [7, 8]);
    }

    #[test]
    fn a_time_that_cannot_be_read_is_named_with_line_and_column() {
        let rows = numbered(Arc::new(StringArray::from(vec!["2026-01-01 08:00", "yesterday"])));
        let error = shape(&rows).apply(&rows).unwrap_err().to_string();
        assert!(error.starts_with("line 5: column \"at\" holds \"yesterday\""), "{error}");
        let rows = numbered(Arc::new(StringArray::from(vec![Some("2026-01-01 08:00"), None])));
        let error = shape(&rows).apply(&rows).unwrap_err().to_string();
        assert!(error.starts_with("line 5: column \"at\" is empty"), "{error}");
    }

    #[test]
    fn seconds_read_as_milliseconds_are_refused_where_units_are_checked() {
        let rows = numbered(Arc::new(Int64Array::from(vec![7, 1_767_254_401])));
        assert!(shape(&rows).apply(&rows).is_ok());
        let error = shape(&rows).checked().apply(&rows).unwrap_err().to_string();
        assert!(error.starts_with("line 5: column \"at\"") && error.contains("2026-01-01T08:00:01Z in s"), "{error}");
    }

    #[test]
    fn a_second_timestamp_that_a_new_table_would_be_ordered_by_is_named() {
        let schema = Schema::new(vec![
            Field::new("ts", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
            Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, None), true),
        ]);
        let roles = Roles { time: 1, tags: Vec::new(), name: None };
        let error = Shape::new(&schema, &roles, TimeUnit::Second, true, "line").unwrap_err().to_string();
        assert!(error.contains("\"ts\", not \"at\""), "{error}");
        assert!(Shape::new(&schema, &roles, TimeUnit::Second, false, "line").is_ok());
    }
}
