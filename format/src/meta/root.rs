//! The handle to one root: its store, its chain and what is known of it.

use std::{sync::Arc, time::Duration};

use super::{Catalog, Draft, FileEntry};
use crate::{
    error::{Error, Result},
    ids::{TableId, Version},
    store::Store,
};

/// One root: its store and the newest version known. Cheap to clone; one per process.
#[derive(Debug, Clone)]
pub struct Root {
    store: Store,
}

fn later<T>() -> Result<T> {
    Err(Error::internal("not built yet"))
}

impl Root {
    /// Opens a root; creates version 0 where there is none.
    ///
    /// # Errors
    /// [`Kind::Corrupt`](crate::Kind::Corrupt) or [`Kind::Unsupported`](crate::Kind::Unsupported), naming the
    /// newest version's key; [`Kind::Unavailable`](crate::Kind::Unavailable).
    pub async fn open(_store: Store) -> Result<Self> {
        later()
    }

    /// Its store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The newest version known, without asking the store.
    pub fn catalog(&self) -> Arc<Catalog> {
        unreachable!()
    }

    /// How long ago the last answer that [`Root::catalog`] is the newest was asked for.
    pub fn confirmed_age(&self) -> Duration {
        Duration::MAX
    }

    /// Asks the store for newer versions and returns the newest; the question is asked after this call.
    ///
    /// # Errors
    /// As [`Root::open`].
    pub async fn refresh(&self) -> Result<Arc<Catalog>> {
        later()
    }

    /// Waits until a version is in the store.
    ///
    /// # Errors
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) at the deadline; as [`Root::open`].
    pub async fn wait_for(&self, _version: Version, _deadline: Duration) -> Result<Arc<Catalog>> {
        later()
    }

    /// The files of one partition in a version, lowest order first; empty where there are none.
    ///
    /// # Errors
    /// [`Kind::NotFound`](crate::Kind::NotFound) when the version has been collected meanwhile (take a new
    /// snapshot); as [`Root::open`].
    pub async fn files(&self, _catalog: &Catalog, _table: TableId, _partition: i64) -> Result<Arc<Vec<FileEntry>>> {
        later()
    }

    /// Commits a change. `change` runs on a draft of the newest version, again on each newer one until it wins,
    /// fails or 60 s have passed; a change that does nothing creates no version. `touching` names the partitions
    /// whose files it reads or changes.
    ///
    /// # Errors
    /// What `change` returns; [`Kind::Unavailable`](crate::Kind::Unavailable) when the outcome is unknown at the
    /// deadline; as [`Root::open`].
    pub async fn commit<T: Send>(
        &self,
        _touching: &[(TableId, i64)],
        _change: impl FnMut(&mut Draft) -> Result<T> + Send,
    ) -> Result<(T, Arc<Catalog>)> {
        later()
    }
}
