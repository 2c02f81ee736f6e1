//! A file's rows into a supertable.

use std::{fs::File, io::BufReader, path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use arrow::{
    array::{RecordBatch, RecordBatchReader},
    compute::{CastOptions, cast_with_options},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
    error::ArrowError,
};
use arrow_flight::error::FlightError;
use clap::Args;
use indicatif::ProgressBar;
use tokio::sync::mpsc;

use super::{FileFormat, bytes_bar, line_protocol};
use crate::{cli::ServerArgs, client::Client};

/// Rows of one ingest call: all of them become visible together and wait in memory until then.
const CALL_ROWS: usize = 1 << 20;
/// Rows of one batch.
const BATCH_ROWS: usize = 16_384;
/// Rows that the types of a text file are inferred from.
const INFER_ROWS: usize = 10_000;
/// The field metadata by which a column becomes a tag of a new table.
const ROLE: &str = "tidelake.role";

/// Options of an import.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(flatten)]
    server: ServerArgs,
    /// The file
    file: PathBuf,
    /// The supertable; created when it does not exist (line protocol names its own)
    #[arg(long, short = 't')]
    table: Option<String>,
    /// The format of the file [default: by its ending]
    #[arg(long, short = 'f', value_enum)]
    format: Option<FileFormat>,
    /// Columns that become tags when the table is created, separated by commas
    #[arg(long, value_delimiter = ',')]
    tags: Vec<String>,
    /// The time column of rows [default: ts or time]
    #[arg(long)]
    time: Option<String>,
    /// The unit of timestamps that are numbers
    #[arg(long, value_enum, default_value_t = Precision::Ns)]
    precision: Precision,
}

/// Units of timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Precision {
    Ns,
    Us,
    Ms,
    S,
}

impl Precision {
    fn unit(self) -> TimeUnit {
        match self {
            Precision::Ns => TimeUnit::Nanosecond,
            Precision::Us => TimeUnit::Microsecond,
            Precision::Ms => TimeUnit::Millisecond,
            Precision::S => TimeUnit::Second,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Precision::Ns => "ns",
            Precision::Us => "us",
            Precision::Ms => "ms",
            Precision::S => "s",
        }
    }
}

/// Sends the file, with a bar of bytes.
#[expect(clippy::print_stdout, reason = "the command's result")]
pub(crate) async fn import(args: ImportArgs) -> anyhow::Result<()> {
    let format = args.format.map_or_else(|| FileFormat::of(&args.file), Ok)?;
    let file = File::open(&args.file).with_context(|| format!("cannot open {}", args.file.display()))?;
    let bar = bytes_bar(file.metadata()?.len());
    let rows = match format {
        FileFormat::Line => {
            let database = args.server.database.as_deref().context("line protocol needs --database")?;
            line_protocol::send(&args.server.url, database, args.precision.name(), file, &bar).await?
        }
        _ => {
            let table = args.table.as_deref().context("a file of rows needs --table")?;
            let reader = open(format, file, &args, &bar)?;
            send(&args.server, table, reader, &bar).await?
        }
    };
    bar.finish_and_clear();
    println!("{rows} rows imported");
    Ok(())
}

type Reader = Box<dyn RecordBatchReader + Send>;

fn open(format: FileFormat, mut file: File, args: &ImportArgs, bar: &ProgressBar) -> anyhow::Result<Reader> {
    let name = || args.file.display().to_string();
    let inner: Reader = match format {
        FileFormat::Csv => {
            let csv = arrow::csv::reader::Format::default().with_header(true);
            let (schema, _) = csv.infer_schema(BufReader::new(&file), Some(INFER_ROWS)).with_context(name)?;
            std::io::Seek::rewind(&mut file)?;
            let builder =
                arrow::csv::ReaderBuilder::new(Arc::new(schema)).with_header(true).with_batch_size(BATCH_ROWS);
            Box::new(builder.build(bar.wrap_read(file)).with_context(name)?)
        }
        FileFormat::Ndjson => {
            let (schema, _) =
                arrow::json::reader::infer_json_schema(BufReader::new(&file), Some(INFER_ROWS)).with_context(name)?;
            std::io::Seek::rewind(&mut file)?;
            let builder = arrow::json::ReaderBuilder::new(Arc::new(schema)).with_batch_size(BATCH_ROWS);
            Box::new(builder.build(BufReader::new(bar.wrap_read(file))).with_context(name)?)
        }
        FileFormat::Parquet => {
            let builder =
                parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).with_context(name)?;
            Box::new(builder.with_batch_size(BATCH_ROWS).build()?)
        }
        FileFormat::Line => bail!("line protocol is not read as rows"),
    };
    let schema = Arc::new(shape(&inner.schema(), args)?);
    Ok(Box::new(Shaped { inner, schema }))
}

