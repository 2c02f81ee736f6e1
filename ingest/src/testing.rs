//! Shared test helpers: handles over fresh roots, and a simple reader of everything in a root.

#![allow(clippy::unwrap_used)]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow::{
    array::{Array, AsArray, RecordBatch},
    buffer::BooleanBuffer,
    compute::cast,
    datatypes::{DataType, FieldRef, UInt32Type},
    util::display::{ArrayFormatter, FormatOptions},
};
use futures::TryStreamExt;
use tidelake_format::{
    file::DataFile,
    ids::Token,
    layout::{data_key, tags_key},
    merge::Deletes,
    meta::{Draft, FaultySegment, Root},
    rows::{Block, SeriesSet, ticks},
    schema::field_id,
    snapshot::{SnapshotOptions, SnapshotReader},
    store::Store,
    tags::TagManifest,
};

use crate::{
    config::{CompactConfig, IngestConfig},
    write::Ingest,
};

/// Rows by (series, ticks): the non-null values by column name, tags as `#name`.
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

/// Backdates the first reads of unreadable segments.
pub(crate) async fn faults_seen_earlier(root: &Root) {
    let earlier = |draft: &mut Draft| {
        let known = draft.catalog().watermarks().find(|(_, w)| !w.faulty.is_empty());
        let (writer, mut watermark) = known.map(|(writer, w)| (writer, w.clone())).unwrap();
        watermark.faulty.iter_mut().for_each(|f| f.read_ms -= FaultySegment::READS_APART_MS);
        draft.set_watermark(writer, watermark);
        Ok(())
    };
    root.commit(&[], earlier).await.unwrap();
}

/// A handle with a database `db` in nanoseconds that keeps rows since 1970 for longer than these tests will be run.
pub(crate) async fn nano(store: &Store, config: IngestConfig) -> Ingest {
    let ingest = open(store, config).await;
    let create = "create database if not exists db precision 'ns' keep 73000d";
    ingest.execute(None, create, None).await.unwrap();
    ingest
}

/// Every row of a table, by the reading rules alone: files by order, then the log, without deleted rows; the newest value of
/// each column wins.
pub(crate) async fn rows(store: &Store, database: &str, table: &str, tokens: &[Token]) -> Rows {
    read(store, database, table, tokens).await.0
}

/// Contents of a table.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// Tags of every existing series, by name: `#name` → value.
    pub(crate) series: BTreeMap<String, BTreeMap<String, String>>,
    /// Rows of files, deleted ones included.
    pub(crate) in_files: BTreeSet<(String, i64)>,
    /// The existing series of each file, with the tags shown for them.
    pub(crate) shown: Vec<(String, BTreeMap<String, String>)>,
    /// Number of remaining tombstones.
    pub(crate) tombstones: usize,
}

