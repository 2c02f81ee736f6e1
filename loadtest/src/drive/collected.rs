//! Final size of a root: after folding, merging and the garbage collection that would run an hour later.
//!
//! To skip that hour, the modification times of all objects are set back after the merge, while no server runs; a new server
//! then collects them. Only for a load test's own root: concurrent readers of an old version would lose its objects.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use super::{
    compact::compact,
    http::HttpOptions,
    query::{Addresses, Asker, Door},
    server::{Server, ServerOptions},
};
use crate::{
    measure::{self, Size},
    workload::answer::{Answer, Value},
    workload::{DATABASE, SUPERTABLE},
};

/// How far modification times are set back: versions are kept for an hour.
const AGE: Duration = Duration::from_secs(2 * 3_600);
/// Wait for a server's first collection; a server collects once a minute.
const FIRST_COLLECTION: Duration = Duration::from_secs(63);
/// The collection counts as finished when the number of objects has not changed for this long.
const QUIET: Duration = Duration::from_secs(5);
/// Maximum wait for the end of a collection.
const COLLECTION_TIME: Duration = Duration::from_secs(300);
/// Maximum duration of a full merge.
const MERGE_TIME: Duration = Duration::from_secs(3_600);

/// Size of a root before and after garbage collection.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CollectedSample {
    /// Rows of the table.
    pub rows: u64,
    /// Size after folding and merging.
    pub merged: Size,
    /// Size after the collection.
    pub collected: Size,
}

impl CollectedSample {
    /// Bytes of all remaining objects per row.
    pub fn bytes_per_row(&self) -> f64 {
        self.collected.total().bytes as f64 / self.rows.max(1) as f64
    }
}

/// Folds and merges everything under a root directory, has a server collect garbage, and measures the sizes. No other server
/// may use the root.
///
/// # Errors
/// A root without the table, a server that does not start, a failed step, or a row count that changed.
pub async fn collect(program: &Path, root: &Path) -> Result<CollectedSample> {
    let options = ServerOptions {
        program: program.to_owned(),
        store: root.display().to_string(),
        environment: Vec::new(),
        cores: None,
    };
    let server = Server::start(&options).await?;
    let patient = HttpOptions { request_timeout: MERGE_TIME, ..HttpOptions::default() };
    compact(&server.url, &patient).await?;
    let rows = rows(&server).await?;
    server.kill().await?;
    let merged = measure::size(root)?;
    ensure!(merged.data.objects > 0, "expected data files under {}, found none", root.display());

    for path in files(root)? {
        age(&path)?;
    }
    let server = Server::start(&options).await?;
    let begun = Instant::now();
    sleep(FIRST_COLLECTION).await;
    let (mut objects, mut changed) = (measure::size(root)?.total().objects, Instant::now());
    while changed.elapsed() < QUIET {
        ensure!(begun.elapsed() < COLLECTION_TIME, "the collection has not ended after {COLLECTION_TIME:?}");
        sleep(Duration::from_millis(500)).await;
        let now = measure::size(root)?.total().objects;
        if now != objects {
            (objects, changed) = (now, Instant::now());
        }
    }
    let left = self::rows(&server).await?;
    server.kill().await?;
    ensure!(left == rows, "expected {rows} rows after the collection, found {left}");
    Ok(CollectedSample { rows, merged, collected: measure::size(root)? })
}

async fn rows(server: &Server) -> Result<u64> {
    let addresses = Addresses { url: server.url.clone(), flight: None };
    let mut asker = Asker::connect(Door::HttpArrow, &addresses, &HttpOptions::default()).await?;
    let sql = format!("select count(*) as n from {DATABASE}.{SUPERTABLE}");
    let answer: Answer = asker.ask(&sql).await?.0.into_answer()?;
    match answer.column("n")?.value(0) {
        Value::Int(rows) => u64::try_from(rows).with_context(|| format!("a count of {rows}")),
        other => anyhow::bail!("{sql}: expected a count, found {other:?}"),
    }
}

fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).with_context(|| format!("read directory {}", directory.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Sets a file's modification time back by [`AGE`].
fn age(path: &Path) -> Result<()> {
    let aged = || {
        let file = File::options().append(true).open(path)?;
        let modified = file.metadata()?.modified()?;
        file.set_modified(modified.checked_sub(AGE).unwrap_or(SystemTime::UNIX_EPOCH))
    };
    aged().with_context(|| format!("set back the modification time of {}", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn all_files_of_a_directory_are_made_older_and_stay_as_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("data/1");
        fs::create_dir_all(&deep).unwrap();
        for path in [deep.join("a.parquet"), directory.path().join("b")] {
            fs::write(path, "content").unwrap();
        }
        let found = files(directory.path()).unwrap();
        assert_eq!(found.len(), 2);
        for path in found {
            age(&path).unwrap();
            let old = fs::metadata(&path).unwrap().modified().unwrap().elapsed().unwrap();
            assert!((AGE..AGE + Duration::from_secs(60)).contains(&old), "{old:?}");
            assert_eq!(fs::read_to_string(path).unwrap(), "content");
        }
        assert!(age(&directory.path().join("none")).is_err());
    }
}
