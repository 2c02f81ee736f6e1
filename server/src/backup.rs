//! `tidelake backup` and `tidelake restore`: a consistent copy of a root elsewhere, and back, each verified.

use std::time::Duration;

use anyhow::{Context, ensure};
use clap::Args;
use tidelake_format::{
    check::{CheckOptions, check},
    copy::{Copied, copy, waiting},
    layout,
    meta::Root,
    store::Store,
};
use tidelake_ingest::{compact::CompactRequest, write::Ingest};
use tokio::time::{Instant, sleep};

use crate::{cli::StoreArgs, serve, settings::Settings};

/// What is acknowledged is old enough to be folded after some seconds; behind others a fold takes longer.
const FOLDED_WITHIN: Duration = Duration::from_secs(600);

/// Where a copy goes.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// Where the copy goes: a directory, or s3://bucket/prefix; one that has an older copy gets what is new
    #[arg(long, value_name = "URL")]
    to: String,
    /// An option of that store as name=value; may repeat [default: those of the root's store]
    #[arg(long = "to-option", value_name = "NAME=VALUE")]
    to_options: Vec<String>,
    /// Do not read the rows of the copy again to verify them: checksums of what is not read are not looked at
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Where a copy is.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Where the copy is
    #[arg(long, value_name = "URL")]
    from: String,
    /// An option of that store as name=value; may repeat [default: those of the root's store]
    #[arg(long = "from-option", value_name = "NAME=VALUE")]
    from_options: Vec<String>,
    /// Do not read the rows of the root again to verify them
    #[arg(long)]
    quick: bool,
    /// The root, of which nothing is there yet
    #[command(flatten)]
    store: StoreArgs,
}

/// Copies what was acknowledged when this began; writers and servers may go on meanwhile.
///
/// # Errors
/// When the log cannot be folded, either store does not answer, or the copy is not sound.
pub(crate) async fn backup(args: BackupArgs) -> anyhow::Result<()> {
    let settings = args.store.settings()?;
    serve::logging::start(&settings)?;
    let to = other(&settings, &args.to, &args.to_options)?;
    let root = serve::open_root(&settings).await?;
    let folded = waiting(&root).await?;
    if !folded.is_empty() {
        fold(&settings, &root, &folded).await?;
    }
    let copied = copy(&root, &to, &folded).await.context("the root cannot be copied")?;
    finish(&to, copied, args.quick).await
}

/// Copies a backup to where nothing is.
///
/// # Errors
/// When there is something, either store does not answer, or the root is not sound.
pub(crate) async fn restore(args: RestoreArgs) -> anyhow::Result<()> {
    let settings = args.store.settings()?;
    serve::logging::start(&settings)?;
    let from = other(&settings, &args.from, &args.from_options)?;
    let to = Store::open(&settings.store, &settings.store_options)?;
    let backup = from.list(layout::META).await?;
    ensure!(!backup.is_empty(), "there is no backup in {}", from.describe());
    for prefix in [layout::META, layout::LOG] {
        let found = to.list(prefix).await?;
        ensure!(found.is_empty(), "there is a root in {} already: restore it to another place", to.describe());
    }
    let copied = copy(&Root::open(from).await?, &to, &[]).await.context("the backup cannot be copied")?;
    finish(&to, copied, args.quick).await
}

fn other(settings: &Settings, url: &str, options: &[String]) -> anyhow::Result<Store> {
    let mut given = Vec::new();
    for option in options {
        let (name, value) = option.split_once('=').with_context(|| format!("expected name=value, found {option:?}"))?;
        given.push((name.to_owned(), value.to_owned()));
    }
    let inherited = if url.contains("://") { settings.store_options.clone() } else { Vec::new() };
    Ok(Store::open(url, if given.is_empty() { &inherited } else { &given })?)
}

/// Has what lay in the log folded.
async fn fold(settings: &Settings, root: &Root, folded: &[tidelake_format::ids::Position]) -> anyhow::Result<()> {
    let mut config = serve::ingest_config(settings);
    config.compact.background = false;
    let ingest = Ingest::open(root.clone(), config).await?;
    let until = Instant::now() + FOLDED_WITHIN;
    loop {
        ingest.compact(CompactRequest::Fold).await.context("the log cannot be folded")?;
        let catalog = root.refresh().await?;
        let left = folded.iter().filter(|position| !catalog.is_folded(**position)).count();
        if left == 0 {
            break;
        }
        ensure!(Instant::now() < until, "{left} segments of the log were not folded within {FOLDED_WITHIN:?}");
        sleep(Duration::from_millis(500)).await;
    }
    ingest.shutdown().await;
    Ok(())
}

/// Verifies a copy and prints what it is.
#[expect(clippy::print_stdout, reason = "the command's result")]
async fn finish(to: &Store, copied: Copied, quick: bool) -> anyhow::Result<()> {
    let report = check(to, CheckOptions { rows: !quick }).await?;
    report.faults.iter().for_each(|fault| println!("fault  {fault}"));
    println!(
        "{} at {}: {} objects with {} bytes copied, {} were there; {} data files with {} rows verified",
        to.describe(),
        copied.version,
        copied.objects,
        copied.bytes,
        copied.known,
        report.files,
        report.rows
    );
    ensure!(report.is_sound(), "the copy in {} is not sound", to.describe());
    to.close().await;
    Ok(())
}
