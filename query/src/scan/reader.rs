//! Resolves a snapshot to the sources of a scan: file lists, tag manifests, footers and sorted log blocks, each cached.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use futures::{StreamExt, TryStreamExt, stream};
use tidelake_format::{
    Error, Reason, Result,
    file::{DataFile, PageCache},
    ids::{ColumnId, FileId, Position, TableId},
    merge::Deletes,
    meta::{FileEntry, Root},
    rollup::{Rollup, Totals},
    schema::{Supertable, Tombstone},
    snapshot::Snapshot,
    store::Store,
    tags::{Aggregate, TagManifest},
};

use super::{
    cache::Cache,
    filters::TimeRange,
    series::{United, Uniter},
    source::{FileSource, Hole, Origin, Source},
    tail::SortedBlock,
    tiers::{self, Groups},
};

/// Tag manifests and footers read concurrently.
const PARALLEL: usize = 32;
/// Maximum bytes of sorted log blocks cached on a small machine, if a snapshot has as many.
const MOST_SORTED: usize = 64 << 20;

/// Reads the objects that snapshots name, and caches them. One per process.
#[derive(Debug)]
pub(crate) struct Reader {
    root: Root,
    manifests: Cache<FileId, TagManifest>,
    files: Cache<FileId, Arc<DataFile>>,
    blocks: Cache<(Position, TableId), SortedBlock>,
    groups: Groups,
    rollups: Cache<FileId, Arc<Rollup>>,
    /// Aggregates of rollups, one value per bucket.
    rolled: Cache<(FileId, ColumnId, Aggregate), Option<ArrayRef>>,
    /// Rollups totalled over all series, and their aggregates.
    totals: Cache<FileId, Option<Arc<Totals>>>,
    totaled: Cache<(FileId, ColumnId, Aggregate), Total>,
    pages: Arc<PageCache>,
    uniter: Uniter,
}

/// Sources of a table in a snapshot, oldest first, and their series.
#[derive(Debug, Clone)]
pub(crate) struct Sources {
    /// Files by order, then log blocks; sources wholly outside the wanted range are left out.
    pub(crate) list: Vec<Source>,
    /// United series.
    pub(crate) united: Arc<United>,
    /// Files of the table in the partitions considered, including those left out.
    pub(crate) files: usize,
}

impl Reader {
    /// Creates a reader of a root that caches up to `cache_bytes` in memory. Snapshots have up to `tail_bytes` of the
    /// log; on a small machine that exceeds the log's share of the cache, and every query would sort all of it again. Besides,
    /// up to `page_bytes` of decoded pages are kept.
    pub(crate) fn new(root: Root, cache_bytes: usize, tail_bytes: usize, page_bytes: usize) -> Self {
        Self {
            root,
            manifests: Cache::new(cache_bytes / 6),
            files: Cache::new(cache_bytes / 4),
            blocks: Cache::new((cache_bytes / 8).max(tail_bytes.min(MOST_SORTED))),
            groups: Cache::new(cache_bytes / 6),
            rollups: Cache::new(cache_bytes / 12),
            rolled: Cache::new(cache_bytes / 6),
            totals: Cache::new(cache_bytes / 48),
            totaled: Cache::new(cache_bytes / 48),
            pages: Arc::new(PageCache::new(page_bytes)),
            uniter: Uniter::default(),
        }
    }

    /// The root.
    pub(crate) fn root(&self) -> &Root {
        &self.root
    }

    /// Store of the root.
    pub(crate) fn store(&self) -> &Store {
        self.root.store()
    }

    /// Decoded pages of data files.
    pub(crate) fn pages(&self) -> &Arc<PageCache> {
        &self.pages
    }

