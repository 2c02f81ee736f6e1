//! The catalog of one version: databases, tables, partitions, watermarks.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    PartitionSummary, Watermark,
    sections::{Databases, Section, Watermarks},
};
use crate::{
    access::Users,
    chain::{self, Chain, VersionObject},
    error::Result,
    ids::{DatabaseId, Position, TableId, Version, WriterId},
    schema::{Database, Supertable},
};

/// The catalog of one version; immutable and shared. Lookups need no I/O.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    /// The version of the chain.
    pub version: Version,
    /// The version object that the catalog was read from; `None` for a catalog that exists in memory only.
    pub(crate) object: Option<Arc<VersionObject>>,
    pub(super) next_database: u32,
    pub(super) next_table: u32,
    pub(super) names: Arc<Names>,
    pub(super) users: Arc<Users>,
    pub(super) partitions: Arc<BTreeMap<TableId, Arc<Partitions>>>,
    pub(super) watermarks: [Arc<Watermarks>; 16],
}

/// Partition → summary.
pub(super) type Partitions = BTreeMap<i64, PartitionSummary>;

/// Databases and tables by id and by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    pub(super) databases: BTreeMap<DatabaseId, Arc<Database>>,
    database_names: BTreeMap<String, DatabaseId>,
    pub(super) tables: BTreeMap<TableId, Arc<Supertable>>,
    table_names: BTreeMap<DatabaseId, BTreeMap<String, TableId>>,
}

impl Names {
    pub(super) fn set_databases(&mut self, databases: impl IntoIterator<Item = Arc<Database>>) {
        self.databases = databases.into_iter().map(|d| (d.id, d)).collect();
        self.database_names = self.databases.values().map(|d| (d.name.clone(), d.id)).collect();
    }

    pub(super) fn put_table(&mut self, table: Arc<Supertable>) {
        self.remove_table(table.id);
        self.table_names.entry(table.database).or_default().insert(table.name.clone(), table.id);
        self.tables.insert(table.id, table);
    }

    pub(super) fn remove_table(&mut self, id: TableId) -> Option<Arc<Supertable>> {
        let old = self.tables.remove(&id)?;
        if let Some(names) = self.table_names.get_mut(&old.database)
            && names.get(&old.name) == Some(&id)
        {
            names.remove(&old.name);
        }
        Some(old)
    }
}

/// The value of exactly this name, else the only one whose name equals it ignoring case.
fn by_name<'a, T>(names: &'a BTreeMap<String, T>, name: &str) -> Option<&'a T> {
    names.get(name).or_else(|| {
        let mut same = names.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
        same.next().filter(|_| same.next().is_none()).map(|(_, value)| value)
    })
}

impl Catalog {
    /// Creates a catalog of these databases and tables, without files: for tools and tests that decode without a store.
    pub fn of(
        version: Version,
        databases: impl IntoIterator<Item = Database>,
        tables: impl IntoIterator<Item = Supertable>,
    ) -> Self {
        let mut names = Names::default();
        names.set_databases(databases.into_iter().map(Arc::new));
        for table in tables {
            names.put_table(Arc::new(table));
        }
        Self {
            version,
            next_database: names.databases.keys().last().map_or(0, |d| d.0 + 1),
            next_table: names.tables.keys().last().map_or(0, |t| t.0 + 1),
            names: Arc::new(names),
            ..Self::default()
        }
    }

    /// The database of exactly this name, else the only one whose name equals it ignoring case.
    pub fn database(&self, name: &str) -> Option<&Arc<Database>> {
        self.names.databases.get(by_name(&self.names.database_names, name)?)
    }

    /// Users, tokens and their rights.
    pub fn users(&self) -> &Arc<Users> {
        &self.users
    }

    /// The database of this id.
    pub fn database_by_id(&self, id: DatabaseId) -> Option<&Arc<Database>> {
        self.names.databases.get(&id)
    }

    /// The databases, by name.
    pub fn databases(&self) -> impl Iterator<Item = &Arc<Database>> {
        self.names.database_names.values().filter_map(|id| self.names.databases.get(id))
    }

    /// The table of exactly this name in a database, else the only one whose name equals it ignoring case.
    pub fn table(&self, database: DatabaseId, name: &str) -> Option<&Arc<Supertable>> {
        self.names.tables.get(by_name(self.names.table_names.get(&database)?, name)?)
    }

    /// Whether a table, or one of its columns below `column_end`, was created after this version.
    pub(crate) fn is_before(&self, table: TableId, column_end: u32) -> bool {
        self.table_by_id(table).map_or(table.0 >= self.next_table, |table| column_end > table.next_column)
    }

    /// The id of the next table to be created, unless another commit creates one first.
    pub fn next_table(&self) -> TableId {
        TableId(self.next_table)
    }

