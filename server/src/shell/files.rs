//! Parquet files as tables of a shell without a server.

use std::{collections::HashMap, path::Path};

use anyhow::ensure;
use tidelake_format::{Error, Result};
use tidelake_node::local::{Files, Locate, Located};

use crate::transfer;

/// Files of this machine and of buckets.
#[derive(Debug)]
struct Locations;

impl Locate for Locations {
    fn locate(&self, location: &str) -> Result<Located> {
        let (files, bucket) = transfer::locate(Path::new(location)).map_err(|e| Error::invalid(format!("{e:#}")))?;
        Ok(Located { files, bucket })
    }
}

/// The files that statements may name in FROM; these also by the names of their tables.
///
/// # Errors
/// A file does not exist, or two of them have the same name.
pub(super) fn files(locations: &[String]) -> anyhow::Result<Files> {
    let mut named: HashMap<String, String> = HashMap::new();
    for location in locations {
        transfer::locate(Path::new(location))?;
        let name = table_name(location);
        if let Some(other) = named.insert(name.clone(), location.clone()) {
            ensure!(
                other == *location,
                "{other} and {location} would both be the table {name}: name one of them in FROM instead"
            );
        }
    }
    Ok(Files::new(std::sync::Arc::new(Locations), named))
}

/// The name of a file without its ending; for a pattern, that of the last directory before it.
fn table_name(location: &str) -> String {
    let path = location.strip_prefix("s3://").unwrap_or(location);
    let parts: Vec<&str> = path.split('/').collect();
    let literal = parts.iter().position(|part| part.contains(transfer::WILDCARDS)).unwrap_or(parts.len());
    let last = parts[..literal].iter().rev().find(|part| !["", ".", ".."].contains(part)).copied().unwrap_or("files");
    match literal == parts.len() {
        true => last.rsplit_once('.').map_or(last, |(stem, _)| stem).to_owned(),
        false => last.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_named_after_its_file_or_directory() {
        for (location, expected) in [
            ("fleet.parquet", "fleet"),
            ("/data/fleet.v2.parquet", "fleet.v2"),
            ("days/*/*.parquet", "days"),
            ("../*.parquet", "files"),
            ("s3://bucket/a/fleet.parquet", "fleet"),
            ("s3://bucket/*.parquet", "bucket"),
        ] {
            assert_eq!(table_name(location), expected, "{location}");
        }
    }

    #[test]
    fn two_files_of_one_name_are_refused_and_a_missing_one_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        std::fs::create_dir(place("b")).unwrap();
        for name in ["a.parquet", "b/a.parquet"] {
            std::fs::write(place(name), "").unwrap();
        }
        let error = files(&[place("a.parquet"), place("b/a.parquet")]).map(drop).unwrap_err().to_string();
        assert!(error.contains("would both be the table a"), "{error}");
        let error = files(&[place("c.parquet")]).map(drop).unwrap_err().to_string();
        assert!(error.contains("no such file") && error.contains("c.parquet"), "{error}");
    }
}
