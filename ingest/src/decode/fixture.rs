//! A test catalog, and rows as text.

use std::{collections::BTreeMap, sync::Arc};

use arrow::{
    array::{Array, AsArray},
    datatypes::UInt32Type,
    util::display::array_value_to_string,
};
use tidelake_format::{
    ids::{DatabaseId, TableId},
    rows::Block,
    schema::{Database, Role, Supertable, field_id},
    types::{Precision, Type},
};

use super::{Decoded, Lookup, SchemaChange, Subtable};

/// A database `db` with some tables.
pub(super) struct Fixture {
    pub(super) database: Database,
    pub(super) tables: Vec<Arc<Supertable>>,
    pub(super) subtables: Vec<(String, Subtable)>,
}

impl Fixture {
    pub(super) fn new(precision: Precision) -> Self {
        let database = Database {
            id: DatabaseId(1),
            name: "db".into(),
            precision,
            keep_ms: i64::MAX,
            partition_ms: Database::DEFAULT_PARTITION_MS,
        };
        Self { database, tables: Vec::new(), subtables: Vec::new() }
    }

    /// The table `devices` of the TDengine papers.
    pub(super) fn devices() -> Self {
        let mut fixture = Self::new(Precision::Milli);
        fixture.create(
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
        fixture
    }

    pub(super) fn create(&mut self, name: &str, columns: &[(&str, Role, Type)]) -> Arc<Supertable> {
        let columns = columns.iter().map(|(name, role, ty)| ((*name).to_owned(), *role, *ty));
        let id = TableId(self.tables.len() as u32 + 1);
        let table = Arc::new(Supertable::new(id, self.database.id, name, columns).unwrap());
        self.tables.push(Arc::clone(&table));
        table
    }

    /// Applies the schema changes of a decoded request.
    pub(super) fn apply(&mut self, changes: &[SchemaChange]) {
        for change in changes {
            match change {
                SchemaChange::CreateTable { name, columns } => {
                    let columns: Vec<_> = columns.iter().map(|(n, r, t)| (n.as_str(), *r, *t)).collect();
                    self.create(name, &columns);
                }
                SchemaChange::AddColumn { table, name, role, ty } => {
                    let table = self.tables.iter_mut().find(|t| t.id == *table).unwrap();
                    Arc::make_mut(table).add_column(name, *role, *ty).unwrap();
                }
            }
        }
    }

    pub(super) fn named(&self, name: &str) -> &Arc<Supertable> {
        self.tables.iter().find(|t| t.name == name).unwrap()
    }

    /// Decodes, applies schema changes, and decodes again.
    pub(super) fn settle(&mut self, decode: impl Fn(&Self) -> Decoded) -> Decoded {
        let first = decode(self);
        if first.missing.is_empty() {
            return first;
        }
        assert!(first.blocks.is_empty(), "blocks refer to columns that do not exist yet");
        self.apply(&first.missing);
        let second = decode(self);
        assert!(second.missing.is_empty(), "{:?}", second.missing);
        second
    }

    /// Every row as `table|series|tags|ts|fields`, without nulls, in the order of arrival.
    pub(super) fn rows(&self, blocks: &[Block]) -> Vec<String> {
        let mut rows = Vec::new();
        for block in blocks {
            let table = self.tables.iter().find(|t| t.id == block.table).unwrap();
            for row in 0..block.len() {
                let series = block.rows.column(0).as_primitive::<UInt32Type>().value(row) as usize;
                let ts = arrow::compute::cast(block.rows.column(1), &arrow::datatypes::DataType::Int64).unwrap();
                rows.push(format!(
                    "{}|{}|{}|{}|{}",
                    table.name,
                    block.series.names().value(series),
                    values(table, block.series.batch(), 1, series),
                    array_value_to_string(&ts, row).unwrap(),
                    values(table, &block.rows, 2, row),
                ));
            }
        }
        rows
    }
}

fn values(table: &Supertable, batch: &arrow::array::RecordBatch, from: usize, row: usize) -> String {
    let mut found = BTreeMap::new();
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()).skip(from) {
        if array.is_valid(row) {
            let name = &table.column_by_id(field_id(field).unwrap()).unwrap().name;
            found.insert(name.clone(), array_value_to_string(array, row).unwrap());
        }
    }
    found.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

impl Lookup for Fixture {
    fn database(&self, name: &str) -> Option<Arc<Database>> {
        self.database.name.eq_ignore_ascii_case(name).then(|| Arc::new(self.database.clone()))
    }

    fn table(&self, database: DatabaseId, name: &str) -> Option<Arc<Supertable>> {
        let tables = || self.tables.iter().filter(|t| t.database == database);
        let exact = tables().find(|t| t.name == name);
        exact.or_else(|| tables().find(|t| t.name.eq_ignore_ascii_case(name))).cloned()
    }

    fn subtable(&self, _database: DatabaseId, name: &str) -> Option<Subtable> {
        self.subtables.iter().find(|(known, _)| known == name).map(|(_, subtable)| subtable.clone())
    }
}
