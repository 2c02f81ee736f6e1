//! Exports the rows of a table or query to a file.

use std::{
    io::{BufWriter, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail, ensure};
use arrow::array::AsArray;
use clap::Args;
use futures::StreamExt;
use indicatif::ProgressBar;
use tidelake_import::words::many;

use super::{
    FileFormat, line_protocol,
    output::Output,
    partitions::{self, PartitionBy},
    rows_bar,
    sink::Sink,
};
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
    /// Output file or s3://bucket/key, which must not exist; - for standard output; with --partition-by a directory or prefix,
    /// new or empty
    file: PathBuf,
    /// Export all rows of this supertable
    #[arg(long, short = 't', conflicts_with = "query", required_unless_present = "query")]
    table: Option<String>,
    /// Export the rows of this query
    #[arg(long, short = 'q')]
    query: Option<String>,
    /// File format [default: by extension; parquet with --partition-by]
    #[arg(long, short = 'f', value_enum)]
    format: Option<FileFormat>,
    /// Write a file for each period of time in UTC, such as date=2026-11-29/part-0.parquet
    #[arg(long, value_enum)]
    partition_by: Option<PartitionBy>,
    /// The column of times that --partition-by uses with --query
    #[arg(long, requires = "partition_by", conflicts_with = "table")]
    time: Option<String>,
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
        Self { file, table, query, format: None, partition_by: None, time: None }
    }
}

/// Connects to the server, writes the rows and prints their number; on standard error if the rows go to standard output.
#[expect(clippy::print_stdout, clippy::print_stderr, reason = "the command's result")]
pub(crate) async fn export(args: ExportCommand) -> anyhow::Result<()> {
    let mut client = Client::connect(&args.server).await?;
    let rows = many(export_rows(&mut client, &args.rows).await?, "row");
    match is_stdout(&args.rows.file) {
        true => eprintln!("{rows} exported"),
        false => println!("{rows} exported to {}", args.rows.file.display()),
    }
    Ok(())
}

fn is_stdout(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Writes the rows and returns their number; incomplete files are removed.
pub(crate) async fn export_rows(client: &mut Client, args: &ExportArgs) -> anyhow::Result<u64> {
    let format = match args.format {
        Some(format) => format,
        None if args.partition_by.is_some() => FileFormat::Parquet,
        None if is_stdout(&args.file) => {
            bail!("standard output needs --format: it has no extension that names the format")
        }
        None => FileFormat::of(&args.file)?,
    };
    let roles = match (&args.table, format) {
        (Some(table), _) => Some(roles(client, table).await?),
        (None, FileFormat::Line) => bail!("line protocol needs --table: a query's rows have no tags"),
        _ => None,
    };
    let bar = rows_bar();
    let of_line = || roles.clone().filter(|_| format == FileFormat::Line);
    match (&args.query, &args.table, args.partition_by) {
        (Some(query), _, Some(by)) => {
            let time = args.time.as_deref().context("--partition-by with --query needs --time: the column of times")?;
            partitions::query(client, query, time, by, format, &args.file, &bar).await?;
        }
        (None, Some(table), Some(by)) => {
            let roles = roles.as_ref().context("the columns of the table are not known")?;
            partitions::table(client, table, roles, by, format, &args.file, &bar).await?;
        }
        (Some(query), _, None) => whole(client, query, format, None, &args.file, &bar).await?,
        (None, Some(table), None) => {
            whole(client, &format!("select * from {table}"), format, of_line(), &args.file, &bar).await?;
        }
        (None, None, _) => bail!("expected --table or --query"),
    }
    bar.finish_and_clear();
    Ok(bar.position())
}

/// Writes the rows of a statement into one file, or to standard output.
async fn whole(
    client: &mut Client,
    sql: &str,
    format: FileFormat,
    roles: Option<line_protocol::Roles>,
    path: &Path,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    if is_stdout(path) {
        ensure!(
            format != FileFormat::Parquet,
            "Parquet cannot go to standard output: expected csv, ndjson or line, or a file"
        );
        return write(client, sql, format, roles, Box::new(std::io::stdout()), bar).await;
    }
    // Before the query: an existing file is reported at once.
    let output = Output::create(path)?;
    let written = write(client, sql, format, roles, output.writer()?, bar).await;
    match written.and_then(|()| output.complete()) {
        Ok(()) => Ok(()),
        Err(error) => {
            output.discard()?;
            Err(error)
        }
    }
}

/// Writes the rows of a statement.
pub(super) async fn write(
    client: &mut Client,
    sql: &str,
    format: FileFormat,
    roles: Option<line_protocol::Roles>,
    to: Box<dyn Write + Send>,
    bar: &ProgressBar,
) -> anyhow::Result<()> {
    let mut reply = client.execute(sql).await?;
    let mut sink = Sink::new(format, BufWriter::new(to), &reply.schema, roles)?;
    while let Some(batch) = reply.batches.next().await {
        let batch = batch?;
        sink.write(&batch)?;
        bar.inc(batch.num_rows() as u64);
    }
    sink.finish()
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
