//! One set of tags per series, whichever of its files is read: reconciles tags in a fold with other tags that the series
//! already has.
//!
//! A series named after its tags cannot have others. A series with a given name can be sent with any tags: its existing tags
//! stay, tag by tag, and missing ones are added, for older files by an override.

use std::collections::BTreeMap;

use arrow::{
    array::{Array, ArrayRef, BooleanArray},
    compute::filter_record_batch,
    row::{RowConverter, SortField},
};
use futures::{StreamExt, TryStreamExt, stream};
use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;
use tidelake_format::{
    Error, Result,
    ids::{ColumnId, FileId, TableId, Version},
    merge::{Deletes, SeriesOrder, series_order},
    meta::{Catalog, Draft, FileEntry},
    rows::SeriesSet,
    schema::{Covers, Database, Role, Supertable},
    types::{Scalar, Type},
};
use xxhash_rust::xxh3::xxh3_64;

use super::Inner;
use crate::{
    decode::builder::{Tag, canonical_name},
    scalar::scalar_at,
};

/// Most cached series of all tables, about 30 bytes each; further ones are read again.
const REMEMBERED: usize = 2_000_000;
/// Tag manifests read concurrently.
const PARALLEL: usize = 8;

/// A series with a given name: its row in a set, and hashes of its name and of its tags.
#[derive(Debug, Clone, Copy)]
pub(super) struct Named {
    row: u32,
    name: u64,
    tags: u64,
}

/// The tags of series in live files, as far as this process has seen them.
#[derive(Debug, Default)]
pub(super) struct Established(Mutex<HashMap<TableId, Known>>);

#[derive(Debug, Default)]
struct Known {
    era: Option<Era>,
    /// Tag manifests whose series are all in `tags`.
    files: HashSet<FileId>,
    /// Hash of the name → hash of the tags.
    tags: HashMap<u64, u64>,
}

/// State that the tags of all series depend on, besides the files.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Era {
    /// The last version that dropped series.
    dropped: Version,
    tags: Vec<(ColumnId, Type)>,
}

impl Era {
    fn of(table: &Supertable) -> Self {
        let drops = table.tombstones.iter().filter(|t| t.covers == Covers::Series).map(|t| t.version);
        let dropped = drops.fold(table.forgotten, Version::max);
        Self { dropped, tags: table.tags().map(|c| (c.id, c.ty)).collect() }
    }
}

/// Changes by which the series of a table keep their tags in a fold.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Series of live files whose tags take precedence over those of the log, oldest first.
    pub(super) before: Vec<SeriesSet>,
    /// Tags that some older file lacks or shows differently, to be set in the commit.
    pub(super) overrides: BTreeMap<String, BTreeMap<ColumnId, Option<Scalar>>>,
}

/// The series of a set, in a table's schema, that have given names.
pub(super) fn named(table: &Supertable, set: &SeriesSet) -> Result<Vec<Named>> {
    let columns: Vec<_> = table.tags().zip(set.batch().columns().iter().skip(1)).collect();
    let keys: Vec<ArrayRef> = columns.iter().map(|(_, values)| (*values).clone()).collect();
    let rows = match keys.is_empty() {
        true => None,
        false => {
            let fields = keys.iter().map(|k| SortField::new(k.data_type().clone())).collect();
            Some(RowConverter::new(fields)?.convert_columns(&keys)?)
        }
    };
    let mut canonical = String::new();
    let mut found = Vec::new();
    for (row, name) in set.names().iter().flatten().enumerate() {
        if name.contains('=') {
            let values: Vec<_> = columns.iter().map(|(column, values)| (*column, scalar_at(values, row))).collect();
            let mut tags: Vec<_> = values
                .iter()
                .filter_map(|(column, value)| Some((*column, Tag::of_scalar(column.ty, value.as_ref()?))))
                .collect();
            canonical_name(&table.name, &mut tags, &mut canonical);
            if canonical == name {
                continue;
            }
        }
        let tags = rows.as_ref().map_or(0, |rows| xxh3_64(rows.row(row).data()));
        found.push(Named { row: row as u32, name: xxh3_64(name.as_bytes()), tags });
    }
    Ok(found)
}

