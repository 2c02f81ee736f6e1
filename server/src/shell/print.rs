//! Prints rows on standard output, in a pager or to a file.

use std::{
    fs::File,
    io::{IsTerminal as _, Write},
    path::PathBuf,
    process::{Command, Stdio},
    sync::Arc,
};

use anyhow::Context;
use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StringArray},
    datatypes::{DataType, Field, Schema},
    util::{
        display::{ArrayFormatter, FormatOptions},
        pretty::pretty_format_batches,
    },
};
use clap::ValueEnum;
use comfy_table::presets::ASCII_MARKDOWN;
use console::Term;
use futures::StreamExt;

use super::{chart, progress::Progress};
use crate::{client::Reply, terminal::escaped};

/// Output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Mode {
    /// Aligned columns.
    Table,
    /// Comma-separated values with a header line.
    Csv,
    /// One array of objects.
    Json,
    /// One object per line.
    Ndjson,
    /// A Markdown table.
    Markdown,
    /// One line a value.
    #[value(alias = "line")]
    Vertical,
    /// A line chart of text: time across, a line for each numeric column and combination of texts.
    Chart,
}

impl Mode {
    /// The names, separated by commas.
    pub(super) fn names() -> String {
        let names = Self::value_variants().iter().filter_map(ValueEnum::to_possible_value);
        names.map(|name| name.get_name().to_owned()).collect::<Vec<_>>().join(", ")
    }
}

/// Size of a chart where there is no terminal, in characters.
const CHART_SIZE: (usize, usize) = (80, 20);
/// Maximum number of rows of a chart.
const CHART_ROWS: usize = 1_000_000;
/// Maximum height of a chart, in lines.
const CHART_LINES: usize = 30;

/// Prints replies in one format.
pub(crate) struct Printer {
    pub(super) mode: Mode,
    /// Whether tables are printed with one line a value.
    pub(super) is_vertical: bool,
    /// Whether a table that does not fit the terminal is shown in a pager.
    pub(super) has_pager: bool,
    max_rows: usize,
    output: Option<File>,
}

impl Printer {
    pub(crate) fn new(mode: Mode, max_rows: usize) -> Self {
        let mut printer = Self { mode, is_vertical: false, has_pager: false, max_rows: 0, output: None };
        printer.set_max_rows(max_rows);
        printer
    }

    /// Sets the maximum number of rows of a printed table; 0 prints all.
    pub(super) fn set_max_rows(&mut self, rows: usize) {
        self.max_rows = if rows == 0 { usize::MAX } else { rows };
    }

    /// Writes later results to a new file, or to standard output.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(super) fn set_output(&mut self, path: Option<PathBuf>) -> anyhow::Result<()> {
        let create = |path: PathBuf| File::create(&path).with_context(|| format!("cannot create {}", path.display()));
        self.output = path.map(create).transpose()?;
        Ok(())
    }

    fn writer(&self) -> anyhow::Result<Box<dyn Write>> {
        Ok(match &self.output {
            Some(file) => Box::new(file.try_clone()?),
            None => Box::new(std::io::stdout()),
        })
    }

    /// Prints the rows as they arrive, or together where the format needs all of them, and returns their number.
    pub(super) async fn print(&mut self, mut reply: Reply, progress: &Progress) -> anyhow::Result<usize> {
        let (mut rows, mut kept) = (0, Vec::new());
        let mut kept_rows = 0;
        let most = if self.mode == Mode::Chart { CHART_ROWS } else { self.max_rows };
        let mut csv = (self.mode == Mode::Csv).then(|| self.writer().map(arrow::csv::Writer::new)).transpose()?;
        let mut json =
            (self.mode == Mode::Json).then(|| self.writer().map(arrow::json::ArrayWriter::new)).transpose()?;
        let mut ndjson = (self.mode == Mode::Ndjson)
            .then(|| self.writer().map(arrow::json::LineDelimitedWriter::new))
            .transpose()?;
        while let Some(batch) = reply.batches.next().await {
            let batch = batch?;
            rows += batch.num_rows();
            progress.add(&batch);
            match self.mode {
                Mode::Table | Mode::Markdown | Mode::Vertical | Mode::Chart => {
                    let take = batch.num_rows().min(most - kept_rows);
                    kept_rows += take;
                    // An empty slice would keep the memory of its batch.
                    if take > 0 {
                        kept.push(batch.slice(0, take));
                    }
                }
                Mode::Csv => csv.as_mut().map_or(Ok(()), |w| w.write(&batch))?,
                Mode::Json => json.as_mut().map_or(Ok(()), |w| w.write(&batch))?,
                Mode::Ndjson => ndjson.as_mut().map_or(Ok(()), |w| w.write(&batch))?,
            }
        }
        progress.hide();
        if let Some(mut writer) = json {
            writer.finish()?;
            writeln!(self.writer()?)?;
        }
        if let Some(mut writer) = ndjson {
            writer.finish()?;
        }
        if !reply.schema.fields().is_empty() {
            if kept.is_empty() {
                kept.push(RecordBatch::new_empty(reply.schema.clone()));
            }
            let mut text = self.text(&kept)?;
            if kept_rows < rows && !text.is_empty() {
                let hint = match self.mode {
                    Mode::Chart => " are not drawn",
                    _ => "; \\rows 0 or --max-rows 0 prints all",
                };
                text += &format!("… {} more rows{hint}\n", rows - kept_rows);
            }
            self.show(&text)?;
        }
        std::io::stdout().flush()?;
        Ok(rows)
    }

    /// The rows as text; empty in a format that is printed as rows arrive.
    fn text(&self, rows: &[RecordBatch]) -> anyhow::Result<String> {
        let cells = || rows.iter().map(shown_cells).collect::<anyhow::Result<Vec<RecordBatch>>>();
        match self.mode {
            Mode::Table if !self.is_vertical => Ok(format!("{}\n", pretty_format_batches(&cells()?)?)),
            Mode::Table | Mode::Vertical => Ok(vertical(&cells()?)),
            Mode::Markdown => Ok(markdown(&cells()?)),
            Mode::Chart => {
                let size = self.terminal().and_then(|terminal| terminal.size_checked());
                let (height, width) = size.map_or((CHART_SIZE.1, CHART_SIZE.0), |(h, w)| (h.into(), w.into()));
                let height = height.saturating_sub(6).clamp(8, CHART_LINES);
                let has_colours = size.is_some() && console::colors_enabled();
                chart::draw(rows, width, height, has_colours)
            }
            Mode::Csv | Mode::Json | Mode::Ndjson => Ok(String::new()),
        }
    }

    /// The terminal that results are printed on.
    fn terminal(&self) -> Option<Term> {
        let is_terminal = self.output.is_none() && std::io::stdout().is_terminal();
        is_terminal.then(Term::stdout)
    }

    /// Prints text, in a pager if it does not fit the terminal.
    fn show(&self, text: &str) -> anyhow::Result<()> {
        let size = self.terminal().filter(|_| self.has_pager).and_then(|terminal| terminal.size_checked());
        if let Some((height, width)) = size
            && (text.lines().count() >= height.into() || text.lines().any(|line| line.chars().count() > width.into()))
            && page(text)
        {
            return Ok(());
        }
        self.writer()?.write_all(text.as_bytes()).context("cannot print the result")
    }
}

