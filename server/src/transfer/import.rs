//! A file's rows into a supertable.

use std::{collections::HashSet, fs::File, io::BufReader, path::PathBuf, sync::Arc};

use anyhow::{Context, bail};
use arrow::{
    array::{RecordBatch, RecordBatchReader},
    datatypes::{Field, Schema, SchemaRef},
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
    /// The unit of timestamps in a line protocol file: ns, us, ms or s
    #[arg(long, default_value = "ns")]
    precision: String,
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
            line_protocol::send(&args.server.url, database, &args.precision, file, &bar).await?
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
    let name = args.file.display();
    let reader: Reader = match format {
        FileFormat::Csv => {
            let csv = arrow::csv::reader::Format::default().with_header(true);
            let (schema, _) = csv.infer_schema(BufReader::new(&file), Some(10_000)).with_context(|| name.to_string())?;
            std::io::Seek::rewind(&mut file)?;
            let schema = Arc::new(with_tags(&schema, &args.tags)?);
            let builder = arrow::csv::ReaderBuilder::new(schema).with_header(true).with_batch_size(BATCH_ROWS);
            Box::new(builder.build(bar.wrap_read(file)).with_context(|| name.to_string())?)
        }
        FileFormat::Ndjson => {
            let (schema, _) = arrow::json::reader::infer_json_schema(BufReader::new(&file), Some(10_000))
                .with_context(|| name.to_string())?;
            std::io::Seek::rewind(&mut file)?;
            let schema = Arc::new(with_tags(&schema, &args.tags)?);
            let builder = arrow::json::ReaderBuilder::new(schema).with_batch_size(BATCH_ROWS);
            Box::new(builder.build(BufReader::new(bar.wrap_read(file))).with_context(|| name.to_string())?)
        }
        FileFormat::Parquet => {
            let builder = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file)
                .with_context(|| name.to_string())?;
            let schema = Arc::new(with_tags(builder.schema(), &args.tags)?);
            Box::new(Renamed { inner: builder.with_batch_size(BATCH_ROWS).build()?, schema })
        }
        FileFormat::Line => bail!("line protocol is not read as rows"),
    };
    Ok(reader)
}

/// The schema with the named columns marked as tags.
fn with_tags(schema: &Schema, tags: &[String]) -> anyhow::Result<Schema> {
    let mut left: HashSet<&str> = tags.iter().map(String::as_str).collect();
    let fields: Vec<Field> = schema
        .fields()
        .iter()
        .map(|f| {
            let role = if left.remove(f.name().as_str()) { "tag" } else { "field" };
            let field = Field::new(f.name(), f.data_type().clone(), f.is_nullable());
            if tags.is_empty() { field } else { field.with_metadata([(ROLE.to_owned(), role.to_owned())].into()) }
        })
        .collect();
    if let Some(name) = left.into_iter().next() {
        let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        bail!("--tags names {name:?}, which the file does not have; it has {}", names.join(", "));
    }
    Ok(Schema::new(fields))
}

/// A Parquet reader under another schema of the same types.
struct Renamed {
    inner: parquet::arrow::arrow_reader::ParquetRecordBatchReader,
    schema: SchemaRef,
}

impl Iterator for Renamed {
    type Item = Result<RecordBatch, arrow::error::ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.inner.next()?;
        Some(batch.and_then(|b| RecordBatch::try_new(self.schema.clone(), b.columns().to_vec())))
    }
}

impl RecordBatchReader for Renamed {
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
    use arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn a_tag_that_the_file_lacks_is_named_with_what_it_has() {
        let schema = Schema::new(vec![Field::new("ts", DataType::Int64, true), Field::new("site", DataType::Utf8, true)]);
        let marked = with_tags(&schema, &["site".to_owned()]).unwrap();
        assert_eq!(marked.field(1).metadata()[ROLE], "tag");
        let error = with_tags(&schema, &["sites".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("sites") && error.contains("ts, site"), "{error}");
    }
}
