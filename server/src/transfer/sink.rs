//! Writes batches of rows in a file format.

use std::io::{BufWriter, Write};

use anyhow::bail;
use arrow::{array::RecordBatch, datatypes::SchemaRef};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};

use super::{FileFormat, line_protocol};

/// Where the bytes go.
type Out = BufWriter<Box<dyn Write + Send>>;

/// Bytes that a Parquet writer collects before it writes a row group.
const ROW_GROUP_BYTES: usize = 64 << 20;

/// A writer of rows.
pub(super) enum Sink {
    Csv(Box<arrow::csv::Writer<Out>>),
    Ndjson(arrow::json::LineDelimitedWriter<Out>),
    Line(Out, line_protocol::Roles),
    Parquet(Box<ArrowWriter<Out>>, usize),
}

impl Sink {
    /// A writer of batches with this schema. Line protocol needs the roles of the columns.
    ///
    /// # Errors
    /// The format has no counterpart of a column's type.
    pub(super) fn new(
        format: FileFormat,
        out: Out,
        schema: &SchemaRef,
        roles: Option<line_protocol::Roles>,
    ) -> anyhow::Result<Self> {
        Self::collecting(format, out, schema, roles, ROW_GROUP_BYTES)
    }

    /// A writer that collects at most about this number of bytes.
    ///
    /// # Errors
    /// As [`Sink::new`].
    pub(super) fn collecting(
        format: FileFormat,
        out: Out,
        schema: &SchemaRef,
        roles: Option<line_protocol::Roles>,
        bytes: usize,
    ) -> anyhow::Result<Self> {
        Ok(match (format, roles) {
            (FileFormat::Csv, _) => Sink::Csv(Box::new(arrow::csv::Writer::new(out))),
            (FileFormat::Ndjson, _) => Sink::Ndjson(arrow::json::LineDelimitedWriter::new(out)),
            (FileFormat::Parquet, _) => {
                let zstd = Compression::ZSTD(ZstdLevel::try_new(1)?);
                let properties = WriterProperties::builder().set_compression(zstd).build();
                Sink::Parquet(Box::new(ArrowWriter::try_new(out, schema.clone(), Some(properties))?), bytes)
            }
            (FileFormat::Line, Some(roles)) => Sink::Line(out, roles),
            (FileFormat::Line, None) => bail!("line protocol needs the roles of the columns"),
        })
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// The bytes cannot be written.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        match self {
            Sink::Csv(w) => w.write(batch)?,
            Sink::Ndjson(w) => w.write(batch)?,
            Sink::Line(w, roles) => line_protocol::write(w, batch, roles)?,
            Sink::Parquet(w, bytes) => {
                w.write(batch)?;
                if w.memory_size() > *bytes {
                    w.flush()?;
                }
            }
        }
        Ok(())
    }

    /// Writes what is collected.
    ///
    /// # Errors
    /// The bytes cannot be written.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let mut out = match self {
            Sink::Csv(w) => w.into_inner(),
            Sink::Ndjson(mut w) => {
                w.finish()?;
                w.into_inner()
            }
            Sink::Line(w, _) => w,
            Sink::Parquet(w, _) => w.into_inner()?,
        };
        out.flush()?;
        Ok(())
    }
}