    /// Returns the sources of a table that may hold rows in a time range.
    ///
    /// # Errors
    /// Those of the store; Corrupt or Unsupported, naming the key, if an object cannot be decoded.
    pub(crate) async fn sources(
        &self,
        snapshot: &Snapshot,
        table: &Arc<Supertable>,
        range: TimeRange,
    ) -> Result<Sources> {
        let catalog = &snapshot.catalog;
        let database = catalog.database_by_id(table.database).ok_or_else(|| {
            Error::not_found("the table's database was dropped")
                .because(Reason::DatabaseNotFound)
                .with("table", &table.name)
        })?;
        let partitions: Vec<i64> = catalog
            .partitions(table.id)
            .filter(|(_, summary)| range.meets(summary.min_ts, summary.max_ts))
            .map(|(partition, _)| partition)
            .collect();
        let lists: Vec<_> = partitions.into_iter().map(|p| self.root.files(catalog, table.id, p)).collect();
        let lists = stream::iter(lists);
        let lists: Vec<Arc<Vec<FileEntry>>> = lists.buffered(PARALLEL).try_collect().await?;
        let files = lists.iter().map(|l| l.len()).sum();
        let mut entries: Vec<FileEntry> =
            lists.iter().flat_map(|l| l.iter()).filter(|f| range.meets(f.min_ts, f.max_ts)).cloned().collect();
        entries.sort_by_key(|f| (f.order, f.id));
        let manifests: Vec<_> = entries.iter().map(|f| self.manifest(table.id, f)).collect();
        let manifests = stream::iter(manifests);
        let manifests: Vec<Arc<TagManifest>> = manifests.buffered(PARALLEL).try_collect().await?;

        let mut blocks = Vec::new();
        for (segment, block) in snapshot.blocks(table.id)? {
            let key = (segment.position, table.id);
            let sort = async || {
                let sorted = SortedBlock::new(block)?;
                let weight = sorted.weight;
                Ok((sorted, weight))
            };
            let sorted = self.blocks.get(key, sort).await?;
            blocks.push((segment.position, sorted));
        }
        // The rows a delete removes from a block depend on the block's position, so blocks cannot be grouped.
        if table.tombstones.is_empty() {
            blocks = tiers::grouped(&self.groups, table.id, blocks).await?;
        }
        let tails: Vec<Arc<SortedBlock>> = blocks.iter().map(|(_, b)| b.clone()).collect();
        let deletes = entries.iter().map(|f| Deletes::of_file(table, f.clean));
        let deletes: Vec<Deletes<'_>> =
            deletes.chain(blocks.iter().map(|(at, _)| Deletes::of_segment(table, *at))).collect();
        let united = self.uniter.unite(table, database.precision, &manifests, &tails, &deletes)?;

        let ranks = united.ranks.iter().cloned();
        let files_at = entries.into_iter().zip(manifests);
        let files_at = files_at.map(|(entry, m)| Origin::File(Arc::new(FileSource::new(table, entry, m))));
        let tails_at = blocks.into_iter().map(|(_, block)| Origin::Tail(block));
        let list = files_at.chain(tails_at).zip(ranks).zip(&deletes).map(|((origin, ranks), deletes)| {
            let holes = deletes.tombstones().iter().map(|t| hole(t, &united)).collect();
            Source { origin, ranks, holes }
        });
        let list = list.filter(|s| range.meets(s.origin.span().first, s.origin.span().last)).collect();
        Ok(Sources { list, united, files })
    }

    /// Returns the tag manifest of a file.
    async fn manifest(&self, table: TableId, file: &FileEntry) -> Result<Arc<TagManifest>> {
        let load = async || {
            let manifest = file.tag_manifest(self.store(), table).await?;
            let weight = manifest.memory_bytes();
            Ok((manifest, weight))
        };
        self.manifests.get(file.tags.id, load).await
    }

    /// Returns the footer and page index of a data file.
    ///
    /// # Errors
    /// Those of the store; Corrupt or Unsupported, naming the key.
    pub(crate) async fn data_file(&self, store: &Store, file: &FileSource) -> Result<Arc<DataFile>> {
        let load = async || {
            let opened = file.entry.data_file(store, file.table).await?;
            let weight = opened.memory_bytes();
            Ok((opened, weight))
        };
        Ok(self.files.get(file.entry.data.id, load).await?.as_ref().clone())
    }

