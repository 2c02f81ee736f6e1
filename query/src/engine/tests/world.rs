//! Random states of a table, written directly in the storage formats, with the rows that they represent.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use arrow::{
    array::{
        ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray,
        UInt32Array,
    },
    datatypes::Schema,
};
use rand::{Rng, SeedableRng, rngs::StdRng};
use tidelake_format::{
    file::{DataFileOptions, DataFileWriter},
    ids::{FileId, Position, TableId, WriterId},
    layout::{data_key, log_key, rollup_key, tags_key},
    merge::{series_order, sort_newest},
    meta::{FileEntry, Root},
    rollup::RollupOptions,
    rows::{Block, SeriesSet},
    schema::{Covers, Database, Role, Supertable, Tombstone},
    segment::{Compression, SegmentHeader, encode},
    store::Store,
    types::{Precision, Scalar, Type},
};

/// The first time, in milliseconds.
pub(super) const START: i64 = 1_600_000_000_000;
/// Times are START + 0..STEPS seconds.
pub(super) const STEPS: i64 = 40;
const PARTITION_MS: i64 = 15_000;
const SERIES: usize = 6;

/// The fields of a row: a INT or BIGINT, b DOUBLE, c BINARY.
pub(super) type Values = (Option<i32>, Option<f64>, Option<String>);
/// The tags of a series: g INT, s BINARY.
pub(super) type Tags = (Option<i32>, Option<String>);

/// A root with one table `db.t`, and its contents.
pub(super) struct World {
    pub(super) root: Root,
    pub(super) rows: BTreeMap<(String, i64), Values>,
    pub(super) tags: BTreeMap<String, Tags>,
    database: Arc<Database>,
    table: TableId,
    writer: WriterId,
    next: u64,
    start_ms: i64,
    /// The fraction of files that have rollups, of 5 s.
    rolled: f64,
}

type Row = (usize, i64, Values);

fn name(series: usize) -> String {
    format!("d{series}")
}

impl World {
    /// The state of a seed: some data files, deletes and overrides, then some log segments.
    pub(super) async fn random(seed: u64) -> World {
        Self::random_in(Store::in_memory(), seed).await
    }

    /// The same in a given store.
    pub(super) async fn random_in(store: Store, seed: u64) -> World {
        let mut rng = StdRng::seed_from_u64(seed);
        let a = if seed.is_multiple_of(2) { Type::Int } else { Type::BigInt };
        let mut world = Self::empty(&mut rng, store, a).await;
        for _ in 0..rng.random_range(0..4) {
            world.file(&mut rng).await;
            world.sometimes_change(&mut rng).await;
        }
        // Older files lack the column c, newer ones have it.
        world.add_column("c", Type::Binary(None)).await;
        for _ in 0..rng.random_range(0..3) {
            world.file(&mut rng).await;
            world.sometimes_change(&mut rng).await;
        }
        for _ in 0..rng.random_range(0..4) {
            world.segment(&mut rng).await;
            world.sometimes_change(&mut rng).await;
        }
        world
    }

    /// Every series with a row at every step in one fold's files, without rollups, and nothing in the log.
    pub(super) async fn regular() -> World {
        Self::regular_with(0.0).await
    }

    /// The same with a rollup for each file.
    pub(super) async fn rolled() -> World {
        Self::regular_with(1.0).await
    }

    /// [`World::rolled`] plus a table `u` with the same series and times but other values.
    pub(super) async fn two_tables() -> World {
        let mut world = Self::rolled().await;
        let columns = world.supertable().columns.iter().map(|c| (c.name.clone(), c.role, c.ty)).collect::<Vec<_>>();
        let (database, first) = (world.database.id, world.table);
        let create = world.root.commit(&[], |draft| Ok(draft.create_table(database, "u", columns.clone())?.id));
        world.table = create.await.unwrap().0;
        let row = |series, step| (series, START + step * 1_000, (Some(step as i32 + 7), Some(step as f64), None));
        let rows = (0..SERIES).flat_map(|series| (0..STEPS).map(move |step| row(series, step))).collect();
        world.write_files(&mut StdRng::seed_from_u64(1), rows).await;
        world.table = first;
        world
    }

