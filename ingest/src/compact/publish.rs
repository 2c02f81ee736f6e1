//! Putting data files and naming them in the chain.

use metrics::counter;
use tidelake_format::{
    Error, Result,
    file::EncodedFile,
    ids::{FileId, TableId, Version},
    layout::{data_key, tags_key},
    meta::FileEntry,
    store::{Created, Store},
};

use crate::metrics::FILE_BYTES;

/// A data file and its tag manifest in the store, not yet named by any version.
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

/// Puts a file and its manifest under new ids.
pub(crate) async fn publish(
    store: &Store,
    now_ms: i64,
    table: TableId,
    partition: i64,
    file: EncodedFile,
) -> Result<Published> {
    let (id, tags) = (FileId(store.ambient().random_id()), FileId(store.ambient().random_id()));
    let entry = FileEntry::of(&file, partition, (id, tags), now_ms);
    let (data_key, tags_key) = (data_key(table, partition, id), tags_key(table, partition, tags));
    let (data, manifest) = tokio::join!(store.create(&data_key, file.data), store.create(&tags_key, file.tags));
    for (key, created) in [(data_key, data?), (tags_key, manifest?)] {
        if created == Created::Lost {
            return Err(Error::conflict("a random file id is taken").with("key", key));
        }
    }
    counter!(FILE_BYTES).increment(entry.total_bytes());
    Ok(Published { table, entry })
}
