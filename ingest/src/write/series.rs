//! The series directory: supertable and tags of each series, for statements that name only the series.
//!
//! Names come from this process's writes, the tail of the log and the tag manifests of live files. The cache is bounded; that a
//! name does not exist is always proved against one whole snapshot.

use std::sync::Arc;

use arrow::{array::BooleanArray, compute::filter_record_batch};
use futures::{StreamExt, TryStreamExt, stream};
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use tidelake_format::{
    Error, Kind, Reason, Result,
    access::{Principal, Privilege},
    ids::{ColumnId, DatabaseId, FileId, Position, TableId, Version},
    merge::Deletes,
    meta::{Catalog, FileEntry},
    rows::{Block, SeriesSet},
    schema::{Covers, Database, Supertable, Tombstone, field_id},
    snapshot::{Snapshot, SnapshotReader},
    types::Scalar,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::decode::{Limits, Lookup, Subtable, time::Implausible};
use crate::scalar::scalar_at;

/// Tag manifests read concurrently.
const PARALLEL: usize = 8;
/// Most attempts of a search, whose snapshot may be collected while being read.
const ATTEMPTS: usize = 4;

/// Known series by database and name.
#[derive(Debug)]
pub(crate) struct SeriesDirectory {
    reader: SnapshotReader,
    limit: usize,
    names: Mutex<Names>,
    sources: tokio::sync::Mutex<HashMap<Source, Arc<[u64]>>>,
}

/// The supertable of a series, and its row in a series set.
#[derive(Debug, Clone)]
struct Known {
    table: TableId,
    set: Arc<SeriesSet>,
    row: u32,
    /// The version in which this was true; a later DROP of the series ends it.
    version: Version,
}

impl Known {
    /// Whether this is still true in a version of the catalog.
    fn holds(&self, catalog: &Catalog, name: &str) -> bool {
        catalog.table_by_id(self.table).is_some_and(|table| !was_dropped(table, name, self.version))
    }
}

/// Whether a series may have been dropped after a version; false is certain.
pub(crate) fn was_dropped(table: &Supertable, name: &str, since: Version) -> bool {
    let dropped = |t: &Tombstone| t.version > since && t.covers == Covers::Series && t.names(name);
    table.forgotten > since || table.tombstones.iter().any(dropped)
}

/// Two generations: a full young one becomes the old one, and the previous old one is discarded.
#[derive(Debug, Default)]
struct Names {
    young: Generation,
    old: Generation,
}

#[derive(Debug, Default)]
struct Generation {
    databases: HashMap<DatabaseId, HashMap<Box<str>, Known>>,
    len: usize,
}

/// An object with names: the sorted hashes of its names prove that other names are not in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Source {
    File(FileId),
    Block(Position, TableId),
}

impl Generation {
    fn get(&self, database: DatabaseId, name: &str) -> Option<&Known> {
        self.databases.get(&database)?.get(name)
    }
}

impl Names {
    fn get(&self, database: DatabaseId, name: &str) -> Option<&Known> {
        self.young.get(database, name).or_else(|| self.old.get(database, name))
    }

    /// Checks that no series of a block is known to belong to a table other than `own`.
    fn check(&self, catalog: &Catalog, database: DatabaseId, block: &Block, own: TableId) -> Result<()> {
        for name in block.series.names().iter().flatten() {
            let other = self.get(database, name).filter(|k| k.table != own && k.holds(catalog, name));
            if let Some(other) = other.and_then(|k| catalog.table_by_id(k.table)) {
                return Err(Error::invalid("a series of this name belongs to another supertable")
                    .with("series", name)
                    .with("supertable", &other.name));
            }
        }
        Ok(())
    }

    fn remove(&mut self, database: DatabaseId, name: &str) {
        for names in [&mut self.young, &mut self.old] {
            let removed = names.databases.get_mut(&database).and_then(|names| names.remove(name));
            names.len -= usize::from(removed.is_some());
        }
    }

    fn insert(&mut self, database: DatabaseId, name: &str, known: Known, limit: usize) {
        if self.young.len >= (limit / 2).max(1) {
            self.old = std::mem::take(&mut self.young);
        }
        if self.young.databases.entry(database).or_default().insert(name.into(), known).is_none() {
            self.young.len += 1;
        }
    }
}

impl SeriesDirectory {
    pub(crate) fn new(reader: SnapshotReader, limit: usize) -> Self {
        Self { reader, limit, names: Mutex::default(), sources: tokio::sync::Mutex::default() }
    }

