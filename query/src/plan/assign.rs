//! Assigns rows to the windows that contain them: the clauses INTERVAL and SLIDING of TDengine's SQL.
//!
//! The node adds the start of the window as the last column; with overlapping windows, a row is repeated for each
//! window that contains it. An aggregation over the node groups by that column. Windows that do not overlap become a
//! DataFusion projection, so that filters, orders and the levels of aggregates ([`levels`](crate::levels)) see the
//! scan.

mod exec;

use std::{cmp::Ordering, collections::HashSet, fmt, sync::Arc};

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::{
    catalog::Session,
    common::{Column, DFSchema, DFSchemaRef, Result, internal_datafusion_err, internal_err},
    logical_expr::{
        Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore, lit,
        physical_planning_context::PhysicalPlanningContext,
    },
    physical_expr::{PhysicalExpr, expressions},
    physical_plan::{ExecutionPlan, projection::ProjectionExec},
    physical_planner::PhysicalPlanner,
};

pub(crate) use self::exec::AssignWindowsExec;
use tidelake_format::Error;

use super::Windows;
use crate::{error::to_datafusion, functions::window::WINDOW_START};

/// The column with the start of the window.
pub(crate) const START: &str = "__window_start";

/// Adds the windows of a time column.
///
/// # Errors
/// Invalid if the input has a column named [`START`], Internal if the time is not a time column of the input.
pub(crate) fn assign_windows(input: LogicalPlan, time: Column, windows: Windows) -> Result<LogicalPlan> {
    if input.schema().fields().iter().any(|field| field.name() == START) {
        let error =
            Error::invalid("INTERVAL cannot read a relation with a column of this name; rename it in a subquery");
        return Err(to_datafusion(error.with("column", START)));
    }
    let node = AssignWindows::try_new(input, time, windows)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// The logical node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct AssignWindows {
    pub(super) input: LogicalPlan,
    time: Column,
    windows: Windows,
    schema: DFSchemaRef,
}

impl AssignWindows {
    fn try_new(input: LogicalPlan, time: Column, windows: Windows) -> Result<Self> {
        let field = input.schema().field(input.schema().index_of_column(&time)?);
        if !matches!(field.data_type(), DataType::Timestamp(..)) {
            return internal_err!("windows need a time column, found {}", field.data_type());
        }
        let start = Field::new(START, field.data_type().clone(), true);
        let fields = input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), field.clone()));
        let fields = fields.chain([(None, Arc::new(start))]).collect();
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(Self { input, time, windows, schema: Arc::new(schema) })
    }

    /// Index of the time column in the input.
    pub(super) fn time(&self) -> Result<usize> {
        self.input.schema().index_of_column(&self.time)
    }

    /// Index of the column with the start of the window.
    pub(super) fn start(&self) -> usize {
        self.schema.fields().len() - 1
    }

    fn unit(&self) -> Result<TimeUnit> {
        match self.schema.field(self.start()).data_type() {
            DataType::Timestamp(unit, _) => Ok(*unit),
            other => internal_err!("windows need a time column, found {other}"),
        }
    }
}

impl PartialOrd for AssignWindows {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input).filter(|order| *order != Ordering::Equal || self == other)
    }
}

impl UserDefinedLogicalNodeCore for AssignWindows {
    fn name(&self) -> &str {
        "AssignWindows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![Expr::Column(self.time.clone())]
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::from([START.to_owned()])
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let mut needed: Vec<usize> = output_columns.iter().copied().filter(|column| *column != self.start()).collect();
        needed.push(self.time().ok()?);
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Windows { width, offset, step, zone } = &self.windows;
        write!(f, "AssignWindows: {}, width {width}, step {step}, offset {offset}, {}", self.time, zone.name())
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let [input] = <[LogicalPlan; 1]>::try_from(inputs).or_else(|_| internal_err!("windows have one input"))?;
        match <[Expr; 1]>::try_from(exprs) {
            Ok([Expr::Column(time)]) => Self::try_new(input, time, self.windows.clone()),
            other => internal_err!("windows need exactly one time column, found {other:?}"),
        }
    }
}

/// Creates the physical node of a logical node.
///
/// # Errors
/// Those of [`Windows::of_unit`].
pub(super) fn physical(
    node: &AssignWindows,
    inputs: &[Arc<dyn ExecutionPlan>],
    planner: &dyn PhysicalPlanner,
    session: &dyn Session,
    context: &PhysicalPlanningContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = inputs else { return internal_err!("windows have one input") };
    let Windows { width, offset, step, zone } = &node.windows;
    if step != width {
        let starts = node.windows.of_unit(node.unit()?).map_err(to_datafusion)?;
        return Ok(Arc::new(AssignWindowsExec::try_new(input.clone(), node.time()?, starts)?));
    }
    let function = session.scalar_functions().get(WINDOW_START).cloned();
    let function = function.ok_or_else(|| internal_datafusion_err!("{WINDOW_START} is not registered"))?;
    let texts = [width.to_string(), offset.to_string(), zone.name().to_owned()].map(lit);
    let call = function.call(std::iter::once(Expr::Column(node.time.clone())).chain(texts).collect());
    let start = planner.create_physical_expr(&call, node.input.schema(), session, context)?;
    let schema = input.schema();
    let columns = schema.fields().iter().enumerate().map(|(i, field)| {
        (Arc::new(expressions::Column::new(field.name(), i)) as Arc<dyn PhysicalExpr>, field.name().clone())
    });
    let columns = columns.chain([(start, START.to_owned())]).collect::<Vec<_>>();
    Ok(Arc::new(ProjectionExec::try_new(columns, input.clone())?))
}
