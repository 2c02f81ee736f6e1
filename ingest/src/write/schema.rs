//! Schema changes that rows need: all changes that requests of this process wait for share one commit.

use std::sync::Arc;

use parking_lot::Mutex;
use tidelake_format::{
    Error, Result,
    ids::DatabaseId,
    meta::{Catalog, Draft, Root},
};
use tokio::sync::oneshot;

use crate::{
    config::IngestConfig,
    decode::{Limits, SchemaChange},
};

/// Commits the schema changes that decoding needs.
#[derive(Debug)]
pub(crate) struct SchemaChanges {
    root: Root,
    limits: Limits,
    waiting: Mutex<Vec<Waiting>>,
    turn: tokio::sync::Mutex<()>,
}

/// A catalog after a commit, and the error if the changes could not be made.
type Committed = (Arc<Catalog>, Option<Error>);

#[derive(Debug)]
struct Waiting {
    database: DatabaseId,
    changes: Vec<SchemaChange>,
    answer: oneshot::Sender<Result<Committed>>,
}

/// The least number of tables that one request may create, whatever the limit of a database.
const LEAST_NEW_TABLES: usize = 1_000;

/// Limits on schema changes by rows: one request creates at most a tenth of a database's tables, so that it does not take up
/// the places of all others.
pub(crate) fn limits(config: &IngestConfig) -> Limits {
    let new_tables = (config.tables / 10).max(LEAST_NEW_TABLES);
    Limits { tables: config.tables, new_tables, columns: config.columns }
}

impl SchemaChanges {
    pub(crate) fn new(root: Root, limits: Limits) -> Self {
        Self { root, limits, waiting: Mutex::default(), turn: tokio::sync::Mutex::default() }
    }

    /// Limits on schema changes by rows.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Commits the changes that the rows of one request need, all of them or none, and returns a catalog to decode the rows
    /// with again. The catalog has the changes, or concurrent changes of other requests; with an error, it has whatever
    /// prevents the changes (a limit that other requests have reached meanwhile).
    ///
    /// # Errors
    /// Unavailable if the outcome is unknown.
    pub(crate) async fn commit(&self, database: DatabaseId, changes: Vec<SchemaChange>) -> Result<Committed> {
        let (answer, mut answered) = oneshot::channel();
        self.waiting.lock().push(Waiting { database, changes: changes.clone(), answer });
        let _turn = self.turn.lock().await;
        match answered.try_recv() {
            Ok(result) => return result,
            Err(oneshot::error::TryRecvError::Empty) => {}
            // The task that had the turn took these changes along and was cancelled; this task has the turn now.
            Err(oneshot::error::TryRecvError::Closed) => {
                let (result, catalog) =
                    self.root.commit(&[], |draft| Ok(apply(draft, database, &changes, self.limits))).await?;
                return Ok((catalog, result.err()));
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
                    let _ = waiting.answer.send(Ok((catalog.clone(), result.err())));
                }
            }
            Err(error) => {
                for waiting in waiting {
                    let _ = waiting.answer.send(Err(error.copied()));
                }
            }
        }
        answered.await.map_err(|_| Error::internal("a schema change was committed but not answered"))?
    }
}

/// Applies the changes of one request that are still missing: all of them, or none if one is impossible.
fn apply(draft: &mut Draft, database: DatabaseId, changes: &[SchemaChange], limits: Limits) -> Result<()> {
    let before = draft.clone();
    let made = changes.iter().try_for_each(|change| apply_one(draft, database, change, limits));
    if made.is_err() {
        *draft = before;
    }
    made
}

fn apply_one(draft: &mut Draft, database: DatabaseId, change: &SchemaChange, limits: Limits) -> Result<()> {
    let (table, columns) = match change {
        SchemaChange::CreateTable { name, columns } => match draft.catalog().table(database, name).cloned() {
            None => {
                let tables = draft.catalog().tables(database).count();
                limits.check_table(name, tables).map_err(Error::invalid)?;
                draft.create_table(database, name, columns.iter().cloned())?;
                return Ok(());
            }
            Some(table) => (table, columns.get(1..).unwrap_or_default().to_vec()),
        },
        SchemaChange::AddColumn { table, name, role, ty } => match draft.catalog().table_by_id(*table).cloned() {
            Some(table) => (table, vec![(name.clone(), *role, *ty)]),
            None => return Ok(()),
        },
    };
    let mut changed = table.as_ref().clone();
    for (name, role, ty) in &columns {
        if changed.column(name).is_none() {
            limits.check_column(&changed).map_err(Error::invalid)?;
            changed.add_column(name, *role, *ty)?;
        }
    }
    if changed != *table {
        draft.put_table(changed)?;
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
        (SchemaChanges::new(root, Limits { tables: 100, new_tables: 100, columns: 4 }), database.id)
    }

    #[tokio::test]
    async fn waiting_changes_share_a_commit_and_an_invalid_one_fails_alone() {
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
        let refused: Vec<bool> = results.iter().map(|r| r.as_ref().unwrap().1.is_some()).collect();
        assert_eq!(refused.iter().filter(|r| **r).count(), 1);
        assert!(refused[3]);
        let catalog = changes.root.catalog();
        assert_eq!(catalog.version, before.next());
        let t0: Vec<_> = catalog.table(database, "t0").unwrap().fields().map(|c| c.name.clone()).collect();
        assert_eq!(t0, ["f0", "f1"]);
    }

    #[tokio::test]
    async fn concurrently_added_tables_and_columns_are_not_added_again() {
        let (changes, database) = changes().await;
        let first = changes.commit(database, vec![table("t", "f")]).await.unwrap().0;
        assert_eq!(changes.commit(database, vec![table("t", "f")]).await.unwrap().0.version, first.version);
    }

    #[tokio::test]
    async fn no_change_of_a_request_that_exceeds_a_limit_is_made() {
        let (changes, database) = changes().await;
        let before = changes.root.catalog().version;
        let wide = |n: usize| (0..n).map(|i| table("t", &format!("f{i}"))).collect::<Vec<_>>();
        let tables = (0..101).map(|i| table(&format!("t{i}"), "f")).collect();
        for too_many in [wide(4), tables] {
            let (catalog, refused) = changes.commit(database, too_many).await.unwrap();
            assert!(refused.unwrap().message().starts_with("too many"));
            assert_eq!((catalog.version, catalog.tables(database).count()), (before, 0));
        }
        let (catalog, refused) = changes.commit(database, wide(3)).await.unwrap();
        assert!(refused.is_none());
        assert_eq!(catalog.table(database, "t").unwrap().columns.len(), 4);
    }
}
