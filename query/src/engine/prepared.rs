//! Prepared statements and the outcome of running them.

use std::sync::Arc;

use arrow::{
    array::RecordBatch,
    datatypes::{Field, Schema, SchemaRef},
};
use datafusion::{
    common::ScalarValue,
    execution::{SendableRecordBatchStream, SessionState, context::SQLOptions},
};
use tidelake_format::{Error, Result, access::Principal, ids::Version};
use tidelake_protocol::sql::Update;

use super::template::{Plan, Template};
use crate::{
    error::from_datafusion,
    frontend::{Query, Shape},
    scan::View,
    session::Session,
    wire::result_schema,
    writer::WriteOutcome,
};

/// Estimated bytes of a parameter's field with its name.
const PARAMETER_BYTES: usize = size_of::<Field>() + 64;

/// A parsed statement; a query is planned too.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The text, with `?` for each parameter.
    pub sql: String,
    /// The plan of a query, or the update.
    pub kind: Statement,
    /// One field per parameter, in order, of types that drivers can bind ([`parameter_fields`](crate::frontend::parameter_fields)).
    pub parameters: Vec<Field>,
    /// The catalog version in which names and types were resolved.
    pub version: Version,
    /// The principal whose rights applied when names were resolved. For another principal the statement is planned again.
    pub principal: Principal,
}

/// The kind of a prepared statement.
#[derive(Debug, Clone)]
pub enum Statement {
    /// A query: its plan and the wire schema of its result ([`crate::wire`]).
    Query {
        /// Not bound to a snapshot: each run reads a new one.
        plan: Arc<Plan>,
        /// Column names and wire types of the result.
        schema: SchemaRef,
    },
    /// Not a query: the engine executes KILL and USE, the [`Writer`](crate::writer::Writer) any other.
    Update(Update),
}

impl Prepared {
    /// Plans a query and fixes the schema of its result.
    pub(super) async fn query(
        sql: &str,
        query: &dyn Query,
        session: &Session,
        view: &View,
        state: &SessionState,
    ) -> Result<Self> {
        let planned = query.plan(state, session, view).await?;
        // Whichever front end made the plan: a query must not change the session, the disk or the catalog.
        let reading = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        reading.verify_plan(&planned.plan).map_err(from_datafusion)?;
        let fields = planned.plan.schema().fields();
        if fields.len() != planned.names.len() {
            return Err(Error::internal("plan and result names differ in number")
                .with("expected", planned.names.len())
                .with("found", fields.len()));
        }
        let named = fields.iter().zip(planned.names).map(|(f, name)| f.as_ref().clone().with_name(name));
        let schema = result_schema(&Schema::new(named.collect::<Vec<_>>()), session.tag_encoding);
        let plan = Arc::new(Plan::new(planned.plan, planned.parameters.len(), state).map_err(from_datafusion)?);
        Ok(Self {
            sql: sql.to_owned(),
            kind: Statement::Query { plan, schema },
            parameters: planned.parameters,
            version: view.snapshot.catalog.version,
            principal: session.principal.clone(),
        })
    }

    /// A statement that is not a query, prepared by the session's principal.
    pub(super) fn update(update: Update, parameters: Vec<Field>, session: &Session) -> Self {
        let (version, principal) = (Version::default(), session.principal.clone());
        Self { sql: update.text().to_string(), kind: Statement::Update(update), parameters, version, principal }
    }

    /// The template of a query that is one, with the schema of its result.
    pub(super) fn template(&self) -> Option<(&Template, &SchemaRef)> {
        match &self.kind {
            Statement::Query { plan, schema } => match plan.as_ref() {
                Plan::Template(template) => Some((template, schema)),
                _ => None,
            },
            Statement::Update(_) => None,
        }
    }

    /// The values of a query's parameters `$1…`, from the single row of `parameters`.
    pub(super) fn values(&self, parameters: Option<RecordBatch>) -> Result<Vec<ScalarValue>> {
        let expected = self.parameters.len();
        let wrong = |found: String| {
            Err(Error::invalid("invalid parameters of a query: expected one row with one value per parameter")
                .with("expected", format!("1 row x {expected}"))
                .with("found", found))
        };
        let Some(batch) = parameters else { return wrong("none".to_owned()) };
        if batch.num_rows() != 1 || batch.num_columns() != expected {
            return wrong(format!("{} rows x {}", batch.num_rows(), batch.num_columns()));
        }
        let values = batch.columns().iter().map(|c| ScalarValue::try_from_array(c, 0));
        values.collect::<Result<_, _>>().map_err(from_datafusion)
    }

    /// Estimated bytes of the parameters' fields.
    pub(crate) fn parameter_bytes(&self) -> usize {
        PARAMETER_BYTES * self.parameters.len()
    }
}

/// The outcome of an execution.
pub enum Outcome {
    /// Rows, with wire types and final column names.
    Rows(SendableRecordBatchStream),
    /// The outcome of a statement that is not a query.
    Updated(WriteOutcome),
}

/// A statement's text, parsed as far as planning needs it.
pub(super) enum Text {
    Query(QueryText),
    Update(Update),
}

/// The text of a query.
pub(super) enum QueryText {
    /// A plan of it is cached, maybe for another catalog version.
    Known(Arc<Prepared>),
    /// Its shape, for which a plan may be cached.
    Shaped(Shape),
    Parsed(Box<dyn Query>),
}
