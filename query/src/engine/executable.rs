//! From a logical plan to a physical plan on a snapshot: a cached one, a cached one with a new scan, or a new one.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::{common::ScalarValue, logical_expr::LogicalPlan};
use tidelake_format::{Error, Result, snapshot::Snapshot};

use super::{
    Engine, log_fault,
    plans::Executable,
    prepared::{Prepared, Statement},
    template::Plan,
};
use crate::{
    budget::{Budget, Phase, Within},
    error::from_datafusion,
    session::Session,
};

impl Engine {
    /// The physical plan of a statement, cached or new, on a snapshot of the same catalog. Planning runs on the planner threads,
    /// except where only a scan is replaced.
    pub(super) async fn executable(
        &self,
        session: &Session,
        snapshot: Arc<Snapshot>,
        statement: &Arc<Prepared>,
        parameters: Option<RecordBatch>,
        budget: &Budget,
    ) -> Result<Executable> {
        if statement.parameters.is_empty()
            && let Some(known) = self.inner.plans.executable(session, statement, &snapshot)
        {
            return Ok(known);
        }
        if self.has_rescan(session, &snapshot, statement, parameters.as_ref()) {
            let here = Box::pin(self.executable_here(session, snapshot, statement, parameters));
            return Within::new(budget.clone(), Phase::Plan, here).await;
        }
        let (engine, session, statement) = (self.clone(), session.clone(), statement.clone());
        let planned = Box::pin(async move { engine.executable_here(&session, snapshot, &statement, parameters).await });
        self.inner.planners.run(budget, planned).await.inspect_err(log_fault)
    }

    /// Whether a physical plan is cached that can run the statement with a new scan.
    fn has_rescan(
        &self,
        session: &Session,
        snapshot: &Arc<Snapshot>,
        statement: &Arc<Prepared>,
        parameters: Option<&RecordBatch>,
    ) -> bool {
        let Statement::Query { plan, .. } = &statement.kind else { return false };
        let has_rescan = |statement| {
            let known = self.inner.plans.executable(session, statement, snapshot);
            known.is_some_and(|known| known.rescan.is_some())
        };
        match plan.as_ref() {
            Plan::Template(template) => {
                let values = statement.values(parameters.cloned());
                values.is_ok_and(|values| template.exact(&values).is_some()) && has_rescan(statement)
            }
            Plan::Instance(general, _) => has_rescan(general),
            Plan::Analyzed(_) | Plan::Optimized(_) => false,
        }
    }

    /// The same on the current thread.
    async fn executable_here(
        &self,
        session: &Session,
        snapshot: Arc<Snapshot>,
        statement: &Arc<Prepared>,
        parameters: Option<RecordBatch>,
    ) -> Result<Executable> {
        let Statement::Query { plan, .. } = &statement.kind else {
            return Err(Error::internal("expected a query, found an update"));
        };
        let kept = statement.parameters.is_empty();
        if kept && let Some(known) = self.inner.plans.executable(session, statement, &snapshot) {
            return Ok(known);
        }
        let values = if kept { Vec::new() } else { statement.values(parameters)? };
        let executable = match plan.as_ref() {
            Plan::Optimized(plan) => {
                let (_, state) = self.state(session, snapshot.clone());
                let plan = state.query_planner().create_physical_plan(plan, &state).await.map_err(from_datafusion)?;
                Executable::new(plan, &state)?
            }
            Plan::Instance(general, values) => self.instance(session, &snapshot, general, values.clone()).await?,
            Plan::Template(template) => match template.exact(&values) {
                Some(exact) => return self.instance(session, &snapshot, statement, exact).await,
                None => {
                    let plan = template.bind_inexact(values).map_err(from_datafusion)?;
                    return self.optimized(session, snapshot, &plan).await;
                }
            },
            Plan::Analyzed(plan) if kept => return self.optimized(session, snapshot, plan).await,
            Plan::Analyzed(plan) => {
                let plan = plan.clone().with_param_values(values).map_err(from_datafusion)?;
                return self.optimized(session, snapshot, &plan).await;
            }
        };
        self.inner.plans.keep_executable(session, statement, &snapshot, &executable);
        Ok(executable)
    }

    /// Optimizes an analyzed plan without parameters and plans it physically.
    async fn optimized(&self, session: &Session, snapshot: Arc<Snapshot>, plan: &LogicalPlan) -> Result<Executable> {
        let (_, state) = self.state(session, snapshot);
        let plan = state.create_physical_plan(plan).await.map_err(from_datafusion)?;
        Executable::new(plan, &state)
    }

    /// The physical plan of a template with values of exactly its types: the plan cached for other values with a new scan where
    /// the scan is the only difference, else a new plan.
    async fn instance(
        &self,
        session: &Session,
        snapshot: &Arc<Snapshot>,
        general: &Arc<Prepared>,
        values: Vec<ScalarValue>,
    ) -> Result<Executable> {
        let (template, _) =
            general.template().ok_or_else(|| Error::internal("values for a plan that is not a template"))?;
        let known = self.inner.plans.executable(session, general, snapshot);
        if let Some(Executable { context, is_long, rescan: Some(rescan), .. }) = known
            && let Some(plan) = rescan.with(&values).await.map_err(from_datafusion)?
        {
            return Ok(Executable { plan, context, is_long, rescan: None });
        }
        let (_, state) = self.state(session, snapshot.clone());
        let plan = template.bind(values).map_err(from_datafusion)?;
        let plan = state.query_planner().create_physical_plan(&plan, &state).await.map_err(from_datafusion)?;
        let mut executable = Executable::new(plan, &state)?;
        if let Some(rescan) = template.rescan(state, &executable.plan) {
            executable.rescan = Some(Arc::new(rescan));
            self.inner.plans.keep_executable(session, general, snapshot, &executable);
            executable.rescan = None;
        }
        Ok(executable)
    }
}