    async fn regular_with(rolled: f64) -> World {
        let mut rng = StdRng::seed_from_u64(0);
        let mut world = Self { rolled, ..Self::empty(&mut rng, Store::in_memory(), Type::Int).await };
        let row = |series, step| (series, START + step * 1_000, (Some(step as i32), Some(step as f64 / 4.0), None));
        let rows: Vec<Row> = (0..SERIES).flat_map(|series| (0..STEPS).map(move |step| row(series, step))).collect();
        world.take(&rows);
        world.write_files(&mut rng, rows).await;
        world
    }

    /// A table without rows, whose column a is of this type.
    async fn empty(rng: &mut StdRng, store: Store, a: Type) -> World {
        let root = Root::open(store).await.unwrap();
        let columns = [
            ("ts", Role::Time, Type::Timestamp),
            ("a", Role::Field, a),
            ("b", Role::Field, Type::Double),
            ("g", Role::Tag, Type::Int),
            ("s", Role::Tag, Type::Binary(None)),
        ];
        let columns = columns.map(|(n, r, t)| (n.to_owned(), r, t));
        let ((database, table), _) = root
            .commit(&[], |draft| {
                let database =
                    draft.create_database("db", Precision::Milli, Database::DEFAULT_KEEP_MS, PARTITION_MS)?;
                let table = draft.create_table(database.id, "t", columns.clone())?;
                Ok((database, table.id))
            })
            .await
            .unwrap();
        let tags = (0..SERIES).map(|i| (name(i), original(i)));
        let writer = WriterId::random(rng);
        let start_ms = root.store().ambient().wall_ms();
        let (rows, tags) = (BTreeMap::new(), tags.collect());
        World { root, rows, tags, database, table, writer, next: 0, start_ms, rolled: 0.7 }
    }

    /// Number of partitions with files.
    pub(super) fn partitions(&self) -> usize {
        self.root.catalog().partitions(self.table).count()
    }

    pub(super) async fn add_column(&mut self, name: &str, ty: Type) {
        self.alter(|t| t.add_column(name, Role::Field, ty).map(|_| ())).await;
    }

    fn supertable(&self) -> Arc<Supertable> {
        self.root.catalog().table_by_id(self.table).unwrap().clone()
    }

    async fn alter(&self, change: impl Fn(&mut Supertable) -> tidelake_format::Result<()> + Send + Sync) {
        let id = self.table;
        let alter = self.root.commit(&[], |draft| {
            let mut table = draft.catalog().table_by_id(id).unwrap().as_ref().clone();
            change(&mut table)?;
            draft.put_table(table)
        });
        alter.await.unwrap();
    }

    /// Sometimes deletes, or sets a tag with ALTER.
    async fn sometimes_change(&mut self, rng: &mut StdRng) {
        match rng.random_range(0..8) {
            0 => {
                let from = START + rng.random_range(0..STEPS) * 1_000;
                let to = from + rng.random_range(0..8_000);
                let series = rng.random_bool(0.7).then(|| vec![name(rng.random_range(0..SERIES)), "nobody".to_owned()]);
                let version = self.root.catalog().version.next();
                let positions = (0..self.next).map(|seq| Position { writer: self.writer, seq }).collect::<Vec<_>>();
                let tombstone =
                    Tombstone { version, series: series.clone(), range: (from, to), positions, covers: Covers::Rows };
                self.alter(|t| {
                    t.tombstones.push(tombstone.clone());
                    Ok(())
                })
                .await;
                let hit = |n: &String| series.as_ref().is_none_or(|s| s.contains(n));
                self.rows.retain(|(n, ts), _| !(hit(n) && (from..=to).contains(ts)));
            }
            1 => {
                let series = name(rng.random_range(0..SERIES));
                let g = rng.random_bool(0.7).then(|| rng.random_range(0..4));
                let of = series.clone();
                self.alter(|t| {
                    let column = t.column("g").unwrap().id;
                    let value = g.map(|g| Scalar::Int(i64::from(g)));
                    t.overrides.entry(of.clone()).or_default().insert(column, value);
                    Ok(())
                })
                .await;
                self.tags.get_mut(&series).unwrap().0 = g;
            }
            _ => (),
        }
    }

