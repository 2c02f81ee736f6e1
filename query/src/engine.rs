//! One statement from text to a stream of batches.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{Field, SchemaRef},
};
use datafusion::{execution::SendableRecordBatchStream, logical_expr::LogicalPlan};
use tidelake_format::{
    Result,
    meta::{Catalog, Root},
    snapshot::SnapshotReader,
};

use crate::{
    session::Session,
    writer::{WriteOutcome, Writer},
};

/// The name of the one catalog, whose schemas are the databases.
pub const CATALOG: &str = "tidelake";

/// A statement that was parsed, and planned when it reads.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The text, with `?` where it has parameters.
    pub sql: String,
    /// What it does.
    pub kind: Statement,
    /// One field per parameter, in order, of the types that drivers can bind (CLIENTS: Int64, Float64, Utf8, Timestamp(ms)).
    pub parameters: Vec<Field>,
}

/// What a prepared statement does.
#[derive(Debug, Clone)]
pub enum Statement {
    /// It reads: the analyzed plan and the schema that goes over the wire ([`crate::wire`]).
    Query {
        /// Analyzed, not optimized; parameters are `$1…`.
        plan: Arc<LogicalPlan>,
        /// The result's names and wire types.
        schema: SchemaRef,
    },
    /// It writes: the [`Writer`] gets its text.
    Update,
}

/// What an execution gives.
pub enum Outcome {
    /// Rows, already in wire types and under their final names.
    Rows(SendableRecordBatchStream),
    /// A write.
    Updated(WriteOutcome),
}

/// Plans and runs statements over one root; cheap to clone.
#[derive(Clone)]
pub struct Engine {
    _root: Root,
    _snapshots: Arc<SnapshotReader>,
    writer: Arc<dyn Writer>,
}

/// Limits of the engine.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// Memory of all queries together, in bytes; they spill beyond it.
    pub memory_bytes: usize,
    /// Threads of one query's scan and aggregation.
    pub partitions: usize,
    /// The longest a query may take.
    pub timeout: std::time::Duration,
    /// Queries at once; more wait, up to ten times as many, then are refused.
    pub concurrency: usize,
}

impl Engine {
    /// An engine over a root.
    pub fn new(root: Root, snapshots: Arc<SnapshotReader>, writer: Arc<dyn Writer>, _config: EngineConfig) -> Self {
        Self { _root: root, _snapshots: snapshots, writer }
    }

    /// The door to the write path.
    pub fn writer(&self) -> &Arc<dyn Writer> {
        &self.writer
    }

    /// The databases and tables as the session sees them: those of a snapshot that holds its tokens.
    ///
    /// # Errors
    /// Unavailable when the store cannot be asked or a token is not to be seen.
    pub async fn catalog(&self, session: &Session) -> Result<Arc<Catalog>> {
        Ok(self._snapshots.snapshot(&session.tokens).await?.catalog.clone())
    }

    /// Parses a statement and, when it reads, plans it.
    ///
    /// # Errors
    /// Invalid with the place of a syntax error, or the name that does not exist.
    pub async fn prepare(&self, _session: &Session, _sql: &str) -> Result<Prepared> {
        Err(tidelake_format::Error::internal("owner fills this in"))
    }

    /// Runs a prepared statement, once per row of `parameters` when it writes; with at most one row when it reads.
    ///
    /// # Errors
    /// Invalid for parameters that do not fit, Unavailable over a limit or a deadline.
    pub async fn run(
        &self,
        _session: &Session,
        _statement: &Prepared,
        _parameters: Option<RecordBatch>,
    ) -> Result<Outcome> {
        Err(tidelake_format::Error::internal("owner fills this in"))
    }
}
