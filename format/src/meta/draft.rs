//! A mutable copy of the base version that a commit changes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Catalog, FileEntry, PartitionSummary, Watermark, saved,
    sections::{ACCESS, DATABASES, Databases, Section},
};
use crate::{
    access::Users,
    chain::Change,
    error::{Error, Reason, Result},
    ids::{DatabaseId, FileId, Position, TableId, Version, WriterId},
    layout::Kept,
    schema::{Database, Role, Supertable, check_name},
    types::{Precision, Type},
};

/// Database names reserved for the schemas of system tables.
const RESERVED: [&str; 2] = ["information_schema", "system"];

/// A mutable copy of the base version that a commit changes.
#[derive(Debug, Clone)]
pub struct Draft {
    base: Arc<Catalog>,
    catalog: Catalog,
    /// The partitions that the commit touches; `true` once their files have changed.
    files: BTreeMap<(TableId, i64), (Arc<Vec<FileEntry>>, bool)>,
    added: Vec<FileId>,
    /// Partitions that are removed entirely.
    dropped: BTreeSet<(TableId, i64)>,
    pub(super) saved: saved::Changes,
    renewed: bool,
}

impl Draft {
    /// A draft on top of a version, with the files of the partitions that it touches.
    pub(super) fn new(base: Arc<Catalog>, files: Vec<((TableId, i64), Arc<Vec<FileEntry>>)>) -> Self {
        let mut catalog = Catalog::clone(&base);
        catalog.version = base.version.next();
        let files = files.into_iter().map(|(at, files)| (at, (files, false))).collect();
        Self {
            base,
            catalog,
            files,
            added: Vec::new(),
            dropped: BTreeSet::new(),
            saved: saved::Changes::new(),
            renewed: false,
        }
    }

    /// The catalog as changed so far; its version is the one that the commit will create.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The catalog before the change.
    pub fn base(&self) -> &Arc<Catalog> {
        &self.base
    }

    /// The version that the commit will create.
    pub fn version(&self) -> Version {
        self.catalog.version
    }

