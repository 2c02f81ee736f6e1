//! Reads CSV, NDJSON and Parquet files as batches in which each row has its position in its file. Several files have one schema.

mod columns;
mod csv;
mod ndjson;
mod parquet;
mod window;

use std::sync::Arc;

use arrow::{
    array::{BooleanArray, RecordBatch},
    compute::filter_record_batch,
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use tidelake_format::{Error, Result};

pub use self::columns::{ColumnType, types};
use crate::{
    at,
    input::{FileFormat, Input, Progress, unwatched},
    table::{self, Holds, Table},
    words::{Words, name},
};

/// Most rows per batch.
const BATCH_ROWS: usize = 16_384;
/// Most cells per batch, nulls included.
const BATCH_CELLS: usize = 4 << 20;
/// Bytes of text after which a batch ends.
const BATCH_BYTES: u64 = 16 << 20;
/// Number of rows from which the types of a text file are inferred.
pub const INFER_ROWS: usize = 1_000_000;
/// Longest record of a text file, in bytes. An unclosed quote would otherwise make one record of the rest of the file.
const MOST_RECORD: u64 = 16 << 20;

/// A timestamp as files of text are read.
const TIME: DataType = DataType::Timestamp(TimeUnit::Nanosecond, None);

/// How text becomes values.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Texts that mean null.
    pub nulls: Vec<String>,
    /// Types of columns by name, instead of the inferred ones.
    pub types: Vec<(String, ColumnType)>,
    /// Number of rows from which types are inferred.
    pub sample: usize,
    /// The options in messages.
    pub words: Words,
}

/// The files of an import.
#[derive(Debug, Clone)]
pub struct Source {
    files: Vec<File>,
    nulls: Vec<String>,
    /// The options in messages.
    pub(crate) words: Words,
    /// The columns of all files.
    pub schema: SchemaRef,
    /// Columns of text or integers that hold times, besides the time column.
    pub(crate) times: Vec<usize>,
    /// Columns that are not imported.
    pub omitted: Vec<Omitted>,
    /// Notices about columns, by column.
    notices: Vec<(String, String)>,
}

/// A column that is not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Omitted {
    /// Its name.
    pub name: String,
    /// Whether the user omits it; otherwise it has no value.
    pub by_request: bool,
}

#[derive(Debug, Clone)]
struct File {
    input: Input,
    format: FileFormat,
    /// The names of its columns.
    columns: Vec<String>,
}

/// Handling of rows that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrongs {
    /// The first one is an error.
    Fail,
    /// They are left out and counted.
    Skip,
    /// They are left out and kept with their text.
    Keep,
}

/// A row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wrong {
    /// Index of its file.
    pub file: usize,
    /// Its line, or its row in a Parquet file, from 1.
    pub place: u64,
    /// The reason, naming the column, what was expected and what was found.
    pub reason: String,
    /// Its text; empty unless it is to be kept.
    pub text: String,
}

/// A batch of a file's rows.
#[derive(Debug, Clone)]
pub struct Numbered {
    /// Index of the file.
    pub file: usize,
    /// The rows.
    pub batch: RecordBatch,
    /// Line of each row, or row number in a Parquet file, from 1.
    pub places: Vec<u64>,
    /// Text of each row with [`Wrongs::Keep`], else empty.
    pub texts: Vec<String>,
    /// Rows between them that could not be read.
    pub wrong: Vec<Wrong>,
}

/// Where a column of the files is.
enum Place {
    Field(usize),
    Omitted(usize),
}

/// One pass over the rows of files.
pub type Rows = Box<dyn Iterator<Item = Result<Numbered>> + Send>;

impl Numbered {
    /// The rows that are marked; wrong rows stay.
    pub(crate) fn only(mut self, good: &[bool]) -> Result<Self> {
        if good.iter().all(|good| *good) {
            return Ok(self);
        }
        self.batch = filter_record_batch(&self.batch, &BooleanArray::from(good.to_vec()))?;
        let mut marks = good.iter();
        self.places.retain(|_| marks.next().is_some_and(|good| *good));
        let mut marks = good.iter();
        self.texts.retain(|_| marks.next().is_some_and(|good| *good));
        Ok(self)
    }
}

/// Columns of one file.
#[derive(Debug, Default)]
struct Inferred {
    fields: Vec<Field>,
    omitted: Vec<String>,
    notices: Vec<(String, String)>,
}

