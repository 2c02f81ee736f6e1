//! `tidelake import` and `tidelake export`: file import and export over the public protocols.

mod export;
mod import;
mod line_file;
mod line_protocol;
mod rows;

use std::path::Path;

pub(crate) use export::{ExportArgs, ExportCommand, Source, export, export_rows};
pub(crate) use import::{ImportArgs, import};
use indicatif::{ProgressBar, ProgressStyle};

/// File formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FileFormat {
    /// Comma-separated values with a header line.
    Csv,
    /// One JSON object per line.
    Ndjson,
    /// InfluxDB line protocol.
    Line,
    /// Apache Parquet.
    Parquet,
}

impl FileFormat {
    /// The format of a file's extension.
    ///
    /// # Errors
    /// The extension is not supported.
    fn of(path: &Path) -> anyhow::Result<Self> {
        match path.extension().and_then(|e| e.to_str()).unwrap_or_default() {
            "csv" => Ok(FileFormat::Csv),
            "ndjson" | "jsonl" | "json" => Ok(FileFormat::Ndjson),
            "lp" | "line" | "txt" => Ok(FileFormat::Line),
            "parquet" => Ok(FileFormat::Parquet),
            other => anyhow::bail!(
                "unknown format of {}: unsupported extension {other:?} (.csv, .ndjson, .lp, .parquet); use --format",
                path.display()
            ),
        }
    }
}

/// Progress bar in bytes; hidden when standard error is not a terminal.
fn bytes_bar(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec} {msg} eta {eta}");
    ProgressBar::new(total).with_style(style.expect("a constant template"))
}

/// Progress spinner that counts rows.
fn rows_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {human_pos} rows, {per_sec}");
    ProgressBar::new_spinner().with_style(style.expect("a constant template"))
}
