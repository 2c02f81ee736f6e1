//! CSV with a header line.

use std::{io::Read, sync::Arc};

use arrow::{
    array::{
        ArrayRef, BooleanBuilder, Float64Builder, Int64Builder, RecordBatch, StringBuilder, TimestampNanosecondBuilder,
    },
    datatypes::{DataType, Field, SchemaRef},
};
use chrono_tz::Tz;
use tidelake_format::{Error, Result, types::Precision};
use tidelake_ingest::decode::time::parse_timestamp;

use super::{
    BATCH_BYTES, Inferred, Mode, Numbered, ReadBatch, TIME, Wrong, Wrongs, batch_rows, columns_once, shorten,
    text_notice,
    window::{AHEAD, Window},
};
use crate::words::Words;

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

type Records = csv::Reader<Window<Box<dyn Read + Send>>>;

fn open(file: Box<dyn Read + Send>, keeps: bool) -> Records {
    csv::ReaderBuilder::new().buffer_capacity(AHEAD).from_reader(Window::new(file, keeps))
}

/// The names of the columns.
fn header(reader: &mut Records) -> Result<Vec<String>> {
    let names: Vec<String> = match reader.headers() {
        Ok(names) => names.iter().map(str::to_owned).collect(),
        Err(error) => {
            return Err(
                fault(error).map_or_else(|broken| broken, |(_, reason)| Error::invalid(format!("line 1: {reason}")))
            );
        }
    };
    if names.is_empty() {
        return Err(Error::invalid("the file is empty; a CSV file begins with a line of column names"));
    }
    columns_once(names.iter().map(String::as_str))?;
    Ok(names)
}

/// Line and reason of a record that cannot be read, after which reading continues.
///
/// # Errors
/// The error of a file that cannot be read further.
fn fault(error: csv::Error) -> std::result::Result<(u64, String), Error> {
    let line = error.position().map_or(0, csv::Position::line);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            Ok((line, format!("expected {expected_len} cells, as in the first line, found {len}")))
        }
        csv::ErrorKind::Utf8 { err, .. } => Ok((line, format!("cell {} is not UTF-8 text", err.field() + 1))),
        _ => Err(Error::invalid("the file cannot be read").with("reason", &error)),
    }
}

fn is_null(value: &str, nulls: &[String]) -> bool {
    value.is_empty() || nulls.iter().any(|null| null == value)
}