impl Source {
    /// Infers the columns and types of files of rows.
    ///
    /// # Errors
    /// A file cannot be read, the files do not agree, or a type is given for a column that no file has.
    pub fn inspect(files: Vec<(Input, FileFormat)>, reading: Reading) -> Result<Self> {
        let Reading { nulls, types, sample, words } = reading;
        let (mut known, mut schemas) = (Vec::new(), Vec::new());
        for (input, format) in files {
            let inferred = match format {
                FileFormat::Csv => csv::infer(input.reader(&unwatched())?, &nulls, sample, words),
                FileFormat::Ndjson => ndjson::infer(input.reader(&unwatched())?, &nulls, sample, words),
                FileFormat::Parquet => parquet::infer(&input),
                FileFormat::Line => {
                    Err(Error::invalid("line protocol has no columns in common: its lines name their tables"))
                }
            };
            let inferred = inferred.map_err(|e| named(&input.name, &e))?;
            let columns = inferred.fields.iter().map(|f| f.name().clone()).chain(inferred.omitted.iter().cloned());
            known.push(File { columns: columns.collect(), input, format });
            schemas.push(inferred);
        }
        let mut source = Self {
            files: known,
            nulls,
            words,
            schema: Arc::new(Schema::empty()),
            times: Vec::new(),
            omitted: Vec::new(),
            notices: Vec::new(),
        };
        source.unify(schemas)?;
        source.correct(&types)?;
        source.note_lacks();
        Ok(source)
    }

    /// Makes one schema of those of the files.
    fn unify(&mut self, schemas: Vec<Inferred>) -> Result<()> {
        let mut fields: Vec<(Field, usize)> = Vec::new();
        for (file, inferred) in schemas.iter().enumerate() {
            self.notices.extend(inferred.notices.iter().cloned());
            for field in &inferred.fields {
                let Some((known, first)) = fields.iter_mut().find(|(known, _)| known.name() == field.name()) else {
                    fields.push((field.clone().with_nullable(true), file));
                    continue;
                };
                if known.data_type() == field.data_type() {
                    continue;
                }
                let (found, expected) = (table::type_name(field.data_type()), table::type_name(known.data_type()));
                let (here, there) = (&self.files[file], &self.files[*first]);
                let is_parquet = [here.format, there.format].contains(&FileFormat::Parquet);
                let common = common(known.data_type(), field.data_type(), is_parquet).ok_or_else(|| {
                    let text = format!(
                        "{}: column {:?} has another type than in {}",
                        here.input.name,
                        field.name(),
                        there.input.name
                    );
                    Error::invalid(text).with("expected", &expected).with("found", &found)
                })?;
                if table::is_text(&common) && !table::is_text(known.data_type()) {
                    let text = format!(
                        "column {:?} becomes text: it holds {expected} in {} and {found} in {}",
                        field.name(),
                        there.input.name,
                        here.input.name
                    );
                    self.notices.push((field.name().clone(), text));
                }
                *known = known.clone().with_data_type(common);
            }
        }
        for inferred in &schemas {
            for name in &inferred.omitted {
                let is_known = fields.iter().any(|(field, _)| field.name() == name)
                    || self.omitted.iter().any(|omitted| omitted.name == *name);
                if !is_known {
                    self.omitted.push(Omitted { name: name.clone(), by_request: false });
                    self.notices.push((name.clone(), format!("column {name:?} is skipped: no row has a value in it")));
                }
            }
        }
        self.schema = Arc::new(Schema::new(fields.into_iter().map(|(field, _)| field).collect::<Vec<_>>()));
        Ok(())
    }

    /// Applies the types given by the user.
    fn correct(&mut self, types: &[(String, ColumnType)]) -> Result<()> {
        let mut fields: Vec<Field> = self.schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        // Columns are omitted first: the others have their final places then.
        let (omitted, kept): (Vec<_>, Vec<_>) = types.iter().partition(|(_, ty)| *ty == ColumnType::Omit);
        for (column, _) in &omitted {
            match self.found(&fields, column)? {
                Place::Omitted(at) => self.omitted[at].by_request = true,
                Place::Field(at) => {
                    self.notices.retain(|(name, _)| name != column);
                    self.omitted.push(Omitted { name: fields.remove(at).name().clone(), by_request: true });
                }
            }
        }
        if fields.is_empty() && !omitted.is_empty() {
            return Err(Error::invalid(format!("{}: no column is left to import", name(self.words.types))));
        }
        for (column, ty) in kept {
            let found = match self.found(&fields, column)? {
                Place::Field(at) => at,
                Place::Omitted(at) => {
                    fields.push(Field::new(self.omitted.remove(at).name, DataType::Utf8, true));
                    fields.len() - 1
                }
            };
            self.notices.retain(|(name, _)| name != column);
            let data_type = match (ty, fields[found].data_type()) {
                (ColumnType::Bool, _) => DataType::Boolean,
                (ColumnType::Int, _) => DataType::Int64,
                (ColumnType::Double, _) => DataType::Float64,
                (ColumnType::Text, _) => DataType::Utf8,
                (ColumnType::Timestamp, now) => {
                    self.times.push(found);
                    if now.is_integer() || table::is_time(now) { now.clone() } else { DataType::Utf8 }
                }
                (ColumnType::Omit, _) => continue,
            };
            fields[found] = fields[found].clone().with_data_type(data_type);
        }
        self.schema = Arc::new(Schema::new(fields));
        Ok(())
    }