impl Inner {
    /// Finds the series of a fold that have other tags in live files. `series` is in the table's schema with overrides applied,
    /// and `named` is derived from it.
    ///
    /// # Errors
    /// Those of the store; Corrupt naming the manifest.
    pub(super) async fn keep_tags(
        &self,
        catalog: &Catalog,
        (table, database): (&Supertable, &Database),
        series: &SeriesSet,
        named: &[Named],
    ) -> Result<Kept> {
        if named.is_empty() {
            return Ok(Kept::default());
        }
        self.established.begin(table);
        if !self.established.unknown(table.id, named).is_empty() {
            let unseen = self.unseen(catalog, table.id).await?;
            let load = |file| async move {
                let set = self.series_of(table, &file).await?;
                let order = series_order(&[&set], table, database.precision)?;
                Ok::<_, Error>((file.tags.id, super::tags::named(table, &order.series)?))
            };
            let mut loaded = stream::iter(unseen).map(load).buffered(PARALLEL);
            while let Some((file, named)) = loaded.try_next().await? {
                self.established.learn(table.id, file, &named);
            }
        }
        let asked = self.established.differing(table.id, named);
        if asked.is_empty() {
            return Ok(Kept::default());
        }
        let asked: Vec<bool> = {
            let mut mask = vec![false; series.len()];
            asked.iter().for_each(|n| mask[n.row as usize] = true);
            mask
        };
        let asked = pick(series, |row, _| asked[row])?;
        let names: HashSet<&str> = asked.names().iter().flatten().collect();
        let mut before = Vec::new();
        let mut files = stream::iter(self.live_files(catalog, table.id).await?)
            .map(|file| async move { self.series_of(table, &file).await })
            .buffered(PARALLEL);
        while let Some(set) = files.try_next().await? {
            let found = pick(&set, |_, name| names.contains(name))?;
            if !found.is_empty() {
                before.push(found);
            }
        }
        let overrides = overrides(table, database, &before, &asked)?;
        Ok(Kept { before, overrides })
    }

    /// The files of a table, oldest first.
    async fn live_files(&self, catalog: &Catalog, table: TableId) -> Result<Vec<FileEntry>> {
        let mut files = Vec::new();
        for (partition, _) in catalog.partitions(table) {
            files.extend(self.root.files(catalog, table, partition).await?.iter().cloned());
        }
        files.sort_by_key(|f| f.order);
        Ok(files)
    }

    /// The files whose series are not cached.
    async fn unseen(&self, catalog: &Catalog, table: TableId) -> Result<Vec<FileEntry>> {
        let mut files = self.live_files(catalog, table).await?;
        self.established.retain_unseen(table, &mut files);
        Ok(files)
    }

    /// The existing series of a file.
    async fn series_of(&self, table: &Supertable, file: &FileEntry) -> Result<SeriesSet> {
        let manifest = file.tag_manifest(self.root.store(), table.id).await?;
        match Deletes::of_file(table, file.clean).gone(manifest.series()) {
            None => Ok(manifest.series().clone()),
            Some(gone) => pick(manifest.series(), |row, _| !gone.value(row)),
        }
    }
}

/// The series of a set that match a condition on (row, name).
fn pick(set: &SeriesSet, is_wanted: impl Fn(usize, &str) -> bool) -> Result<SeriesSet> {
    let wanted: BooleanArray =
        set.names().iter().flatten().enumerate().map(|(row, name)| Some(is_wanted(row, name))).collect();
    SeriesSet::try_new(filter_record_batch(set.batch(), &wanted)?)
}

