//! ALTER TABLE … SET TAG: the tags of one series.

use std::sync::Arc;

use tidelake_format::{
    Error, Reason, Result,
    ids::{ColumnId, DatabaseId},
    meta::Draft,
    schema::{Database, Role, Supertable},
    types::Scalar,
};
use tidelake_protocol::sql::Literal;
use tokio::time::Instant;

use crate::{
    decode::tdengine::{Clock, TypedLiteral as _},
    write::{Executed, Ingest, series::was_dropped},
};

impl Ingest {
    /// The supertable of the series of this name, if it exists.
    pub(super) async fn supertable_of(&self, database: DatabaseId, name: &str) -> Result<Option<Arc<Supertable>>> {
        self.shared.directory.find(database, &[name.to_owned()]).await?;
        let found = self.shared.directory.subtable(&self.shared.root.catalog(), database, name);
        Ok(found.map(|subtable| subtable.table))
    }

    /// Context for reading times of a statement.
    pub(super) fn clock_of(&self, database: &Database) -> Clock {
        Clock { zone: self.time_zone, precision: database.precision, now_ns: self.now_ns() }
    }

    pub(super) async fn set_tags(
        &self,
        database: &Database,
        name: &str,
        tags: &[(String, Literal)],
        start: Instant,
    ) -> Result<Executed> {
        if self.shared.root.catalog().table(database.id, name).is_some() {
            let error = Error::invalid("SET TAG needs a subtable; a supertable has no tag values");
            return Err(error
                .with("table", name)
                .with("use", "ALTER TABLE child SET TAG …, with a name of SHOW TABLES"));
        }
        let found = self.supertable_of(database.id, name).await?;
        let id = found
            .ok_or_else(|| Error::not_found("Table does not exist").because(Reason::TableNotFound).with("table", name))?
            .id;
        let (since, clock) = (self.shared.root.catalog().version, self.clock_of(database));
        let change = |draft: &mut Draft| {
            let table = draft.catalog().table_by_id(id).filter(|table| !was_dropped(table, name, since));
            let table = table.ok_or_else(|| {
                Error::not_found("Table does not exist").because(Reason::TableNotFound).with("table", name)
            })?;
            let mut changed = table.as_ref().clone();
            let values = values(&changed, name, tags, clock)?;
            changed.overrides.entry(name.to_owned()).or_default().extend(values);
            if changed.overrides.len() > Supertable::MAX_OVERRIDES {
                return Err(Error::unsupported("too many series of one table have changed tags")
                    .with("table", &table.name)
                    .with("limit", Supertable::MAX_OVERRIDES));
            }
            draft.put_table(changed)
        };
        Ok(self.define(start, change).await?.1)
    }
}

/// Converts the values of some tags of a table.
fn values(
    table: &Supertable,
    name: &str,
    tags: &[(String, Literal)],
    clock: Clock,
) -> Result<Vec<(ColumnId, Option<Scalar>)>> {
    let value = |(tag, literal): &(String, Literal)| {
        let column = table.column(tag).filter(|c| c.role == Role::Tag).ok_or_else(|| {
            Error::not_found("Invalid column name: no such tag")
                .because(Reason::ColumnNotFound)
                .with("table", &table.name)
                .with("tag", tag)
        })?;
        Ok((column.id, literal.tag(name, column, clock)?))
    };
    tags.iter().map(value).collect()
}
