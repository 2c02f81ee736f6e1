//! The series of a scan: the series of its files and log blocks, united by name, with the tags that queries see.

use std::{
    hash::BuildHasher,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arrow::{
    array::{Array, BooleanArray, RecordBatch, StringArray},
    buffer::BooleanBuffer,
    compute::filter_record_batch,
};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use parking_lot::Mutex;
use tidelake_format::{
    Result,
    ids::TableId,
    merge::{Deletes, series_order},
    rows::SeriesSet,
    schema::{Supertable, field_id},
    tags::TagManifest,
    types::Precision,
};

use super::tail::SortedBlock;

/// For each series of a source: its index (rank) in the united series.
#[derive(Debug, Clone)]
pub(crate) enum Ranks {
    /// Same order as in the source.
    Same,
    /// One rank per series of the source.
    Mapped(Arc<[u32]>),
}

impl Ranks {
    /// The rank of a series of the source.
    pub(crate) fn of(&self, local: usize) -> u32 {
        match self {
            Ranks::Same => local as u32,
            Ranks::Mapped(ranks) => ranks[local],
        }
    }
}

/// Process-wide unique ID of a united set of series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BaseId(u64);

/// How the series of a log block relate to those of the files.
#[derive(Debug, Clone)]
pub(crate) enum Fit {
    /// The files have all of them, with the same tags: these are their ranks.
    Within(Arc<[u32]>),
    /// Some are new, or have a tag that the files lack.
    Beyond,
}

/// The series of a scan.
#[derive(Debug)]
pub(crate) struct United {
    /// Every series once, with every tag of the table; rank = index.
    pub(crate) series: SeriesSet,
    /// Ranks of each source: files first, then log blocks.
    pub(crate) ranks: Vec<Ranks>,
    names: NameIndex,
    /// Series that a DROP removed and no source brings back. `None` if there are none.
    gone: Option<BooleanBuffer>,
}

impl United {
    /// Returns the series that exist.
    ///
    /// # Errors
    /// Internal if Arrow fails to filter them.
    pub(crate) fn existing(&self) -> Result<SeriesSet> {
        let Some(gone) = &self.gone else { return Ok(self.series.clone()) };
        let exists = BooleanArray::new(!gone, None);
        SeriesSet::try_new(filter_record_batch(self.series.batch(), &exists)?)
    }

    /// Whether a series with this name exists.
    pub(crate) fn exists(&self, name: &str) -> bool {
        let gone = |rank: u32| self.gone.as_ref().is_some_and(|gone| gone.value(rank as usize));
        self.rank(name).is_some_and(|rank| !gone(rank))
    }
    /// Rank of the series with this exact name.
    pub(crate) fn rank(&self, name: &str) -> Option<u32> {
        self.names.find(self.series.names(), name)
    }
}

/// United sets of one table, most recently used first.
type Recent<T> = Mutex<HashMap<TableId, Vec<Arc<T>>>>;

/// Number of united sets cached per table: one per combination of files that current queries read.
const KEPT: usize = 4;

/// Unites series and caches the last results: the sets change only with the files or the log.
#[derive(Debug, Default)]
pub(crate) struct Uniter {
    bases: Recent<Base>,
    wholes: Recent<Whole>,
    next: AtomicU64,
}

/// The series of some files.
#[derive(Debug)]
struct Base {
    id: BaseId,
    table: Arc<Supertable>,
    files: Vec<Arc<TagManifest>>,
    united: Arc<United>,
}

/// The series of some files and of log blocks with new series.
#[derive(Debug)]
struct Whole {
    table: Arc<Supertable>,
    files: Vec<Arc<TagManifest>>,
    blocks: Vec<Arc<SortedBlock>>,
    united: Arc<United>,
}

impl Uniter {
    /// Unites the series of files and log blocks, both oldest first. Overrides win, then the oldest value of each tag.
    /// `all` has the deletes of each file and block; they are the same for one version of the table.
    ///
    /// # Errors
    /// Internal if a tag cannot be cast to the table's type.
    pub(crate) fn unite(
        &self,
        table: &Arc<Supertable>,
        precision: Precision,
        files: &[Arc<TagManifest>],
        blocks: &[Arc<SortedBlock>],
        all: &[Deletes<'_>],
    ) -> Result<Arc<United>> {
        let base = self.base(table, precision, files, all)?;
        let mut ranks = base.united.ranks.clone();
        for (block, deletes) in blocks.iter().zip(&all[files.len()..]) {
            // A dropped series may exist again: rare, and too much to compare.
            let dropped = base.united.gone.is_some() || deletes.gone(&block.series).is_some();
            match fit(&base, block, table) {
                Fit::Within(within) if !dropped => ranks.push(Ranks::Mapped(within)),
                _ => return self.whole(table, precision, files, blocks, all),
            }
        }
        if blocks.is_empty() {
            return Ok(base.united.clone());
        }
        let names = base.united.names.clone();
        Ok(Arc::new(United { series: base.united.series.clone(), ranks, names, gone: None }))
    }

    fn base(
        &self,
        table: &Arc<Supertable>,
        precision: Precision,
        files: &[Arc<TagManifest>],
        deletes: &[Deletes<'_>],
    ) -> Result<Arc<Base>> {
        let known = |b: &Base| same_table(&b.table, table) && same(&b.files, files);
        if let Some(base) = recent(&self.bases, table.id, known) {
            return Ok(base);
        }
        let united = match files {
            [one]
                if table.overrides.is_empty()
                    && is_complete(one.series(), table, precision)
                    && deletes.first().is_none_or(|d| d.gone(one.series()).is_none()) =>
            {
                let series = one.series().clone();
                United { names: NameIndex::new(series.names()), series, ranks: vec![Ranks::Same], gone: None }
            }
            _ => united(&files.iter().map(|f| f.series()).collect::<Vec<_>>(), table, precision, deletes)?,
        };
        let id = BaseId(self.next.fetch_add(1, Ordering::Relaxed));
        let base = Arc::new(Base { id, table: table.clone(), files: files.to_vec(), united: Arc::new(united) });
        remember(&self.bases, table.id, base.clone());
        Ok(base)
    }

    fn whole(
        &self,
        table: &Arc<Supertable>,
        precision: Precision,
        files: &[Arc<TagManifest>],
        blocks: &[Arc<SortedBlock>],
        deletes: &[Deletes<'_>],
    ) -> Result<Arc<United>> {
        let known = |w: &Whole| same_table(&w.table, table) && same(&w.files, files) && same(&w.blocks, blocks);
        if let Some(whole) = recent(&self.wholes, table.id, known) {
            return Ok(whole.united.clone());
        }
        let sets = files.iter().map(|f| f.series()).chain(blocks.iter().map(|b| &b.series));
        let united = Arc::new(united(&sets.collect::<Vec<_>>(), table, precision, deletes)?);
        let whole =
            Whole { table: table.clone(), files: files.to_vec(), blocks: blocks.to_vec(), united: united.clone() };
        remember(&self.wholes, table.id, Arc::new(whole));
        Ok(united)
    }
}

fn united(sets: &[&SeriesSet], table: &Supertable, precision: Precision, deletes: &[Deletes<'_>]) -> Result<United> {
    if sets.is_empty() {
        let series = SeriesSet::try_new(RecordBatch::new_empty(SeriesSet::schema_of(table, precision)))?;
        return Ok(United { names: NameIndex::new(series.names()), series, ranks: Vec::new(), gone: None });
    }
    let masks = sets.iter().zip(deletes).map(|(set, deletes)| deletes.mask(set)).collect::<Result<Vec<_>>>()?;
    let masked: Vec<&SeriesSet> =
        sets.iter().enumerate().map(|(i, set)| masks.get(i).and_then(|m| m.as_ref()).map_or(*set, |m| &m.0)).collect();
    let order = series_order(&masked, table, precision)?;
    let mut gone = None;
    if masks.iter().any(Option::is_some) {
        let mut exists = vec![false; order.series.len()];
        for (i, ranks) in order.ranks.iter().enumerate() {
            let gone = masks.get(i).and_then(|m| m.as_ref()).map(|m| &m.1);
            for (local, rank) in ranks.iter().enumerate() {
                exists[*rank as usize] |= gone.is_none_or(|gone| !gone.value(local));
            }
        }
        gone = exists.contains(&false).then(|| exists.iter().map(|exists| !exists).collect());
    }
    let ranks = order.ranks.into_iter().map(|r| Ranks::Mapped(r.into())).collect();
    Ok(United { names: NameIndex::new(order.series.names()), series: order.series, ranks, gone })
}

/// Whether a set already has the form that queries see: every tag of the table, with its type, position and name.
fn is_complete(set: &SeriesSet, table: &Supertable, precision: Precision) -> bool {
    let (have, want) = (set.batch().schema(), SeriesSet::schema_of(table, precision));
    let same = |(a, b): (&Arc<arrow::datatypes::Field>, &Arc<arrow::datatypes::Field>)| {
        field_id(a) == field_id(b) && a.name() == b.name() && a.data_type() == b.data_type()
    };
    have.fields().len() == want.fields().len() && have.fields().iter().zip(want.fields()).all(same)
}

/// How a block relates to a base; cached in the block.
fn fit(base: &Base, block: &SortedBlock, table: &Supertable) -> Fit {
    let mut slot = block.fit.lock();
    if let Some((id, fit)) = slot.as_ref()
        && *id == base.id
    {
        return fit.clone();
    }
    let fit = compare(&base.united, &block.series, table);
    *slot = Some((base.id, fit.clone()));
    fit
}

fn compare(base: &United, block: &SeriesSet, table: &Supertable) -> Fit {
    let mut ranks = Vec::with_capacity(block.len());
    for name in block.names().iter().flatten() {
        match base.rank(name) {
            Some(rank) => ranks.push(rank),
            None => return Fit::Beyond,
        }
    }
    for tag in table.tags() {
        let (Some(old), Some(new)) = (base.series.tag(tag.id), block.tag(tag.id)) else { continue };
        let adds = |(i, rank): (usize, &u32)| old.is_null(*rank as usize) && !new.is_null(i);
        if old.null_count() > 0 && ranks.iter().enumerate().any(adds) {
            return Fit::Beyond;
        }
    }
    Fit::Within(ranks.into())
}

fn same<T>(a: &[Arc<T>], b: &[Arc<T>]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| Arc::ptr_eq(a, b))
}

fn same_table(a: &Arc<Supertable>, b: &Arc<Supertable>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

fn recent<T>(of: &Recent<T>, table: TableId, known: impl Fn(&T) -> bool) -> Option<Arc<T>> {
    let mut map = of.lock();
    let list = map.get_mut(&table)?;
    let at = list.iter().position(|t| known(t))?;
    let found = list.remove(at);
    list.insert(0, found.clone());
    Some(found)
}

fn remember<T>(of: &Recent<T>, table: TableId, value: Arc<T>) {
    let mut map = of.lock();
    let list = map.entry(table).or_default();
    list.insert(0, value);
    list.truncate(KEPT);
}

/// Indexes of names in an array of names.
#[derive(Debug, Clone)]
struct NameIndex {
    places: Arc<HashTable<u32>>,
    hasher: DefaultHashBuilder,
}

impl NameIndex {
    fn new(names: &StringArray) -> Self {
        let hasher = DefaultHashBuilder::default();
        let mut places = HashTable::with_capacity(names.len());
        for (i, name) in names.iter().flatten().enumerate() {
            let of = |at: &u32| hasher.hash_one(names.value(*at as usize));
            places.insert_unique(hasher.hash_one(name), i as u32, of);
        }
        Self { places: Arc::new(places), hasher }
    }

    fn find(&self, names: &StringArray, name: &str) -> Option<u32> {
        self.places.find(self.hasher.hash_one(name), |at| names.value(*at as usize) == name).copied()
    }
}
