//! Finds the objects of a root that hold rows of a series and time range, whether or not a version names them: shows
//! that deleted rows are gone, or which objects still hold them.

use std::collections::{BTreeMap, HashSet};

use arrow::array::AsArray;
use futures::TryStreamExt;
use serde::Serialize;

use crate::{
    error::{Kind, Result},
    file::DataFile,
    ids::{FileId, TableId},
    layout::{self, Part},
    meta::{FileEntry, Root},
    rows::{series_of, tbname_field, ticks_of},
    schema::Supertable,
    segment,
    store::Store,
    tags::TagManifest,
    types::Precision,
};

/// Number of rows decoded at once.
const BATCH: usize = 65_536;

/// Rows to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Only rows of this series.
    pub series: Option<String>,
    /// First and last time, both inclusive, in ticks of the database.
    pub range: (i64, i64),
}

impl Wanted {
    fn has(&self, name: &str) -> bool {
        self.series.as_deref().is_none_or(|series| series == name)
    }

    fn meets(&self, first: i64, last: i64) -> bool {
        self.range.0 <= last && first <= self.range.1
    }
}

/// Role of an object in the newest version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A log segment that is not folded yet.
    Log,
    /// A folded log segment; the next garbage collection deletes it.
    Folded,
    /// A log segment that folds could not read. It is kept until it can be read or is given up.
    Quarantined,
    /// A file of the newest version; its next merge removes deleted rows.
    Live,
    /// Not a file of the newest version: replaced, dropped, or never named. Garbage collection deletes it after the
    /// grace period.
    Unnamed,
}

/// An object that holds some of the rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Holder {
    /// Key of the object.
    pub key: String,
    /// Role in the newest version.
    pub state: State,
    /// Number of matching rows; for a tag manifest, all rows of the matching series whose time range overlaps the
    /// wanted one.
    pub rows: u64,
    /// Why the object cannot be read; it may then hold any rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

/// Searches the objects under `log/` and those of the table under `data/` for rows of a table, read-only. Memory is
/// bounded by the listings, the table's file lists, and the largest log segment, tag manifest and batch of a data file.
/// An object that vanishes during the search is skipped.
///
/// Ignores deletes: finds deleted rows that are still in an object.
///
/// # Errors
/// [`Kind::Unavailable`]; as [`Root::files`]. An object that cannot be decoded is returned as a holder, not as an
/// error.
pub async fn holders(root: &Root, table: &Supertable, precision: Precision, wanted: &Wanted) -> Result<Vec<Holder>> {
    let catalog = root.refresh().await?;
    let mut live: HashSet<FileId> = HashSet::new();
    let partitions: Vec<i64> = catalog.partitions(table.id).map(|(partition, _)| partition).collect();
    for partition in partitions {
        let named = |f: &FileEntry| [f.data.id, f.tags.id];
        live.extend(root.files(&catalog, table.id, partition).await?.iter().flat_map(named));
    }
    let store = root.store();
    let mut found: BTreeMap<String, Holder> = BTreeMap::new();
    let mut note = |key: &str, state, rows: Result<u64>| {
        let (rows, unreadable) = match rows {
            Ok(0) => return Ok(()),
            Ok(rows) => (rows, None),
            Err(e) if e.kind() == Kind::NotFound => return Ok(()),
            Err(e) if matches!(e.kind(), Kind::Corrupt | Kind::Unsupported) => (0, Some(e.to_string())),
            Err(e) => return Err(e),
        };
        found.insert(key.to_owned(), Holder { key: key.to_owned(), state, rows, unreadable });
        Ok(())
    };
    for meta in store.list_by_digit(layout::LOG).await? {
        let key = meta.location.as_ref();
        let Some(position) = layout::parse_log(key) else { continue };
        let state = match catalog.watermark(position.writer).filter(|watermark| position.seq < watermark.next) {
            None => State::Log,
            Some(watermark) if watermark.faulty(position.seq).is_some() => State::Quarantined,
            Some(_) => State::Folded,
        };
        note(key, state, in_segment(store, key, table.id, wanted).await)?;
    }
    for meta in store.list(&format!("{}/{}", layout::DATA, table.id.0)).await? {
        let key = meta.location.as_ref();
        let Some(parsed) = layout::parse_data(key).filter(|k| k.table == table.id) else { continue };
        let state = if live.contains(&parsed.id) { State::Live } else { State::Unnamed };
        match (parsed.part, state) {
            (Part::Data, _) => note(key, state, in_file(store, key, meta.size, table, precision, wanted).await)?,
            // A live file's manifest covers only rows of its data file.
            (Part::Tags, State::Unnamed) => note(key, state, in_manifest(store, key, wanted).await)?,
            (Part::Tags | Part::Rollup, _) => {}
        }
    }
    Ok(found.into_values().collect())
}

async fn in_segment(store: &Store, key: &str, table: TableId, wanted: &Wanted) -> Result<u64> {
    let segment = segment::decode(key, &store.get(key).await?)?;
    let mut rows = 0;
    for block in segment.blocks.iter().filter(|b| b.table == table) {
        let names: Vec<bool> = block.series.names().iter().flatten().map(|name| wanted.has(name)).collect();
        let (series, ticks) = (series_of(&block.rows)?, ticks_of(&block.rows)?);
        let hit = |(s, ts): &(&u32, &i64)| names[**s as usize] && wanted.meets(**ts, **ts);
        rows += series.iter().zip(ticks).filter(hit).count() as u64;
    }
    Ok(rows)
}

async fn in_file(
    store: &Store,
    key: &str,
    bytes: u64,
    table: &Supertable,
    precision: Precision,
    wanted: &Wanted,
) -> Result<u64> {
    let file = DataFile::open(store, key, bytes).await?;
    let fields = [tbname_field(), table.time().field(precision)];
    let mut batches = std::pin::pin!(file.read(store, vec![0..file.rows()], &fields, BATCH)?);
    let mut rows = 0;
    while let Some(batch) = batches.try_next().await? {
        let names = batch.column(0).as_string::<i32>();
        let hit = |(name, ts): &(Option<&str>, &i64)| name.is_some_and(|n| wanted.has(n)) && wanted.meets(**ts, **ts);
        rows += names.iter().zip(ticks_of(&batch)?).filter(hit).count() as u64;
    }
    Ok(rows)
}

async fn in_manifest(store: &Store, key: &str, wanted: &Wanted) -> Result<u64> {
    let manifest = TagManifest::decode(key, &store.get(key).await?)?;
    let names = manifest.series().names().iter().flatten().enumerate();
    let meant =
        names.filter(|(i, name)| wanted.has(name) && wanted.meets(manifest.min_ts()[*i], manifest.max_ts()[*i]));
    Ok(meant.map(|(i, _)| manifest.row_count()[i]).sum())
}