    /// Notes the columns that some files lack.
    fn note_lacks(&mut self) {
        for file in self.files.iter().filter(|_| self.files.len() > 1) {
            let names = self.schema.fields().iter().map(|field| field.name());
            let lacks: Vec<&str> = names.filter(|name| !file.columns.contains(*name)).map(String::as_str).collect();
            if !lacks.is_empty() {
                let text =
                    format!("{}: null in the columns that the file lacks: {}", file.input.name, lacks.join(", "));
                self.notices.push((String::new(), text));
            }
        }
    }

    /// The place of a column that the user names.
    ///
    /// # Errors
    /// No file has it; the error lists the columns.
    fn found(&self, fields: &[Field], column: &str) -> Result<Place> {
        let schema = Schema::new(fields.to_vec());
        if let Some(at) = table::place(&schema, column) {
            return Ok(Place::Field(at));
        }
        let omitted = self.omitted.iter().position(|omitted| omitted.name == column);
        omitted.map(Place::Omitted).ok_or_else(|| {
            let text = format!("{}: the file has no such column", name(self.words.types));
            let known = table::names(&schema);
            Error::invalid(text).with("expected", known).with("found", format!("{column:?}"))
        })
    }

    /// Reads the columns of an existing table as that table's types where the inferred type cannot be stored in it, so that a
    /// value that does not fit is named with its line.
    pub fn fit(&mut self, table: &Table) {
        let fields = self.schema.fields().iter().map(|field| {
            let inferred = field.data_type();
            let holds = table.column(field.name()).map(|column| column.holds);
            let data_type = match holds {
                Some(Holds::Text) if !table::is_text(inferred) => DataType::Utf8,
                Some(Holds::Float) if !inferred.is_numeric() => DataType::Float64,
                Some(Holds::Integer) if !inferred.is_numeric() => DataType::Int64,
                Some(Holds::Bool) if table::is_text(inferred) => DataType::Boolean,
                _ => return field.as_ref().clone(),
            };
            field.as_ref().clone().with_data_type(data_type)
        });
        let fields: Vec<Field> = fields.collect();
        let is_changed = |name: &String| {
            self.schema.field_with_name(name).ok().map(Field::data_type)
                != fields.iter().find(|f| f.name() == name).map(Field::data_type)
        };
        self.notices.retain(|(name, _)| name.is_empty() || !is_changed(name));
        self.schema = Arc::new(Schema::new(fields));
    }

    /// Notices about the columns, for the user.
    pub fn notices(&self) -> impl Iterator<Item = &str> {
        self.notices.iter().map(|(_, text)| text.as_str())
    }

    /// Number of files.
    pub fn len(&self) -> usize {
        self.files.len()
    }

