//! Looks at a snapshot by the rules of the format alone, without a query engine: files by order, then the log; the
//! newest value of each column wins.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow::{
    array::{Array, ArrayRef, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, FieldRef, Int64Type, UInt32Type},
};
use futures::TryStreamExt;
use tidelake_format::{
    Error, Result,
    file::DataFile,
    ids::WriterId,
    layout::{data_key, tags_key},
    meta::Root,
    rows::{Block, SeriesSet},
    schema::Supertable,
    snapshot::Snapshot,
    tags::TagManifest,
};
use xxhash_rust::xxh3::xxh3_64;

use crate::model::Rows;

/// The database of every run.
pub const DATABASE: &str = "db";

/// The rows of a table; none where there is no such table.
///
/// # Errors
/// Those of the store; Internal naming the key that a file holds twice.
pub async fn rows(root: &Root, snapshot: &Snapshot, table: &str) -> Result<Rows> {
    let (catalog, store) = (&snapshot.catalog, root.store());
    let mut rows = Rows::new();
    let Some(database) = catalog.database(DATABASE) else { return Ok(rows) };
    let Some(table) = catalog.table(database.id, table) else { return Ok(rows) };
    let schema = Block::rows_schema(table, database.precision);
    let fields: Vec<FieldRef> = schema.fields().iter().skip(1).cloned().collect();
    for (partition, _) in catalog.partitions(table.id) {
        let mut files = root.files(catalog, table.id, partition).await?.to_vec();
        files.sort_by_key(|f| f.order);
        for entry in files {
            let key = tags_key(table.id, partition, entry.tags.id);
            let manifest = TagManifest::decode(&key, &store.get(&key).await?)?;
            let key = data_key(table.id, partition, entry.data.id);
            let file = DataFile::open(store, &key, entry.data.bytes).await?;
            let of: Vec<usize> =
                (0..manifest.len()).flat_map(|i| std::iter::repeat_n(i, manifest.row_count()[i] as usize)).collect();
            if file.rows() != entry.rows || of.len() as u64 != entry.rows {
                return Err(Error::internal("a file, its manifest and its entry count differently").with("key", key));
            }
            let batches: Vec<RecordBatch> =
                file.read(store, vec![0..entry.rows], &fields, 1 << 16)?.try_collect().await?;
            let (mut at, mut keys) = (0, BTreeSet::new());
            for batch in batches {
                let of = &of[at..at + batch.num_rows()];
                at += batch.num_rows();
                let twice = add(&mut rows, table, manifest.series(), of, &batch, |key| !keys.insert(key))?;
                if twice {
                    return Err(Error::internal("a file holds a row twice").with("key", &key));
                }
            }
        }
    }
    for (_, block) in snapshot.blocks(table.id)? {
        let of = block.rows.column(0).as_primitive::<UInt32Type>().values();
        let of: Vec<usize> = of.iter().map(|i| *i as usize).collect();
        let columns: Vec<usize> = (1..block.rows.num_columns()).collect();
        add(&mut rows, table, &block.series, &of, &block.rows.project(&columns)?, |_| false)?;
    }
    Ok(rows)
}

/// Adds newer rows; tells whether `is_twice` said so of one.
fn add(
    rows: &mut Rows,
    table: &Supertable,
    series: &SeriesSet,
    of: &[usize],
    batch: &RecordBatch,
    mut is_twice: impl FnMut((String, i64)) -> bool,
) -> Result<bool> {
    let dev = table.tags().find(|t| t.name == "dev").and_then(|t| series.tag(t.id));
    let Some(dev) = dev else { return Ok(false) };
    let dev = cast(dev, &DataType::Utf8)?;
    let dev = dev.as_string::<i32>();
    let numbers = batch.columns().iter().map(|c| Ok(cast(c, &DataType::Int64)?)).collect::<Result<Vec<ArrayRef>>>()?;
    let mut twice = false;
    for (row, s) in of.iter().enumerate() {
        let key = (dev.value(*s).to_owned(), numbers[0].as_primitive::<Int64Type>().value(row));
        twice |= is_twice(key.clone());
        let known = rows.entry(key).or_default();
        for (field, column) in batch.schema().fields().iter().zip(&numbers).skip(1) {
            // A column is known by its id: one that was dropped and made again is another one.
            let name = tidelake_format::schema::field_id(field).and_then(|id| table.column_by_id(id));
            if let Some(name) = name.filter(|_| column.is_valid(row)) {
                known.insert(name.name.clone(), column.as_primitive::<Int64Type>().value(row));
            }
        }
    }
    Ok(twice)
}

/// What a snapshot holds, whatever of it lies in the log and whatever in files: the definitions, and how far each
/// writer's log is in it. Snapshots of the same content give the same rows.
pub fn content(snapshot: &Snapshot) -> String {
    let mut writers: BTreeMap<WriterId, u64> = snapshot.catalog.watermarks().map(|(w, m)| (w, m.next)).collect();
    for segment in &snapshot.tail {
        let next = writers.entry(segment.position.writer).or_default();
        *next = (*next).max(segment.position.seq + 1);
    }
    let database = snapshot.catalog.database(DATABASE);
    let tables: Vec<&Arc<Supertable>> = database.iter().flat_map(|d| snapshot.catalog.tables(d.id)).collect();
    format!("{writers:?} {tables:?}")
}

/// A digest of rows.
pub fn digest(rows: &Rows) -> u64 {
    xxh3_64(format!("{rows:?}").as_bytes())
}
