//! Reads the objects of a data file and verifies them against the chain: an object that replaced another is rejected.
//!
//! The chain names each object by its key and holds its size and checksum. For files of older releases it has no
//! checksum; the properties that the objects hold are compared all the same.

use std::{fmt::Display, sync::Arc};

use super::FileEntry;
use crate::{
    error::{Error, Result},
    file::DataFile,
    ids::TableId,
    layout,
    store::Store,
    tags::{self, TagManifest},
};

impl FileEntry {
    /// Reads the tag manifest of the file.
    ///
    /// # Errors
    /// Those of the store; [`Kind::Unsupported`](crate::Kind::Unsupported) for a newer format version;
    /// [`Kind::Corrupt`](crate::Kind::Corrupt) for a manifest that is damaged or belongs to another file; all name the
    /// key.
    pub async fn tag_manifest(&self, store: &Store, table: TableId) -> Result<TagManifest> {
        let key = layout::tags_key(table, self.partition, self.tags.id);
        let bytes = store.get(&key).await?;
        let manifest = TagManifest::decode(&key, &bytes)?;
        let wrong = || not_this("tag manifest", &key);
        same(wrong, "bytes", &self.tags.bytes, &(bytes.len() as u64))?;
        if let Some(crc) = &self.tags.crc {
            same(wrong, "checksum", crc, &tags::checksum(&bytes))?;
        }
        same(wrong, "series", &self.series, &(manifest.len() as u64))?;
        same(wrong, "rows", &self.rows, &manifest.row_count().iter().sum())?;
        let with_rows = |ts: &[i64]| -> Vec<i64> {
            ts.iter().zip(manifest.row_count()).filter(|(_, rows)| **rows > 0).map(|(ts, _)| *ts).collect()
        };
        if let Some(min) = with_rows(manifest.min_ts()).iter().min() {
            same(wrong, "first time", &self.min_ts, min)?;
        }
        if let Some(max) = with_rows(manifest.max_ts()).iter().max() {
            same(wrong, "last time", &self.max_ts, max)?;
        }
        Ok(manifest)
    }

    /// Reads footer and page index of the data file.
    ///
    /// # Errors
    /// As [`DataFile::open`]; also [`Kind::Corrupt`](crate::Kind::Corrupt), naming the key, when the object belongs to
    /// another file.
    pub async fn data_file(&self, store: &Store, table: TableId) -> Result<Arc<DataFile>> {
        let key = layout::data_key(table, self.partition, self.data.id);
        let file = DataFile::open(store, &key, self.data.bytes).await?;
        let wrong = || not_this("data file", &key);
        same(wrong, "table", &table.0, &file.table().0)?;
        same(wrong, "rows", &self.rows, &file.rows())?;
        if let Some(crc) = &self.data.crc {
            same(wrong, "checksum", crc, &file.checksum())?;
        }
        Ok(file)
    }
}

fn not_this(what: &'static str, key: &str) -> Error {
    Error::corrupt(format!("another object has replaced this {what}")).with("key", key)
}

/// Checks that a property equals the value in the chain.
fn same<T: PartialEq + Display>(error: impl Fn() -> Error, what: &'static str, expected: &T, found: &T) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    Err(error().with("expected", format!("{what} {expected}")).with("found", format!("{what} {found}")))
}

/// Checks that a property of a rollup equals the value in the chain.
pub(crate) fn rollup_is<T: PartialEq + Display>(key: &str, what: &'static str, expected: &T, found: &T) -> Result<()> {
    same(|| not_this("rollup", key), what, expected, found)
}