    /// Creates a database.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) when the name exists (ignoring case) or is not a valid name, or a
    /// duration is not positive.
    pub fn create_database(
        &mut self,
        name: &str,
        precision: Precision,
        keep_ms: i64,
        partition_ms: i64,
    ) -> Result<Arc<Database>> {
        check_name("database", name)?;
        if RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name)) {
            return Err(Error::invalid("database name is reserved").with("database", name));
        }
        if let Some(same) = self.catalog.databases().find(|d| d.name.eq_ignore_ascii_case(name)) {
            return Err(Error::invalid("a database of this name exists")
                .because(Reason::DatabaseExists)
                .with("database", name)
                .with("found", &same.name));
        }
        if keep_ms <= 0 || partition_ms <= 0 {
            return Err(Error::invalid("KEEP and DURATION must be greater than 0")
                .with("database", name)
                .with("found", format!("{keep_ms} ms and {partition_ms} ms")));
        }
        let id = DatabaseId(self.catalog.next_database);
        self.catalog.next_database += 1;
        let database = Arc::new(Database { id, name: name.to_owned(), precision, keep_ms, partition_ms });
        let names = Arc::make_mut(&mut self.catalog.names);
        names.set_databases(names.databases.values().cloned().chain([database.clone()]).collect::<Vec<_>>());
        Ok(database)
    }

    /// Replaces a database by a modified copy; only the name and the durations may differ.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) when there is no database of this id.
    pub fn put_database(&mut self, database: Database) -> Result<()> {
        let names = Arc::make_mut(&mut self.catalog.names);
        let Some(old) = names.databases.get_mut(&database.id) else {
            return Err(Error::not_found("no such database")
                .because(Reason::DatabaseNotFound)
                .with("database", &database.name));
        };
        *old = Arc::new(database);
        names.set_databases(names.databases.values().cloned().collect::<Vec<_>>());
        Ok(())
    }

    /// Drops a database with its tables and their files.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound).
    pub fn drop_database(&mut self, id: DatabaseId) -> Result<()> {
        let tables: Vec<TableId> = self.catalog.tables(id).map(|t| t.id).collect();
        for table in tables {
            self.drop_table(table)?;
        }
        let names = Arc::make_mut(&mut self.catalog.names);
        if names.databases.remove(&id).is_none() {
            return Err(Error::not_found("no such database").because(Reason::DatabaseNotFound).with("database", id.0));
        }
        names.set_databases(names.databases.values().cloned().collect::<Vec<_>>());
        if !self.catalog.users.is_empty() {
            Arc::make_mut(&mut self.catalog.users).forget(id);
        }
        Ok(())
    }

    /// Users, tokens and their rights, mutable.
    pub fn users_mut(&mut self) -> &mut Users {
        Arc::make_mut(&mut self.catalog.users)
    }

    /// Creates a supertable from `(name, role, type)`, the time column first.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) for the database; [`Kind::Invalid`](crate::Kind::Invalid) as in
    /// [`Supertable::new`] and when the name exists (ignoring case).
    pub fn create_table(
        &mut self,
        database: DatabaseId,
        name: &str,
        columns: impl IntoIterator<Item = (String, Role, Type)>,
    ) -> Result<Arc<Supertable>> {
        if self.catalog.database_by_id(database).is_none() {
            return Err(Error::not_found("no such database")
                .because(Reason::DatabaseNotFound)
                .with("database", database.0)
                .with("table", name));
        }
        if let Some(same) = self.catalog.tables(database).find(|t| t.name.eq_ignore_ascii_case(name)) {
            return Err(Error::invalid("a table of this name exists")
                .because(Reason::TableExists)
                .with("table", name)
                .with("found", &same.name));
        }
        let table = Arc::new(Supertable::new(TableId(self.catalog.next_table), database, name, columns)?);
        self.catalog.next_table += 1;
        Arc::make_mut(&mut self.catalog.names).put_table(table.clone());
        Ok(table)
    }

    /// Replaces a table by a modified copy.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) when there is no table of this id.
    pub fn put_table(&mut self, table: Supertable) -> Result<()> {
        if self.catalog.table_by_id(table.id).is_none() {
            return Err(Error::not_found("no such table").because(Reason::TableNotFound).with("table", &table.name));
        }
        Arc::make_mut(&mut self.catalog.names).put_table(Arc::new(table));
        Ok(())
    }

    /// Drops a table and its files.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound).
    pub fn drop_table(&mut self, id: TableId) -> Result<()> {
        if Arc::make_mut(&mut self.catalog.names).remove_table(id).is_none() {
            return Err(Error::not_found("no such table").because(Reason::TableNotFound).with("table", id.0));
        }
        Arc::make_mut(&mut self.catalog.partitions).remove(&id);
        for (files, changed) in self.files.range_mut((id, i64::MIN)..=(id, i64::MAX)).map(|(_, f)| f) {
            *files = Arc::default();
            *changed = true;
        }
        Ok(())
    }

    /// The files of a partition as changed so far, lowest order first.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) when the commit did not list this partition as touched.
    pub fn files(&self, table: TableId, partition: i64) -> Result<&[FileEntry]> {
        self.files.get(&(table, partition)).map(|(files, _)| files.as_slice()).ok_or_else(|| untold(table, partition))
    }

    /// Adds a file to its partition.
    ///
    /// # Errors
    /// [`Kind::Conflict`](crate::Kind::Conflict) when the table was dropped; [`Kind::Internal`](crate::Kind::Internal)
    /// as in [`Draft::files`].
    pub fn add_file(&mut self, table: TableId, file: FileEntry) -> Result<()> {
        if self.catalog.table_by_id(table).is_none() {
            return Err(Error::conflict("the table of a new file was dropped").with("table", table.0));
        }
        let partition = file.partition;
        let (files, changed) = self.files.get_mut(&(table, partition)).ok_or_else(|| untold(table, partition))?;
        self.added.push(file.id);
        let at = files.partition_point(|f| (f.order, f.id) < (file.order, file.id));
        Arc::make_mut(files).insert(at, file);
        *changed = true;
        self.sum_up(table, partition);
        Ok(())
    }

    /// Removes a file and returns its entry.
    ///
    /// # Errors
    /// [`Kind::Conflict`](crate::Kind::Conflict) when the file is not live; [`Kind::Internal`](crate::Kind::Internal)
    /// as in [`Draft::files`].
    pub fn remove_file(&mut self, table: TableId, partition: i64, id: FileId) -> Result<FileEntry> {
        let (files, changed) = self.files.get_mut(&(table, partition)).ok_or_else(|| untold(table, partition))?;
        let at = files.iter().position(|f| f.id == id).ok_or_else(|| {
            Error::conflict("file is no longer live")
                .with("table", table.0)
                .with("partition", partition)
                .with("file", id)
        })?;
        *changed = true;
        let file = Arc::make_mut(files).remove(at);
        self.sum_up(table, partition);
        Ok(file)
    }

    /// Removes every file of a partition, even one that the commit did not list as touched; no effect on an absent one.
    pub fn drop_partition(&mut self, table: TableId, partition: i64) {
        if let Some((files, changed)) = self.files.get_mut(&(table, partition)) {
            *files = Arc::default();
            *changed = true;
        }
        let partitions = Arc::make_mut(&mut self.catalog.partitions);
        let Some(of_table) = partitions.get_mut(&table) else { return };
        Arc::make_mut(of_table).remove(&partition);
        if of_table.is_empty() {
            partitions.remove(&table);
        }
        self.dropped.insert((table, partition));
    }

    /// Sets how far a writer's log is folded.
    pub fn set_watermark(&mut self, writer: WriterId, watermark: Watermark) {
        let digit = &mut self.catalog.watermarks[(writer.0 >> 124) as usize];
        if digit.get(&writer) != Some(&watermark) {
            Arc::make_mut(digit).insert(writer, watermark);
        }
    }

    /// Makes the position of an idempotency key void: its rows never count. Returns false if it is already folded; then
    /// its rows count.
    pub fn void(&mut self, position: Position, start_ms: i64, kept: Kept) -> bool {
        let known = self.catalog.watermark(position.writer).cloned();
        let mut watermark = known.unwrap_or_else(|| Watermark::unfolded(start_ms));
        if position.seq < watermark.next {
            return false;
        }
        if let Err(at) = watermark.voids.binary_search(&position.seq) {
            watermark.voids.insert(at, position.seq);
            watermark.queue_keys |= kept == Kept::Queue;
            self.set_watermark(position.writer, watermark);
        }
        true
    }

    /// Removes the watermark of a writer.
    pub fn remove_watermark(&mut self, writer: WriterId) {
        let digit = &mut self.catalog.watermarks[(writer.0 >> 124) as usize];
        if digit.contains_key(&writer) {
            Arc::make_mut(digit).remove(&writer);
        }
    }

    /// Makes the commit create a version even if nothing changes.
    pub fn renew(&mut self) {
        self.renewed = true;
    }

    fn sum_up(&mut self, table: TableId, partition: i64) {
        let (files, _) = &self.files[&(table, partition)];
        let partitions = Arc::make_mut(&mut self.catalog.partitions);
        let of_table = Arc::make_mut(partitions.entry(table).or_default());
        match PartitionSummary::of(files) {
            Some(summary) => of_table.insert(partition, summary),
            None => of_table.remove(&partition),
        };
        if of_table.is_empty() {
            partitions.remove(&table);
        }
    }

    /// The partitions whose files changed.
    pub(super) fn changed_files(&self) -> impl Iterator<Item = (TableId, i64, &[FileEntry])> {
        self.files.iter().filter(|(_, (_, changed))| *changed).map(|((t, p), (files, _))| (*t, *p, files.as_slice()))
    }

    /// The ids of the added files.
    pub(super) fn added(&self) -> BTreeSet<FileId> {
        self.added.iter().copied().collect()
    }

    /// The sections that the change sets or removes; `None` if nothing changed.
    pub(super) fn changes(&self) -> Result<Option<BTreeMap<String, Change>>> {
        let (base, now) = (&self.base, &self.catalog);
        let mut changes = BTreeMap::new();
        let counters = |c: &Catalog| (c.next_database, c.next_table);
        if counters(base) != counters(now) || base.names.databases != now.names.databases {
            let databases = now.names.databases.values().map(|d| Database::clone(d)).collect();
            let (next_database, next_table) = counters(now);
            let section = Databases { next_database, next_table, databases };
            changes.insert(DATABASES.to_owned(), Change::json(&section)?);
        }
        if !Arc::ptr_eq(&base.users, &now.users) && base.users != now.users {
            let change = if now.users.is_empty() { Change::Remove } else { Change::json(now.users.as_ref())? };
            changes.insert(ACCESS.to_owned(), change);
        }
        changes.extend(saved::sections(&self.saved, base.object.as_deref())?);
        for (id, table) in &now.names.tables {
            let same = base.names.tables.get(id).is_some_and(|old| Arc::ptr_eq(old, table) || old == table);
            if !same {
                changes.insert(Section::Table(*id).name(), readable(table)?);
            }
        }
        for id in base.names.tables.keys().filter(|id| !now.names.tables.contains_key(id)) {
            changes.insert(Section::Table(*id).name(), Change::Remove);
            let prefix = format!("f/{}/", id.0);
            let files =
                base.object.iter().flat_map(|o| o.sections(&prefix)).map(|(n, _)| (n.to_owned(), Change::Remove));
            changes.extend(files);
        }
        for (id, partitions) in now.partitions.iter() {
            if base.partitions.get(id).is_none_or(|old| old != partitions) {
                changes.insert(Section::Partitions(*id).name(), Change::json(partitions.as_ref())?);
            }
        }
        for id in base.partitions.keys().filter(|id| !now.partitions.contains_key(id)) {
            changes.insert(Section::Partitions(*id).name(), Change::Remove);
        }
        for (table, partition) in &self.dropped {
            let name = Section::Files(*table, *partition).name();
            if base.object.as_ref().is_some_and(|o| o.section(&name).is_some()) {
                changes.insert(name, Change::Remove);
            }
        }
        for (table, partition, files) in self.changed_files() {
            let change = if files.is_empty() { Change::Remove } else { Change::json(&files)? };
            changes.insert(Section::Files(table, partition).name(), change);
        }
        for (digit, (old, new)) in base.watermarks.iter().zip(&now.watermarks).enumerate() {
            if !Arc::ptr_eq(old, new) && old != new {
                let change = if new.is_empty() { Change::Remove } else { Change::json(new.as_ref())? };
                changes.insert(Section::Log(digit as u8).name(), change);
            }
        }
        Ok((self.renewed || !changes.is_empty()).then_some(changes))
    }

    /// The catalog after the change.
    pub(super) fn into_catalog(self) -> Catalog {
        self.catalog
    }
}

/// The section of a table, verified to read back equal: JSON has no NaN, and an unreadable section would make the root
/// unreadable.
fn readable(table: &Supertable) -> Result<Change> {
    let change = Change::json(table)?;
    if let Change::Put(body) = &change
        && serde_json::from_slice::<Supertable>(body).ok().as_ref() != Some(table)
    {
        return Err(Error::invalid("table cannot be stored: a tag is NaN or infinite").with("table", &table.name));
    }
    Ok(change)
}

fn untold(table: TableId, partition: i64) -> Error {
    Error::internal("commit changes a partition that it did not list as touched")
        .with("table", table.0)
        .with("partition", partition)
}