    /// Whether there is no file.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The inputs.
    pub fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.files.iter().map(|file| &file.input)
    }

    /// The name of a file for messages.
    pub fn name(&self, file: usize) -> &str {
        &self.files[file].input.name
    }

    /// The word for the position of a row of a file: "row" or "line".
    pub fn place(&self, file: usize) -> &'static str {
        self.files[file].format.place()
    }

    /// The position of a row for messages, such as `fleet.csv: line 3`.
    pub fn position(&self, file: usize, place: u64) -> String {
        let (name, word) = (self.name(file), self.place(file));
        if name.is_empty() { format!("{word} {place}") } else { format!("{name}: {word} {place}") }
    }

    /// The first file that lacks one of the columns.
    pub(crate) fn lacking(&self, columns: &[usize]) -> Option<(&str, &str, String)> {
        self.files.iter().find_map(|file| {
            let names = columns.iter().map(|column| self.schema.field(*column).name());
            let lacks = names.into_iter().find(|name| !file.columns.contains(name))?;
            Some((file.input.name.as_str(), lacks.as_str(), file.columns.join(", ")))
        })
    }

    /// Reads all rows of all files, in their order.
    ///
    /// # Errors
    /// A file cannot be opened; an error of a row names file and line.
    pub fn rows(&self, wrongs: Wrongs, progress: &Progress) -> Rows {
        let (source, progress) = (self.clone(), progress.clone());
        let each = (0..self.files.len()).flat_map(move |file| -> Rows {
            source.rows_of(file, wrongs, &progress).unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
        });
        Box::new(each)
    }

    /// Reads all rows of one file from its start.
    ///
    /// # Errors
    /// As [`Source::rows`].
    pub fn rows_of(&self, file: usize, wrongs: Wrongs, progress: &Progress) -> Result<Rows> {
        let File { input, format, .. } = &self.files[file];
        let mode = Mode { file, wrongs, words: self.words };
        let (schema, nulls) = (&self.schema, &self.nulls);
        let rows = match format {
            FileFormat::Csv => input.reader(progress).and_then(|r| csv::Reader::new(r, schema, nulls, mode)).map(boxed),
            FileFormat::Ndjson => input.reader(progress).map(|r| boxed(ndjson::Reader::new(r, schema, nulls, mode))),
            FileFormat::Parquet => parquet::Reader::new(input, schema, mode, progress).map(boxed),
            FileFormat::Line => Err(Error::invalid("line protocol cannot be read as rows")),
        };
        let name = input.name.clone();
        let rows = rows.map_err(|e| named(&name, &e))?;
        Ok(Box::new(rows.map(move |rows| rows.map_err(|e| named(&name, &e)))))
    }
}

/// Number of rows of a batch with this schema.
fn batch_rows(schema: &Schema) -> usize {
    (BATCH_CELLS / schema.fields().len().max(1)).clamp(1, BATCH_ROWS)
}

/// A reader of a file's rows.
trait ReadBatch {
    /// The next rows; `None` at the end of the file.
    fn batch(&mut self) -> Result<Option<Numbered>>;
}

/// The batches of a reader up to its first error.
fn boxed(mut reader: impl ReadBatch + Send + 'static) -> Rows {
    let mut is_over = false;
    Box::new(std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let batch = reader.batch().transpose();
        is_over = !matches!(batch, Some(Ok(_)));
        batch
    }))
}

/// How a reader handles the rows of a file.
#[derive(Debug, Clone, Copy)]
struct Mode {
    file: usize,
    wrongs: Wrongs,
    words: Words,
}

impl Mode {
    /// Handles a wrong row.
    ///
    /// # Errors
    /// The reason, unless wrong rows are left out.
    fn wrong(self, place: u64, reason: String, text: impl FnOnce() -> String, found: &mut Vec<Wrong>) -> Result<()> {
        let text = match self.wrongs {
            Wrongs::Fail => return Err(Error::invalid(format!("line {place}: {reason}"))),
            Wrongs::Skip => String::new(),
            Wrongs::Keep => text(),
        };
        found.push(Wrong { file: self.file, place, reason, text });
        Ok(())
    }
}

/// Checks that no column name occurs twice.
fn columns_once<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(Error::invalid("two columns have the same name: rename one in the file")
                .with("found", format!("{name:?}")));
        }
    }
    Ok(())
}

/// An error with the name of its file, if that has one.
fn named(file: &str, error: &Error) -> Error {
    if file.is_empty() { error.copied() } else { at(file, error) }
}

/// The type that holds the values of both types; `None` if there is none.
fn common(one: &DataType, other: &DataType, is_parquet: bool) -> Option<DataType> {
    let both = |is: fn(&DataType) -> bool| is(one) && is(other);
    match () {
        () if both(table::is_text) => Some(DataType::Utf8),
        () if both(table::is_time) => Some(TIME),
        () if both(|ty| ty.is_integer()) => {
            let is_unsigned = [one, other].contains(&&DataType::UInt64);
            (!is_unsigned).then_some(DataType::Int64)
        }
        () if both(|ty| ty.is_integer() || ty.is_floating()) => Some(DataType::Float64),
        () => (!is_parquet).then_some(DataType::Utf8),
    }
}

/// Notice for a mostly numeric column that becomes text because of this value.
fn text_notice(column: &str, line: u64, found: &str, words: Words) -> (String, String) {
    let found = shorten(found);
    let text = format!(
        "column {column:?} becomes text: line {line} has '{found}', which is not a number; {}'{found}' reads it as null",
        words.null
    );
    (column.to_owned(), text)
}