    /// Random rows. The model applies them in order; values that are not NULL overwrite.
    fn rows(&mut self, rng: &mut StdRng) -> Vec<Row> {
        let wide = self.supertable().column("c").is_some();
        let some: Vec<usize> = (0..SERIES).filter(|_| rng.random_bool(0.6)).collect();
        let from = rng.random_range(0..STEPS);
        let to = rng.random_range(from..STEPS) + 1;
        let dense = rng.random_bool(0.3);
        // Columns without NULL are stored and read in other ways.
        let share = if rng.random_bool(0.4) { 1.0 } else { 0.8 };
        let mut rows = Vec::new();
        for series in some {
            let count = if dense { (to - from) as usize } else { rng.random_range(0..12) };
            for i in 0..count {
                let step = if dense { from + i as i64 } else { rng.random_range(from..to) };
                let a = rng.random_bool(share).then(|| rng.random_range(-50..50));
                let b = rng.random_bool(0.7).then(|| f64::from(rng.random_range(-40..40)) / 4.0);
                let c = (wide && rng.random_bool(0.5)).then(|| format!("t{}", rng.random_range(0..5)));
                rows.push((series, START + step * 1_000, (a, b, c)));
            }
        }
        self.take(&rows);
        rows
    }

    fn take(&mut self, rows: &[Row]) {
        for (series, ts, (a, b, c)) in rows {
            let row = self.rows.entry((name(*series), *ts)).or_default();
            row.0 = a.or(row.0);
            row.1 = b.or(row.1);
            row.2 = c.clone().or(row.2.take());
        }
    }

