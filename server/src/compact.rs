//! `tidelake compact`: folds and merges a root without a server; safe while servers run.

use tidelake_ingest::write::Ingest;

use tidelake_node::{serve, settings::Settings};

/// Folds the whole log, merges every partition and prints a summary.
#[expect(clippy::print_stdout, reason = "the command's result")]
pub(crate) async fn run(settings: Settings) -> anyhow::Result<()> {
    serve::logging::start(&settings)?;
    let root = serve::open_existing_root(&settings).await?;
    let ingest = Ingest::open(root, serve::ingest_config(&settings)).await?;
    let report = ingest.compact(tidelake_ingest::compact::CompactRequest::Full).await?;
    ingest.shutdown().await;
    println!(
        "folded {} segments ({} rows), merged {} files ({} rows), dropped {} overwritten rows, {} expired partitions and {} expired rows, wrote {} files ({} bytes)",
        report.segments,
        report.folded_rows,
        report.merged_files,
        report.merged_rows,
        report.duplicates,
        report.expired_partitions,
        report.expired_rows,
        report.files,
        report.bytes
    );
    Ok(())
}
