//! Statements as they were parsed and planned, and what running them gives.

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
    wire::wire_schema,
    writer::WriteOutcome,
};

/// A field with its name.
const PARAMETER_BYTES: usize = size_of::<Field>() + 64;

/// A statement that was parsed, and planned when it reads.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The text, with `?` where it has parameters.
    pub sql: String,
    /// What it does.
    pub kind: Statement,
    /// One field per parameter, in order, of the types that drivers can bind ([`parameter_fields`](crate::frontend::parameter_fields)).
    pub parameters: Vec<Field>,
    /// The version of the catalog that names and types were looked up in.
    pub version: Version,
    /// By whose rights names were looked up: nobody else runs it as it is.
    pub principal: Principal,
}

/// What a prepared statement does.
#[derive(Debug, Clone)]
pub enum Statement {
    /// It reads: the plan and the schema that goes over the wire ([`crate::wire`]).
    Query {
        /// Bound to no snapshot: each run reads a new one.
        plan: Arc<Plan>,
        /// The result's names and wire types.
        schema: SchemaRef,
    },
    /// It is not a query: the [`Writer`](crate::writer::Writer) executes it, or the engine where it is KILL or USE.
    Update(Update),
}

impl Prepared {
    /// Plans a statement that reads and settles the schema of its result.
    pub(super) async fn query(
        sql: &str,
        query: &dyn Query,
        session: &Session,
        view: &View,
        state: &SessionState,
    ) -> Result<Self> {
        let planned = query.plan(state, session, view).await?;
        // Whatever came through a front end: no query may change the session, the disk or the catalog
        let reading = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
        reading.verify_plan(&planned.plan).map_err(from_datafusion)?;
        let fields = planned.plan.schema().fields();
        if fields.len() != planned.names.len() {
            return Err(Error::internal("a plan has another number of columns than names")
                .with("expected", planned.names.len())
                .with("found", fields.len()));
        }
        let named = fields.iter().zip(planned.names).map(|(f, name)| f.as_ref().clone().with_name(name));
        let schema = wire_schema(&Schema::new(named.collect::<Vec<_>>()));
        let plan = Arc::new(Plan::new(planned.plan, planned.parameters.len(), state).map_err(from_datafusion)?);
        Ok(Self {
            sql: sql.to_owned(),
            kind: Statement::Query { plan, schema },
            parameters: planned.parameters,
            version: view.snapshot.catalog.version,
            principal: session.principal.clone(),
        })
    }

    /// A statement that is not a query, prepared by the user of the session.
    pub(super) fn update(update: Update, parameters: Vec<Field>, session: &Session) -> Self {
        let (version, principal) = (Version::default(), session.principal.clone());
        Self { sql: update.text().to_string(), kind: Statement::Update(update), parameters, version, principal }
    }

    /// The template that it is, and the schema of its result.
    pub(super) fn template(&self) -> Option<(&Template, &SchemaRef)> {
        match &self.kind {
            Statement::Query { plan, schema } => match plan.as_ref() {
                Plan::Template(template) => Some((template, schema)),
                _ => None,
            },
            Statement::Update(_) => None,
        }
    }

    /// The one row of parameters of a query, as `$1…`.
    pub(super) fn values(&self, parameters: Option<RecordBatch>) -> Result<Vec<ScalarValue>> {
        let expected = self.parameters.len();
        let wrong = |found: String| {
            Err(Error::invalid("a query takes one row with one value for each parameter")
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

    /// What the parameters take, about.
    pub(crate) fn parameter_bytes(&self) -> usize {
        PARAMETER_BYTES * self.parameters.len()
    }
}

/// What an execution gives.
pub enum Outcome {
    /// Rows, already in wire types and under their final names.
    Rows(SendableRecordBatchStream),
    /// A write.
    Updated(WriteOutcome),
}

/// A statement's text, read as far as planning needs it.
pub(super) enum Text {
    Query(QueryText),
    Update(Update),
}

/// The text of a statement that reads.
pub(super) enum QueryText {
    /// It was planned before, maybe on another catalog.
    Known(Arc<Prepared>),
    /// It may have the plan of its shape.
    Shaped(Shape),
    Parsed(Box<dyn Query>),
}
