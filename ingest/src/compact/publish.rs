//! Puts data files and builds their entries for the chain.

use metrics::counter;
use tidelake_format::{
    Error, Result,
    file::EncodedFile,
    ids::{FileId, TableId, Version},
    layout::{data_key, rollup_key, tags_key},
    meta::FileEntry,
    store::{Created, Store},
};

use crate::metrics::FILE_BYTES;

/// A data file and its sidecars in the store, not referenced by any version yet.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) table: TableId,
    entry: FileEntry,
}

impl Published {
    pub(crate) fn partition(&self) -> i64 {
        self.entry.partition
    }

    /// The file's tag manifest.
    pub(crate) fn tags(&self) -> FileId {
        self.entry.tags.id
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.entry.total_bytes()
    }

    /// The file's entry: `order` decides which rows win, `clean` which tombstones cover the file.
    pub(crate) fn entry(&self, order: Version, clean: Version) -> FileEntry {
        self.entry.at(order, clean)
    }
}

/// Objects that a fold or merge has put, or tried to put, and that no version references yet.
#[derive(Debug, Default)]
pub(crate) struct Unnamed(Vec<String>);

impl Unnamed {
    /// Deletes the objects: their fold or merge failed before its commit began, or its commit certainly wrote nothing. If the
    /// outcome of a commit is unknown, the objects stay and are collected once they are old enough.
    pub(crate) async fn delete(self, store: &Store) {
        for key in self.0 {
            if let Err(error) = store.delete(&key).await {
                tracing::info!(key, %error, "cannot delete an unreferenced object; it will be collected later");
            }
        }
    }
}

/// Puts a file and its sidecars under new IDs.
pub(crate) async fn publish(
    store: &Store,
    now_ms: i64,
    table: TableId,
    partition: i64,
    file: EncodedFile,
    unnamed: &mut Unnamed,
) -> Result<Published> {
    let entry = FileEntry::of(&file, partition, || FileId(store.ambient().random_id()), now_ms);
    unnamed.0.extend([data_key(table, partition, entry.data.id), tags_key(table, partition, entry.tags.id)]);
    unnamed.0.extend(entry.rollup.map(|at| rollup_key(table, partition, at.id)));
    let put = async |key: String, bytes| match store.create(&key, bytes).await? {
        Created::Lost => Err(Error::conflict("a random file ID is already taken").with("key", key)),
        Created::New | Created::Ours => Ok(()),
    };
    let rollup = async {
        let Some((at, rollup)) = entry.rollup.zip(file.rollup) else { return Ok(()) };
        put(rollup_key(table, partition, at.id), rollup.bytes).await
    };
    let (data, tags) = (data_key(table, partition, entry.data.id), tags_key(table, partition, entry.tags.id));
    let (data, tags, rollup) = tokio::join!(put(data, file.data), put(tags, file.tags), rollup);
    data.and(tags).and(rollup)?;
    counter!(FILE_BYTES).increment(entry.total_bytes());
    Ok(Published { table, entry })
}
