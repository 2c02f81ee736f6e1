//! In-memory tables: `db.devices` with the schema of W1, `db.Mixed` with capitals, `us.points` in microseconds.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{
        ArrayRef, Float32Array, Int32Array, RecordBatch, StringArray, TimestampMicrosecondArray,
        TimestampMillisecondArray,
    },
    util::display::{ArrayFormatter, FormatOptions},
};
use async_trait::async_trait;
use datafusion::{
    catalog::{CatalogProvider, MemoryCatalogProvider, MemorySchemaProvider, SchemaProvider},
    datasource::MemTable,
    execution::session_state::SessionStateBuilder,
    prelude::{SessionConfig, SessionContext},
};
use tidelake_format::{
    Result,
    access::Principal,
    ids::{DatabaseId, TableId},
    rows::SeriesSet,
    schema::{Database, Role, Supertable, field_with_id},
    types::{Precision, Type},
};
use tidelake_protocol::CATALOG;

use super::super::*;
use crate::{catalog::information_schema, error::of_planning, plan::Planner};

/// The first timestamp of W1.
pub(super) const T0: i64 = 1_563_249_700_000;
/// Number of devices and of rows per device.
pub(super) const DEVICES: i64 = 20;
pub(super) const ROWS: i64 = 130;

/// One row of `db.devices`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) ts: i64,
    pub(super) temperature: Option<i32>,
    pub(super) humidity: f32,
    pub(super) devid: i32,
    pub(super) devgroup: i32,
}

impl Row {
    pub(super) fn name(&self) -> String {
        format!("dev{}", self.devid)
    }
}

/// The rows of `db.devices`; every seventh temperature is NULL.
pub(super) fn rows() -> Vec<Row> {
    (0..DEVICES)
        .flat_map(|d| {
            (0..ROWS).map(move |i| Row {
                ts: T0 + i * 1_000,
                temperature: ((d * 31 + i * 17) % 7 != 0).then_some(((d * 13 + i * 7) % 60) as i32 - 10),
                humidity: ((d + i) % 22) as f32 / 2.0,
                devid: d as i32,
                devgroup: (d % 4) as i32,
            })
        })
        .collect()
}

#[derive(Debug)]
pub(super) struct World {
    databases: Vec<Arc<Database>>,
    tables: BTreeMap<u64, Vec<Arc<Supertable>>>,
}

#[async_trait]
impl CatalogInfo for World {
    fn databases(&self) -> Vec<Arc<Database>> {
        self.databases.clone()
    }

    fn tables(&self, database: DatabaseId) -> Vec<Arc<Supertable>> {
        let at = self.databases.iter().position(|d| d.id == database).unwrap() as u64;
        self.tables.get(&at).cloned().unwrap_or_default()
    }

    async fn series(&self, table: &Supertable) -> Result<Vec<SeriesSet>> {
        if table.name != "devices" {
            return Ok(Vec::new());
        }
        let tags: Vec<_> = table.tags().collect();
        let names: Vec<String> = (0..DEVICES).map(|d| format!("dev{d}")).collect();
        let fields = [
            tidelake_format::rows::tbname_field().as_ref().clone(),
            field_with_id("devid", tags[0].ty.data_type(Precision::Milli), true, tags[0].id),
            field_with_id("devname", tags[1].ty.data_type(Precision::Milli), true, tags[1].id),
        ];
        let batch = RecordBatch::try_new(
            Arc::new(arrow::datatypes::Schema::new(fields.to_vec())),
            vec![
                Arc::new(StringArray::from(names)),
                Arc::new(Int32Array::from_iter_values(0..DEVICES as i32)),
                Arc::new(StringArray::from_iter_values((0..DEVICES).map(|d| format!("dev_{d}")))),
            ],
        )?;
        Ok(vec![SeriesSet::try_new(batch)?])
    }
}

fn database(id: u32, name: &str, precision: Precision) -> Arc<Database> {
    Arc::new(Database {
        id: DatabaseId(id),
        name: name.to_owned(),
        precision,
        keep_ms: Database::DEFAULT_KEEP_MS,
        partition_ms: Database::DEFAULT_PARTITION_MS,
    })
}

fn table(id: u64, database: u32, name: &str, columns: &[(&str, Role, Type)]) -> Arc<Supertable> {
    let columns = columns.iter().map(|(n, r, t)| ((*n).to_owned(), *r, *t));
    Arc::new(Supertable::new(TableId(id as _), DatabaseId(database), name, columns).unwrap())
}

/// The catalog of the tests.
pub(super) fn world() -> World {
    let devices = table(
        1,
        0,
        "devices",
        &[
            ("ts", Role::Time, Type::Timestamp),
            ("temperature", Role::Field, Type::Int),
            ("humidity", Role::Field, Type::Float),
            ("devid", Role::Tag, Type::Int),
            ("devname", Role::Tag, Type::Binary(Some(16))),
            ("devgroup", Role::Tag, Type::Int),
        ],
    );
    let mixed = table(
        2,
        0,
        "Mixed",
        &[
            ("Time", Role::Time, Type::Timestamp),
            ("Value", Role::Field, Type::Int),
            ("Host", Role::Tag, Type::NChar(None)),
        ],
    );
    let points = table(
        3,
        1,
        "points",
        &[("ts", Role::Time, Type::Timestamp), ("v", Role::Field, Type::Int), ("at", Role::Field, Type::Timestamp)],
    );
    World {
        databases: vec![database(0, "db", Precision::Milli), database(1, "us", Precision::Micro)],
        tables: [(0, vec![mixed, devices]), (1, vec![points])].into(),
    }
}