/// Every row of a table, as [`rows`], and its other contents.
pub(crate) async fn read(store: &Store, database: &str, table: &str, tokens: &[Token]) -> (Rows, Held) {
    let root = Root::open(store.clone()).await.unwrap();
    let options = SnapshotOptions { max_staleness: Some(std::time::Duration::ZERO), ..SnapshotOptions::default() };
    let snapshot = SnapshotReader::new(root.clone(), options).snapshot(tokens).await.unwrap();
    let catalog = &snapshot.catalog;
    let db = catalog.database(database).unwrap();
    let table = catalog.table(db.id, table).unwrap();
    let schema = Block::rows_schema(table, db.precision);
    let fields: Vec<FieldRef> = schema.fields().iter().skip(1).cloned().collect();
    let (mut rows, mut held) = (Rows::new(), Held { tombstones: table.tombstones.len(), ..Held::default() });
    let mut sources: Vec<(SeriesSet, Vec<bool>)> = Vec::new();
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
            let deletes = Deletes::of_file(table, entry.clean);
            let gone = deletes.gone(manifest.series());
            sources.push((manifest.series().clone(), exists(manifest.len(), gone)));
            let mut at = 0;
            let batches: Vec<RecordBatch> =
                file.read(store, vec![0..entry.rows], &fields, 1 << 16).unwrap().try_collect().await.unwrap();
            for batch in batches {
                let n = batch.num_rows();
                let names = manifest.series().names();
                let ts = ticks(batch.column(0)).unwrap();
                held.in_files.extend((0..n).map(|i| (names.value(of[at + i]).to_owned(), ts[i])));
                add(&mut rows, &deletes, manifest.series(), &of[at..at + n], &batch);
                at += n;
            }
        }
    }
    let in_files = sources.len();
    for (segment, block) in snapshot.blocks(table.id).unwrap() {
        let deletes = Deletes::of_segment(table, segment.position);
        sources.push((block.series.clone(), exists(block.series.len(), deletes.gone(&block.series))));
        let of = block.rows.column(0).as_primitive::<UInt32Type>().values();
        let of: Vec<usize> = of.iter().map(|i| *i as usize).collect();
        let block_schema = block.rows.schema();
        let known = |at: &usize| field_id(block_schema.field(*at)).is_some_and(|id| table.column_by_id(id).is_some());
        let columns: Vec<usize> = (1..block.rows.num_columns()).filter(known).collect();
        add(&mut rows, &deletes, &block.series, &of, &block.rows.project(&columns).unwrap());
    }
    for (n, (set, exists)) in sources.iter().enumerate() {
        for i in (0..set.len()).filter(|i| exists[*i]) {
            let name = set.names().value(i);
            let mut shown = BTreeMap::new();
            for tag in table.tags() {
                let of = format!("#{}", tag.name);
                match table.overrides.get(name).and_then(|tags| tags.get(&tag.id)) {
                    Some(Some(value)) => drop(shown.insert(of, value.to_string())),
                    Some(None) => {}
                    None => {
                        if let Some(values) = set.tag(tag.id).filter(|v| v.is_valid(i)) {
                            shown.insert(of, print(values, i));
                        }
                    }
                }
            }
            let tags = held.series.entry(name.to_owned()).or_default();
            for (tag, value) in &shown {
                tags.entry(tag.clone()).or_insert_with(|| value.clone());
            }
            if n < in_files {
                held.shown.push((name.to_owned(), shown));
            }
        }
    }
    for ((series, _), row) in &mut rows {
        row.extend(held.series[series].clone());
    }
    (rows, held)
}

fn exists(n: usize, gone: Option<BooleanBuffer>) -> Vec<bool> {
    (0..n).map(|i| gone.as_ref().is_none_or(|gone| !gone.value(i))).collect()
}

fn print(array: &dyn Array, i: usize) -> String {
    ArrayFormatter::try_new(array, &FormatOptions::default()).unwrap().value(i).to_string()
}

fn add(rows: &mut Rows, deletes: &Deletes<'_>, series: &SeriesSet, of: &[usize], batch: &RecordBatch) {
    let plain = |array: &Arc<dyn Array>| match array.data_type() {
        DataType::Timestamp(..) => cast(array, &DataType::Int64).unwrap(),
        _ => array.clone(),
    };
    let columns: Vec<_> = batch.columns().iter().map(plain).collect();
    let value = print;
    for (row, s) in of.iter().enumerate() {
        let ts: i64 = value(&columns[0], row).parse().unwrap();
        let name = series.names().value(*s);
        if deletes.tombstones().iter().any(|t| t.meets(ts, ts) && t.names(name)) {
            continue;
        }
        let key = (name.to_owned(), ts);
        let known = rows.entry(key).or_default();
        for (field, column) in batch.schema().fields().iter().zip(&columns).skip(1) {
            if column.is_valid(row) {
                known.insert(field.name().clone(), value(column, row));
            }
        }
    }
}

/// Number of data files of a table.
pub(crate) async fn files(store: &Store, database: &str, table: &str) -> u64 {
    let root = Root::open(store.clone()).await.unwrap();
    let catalog = root.refresh().await.unwrap();
    let table = catalog.table(catalog.database(database).unwrap().id, table).unwrap().id;
    catalog.partitions(table).map(|(_, s)| s.files).sum()
}
