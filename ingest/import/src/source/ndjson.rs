//! Newline-delimited JSON: one object per line.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
};

use arrow::{
    array::RecordBatch,
    datatypes::{DataType, Schema, SchemaRef},
    error::ArrowError,
    json::reader::{Decoder, ReaderBuilder, infer_json_schema_from_iterator},
};
use serde_json::Value;
use tidelake_format::{Error, Result};

use super::{
    BATCH_BYTES, Inferred, MOST_RECORD, Mode, Numbered, ReadBatch, Wrong, Wrongs, batch_rows, shorten, text_notice,
};
use crate::{input::unreadable, words::Words};

/// Infers columns and types from the first `rows` objects; also returns notices. Lines that cannot be read count for nothing.
pub(super) fn infer(file: Box<dyn Read + Send>, nulls: &[String], rows: usize, words: Words) -> Result<Inferred> {
    let seen: RefCell<BTreeMap<String, Seen>> = RefCell::default();
    let first_fault: RefCell<Option<Error>> = RefCell::default();
    let mut unread: Option<Error> = None;
    let mut lines = Lines::new(file);
    let values = std::iter::from_fn(|| {
        loop {
            match lines.next_line() {
                Ok(None) => return None,
                Err(error) => {
                    unread = Some(error);
                    return None;
                }
                Ok(Some((number, line))) => match object(line) {
                    Ok(mut value) => {
                        without_nulls(&mut value, nulls);
                        note(&mut seen.borrow_mut(), number, &value);
                        return Some(Ok(value));
                    }
                    Err(reason) => {
                        let fault = || Error::invalid(format!("line {number}, {reason}"));
                        first_fault.borrow_mut().get_or_insert_with(fault);
                    }
                },
            }
        }
    });
    let schema = infer_json_schema_from_iterator(values.take(rows)).map_err(|e| Error::invalid(plain(&e)));
    // Columns behind a line that could not be read would be lost.
    unread.map_or(Ok(()), Err)?;
    let schema = schema?;
    if schema.fields().is_empty() {
        let empty = || Error::invalid("the file has no row: expected one JSON object on each line");
        return Err(first_fault.into_inner().unwrap_or_else(empty));
    }
    let is_text = |name: &str| schema.field_with_name(name).is_ok_and(|f| *f.data_type() == DataType::Utf8);
    let seen = seen.into_inner();
    let mixed = seen.iter().filter(|(name, seen)| is_text(name) && seen.numbers >= seen.texts && seen.numbers > 0);
    let notices =
        mixed.filter_map(|(name, seen)| seen.word.as_ref().map(|(line, word)| text_notice(name, *line, word, words)));
    let notices = notices.collect();
    let fields = Schema::fields(&schema).iter().map(|field| field.as_ref().clone()).collect();
    Ok(Inferred { fields, notices, omitted: Vec::new() })
}

/// Parses one line; the error has the column of the line.
fn object(line: &str) -> std::result::Result<Value, String> {
    if !line.trim_start().starts_with('{') {
        return Err(format!("column 1: expected one JSON object on each line, found '{}'", shorten(line.trim())));
    }
    serde_json::from_str::<Value>(line).map_err(|e| at(&e))
}

/// Counts of numbers and texts in a column, and its first text with its line.
#[derive(Default)]
struct Seen {
    numbers: u64,
    texts: u64,
    word: Option<(u64, String)>,
}

fn note(seen: &mut BTreeMap<String, Seen>, line: u64, value: &Value) {
    for (name, value) in value.as_object().into_iter().flatten() {
        match value {
            Value::Number(_) => seen.entry(name.clone()).or_default().numbers += 1,
            Value::String(text) => {
                let column = seen.entry(name.clone()).or_default();
                column.texts += 1;
                column.word.get_or_insert_with(|| (line, text.clone()));
            }
            _ => {}
        }
    }
}

fn without_nulls(value: &mut Value, nulls: &[String]) {
    for value in value.as_object_mut().into_iter().flat_map(|object| object.values_mut()) {
        if value.as_str().is_some_and(|text| nulls.iter().any(|null| null == text)) {
            *value = Value::Null;
        }
    }
}

/// Message of a JSON error with its column but without the parser's line, which is always the first.
fn at(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
    format!("column {}: {reason}", error.column())
}

/// Message of an Arrow JSON error without Arrow's prefix.
fn plain(error: &ArrowError) -> String {
    match error {
        ArrowError::JsonError(text) => text.trim_start_matches("Json error: ").to_owned(),
        other => other.to_string(),
    }
}

/// Reader of the non-empty lines of a file.
struct Lines {
    file: BufReader<Box<dyn Read + Send>>,
    line: Vec<u8>,
    /// The last line as text.
    text: String,
    /// Number of the last line read, from 1.
    number: u64,
}

