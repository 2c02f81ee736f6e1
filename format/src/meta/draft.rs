//! A change in the making: a mutable copy of the base version inside a commit.

use std::sync::Arc;

use super::{Catalog, FileEntry, Watermark};
use crate::{
    error::{Error, Result},
    ids::{DatabaseId, FileId, TableId, Version, WriterId},
    schema::{Database, Role, Supertable},
    types::{Precision, Type},
};

/// A mutable copy of the base version inside a commit.
#[derive(Debug)]
pub struct Draft {
    catalog: Catalog,
}

fn later<T>() -> Result<T> {
    Err(Error::internal("not built yet"))
}

impl Draft {
    /// The catalog as changed so far; its version is the one that the commit will create.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The version that the commit will create.
    pub fn version(&self) -> Version {
        self.catalog.version
    }

    /// Creates a database.
    ///
    /// # Errors
    /// [`Kind::Invalid`](crate::Kind::Invalid) when the name exists (without case) or is not a name.
    pub fn create_database(
        &mut self,
        _name: &str,
        _precision: Precision,
        _keep_ms: i64,
        _partition_ms: i64,
    ) -> Result<Arc<Database>> {
        later()
    }

    /// Drops a database with its tables and their files.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound).
    pub fn drop_database(&mut self, _id: DatabaseId) -> Result<()> {
        later()
    }

    /// Creates a supertable from `(name, role, type)`, the time column first.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) for the database; [`Kind::Invalid`](crate::Kind::Invalid) as in
    /// [`Supertable::new`] and when the name exists (without case).
    pub fn create_table(
        &mut self,
        _database: DatabaseId,
        _name: &str,
        _columns: impl IntoIterator<Item = (String, Role, Type)>,
    ) -> Result<Arc<Supertable>> {
        later()
    }

    /// Replaces a table by a changed copy of it.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) when there is no table of this id.
    pub fn put_table(&mut self, _table: Supertable) -> Result<()> {
        later()
    }

    /// Drops a table and its files.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound).
    pub fn drop_table(&mut self, _id: TableId) -> Result<()> {
        later()
    }

    /// The files of a partition as changed so far, lowest order first.
    ///
    /// # Errors
    /// [`Kind::Internal`](crate::Kind::Internal) when the commit did not say that it touches this partition.
    pub fn files(&self, _table: TableId, _partition: i64) -> Result<&[FileEntry]> {
        later()
    }

    /// Adds a file to its partition.
    ///
    /// # Errors
    /// [`Kind::Conflict`](crate::Kind::Conflict) when the table is gone.
    pub fn add_file(&mut self, _table: TableId, _file: FileEntry) -> Result<()> {
        later()
    }

    /// Removes a file.
    ///
    /// # Errors
    /// [`Kind::Conflict`](crate::Kind::Conflict) when it is not there.
    pub fn remove_file(&mut self, _table: TableId, _partition: i64, _id: FileId) -> Result<FileEntry> {
        later()
    }

    /// Says how far a writer's log is folded.
    pub fn set_watermark(&mut self, _writer: WriterId, _watermark: Watermark) {}

    /// Forgets a writer.
    pub fn remove_watermark(&mut self, _writer: WriterId) {}
}
