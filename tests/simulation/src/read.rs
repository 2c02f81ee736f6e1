//! Reads a snapshot by the rules of the format, without a query engine: files by order, then the log; the newest value
//! of each column wins.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, AsArray, PrimitiveArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, FieldRef, Int64Type, UInt32Type},
};
use futures::TryStreamExt;
use tidelake_format::{
    Error, Result,
    ids::WriterId,
    layout::data_key,
    meta::Root,
    rows::{Block, SeriesSet},
    schema::{Supertable, Tombstone, field_id},
    snapshot::Snapshot,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::model::{Rows, Sites};

/// The database of every run.
pub const DATABASE: &str = "db";

/// Content of a table: its rows, and the tag `site` of each series with rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    /// The rows.
    pub rows: Rows,
    /// The tags.
    pub sites: Sites,
}

/// The content of a table; empty if the table does not exist.
///
/// # Errors
/// Those of the store; Internal with the key that a file holds twice.
pub async fn content(root: &Root, snapshot: &Snapshot, table: &str) -> Result<Content> {
    let (catalog, store) = (&snapshot.catalog, root.store());
    let Some(database) = catalog.database(DATABASE) else { return Ok(Content::default()) };
    let Some(table) = catalog.table(database.id, table) else { return Ok(Content::default()) };
    let mut reading = Reading { table, content: Content::default() };
    let schema = Block::rows_schema(table, database.precision);
    let fields: Vec<FieldRef> = schema.fields().iter().skip(1).cloned().collect();
    let mut files = Vec::new();
    for (partition, _) in catalog.partitions(table.id) {
        files.extend(root.files(catalog, table.id, partition).await?.iter().cloned());
    }
    files.sort_by_key(|f| f.order);
    for entry in files {
        let manifest = entry.tag_manifest(store, table.id).await?;
        let key = data_key(table.id, entry.partition, entry.data.id);
        let file = entry.data_file(store, table.id).await?;
        let of: Vec<usize> =
            (0..manifest.len()).flat_map(|i| std::iter::repeat_n(i, manifest.row_count()[i] as usize)).collect();
        if file.rows() != entry.rows || of.len() as u64 != entry.rows {
            return Err(Error::internal("a file, its manifest and its entry count differently").with("key", key));
        }
        let deletes: Vec<&Tombstone> = table.tombstones.iter().filter(|t| entry.clean < t.version).collect();
        let batches: Vec<RecordBatch> = file.read(store, vec![0..entry.rows], &fields, 1 << 16)?.try_collect().await?;
        let (mut at, mut keys) = (0, BTreeSet::new());
        for batch in batches {
            let of = &of[at..at + batch.num_rows()];
            at += batch.num_rows();
            if reading.add(manifest.series(), of, &batch, &deletes, |key| !keys.insert(key))? {
                return Err(Error::internal("a file holds a row twice").with("key", &key));
            }
        }
    }
    for (segment, block) in snapshot.blocks(table.id)? {
        let of = block.rows.column(0).as_primitive::<UInt32Type>().values();
        let of: Vec<usize> = of.iter().map(|i| *i as usize).collect();
        let columns: Vec<usize> = (1..block.rows.num_columns()).collect();
        let deletes: Vec<&Tombstone> =
            table.tombstones.iter().filter(|t| t.positions.contains(&segment.position)).collect();
        reading.add(&block.series, &of, &block.rows.project(&columns)?, &deletes, |_| false)?;
    }
    Ok(reading.content)
}

struct Reading<'a> {
    table: &'a Supertable,
    content: Content,
}

impl Reading<'_> {
    /// Adds newer rows except deleted ones; reports whether `is_twice` held for one.
    fn add(
        &mut self,
        series: &SeriesSet,
        of: &[usize],
        batch: &RecordBatch,
        deletes: &[&Tombstone],
        mut is_twice: impl FnMut((String, i64)) -> bool,
    ) -> Result<bool> {
        let table = self.table;
        let column = |name: &str| table.tags().find(|t| t.name == name).map(|t| t.id);
        let tag = |name: &str| column(name).and_then(|id| series.tag(id)).map(|t| cast(t, &DataType::Utf8)).transpose();
        let (Some(dev), site) = (tag("dev")?, tag("site")?) else { return Ok(false) };
        let dev = dev.as_string::<i32>();
        let numbers =
            batch.columns().iter().map(|c| Ok(cast(c, &DataType::Int64)?)).collect::<Result<Vec<ArrayRef>>>()?;
        // Columns are identified by ID: a dropped and recreated column is a new column.
        let schema = batch.schema();
        let fields = schema.fields().iter().zip(&numbers).skip(1);
        let fields: Vec<(&str, &PrimitiveArray<Int64Type>)> = fields
            .filter_map(|(field, column)| {
                let known = field_id(field).and_then(|id| table.column_by_id(id))?;
                Some((known.name.as_str(), column.as_primitive::<Int64Type>()))
            })
            .collect();
        let mut twice = false;
        for (row, s) in of.iter().enumerate() {
            let ts = numbers[0].as_primitive::<Int64Type>().value(row);
            let name = series.names().value(*s);
            twice |= is_twice((name.to_owned(), ts));
            let is_named = |t: &Tombstone| t.series.as_ref().is_none_or(|names| names.iter().any(|n| n == name));
            if deletes.iter().any(|t| (t.range.0..=t.range.1).contains(&ts) && is_named(t)) {
                continue;
            }
            let device = dev.value(*s).to_owned();
            // A tag that was set wins, else the oldest value of the rows.
            let set = table.overrides.get(name).and_then(|tags| tags.get(&column("site")?));
            let brought = site.as_ref().map_or("", |site| site.as_string::<i32>().value(*s));
            let found = match set {
                Some(value) => value.as_ref().map(ToString::to_string).unwrap_or_default(),
                None => brought.to_owned(),
            };
            self.content.sites.entry(device.clone()).or_insert(found);
            let known = self.content.rows.entry((device, ts)).or_default();
            for (name, column) in &fields {
                if column.is_valid(row) {
                    known.insert((*name).to_owned(), column.value(row));
                }
            }
        }
        Ok(twice)
    }
}

/// Identity of a snapshot's content, independent of what is in the log or in files: the definitions, and the position
/// in each writer's log. Snapshots with the same identity have the same rows.
pub fn identity(snapshot: &Snapshot) -> String {
    let mut writers: BTreeMap<WriterId, u64> = snapshot.catalog.watermarks().map(|(w, m)| (w, m.next)).collect();
    let voids: Vec<(WriterId, &[u64])> =
        snapshot.catalog.watermarks().filter(|(_, m)| !m.voids.is_empty()).map(|(w, m)| (w, &m.voids[..])).collect();
    for segment in &snapshot.tail {
        let next = writers.entry(segment.position.writer).or_default();
        *next = (*next).max(segment.position.seq + 1);
    }
    let database = snapshot.catalog.database(DATABASE);
    let tables: Vec<&Arc<Supertable>> = database.iter().flat_map(|d| snapshot.catalog.tables(d.id)).collect();
    format!("{writers:?} {voids:?} {tables:?}")
}

/// A digest of a content.
pub fn digest(content: &Content) -> u64 {
    xxh3_64(format!("{content:?}").as_bytes())
}