impl Lines {
    fn new(file: Box<dyn Read + Send>) -> Self {
        Self { file: BufReader::with_capacity(1 << 20, file), line: Vec::new(), text: String::new(), number: 0 }
    }

    /// The next non-empty line and its number. Bytes that are not UTF-8 become replacement characters.
    fn next_line(&mut self) -> Result<Option<(u64, &str)>> {
        loop {
            self.line.clear();
            let number = self.number + 1;
            let mut bounded = (&mut self.file).take(MOST_RECORD);
            let read = bounded
                .read_until(b'\n', &mut self.line)
                .map_err(|e| crate::at(format!("line {number}"), &unreadable("the file cannot be read", &e)))?;
            if read == 0 {
                return Ok(None);
            }
            if read as u64 == MOST_RECORD && self.line.last() != Some(&b'\n') {
                let limit = MOST_RECORD >> 20;
                return Err(Error::invalid(format!(
                    "line {number} is longer than {limit} MiB: expected one JSON object on each line"
                )));
            }
            self.number = number;
            if !self.line.iter().all(u8::is_ascii_whitespace) {
                self.text.clear();
                self.text.push_str(&String::from_utf8_lossy(&self.line));
                return Ok(Some((number, &self.text)));
            }
        }
    }
}

/// Reader of a file's rows with a known schema.
pub(super) struct Reader {
    lines: Lines,
    schema: SchemaRef,
    nulls: Vec<String>,
    mode: Mode,
}

impl Reader {
    /// Starts at the first line.
    pub(super) fn new(file: Box<dyn Read + Send>, schema: &SchemaRef, nulls: &[String], mode: Mode) -> Self {
        Self { lines: Lines::new(file), schema: schema.clone(), nulls: nulls.to_vec(), mode }
    }

    fn decoder(&self) -> std::result::Result<Decoder, String> {
        // Numbers in a text column are kept as written.
        let builder = ReaderBuilder::new(self.schema.clone()).with_coerce_primitive(true);
        builder.with_batch_size(batch_rows(&self.schema)).build_decoder().map_err(|e| plain(&e))
    }

    /// The rows of some lines; the error has the index of the line if it is known.
    fn decode(&self, texts: &[String]) -> std::result::Result<RecordBatch, (Option<usize>, String)> {
        let mut decoder = self.decoder().map_err(|e| (None, e))?;
        for (index, text) in texts.iter().enumerate() {
            let wrong = |reason: String| (Some(index), reason);
            if self.nulls.is_empty() {
                feed(&mut decoder, text).map_err(wrong)?;
            } else {
                let mut value = object(text).map_err(wrong)?;
                without_nulls(&mut value, &self.nulls);
                feed(&mut decoder, &value.to_string()).map_err(wrong)?;
            }
            if decoder.has_partial_record() || decoder.len() != index + 1 {
                return Err(wrong("expected one whole JSON object on each line".to_owned()));
            }
        }
        let batch = decoder.flush().map_err(|e| (None, plain(&e)))?;
        Ok(batch.unwrap_or_else(|| RecordBatch::new_empty(self.schema.clone())))
    }

    /// The reason why one line cannot be read, if it cannot.
    fn fault(&self, text: &String) -> Option<String> {
        let (_, reason) = self.decode(std::slice::from_ref(text)).err()?;
        // The parser of values gives the better position.
        Some(object(text).err().unwrap_or(reason))
    }
}

impl ReadBatch for Reader {
    fn batch(&mut self) -> Result<Option<Numbered>> {
        let (mut places, mut texts) = (Vec::new(), Vec::new());
        let (most, mut bytes) = (batch_rows(&self.schema), 0);
        while places.len() < most && bytes < BATCH_BYTES {
            let Some((number, line)) = self.lines.next_line()? else { break };
            bytes += line.len() as u64;
            places.push(number);
            texts.push(line.to_owned());
        }
        if places.is_empty() {
            return Ok(None);
        }
        let mut wrong: Vec<Wrong> = Vec::new();
        let batch = match self.decode(&texts) {
            Ok(batch) => batch,
            Err(_) => {
                let (mut good_places, mut good_texts) = (Vec::new(), Vec::new());
                for (place, text) in places.into_iter().zip(texts) {
                    match self.fault(&text) {
                        Some(reason) => self.mode.wrong(place, reason, || text.trim_end().to_owned(), &mut wrong)?,
                        None => {
                            good_places.push(place);
                            good_texts.push(text);
                        }
                    }
                }
                (places, texts) = (good_places, good_texts);
                self.decode(&texts).map_err(|(_, reason)| {
                    let (first, last) = (places.first().unwrap_or(&0), places.last().unwrap_or(&0));
                    Error::invalid(format!("lines {first} to {last}: {reason}"))
                })?
            }
        };
        match self.mode.wrongs {
            Wrongs::Keep => texts.iter_mut().for_each(|text| text.truncate(text.trim_end().len())),
            Wrongs::Fail | Wrongs::Skip => texts.clear(),
        }
        Ok(Some(Numbered { file: self.mode.file, batch, places, texts, wrong }))
    }
}

