//! Interface to the write path: a query node uses it without depending on the crate that implements it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use futures::stream::BoxStream;
use tidelake_format::{Error, Result, access::Secret, ids::Token, rows::RowCounts, types::Type};
use tidelake_protocol::{http::headers::WriteReply, sql::Update};

use crate::session::Session;

/// Result of a writing statement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Number of rows written; 0 for a statement that changes definitions.
    pub affected_rows: u64,
    /// Token with which a later query sees this write; `None` if nothing was stored.
    pub token: Option<Token>,
    /// The database chosen by a USE statement.
    pub use_database: Option<String>,
    /// Whether this was a repeat of an earlier request under its idempotency key: nothing was written now.
    pub replayed: bool,
    /// Text of a newly created token, returned only once.
    pub secret: Option<Secret>,
    /// Outcome of the statement's rows; `None` for a statement without rows and for a repeat.
    pub rows: Option<RowCounts>,
    /// Notices for the client.
    pub notices: Vec<String>,
}

impl WriteOutcome {
    /// The data for the reply's headers.
    pub(crate) fn reply(&self) -> WriteReply<'_> {
        WriteReply { token: self.token, replayed: self.replayed, rows: self.rows, notices: &self.notices }
    }

    /// Combines the outcomes of this part of a request and the next.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        let rows = match (self.rows, next.rows) {
            (Some(before), Some(after)) => Some(before.plus(after)),
            (before, after) => before.or(after),
        };
        Self {
            affected_rows: self.affected_rows + next.affected_rows,
            token: next.token.or(self.token),
            use_database: next.use_database.or(self.use_database),
            replayed: self.replayed && next.replayed,
            secret: next.secret.or(self.secret),
            rows,
            notices: if self.notices.is_empty() { next.notices } else { self.notices },
        }
    }
}

/// What a bulk ingest does if its table exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// Fail.
    Fail,
    /// Append the rows.
    Append,
    /// Drop the table first.
    Replace,
}

/// Target of a bulk ingest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestTarget {
    /// The database; `None` = the session's.
    pub database: Option<String>,
    /// The supertable.
    pub table: String,
    /// Whether to create the table if it does not exist; fail otherwise.
    pub create: bool,
    /// What to do if it exists.
    pub if_exists: IfExists,
}

/// Executes statements and ingests that change the root.
#[async_trait]
pub trait Writer: Send + Sync + 'static {
    /// Executes one statement that changes data, definitions or rights, in the given database.
    ///
    /// `parameters` holds one row per execution: column i is the value of `?` number i.
    ///
    /// # Errors
    /// Invalid for a wrong statement, Unavailable if the store or a buffer cannot accept it now.
    async fn execute(
        &self,
        database: Option<&str>,
        update: &Update,
        parameters: Option<RecordBatch>,
    ) -> Result<WriteOutcome>;

    /// Returns the type of each parameter of a statement, in order; `None` if the statement does not determine it.
    ///
    /// # Errors
    /// As for [`Writer::execute`].
    async fn parameters(&self, database: Option<&str>, update: &Update) -> Result<Vec<Option<Type>>>;

    /// Returns a writer for one request: in the session's time zone, with its user's rights. Under an idempotency key,
    /// only one of all repeats of the request is written, and the others return its result; changes of definitions
    /// ignore the key, unless it is the key of a queue message.
    ///
    /// # Errors
    /// Invalid for a text that is not a valid key; Unsupported on a read-only node.
    fn of_request(&self, session: &Session) -> Result<Arc<dyn Writer>>;

    /// Writes batches into one supertable; they become visible together.
    ///
    /// # Errors
    /// As for [`Writer::execute`].
    async fn ingest(
        &self,
        target: IngestTarget,
        batches: BoxStream<'static, Result<RecordBatch>>,
    ) -> Result<WriteOutcome>;
}

/// The writer of a read-only node: rejects everything.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReadOnlyWriter;

#[async_trait]
impl Writer for ReadOnlyWriter {
    async fn execute(&self, _: Option<&str>, update: &Update, _: Option<RecordBatch>) -> Result<WriteOutcome> {
        Err(only_reads(update))
    }

    async fn parameters(&self, _: Option<&str>, update: &Update) -> Result<Vec<Option<Type>>> {
        Err(only_reads(update))
    }

    fn of_request(&self, _: &Session) -> Result<Arc<dyn Writer>> {
        Ok(Arc::new(Self))
    }

    async fn ingest(&self, target: IngestTarget, _: BoxStream<'static, Result<RecordBatch>>) -> Result<WriteOutcome> {
        Err(Error::unsupported("this node only reads; send rows to an ingest endpoint").with("table", target.table))
    }
}

fn only_reads(update: &Update) -> Error {
    let action = update.statement().deed(None).action;
    Error::unsupported("this node only reads; send writing statements to an ingest endpoint").with("statement", action)
}
