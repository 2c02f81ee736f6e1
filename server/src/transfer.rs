//! `tidelake import` and `tidelake export`: file import and export over the public protocols.

mod bucket;
mod dry_run;
mod export;
mod files;
mod import;
mod line_file;
mod line_protocol;
mod output;
mod partitions;
mod rejects;
mod resume;
mod sending;
mod sink;

use std::path::Path;

pub(crate) use export::{ExportArgs, ExportCommand, Source, export, export_rows};
pub(crate) use files::{WILDCARDS, locate};
pub(crate) use import::{ImportArgs, import};
use indicatif::{ProgressBar, ProgressStyle};
use tidelake_import::input;

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

impl From<FileFormat> for input::FileFormat {
    fn from(format: FileFormat) -> Self {
        match format {
            FileFormat::Csv => Self::Csv,
            FileFormat::Ndjson => Self::Ndjson,
            FileFormat::Line => Self::Line,
            FileFormat::Parquet => Self::Parquet,
        }
    }
}

impl From<input::FileFormat> for FileFormat {
    fn from(format: input::FileFormat) -> Self {
        match format {
            input::FileFormat::Csv => Self::Csv,
            input::FileFormat::Ndjson => Self::Ndjson,
            input::FileFormat::Line => Self::Line,
            input::FileFormat::Parquet => Self::Parquet,
        }
    }
}

impl FileFormat {
    /// The format of a file's extension.
    ///
    /// # Errors
    /// The extension is not supported.
    fn of(path: &Path) -> anyhow::Result<Self> {
        input::FileFormat::of(path).map(Self::from).ok_or_else(|| {
            let extension = path.extension().and_then(|e| e.to_str()).unwrap_or_default();
            anyhow::anyhow!(
                "unknown format of {}: unsupported extension {extension:?} (.csv, .ndjson, .lp, .parquet); use --format",
                path.display()
            )
        })
    }

    /// The usual extension of the format.
    fn extension(self) -> &'static str {
        match self {
            FileFormat::Csv => "csv",
            FileFormat::Ndjson => "ndjson",
            FileFormat::Line => "lp",
            FileFormat::Parquet => "parquet",
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
