//! The catalog of one version: databases, tables, partitions, watermarks.

use std::{collections::BTreeMap, sync::Arc};

use super::{PartitionSummary, Watermark};
use crate::{
    ids::{DatabaseId, TableId, Version, WriterId},
    schema::{Database, Supertable},
};

/// The catalog of one version; immutable and shared. Lookups need no I/O.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// The version of the chain.
    pub version: Version,
    pub(super) databases: BTreeMap<DatabaseId, Arc<Database>>,
    pub(super) database_names: BTreeMap<String, DatabaseId>,
    pub(super) tables: BTreeMap<TableId, Arc<Supertable>>,
    pub(super) table_names: BTreeMap<(DatabaseId, String), TableId>,
    pub(super) partitions: BTreeMap<TableId, Arc<BTreeMap<i64, PartitionSummary>>>,
    pub(super) watermarks: BTreeMap<WriterId, Watermark>,
}

impl Catalog {
    /// A catalog of these databases and tables, without files: for tools and tests that decode without a store.
    pub fn of(
        version: Version,
        databases: impl IntoIterator<Item = Database>,
        tables: impl IntoIterator<Item = Supertable>,
    ) -> Self {
        let mut catalog = Self { version, ..Self::default() };
        for database in databases {
            catalog.database_names.insert(database.name.clone(), database.id);
            catalog.databases.insert(database.id, Arc::new(database));
        }
        for table in tables {
            catalog.table_names.insert((table.database, table.name.clone()), table.id);
            catalog.tables.insert(table.id, Arc::new(table));
        }
        catalog
    }

    /// The database of exactly this name, else the only one that equals it without case.
    pub fn database(&self, name: &str) -> Option<&Arc<Database>> {
        let exact = self.database_names.get(name);
        let id = exact.or_else(|| {
            let mut same = self.database_names.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
            same.next().filter(|_| same.next().is_none()).map(|(_, id)| id)
        })?;
        self.databases.get(id)
    }

    /// The database of this id.
    pub fn database_by_id(&self, id: DatabaseId) -> Option<&Arc<Database>> {
        self.databases.get(&id)
    }

    /// The databases, by name.
    pub fn databases(&self) -> impl Iterator<Item = &Arc<Database>> {
        self.database_names.values().filter_map(|id| self.databases.get(id))
    }

    /// The table of exactly this name in a database, else the only one that equals it without case.
    pub fn table(&self, database: DatabaseId, name: &str) -> Option<&Arc<Supertable>> {
        let id = match self.table_names.get(&(database, name.to_owned())) {
            Some(id) => *id,
            None => {
                let mut same = self.tables(database).filter(|t| t.name.eq_ignore_ascii_case(name));
                same.next().filter(|_| same.next().is_none())?.id
            }
        };
        self.tables.get(&id)
    }

    /// The table of this id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<Supertable>> {
        self.tables.get(&id)
    }

    /// The tables of a database, by name.
    pub fn tables(&self, database: DatabaseId) -> impl Iterator<Item = &Arc<Supertable>> {
        self.table_names
            .range((database, String::new())..)
            .take_while(move |((d, _), _)| *d == database)
            .filter_map(|(_, id)| self.tables.get(id))
    }

    /// The partitions of a table that have files, in the order of time.
    pub fn partitions(&self, table: TableId) -> impl Iterator<Item = (i64, PartitionSummary)> {
        self.partitions.get(&table).into_iter().flat_map(|p| p.iter().map(|(n, s)| (*n, *s)))
    }

    /// How far a writer's log is folded; `None` = nothing of it yet.
    pub fn watermark(&self, writer: WriterId) -> Option<&Watermark> {
        self.watermarks.get(&writer)
    }

    /// The watermarks, by writer.
    pub fn watermarks(&self) -> impl Iterator<Item = (WriterId, &Watermark)> {
        self.watermarks.iter().map(|(w, m)| (*w, m))
    }
}
