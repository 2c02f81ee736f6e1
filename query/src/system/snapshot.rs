//! Tables of the parts of a statement's snapshot: data files, tag manifests, log segments. Administrators see all parts, other
//! users those of databases that they may read.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, Int64Array, RecordBatch, StringArray, TimestampMillisecondArray},
    datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit},
};
use async_trait::async_trait;
use datafusion::{
    catalog::{Session, TableProvider},
    common::Result as DfResult,
    datasource::{TableType, memory::MemorySourceConfig},
    logical_expr::{Expr, TableProviderFilterPushDown},
    physical_plan::ExecutionPlan,
};
use tidelake_format::{
    Error, Result, layout,
    meta::FileEntry,
    schema::{Database, Supertable},
};

use crate::{
    conditions::{Equalities, pushed},
    error::to_datafusion,
    scan::View,
};

/// A table of the snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    Files,
    Manifests,
    Log,
}

impl Table {
    pub(super) const ALL: [Self; 3] = [Table::Files, Table::Manifests, Table::Log];

    pub(super) fn name(self) -> &'static str {
        match self {
            Table::Files => "files",
            Table::Manifests => "manifests",
            Table::Log => "log",
        }
    }

    fn columns(self) -> Columns {
        let (texts, numbers, times) = match self {
            Table::Files => (
                vec!["database", "table", "path", "rollup"],
                vec![
                    "partition",
                    "order",
                    "rows",
                    "series",
                    "bytes",
                    "rollup_bytes",
                    "min_ts",
                    "max_ts",
                    "rollup_seconds",
                ],
                vec!["written"],
            ),
            Table::Manifests => {
                (vec!["database", "table", "path", "data"], vec!["partition", "series", "bytes"], vec!["written"])
            }
            Table::Log => (
                vec!["path", "writer", "database", "table", "fault"],
                vec!["seq", "series", "rows", "bytes"],
                vec!["time", "writer_started"],
            ),
        };
        Columns { texts, numbers, times }
    }
}

/// Names of text, number and time columns, in this order.
pub(super) struct Columns {
    pub(super) texts: Vec<&'static str>,
    pub(super) numbers: Vec<&'static str>,
    pub(super) times: Vec<&'static str>,
}

impl Columns {
    pub(super) fn schema(&self) -> SchemaRef {
        let Self { texts, numbers, times } = self;
        let time = DataType::Timestamp(TimeUnit::Millisecond, None);
        let texts = texts.iter().map(|name| Field::new(*name, DataType::Utf8, true));
        let numbers = numbers.iter().map(|name| Field::new(*name, DataType::Int64, true));
        let times = times.iter().map(|name| Field::new(*name, time.clone(), true));
        Arc::new(Schema::new(texts.chain(numbers).chain(times).collect::<Vec<_>>()))
    }

    pub(super) fn batch(&self, rows: &[Row]) -> DfResult<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        for i in 0..self.texts.len() {
            columns.push(Arc::new(rows.iter().map(|row| row.texts[i].as_deref()).collect::<StringArray>()));
        }
        for i in 0..self.numbers.len() {
            columns.push(Arc::new(rows.iter().map(|row| row.numbers[i]).collect::<Int64Array>()));
        }
        for i in 0..self.times.len() {
            columns.push(Arc::new(rows.iter().map(|row| row.times[i]).collect::<TimestampMillisecondArray>()));
        }
        Ok(RecordBatch::try_new(self.schema(), columns)?)
    }
}

/// A row: texts, numbers, times in milliseconds since the epoch.
#[derive(Default)]
pub(super) struct Row {
    pub(super) texts: Vec<Option<String>>,
    pub(super) numbers: Vec<Option<i64>>,
    pub(super) times: Vec<Option<i64>>,
}

/// One of the tables. Each scan reads the rows from the session's snapshot.
#[derive(Debug)]
pub(super) struct Provider {
    table: Table,
    schema: SchemaRef,
}

impl Provider {
    pub(super) fn new(table: Table) -> Self {
        Self { table, schema: table.columns().schema() }
    }
}