/// The tags that some older file shows differently from their values after the fold.
fn overrides(
    table: &Supertable,
    database: &Database,
    before: &[SeriesSet],
    series: &SeriesSet,
) -> Result<BTreeMap<String, BTreeMap<ColumnId, Option<Scalar>>>> {
    let sets: Vec<&SeriesSet> = before.iter().chain([series]).collect();
    let SeriesOrder { series: last, ranks } = series_order(&sets, table, database.precision)?;
    let mut overrides: BTreeMap<String, BTreeMap<ColumnId, Option<Scalar>>> = BTreeMap::new();
    for (set, ranks) in before.iter().zip(&ranks) {
        let shown = series_order(&[set], table, database.precision)?;
        for (row, rank) in ranks.iter().enumerate() {
            let (at, rank) = (shown.ranks[0][row] as usize, *rank as usize);
            for tag in table.tags() {
                let value = |set: &SeriesSet, row| set.tag(tag.id).and_then(|values| scalar_at(values, row));
                let kept = value(&last, rank);
                if value(&shown.series, at) != kept {
                    overrides.entry(last.names().value(rank).to_owned()).or_default().insert(tag.id, kept);
                }
            }
        }
    }
    Ok(overrides)
}

/// Sets the tags of a fold in its commit; tags that a statement has set meanwhile stay.
///
/// # Errors
/// Internal if the table is gone.
pub(super) fn set_overrides(draft: &mut Draft, table: TableId, kept: &Kept) -> Result<()> {
    let Some(found) = draft.catalog().table_by_id(table).filter(|_| !kept.overrides.is_empty()) else { return Ok(()) };
    let mut changed = found.as_ref().clone();
    for (series, tags) in &kept.overrides {
        if !changed.overrides.contains_key(series) && changed.overrides.len() >= Supertable::MAX_OVERRIDES {
            tracing::warn!(
                table = changed.name,
                series,
                limit = Supertable::MAX_OVERRIDES,
                "too many series of a table have changed tags: older files of this series do not show its tags"
            );
            continue;
        }
        let is_tag = |id: &ColumnId| found.column_by_id(*id).is_some_and(|c| c.role == Role::Tag);
        let of_series = changed.overrides.entry(series.clone()).or_default();
        for (tag, value) in tags.iter().filter(|(tag, _)| is_tag(tag)) {
            of_series.entry(*tag).or_insert_with(|| value.clone());
        }
    }
    draft.put_table(changed)
}

impl Established {
    /// Discards cached tags of a table that are no longer valid.
    fn begin(&self, table: &Supertable) {
        let (mut known, era) = (self.0.lock(), Era::of(table));
        if known.values().map(|k| k.tags.len()).sum::<usize>() > REMEMBERED {
            known.clear();
        }
        let known = known.entry(table.id).or_default();
        if known.era.as_ref() != Some(&era) {
            *known = Known { era: Some(era), ..Known::default() };
        }
    }

    fn unknown(&self, table: TableId, named: &[Named]) -> Vec<Named> {
        let known = self.0.lock();
        let tags = known.get(&table).map(|k| &k.tags);
        named.iter().filter(|n| tags.is_none_or(|tags| !tags.contains_key(&n.name))).copied().collect()
    }

    fn differing(&self, table: TableId, named: &[Named]) -> Vec<Named> {
        let known = self.0.lock();
        let Some(Known { tags, .. }) = known.get(&table) else { return Vec::new() };
        named.iter().filter(|n| tags.get(&n.name).is_some_and(|tags| *tags != n.tags)).copied().collect()
    }

    fn retain_unseen(&self, table: TableId, files: &mut Vec<FileEntry>) {
        let mut known = self.0.lock();
        let seen = &mut known.entry(table).or_default().files;
        let live: HashSet<FileId> = files.iter().map(|f| f.tags.id).collect();
        seen.retain(|id| live.contains(id));
        files.retain(|f| !seen.contains(&f.tags.id));
    }

    /// Caches the series of a file; files are added oldest first.
    fn learn(&self, table: TableId, file: FileId, named: &[Named]) {
        let mut known = self.0.lock();
        let known = known.entry(table).or_default();
        for n in named {
            known.tags.entry(n.name).or_insert(n.tags);
        }
        known.files.insert(file);
    }

    /// Caches the series of a committed fold, with their tags after it.
    pub(super) fn folded(&self, table: TableId, files: impl IntoIterator<Item = FileId>, named: &[Named]) {
        let mut known = self.0.lock();
        let Some(known) = known.get_mut(&table) else { return };
        known.tags.extend(named.iter().map(|n| (n.name, n.tags)));
        known.files.extend(files);
    }
}
