//! The door to the write path: a query node holds one and never sees the crate behind it.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use futures::stream::BoxStream;
use tidelake_format::{Error, Result, access::Secret, ids::Token, rows::RowCounts, types::Type};
use tidelake_protocol::{http::headers::WriteReply, sql::Update};

use crate::session::Session;

/// What a writing statement did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriteOutcome {
    /// Rows written, or 0 for a statement that changes definitions.
    pub affected_rows: u64,
    /// What a later query brings to see this write; `None` when nothing was stored.
    pub token: Option<Token>,
    /// The database that a USE statement chose.
    pub use_database: Option<String>,
    /// Whether this was a copy of an earlier request under its idempotency key: nothing was written now.
    pub replayed: bool,
    /// The text of a token that was made, told this once.
    pub secret: Option<Secret>,
    /// What became of the rows that it brought; `None` of a statement that brings none, and of a copy.
    pub rows: Option<RowCounts>,
    /// Remarks that the client should see.
    pub notices: Vec<String>,
}

impl WriteOutcome {
    /// What the headers of the reply say of it.
    pub(crate) fn reply(&self) -> WriteReply<'_> {
        WriteReply { token: self.token, replayed: self.replayed, rows: self.rows, notices: &self.notices }
    }

    /// What this part of a request did and the next one, together.
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

/// What a bulk ingest does when its table exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfExists {
    /// Refuse.
    Fail,
    /// Add the rows.
    Append,
    /// Drop the table first.
    Replace,
}

/// Where a bulk ingest goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestTarget {
    /// The database; `None` is the session's.
    pub database: Option<String>,
    /// The supertable.
    pub table: String,
    /// Create the table when it does not exist; refuse otherwise.
    pub create: bool,
    /// What to do when it exists.
    pub if_exists: IfExists,
}

/// Executes what changes the root.
#[async_trait]
pub trait Writer: Send + Sync + 'static {
    /// Executes one statement that changes data, definitions or rights, in the given database.
    ///
    /// `parameters` holds one row for each execution: column i is the value of `?` number i.
    ///
    /// # Errors
    /// Invalid for a statement that is wrong, Unavailable when the store or a buffer cannot take it now.
    async fn execute(
        &self,
        database: Option<&str>,
        update: &Update,
        parameters: Option<RecordBatch>,
    ) -> Result<WriteOutcome>;

    /// The type of each parameter of a statement, in order; `None` where the statement does not say.
    ///
    /// # Errors
    /// As for [`Writer::execute`].
    async fn parameters(&self, database: Option<&str>, update: &Update) -> Result<Vec<Option<Type>>>;

    /// A writer for one request: in the session's time zone, for its user, who may do no more than their rights say. Under an idempotency key, of all copies of the request one is written, and the others
    /// get its answer; changes of definitions take no notice of it, unless it is the key of a message of a queue.
    ///
    /// # Errors
    /// Invalid for a text that cannot be a key; Unsupported where nothing is written.
    fn of_request(&self, session: &Session) -> Result<Arc<dyn Writer>>;

    /// Writes batches into one supertable, all visible together.
    ///
    /// # Errors
    /// As for [`Writer::execute`].
    async fn ingest(
        &self,
        target: IngestTarget,
        batches: BoxStream<'static, Result<RecordBatch>>,
    ) -> Result<WriteOutcome>;
}

/// The writer of a node that only reads: refuses everything, saying so.
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