#[async_trait]
impl TableProvider for Provider {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        Ok(pushed(filters))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let lost = || to_datafusion(Error::internal("statement has no snapshot"));
        let view = state.config().get_extension::<View>().ok_or_else(lost)?;
        let wanted = Equalities::of(filters);
        let rows = match self.table {
            Table::Files => files(&view, &wanted, file).await,
            Table::Manifests => files(&view, &wanted, manifest).await,
            Table::Log => Ok(log(&view)),
        };
        let batch = self.table.columns().batch(&rows.map_err(to_datafusion)?)?;
        Ok(MemorySourceConfig::try_new_exec(&[vec![batch]], self.schema.clone(), projection.cloned())?)
    }
}

pub(super) fn int(n: u64) -> Option<i64> {
    Some(i64::try_from(n).unwrap_or(i64::MAX))
}

/// One row for each data file of the wanted tables that the principal may read.
async fn files(
    view: &View,
    wanted: &Equalities<'_>,
    row: fn(&Database, &Supertable, &FileEntry) -> Row,
) -> Result<Vec<Row>> {
    let catalog = &view.snapshot.catalog;
    let mut rows = Vec::new();
    for database in view.visible.databases().filter(|database| wanted.allow("database", &database.name)) {
        for table in view.visible.tables(database.id).filter(|table| wanted.allow("table", &table.name)) {
            for (partition, _) in catalog.partitions(table.id) {
                let files = view.reader.root().files(catalog, table.id, partition).await?;
                rows.extend(files.iter().map(|file| row(database, table, file)));
            }
        }
    }
    Ok(rows)
}

fn file(database: &Database, table: &Supertable, file: &FileEntry) -> Row {
    let rollup = file.rollup.map(|rollup| layout::rollup_key(table.id, file.partition, rollup.id));
    Row {
        texts: vec![
            Some(database.name.clone()),
            Some(table.name.clone()),
            Some(layout::data_key(table.id, file.partition, file.data.id)),
            rollup,
        ],
        numbers: vec![
            Some(file.partition),
            int(file.order.0),
            int(file.rows),
            int(file.series),
            int(file.data.bytes),
            file.rollup.and_then(|rollup| int(rollup.bytes)),
            Some(file.min_ts),
            Some(file.max_ts),
            file.rollup.filter(|rollup| rollup.width > 0).map(|rollup| rollup.width / database.precision.per_second()),
        ],
        times: vec![Some(file.written_ms)],
    }
}

fn manifest(database: &Database, table: &Supertable, file: &FileEntry) -> Row {
    Row {
        texts: vec![
            Some(database.name.clone()),
            Some(table.name.clone()),
            Some(layout::tags_key(table.id, file.partition, file.tags.id)),
            Some(layout::data_key(table.id, file.partition, file.data.id)),
        ],
        numbers: vec![Some(file.partition), int(file.series), int(file.tags.bytes)],
        times: vec![Some(file.written_ms)],
    }
}

/// One row for each table in each segment above the watermarks; for administrators also one row for each unreadable segment.
fn log(view: &View) -> Vec<Row> {
    let catalog = &view.snapshot.catalog;
    let mut rows = Vec::new();
    for segment in &view.snapshot.tail {
        for block in &segment.segment.blocks {
            let table = catalog.table_by_id(block.table);
            let database = table.and_then(|table| catalog.database_by_id(table.database));
            let may = |database: &Database| view.visible.database(&database.name).is_some();
            if !database.map_or(view.visible.parts().1.is_admin(), |database| may(database)) {
                continue;
            }
            rows.push(Row {
                texts: vec![
                    Some(layout::log_key(segment.position)),
                    Some(segment.position.writer.to_string()),
                    database.map(|database| database.name.clone()),
                    table.map(|table| table.name.clone()),
                    None,
                ],
                numbers: vec![
                    int(segment.position.seq),
                    int(block.series.len() as u64),
                    int(block.len() as u64),
                    int(segment.bytes),
                ],
                times: vec![Some(segment.modified_ms), Some(segment.segment.header.writer_start_ms)],
            });
        }
    }
    if view.visible.parts().1.is_admin() {
        for fault in view.snapshot.faults.iter().chain(&view.snapshot.quarantined) {
            rows.push(Row {
                texts: vec![
                    Some(layout::log_key(fault.position)),
                    Some(fault.position.writer.to_string()),
                    None,
                    None,
                    Some(fault.error.to_string()),
                ],
                numbers: vec![int(fault.position.seq), None, None, None],
                times: vec![None, None],
            });
        }
    }
    rows
}
