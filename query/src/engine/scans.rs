//! Scans planned by one process and executed by another.

use std::{sync::Arc, time::Duration};

use datafusion::physical_plan::{ExecutionPlan, coalesce_partitions::CoalescePartitionsExec};
use tidelake_format::{Error, Result, snapshot::Snapshot, step};

use super::{
    Engine, Place,
    plans::Executable,
    prepared::{Outcome, Text},
};
use crate::{
    levels::SeriesAggregate,
    scan::{ScanSpec, SeriesScan},
    session::Session,
};

impl Engine {
    /// The scans of a query, in the order of its plan. An aggregate answered by levels is returned as the scan of its rows.
    ///
    /// # Errors
    /// Invalid for a statement that is not a query; as [`Engine::query`].
    pub async fn scans(&self, session: &Session, sql: &str) -> Result<Vec<ScanSpec>> {
        let Text::Query(text) = self.read(session, sql)? else {
            return Err(Error::invalid("statement has no scans: expected a query"));
        };
        let underway = self.inner.system.queries.begin(session, sql);
        underway.only_prepares();
        let _permit = underway.unless_killed(self.permit(session, sql)).await?;
        underway.plans();
        let snapshot = underway.unless_killed(self.snapshot(session)).await?;
        let budget = self.budget(session, sql, Duration::ZERO, &underway)?;
        let prepared = underway.unless_killed(self.plan(session, sql, text, &snapshot, &budget));
        let prepared = budget.in_time(prepared).await?;
        let executable = self.executable(session, snapshot.clone(), &prepared, None, &budget);
        let executable = budget.in_time(underway.unless_killed(executable)).await?;
        // On a planner thread: this may copy the names of many series.
        let listed = Box::pin(async move {
            let mut specs = Vec::new();
            collect(&executable.plan, &snapshot, &mut specs)?;
            Ok(specs)
        });
        budget.in_time(underway.unless_killed(self.inner.planners.run(&budget, listed))).await
    }

    /// Executes a scan that an engine of this or another process planned over the same root.
    ///
    /// # Errors
    /// NotFound when the scan's snapshot is no longer in the store; Forbidden where the session may not read the table; as
    /// [`Engine::query`].
    pub async fn scan(&self, session: &Session, spec: &ScanSpec) -> Result<Outcome> {
        let text = spec.to_string();
        let underway = self.inner.system.queries.begin(session, &text);
        let permit = underway.unless_killed(self.permit(session, &text)).await?;
        underway.runs();
        let budget = self.budget(session, &text, Duration::ZERO, &underway)?;
        let (engine, session_of_plan, spec) = (self.clone(), session.clone(), spec.clone());
        let planned = Box::pin(async move {
            let snapshot = engine.inner.snapshots.at(spec.snapshot()).await?;
            let (view, state) = engine.state(&session_of_plan, snapshot);
            let scan: Arc<dyn ExecutionPlan> = Arc::new(spec.open(&view, &state).await?);
            // The limit applies to each partition of the scan.
            let plan = match spec.limit() {
                Some(limit) => Arc::new(CoalescePartitionsExec::new(scan).with_fetch(Some(limit))) as _,
                None => scan,
            };
            Executable::new(plan, &state)
        });
        let executable = budget.in_time(underway.unless_killed(self.inner.planners.run(&budget, planned))).await?;
        let schema = executable.plan.schema();
        let place = Place { underway, permit: Some(permit) };
        self.start(session, executable, schema, place, step!("query"), budget)
    }
}

fn collect(plan: &Arc<dyn ExecutionPlan>, snapshot: &Snapshot, specs: &mut Vec<ScanSpec>) -> Result<()> {
    if let Some(scan) = plan.downcast_ref::<SeriesScan>() {
        specs.push(ScanSpec::of(scan, snapshot)?);
    } else if let Some(aggregate) = plan.downcast_ref::<SeriesAggregate>() {
        collect(aggregate.replaced(), snapshot, specs)?;
    }
    for child in plan.children() {
        collect(child, snapshot, specs)?;
    }
    Ok(())
}