/// Shows text in the pager and waits for its end; returns whether it could be started.
fn page(text: &str) -> bool {
    let named = ["TIDELAKE_PAGER", "PAGER"].iter().find_map(|name| std::env::var(name).ok());
    let command = named.filter(|command| !command.trim().is_empty()).unwrap_or_else(|| "less -SRFX".to_owned());
    let started = Command::new("sh").args(["-c", &command]).stdin(Stdio::piped()).spawn();
    let Ok(mut pager) = started else { return false };
    if let Some(mut input) = pager.stdin.take() {
        // The user may leave the pager before the end of the text.
        let _ = input.write_all(text.as_bytes());
    }
    // The shell reports a command that does not exist by this status.
    pager.wait().is_ok_and(|status| status.code() != Some(127))
}

/// One line a value, and a line before each row.
fn vertical(cells: &[RecordBatch]) -> String {
    let (mut text, mut number) = (String::new(), 0);
    let Some(schema) = cells.first().map(RecordBatch::schema) else { return text };
    let width = schema.fields().iter().map(|field| field.name().chars().count()).max().unwrap_or_default();
    for batch in cells {
        for row in 0..batch.num_rows() {
            number += 1;
            text += &format!("─── row {number} {}\n", "─".repeat(width.max(20)));
            for (field, column) in schema.fields().iter().zip(batch.columns()) {
                let padding = " ".repeat(width - field.name().chars().count());
                text += &format!("{}{padding} │ {}\n", field.name(), cell(column, row));
            }
        }
    }
    text
}

/// A Markdown table.
fn markdown(cells: &[RecordBatch]) -> String {
    let mut table = comfy_table::Table::new();
    table.load_preset(ASCII_MARKDOWN);
    let quoted = |text: &str| text.replace('|', "\\|").replace('\n', "<br>");
    if let Some(batch) = cells.first() {
        table.set_header(batch.schema().fields().iter().map(|field| quoted(field.name())));
    }
    for batch in cells {
        for row in 0..batch.num_rows() {
            table.add_row(batch.columns().iter().map(|column| quoted(cell(column, row))));
        }
    }
    format!("{table}\n")
}

/// A cell of [`shown_cells`].
fn cell(column: &ArrayRef, row: usize) -> &str {
    column.as_any().downcast_ref::<StringArray>().map_or("", |texts| texts.value(row))
}

/// Cells and column names of a batch as text with control characters escaped.
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

    #[test]
    fn rows_are_printed_as_markdown_and_with_a_line_for_each_value() {
        let texts = StringArray::from(vec![Some("a|b"), None]);
        let batch = RecordBatch::try_from_iter_with_nullable([
            ("n", Arc::new(Int64Array::from(vec![1, 22])) as ArrayRef, true),
            ("text", Arc::new(texts) as ArrayRef, true),
        ])
        .unwrap();
        let cells = [shown_cells(&batch).unwrap()];
        let expected = "| n  | text |\n|----|------|\n| 1  | a\\|b |\n| 22 | NULL |\n";
        assert_eq!(markdown(&cells), expected);
        let line = "─".repeat(20);
        let expected = format!("─── row 1 {line}\nn    │ 1\ntext │ a|b\n─── row 2 {line}\nn    │ 22\ntext │ NULL\n");
        assert_eq!(vertical(&cells), expected);
    }
}
