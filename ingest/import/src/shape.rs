//! Converts a file's batches to the batches that the table takes: times as timestamps, tags marked for a new table.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, TimestampNanosecondArray},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit},
};
use chrono_tz::Tz;
use tidelake_format::{Error, Result, types::Precision};
use tidelake_ingest::decode::{
    arrow::ROLE,
    time::{doubt, parse_timestamp},
};

use crate::{
    input::Progress,
    roles::{self, Roles},
    source::{Numbered, Rows, Source, Wrong, Wrongs, shorten},
    table::{is_text, is_time, type_name},
    words::Words,
};

/// Conversion of a file's rows to a table's rows.
#[derive(Debug, Clone)]
pub struct Shape {
    time: usize,
    /// Columns that become timestamps, with the time column.
    times: Vec<usize>,
    schema: SchemaRef,
    /// Nanoseconds per unit of the numbers in the time column, if numbers that seem to be in another unit are rejected.
    checked_unit: Option<i64>,
    words: Words,
}

impl Shape {
    /// Builds the conversion. Numbers that are times are in `unit`; with `checks`, those that seem to be in another unit are
    /// wrong.
    ///
    /// # Errors
    /// The time column holds neither times, text nor integers; or the server would choose another time column for the new
    /// table.
    pub fn new(source: &Source, roles: &Roles, unit: TimeUnit, is_new: bool, checks: bool) -> Result<Self> {
        let schema = &source.schema;
        let mut times = source.times.clone();
        if !times.contains(&roles.time) {
            times.push(roles.time);
        }
        let mut fields = Vec::new();
        for (at, field) in schema.fields().iter().enumerate() {
            let data_type = if times.contains(&at) { instant(field, unit)? } else { field.data_type().clone() };
            let field = Field::new(field.name(), data_type, field.is_nullable());
            let role = if roles.tags.contains(&at) { "tag" } else { "field" };
            fields.push(if is_new { field.with_metadata([(ROLE.to_owned(), role.to_owned())].into()) } else { field });
        }
        let schema = Arc::new(Schema::new(fields));
        if is_new {
            let taken = roles::new_table_time(&schema);
            if taken != Some(roles.time) {
                let name = schema.field(roles.time).name();
                let other = taken.map_or("none", |at| schema.field(at).name());
                let text = format!(
                    "the new table's time column would be {other:?}, not {name:?}: rename {other:?} in the file, or create \
                     the table first"
                );
                return Err(Error::invalid(text));
            }
        }
        let checked_unit = checks.then(|| match schema.field(roles.time).data_type() {
            DataType::Timestamp(TimeUnit::Nanosecond, _) => 1,
            DataType::Timestamp(TimeUnit::Microsecond, _) => 1_000,
            DataType::Timestamp(TimeUnit::Millisecond, _) => 1_000_000,
            _ => 1_000_000_000,
        });
        Ok(Self { time: roles.time, times, schema, checked_unit, words: source.words })
    }

    /// A conversion that changes nothing.
    pub(crate) fn plain(source: &Source) -> Self {
        let schema = source.schema.clone();
        Self { time: usize::MAX, times: Vec::new(), schema, checked_unit: None, words: source.words }
    }

    /// The schema of all batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Converts a batch. Rows whose time is wrong are handled as `wrongs` says.
    ///
    /// # Errors
    /// The reason why a time is wrong, naming line and column.
    pub fn apply(&self, source: &Source, mut numbered: Numbered, wrongs: Wrongs) -> Result<Numbered> {
        let mut columns = numbered.batch.columns().to_vec();
        let mut good = vec![true; numbered.batch.num_rows()];
        for at in &self.times {
            let (column, reasons) = self.times(*at, &numbered.batch)?;
            columns[*at] = column;
            for (row, reason) in reasons {
                let place = numbered.places[row];
                let reason = format!("column {:?} {reason}", self.schema.field(*at).name());
                if wrongs == Wrongs::Fail {
                    return Err(Error::invalid(format!("{}: {reason}", source.position(numbered.file, place))));
                }
                if std::mem::replace(&mut good[row], false) {
                    let text = numbered.texts.get(row).cloned().unwrap_or_default();
                    numbered.wrong.push(Wrong { file: numbered.file, place, reason, text });
                }
            }
        }
        numbered.batch = RecordBatch::try_new(self.schema.clone(), columns)?;
        numbered.only(&good)
    }

