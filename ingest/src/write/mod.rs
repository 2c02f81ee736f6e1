//! Writing: requests are decoded on their own task, join the open group, and are acknowledged when the log segment
//! of their group is in the store.

use std::sync::Arc;

use arrow::array::RecordBatch;
use bytes::Bytes;
use futures::Stream;
use tidelake_format::{Error, Result, ids::Token, meta::Root};

use crate::{
    clock::Clock,
    compact::{CompactReport, CompactRequest},
    config::IngestConfig,
};

/// When a request is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// After its rows are in the store.
    #[default]
    Stored,
    /// From the buffer: no token, and a crash loses it.
    Buffered,
}

/// What a request of rows did.
#[derive(Debug, Default)]
pub struct Written {
    /// Rows (lines, points) that were kept.
    pub accepted: u64,
    /// What a later query brings to see them; `None` when nothing was stored, or not yet.
    pub token: Option<Token>,
}

/// What a statement did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executed {
    /// Rows written; 0 for a change of definitions.
    pub affected_rows: u64,
    /// What a later query brings to see the effect; `None` when there is none.
    pub token: Option<Token>,
    /// The database that a USE statement chose.
    pub use_database: Option<String>,
}

/// What a bulk ingest does when its table exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// Refuse.
    Fail,
    /// Add the rows.
    #[default]
    Append,
    /// Drop the table first.
    Replace,
}

/// What a bulk ingest does when its table does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfAbsent {
    /// Refuse.
    Fail,
    /// Create it from the schema of the batches.
    #[default]
    Create,
}

/// Where a bulk ingest goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestTarget {
    /// The database.
    pub database: String,
    /// The supertable.
    pub table: String,
    /// What to do when it does not exist.
    pub if_absent: IfAbsent,
    /// What to do when it exists.
    pub if_exists: IfExists,
}

/// The write path of one process over one root; cheap to clone.
#[derive(Clone)]
pub struct Ingest {
    root: Root,
    config: Arc<IngestConfig>,
}

impl Ingest {
    /// Starts writers under new ids and, when the settings say so, background compaction.
    ///
    /// # Errors
    /// Invalid, naming every setting that cannot work.
    pub async fn open(root: Root, config: IngestConfig, _clock: Arc<dyn Clock>) -> Result<Ingest> {
        config.check()?;
        Ok(Self { root, config: Arc::new(config) })
    }

    /// The root that it writes to.
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Its settings.
    pub fn config(&self) -> &IngestConfig {
        &self.config
    }

    /// Executes one writing statement of TDengine's SQL; `parameters` holds one row for each execution.
    ///
    /// # Errors
    /// Invalid for a wrong statement, NotFound for an unknown database or table, Unavailable when the buffer is full
    /// or the store does not answer.
    pub async fn execute(
        &self,
        _database: Option<&str>,
        _sql: &str,
        _parameters: Option<&RecordBatch>,
    ) -> Result<Executed> {
        Err(Error::internal("statements are not wired yet"))
    }

    /// Writes batches into one supertable.
    ///
    /// # Errors
    /// As for [`Ingest::execute`]; the first row that does not fit fails the whole ingest with its number.
    pub async fn ingest_batches(
        &self,
        _target: IngestTarget,
        _batches: impl Stream<Item = Result<RecordBatch>> + Send,
    ) -> Result<Written> {
        Err(Error::internal("bulk ingest is not wired yet"))
    }

    /// Writes a body of line protocol.
    ///
    /// # Errors
    /// NotFound for an unknown database, Unavailable when the buffer is full or the store does not answer.
    pub async fn write_line_protocol(&self, _database: &str, _body: Bytes, _durability: Durability) -> Result<Written> {
        Err(Error::internal("line protocol is not wired yet"))
    }

    /// Folds and merges now, as far as the request says.
    ///
    /// # Errors
    /// Unavailable when the store does not answer, Corrupt naming the object that is.
    pub async fn compact(&self, _request: CompactRequest) -> Result<CompactReport> {
        Err(Error::internal("compaction is not wired yet"))
    }

    /// Flushes what waits and ends the background tasks.
    pub async fn shutdown(&self) {}
}