fn feed(decoder: &mut Decoder, text: &str) -> std::result::Result<(), String> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let read = decoder.decode(rest).map_err(|e| plain(&e))?;
        if read == 0 {
            break;
        }
        rest = &rest[read..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::source::{Rows, boxed};

    fn infer_text(text: &'static str, nulls: &[String], rows: usize) -> (SchemaRef, Inferred) {
        let inferred = infer(Box::new(text.as_bytes()), nulls, rows, Words::COMMAND_LINE).unwrap();
        (Arc::new(Schema::new(inferred.fields.clone())), inferred)
    }

    fn reader(text: &'static str, schema: &SchemaRef, nulls: &[String], wrongs: Wrongs) -> Rows {
        let mode = Mode { file: 0, wrongs, words: Words::COMMAND_LINE };
        boxed(Reader::new(Box::new(text.as_bytes()), schema, nulls, mode))
    }

    #[test]
    fn a_file_that_cannot_be_read_to_its_end_is_not_taken_for_a_shorter_one() {
        struct Broken;
        impl Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
                Err(std::io::Error::other("connection lost"))
            }
        }
        let file = Box::new("{\"a\": 1}\n".as_bytes().chain(Broken));
        let error = infer(file, &[], 100, Words::COMMAND_LINE).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("connection lost"), "{error}");
    }

    #[test]
    fn faults_name_their_line_of_the_file() {
        let text = "{\"a\": }\n";
        let error = infer(Box::new(text.as_bytes()), &[], 100, Words::COMMAND_LINE).unwrap_err().to_string();
        assert!(error.starts_with("line 1, column 7"), "{error}");
        let text = "{\"a\": 1}\n\n{\"a\": 2}\n{\"a\": }\n";
        let (schema, _) = infer_text(text, &[], 2);
        let error = reader(text, &schema, &[], Wrongs::Fail).next().unwrap().err().unwrap().to_string();
        assert!(error.starts_with("line 4: column 7"), "{error}");

        let text = "{\"a\": 1}\n\n{\"a\": \"x\"}\n";
        let (schema, _) = infer_text(text, &[], 1);
        let error = reader(text, &schema, &[], Wrongs::Fail).next().unwrap().err().unwrap().to_string();
        assert!(error.starts_with("line 3"), "{error}");
    }

    #[test]
    fn wrong_lines_are_kept_with_their_text_and_the_others_are_read() {
        let text = "{\"a\": 1}\n{\"a\": }\n[1]\n{\"a\": \"x\"}\n{\"a\": 5} {\"a\": 6}\n{\"a\": 7}\n";
        let (schema, _) = infer_text(text, &[], 1);
        let rows = reader(text, &schema, &[], Wrongs::Keep).next().unwrap().unwrap();
        assert_eq!((rows.places, rows.batch.num_rows()), (vec![1, 6], 2));
        let wrong: Vec<(u64, &str)> = rows.wrong.iter().map(|w| (w.place, w.text.as_str())).collect();
        let expected = [(2, "{\"a\": }"), (3, "[1]"), (4, "{\"a\": \"x\"}"), (5, "{\"a\": 5} {\"a\": 6}")];
        assert_eq!(wrong, expected);
    }

    #[test]
    fn a_word_among_numbers_is_named_unless_it_is_null() {
        let text = "{\"a\": 1}\n{\"a\": \"N/A\"}\n{\"a\": 2.5}\n";
        let (schema, inferred) = infer_text(text, &[], 100);
        assert_eq!(*schema.field(0).data_type(), DataType::Utf8);
        let notice = &inferred.notices[0].1;
        assert!(notice.contains("line 2 has 'N/A'") && notice.contains("--null 'N/A'"), "{notice}");
        let nulls = ["N/A".to_owned()];
        let (schema, inferred) = infer_text(text, &nulls, 100);
        assert_eq!((schema.field(0).data_type(), inferred.notices.len()), (&DataType::Float64, 0));
        let rows = reader(text, &schema, &nulls, Wrongs::Fail).next().unwrap().unwrap();
        assert_eq!((rows.batch.column(0).null_count(), rows.places), (1, vec![1, 2, 3]));
    }
}