    /// The times of a column, and the rows whose time is wrong with the reason.
    fn times(&self, at: usize, batch: &RecordBatch) -> Result<(ArrayRef, Vec<(usize, String)>)> {
        let (column, field) = (batch.column(at), self.schema.field(at));
        let is_key = at == self.time;
        let mut wrong: Vec<(usize, String)> = Vec::new();
        if is_key && column.null_count() > 0 {
            let empty = (0..column.len()).filter(|row| column.is_null(*row));
            wrong.extend(empty.map(|row| (row, "is empty: expected a time in every row".to_owned())));
        }
        if column.data_type().is_integer() {
            let ticks = cast_with_options(column, &DataType::Int64, &lenient())?;
            let ticks: &Int64Array = ticks.as_primitive::<Int64Type>();
            let unit = self.checked_unit.filter(|_| is_key);
            for row in (0..ticks.len()).filter(|row| ticks.is_valid(*row)) {
                if let Some(doubt) = unit.and_then(|unit| doubt(ticks.value(row), unit)) {
                    let (precision, implausible) =
                        (self.words.precision.trim_end_matches([' ', '=']), self.words.implausible);
                    wrong.push((row, format!("holds an {doubt} (here: {precision}, or {implausible})")));
                }
            }
            return Ok((cast_with_options(ticks, field.data_type(), &lenient())?, wrong));
        }
        if !is_text(column.data_type()) {
            return Ok((column.clone(), wrong));
        }
        let texts = cast_with_options(column, &DataType::Utf8, &lenient())?;
        let mut times = Vec::with_capacity(column.len());
        for (row, text) in texts.as_string::<i32>().iter().enumerate() {
            let time = text.map(|text| parse_timestamp(text, Tz::UTC, Precision::Nano).map_err(|_| shorten(text)));
            times.push(match time {
                None => None,
                Some(Ok(time)) => Some(time),
                Some(Err(text)) => {
                    wrong.push((row, format!("holds {text:?}; expected a time such as 2026-01-31T10:00:00Z")));
                    None
                }
            });
        }
        Ok((Arc::new(TimestampNanosecondArray::from(times)), wrong))
    }
}

/// The type of a column of times; numbers are in `unit`.
fn instant(field: &Field, unit: TimeUnit) -> Result<DataType> {
    match field.data_type() {
        text if is_text(text) => Ok(DataType::Timestamp(TimeUnit::Nanosecond, None)),
        integer if integer.is_integer() => Ok(DataType::Timestamp(unit, None)),
        time if is_time(time) => Ok(time.clone()),
        other => Err(Error::invalid(format!("column {:?} is no column of times", field.name()))
            .with("expected", "times, or integers")
            .with("found", type_name(other))),
    }
}

fn lenient() -> CastOptions<'static> {
    CastOptions { safe: true, ..CastOptions::default() }
}

/// The rows of files in the form that the table takes.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The files.
    pub source: Source,
    /// The conversion.
    pub shape: Shape,
}

impl Prepared {
    /// All rows of all files, in their order.
    pub fn rows(&self, wrongs: Wrongs, progress: &Progress) -> Rows {
        self.shaped(self.source.rows(wrongs, progress), wrongs)
    }

