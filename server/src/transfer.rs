//! `tidelake import` and `tidelake export`: files to rows and back, through the public wire.

mod export;
mod import;
mod line_file;
mod line_protocol;
mod rows;

use std::path::Path;

pub(crate) use export::{ExportArgs, export};
pub(crate) use import::{ImportArgs, import};
use indicatif::{ProgressBar, ProgressStyle};

/// The formats of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum FileFormat {
    /// Comma separated with a header line.
    Csv,
    /// One JSON object a line.
    Ndjson,
    /// InfluxDB line protocol.
    Line,
    /// Apache Parquet.
    Parquet,
}

impl FileFormat {
    /// By the ending of a file's name.
    ///
    /// # Errors
    /// When the ending is none of ours.
    fn of(path: &Path) -> anyhow::Result<Self> {
        match path.extension().and_then(|e| e.to_str()).unwrap_or_default() {
            "csv" => Ok(FileFormat::Csv),
            "ndjson" | "jsonl" | "json" => Ok(FileFormat::Ndjson),
            "lp" | "line" | "txt" => Ok(FileFormat::Line),
            "parquet" => Ok(FileFormat::Parquet),
            other => anyhow::bail!(
                "cannot tell the format of {} from its ending {other:?} (.csv, .ndjson, .lp, .parquet); name it with --format",
                path.display()
            ),
        }
    }
}

/// A bar over bytes; hidden where standard error is no terminal.
fn bytes_bar(total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} {binary_bytes_per_sec} {msg} eta {eta}");
    ProgressBar::new(total).with_style(style.expect("a constant template"))
}

/// A bar that counts rows without knowing their number.
fn rows_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {human_pos} rows, {per_sec}");
    ProgressBar::new_spinner().with_style(style.expect("a constant template"))
}
