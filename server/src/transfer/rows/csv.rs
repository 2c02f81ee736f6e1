//! CSV with a header line.

use std::{io::Read, sync::Arc};

use anyhow::{Context, bail};
use arrow::{
    array::{
        ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, RecordBatch, StringBuilder, TimestampNanosecondBuilder,
    },
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use chrono_tz::Tz;
use tidelake_format::types::Precision;
use tidelake_ingest::decode::time::parse_timestamp;

use super::{BATCH_ROWS, Numbered, shorten, text_notice};

const TIME: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// Types that fit all values of a column so far.
#[derive(Clone)]
struct Candidates {
    boolean: bool,
    integer: bool,
    number: bool,
    time: bool,
    values: u64,
    numbers: u64,
    /// The first value that is not a number, and its line.
    word: Option<(u64, String)>,
}

impl Candidates {
    fn new() -> Self {
        Self { boolean: true, integer: true, number: true, time: true, values: 0, numbers: 0, word: None }
    }

    fn add(&mut self, line: u64, value: &str) {
        self.values += 1;
        let (integer, number) = (value.parse::<i64>().is_ok(), float(value).is_some());
        self.numbers += u64::from(number);
        if !number && self.word.is_none() {
            self.word = Some((line, value.to_owned()));
        }
        self.integer &= integer;
        self.number &= number;
        self.boolean = self.boolean && boolean(value).is_some();
        self.time = self.time && time(value).is_some();
    }

    fn data_type(&self) -> DataType {
        match self {
            _ if self.values == 0 => DataType::Utf8,
            Self { boolean: true, .. } => DataType::Boolean,
            Self { integer: true, .. } => DataType::Int64,
            Self { number: true, .. } => DataType::Float64,
            Self { time: true, .. } => TIME,
            _ => DataType::Utf8,
        }
    }
}

fn boolean(value: &str) -> Option<bool> {
    match value {
        _ if value.eq_ignore_ascii_case("true") => Some(true),
        _ if value.eq_ignore_ascii_case("false") => Some(false),
        _ => None,
    }
}

/// Parses a number; `None` for an integer beyond 64 bits, because a float would round it.
fn float(value: &str) -> Option<f64> {
    let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
    let is_integer = digits.bytes().all(|b| b.is_ascii_digit());
    if !digits.bytes().any(|b| b.is_ascii_digit()) || (is_integer && value.parse::<i64>().is_err()) {
        return None;
    }
    value.parse().ok()
}

fn time(value: &str) -> Option<i64> {
    parse_timestamp(value, Tz::UTC, Precision::Nano).ok()
}

fn open<R: Read>(file: R) -> csv::Reader<R> {
    csv::ReaderBuilder::new().buffer_capacity(1 << 20).from_reader(file)
}

fn is_null(value: &str, nulls: &[String]) -> bool {
    value.is_empty() || nulls.iter().any(|null| null == value)
}

/// Infers columns and types from the first `rows` rows; also returns notices. A column without values in the whole file is
/// omitted.
pub(super) fn infer(file: impl Read, nulls: &[String], rows: usize) -> anyhow::Result<(SchemaRef, Vec<String>)> {
    let mut reader = open(file);
    let names: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
    if names.is_empty() {
        bail!("the file is empty; a CSV file begins with a line of column names");
    }
    let mut columns = vec![Candidates::new(); names.len()];
    let mut record = csv::StringRecord::new();
    let (mut read, mut whole) = (0, false);
    while read < rows {
        if !reader.read_record(&mut record)? {
            whole = true;
            break;
        }
        read += 1;
        let line = record.position().map_or(0, csv::Position::line);
        for (column, value) in columns.iter_mut().zip(&record).filter(|(_, value)| !is_null(value, nulls)) {
            column.add(line, value);
        }
    }
    let (mut fields, mut notices) = (Vec::new(), Vec::new());
    for (name, column) in names.iter().zip(&columns) {
        let data_type = column.data_type();
        if let (DataType::Utf8, Some((line, word))) = (&data_type, &column.word)
            && column.numbers * 2 >= column.values
        {
            notices.push(text_notice(name, *line, word));
        }
        if column.values == 0 && whole && read > 0 {
            notices.push(format!("column {name:?} is skipped: no row has a value in it"));
            continue;
        }
        fields.push(Field::new(name, data_type, true));
    }
    Ok((Arc::new(Schema::new(fields)), notices))
}

/// The cells of a column in a batch.
enum Cells {
    Boolean(BooleanBuilder),
    Integer(Int64Builder),
    Number(Float64Builder),
    Time(TimestampNanosecondBuilder),
    Text(StringBuilder),
}

impl Cells {
    fn new(data_type: &DataType) -> Self {
        match data_type {
            DataType::Boolean => Self::Boolean(BooleanBuilder::new()),
            DataType::Int64 => Self::Integer(Int64Builder::new()),
            DataType::Float64 => Self::Number(Float64Builder::new()),
            DataType::Timestamp(..) => Self::Time(TimestampNanosecondBuilder::new()),
            _ => Self::Text(StringBuilder::new()),
        }
    }

    fn null(&mut self) {
        match self {
            Self::Boolean(cells) => cells.append_null(),
            Self::Integer(cells) => cells.append_null(),
            Self::Number(cells) => cells.append_null(),
            Self::Time(cells) => cells.append_null(),
            Self::Text(cells) => cells.append_null(),
        }
    }

    /// Adds a value; on a type mismatch returns the expected type.
    fn add(&mut self, value: &str) -> Result<(), &'static str> {
        match self {
            Self::Boolean(cells) => boolean(value).map(|v| cells.append_value(v)).ok_or("true or false"),
            Self::Integer(cells) => value.parse().map(|v| cells.append_value(v)).map_err(|_| "an integer"),
            Self::Number(cells) => float(value).map(|v| cells.append_value(v)).ok_or("a number"),
            Self::Time(cells) => {
                time(value).map(|v| cells.append_value(v)).ok_or("a time such as 2026-01-31T10:00:00Z")
            }
            Self::Text(cells) => {
                cells.append_value(value);
                Ok(())
            }
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Boolean(cells) => Arc::new(cells.finish()),
            Self::Integer(cells) => Arc::new(cells.finish()),
            Self::Number(cells) => Arc::new(cells.finish()),
            Self::Time(cells) => Arc::new(cells.finish()),
            Self::Text(cells) => Arc::new(cells.finish()),
        }
    }
}