fn register(schema: &MemorySchemaProvider, table: &Supertable, precision: Precision, columns: Vec<ArrayRef>) {
    let fields = table.arrow_schema(precision);
    let mut fields: Vec<_> = fields.fields().iter().cloned().collect();
    fields.push(tidelake_format::rows::tbname_field());
    let batch = RecordBatch::try_new(Arc::new(arrow::datatypes::Schema::new(fields)), columns).unwrap();
    let (first, second) = (
        batch.slice(0, batch.num_rows() / 3),
        batch.slice(batch.num_rows() / 3, batch.num_rows() - batch.num_rows() / 3),
    );
    let memory = MemTable::try_new(batch.schema(), vec![vec![first], vec![second]]).unwrap();
    schema.register_table(table.name.clone(), Arc::new(memory)).unwrap();
}

/// A context with everything registered, as in the engine.
pub(super) fn context(world: &Arc<World>) -> SessionContext {
    let mut config = SessionConfig::new().with_information_schema(false).with_target_partitions(2);
    config.options_mut().catalog.default_catalog = CATALOG.to_owned();
    config.options_mut().catalog.create_default_catalog_and_schema = false;
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let state = crate::functions::register(builder).with_query_planner(Arc::new(Planner)).build();
    let catalog = MemoryCatalogProvider::new();
    let db = MemorySchemaProvider::new();
    let all = rows();
    register(
        &db,
        &world.tables[&0][1],
        Precision::Milli,
        vec![
            Arc::new(TimestampMillisecondArray::from_iter_values(all.iter().map(|r| r.ts))),
            Arc::new(all.iter().map(|r| r.temperature).collect::<Int32Array>()),
            Arc::new(Float32Array::from_iter_values(all.iter().map(|r| r.humidity))),
            Arc::new(Int32Array::from_iter_values(all.iter().map(|r| r.devid))),
            Arc::new(StringArray::from_iter_values(all.iter().map(|r| format!("dev_{}", r.devid)))),
            Arc::new(Int32Array::from_iter_values(all.iter().map(|r| r.devgroup))),
            Arc::new(StringArray::from_iter_values(all.iter().map(Row::name))),
        ],
    );
    register(
        &db,
        &world.tables[&0][0],
        Precision::Milli,
        vec![
            Arc::new(TimestampMillisecondArray::from(vec![0, 1_000, 61_000])),
            Arc::new(Int32Array::from(vec![1, 2, 4])),
            Arc::new(StringArray::from(vec!["A", "B", "A"])),
            Arc::new(StringArray::from(vec!["a", "b", "a"])),
        ],
    );
    let us = MemorySchemaProvider::new();
    register(
        &us,
        &world.tables[&1][0],
        Precision::Micro,
        vec![
            Arc::new(TimestampMicrosecondArray::from(vec![1, 2, 3_000_000])),
            Arc::new(Int32Array::from(vec![1, 2, 3])),
            Arc::new(TimestampMicrosecondArray::from(vec![Some(10), None, Some(30)])),
            Arc::new(StringArray::from(vec!["p", "p", "p"])),
        ],
    );
    catalog.register_schema("db", Arc::new(db)).unwrap();
    catalog.register_schema("us", Arc::new(us)).unwrap();
    let info: Arc<dyn CatalogInfo> = Arc::clone(world) as _;
    catalog.register_schema("information_schema", information_schema(info)).unwrap();
    state.catalog_list().register_catalog(CATALOG.to_owned(), Arc::new(catalog));
    SessionContext::new_with_state(state)
}

/// A session in `db`.
pub(super) fn session() -> Session {
    Session { database: Some("db".to_owned()), ..Session::of(Principal::AUTH_OFF) }
}

/// Plans a statement in `db`.
pub(super) async fn planned_in(session: &Session, sql: &str) -> Result<Planned> {
    let world = Arc::new(world());
    let parsed = parse(sql, session.double_quotes)?;
    plan(&parsed, &context(&world).state(), session, world.as_ref()).await
}

/// The result's names and rows as text, NULL as `-`.
pub(super) async fn run_in(session: &Session, sql: &str) -> Result<(Vec<String>, Vec<Vec<String>>)> {
    let world = Arc::new(world());
    let context = context(&world);
    let parsed = parse(sql, session.double_quotes)?;
    let planned = plan(&parsed, &context.state(), session, world.as_ref()).await?;
    let frame = datafusion::dataframe::DataFrame::new(context.state(), planned.plan);
    let batches = frame.collect().await.map_err(of_planning)?;
    let options = FormatOptions::default().with_null("-");
    let mut rows = Vec::new();
    for batch in &batches {
        let columns: Vec<_> = batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).unwrap()).collect();
        for i in 0..batch.num_rows() {
            rows.push(columns.iter().map(|c| c.value(i).to_string()).collect());
        }
    }
    Ok((planned.names, rows))
}

/// Runs a statement in `db` that must succeed.
pub(super) async fn run(sql: &str) -> (Vec<String>, Vec<Vec<String>>) {
    run_in(&session(), sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"))
}

/// Only the rows, each as one line.
pub(super) async fn lines(sql: &str) -> Vec<String> {
    run(sql).await.1.iter().map(|r| r.join(" ")).collect()
}
