//! Newline-delimited JSON: one object per line.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io::{BufRead, BufReader, Read},
    sync::Arc,
};

use anyhow::{Context, bail};
use arrow::{
    datatypes::{DataType, SchemaRef},
    error::ArrowError,
    json::reader::{Decoder, ReaderBuilder, infer_json_schema_from_iterator},
};
use serde_json::Value;

use super::{BATCH_ROWS, Numbered, text_notice};

/// Infers columns and types from the first `rows` objects; also returns notices.
pub(super) fn infer(file: impl Read, nulls: &[String], rows: usize) -> anyhow::Result<(SchemaRef, Vec<String>)> {
    let seen: RefCell<BTreeMap<String, Seen>> = RefCell::default();
    let mut lines = Lines::new(file);
    let values = std::iter::from_fn(|| match lines.next_object() {
        Ok(Some((number, line))) => {
            let value = serde_json::from_str::<Value>(line).map_err(|e| ArrowError::JsonError(at(number, &e)));
            Some(value.map(|mut value| {
                without_nulls(&mut value, nulls);
                note(&mut seen.borrow_mut(), number, &value);
                value
            }))
        }
        Ok(None) => None,
        Err(error) => Some(Err(ArrowError::JsonError(error.to_string()))),
    });
    let schema = infer_json_schema_from_iterator(values.take(rows)).map_err(plain)?;
    let is_text = |name: &str| schema.field_with_name(name).is_ok_and(|f| *f.data_type() == DataType::Utf8);
    let seen = seen.into_inner();
    let mixed = seen.iter().filter(|(name, seen)| is_text(name) && seen.numbers >= seen.texts && seen.numbers > 0);
    let notices =
        mixed.filter_map(|(name, seen)| seen.word.as_ref().map(|(line, word)| text_notice(name, *line, word)));
    let notices = notices.collect();
    Ok((Arc::new(schema), notices))
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

/// Message of a JSON error with the file's line number instead of the parser's.
fn at(line: u64, error: &serde_json::Error) -> String {
    let text = error.to_string();
    let reason = text.rsplit_once(" at line ").map_or(&*text, |(reason, _)| reason);
    format!("line {line}, column {}: {reason}", error.column())
}

/// Message of an Arrow JSON error without Arrow's prefix.
fn plain(error: ArrowError) -> anyhow::Error {
    match error {
        ArrowError::JsonError(text) => anyhow::anyhow!("{}", text.trim_start_matches("Json error: ")),
        other => other.into(),
    }
}

/// Reader of the non-empty lines of a file.
struct Lines<R> {
    file: BufReader<R>,
    line: String,
    /// Number of the last line read, from 1.
    number: u64,
}

impl<R: Read> Lines<R> {
    fn new(file: R) -> Self {
        Self { file: BufReader::with_capacity(1 << 20, file), line: String::new(), number: 0 }
    }

    /// The next non-empty line and its number.
    fn next_object(&mut self) -> anyhow::Result<Option<(u64, &str)>> {
        loop {
            self.line.clear();
            let read = self.file.read_line(&mut self.line).with_context(|| format!("line {}", self.number + 1))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if !self.line.trim().is_empty() {
                return Ok(Some((self.number, &self.line)));
            }
        }
    }
}

/// Reader of a file's rows with a known schema.
pub(super) struct Reader<R> {
    lines: Lines<R>,
    schema: SchemaRef,
    nulls: Vec<String>,
    is_over: bool,
}

impl<R: Read> Reader<R> {
    /// Starts at the first line.
    ///
    /// # Errors
    /// The schema has a type that JSON cannot represent.
    pub(super) fn new(file: R, schema: &SchemaRef, nulls: &[String]) -> anyhow::Result<Self> {
        let reader = Self { lines: Lines::new(file), schema: schema.clone(), nulls: nulls.to_vec(), is_over: false };
        reader.decoder()?;
        Ok(reader)
    }

    fn decoder(&self) -> anyhow::Result<Decoder> {
        // Numbers in a text column are kept as written.
        let builder = ReaderBuilder::new(self.schema.clone()).with_coerce_primitive(true);
        builder.with_batch_size(BATCH_ROWS).build_decoder().map_err(plain)
    }

    fn batch(&mut self) -> anyhow::Result<Option<Numbered>> {
        let mut decoder = self.decoder()?;
        let (mut places, mut texts) = (Vec::new(), Vec::new());
        while places.len() < BATCH_ROWS {
            let Some((number, line)) = self.lines.next_object()? else { break };
            let mut line = line.to_owned();
            if !self.nulls.is_empty() {
                let value = serde_json::from_str::<Value>(&line);
                let mut value = value.map_err(|e| anyhow::anyhow!("{}", at(number, &e)))?;
                without_nulls(&mut value, &self.nulls);
                line = value.to_string();
            }
            feed(&mut decoder, &line).with_context(|| format!("line {number}"))?;
            if decoder.has_partial_record() || decoder.len() != places.len() + 1 {
                bail!("line {number}: expected one whole JSON object on each line");
            }
            places.push(number);
            texts.push(line);
        }
        if places.is_empty() {
            return Ok(None);
        }
        match decoder.flush() {
            Ok(batch) => Ok(batch.map(|batch| Numbered { batch, places })),
            Err(error) => Err(plain(error).context(self.first_wrong(&places, &texts))),
        }
    }

    /// Names the first line that does not match the schema.
    fn first_wrong(&self, places: &[u64], texts: &[String]) -> String {
        for (place, text) in places.iter().zip(texts) {
            let decoded = self.decoder().and_then(|mut decoder| {
                feed(&mut decoder, text)?;
                decoder.flush().map_err(plain)
            });
            if decoded.is_err() {
                return format!("line {place}");
            }
        }
        format!("lines {} to {}", places.first().unwrap_or(&0), places.last().unwrap_or(&0))
    }
}

fn feed(decoder: &mut Decoder, text: &str) -> anyhow::Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let read = decoder.decode(rest).map_err(plain)?;
        if read == 0 {
            break;
        }
        rest = &rest[read..];
    }
    Ok(())
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

    #[test]
    fn faults_name_their_line_of_the_file() {
        let text = "{\"a\": 1}\n\n{\"a\": 2}\n{\"a\": }\n";
        let error = infer(text.as_bytes(), &[], 100).unwrap_err().to_string();
        assert!(error.contains("line 4, column 7"), "{error}");
        let (schema, _) = infer(text.as_bytes(), &[], 2).unwrap();
        let mut reader = Reader::new(text.as_bytes(), &schema, &[]).unwrap();
        let error = format!("{:#}", reader.next().unwrap().err().unwrap());
        assert!(error.contains("line 4"), "{error}");

        let text = "{\"a\": 1}\n\n{\"a\": \"x\"}\n";
        let (schema, _) = infer(text.as_bytes(), &[], 1).unwrap();
        let error = format!("{:#}", Reader::new(text.as_bytes(), &schema, &[]).unwrap().next().unwrap().err().unwrap());
        assert!(error.contains("line 3"), "{error}");
    }

    #[test]
    fn a_word_among_numbers_is_named_unless_it_is_null() {
        let text = "{\"a\": 1}\n{\"a\": \"N/A\"}\n{\"a\": 2.5}\n";
        let (schema, notices) = infer(text.as_bytes(), &[], 100).unwrap();
        assert_eq!(*schema.field(0).data_type(), DataType::Utf8);
        assert!(notices[0].contains("line 2 has 'N/A'") && notices[0].contains("--null 'N/A'"), "{notices:?}");
        let nulls = ["N/A".to_owned()];
        let (schema, notices) = infer(text.as_bytes(), &nulls, 100).unwrap();
        assert_eq!((schema.field(0).data_type(), notices.len()), (&DataType::Float64, 0));
        let rows = Reader::new(text.as_bytes(), &schema, &nulls).unwrap().next().unwrap().unwrap();
        assert_eq!((rows.batch.column(0).null_count(), rows.places), (1, vec![1, 2, 3]));
    }
}
