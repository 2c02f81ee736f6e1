//! Reads CSV, NDJSON and Parquet files as batches in which each row has its position in the file.

mod csv;
mod ndjson;

use std::{fs::File, path::PathBuf};

use anyhow::Context;
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use indicatif::ProgressBar;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::FileFormat;

/// Number of rows per batch.
const BATCH_ROWS: usize = 16_384;
/// Number of rows from which the types of a text file are inferred.
const INFER_ROWS: usize = 1_000_000;

/// An import file that can be read several times.
pub(super) struct Source {
    path: PathBuf,
    format: FileFormat,
    nulls: Vec<String>,
    /// The columns.
    pub(super) schema: SchemaRef,
    /// Notices about the columns, shown to the user before the rows are sent.
    pub(super) notices: Vec<String>,
}

/// A batch of a file's rows.
pub(super) struct Numbered {
    /// The rows.
    pub(super) batch: RecordBatch,
    /// Line of each row, or row number in a Parquet file, from 1.
    pub(super) places: Vec<u64>,
}

/// One pass over the rows of a file.
pub(super) type Rows = Box<dyn Iterator<Item = anyhow::Result<Numbered>> + Send>;

impl Source {
    /// Infers the columns and types of a file.
    ///
    /// # Errors
    /// The file cannot be read; the error names file and line.
    pub(super) fn inspect(path: PathBuf, format: FileFormat, nulls: Vec<String>) -> anyhow::Result<Self> {
        let name = path.display().to_string();
        let file = File::open(&path).with_context(|| format!("cannot open {name}"))?;
        let (schema, notices) = match format {
            FileFormat::Csv => csv::infer(file, &nulls, INFER_ROWS),
            FileFormat::Ndjson => ndjson::infer(file, &nulls, INFER_ROWS),
            FileFormat::Parquet => ParquetRecordBatchReaderBuilder::try_new(file)
                .map(|builder| (builder.schema().clone(), Vec::new()))
                .map_err(Into::into),
            FileFormat::Line => Err(anyhow::anyhow!("line protocol cannot be read as rows")),
        }
        .with_context(|| format!("cannot read {name}"))?;
        Ok(Self { path, format, nulls, schema, notices })
    }

    /// Reads all rows from the start.
    ///
    /// # Errors
    /// The file cannot be opened; an error of a row names file and line.
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
            FileFormat::Line => anyhow::bail!("line protocol cannot be read as rows"),
        };
        Ok(Box::new(rows.map(move |rows| rows.with_context(|| name.clone()))))
    }

    /// The file's name for messages.
    pub(super) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The word for a row's position: "row" or "line".
    pub(super) fn place(&self) -> &'static str {
        if self.format == FileFormat::Parquet { "row" } else { "line" }
    }
}

/// Notice for a mostly numeric column that becomes text because of this value.
fn text_notice(column: &str, line: u64, found: &str) -> String {
    let found = shorten(found);
    format!(
        "column {column:?} becomes text: line {line} has '{found}', which is not a number; --null '{found}' reads it as null"
    )
}

/// Shortens and escapes a value for a message.
fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(64).flat_map(char::escape_debug).collect();
    if text.chars().nth(64).is_some() {
        short.push('…');
    }
    short.replace("\\'", "'").replace("\\\"", "\"")
}
