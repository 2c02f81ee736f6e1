//! Checks a whole root, read-only: every checksum, the invariants of the chain, and every count, bound, aggregate and
//! sum against the rows.
//!
//! `chain` checks versions, `catalog` the consistency of the newest one, `files` its file lists, `rows` one data file
//! and its tag manifest, `rollups` a rollup, and `objects` the log and objects that no version names. A [`Finding`]
//! names the object by its key. Writers and compactors may run meanwhile: faults of files that were replaced or of
//! objects that were collected during the check are not reported.
//!
//! Memory is bounded by the largest file list, tag manifest and row group, the listings of `log/` and `data/`, and some
//! 40 bytes for each object that a version names and each series of the files of one order.

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

/// Maximum number of faults, and of notes, in a report; further ones are only counted.
const MOST_FINDINGS: usize = 10_000;

/// Scope of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CheckOptions {
    /// Whether to read all data files and compare the rows with the metadata. Default true. Otherwise only footers, tag
    /// manifests, sizes, and everything in the chain and the log are checked.
    pub rows: bool,
}

impl Default for CheckOptions {
    fn default() -> Self {
        Self { rows: true }
    }
}

/// A fault or a note.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Key of the object.
    pub key: String,
    /// What is wrong with the object, or worth knowing.
    pub what: String,
    /// The expected value, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The value found, if known.
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

    /// Converts an error about an object.
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

/// Result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// The newest version, which was checked.
    pub version: Version,
    /// Number of versions checked.
    pub versions: u64,
    /// Number of log segments read.
    pub segments: u64,
    /// Number of live data files.
    pub files: u64,
    /// Rows in the live data files.
    pub rows: u64,
    /// Bytes of the versions, log segments and live files checked.
    pub bytes: u64,
    /// Faults.
    pub faults: Vec<Finding>,
    /// Findings that are not faults: void segments, segments that were given up, objects that no version names.
    pub notes: Vec<Finding>,
    /// Number of faults and notes beyond the maximum of a report.
    pub more: u64,
}

impl CheckReport {
    /// Whether there are no faults.
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }

    fn fault(&mut self, finding: Finding) {
        if self.faults.contains(&finding) {
            return; // several versions may point into one object
        }
        if self.faults.len() < MOST_FINDINGS { self.faults.push(finding) } else { self.more += 1 }
    }

    fn note(&mut self, finding: Finding) {
        if self.notes.len() < MOST_FINDINGS { self.notes.push(finding) } else { self.more += 1 }
    }

    /// Records an error as a fault if it says that an object is damaged, unsupported or absent.
    ///
    /// # Errors
    /// Any other error: the check cannot continue.
    fn judge<T>(&mut self, key: &str, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::Unsupported) => {
                self.fault(Finding::of(key, &e));
                Ok(None)
            }
            Err(e) if e.kind() == Kind::NotFound => {
                self.fault(Finding::new(e.context("key").unwrap_or(key), "object is absent, but a version needs it"));
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }
}

/// Checks the root in a store; changes nothing.
///
/// # Errors
/// [`Kind::NotFound`] when there is no root; [`Kind::Unavailable`] when the store does not respond. Faults of the root
/// are in the report.
pub async fn check(store: &Store, options: CheckOptions) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    let Some(newest) = chain::check(store, &mut report).await? else {
        return Err(Error::not_found("no root found in this store").with("store", store.describe()));
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
