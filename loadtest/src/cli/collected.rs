//! `collected`: the final size of a root.

use anyhow::Result;
use clap::Args;
use std::path::{Path, PathBuf};
use tidelake_loadtest::drive::collected::collect;
use tidelake_loadtest::report::{Page as _, Report};

/// Arguments of `collected`.
#[derive(Debug, Args)]
pub(crate) struct Collected {
    /// The server's program
    #[arg(long, default_value = "tidelake")]
    program: PathBuf,
    /// Root directory with the data set; no server may use it. The modification times of its objects are set back
    #[arg(long)]
    root: PathBuf,
    /// Existing report.json to add the sizes to; its Markdown page is regenerated
    #[arg(long)]
    into: Option<PathBuf>,
}

impl Collected {
    #[expect(clippy::print_stdout, reason = "a command prints its result")]
    pub(crate) async fn run(self) -> Result<()> {
        let sample = collect(&self.program, &self.root).await?;
        let per_row = |bytes: u64| bytes as f64 / sample.rows.max(1) as f64;
        for (name, kind) in sample.collected.kinds().into_iter().filter(|(_, kind)| kind.objects > 0) {
            println!(
                "{name:20} {:>6} objects {:>12} bytes {:>8.3} a row",
                kind.objects,
                kind.bytes,
                per_row(kind.bytes)
            );
        }
        let (merged, left) = (sample.merged.total(), sample.collected.total());
        println!(
            "{} rows: {} objects, {} bytes = {:.3} a row after folding, merging and collection (before the collection {} \
             objects, {} bytes = {:.3} a row)",
            sample.rows,
            left.objects,
            left.bytes,
            sample.bytes_per_row(),
            merged.objects,
            merged.bytes,
            per_row(merged.bytes),
        );
        if let Some(path) = &self.into {
            let mut report = Report::read(path)?;
            report.collected = Some(sample);
            report.write(path.parent().unwrap_or(Path::new("")))?;
        }
        Ok(())
    }
}
