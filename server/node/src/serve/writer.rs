//! Connects the query side to the write path.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use futures::stream::BoxStream;
use tidelake_format::{Error, Reason, Result, types::Type};
use tidelake_ingest::write::{self, IdempotencyKey, Ingest};
use tidelake_protocol::sql::Update;
use tidelake_query::{
    session::Session,
    writer::{IfExists, IngestTarget, WriteOutcome, Writer},
};

/// Passes writing statements and batches to the write path of this process.
pub(super) struct IngestWriter {
    ingest: Ingest,
}

impl IngestWriter {
    pub(super) fn new(ingest: Ingest) -> Self {
        Self { ingest }
    }
}

#[async_trait]
impl Writer for IngestWriter {
    async fn execute(
        &self,
        database: Option<&str>,
        update: &Update,
        parameters: Option<RecordBatch>,
    ) -> Result<WriteOutcome> {
        let done = self.ingest.execute_update(database, update, parameters.as_ref()).await?;
        Ok(WriteOutcome {
            affected_rows: done.affected_rows,
            token: done.token,
            use_database: done.use_database,
            replayed: done.replayed,
            secret: done.secret,
            rows: done.rows,
            notices: done.notices,
        })
    }

    async fn parameters(&self, database: Option<&str>, update: &Update) -> Result<Vec<Option<Type>>> {
        self.ingest.parameters(database, update).await
    }

    fn of_request(&self, session: &Session) -> Result<Arc<dyn Writer>> {
        let key = session.idempotency_key.as_deref().map(IdempotencyKey::new).transpose()?;
        let mut ingest = self.ingest.clone();
        if let Some(rule) = &session.implausible_times {
            ingest = ingest.with_implausible(rule.parse()?);
        }
        let ingest = ingest.in_time_zone(session.time_zone).with_key(key).after(&session.tokens);
        Ok(Arc::new(Self::new(ingest.for_principal(session.principal.clone()))))
    }

    async fn ingest(
        &self,
        target: IngestTarget,
        batches: BoxStream<'static, Result<RecordBatch>>,
    ) -> Result<WriteOutcome> {
        let database = target.database.ok_or_else(|| {
            Error::invalid("no database selected; name one as the schema or in a 'database' header")
                .because(Reason::DatabaseNotSpecified)
                .with("table", &target.table)
        })?;
        let target = write::IngestTarget {
            database,
            table: target.table,
            if_absent: if target.create { write::IfAbsent::Create } else { write::IfAbsent::Fail },
            if_exists: match target.if_exists {
                IfExists::Fail => write::IfExists::Fail,
                IfExists::Append => write::IfExists::Append,
                IfExists::Replace => write::IfExists::Replace,
            },
        };
        let written = self.ingest.ingest_batches(target, batches).await?;
        Ok(WriteOutcome {
            affected_rows: written.accepted,
            token: written.token,
            use_database: None,
            replayed: written.replayed,
            secret: None,
            rows: written.counts(),
            notices: written.notices,
        })
    }
}
