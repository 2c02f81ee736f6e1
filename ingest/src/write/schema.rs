//! Schema changes on the fly: whatever requests of this process wait for goes into one commit.

use std::sync::Arc;

use parking_lot::Mutex;
use tidelake_format::{
    Error, Result,
    ids::DatabaseId,
    meta::{Catalog, Draft, Root},
    schema::Supertable,
};
use tokio::sync::oneshot;

use crate::decode::SchemaChange;

/// Commits the changes that decoding asked for.
#[derive(Debug)]
pub(crate) struct SchemaChanges {
    root: Root,
    limits: Limits,
    waiting: Mutex<Vec<Waiting>>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Waiting {
    database: DatabaseId,
    changes: Vec<SchemaChange>,
    answer: oneshot::Sender<Result<Arc<Catalog>>>,
}

/// How far rows may widen a schema.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Tables of a database.
    pub(crate) tables: usize,
    /// Columns of a table.
    pub(crate) columns: usize,
}

impl Limits {
    fn check_columns(self, table: &Supertable) -> Result<()> {
        if table.columns.len() <= self.columns {
            return Ok(());
        }
        Err(Error::invalid("too many columns: rows may not add more to this table")
            .with("table", &table.name)
            .with("limit", self.columns))
    }

    fn check_tables(self, draft: &Draft, database: DatabaseId, name: &str) -> Result<()> {
        if draft.catalog().tables(database).count() < self.tables {
            return Ok(());
        }
        Err(Error::invalid("too many tables: rows may not create more in this database")
            .with("table", name)
            .with("limit", self.tables))
    }
}

impl SchemaChanges {
    pub(crate) fn new(root: Root, limits: Limits) -> Self {
        Self { root, limits, waiting: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Commits changes that some rows need and returns a catalog that has them; what somebody else did meanwhile
    /// is passed over, even when it differs: the rows are decoded again and judged by it.
    ///
    /// # Errors
    /// Invalid when a change cannot be made (a name or a limit); Unavailable when its outcome is unknown.
    pub(crate) async fn commit(&self, database: DatabaseId, changes: Vec<SchemaChange>) -> Result<Arc<Catalog>> {
        let (answer, mut answered) = oneshot::channel();
        self.waiting.lock().push(Waiting { database, changes: changes.clone(), answer });
        let _turn = self.turn.lock().await;
        match answered.try_recv() {
            Ok(result) => return result,
            Err(oneshot::error::TryRecvError::Empty) => {}
            // Whoever had the turn took the changes along and was cancelled; this task has the turn now.
            Err(oneshot::error::TryRecvError::Closed) => {
                let (result, catalog) =
                    self.root.commit(&[], |draft| Ok(apply(draft, database, &changes, self.limits))).await?;
                return result.map(|()| catalog);
            }
        }
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let committed = self
            .root
            .commit(&[], |draft| {
                Ok(waiting
                    .iter()
                    .map(|w| apply(draft, w.database, &w.changes, self.limits))
                    .collect::<Vec<Result<()>>>())
            })
            .await;
        match committed {
            Ok((results, catalog)) => {
                for (waiting, result) in waiting.into_iter().zip(results) {
                    let _ = waiting.answer.send(result.map(|()| catalog.clone()));
                }
            }
            Err(error) => {
                for waiting in waiting {
                    let _ = waiting.answer.send(Err(Error::new(error.kind(), error.to_string())));
                }
            }
        }
        answered.await.map_err(|_| Error::internal("a schema change was committed but not answered"))?
    }
}

/// Makes those of the changes that are still to be made; each is made as a whole or not at all.
fn apply(draft: &mut Draft, database: DatabaseId, changes: &[SchemaChange], limits: Limits) -> Result<()> {
    for change in changes {
        match change {
            SchemaChange::CreateTable { name, columns } => match draft.catalog().table(database, name).cloned() {
                None => {
                    limits.check_tables(draft, database, name)?;
                    if columns.len() > limits.columns {
                        return Err(Error::invalid("too many columns for one table")
                            .with("table", name)
                            .with("limit", limits.columns)
                            .with("found", columns.len()));
                    }
                    draft.create_table(database, name, columns.iter().cloned())?;
                }
                Some(table) => {
                    let mut changed = table.as_ref().clone();
                    for (name, role, ty) in columns.iter().skip(1) {
                        if changed.column(name).is_none() {
                            changed.add_column(name, *role, *ty)?;
                        }
                    }
                    if changed != *table {
                        limits.check_columns(&changed)?;
                        draft.put_table(changed)?;
                    }
                }
            },
            SchemaChange::AddColumn { table, name, role, ty } => {
                let found = draft.catalog().table_by_id(*table).cloned();
                if let Some(table) = found.filter(|t| t.column(name).is_none()) {
                    let mut changed = table.as_ref().clone();
                    changed.add_column(name, *role, *ty)?;
                    limits.check_columns(&changed)?;
                    draft.put_table(changed)?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tidelake_format::{
        schema::{Database, Role},
        store::Store,
        types::{Precision, Type},
    };

    use super::*;

    fn table(name: &str, field: &str) -> SchemaChange {
        let columns = vec![("ts".into(), Role::Time, Type::Timestamp), (field.into(), Role::Field, Type::Double)];
        SchemaChange::CreateTable { name: name.into(), columns }
    }

    async fn changes() -> (SchemaChanges, DatabaseId) {
        let root = Root::open(Store::in_memory()).await.unwrap();
        let create = |draft: &mut Draft| {
            draft.create_database("db", Precision::Nano, Database::DEFAULT_KEEP_MS, Database::DEFAULT_PARTITION_MS)
        };
        let (database, _) = root.commit(&[], create).await.unwrap();
        (SchemaChanges::new(root, Limits { tables: 100, columns: 100 }), database.id)
    }

    #[tokio::test]
    async fn changes_that_wait_together_share_a_commit_and_a_wrong_one_fails_alone() {
        let (changes, database) = changes().await;
        let before = changes.root.catalog().version;
        let turn = changes.turn.lock().await;
        let names: Vec<String> = (0..10).map(|i| if i == 3 { String::new() } else { format!("t{}", i / 2) }).collect();
        let all =
            names.iter().enumerate().map(|(i, name)| changes.commit(database, vec![table(name, &format!("f{i}"))]));
        let release = async {
            tokio::task::yield_now().await;
            drop(turn);
        };
        let (results, ()) = tokio::join!(join_all(all), release);
        assert_eq!(results.iter().map(Result::is_ok).filter(|ok| !ok).count(), 1);
        assert!(results[3].is_err());
        let catalog = changes.root.catalog();
        assert_eq!(catalog.version, before.next());
        let t0: Vec<_> = catalog.table(database, "t0").unwrap().fields().map(|c| c.name.clone()).collect();
        assert_eq!(t0, ["f0", "f1"]);
    }

    #[tokio::test]
    async fn what_somebody_else_added_meanwhile_is_not_added_again() {
        let (changes, database) = changes().await;
        let first = changes.commit(database, vec![table("t", "f")]).await.unwrap();
        assert_eq!(changes.commit(database, vec![table("t", "f")]).await.unwrap().version, first.version);
    }
}
