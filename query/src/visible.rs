//! The part of the catalog that a principal may read.

use std::sync::Arc;

use tidelake_format::{
    Error, Reason, Result,
    access::{Principal, Privilege},
    ids::DatabaseId,
    meta::Catalog,
    schema::{Database, Supertable},
};

/// A catalog as seen by a principal: databases that it may not read are hidden.
#[derive(Debug, Clone)]
pub struct Visible {
    catalog: Arc<Catalog>,
    principal: Principal,
}

impl Visible {
    /// Creates the view of a catalog for a principal.
    pub(crate) fn new(catalog: Arc<Catalog>, principal: Principal) -> Self {
        Self { catalog, principal }
    }

    /// Databases, by name.
    pub fn databases(&self) -> impl Iterator<Item = &Arc<Database>> {
        self.catalog.databases().filter(|d| self.principal.may(Privilege::Read, d))
    }

    /// The database with exactly this name, otherwise the only one that matches case-insensitively.
    pub fn database(&self, name: &str) -> Option<&Arc<Database>> {
        self.catalog.database(name).filter(|d| self.principal.may(Privilege::Read, d))
    }

    /// Supertables of a database, by name.
    pub fn tables(&self, database: DatabaseId) -> impl Iterator<Item = &Arc<Supertable>> {
        let may = self.may_read(database);
        self.catalog.tables(database).filter(move |_| may)
    }

    /// The supertable with exactly this name, otherwise the only one that matches case-insensitively.
    pub fn table(&self, database: DatabaseId, name: &str) -> Option<&Arc<Supertable>> {
        self.catalog.table(database, name).filter(|_| self.may_read(database))
    }

    /// Checks that a database with this name, if it exists, may be read.
    ///
    /// # Errors
    /// [`Kind::Forbidden`](crate::Kind::Forbidden).
    pub fn check(&self, name: &str) -> Result<()> {
        self.catalog.database(name).map_or(Ok(()), |database| self.principal.check(Privilege::Read, database))
    }

    /// The error returned to the principal for a missing database.
    pub fn missing(&self, name: &str) -> Error {
        self.principal.missing(
            Privilege::Read,
            name,
            Error::not_found("no such database").because(Reason::DatabaseNotFound).with("database", name),
        )
    }

    fn may_read(&self, database: DatabaseId) -> bool {
        self.catalog.database_by_id(database).is_some_and(|d| self.principal.may(Privilege::Read, d))
    }

    /// The whole catalog, and the principal.
    pub(crate) fn parts(&self) -> (&Arc<Catalog>, &Principal) {
        (&self.catalog, &self.principal)
    }
}
