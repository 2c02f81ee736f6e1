//! Prints rows on standard output.

use std::{io::Write, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray},
    datatypes::{DataType, Field, Schema},
    util::{
        display::{ArrayFormatter, FormatOptions},
        pretty::pretty_format_batches,
    },
};
use futures::StreamExt;

use crate::{client::Reply, terminal::escaped};

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// Aligned columns.
    Table,
    /// Comma-separated values with a header line.
    Csv,
    /// One array of objects.
    Json,
    /// One object per line.
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

    /// Prints the rows as they arrive and returns a message with their number.
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
            let table: Vec<RecordBatch> = table.iter().map(shown_cells).collect::<anyhow::Result<_>>()?;
            writeln!(out, "{}", pretty_format_batches(&table)?)?;
            if shown < rows {
                writeln!(out, "… {} more rows; --max-rows 0 prints all", rows - shown)?;
            }
        }
        out.flush()?;
        Ok(format!("{rows} row{}", if rows == 1 { "" } else { "s" }))
    }
}

/// Cells and column names of a batch as text for the table format, with control characters escaped.
fn shown_cells(batch: &RecordBatch) -> anyhow::Result<RecordBatch> {
    let options = FormatOptions::new().with_null("NULL");
    let (mut fields, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
        let cells = ArrayFormatter::try_new(column.as_ref(), &options)?;
        let texts = (0..column.len()).map(|row| cells.value(row).try_to_string());
        let texts = texts.map(|text| text.map(|text| escaped(&text).into_owned())).collect::<Result<Vec<_>, _>>()?;
        fields.push(Field::new(escaped(field.name()), DataType::Utf8, false));
        columns.push(Arc::new(StringArray::from(texts)) as ArrayRef);
    }
    let rows = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &rows)?)
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;

    use super::*;

    #[test]
    fn escapes_in_cells_and_names_are_shown_and_not_sent_to_the_terminal() {
        let texts = StringArray::from(vec![Some("\u{1b}]0;owned\u{7}"), None]);
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("n\u{1b}[31m", Arc::new(Int64Array::from(vec![1, 2])) as ArrayRef, true),
            ("text", Arc::new(texts) as ArrayRef, true),
        ])
        .unwrap();
        let shown = pretty_format_batches(&[shown_cells(&batch).unwrap()]).unwrap().to_string();
        let expected = "\
+-----------+---------------------+
| n\\u{1b}[31m | text                |
+-----------+---------------------+
| 1         | \\u{1b}]0;owned\\u{7} |
| 2         | NULL                |
+-----------+---------------------+";
        assert!(!shown.contains('\u{1b}') && !shown.contains('\u{7}'), "{shown:?}");
        assert_eq!(shown.replace(['-', ' '], ""), expected.replace(['-', ' '], ""));
    }
}