/// Infers columns and types from the first `rows` rows; also returns notices. A column without values in the whole file is
/// omitted. Rows that cannot be read count for nothing.
pub(super) fn infer(file: Box<dyn Read + Send>, nulls: &[String], rows: usize, words: Words) -> Result<Inferred> {
    let mut reader = open(file, false);
    let names = header(&mut reader)?;
    let mut columns = vec![Candidates::new(); names.len()];
    let mut record = csv::StringRecord::new();
    let (mut read, mut whole) = (0, false);
    while read < rows {
        let begin = reader.position().byte();
        reader.get_mut().begin(begin);
        match reader.read_record(&mut record) {
            Ok(true) => {}
            Ok(false) => {
                whole = true;
                break;
            }
            Err(error) => {
                fault(error)?;
                continue;
            }
        }
        read += 1;
        let line = record.position().map_or(0, csv::Position::line);
        for (column, value) in columns.iter_mut().zip(&record).filter(|(_, value)| !is_null(value, nulls)) {
            column.add(line, value);
        }
    }
    let mut inferred = Inferred::default();
    for (name, column) in names.iter().zip(&columns) {
        let data_type = column.data_type();
        if let (DataType::Utf8, Some((line, word))) = (&data_type, &column.word)
            && column.numbers * 2 >= column.values
        {
            inferred.notices.push(text_notice(name, *line, word, words));
        }
        if column.values == 0 && whole && read > 0 {
            inferred.omitted.push(name.clone());
            continue;
        }
        inferred.fields.push(Field::new(name, data_type, true));
    }
    Ok(inferred)
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
pub(super) struct Reader {
    reader: Records,
    schema: SchemaRef,
    /// Schema column of each column of the file; `None` for an omitted column.
    kept: Vec<Option<usize>>,
    /// Schema columns that the file lacks.
    lacks: Vec<usize>,
    nulls: Vec<String>,
    record: csv::StringRecord,
    mode: Mode,
}

impl Reader {
    /// Reads the header.
    ///
    /// # Errors
    /// The header cannot be read.
    pub(super) fn new(file: Box<dyn Read + Send>, schema: &SchemaRef, nulls: &[String], mode: Mode) -> Result<Self> {
        let mut reader = open(file, mode.wrongs == Wrongs::Keep);
        let names = header(&mut reader)?;
        let kept: Vec<Option<usize>> = names.iter().map(|name| schema.index_of(name).ok()).collect();
        let lacks = (0..schema.fields().len()).filter(|column| !kept.contains(&Some(*column))).collect();
        let record = csv::StringRecord::new();
        Ok(Self { reader, schema: schema.clone(), kept, lacks, nulls: nulls.to_vec(), record, mode })
    }
}

impl ReadBatch for Reader {
    fn batch(&mut self) -> Result<Option<Numbered>> {
        let mut cells: Vec<Cells> = self.schema.fields().iter().map(|f| Cells::new(f.data_type())).collect();
        let (mut places, mut texts, mut good) = (Vec::new(), Vec::new(), Vec::new());
        let mut wrong: Vec<Wrong> = Vec::new();
        let (first, most) = (self.reader.position().byte(), batch_rows(&self.schema));
        while places.len() + wrong.len() < most && self.reader.position().byte() - first < BATCH_BYTES {
            let begin = self.reader.position().byte();
            self.reader.get_mut().begin(begin);
            let read = self.reader.read_record(&mut self.record);
            let end = self.reader.position().byte();
            let text = |reader: &Records| reader.get_ref().text(begin, end);
            match read {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    let (line, reason) = fault(error)?;
                    self.mode.wrong(line, reason, || text(&self.reader), &mut wrong)?;
                    continue;
                }
            }
            let line = self.record.position().map_or(0, csv::Position::line);
            let mut fault = None;
            for (at, value) in self.kept.iter().zip(&self.record) {
                let Some(at) = *at else { continue };
                if is_null(value, &self.nulls) {
                    cells[at].null();
                } else if let Err(expected) = cells[at].add(value) {
                    cells[at].null();
                    fault.get_or_insert_with(|| {
                        let (name, found) = (self.schema.field(at).name(), shorten(value));
                        format!(
                            "column {name:?} holds '{found}', expected {expected}; {}'{found}' reads it as null",
                            self.mode.words.null
                        )
                    });
                }
            }
            self.lacks.iter().for_each(|at| cells[*at].null());
            places.push(line);
            good.push(fault.is_none());
            if self.mode.wrongs == Wrongs::Keep {
                texts.push(text(&self.reader));
            }
            if let Some(reason) = fault {
                self.mode.wrong(line, reason, || text(&self.reader), &mut wrong)?;
            }
        }
        if places.is_empty() && wrong.is_empty() {
            return Ok(None);
        }
        let columns = cells.iter_mut().map(Cells::finish).collect();
        let batch = RecordBatch::try_new(self.schema.clone(), columns)?;
        Numbered { file: self.mode.file, batch, places, texts, wrong }.only(&good).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::Schema;

    use super::*;
    use crate::source::{Rows, boxed};

    fn infer_text(text: &'static str, nulls: &[&str], rows: usize) -> (SchemaRef, Inferred) {
        let nulls: Vec<String> = nulls.iter().map(|n| (*n).to_owned()).collect();
        let inferred = infer(Box::new(text.as_bytes()), &nulls, rows, Words::COMMAND_LINE).unwrap();
        (Arc::new(Schema::new(inferred.fields.clone())), inferred)
    }

    fn reader(text: &'static str, schema: &SchemaRef, wrongs: Wrongs) -> Rows {
        let mode = Mode { file: 0, wrongs, words: Words::COMMAND_LINE };
        boxed(Reader::new(Box::new(text.as_bytes()), schema, &[], mode).unwrap())
    }

    #[test]
    fn types_are_those_that_hold_every_value() {
        let text = "a,b,c,d,e,f,g\n1,1,true,2026-01-01 08:00,x,,18446744073709551615\n2,1.5,FALSE,2026-01-02,y,,1\n";
        let (schema, inferred) = infer_text(text, &[], 100);
        let types: Vec<_> = schema.fields().iter().map(|f| f.data_type().clone()).collect();
        let expected = [DataType::Int64, DataType::Float64, DataType::Boolean, TIME, DataType::Utf8, DataType::Utf8];
        assert_eq!((types.as_slice(), inferred.omitted), (&expected[..], vec!["f".to_owned()]));
        let rows = reader(text, &schema, Wrongs::Fail).next().unwrap().unwrap();
        assert_eq!((rows.batch.num_rows(), rows.batch.num_columns(), rows.places), (2, 6, vec![2, 3]));
    }

    #[test]
    fn a_word_among_numbers_is_named_with_its_line_unless_it_is_null() {
        for text in ["a,v\n1,2.5\n\"x\ny\",1\n3,N/A\n", "a,v\n1,2\n\"x\ny\",1\n3,N/A\n"] {
            let (schema, inferred) = infer_text(text, &[], 100);
            assert_eq!(*schema.field(1).data_type(), DataType::Utf8);
            let told =
                "column \"v\" becomes text: line 5 has 'N/A', which is not a number; --null 'N/A' reads it as null";
            assert!(inferred.notices.iter().any(|(_, n)| n == told), "{:?}", inferred.notices);
            assert!(infer_text(text, &["N/A"], 100).0.field(1).data_type().is_numeric());
        }
    }

    #[test]
    fn a_value_of_another_type_after_the_sample_is_named_with_line_and_column() {
        let text = "a,v\nx,1\n\"y\nz\",2\nw,oops\n";
        let (schema, _) = infer_text(text, &[], 2);
        let mut reader = reader(text, &schema, Wrongs::Fail);
        let error = reader.next().unwrap().err().unwrap().to_string();
        assert!(error.starts_with("line 5: column \"v\" holds 'oops', expected an integer"), "{error}");
        assert!(reader.next().is_none());
    }

    #[test]
    fn wrong_rows_are_kept_with_their_text_and_the_others_are_read() {
        let text = "a,v\nx,1\n\"y\nz\",no\nw,2,3\nu,4\n";
        let (schema, _) = infer_text(text, &[], 1);
        let rows = reader(text, &schema, Wrongs::Keep).next().unwrap().unwrap();
        assert_eq!((rows.places, rows.texts), (vec![2, 6], vec!["x,1".to_owned(), "u,4".to_owned()]));
        assert_eq!(rows.batch.num_rows(), 2);
        let wrong: Vec<(u64, &str)> = rows.wrong.iter().map(|w| (w.place, w.text.as_str())).collect();
        assert_eq!(wrong, [(3, "\"y\nz\",no"), (5, "w,2,3")]);
        assert_eq!(rows.wrong[1].reason, "expected 2 cells, as in the first line, found 3");
        let error = reader(text, &schema, Wrongs::Fail).next().unwrap().unwrap_err().to_string();
        assert!(error.starts_with("line 3: column \"v\" holds 'no'"), "{error}");
    }

    #[test]
    fn a_quote_that_is_not_closed_is_an_error_and_takes_bounded_memory() {
        let endless = std::io::repeat(b'x').take(100 << 20);
        let file = Box::new((&b"a,v\nx,\""[..]).chain(endless));
        let error = infer(file, &[], 10, Words::COMMAND_LINE).unwrap_err().to_string();
        assert!(error.contains("longer than 16 MiB"), "{error}");
    }
}
