//! What the tests of this crate share: handles over fresh roots, and a plain reader of everything that a root holds.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Array, AsArray, RecordBatch},
    compute::cast,
    datatypes::{DataType, FieldRef, UInt32Type},
    util::display::{ArrayFormatter, FormatOptions},
};
use futures::TryStreamExt;
use tidelake_format::{
    file::DataFile,
    ids::Token,
    layout::{data_key, tags_key},
    meta::Root,
    rows::{Block, SeriesSet},
    schema::Supertable,
    snapshot::{SnapshotOptions, SnapshotReader},
    store::Store,
    tags::TagManifest,
};

use crate::{
    config::{CompactConfig, IngestConfig},
    write::Ingest,
};

/// Rows by (series, ticks): the values that are not null by column name, tags as `#name`.
pub(crate) type Rows = BTreeMap<(String, i64), BTreeMap<String, String>>;

/// Settings without background tasks or margins.
pub(crate) fn config() -> IngestConfig {
    let compact = CompactConfig { background: false, fold_margin_ms: Some(0), ..CompactConfig::default() };
    IngestConfig { compact, ..IngestConfig::default() }
}

pub(crate) async fn open(store: &Store, config: IngestConfig) -> Ingest {
    let root = Root::open(store.clone()).await.unwrap();
    Ingest::open(root, config).await.unwrap()
}

pub(crate) async fn memory() -> (Store, Ingest) {
    let store = Store::in_memory();
    let ingest = open(&store, config()).await;
    (store, ingest)
}

/// A handle with a database `db` in nanoseconds that keeps rows from 1970 on for as long as these tests will run.
pub(crate) async fn nano(store: &Store, config: IngestConfig) -> Ingest {
    let ingest = open(store, config).await;
    let create = "create database if not exists db precision 'ns' keep 73000d";
    ingest.execute(None, create, None).await.unwrap();
    ingest
}

/// Every row of a table, as a reader that knows nothing but the rules sees it: files by order, then the log; the newest
/// value of each column wins.
pub(crate) async fn rows(store: &Store, database: &str, table: &str, tokens: &[Token]) -> Rows {
    let root = Root::open(store.clone()).await.unwrap();
    let options = SnapshotOptions { max_staleness: Some(std::time::Duration::ZERO), ..SnapshotOptions::default() };
    let snapshot = SnapshotReader::new(root.clone(), options).snapshot(tokens).await.unwrap();
    let catalog = &snapshot.catalog;
    let db = catalog.database(database).unwrap();
    let table = catalog.table(db.id, table).unwrap();
    let schema = Block::rows_schema(table, db.precision);
    let fields: Vec<FieldRef> = schema.fields().iter().skip(1).cloned().collect();
    let mut rows = Rows::new();
    for (partition, _) in catalog.partitions(table.id) {
        let mut files = root.files(catalog, table.id, partition).await.unwrap().to_vec();
        files.sort_by_key(|f| f.order);
        for entry in files {
            let key = tags_key(table.id, partition, entry.tags.id);
            let manifest = TagManifest::decode(&key, &store.get(&key).await.unwrap()).unwrap();
            let key = data_key(table.id, partition, entry.data.id);
            let file = DataFile::open(store, &key, entry.data.bytes).await.unwrap();
            assert_eq!(file.rows(), entry.rows);
            let of: Vec<usize> =
                (0..manifest.len()).flat_map(|i| std::iter::repeat_n(i, manifest.row_count()[i] as usize)).collect();
            let mut at = 0;
            let batches: Vec<RecordBatch> =
                file.read(store, vec![0..entry.rows], &fields, 1 << 16).unwrap().try_collect().await.unwrap();
            for batch in batches {
                let n = batch.num_rows();
                add(&mut rows, table, manifest.series(), &of[at..at + n], &batch);
                at += n;
            }
        }
    }
    for (_, block) in snapshot.blocks(table.id).unwrap() {
        let of = block.rows.column(0).as_primitive::<UInt32Type>().values();
        let of: Vec<usize> = of.iter().map(|i| *i as usize).collect();
        let columns: Vec<usize> = (1..block.rows.num_columns()).collect();
        add(&mut rows, table, &block.series, &of, &block.rows.project(&columns).unwrap());
    }
    rows
}

fn add(rows: &mut Rows, table: &Supertable, series: &SeriesSet, of: &[usize], batch: &RecordBatch) {
    let plain = |array: &Arc<dyn Array>| match array.data_type() {
        DataType::Timestamp(..) => cast(array, &DataType::Int64).unwrap(),
        _ => array.clone(),
    };
    let columns: Vec<_> = batch.columns().iter().map(plain).collect();
    let options = FormatOptions::default();
    for (row, s) in of.iter().enumerate() {
        let value =
            |array: &dyn Array, i: usize| ArrayFormatter::try_new(array, &options).unwrap().value(i).to_string();
        let ts: i64 = value(&columns[0], row).parse().unwrap();
        let key = (series.names().value(*s).to_owned(), ts);
        let known = rows.entry(key).or_default();
        for (field, column) in batch.schema().fields().iter().zip(&columns).skip(1) {
            if column.is_valid(row) {
                known.insert(field.name().clone(), value(column, row));
            }
        }
        for tag in table.tags() {
            if let Some(values) = series.tag(tag.id).filter(|v| v.is_valid(*s)) {
                known.entry(format!("#{}", tag.name)).or_insert_with(|| value(values, *s));
            }
        }
    }
}

/// How many data files a table has.
pub(crate) async fn files(store: &Store, database: &str, table: &str) -> u64 {
    let root = Root::open(store.clone()).await.unwrap();
    let catalog = root.refresh().await.unwrap();
    let table = catalog.table(catalog.database(database).unwrap().id, table).unwrap().id;
    catalog.partitions(table).map(|(_, s)| s.files).sum()
}