/// Reader of a file's rows with a known schema.
pub(super) struct Reader<R> {
    reader: csv::Reader<R>,
    schema: SchemaRef,
    /// Schema column of each column of the file; `None` for an omitted column.
    kept: Vec<Option<usize>>,
    nulls: Vec<String>,
    record: csv::StringRecord,
    is_over: bool,
}

impl<R: Read> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// The header cannot be read.
    pub(super) fn new(file: R, schema: &SchemaRef, nulls: &[String]) -> anyhow::Result<Self> {
        let mut reader = open(file);
        let mut next = 0;
        let kept = reader.headers()?.iter().map(|name| {
            // The schema lacks omitted columns and has the others in the file's order.
            let at = (schema.fields().get(next).map(|f| f.name().as_str()) == Some(name)).then_some(next);
            next += usize::from(at.is_some());
            at
        });
        let kept = kept.collect();
        let record = csv::StringRecord::new();
        Ok(Self { reader, schema: schema.clone(), kept, nulls: nulls.to_vec(), record, is_over: false })
    }

    fn batch(&mut self) -> anyhow::Result<Option<Numbered>> {
        let mut cells: Vec<Cells> = self.schema.fields().iter().map(|f| Cells::new(f.data_type())).collect();
        let mut places = Vec::new();
        while places.len() < BATCH_ROWS && self.reader.read_record(&mut self.record)? {
            let line = self.record.position().map_or(0, csv::Position::line);
            places.push(line);
            for (at, value) in self.kept.iter().zip(&self.record) {
                let Some(at) = *at else { continue };
                if is_null(value, &self.nulls) {
                    cells[at].null();
                } else if let Err(expected) = cells[at].add(value) {
                    let (name, found) = (self.schema.field(at).name(), shorten(value));
                    bail!(
                        "line {line}: column {name:?} holds '{found}', expected {expected} as in earlier rows; \
                         --null '{found}' reads it as null"
                    );
                }
            }
        }
        if places.is_empty() {
            return Ok(None);
        }
        let columns = cells.iter_mut().map(Cells::finish).collect();
        let batch = RecordBatch::try_new(self.schema.clone(), columns).context("the columns of a batch")?;
        Ok(Some(Numbered { batch, places }))
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = anyhow::Result<Numbered>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let batch = self.batch().transpose();
        self.is_over = !matches!(batch, Some(Ok(_)));
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn infer_text(text: &str, nulls: &[&str]) -> (SchemaRef, Vec<String>) {
        let nulls: Vec<String> = nulls.iter().map(|n| (*n).to_owned()).collect();
        infer(text.as_bytes(), &nulls, 100).unwrap()
    }

    #[test]
    fn types_are_those_that_hold_every_value() {
        let text = "a,b,c,d,e,f,g\n1,1,true,2026-01-01 08:00,x,,18446744073709551615\n2,1.5,FALSE,2026-01-02,y,,1\n";
        let (schema, notices) = infer_text(text, &[]);
        let types: Vec<_> = schema.fields().iter().map(|f| f.data_type().clone()).collect();
        let expected = [DataType::Int64, DataType::Float64, DataType::Boolean, TIME, DataType::Utf8, DataType::Utf8];
        assert_eq!(types, expected);
        assert!(notices.iter().any(|n| n.contains("\"f\" is skipped")), "{notices:?}");
        let rows = Reader::new(text.as_bytes(), &schema, &[]).unwrap().next().unwrap().unwrap();
        assert_eq!((rows.batch.num_rows(), rows.batch.num_columns(), rows.places), (2, 6, vec![2, 3]));
    }

    #[test]
    fn a_word_among_numbers_is_named_with_its_line_unless_it_is_null() {
        for text in ["a,v\n1,2.5\n\"x\ny\",1\n3,N/A\n", "a,v\n1,2\n\"x\ny\",1\n3,N/A\n"] {
            let (schema, notices) = infer_text(text, &[]);
            assert_eq!(*schema.field(1).data_type(), DataType::Utf8);
            let told =
                "column \"v\" becomes text: line 5 has 'N/A', which is not a number; --null 'N/A' reads it as null";
            assert!(notices.iter().any(|n| n == told), "{notices:?}");
            assert!(infer_text(text, &["N/A"]).0.field(1).data_type().is_numeric());
        }
    }

    #[test]
    fn a_value_of_another_type_after_the_sample_is_named_with_line_and_column() {
        let text = "a,v\nx,1\n\"y\nz\",2\nw,oops\n";
        let (schema, _) = infer(text.as_bytes(), &[], 2).unwrap();
        let mut reader = Reader::new(text.as_bytes(), &schema, &[]).unwrap();
        let error = reader.next().unwrap().err().unwrap().to_string();
        assert!(error.starts_with("line 5: column \"v\" holds 'oops', expected an integer"), "{error}");
        assert!(reader.next().is_none());
    }
}
