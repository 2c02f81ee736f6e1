//! Exports the rows of a table or query to a file.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::PathBuf,
};

use anyhow::{Context, bail};
use arrow::{
    array::{AsArray, RecordBatch},
    datatypes::SchemaRef,
};
use clap::Args;
use futures::StreamExt;
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, ZstdLevel},
    file::properties::WriterProperties,
};

use super::{FileFormat, line_protocol, rows_bar};
use crate::{arguments::ServerArgs, client::Client};

/// The command: a server, and what to export.
#[derive(Debug, Args)]
pub(crate) struct ExportCommand {
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    rows: ExportArgs,
}

/// Options of an export: the rows, and the file to write.
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Output file; must not exist
    file: PathBuf,
    /// Export all rows of this supertable
    #[arg(long, short = 't', conflicts_with = "query", required_unless_present = "query")]
    table: Option<String>,
    /// Export the rows of this query
    #[arg(long, short = 'q')]
    query: Option<String>,
    /// File format [default: by extension]
    #[arg(long, short = 'f', value_enum)]
    format: Option<FileFormat>,
}

/// What is exported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    /// All rows of a supertable.
    Table(String),
    /// The rows of a query.
    Query(String),
}

impl ExportArgs {
    /// An export to a file whose extension names the format.
    pub(crate) fn of(source: Source, file: PathBuf) -> Self {
        let (table, query) = match source {
            Source::Table(table) => (Some(table), None),
            Source::Query(query) => (None, Some(query)),
        };
        Self { file, table, query, format: None }
    }
}

/// Connects to the server, writes the rows and prints their number.
#[expect(clippy::print_stdout, reason = "the command's result")]
pub(crate) async fn export(args: ExportCommand) -> anyhow::Result<()> {
    let mut client = Client::connect(&args.server).await?;
    let rows = export_rows(&mut client, &args.rows).await?;
    println!("{rows} rows exported to {}", args.rows.file.display());
    Ok(())
}

/// Writes the rows and returns their number; an incomplete file is removed.
pub(crate) async fn export_rows(client: &mut Client, args: &ExportArgs) -> anyhow::Result<u64> {
    let format = args.format.map_or_else(|| FileFormat::of(&args.file), Ok)?;
    let roles = match (&args.table, format) {
        (Some(table), FileFormat::Line) => Some(roles(client, table).await?),
        (None, FileFormat::Line) => bail!("line protocol needs --table: a query's rows have no tags"),
        _ => None,
    };
    let sql = match (&args.query, &args.table) {
        (Some(query), _) => query.clone(),
        (None, Some(table)) => format!("select * from {table}"),
        (None, None) => bail!("expected --table or --query"),
    };
    let mut reply = client.execute(&sql).await?;
    let file = File::create_new(&args.file).with_context(|| format!("cannot create {}", args.file.display()))?;
    let bar = rows_bar();
    let written = async {
        let mut sink = Sink::new(format, BufWriter::new(file), &reply.schema, roles)?;
        while let Some(batch) = reply.batches.next().await {
            let batch = batch?;
            sink.write(&batch)?;
            bar.inc(batch.num_rows() as u64);
        }
        sink.finish()
    }
    .await;
    if let Err(e) = written {
        std::fs::remove_file(&args.file)
            .with_context(|| format!("cannot remove the incomplete file {}", args.file.display()))?;
        return Err(e);
    }
    bar.finish_and_clear();
    Ok(bar.position())
}

/// Reads the tags and time column of a table from DESCRIBE (columns field, type, length, note).
async fn roles(client: &mut Client, table: &str) -> anyhow::Result<line_protocol::Roles> {
    let mut roles = line_protocol::Roles { table: String::new(), tags: Vec::new(), time: String::new() };
    roles.table = table.rsplit('.').next().unwrap_or(table).trim_matches(['`', '"']).to_owned();
    for batch in client.collect(&format!("describe {table}")).await? {
        let text =
            |i: usize| batch.column(i).as_string_opt::<i32>().context("unexpected columns in the result of DESCRIBE");
        let (names, notes) = (text(0)?, text(3)?);
        for row in 0..batch.num_rows() {
            if roles.time.is_empty() {
                roles.time = names.value(row).to_owned();
            } else if notes.value(row) == "TAG" {
                roles.tags.push(names.value(row).to_owned());
            }
        }
    }
    Ok(roles)
}

enum Sink {
    Csv(Box<arrow::csv::Writer<BufWriter<File>>>),
    Ndjson(arrow::json::LineDelimitedWriter<BufWriter<File>>),
    Line(BufWriter<File>, line_protocol::Roles),
    Parquet(Box<ArrowWriter<BufWriter<File>>>),
}

impl Sink {
    fn new(
        format: FileFormat,
        file: BufWriter<File>,
        schema: &SchemaRef,
        roles: Option<line_protocol::Roles>,
    ) -> anyhow::Result<Self> {
        Ok(match (format, roles) {
            (FileFormat::Csv, _) => Sink::Csv(Box::new(arrow::csv::Writer::new(file))),
            (FileFormat::Ndjson, _) => Sink::Ndjson(arrow::json::LineDelimitedWriter::new(file)),
            (FileFormat::Parquet, _) => {
                let zstd = Compression::ZSTD(ZstdLevel::try_new(1)?);
                let properties = WriterProperties::builder().set_compression(zstd).build();
                Sink::Parquet(Box::new(ArrowWriter::try_new(file, schema.clone(), Some(properties))?))
            }
            (FileFormat::Line, Some(roles)) => Sink::Line(file, roles),
            (FileFormat::Line, None) => bail!("line protocol needs the roles of the columns"),
        })
    }

    fn write(&mut self, batch: &RecordBatch) -> anyhow::Result<()> {
        match self {
            Sink::Csv(w) => w.write(batch)?,
            Sink::Ndjson(w) => w.write(batch)?,
            Sink::Line(w, roles) => line_protocol::write(w, batch, roles)?,
            Sink::Parquet(w) => w.write(batch)?,
        }
        Ok(())
    }

    fn finish(self) -> anyhow::Result<()> {
        let mut file = match self {
            Sink::Csv(w) => w.into_inner(),
            Sink::Ndjson(mut w) => {
                w.finish()?;
                w.into_inner()
            }
            Sink::Line(w, _) => w,
            Sink::Parquet(w) => w.into_inner()?,
        };
        file.flush()?;
        file.get_ref().sync_all()?;
        Ok(())
    }
}
