//! Parquet files.

use std::{
    fs::File,
    io::{BufReader, Read},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, new_null_array},
    compute::cast,
    datatypes::{Field, SchemaRef},
    util::display::array_value_to_string,
};
use bytes::Bytes;
use parquet::{
    arrow::arrow_reader::{
        ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
    },
    errors::{ParquetError, Result as ParquetResult},
    file::reader::{ChunkReader, Length},
};
use tidelake_format::{Error, Result};

use super::{Inferred, Mode, Numbered, ReadBatch, Wrong, Wrongs, batch_rows};
use crate::{
    input::{At, Content, Input, Progress},
    ranges::{Blocks, InBlocks},
    table::{is_time, type_name},
};

/// A file with a position for each reader.
enum Shared {
    File(Arc<File>),
    Blocks(Arc<Blocks>),
}

impl Length for Shared {
    fn len(&self) -> u64 {
        match self {
            Self::File(file) => file.metadata().map_or(0, |metadata| metadata.len()),
            Self::Blocks(blocks) => blocks.bytes(),
        }
    }
}

impl ChunkReader for Shared {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(match self {
            Self::File(file) => Box::new(BufReader::new(At::new(file.clone(), start))),
            Self::Blocks(blocks) => Box::new(InBlocks { blocks: blocks.clone(), at: start }),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // A broken footer must not make the process allocate more than the file holds.
        if start.saturating_add(length as u64) > self.len() {
            return Err(ParquetError::EOF(format!("expected {length} bytes at {start}, found {} in all", self.len())));
        }
        let mut bytes = vec![0; length];
        self.get_read(start)?.read_exact(&mut bytes)?;
        Ok(bytes.into())
    }
}

fn open(input: &Input) -> Result<ParquetRecordBatchReaderBuilder<Shared>> {
    if input.is_packed()? {
        return Err(Error::invalid("a Parquet file must not be compressed as a whole")
            .with("expected", "Parquet")
            .with("found", "gzip or zstd"));
    }
    let file = match input.content()? {
        Content::File(file) => Shared::File(file),
        Content::Ranges(ranges) => Shared::Blocks(Arc::new(Blocks::new(ranges, 1))),
    };
    let metadata = ArrowReaderMetadata::load(&file, ArrowReaderOptions::default()).map_err(|e| broken(&e))?;
    let columns = metadata.parquet_schema().num_columns();
    let file = match file {
        Shared::File(_) => file,
        Shared::Blocks(blocks) => Shared::Blocks(Arc::new(Blocks::new(blocks.ranges(), columns))),
    };
    Ok(ParquetRecordBatchReaderBuilder::new_with_metadata(file, metadata))
}

fn broken(error: &impl std::fmt::Display) -> Error {
    Error::invalid("not a readable Parquet file").with("reason", error)
}

pub(super) fn infer(input: &Input) -> Result<Inferred> {
    let fields = open(input)?.schema().fields().iter().map(|field| field.as_ref().clone()).collect::<Vec<_>>();
    super::columns_once(fields.iter().map(|field| field.name().as_str()))?;
    Ok(Inferred { fields, ..Inferred::default() })
}

/// Reader of a file's rows with a known schema.
pub(super) struct Reader {
    batches: ParquetRecordBatchReader,
    schema: SchemaRef,
    mode: Mode,
    before: u64,
    rows: u64,
    bytes: u64,
    progress: Progress,
}

impl Reader {
    pub(super) fn new(input: &Input, schema: &SchemaRef, mode: Mode, progress: &Progress) -> Result<Self> {
        let builder = open(input)?;
        let rows = u64::try_from(builder.metadata().file_metadata().num_rows()).unwrap_or(0);
        let batches = builder.with_batch_size(batch_rows(schema)).build().map_err(|e| broken(&e))?;
        let (schema, progress, bytes) = (schema.clone(), progress.clone(), input.bytes()?);
        Ok(Self { batches, schema, mode, before: 0, rows, bytes, progress })
    }

    fn numbered(&mut self, batch: RecordBatch) -> Result<Numbered> {
        let rows = batch.num_rows();
        let first = self.before + 1;
        self.before += rows as u64;
        // Columns of a row group are read one after the other, so rows measure the progress.
        (self.progress)(self.bytes.saturating_mul(rows as u64).checked_div(self.rows).unwrap_or(0));
        let (mut columns, mut reasons) = (Vec::new(), vec![None; rows]);
        for field in self.schema.fields() {
            columns.push(match batch.column_by_name(field.name()) {
                None => new_null_array(field.data_type(), rows),
                Some(column) => converted(field, column, &mut reasons)?,
            });
        }
        let places: Vec<u64> = (first..).take(rows).collect();
        let text = |row: usize| {
            let values = batch.columns().iter().map(|column| array_value_to_string(column, row).unwrap_or_default());
            values.collect::<Vec<_>>().join(",")
        };
        let mut wrong: Vec<Wrong> = Vec::new();
        for (row, reason) in reasons.iter().enumerate() {
            let Some(reason) = reason else { continue };
            if self.mode.wrongs == Wrongs::Fail {
                return Err(Error::invalid(format!("row {}: {reason}", places[row])));
            }
            self.mode.wrong(places[row], reason.clone(), || text(row), &mut wrong)?;
        }
        let keeps = self.mode.wrongs == Wrongs::Keep;
        let texts = if keeps { (0..rows).map(text).collect() } else { Vec::new() };
        let batch = RecordBatch::try_new(self.schema.clone(), columns)?;
        let numbered = Numbered { file: self.mode.file, batch, places, texts, wrong };
        let good: Vec<bool> = reasons.iter().map(Option::is_none).collect();
        numbered.only(&good)
    }
}

/// A column in the type of the schema; a value that it cannot hold makes its row wrong.
fn converted(field: &Field, column: &ArrayRef, reasons: &mut [Option<String>]) -> Result<ArrayRef> {
    if column.data_type() == field.data_type() {
        return Ok(column.clone());
    }
    let converted = cast(column, field.data_type()).map_err(|_| {
        Error::invalid(format!("column {:?} cannot be read as another type", field.name()))
            .with("expected", type_name(field.data_type()))
            .with("found", type_name(column.data_type()))
    })?;
    for row in (0..column.len()).filter(|row| converted.is_null(*row) && column.is_valid(*row)) {
        let found = super::shorten(&array_value_to_string(column, row).unwrap_or_default());
        let expected = match field.data_type() {
            ty if is_time(ty) => "a time",
            ty if ty.is_integer() => "an integer",
            ty if ty.is_numeric() => "a number",
            _ => "true or false",
        };
        reasons[row].get_or_insert_with(|| format!("column {:?} holds '{found}', expected {expected}", field.name()));
    }
    Ok(converted)
}

impl ReadBatch for Reader {
    fn batch(&mut self) -> Result<Option<Numbered>> {
        match self.batches.next() {
            Some(batch) => self.numbered(batch.map_err(|e| broken(&e))?).map(Some),
            None => Ok(None),
        }
    }
}
