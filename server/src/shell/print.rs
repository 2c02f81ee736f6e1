//! Rows on standard output.

use std::io::Write;

use arrow::{
    array::{Array, AsArray, RecordBatch},
    util::{display::FormatOptions, pretty::pretty_format_batches_with_options},
};
use futures::StreamExt;

use crate::client::Reply;

/// How rows are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Aligned, for people.
    Table,
    /// Comma separated, with a header.
    Csv,
    /// One array of objects.
    Json,
    /// One object a line.
    Ndjson,
}

/// Prints replies in one format.
pub(crate) struct Printer {
    format: Format,
    max_rows: usize,
}

impl Printer {
    pub(crate) fn new(format: Format, max_rows: usize) -> Self {
        Self { format, max_rows: if max_rows == 0 { usize::MAX } else { max_rows } }
    }

    pub(crate) fn set_format(&mut self, name: &str) -> anyhow::Result<()> {
        use clap::ValueEnum;
        self.format =
            Format::from_str(name, true).map_err(|_| anyhow::anyhow!("expected table, csv, json or ndjson"))?;
        Ok(())
    }

    /// Prints all rows as they come and says how many there were.
    pub(crate) async fn print(&mut self, mut reply: Reply) -> anyhow::Result<String> {
        let (mut rows, mut shown) = (0, 0);
        let mut table = Vec::new();
        let mut out = std::io::stdout();
        let mut csv = (self.format == Format::Csv).then(|| arrow::csv::Writer::new(std::io::stdout()));
        let mut json = (self.format == Format::Json).then(|| arrow::json::ArrayWriter::new(std::io::stdout()));
        let mut ndjson =
            (self.format == Format::Ndjson).then(|| arrow::json::LineDelimitedWriter::new(std::io::stdout()));
        while let Some(batch) = reply.batches.next().await {
            let batch = batch?;
            rows += batch.num_rows();
            match self.format {
                Format::Table => {
                    let take = batch.num_rows().min(self.max_rows - shown);
                    shown += take;
                    table.push(batch.slice(0, take));
                }
                Format::Csv => csv.as_mut().map_or(Ok(()), |w| w.write(&batch))?,
                Format::Json => json.as_mut().map_or(Ok(()), |w| w.write(&batch))?,
                Format::Ndjson => ndjson.as_mut().map_or(Ok(()), |w| w.write(&batch))?,
            }
        }
        if let Some(mut writer) = json {
            writer.finish()?;
            writeln!(out)?;
        }
        if let Some(mut writer) = ndjson {
            writer.finish()?;
        }
        if self.format == Format::Table && !reply.schema.fields().is_empty() {
            if table.is_empty() {
                table.push(RecordBatch::new_empty(reply.schema.clone()));
            }
            let options = FormatOptions::new().with_null("NULL");
            writeln!(out, "{}", pretty_format_batches_with_options(&table, &options)?)?;
            if shown < rows {
                writeln!(out, "… {} more rows; --max-rows 0 prints all", rows - shown)?;
            }
        }
        out.flush()?;
        Ok(format!("{rows} row{}", if rows == 1 { "" } else { "s" }))
    }
}

/// Whether the first column of a batch holds this text, without case.
pub(crate) fn first_column_contains(batch: &RecordBatch, text: &str) -> bool {
    let names = batch.column(0).as_string_opt::<i32>();
    names.is_some_and(|names| (0..names.len()).any(|i| names.value(i).eq_ignore_ascii_case(text)))
}
