//! From a text to a logical plan: a cached one, the plan of its shape with its literals, or a new one.

use std::sync::Arc;

use tidelake_format::{Error, Result, access::Deed, snapshot::Snapshot, step, steps::stepped};

use super::{
    Engine, LONG_TEXT, log_fault,
    prepared::{Prepared, QueryText, Statement, Text},
    template::Plan,
};
use crate::{
    budget::Budget,
    frontend::{self, Query, Read, Shape},
    pace::beside_the_runtime,
    session::Session,
};

impl Engine {
    /// Parses a text as far as planning needs it.
    pub(super) fn read(&self, session: &Session, sql: &str) -> Result<Text> {
        if let Some(known) = self.inner.plans.prepared(session, sql) {
            return Ok(Text::Query(QueryText::Known(known)));
        }
        let frontend = frontend::of(session.language);
        if let Some(shape) = frontend.shape(session, sql) {
            return Ok(Text::Query(QueryText::Shaped(shape)));
        }
        let read = || frontend.read(session, sql);
        Ok(match if sql.len() > LONG_TEXT { beside_the_runtime(read) } else { read() }? {
            Read::Query(query) => Text::Query(QueryText::Parsed(query)),
            Read::Update(update) => Text::Update(update),
        })
    }

    /// The cached plan of a statement, or of its shape, for the catalog of this snapshot; else the text.
    pub(super) fn planned_already(
        &self,
        session: &Session,
        sql: &str,
        text: QueryText,
        snapshot: &Snapshot,
    ) -> std::result::Result<Arc<Prepared>, QueryText> {
        match text {
            QueryText::Known(known) if known.version == snapshot.catalog.version => Ok(known),
            QueryText::Shaped(shape) => {
                let known = self.inner.plans.prepared(session, &shape.sql);
                let general = known.filter(|known| known.version == snapshot.catalog.version);
                general
                    .and_then(|general| self.with_values(session, sql, &shape, &general))
                    .ok_or(QueryText::Shaped(shape))
            }
            other => Err(other),
        }
    }

    /// Plans a query for the session. An error that refuses access is written to the audit log.
    pub(super) async fn plan(
        &self,
        session: &Session,
        sql: &str,
        text: QueryText,
        snapshot: &Arc<Snapshot>,
        budget: &Budget,
    ) -> Result<Arc<Prepared>> {
        let planned = self.plan_for(session, sql, text, snapshot, budget).await;
        if planned.is_err() {
            Deed { action: "QUERY", ..Deed::default() }.record_refusal(&session.principal, &planned);
        }
        planned
    }

    /// The plan of a query for the catalog of this snapshot, cached or new.
    async fn plan_for(
        &self,
        session: &Session,
        sql: &str,
        text: QueryText,
        snapshot: &Arc<Snapshot>,
        budget: &Budget,
    ) -> Result<Arc<Prepared>> {
        let text = match self.planned_already(session, sql, text, snapshot) {
            Ok(prepared) => return Ok(prepared),
            Err(text) => text,
        };
        let (engine, session, sql, snapshot) = (self.clone(), session.clone(), sql.to_owned(), snapshot.clone());
        let planned = Box::pin(async move { engine.plan_anew(&session, &sql, text, &snapshot).await });
        self.inner.planners.run(budget, planned).await.inspect_err(log_fault)
    }

    async fn plan_anew(
        &self,
        session: &Session,
        sql: &str,
        text: QueryText,
        snapshot: &Arc<Snapshot>,
    ) -> Result<Arc<Prepared>> {
        let shape = match text {
            QueryText::Known(_) => frontend::of(session.language).shape(session, sql),
            QueryText::Shaped(shape) => Some(shape),
            QueryText::Parsed(query) => return self.plan_query(session, sql, query.as_ref(), snapshot).await,
        };
        if let Some(shape) = shape
            && let Some(prepared) = self.plan_by_shape(session, sql, &shape, snapshot).await
        {
            return Ok(prepared);
        }
        self.plan_query(session, sql, query_of(session, sql)?.as_ref(), snapshot).await
    }

    async fn plan_query(
        &self,
        session: &Session,
        sql: &str,
        query: &dyn Query,
        snapshot: &Arc<Snapshot>,
    ) -> Result<Arc<Prepared>> {
        let (view, state) = self.state(session, snapshot.clone());
        let prepared = Arc::new(stepped(step!("plan"), Prepared::query(sql, query, session, &view, &state)).await?);
        self.inner.plans.keep(session, &prepared);
        Ok(prepared)
    }

    /// Binds the literals of a statement to the plan of its shape. `None` where the shape cannot be planned or a literal does not
    /// have its column's type: then the statement's own text is planned, which also yields the error.
    async fn plan_by_shape(
        &self,
        session: &Session,
        sql: &str,
        shape: &Shape,
        snapshot: &Arc<Snapshot>,
    ) -> Option<Arc<Prepared>> {
        let known = self.inner.plans.prepared(session, &shape.sql);
        let version = snapshot.catalog.version;
        let general = match known.filter(|k| k.version == version) {
            Some(known) => known,
            None => {
                let query = query_of(session, &shape.sql).ok()?;
                self.plan_query(session, &shape.sql, query.as_ref(), snapshot).await.ok()?
            }
        };
        self.with_values(session, sql, shape, &general)
    }

    /// Binds the literals of a statement to the plan of its shape, and caches the result.
    fn with_values(
        &self,
        session: &Session,
        sql: &str,
        shape: &Shape,
        general: &Arc<Prepared>,
    ) -> Option<Arc<Prepared>> {
        let (template, schema) = general.template()?;
        let values = shape.values(template.types(), session.time_zone)?;
        let kind = Statement::Query { plan: Arc::new(Plan::Instance(general.clone(), values)), schema: schema.clone() };
        let (principal, version) = (session.principal.clone(), general.version);
        let prepared = Arc::new(Prepared { sql: sql.to_owned(), kind, parameters: Vec::new(), version, principal });
        self.inner.plans.keep(session, &prepared);
        Some(prepared)
    }
}

/// Parses a text that is known to be a query.
fn query_of(session: &Session, sql: &str) -> Result<Box<dyn Query>> {
    match frontend::of(session.language).read(session, sql)? {
        Read::Query(query) => Ok(query),
        Read::Update(_) => Err(Error::internal("a query was parsed as an update")),
    }
}
