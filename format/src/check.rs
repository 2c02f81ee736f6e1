//! Checks a whole root, read-only: every checksum, what the chain promises of its files, and every count, bound,
//! aggregate and sum against the rows.
//!
//! `chain` looks at versions, `catalog` at what the newest one says of itself, `rows` at one data file and its tag
//! manifest, `objects` at the log and at what nobody names. A [`Finding`] names the object by its key. Safe beside
//! running writers and compactors: what was replaced meanwhile is looked at again, not reported.
//!
//! Memory is bounded by the largest file list, tag manifest and row group, and some 40 bytes for each object that a
//! version names and each series of the files of one order, whatever the root holds.

mod catalog;
mod chain;
mod files;
mod objects;
mod rollups;
mod rows;
#[cfg(test)]
mod tests;

use serde::Serialize;

use crate::{
    error::{Error, Kind, Result},
    ids::Version,
    layout,
    meta::Root,
    store::Store,
};

/// The most findings of one kind that a report holds; the others are only counted.
const MOST_FINDINGS: usize = 10_000;

/// How much to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckOptions {
    /// Whether data files are read whole. Default true. Without it, footers, tag manifests, sizes and everything in
    /// the chain and the log are checked, and rows are not compared with what is said of them.
    pub rows: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { rows: true }
    }
}

/// One thing that is wrong, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The object.
    pub key: String,
    /// What is wrong with it.
    pub what: String,
    /// What it should be, where that can be said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
}

impl Finding {
    fn new(key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { key: key.into(), what: what.into(), expected: None, found: None }
    }

    fn expected(mut self, expected: impl std::fmt::Display) -> Self {
        self.expected = Some(expected.to_string());
        self
    }

    fn found(mut self, found: impl std::fmt::Display) -> Self {
        self.found = Some(found.to_string());
        self
    }

    /// An error that names what is wrong with an object.
    fn of(key: &str, error: &Error) -> Self {
        let mut what = error.message().to_owned();
        for name in ["section", "column", "row_group", "block", "reason"] {
            if let Some(value) = error.context(name) {
                what += &format!(" ({name}: {value})");
            }
        }
        Self {
            key: error.context("key").unwrap_or(key).to_owned(),
            what,
            expected: error.context("expected").or(error.context("known")).map(str::to_owned),
            found: error.context("found").map(str::to_owned),
        }
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key, self.what)?;
        if let Some(expected) = &self.expected {
            write!(f, "; expected {expected}")?;
        }
        if let Some(found) = &self.found {
            write!(f, "; found {found}")?;
        }
        Ok(())
    }
}

/// What a check looked at and found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// The newest version, on which it ran.
    pub version: Version,
    /// Versions whose checksums were checked.
    pub versions: u64,
    /// Log segments that were read.
    pub segments: u64,
    /// Live data files.
    pub files: u64,
    /// Rows in them.
    pub rows: u64,
    /// Bytes of objects that were named and looked at.
    pub bytes: u64,
    /// What is wrong.
    pub faults: Vec<Finding>,
    /// What is not wrong but worth knowing: void segments, those that were given up, objects that nobody names.
    pub notes: Vec<Finding>,
    /// Faults and notes beyond the most that a report holds.
    pub more: u64,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    fn fault(&mut self, finding: Finding) {
        if self.faults.contains(&finding) {
            return; // many versions may point into one object
        }
        if self.faults.len() < MOST_FINDINGS { self.faults.push(finding) } else { self.more += 1 }
    }

    fn note(&mut self, finding: Finding) {
        if self.notes.len() < MOST_FINDINGS { self.notes.push(finding) } else { self.more += 1 }
    }

    /// Takes an error over as a fault if it says that an object is wrong or absent.
    ///
    /// # Errors
    /// Any other error: the check itself could not go on.
    fn judge<T>(&mut self, key: &str, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::Unsupported) => {
                self.fault(Finding::of(key, &e));
                Ok(None)
            }
            Err(e) if e.kind() == Kind::NotFound => {
                self.fault(Finding::new(e.context("key").unwrap_or(key), "an object that is needed is absent"));
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

/// Checks the root that lies in a store; changes nothing.
///
/// # Errors
/// [`Kind::NotFound`] when there is no root; [`Kind::Unavailable`] when the store does not answer. What is wrong with
/// the root is no error but in the report.
pub async fn check(store: &Store, options: CheckOptions) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let Some(newest) = chain::check(store, &mut report).await? else {
        return Err(Error::not_found("there is no root here").with("store", store.describe()));
    };
    report.version = newest;
    let opened = Root::open_existing(store.clone()).await;
    let Some(root) = report.judge(&layout::meta_key(newest), opened)? else { return Ok(report) };
    let catalog = root.catalog();
    report.version = catalog.version;
    catalog::check(&catalog, &mut report);
    files::check(&root, &catalog, options, &mut report).await?;
    objects::log(&root, &mut report).await?;
    objects::unnamed(&root, &catalog, &mut report).await?;
    Ok(report)
}
