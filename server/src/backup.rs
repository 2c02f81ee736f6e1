//! `tidelake backup` and `tidelake restore`: copy a consistent snapshot of a root to another location and back, and verify
//! it.

use std::time::Duration;

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use tidelake_format::{
    Error,
    check::{CheckOptions, check},
    copy::{Copied, copy, waiting},
    layout,
    meta::Root,
    store::Store,
};
use tidelake_ingest::{compact::CompactRequest, write::Ingest};
use tidelake_protocol::settings::{STORE, store_option};
use tokio::time::{Instant, sleep};

use tidelake_node::{serve, settings::Settings};

use crate::arguments::StoreArgs;

/// Time limit for folding the acknowledged segments and copying a version while other writers change the same tables.
const FOLDED_WITHIN: Duration = Duration::from_secs(600);
/// Delay before retrying a step that failed because of concurrent writers.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// Options of `backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupArgs {
    /// Destination: a directory or s3://bucket/prefix; if it holds an older copy, only new objects are copied
    #[arg(long, value_name = "URL")]
    to: String,
    /// An option of that store as name=value; may repeat [default: those of the root's store]
    #[arg(long = "to-option", value_name = "NAME=VALUE")]
    to_options: Vec<String>,
    /// Skip reading the copied rows back: their checksums are not verified
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Options of `restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// Location of the backup
    #[arg(long, value_name = "URL")]
    from: String,
    /// An option of that store as name=value; may repeat [default: those of the root's store]
    #[arg(long = "from-option", value_name = "NAME=VALUE")]
    from_options: Vec<String>,
    /// Skip reading the restored rows back: their checksums are not verified
    #[arg(long)]
    quick: bool,
    /// The root to create; its location must be empty
    #[command(flatten)]
    store: StoreArgs,
}

/// Copies all rows that were acknowledged before the call. Writers and servers may keep running.
///
/// # Errors
/// The log cannot be folded, one of the stores does not answer, or the copy has faults.
pub(crate) async fn backup(args: BackupArgs) -> anyhow::Result<()> {
    let settings = args.store.settings()?;
    serve::logging::start(&settings)?;
    let options = options(&settings, &args.to, &args.to_options)?;
    refuse_overlap(&serve::existing_store(&settings)?, &args.to, &options)?;
    let root = serve::open_existing_root(&settings).await?;
    let to = Store::open(&args.to, &options)?;
    let deadline = Instant::now() + FOLDED_WITHIN;
    let folded = waiting(&root).await?;
    if !folded.is_empty() {
        fold(&settings, &root, &folded, deadline).await?;
    }
    let copied =
        again(deadline, TRY_AGAIN, async || copy(&root, &to, &folded).await).await.context("cannot copy the root")?;
    finish(&to, copied, args.quick).await
}

/// Copies a backup into an empty location.
///
/// # Errors
/// The location is not empty, one of the stores does not answer, or the root has faults.
pub(crate) async fn restore(args: RestoreArgs) -> anyhow::Result<()> {
    let settings = args.store.settings()?;
    serve::logging::start(&settings)?;
    let options = options(&settings, &args.from, &args.from_options)?;
    let from = Store::open_existing(&args.from, &options);
    let from = from.with_context(|| format!("no backup found in {}", args.from))?;
    refuse_overlap(&from, &settings.get(&STORE), &settings.store_options)?;
    let to = Store::open(&settings.get(&STORE), &settings.store_options)?;
    let backup = from.list(layout::META).await?;
    ensure!(!backup.is_empty(), "no backup found in {}", from.describe());
    for prefix in [layout::META, layout::LOG] {
        let found = to.list(prefix).await?;
        ensure!(found.is_empty(), "{} already holds a root: restore to an empty location", to.describe());
    }
    let from = Root::open_existing(from).await?;
    let copied = copy(&from, &to, &[]).await.context("cannot copy the backup")?;
    serve::say_created(&to);
    finish(&to, copied, args.quick).await
}

/// Checks, before anything is read or created, that source and destination do not overlap.
fn refuse_overlap(store: &Store, other: &str, options: &[(String, String)]) -> anyhow::Result<()> {
    ensure!(
        !store.overlaps(other, options)?,
        "{} and {other} overlap: expected a destination outside the source",
        store.describe()
    );
    Ok(())
}

/// Options of the other store: the given ones, else for a URL those of the root's store.
fn options(settings: &Settings, url: &str, options: &[String]) -> anyhow::Result<Vec<(String, String)>> {
    let mut given = Vec::new();
    for option in options {
        given.push(store_option(option).map_err(|found| anyhow!("expected name=value, found {found}"))?);
    }
    let inherited = if url.contains("://") { settings.store_options.clone() } else { Vec::new() };
    Ok(if given.is_empty() { inherited } else { given })
}

/// Retries `step` on retryable errors until `deadline`: concurrent writers make a fold or a copy fail.
async fn again<T>(
    deadline: Instant,
    wait: Duration,
    mut step: impl AsyncFnMut() -> Result<T, Error>,
) -> Result<T, Error> {
    loop {
        match step().await {
            Err(error) if error.kind().is_retryable() && Instant::now() < deadline => {
                tracing::info!(%error, "backup step failed; retrying");
                sleep(wait).await;
            }
            result => return result,
        }
    }
}

/// Folds the given segments.
async fn fold(
    settings: &Settings,
    root: &Root,
    folded: &[tidelake_format::ids::Position],
    until: Instant,
) -> anyhow::Result<()> {
    let mut config = serve::ingest_config(settings);
    config.compact.background = false;
    let ingest = Ingest::open(root.clone(), config).await?;
    loop {
        let fold = again(until, TRY_AGAIN, async || ingest.compact(CompactRequest::Fold).await);
        fold.await.context("cannot fold the log")?;
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

/// Verifies a copy and prints a summary.
#[expect(clippy::print_stdout, reason = "the command's result")]
async fn finish(to: &Store, copied: Copied, quick: bool) -> anyhow::Result<()> {
    let report = check(to, CheckOptions { rows: !quick }).await?;
    report.faults.iter().for_each(|fault| println!("fault  {fault}"));
    println!(
        "{} at {}: {} objects with {} bytes copied, {} already present; {} data files with {} rows verified",
        to.describe(),
        copied.version,
        copied.objects,
        copied.bytes,
        copied.known,
        report.files,
        report.rows
    );
    ensure!(report.is_sound(), "the copy in {} has faults", to.describe());
    to.close().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_step_that_loses_to_other_writers_is_tried_again_until_the_deadline() {
        let (deadline, wait) = (Instant::now() + FOLDED_WITHIN, Duration::ZERO);
        let mut attempts = 0;
        let won = again(deadline, wait, async || {
            attempts += 1;
            if attempts < 5 {
                Err(Error::conflict("rows or tags of a table changed during a fold"))
            } else {
                Ok(attempts)
            }
        });
        assert_eq!(won.await.unwrap(), 5);
        let mut attempts = 0;
        let failed = again(deadline, wait, async || {
            attempts += 1;
            Err::<(), _>(Error::corrupt("a file"))
        });
        assert_eq!(failed.await.unwrap_err().kind(), tidelake_format::Kind::Corrupt);
        assert_eq!(attempts, 1);
        let lost = again(Instant::now(), wait, async || Err::<(), _>(Error::conflict("for ever")));
        assert_eq!(lost.await.unwrap_err().kind(), tidelake_format::Kind::Conflict);
    }
}