    /// All rows of one file.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub fn rows_of(&self, file: usize, wrongs: Wrongs, progress: &Progress) -> Result<Rows> {
        Ok(self.shaped(self.source.rows_of(file, wrongs, progress)?, wrongs))
    }

    fn shaped(&self, rows: Rows, wrongs: Wrongs) -> Rows {
        let this = self.clone();
        let mut is_over = false;
        Box::new(rows.map_while(move |rows| {
            if is_over {
                return None;
            }
            let shaped = rows.and_then(|numbered| this.shape.apply(&this.source, numbered, wrongs));
            is_over = shaped.is_err();
            Some(shaped)
        }))
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimestampMillisecondType;

    use super::*;
    use crate::{
        input::{FileFormat, spool, unwatched},
        source::{ColumnType, Reading},
    };

    fn source(text: &str, types: &[(&str, ColumnType)]) -> Source {
        let input = spool(text.as_bytes(), "").unwrap();
        let types = types.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect();
        let reading = Reading { nulls: Vec::new(), types, sample: 1_000, words: Words::COMMAND_LINE };
        Source::inspect(vec![(input, FileFormat::Csv)], reading).unwrap()
    }

    fn prepared(text: &str, types: &[(&str, ColumnType)], checks: bool) -> Prepared {
        let source = source(text, types);
        let roles = Roles { time: 0, tags: vec![1], name: None };
        let shape = Shape::new(&source, &roles, TimeUnit::Millisecond, true, checks).unwrap();
        Prepared { source, shape }
    }

    fn first(prepared: &Prepared, wrongs: Wrongs) -> Result<Numbered> {
        prepared.rows(wrongs, &unwatched()).next().unwrap()
    }

    #[test]
    fn the_time_column_becomes_a_timestamp_and_tags_are_marked() {
        let prepared = prepared("at,site\n7,a\n8,b\n", &[], false);
        assert_eq!(prepared.shape.schema().field(1).metadata()[ROLE], "tag");
        let sent = first(&prepared, Wrongs::Fail).unwrap().batch;
        assert_eq!(sent.column(0).as_primitive::<TimestampMillisecondType>().values().to_vec(), [7, 8]);
    }

    #[test]
    fn a_time_that_cannot_be_read_is_named_with_line_and_column() {
        let text = "at,site\n2026-01-01 08:00,a\nyesterday,b\n,c\n2026-01-01 09:00,d\n";
        let error = first(&prepared(text, &[], false), Wrongs::Fail).unwrap_err().to_string();
        assert!(error.contains("column \"at\""), "{error}");
        let kept = first(&prepared(text, &[], false), Wrongs::Keep).unwrap();
        assert_eq!(kept.places, [2, 5]);
        let mut wrong: Vec<(u64, &str)> = kept.wrong.iter().map(|w| (w.place, w.text.as_str())).collect();
        wrong.sort_unstable();
        assert_eq!(wrong, [(3, "yesterday,b"), (4, ",c")]);
        let text = "at,site\n2026-01-01 08:00,a\nyesterday,b\n";
        let error = first(&prepared(text, &[], false), Wrongs::Fail).unwrap_err().to_string();
        assert!(error.starts_with("line 3: column \"at\" holds \"yesterday\""), "{error}");
    }

    #[test]
    fn seconds_read_as_milliseconds_are_refused_where_units_are_checked() {
        let text = "at,site\n7,a\n1767254401,b\n";
        assert!(first(&prepared(text, &[], false), Wrongs::Fail).is_ok());
        let error = first(&prepared(text, &[], true), Wrongs::Fail).unwrap_err().to_string();
        assert!(error.starts_with("line 3: column \"at\"") && error.contains("2026-01-01T08:00:01Z in s"), "{error}");
    }

    #[test]
    fn another_column_of_times_is_read_in_the_unit_too_and_may_be_empty() {
        let prepared = prepared("at,site,seen\n7,a,5\n8,b,\n", &[("seen", ColumnType::Timestamp)], false);
        let sent = first(&prepared, Wrongs::Fail).unwrap().batch;
        let seen = sent.column(2).as_primitive::<TimestampMillisecondType>();
        assert_eq!((seen.value(0), seen.is_null(1)), (5, true));
    }

    #[test]
    fn a_second_timestamp_that_a_new_table_would_be_ordered_by_is_named() {
        let source = source("ts,at\n2026-01-01,2026-01-02\n", &[]);
        let roles = Roles { time: 1, tags: Vec::new(), name: None };
        let error = Shape::new(&source, &roles, TimeUnit::Second, true, false).unwrap_err().to_string();
        assert!(error.contains("\"ts\", not \"at\""), "{error}");
        assert!(Shape::new(&source, &roles, TimeUnit::Second, false, false).is_ok());
    }
}
