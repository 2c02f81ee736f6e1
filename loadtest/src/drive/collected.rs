//! What a root takes in the end: folded, merged, and without what its garbage collection takes away an hour later.
//!
//! Nobody waits for that hour. Once everything is merged and the server has ended, every object is made older, and a new
//! server collects what it finds: by the store's clock the hour has passed. Only for roots of a load test, which nothing
//! else uses: a reader of an old version would lose it.

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

/// How much older objects are made: versions are kept for an hour.
const AGE: Duration = Duration::from_secs(2 * 3_600);
/// A server collects once a minute: the first time is over after this long.
const FIRST_COLLECTION: Duration = Duration::from_secs(63);
/// The collection is over when nothing has gone for so long.
const QUIET: Duration = Duration::from_secs(5);
/// The longest wait for the end of a collection.
const COLLECTION_TIME: Duration = Duration::from_secs(300);
/// The longest that a merge of everything may take.
const MERGE_TIME: Duration = Duration::from_secs(3_600);

/// A root before its collection and after it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CollectedSample {
    /// Rows of the table.
    pub rows: u64,
    /// What the root held when everything was folded and merged.
    pub merged: Size,
    /// What was left after the collection.
    pub collected: Size,
}

impl CollectedSample {
    /// Bytes of all objects that are left, to a row.
    pub fn bytes_per_row(&self) -> f64 {
        self.collected.total().bytes as f64 / self.rows.max(1) as f64
    }
}

/// Folds and merges everything under a root directory, has it collected, and measures it; no other server may run over it.
///
/// # Errors
/// A root without the table, a server that does not start, a step that fails or leaves another number of rows.
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

/// Makes a file seem to have been written [`AGE`] earlier than it was.
fn age(path: &Path) -> Result<()> {
    let aged = || {
        let file = File::options().append(true).open(path)?;
        let modified = file.metadata()?.modified()?;
        file.set_modified(modified.checked_sub(AGE).unwrap_or(SystemTime::UNIX_EPOCH))
    };
    aged().with_context(|| format!("make {} older", path.display()))
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