/// The schema that is sent: the time column as a timestamp, the named columns marked as tags.
fn shape(schema: &Schema, args: &ImportArgs) -> anyhow::Result<Schema> {
    let names = || schema.fields().iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", ");
    let has = |name: &str| schema.fields().iter().any(|f| f.name() == name);
    let time = match &args.time {
        Some(time) if !has(time) => bail!("--time names {time:?}, which the file does not have; it has {}", names()),
        Some(time) => Some(time.as_str()),
        None => ["ts", "time"].into_iter().find(|name| has(name)),
    };
    if let Some(tag) = args.tags.iter().find(|tag| !has(tag)) {
        bail!("--tags names {tag:?}, which the file does not have; it has {}", names());
    }
    let fields = schema.fields().iter().map(|f| {
        let data_type = match f.data_type() {
            DataType::Utf8 if Some(f.name().as_str()) == time => DataType::Timestamp(TimeUnit::Nanosecond, None),
            DataType::Int64 if Some(f.name().as_str()) == time => DataType::Timestamp(args.precision.unit(), None),
            other => other.clone(),
        };
        let field = Field::new(f.name(), data_type, f.is_nullable());
        let role = if args.tags.contains(f.name()) { "tag" } else { "field" };
        if args.tags.is_empty() { field } else { field.with_metadata([(ROLE.to_owned(), role.to_owned())].into()) }
    });
    Ok(Schema::new(fields.collect::<Vec<_>>()))
}

/// A reader whose columns are cast to the types of another schema; a value that does not fit is an error.
struct Shaped {
    inner: Reader,
    schema: SchemaRef,
}

impl Shaped {
    fn cast(&self, batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
        let strict = CastOptions { safe: false, ..CastOptions::default() };
        let columns = batch.columns().iter().zip(self.schema.fields());
        let columns = columns.map(|(column, field)| cast_with_options(column, field.data_type(), &strict));
        RecordBatch::try_new(self.schema.clone(), columns.collect::<Result<_, _>>()?)
    }
}

impl Iterator for Shaped {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.inner.next()?;
        Some(batch.and_then(|batch| self.cast(&batch)))
    }
}

impl RecordBatchReader for Shaped {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

async fn send(server: &ServerArgs, table: &str, reader: Reader, bar: &ProgressBar) -> anyhow::Result<u64> {
    let mut client = Client::connect(server).await?;
    let schema = reader.schema();
    let (tx, mut rx) = mpsc::channel(4);
    let reading = tokio::task::spawn_blocking(move || {
        for batch in reader {
            if tx.blocking_send(batch).is_err() {
                break;
            }
        }
    });
    let mut total = 0;
    let mut done = false;
    while !done {
        let mut call = Vec::new();
        let mut rows = 0;
        while rows < CALL_ROWS {
            let Some(batch) = rx.recv().await else {
                done = true;
                break;
            };
            let batch = batch?;
            rows += batch.num_rows();
            call.push(Ok::<_, FlightError>(batch));
        }
        if call.is_empty() {
            if total == 0 {
                call.push(Ok(RecordBatch::new_empty(schema.clone())));
            } else {
                break;
            }
        }
        total += client.ingest(table, futures::stream::iter(call)).await?.unsigned_abs();
        bar.set_message(format!("{total} rows"));
    }
    reading.await.context("the reader stopped")?;
    Ok(total)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        import: ImportArgs,
    }

    fn args(line: &str) -> ImportArgs {
        Line::parse_from(line.split(' ')).import
    }

    fn schema() -> Schema {
        Schema::new(vec![Field::new("at", DataType::Int64, true), Field::new("site", DataType::Utf8, true)])
    }

    #[test]
    fn the_time_column_becomes_a_timestamp_and_tags_are_marked() {
        let shaped = shape(&schema(), &args("import f.csv --time at --precision ms --tags site")).unwrap();
        assert_eq!(*shaped.field(0).data_type(), DataType::Timestamp(TimeUnit::Millisecond, None));
        assert_eq!(shaped.field(1).metadata()[ROLE], "tag");
    }

    #[test]
    fn a_column_that_the_file_lacks_is_named_with_what_it_has() {
        for option in ["--tags sites", "--time when"] {
            let error = shape(&schema(), &args(&format!("import f.csv {option}"))).unwrap_err().to_string();
            assert!(error.contains(&option[option.len() - 4..]) && error.contains("at, site"), "{error}");
        }
    }
}
