//! Putting data files and naming them in the chain.

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

/// A data file and its sidecars in the store, not yet named by any version.
#[derive(Debug, Clone)]
pub(crate) struct Published {
    pub(crate) table: TableId,
    entry: FileEntry,
}

impl Published {
    pub(crate) fn partition(&self) -> i64 {
        self.entry.partition
    }

    /// Its tag manifest.
    pub(crate) fn tags(&self) -> FileId {
        self.entry.tags.id
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.entry.total_bytes()
    }

    /// Its entry: `order` decides who wins, `clean` which tombstones cover it.
    pub(crate) fn entry(&self, order: Version, clean: Version) -> FileEntry {
        self.entry.at(order, clean)
    }
}

/// The objects that a fold or merge has put, or tried to, and that no version names yet.
#[derive(Debug, Default)]
pub(crate) struct Unnamed(Vec<String>);

impl Unnamed {
    /// Deletes them: their fold or merge failed before its commit began, or its commit wrote nothing for certain. Where the
    /// outcome of a commit is not known they stay, and are collected once they are old enough.
    pub(crate) async fn delete(self, store: &Store) {
        for key in self.0 {
            if let Err(error) = store.delete(&key).await {
                tracing::info!(key, %error, "an object that no version names stays until it is collected");
            }
        }
    }
}

/// Puts a file and its sidecars under new ids.
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
        Created::Lost => Err(Error::conflict("a random file id is taken").with("key", key)),
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
