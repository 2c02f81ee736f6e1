//! Schema changes on the fly: whatever requests of this process wait for goes into one commit.

use std::sync::Arc;

use parking_lot::Mutex;
use tidelake_format::{
    Error, Result,
    ids::DatabaseId,
    meta::{Catalog, Draft, Root},
};
use tokio::sync::oneshot;

use crate::decode::SchemaChange;

/// Commits the changes that decoding asked for.
#[derive(Debug)]
pub(crate) struct SchemaChanges {
    root: Root,
    waiting: Mutex<Vec<Waiting>>,
    turn: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct Waiting {
    database: DatabaseId,
    changes: Vec<SchemaChange>,
    answer: oneshot::Sender<Result<Arc<Catalog>>>,
}

impl SchemaChanges {
    pub(crate) fn new(root: Root) -> Self {
        Self { root, waiting: Mutex::default(), turn: tokio::sync::Mutex::default() }
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
                let (result, catalog) = self.root.commit(&[], |draft| Ok(apply(draft, database, &changes))).await?;
                return result.map(|()| catalog);
            }
        }
        let waiting = std::mem::take(&mut *self.waiting.lock());
        let committed = self
            .root
            .commit(&[], |draft| {
                Ok(waiting.iter().map(|w| apply(draft, w.database, &w.changes)).collect::<Vec<Result<()>>>())
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
fn apply(draft: &mut Draft, database: DatabaseId, changes: &[SchemaChange]) -> Result<()> {
    for change in changes {
        match change {
            SchemaChange::CreateTable { name, columns } => match draft.catalog().table(database, name).cloned() {
                None => {
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
                        draft.put_table(changed)?;
                    }
                }
            },
            SchemaChange::AddColumn { table, name, role, ty } => {
                let found = draft.catalog().table_by_id(*table).cloned();
                if let Some(table) = found.filter(|t| t.column(name).is_none()) {
                    let mut changed = table.as_ref().clone();
                    changed.add_column(name, *role, *ty)?;
                    draft.put_table(changed)?;
                }
            }
        }
    }
    Ok(())
}