    /// Registers the series of rows that are about to be written.
    ///
    /// # Errors
    /// Invalid if one of them belongs to another table of the database.
    pub(crate) fn register(&self, catalog: &Catalog, database: DatabaseId, blocks: &[Block]) -> Result<()> {
        let mut names = self.names.lock();
        for block in blocks {
            names.check(catalog, database, block, block.table)?;
        }
        for block in blocks {
            let set = Arc::new(block.series.clone());
            for (row, name) in block.series.names().iter().flatten().enumerate() {
                let known = names.get(database, name);
                if known.is_none_or(|k| k.table != block.table || !k.holds(catalog, name)) {
                    let (table, set) = (block.table, set.clone());
                    let known = Known { table, set, row: row as u32, version: catalog.version };
                    names.insert(database, name, known, self.limit);
                }
            }
        }
        Ok(())
    }

    /// Forgets series that were about to be written: the next search determines whether they exist.
    pub(crate) fn forget(&self, names: &[(DatabaseId, Box<str>)]) {
        let mut known = self.names.lock();
        names.iter().for_each(|(database, name)| known.remove(*database, name));
    }

    /// Checks the series of rows for a new table, which replaces another one if given.
    ///
    /// # Errors
    /// As [`SeriesDirectory::register`].
    pub(crate) fn check(
        &self,
        catalog: &Catalog,
        database: DatabaseId,
        blocks: &[Block],
        replaced: Option<TableId>,
    ) -> Result<()> {
        let names = self.names.lock();
        blocks.iter().try_for_each(|block| names.check(catalog, database, block, replaced.unwrap_or(block.table)))
    }

    /// Whether the directory knows a series without a request to the store.
    pub(crate) fn knows(&self, catalog: &Catalog, database: DatabaseId, name: &str) -> bool {
        self.names.lock().get(database, name).is_some_and(|k| k.holds(catalog, name))
    }

    /// A fresh snapshot.
    ///
    /// # Errors
    /// Those of [`SnapshotReader::snapshot`].
    pub(crate) async fn snapshot(&self) -> Result<Arc<Snapshot>> {
        self.reader.snapshot(&[]).await
    }

    /// Searches a whole fresh snapshot for series and caches the existing ones; returns their number. Afterwards a name unknown
    /// to [`SeriesDirectory::subtable`] does not exist.
    ///
    /// # Errors
    /// Unavailable if the store does not respond, Corrupt naming the object.
    pub(crate) async fn find(&self, database: DatabaseId, wanted: &[String]) -> Result<usize> {
        for _ in 1..ATTEMPTS {
            match self.search(database, wanted).await {
                Err(error) if error.kind() == Kind::NotFound => continue,
                result => return result,
            }
        }
        self.search(database, wanted).await
    }

    async fn search(&self, database: DatabaseId, wanted: &[String]) -> Result<usize> {
        let mut sources = self.sources.lock().await;
        let snapshot = self.reader.snapshot(&[]).await?;
        let live = self.live(&snapshot, database).await?;
        let keys: HashSet<Source> = live.iter().map(|(source, _)| *source).collect();
        sources.retain(|source, _| keys.contains(source));
        if sources.values().map(|h| h.len()).sum::<usize>() > self.limit.saturating_mul(8) {
            sources.clear();
        }

        let catalog = &*snapshot.catalog;
        let hashes: Vec<u64> = wanted.iter().map(|name| xxh3_64(name.as_bytes())).collect();
        let missing = || -> Vec<usize> {
            let names = self.names.lock();
            let known = |name: &str| names.get(database, name).is_some_and(|k| k.holds(catalog, name));
            (0..wanted.len()).filter(|i| !known(&wanted[*i])).collect()
        };
        let (known, hashes, missing) = (&*sources, &hashes, &missing);
        let loaded: Vec<(Source, Arc<[u64]>)> = stream::iter(live)
            .map(|(source, place)| async move {
                if let Some(sorted) = known.get(&source)
                    && !missing().into_iter().any(|i| sorted.binary_search(&hashes[i]).is_ok())
                {
                    return Ok::<_, Error>(None);
                }
                let (table, set) = self.load(catalog, place).await?;
                let mut sorted: Vec<u64> = set.names().iter().flatten().map(|n| xxh3_64(n.as_bytes())).collect();
                sorted.sort_unstable();
                self.remember(catalog, database, table, set, wanted);
                Ok(Some((source, Arc::from(sorted))))
            })
            .buffer_unordered(PARALLEL)
            .try_filter_map(|loaded| async move { Ok(loaded) })
            .try_collect()
            .await?;
        let left = missing().len();
        sources.extend(loaded);
        Ok(wanted.len() - left)
    }