/// Shortens and escapes a value for a message.
pub(crate) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(64).flat_map(char::escape_debug).collect();
    if text.chars().nth(64).is_some() {
        short.push('…');
    }
    short.replace("\\'", "'").replace("\\\"", "\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::spool;

    fn inspect(files: &[(&str, &str)], types: &[(&str, ColumnType)]) -> Result<Source> {
        let file = |(name, text): &(&str, &str)| {
            (spool(text.as_bytes(), name).unwrap(), FileFormat::of(std::path::Path::new(name)).unwrap())
        };
        let types = types.iter().map(|(name, ty)| ((*name).to_owned(), *ty)).collect();
        let reading = Reading { nulls: Vec::new(), types, sample: 100, words: Words::COMMAND_LINE };
        Source::inspect(files.iter().map(file).collect(), reading)
    }

    fn rows(source: &Source, wrongs: Wrongs) -> Result<Vec<Numbered>> {
        source.rows(wrongs, &unwatched()).collect()
    }

    #[test]
    fn files_have_the_columns_and_types_of_all() {
        let files = [
            ("a.csv", "t,v,w\n1,1,x\n"),
            ("b.ndjson", "{\"v\": 1.5, \"t\": 2, \"n\": true}\n"),
            ("c.csv", "v,t\n7,3\n"),
        ];
        let source = inspect(&files, &[]).unwrap();
        let types: Vec<_> = source.schema.fields().iter().map(|f| (f.name().as_str(), f.data_type().clone())).collect();
        let expected =
            [("t", DataType::Int64), ("v", DataType::Float64), ("w", DataType::Utf8), ("n", DataType::Boolean)];
        assert_eq!(types, expected);
        let found = rows(&source, Wrongs::Fail).unwrap();
        let text: Vec<String> = found
            .iter()
            .flat_map(|n| n.batch.columns())
            .map(|c| arrow::util::display::array_value_to_string(c, 0).unwrap())
            .collect();
        assert_eq!(text, ["1", "1.0", "x", "", "2", "1.5", "", "true", "3", "7.0", "", ""]);
        let told: Vec<&str> = source.notices().collect();
        assert!(told.iter().any(|n| n.starts_with("c.csv: null in the columns that the file lacks: w, n")), "{told:?}");
    }

    #[test]
    fn a_column_of_two_types_becomes_text_and_a_given_type_decides() {
        let files = [("a.csv", "t,v\n1,1\n"), ("b.csv", "t,v\n2,x\n")];
        let source = inspect(&files, &[]).unwrap();
        assert_eq!(*source.schema.field(1).data_type(), DataType::Utf8);
        assert!(source.notices().any(|n| n.contains("\"v\" becomes text") && n.contains("b.csv")));
        let source = inspect(&files, &[("v", ColumnType::Double)]).unwrap();
        assert_eq!(source.notices().count(), 0);
        let error = rows(&source, Wrongs::Fail).unwrap_err().to_string();
        assert!(error.starts_with("b.csv: line 2: column \"v\" holds 'x', expected a number"), "{error}");
        let kept = rows(&source, Wrongs::Keep).unwrap();
        let wrong: Vec<&Wrong> = kept.iter().flat_map(|n| &n.wrong).collect();
        assert_eq!((wrong.len(), wrong[0].file, wrong[0].place, wrong[0].text.as_str()), (1, 1, 2, "2,x"));
        let omitted = inspect(&files, &[("v", ColumnType::Omit), ("t", ColumnType::Text)]).unwrap();
        assert_eq!((table::names(&omitted.schema), omitted.notices().count()), ("t".to_owned(), 0));
        assert_eq!(omitted.omitted, [Omitted { name: "v".to_owned(), by_request: true }]);
        assert_eq!(
            rows(&omitted, Wrongs::Fail).unwrap().iter().map(|n| n.batch.num_columns()).collect::<Vec<_>>(),
            [1, 1]
        );
        let error = inspect(&files, &[("v", ColumnType::Omit), ("t", ColumnType::Omit)]).unwrap_err().to_string();
        assert!(error.contains("no column is left"), "{error}");
        let error = inspect(&files, &[("w", ColumnType::Int)]).unwrap_err().to_string();
        assert!(error.contains("--types") && error.contains("t, v") && error.contains("\"w\""), "{error}");
    }
}
