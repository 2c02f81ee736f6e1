//! Types of a statement's parameters.

use std::{collections::BTreeSet, sync::Arc};

use tidelake_format::{
    Error, Reason, Result,
    ids::DatabaseId,
    schema::{Supertable, TBNAME},
    types::Type,
};
use tidelake_protocol::sql::{Delete, Insert, Statement, Update};
use tokio::time::Instant;

use super::{READ_INLINE, ROUNDS, filter::is_time};
use crate::{
    decode::tdengine::{self, Described, Session},
    write::{Ingest, series::View},
};

impl Ingest {
    /// The type of each parameter of a statement, in order: that of the column that the value is stored in or compared with.
    /// `None` if the statement does not determine the column: in an INSERT into `?`.
    ///
    /// # Errors
    /// As [`Ingest::execute_update`], except for errors of values.
    pub async fn parameters(&self, database: Option<&str>, update: &Update) -> Result<Vec<Option<Type>>> {
        let start = Instant::now();
        match update.statement() {
            Statement::Insert(insert) => self.insert_parameters(database, update.text(), *insert, start).await,
            Statement::Delete(delete) => self.delete_parameters(database, delete, start).await,
            _ => Ok(Vec::new()),
        }
    }

    async fn insert_parameters(
        &self,
        database: Option<&str>,
        text: &Arc<str>,
        insert: Insert,
        start: Instant,
    ) -> Result<Vec<Option<Type>>> {
        let (large, text) = (text.len() > READ_INLINE, text.clone());
        let read =
            move |view: &View, session: &Session<'_>| tdengine::insert_parameters(insert.cursor(&text), view, session);
        let mut asked: BTreeSet<(DatabaseId, String)> = BTreeSet::new();
        for _ in 0..ROUNDS {
            let names = match self.read(database, start, large, read.clone()).await?.0 {
                Described::Types(types) => return Ok(types),
                Described::Unresolved(names) => names,
            };
            if let Some((_, name)) = names.iter().find(|name| asked.contains(*name)) {
                return Err(Error::not_found("Table does not exist")
                    .because(Reason::TableNotFound)
                    .with("table", name));
            }
            self.find(&names).await?;
            asked.extend(names);
        }
        Err(Error::unavailable("other requests keep changing the same tables"))
    }

    async fn delete_parameters(
        &self,
        database: Option<&str>,
        delete: &Delete,
        start: Instant,
    ) -> Result<Vec<Option<Type>>> {
        let (catalog, database) = self.database_of(&delete.table, database, start).await?;
        let name = &delete.table.name;
        let table = match catalog.table(database.id, name) {
            Some(table) => Some(table.clone()),
            None => self.supertable_of(database.id, name).await?,
        };
        let table = table.ok_or_else(|| {
            Error::not_found("Table does not exist").because(Reason::TableNotFound).with("table", name)
        })?;
        Ok(delete.compared().into_iter().map(|column| column.and_then(|column| type_of(&table, column))).collect())
    }
}

fn type_of(table: &Supertable, column: &str) -> Option<Type> {
    if column.eq_ignore_ascii_case(TBNAME) {
        return Some(Type::Binary(None));
    }
    if is_time(table, column) {
        return Some(Type::Timestamp);
    }
    table.column(column).map(|column| column.ty)
}