    /// All files and blocks of a database that may have names.
    async fn live(&self, snapshot: &Arc<Snapshot>, database: DatabaseId) -> Result<Vec<(Source, Place)>> {
        let mut live = Vec::new();
        for table in snapshot.catalog.tables(database) {
            for (partition, _) in snapshot.catalog.partitions(table.id) {
                for file in self.reader.root().files(&snapshot.catalog, table.id, partition).await?.iter() {
                    live.push((Source::File(file.tags.id), Place::File(table.id, file.clone())));
                }
            }
            for (segment, block) in snapshot.blocks(table.id)? {
                let set = block.series.clone();
                let place = Place::Block(table.id, segment.position, set);
                live.push((Source::Block(segment.position, table.id), place));
            }
        }
        Ok(live)
    }

    /// The series of a file or block that no DROP covers.
    async fn load(&self, catalog: &Catalog, place: Place) -> Result<(TableId, SeriesSet)> {
        let (table, set, deletes) = match place {
            Place::Block(table, position, set) => {
                (table, set, catalog.table_by_id(table).map(|t| Deletes::of_segment(t, position)))
            }
            Place::File(table, file) => {
                let set = file.tag_manifest(self.reader.root().store(), table).await?.series().clone();
                (table, set, catalog.table_by_id(table).map(|t| Deletes::of_file(t, file.clean)))
            }
        };
        match deletes.and_then(|deletes| deletes.gone(&set)) {
            None => Ok((table, set)),
            Some(gone) => {
                let left = filter_record_batch(set.batch(), &BooleanArray::new(!&gone, None))?;
                Ok((table, SeriesSet::try_new(left)?))
            }
        }
    }

    /// Caches the names of a set: all of them, or only the wanted ones of a large set.
    fn remember(&self, catalog: &Catalog, database: DatabaseId, table: TableId, set: SeriesSet, wanted: &[String]) {
        let set = Arc::new(set);
        let limit = self.limit.max(4 * wanted.len());
        let chosen: Option<HashSet<&str>> =
            (set.len() > limit / 4).then(|| wanted.iter().map(String::as_str).collect());
        let mut names = self.names.lock();
        for (row, name) in set.names().iter().flatten().enumerate() {
            let alive = names.get(database, name).is_some_and(|k| k.holds(catalog, name));
            if !alive && chosen.as_ref().is_none_or(|c| c.contains(name)) {
                let known = Known { table, set: set.clone(), row: row as u32, version: catalog.version };
                names.insert(database, name, known, limit);
            }
        }
    }

    /// A known series, with its current tags in the table.
    pub(crate) fn subtable(&self, catalog: &Catalog, database: DatabaseId, name: &str) -> Option<Subtable> {
        let known = self.names.lock().get(database, name).filter(|k| k.holds(catalog, name))?.clone();
        let table = catalog.table_by_id(known.table)?.clone();
        let mut tags: Vec<(ColumnId, Scalar)> = Vec::new();
        let batch = known.set.batch();
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()).skip(1) {
            let id = field_id(field)?;
            if let Some(value) = scalar_at(column, known.row as usize).filter(|_| table.column_by_id(id).is_some()) {
                tags.push((id, value));
            }
        }
        for (id, value) in table.overrides.get(name).into_iter().flatten() {
            tags.retain(|(tag, _)| tag != id);
            tags.extend(value.clone().map(|value| (*id, value)));
        }
        Some(Subtable { table, tags })
    }
}

#[derive(Debug)]
enum Place {
    File(TableId, FileEntry),
    Block(TableId, Position, SeriesSet),
}

/// View of decoders: one catalog version and the directory.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) directory: Arc<SeriesDirectory>,
    pub(crate) principal: Principal,
    pub(crate) limits: Limits,
    pub(crate) implausible: Implausible,
}

impl Lookup for View {
    fn database(&self, name: &str) -> Option<Arc<Database>> {
        self.catalog.database(name).cloned()
    }

    fn table(&self, database: DatabaseId, name: &str) -> Option<Arc<Supertable>> {
        self.catalog.table(database, name).cloned()
    }

    fn subtable(&self, database: DatabaseId, name: &str) -> Option<Subtable> {
        self.directory.subtable(&self.catalog, database, name)
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn readable(&self, database: &Database) -> Vec<Arc<Supertable>> {
        let may = self.principal.may(Privilege::Read, database);
        self.catalog.tables(database.id).filter(|_| may).cloned().collect()
    }

    fn table_count(&self, database: DatabaseId) -> usize {
        self.catalog.tables(database).count()
    }

    fn implausible(&self) -> Implausible {
        self.implausible
    }

    fn check(&self, database: &Database) -> Result<()> {
        self.principal.check(Privilege::Write, database)
    }

    fn missing(&self, name: &str) -> Error {
        self.principal.missing(
            Privilege::Write,
            name,
            Error::not_found(format!("Database not exist: {name}")).because(Reason::DatabaseNotFound),
        )
    }
}