    /// Encodes rows as a block; omits a field without values.
    fn block(&self, rows: &[Row]) -> Block {
        let table = self.supertable();
        let used: BTreeSet<usize> = rows.iter().map(|r| r.0).collect();
        let used: Vec<usize> = used.into_iter().collect();
        let place = |s: usize| used.iter().position(|u| *u == s).unwrap() as u32;
        let names = StringArray::from_iter_values(used.iter().map(|s| name(*s)));
        let of = |s: &usize| original(*s);
        let g = Int32Array::from_iter(used.iter().map(|s| of(s).0));
        let s = StringArray::from_iter(used.iter().map(|s| of(s).1));
        let columns: Vec<ArrayRef> = vec![Arc::new(names), Arc::new(g), Arc::new(s)];
        let series = RecordBatch::try_new(SeriesSet::schema_of(&table, Precision::Milli), columns).unwrap();

        let schema = Block::rows_schema(&table, Precision::Milli);
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| place(r.0)))),
            Arc::new(TimestampMillisecondArray::from_iter_values(rows.iter().map(|r| r.1))),
            match table.column("a").unwrap().ty {
                Type::BigInt => Arc::new(Int64Array::from_iter(rows.iter().map(|r| r.2.0.map(i64::from)))),
                _ => Arc::new(Int32Array::from_iter(rows.iter().map(|r| r.2.0))),
            },
            Arc::new(Float64Array::from_iter(rows.iter().map(|r| r.2.1))),
        ];
        if schema.fields().len() > 4 {
            columns.push(Arc::new(StringArray::from_iter(rows.iter().map(|r| r.2.2.clone()))));
        }
        let kept: Vec<usize> =
            (0..columns.len()).filter(|i| *i < 2 || columns[*i].null_count() < columns[*i].len()).collect();
        let fields: Vec<_> = kept.iter().map(|i| schema.field(*i).clone()).collect();
        let columns = kept.iter().map(|i| columns[*i].clone()).collect();
        let rows = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap();
        Block::try_new(self.table, SeriesSet::try_new(series).unwrap(), rows).unwrap()
    }

    /// Writes a log segment.
    pub(super) async fn another_segment(&mut self, seed: u64) {
        self.segment(&mut StdRng::seed_from_u64(!seed)).await;
    }

    pub(super) async fn segment(&mut self, rng: &mut StdRng) {
        let rows = self.rows(rng);
        let position = Position { writer: self.writer, seq: self.next };
        self.next += 1;
        let stamp_ns = self.start_ms + self.next as i64;
        let header = SegmentHeader { position, writer_start_ms: self.start_ms, stamp_ns, queue_keys: false };
        let bytes = encode(&header, &[self.block(&rows)], Compression::WherePays).unwrap();
        self.root.store().create(&log_key(position), bytes).await.unwrap();
    }

    pub(super) async fn file(&mut self, rng: &mut StdRng) {
        let rows = self.rows(rng);
        self.write_files(rng, rows).await;
    }

    /// Writes what a fold would: one data file per partition, all in one commit.
    async fn write_files(&mut self, rng: &mut StdRng, rows: Vec<Row>) {
        let mut by_partition: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
        for row in rows {
            by_partition.entry(self.database.partition_of(row.1)).or_default().push(row);
        }
        let table = self.supertable();
        let mut entries = Vec::new();
        for (partition, rows) in by_partition {
            let block = self.block(&rows);
            let order = series_order(&[&block.series], &table, Precision::Milli).unwrap();
            let schema = Block::rows_schema(&table, Precision::Milli);
            let columns = schema.fields().iter().enumerate().map(|(i, field)| -> ArrayRef {
                let of = |s: &u32| order.ranks[0][*s as usize];
                match i {
                    0 => {
                        let series = block.rows.column(0).as_any().downcast_ref::<UInt32Array>().unwrap();
                        Arc::new(UInt32Array::from_iter_values(series.values().iter().map(of)))
                    }
                    1 => block.rows.column(1).clone(),
                    _ => {
                        let id = tidelake_format::schema::field_id(field).unwrap();
                        let null = || arrow::array::new_null_array(field.data_type(), block.len());
                        block.field(id).cloned().unwrap_or_else(null)
                    }
                }
            });
            let batch = RecordBatch::try_new(schema.clone(), columns.collect()).unwrap();
            let sorted = sort_newest(&[batch], order.series.len()).unwrap();
            // The default of minutes is too long for these rows.
            let is_random = self.rolled > 0.0 && self.rolled < 1.0;
            let width_ms = if is_random { [3_000, 5_000, 10_000][rng.random_range(0..3)] } else { 5_000 };
            let rollup =
                RollupOptions { width_ms, least_rows: 2, least_rows_per_bucket: 0, ..RollupOptions::default() };
            let rollup = rng.random_bool(self.rolled).then_some(rollup);
            let options = DataFileOptions {
                page_rows: 3,
                page_rows_max: 8,
                row_group_rows: 16,
                row_group_bytes: 256 << 20,
                rollup,
            };
            let mut writer = DataFileWriter::new(table.clone(), Precision::Milli, options).unwrap();
            writer.write(&order.series, &sorted).unwrap();
            let file = writer.finish().unwrap();
            let store = self.root.store();
            let version = self.root.catalog().version.next();
            let entry = FileEntry::of(&file, partition, || FileId::random(rng), self.start_ms).at(version, version);
            store.create(&data_key(self.table, partition, entry.data.id), file.data).await.unwrap();
            store.create(&tags_key(self.table, partition, entry.tags.id), file.tags).await.unwrap();
            if let Some((at, rollup)) = entry.rollup.zip(file.rollup) {
                store.create(&rollup_key(self.table, partition, at.id), rollup.bytes).await.unwrap();
            }
            entries.push(entry);
        }
        let touching: Vec<_> = entries.iter().map(|e| (self.table, e.partition)).collect();
        let id = self.table;
        let add = self.root.commit(&touching, |draft| entries.iter().try_for_each(|e| draft.add_file(id, e.clone())));
        add.await.unwrap();
    }
}

/// The tags with which every row of a series is written; ALTER does not change them.
fn original(series: usize) -> Tags {
    let g = (series != 4).then_some((series % 3) as i32);
    (g, (series != 2).then(|| ["x", "", "ä long text"][series % 3].to_owned()))
}
