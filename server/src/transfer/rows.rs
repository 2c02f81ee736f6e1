//! The rows of a CSV, NDJSON or Parquet file, in batches, each row with its place in the file.

mod csv;
mod ndjson;

use std::{fs::File, path::PathBuf};

use anyhow::Context;
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use indicatif::ProgressBar;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::FileFormat;

/// Rows of one batch.
const BATCH_ROWS: usize = 16_384;
/// Rows that the types of a text file are inferred from.
const INFER_ROWS: usize = 1_000_000;

/// A file whose rows can be read several times.
pub(super) struct Source {
    path: PathBuf,
    format: FileFormat,
    nulls: Vec<String>,
    /// The columns.
    pub(super) schema: SchemaRef,
    /// Remarks on the columns that the user should know before the rows are sent.
    pub(super) notices: Vec<String>,
}

/// Some rows of a file.
pub(super) struct Numbered {
    /// The rows.
    pub(super) batch: RecordBatch,
    /// The line of each row, or its number in a Parquet file, from 1.
    pub(super) places: Vec<u64>,
}

/// The rows of a file, read once.
pub(super) type Rows = Box<dyn Iterator<Item = anyhow::Result<Numbered>> + Send>;

impl Source {
    /// Finds the columns of a file and their types.
    ///
    /// # Errors
    /// When the file cannot be read, naming it and the line.
    pub(super) fn inspect(path: PathBuf, format: FileFormat, nulls: Vec<String>) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let file = File::open(&path).with_context(|| format!("cannot open {name}"))?;
        let (schema, notices) = match format {
            FileFormat::Csv => csv::infer(file, &nulls, INFER_ROWS),
            FileFormat::Ndjson => ndjson::infer(file, &nulls, INFER_ROWS),
            FileFormat::Parquet => ParquetRecordBatchReaderBuilder::try_new(file)
                .map(|builder| (builder.schema().clone(), Vec::new()))
                .map_err(Into::into),
            FileFormat::Line => Err(anyhow::anyhow!("line protocol is not read as rows")),
        }
        .with_context(|| format!("cannot read {name}"))?;
        Ok(Self { path, format, nulls, schema, notices })
    }

    /// All rows from the first one.
    ///
    /// # Errors
    /// When the file cannot be opened; an error of a row names the file and the line.
    pub(super) fn rows(&self, bar: &ProgressBar) -> anyhow::Result<Rows> {
        let name = self.path.display().to_string();
        let file = File::open(&self.path).with_context(|| format!("cannot open {name}"))?;
        let rows: Rows = match self.format {
            FileFormat::Csv => Box::new(csv::Reader::new(bar.wrap_read(file), &self.schema, &self.nulls)?),
            FileFormat::Ndjson => Box::new(ndjson::Reader::new(bar.wrap_read(file), &self.schema, &self.nulls)?),
            FileFormat::Parquet => {
                let batches = ParquetRecordBatchReaderBuilder::try_new(file)?.with_batch_size(BATCH_ROWS).build()?;
                let mut before = 0;
                Box::new(batches.map(move |batch| {
                    let batch = batch?;
                    let rows = batch.num_rows() as u64;
                    let places = (before + 1..=before + rows).collect();
                    before += rows;
                    Ok(Numbered { batch, places })
                }))
            }
            FileFormat::Line => anyhow::bail!("line protocol is not read as rows"),
        };
        Ok(Box::new(rows.map(move |rows| rows.with_context(|| name.clone()))))
    }

    /// The file's name for messages.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// What the places of rows are called.
    pub(super) fn place(&self) -> &'static str {
        if self.format == FileFormat::Parquet { "row" } else { "line" }
    }
}

/// A notice for a column most of whose values are numbers, but not this one.
fn text_notice(column: &str, line: u64, found: &str) -> String {
    let found = shorten(found);
    format!(
        "column {column:?} becomes text: line {line} has '{found}', which is no number; --null '{found}' reads it as null"
    )
}

/// A value from a file, made fit for a message.
fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(64).flat_map(char::escape_debug).collect();
    if text.chars().nth(64).is_some() {
        short.push('…');
    }
    short.replace("\\'", "'").replace("\\\"", "\"")
}
