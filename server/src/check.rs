//! `tidelake check`: verifies the objects of a root. Read-only; safe while servers run.

use clap::{Args, ValueEnum};
use tidelake_format::check::{CheckOptions, check};
use tidelake_import::words::many;

use tidelake_node::serve;

use crate::arguments::StoreArgs;

/// Options of `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    store: StoreArgs,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    output: Output,
    /// Skip reading the rows of data files: faster, but does not detect damaged pages or wrong aggregates
    #[arg(long)]
    quick: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Output {
    /// One line per finding, then a summary
    Text,
    /// One JSON object
    Json,
}

/// Checks the root and prints the findings. Faults are an error, so the exit code is 1.
#[expect(clippy::print_stdout, reason = "the command's result")]
pub(crate) async fn run(args: CheckArgs) -> anyhow::Result<()> {
    let settings = args.store.settings()?;
    serve::logging::start(&settings)?;
    let store = serve::existing_store(&settings)?;
    let report = check(&store, CheckOptions { rows: !args.quick }).await?;
    match args.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&report)?),
        Output::Text => {
            report.faults.iter().for_each(|f| println!("fault  {f}"));
            report.notes.iter().for_each(|n| println!("note   {n}"));
            println!(
                "{} at {}: {} versions, {} log segments, {} data files with {} rows, {} bytes: {}, {}",
                store.describe(),
                report.version,
                report.versions,
                report.segments,
                report.files,
                report.rows,
                report.bytes,
                many(report.faults.len() as u64, "fault"),
                many(report.notes.len() as u64, "note")
            );
        }
    }
    anyhow::ensure!(report.is_sound(), "{} in {}", many(report.faults.len() as u64, "fault"), store.describe());
    Ok(())
}
