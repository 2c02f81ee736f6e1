//! Applies deletes until nothing of them is left: finds the files with deleted rows, and removes finished tombstones.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tidelake_format::{
    Error, Kind, Result,
    ids::{FileId, TableId},
    meta::{Catalog, Draft, FileEntry},
    schema::{Covers, Supertable, Tombstone},
};

use super::{Inner, plan::Extent};

/// Most cached answers, about 50 bytes each.
const ANSWERS: usize = 200_000;

/// Whether a tombstone covers anything in a file, by the file's manifest and a hash of the tombstone.
#[derive(Debug, Default)]
pub(super) struct Touched(Mutex<HashMap<(FileId, u64), bool>>);

fn hash_of(tombstone: &Tombstone) -> u64 {
    let mut hasher = DefaultHasher::new();
    (tombstone.version.0, &tombstone.series, tombstone.range).hash(&mut hasher);
    hasher.finish()
}

/// The files examined, by partition.
type Looked = Vec<(i64, Arc<Vec<FileEntry>>)>;

impl Inner {
    /// The files with deleted rows or series; for a full merge also those that may have values of dropped columns.
    pub(super) async fn dirty(&self, table: &Supertable, files: &[FileEntry], extent: Extent) -> Result<Vec<FileId>> {
        let mut dirty = Vec::new();
        for file in files {
            let mut is_dirty = extent == Extent::Full && file.clean < table.stale;
            for tombstone in &table.tombstones {
                is_dirty = is_dirty || self.touches(table.id, file, tombstone).await?;
            }
            if is_dirty {
                dirty.push(file.id);
            }
        }
        Ok(dirty)
    }

    /// Whether a tombstone covers anything in a file.
    async fn touches(&self, table: TableId, file: &FileEntry, tombstone: &Tombstone) -> Result<bool> {
        let whole = tombstone.covers == Covers::Series;
        if !tombstone.covers_file(file.clean) || !(whole || tombstone.meets(file.min_ts, file.max_ts)) {
            return Ok(false);
        }
        let asked = (file.tags.id, hash_of(tombstone));
        if let Some(known) = self.touched.0.lock().get(&asked) {
            return Ok(*known);
        }
        let manifest = file.tag_manifest(self.root.store(), table).await?;
        let names: Option<hashbrown::HashSet<&str>> =
            tombstone.series.as_ref().map(|names| names.iter().map(String::as_str).collect());
        let touches = manifest.series().names().iter().flatten().enumerate().any(|(i, name)| {
            let rows = manifest.row_count()[i] > 0 && tombstone.meets(manifest.min_ts()[i], manifest.max_ts()[i]);
            (whole || rows) && names.as_ref().is_none_or(|names| names.contains(name))
        });
        let mut known = self.touched.0.lock();
        if known.len() >= ANSWERS {
            known.clear();
        }
        known.insert(asked, touches);
        Ok(touches)
    }

    /// Removes the tombstones that cover no file and no segment any more.
    ///
    /// # Errors
    /// Those of the store; a concurrent commit is not an error.
    pub(super) async fn settle(&self) -> Result<()> {
        let has_some = |catalog: &Catalog| {
            catalog.databases().flat_map(|d| catalog.tables(d.id)).any(|t| !t.tombstones.is_empty())
        };
        // Most of the time there are no tombstones, and reading the newest version costs a request.
        if !has_some(&self.root.catalog()) {
            return Ok(());
        }
        let catalog = self.root.refresh().await?;
        let tables = catalog.databases().flat_map(|d| catalog.tables(d.id)).filter(|t| !t.tombstones.is_empty());
        for table in tables {
            match self.settle_table(&catalog, table).await {
                Err(error) if matches!(error.kind(), Kind::Conflict | Kind::NotFound) => {
                    tracing::debug!(table = table.id.0, %error, "tombstones are kept until the next attempt");
                }
                other => other?,
            }
        }
        Ok(())
    }

    async fn settle_table(&self, catalog: &Catalog, table: &Supertable) -> Result<()> {
        let mut done: Vec<&Tombstone> = table.tombstones.iter().filter(|t| t.positions.is_empty()).collect();
        if done.is_empty() {
            return Ok(());
        }
        let mut looked = Looked::new();
        for (partition, _) in catalog.partitions(table.id) {
            looked.push((partition, self.root.files(catalog, table.id, partition).await?));
        }
        for file in looked.iter().flat_map(|(_, files)| files.iter()) {
            let mut left = Vec::with_capacity(done.len());
            for tombstone in done {
                if !self.touches(table.id, file, tombstone).await? {
                    left.push(tombstone);
                }
            }
            done = left;
        }
        if done.is_empty() {
            return Ok(());
        }
        let done: Vec<Tombstone> = done.into_iter().cloned().collect();
        let touching: Vec<_> = looked.iter().map(|(partition, _)| (table.id, *partition)).collect();
        self.root.commit(&touching, |draft| remove(draft, table.id, &looked, &done)).await?;
        tracing::info!(table = table.id.0, tombstones = done.len(), "removed finished tombstones");
        Ok(())
    }
}

/// Removes tombstones if no further file that they cover has appeared since; newer files are folds that they do not cover.
fn remove(draft: &mut Draft, table: TableId, looked: &Looked, done: &[Tombstone]) -> Result<()> {
    for (partition, files) in looked {
        let now = draft.files(table, *partition)?;
        let newer = |f: &FileEntry| done.iter().all(|t| !t.covers_file(f.clean));
        if now.iter().any(|f| !newer(f) && files.iter().all(|old| old.id != f.id)) {
            return Err(Error::conflict("files changed while tombstones were being removed").with("table", table.0));
        }
    }
    let Some(found) = draft.catalog().table_by_id(table).cloned() else { return Ok(()) };
    let mut changed = found.as_ref().clone();
    let is_done = |t: &Tombstone| done.contains(t);
    let series = changed.tombstones.iter().filter(|t| is_done(t) && t.covers == Covers::Series).map(|t| t.version);
    changed.forgotten = series.max().unwrap_or_default().max(changed.forgotten);
    changed.tombstones.retain(|t| !is_done(t));
    if changed != *found { draft.put_table(changed) } else { Ok(()) }
}