    /// The table of this id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<Supertable>> {
        self.names.tables.get(&id)
    }

    /// The tables of a database, by name.
    pub fn tables(&self, database: DatabaseId) -> impl Iterator<Item = &Arc<Supertable>> {
        let names = self.names.table_names.get(&database).into_iter();
        names.flat_map(|names| names.values().filter_map(|id| self.names.tables.get(id)))
    }

    /// Every table, by id, including tables whose database does not exist.
    pub(crate) fn all_tables(&self) -> impl Iterator<Item = &Arc<Supertable>> {
        self.names.tables.values()
    }

    /// Every partition that has a summary, whether or not its table exists.
    pub(crate) fn all_partitions(&self) -> impl Iterator<Item = (TableId, i64)> {
        self.partitions.iter().flat_map(|(table, of_table)| of_table.keys().map(|partition| (*table, *partition)))
    }

    /// Every partition that has a list of files.
    pub(crate) fn file_lists(&self) -> impl Iterator<Item = (TableId, i64)> {
        let sections = self.object.iter().flat_map(|o| o.sections("f/"));
        sections.filter_map(|(name, _)| match Section::parse(name) {
            Some(Section::Files(table, partition)) => Some((table, partition)),
            _ => None,
        })
    }

    /// The partitions of a table that have files, in order of time.
    pub fn partitions(&self, table: TableId) -> impl Iterator<Item = (i64, PartitionSummary)> {
        self.partitions.get(&table).into_iter().flat_map(|p| p.iter().map(|(n, s)| (*n, *s)))
    }

    /// How far a writer's log is folded; `None` if nothing of it is.
    pub fn watermark(&self, writer: WriterId) -> Option<&Watermark> {
        self.watermarks[(writer.0 >> 124) as usize].get(&writer)
    }

    /// Whether a segment is no longer needed: its rows are in files, or void. False for a quarantined segment and for
    /// an object that replaced one.
    pub fn is_folded(&self, position: Position) -> bool {
        self.watermark(position.writer).is_some_and(|w| position.seq < w.next && w.faulty(position.seq).is_none())
    }

    /// The watermarks, by writer.
    pub fn watermarks(&self) -> impl Iterator<Item = (WriterId, &Watermark)> {
        self.watermarks.iter().flat_map(|digit| digit.iter().map(|(w, m)| (*w, m)))
    }

    /// Reads the sections that differ from an earlier catalog and shares the others with it.
    pub(super) async fn load(chain: &Chain, object: Arc<VersionObject>, earlier: Option<&Catalog>) -> Result<Self> {
        let mut catalog = earlier.cloned().unwrap_or_default();
        let (changed, removed) = object.since(earlier.and_then(|e| e.object.as_deref()));
        let wanted: Vec<_> = changed
            .iter()
            .filter(|name| Section::is_eager(name))
            .filter_map(|name| Some((Section::parse(name)?, name.as_ref(), object.section(name)?)))
            .collect();
        let asked: Vec<_> = wanted.iter().map(|(_, name, at)| (*name, *at)).collect();
        let bodies = chain.bodies(&object, &asked).await?;
        let names = Arc::make_mut(&mut catalog.names);
        let partitions = Arc::make_mut(&mut catalog.partitions);
        for ((section, name, at), body) in wanted.into_iter().zip(bodies) {
            match section {
                Section::Databases => {
                    let read: Databases = chain::parse(at, name, &body)?;
                    (catalog.next_database, catalog.next_table) = (read.next_database, read.next_table);
                    names.set_databases(read.databases.into_iter().map(Arc::new));
                }
                Section::Access => catalog.users = Arc::new(chain::parse(at, name, &body)?),
                Section::Table(_) => names.put_table(Arc::new(chain::parse(at, name, &body)?)),
                Section::Partitions(table) => {
                    partitions.insert(table, Arc::new(chain::parse(at, name, &body)?));
                }
                Section::Log(digit) => {
                    catalog.watermarks[usize::from(digit)] = chain::parse(at, name, &body).map(Arc::new)?
                }
                Section::Files(..) => {}
            }
        }
        for section in removed.iter().filter_map(|name| Section::parse(name)) {
            match section {
                Section::Databases => names.set_databases([]),
                Section::Access => catalog.users = Arc::default(),
                Section::Table(table) => {
                    names.remove_table(table);
                }
                Section::Partitions(table) => {
                    partitions.remove(&table);
                }
                Section::Log(digit) => catalog.watermarks[usize::from(digit)] = Arc::default(),
                Section::Files(..) => {}
            }
        }
        catalog.version = object.version();
        catalog.object = Some(object);
        Ok(catalog)
    }
}