    /// Returns the start of each bucket of a file's rollup; `None` if it has no rollup.
    ///
    /// # Errors
    /// Those of the store; Corrupt or Unsupported, naming the key.
    pub(crate) async fn rollup(&self, store: &Store, file: &FileSource) -> Result<Option<Arc<Rollup>>> {
        let Some((key, said)) = file.rollup_key.as_ref().zip(file.entry.rollup) else { return Ok(None) };
        let load = async || {
            let opened = Rollup::open(store, key, &file.entry).await?;
            let weight = opened.memory_bytes();
            Ok((opened, weight))
        };
        Ok(Some(self.rollups.get(said.id, load).await?.as_ref().clone()))
    }

    /// Returns an aggregate of a field per bucket of a file's rollup; `None` if the rollup lacks it.
    ///
    /// # Errors
    /// As [`Reader::rollup`].
    pub(crate) async fn rolled(
        &self,
        store: &Store,
        file: &FileSource,
        rollup: &Rollup,
        field: ColumnId,
        what: Aggregate,
    ) -> Result<Option<ArrayRef>> {
        let Some(said) = file.entry.rollup else { return Ok(None) };
        let load = async || {
            let values = rollup.aggregate(store, field, what).await?;
            let weight = values.as_ref().map_or(16, |v| v.get_array_memory_size());
            Ok((values, weight))
        };
        Ok(self.rolled.get((said.id, field, what), load).await?.as_ref().clone())
    }

    /// Returns the buckets of a file's rollup totalled over all series; `None` if it has no rollup or the rollup's
    /// times are too far apart.
    ///
    /// # Errors
    /// As [`Reader::rollup`].
    pub(crate) async fn totals(&self, store: &Store, file: &FileSource) -> Result<Option<Arc<Totals>>> {
        let Some(said) = file.entry.rollup else { return Ok(None) };
        let load = async || {
            let rollup = self.rollup(store, file).await?;
            let totals = rollup.and_then(|rollup| Totals::new(&rollup)).map(Arc::new);
            let weight = totals.as_ref().map_or(16, |totals| totals.memory_bytes());
            Ok((totals, weight))
        };
        Ok(self.totals.get(said.id, load).await?.as_ref().clone())
    }

    /// Returns an aggregate of a field per bucket of the [`totals`](Self::totals).
    ///
    /// # Errors
    /// As [`Reader::rollup`].
    pub(crate) async fn totaled(
        &self,
        store: &Store,
        file: &FileSource,
        totals: &Totals,
        field: ColumnId,
        what: Aggregate,
    ) -> Result<Total> {
        let Some(said) = file.entry.rollup else { return Ok(Total::None) };
        let load = async || {
            let Some(rollup) = self.rollup(store, file).await? else { return Ok((Total::None, 16)) };
            // Not cached: the aggregates per series are larger, and other queries read them.
            let Some(values) = rollup.aggregate(store, field, what).await? else { return Ok((Total::None, 16)) };
            Ok(match totals.aggregate(&rollup, what, &values) {
                Some(values) => (Total::Values(values.clone()), values.get_array_memory_size()),
                None => (Total::OfSeries, 16),
            })
        };
        Ok(self.totaled.get((said.id, field, what), load).await?.as_ref().clone())
    }
}

/// An aggregate of a field over the buckets of all series of a file.
#[derive(Debug, Clone)]
pub(crate) enum Total {
    /// The rollup lacks the aggregate.
    None,
    /// One value per bucket.
    Values(ArrayRef),
    /// Only the buckets of single series can answer it.
    OfSeries,
}

/// Resolves a tombstone to the rows of a source that it covers.
fn hole(tombstone: &Tombstone, united: &United) -> Hole {
    let ranks = tombstone.series.as_ref().map(|names| {
        let mut ranks: Vec<u32> = names.iter().filter_map(|n| united.rank(n)).collect();
        ranks.sort_unstable();
        ranks.into()
    });
    Hole { ranks, range: TimeRange { first: tombstone.range.0, last: tombstone.range.1 } }
}
