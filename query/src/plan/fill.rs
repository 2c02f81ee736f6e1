//! Adds rows for the windows of a group without rows: the clause FILL of TDengine's SQL, `fill(…)` of InfluxQL.
//!
//! The node is placed over an aggregation by keys and windows. Its input has the keys first, then the start of the
//! window, then the values. A group's windows are those of the time range given by the conditions below the node
//! ([`range`]); without a first or last instant in the conditions, the group's own first or last window is used. A NULL
//! value in a window with rows is filled too, as in TDengine.

mod exec;
mod group;
mod linear;
mod range;
#[cfg(test)]
mod tests;

use std::{cmp::Ordering, collections::HashSet, fmt, sync::Arc};

use arrow::datatypes::{DataType, Field};
use datafusion::{
    catalog::Session,
    common::{DFSchema, DFSchemaRef, Result, ScalarValue, internal_err},
    logical_expr::{
        Expr, Extension, Limit, LogicalPlan, UserDefinedLogicalNodeCore, lit,
        physical_planning_context::PhysicalPlanningContext,
    },
    physical_plan::ExecutionPlan,
    physical_planner::PhysicalPlanner,
};
use tidelake_format::Error;
use tidelake_protocol::sql::parse_instant;

pub(crate) use self::exec::FillGapsExec;
use self::range::{Bound, Range};
use super::Windows;
use crate::{error::to_datafusion, functions::window::nanoseconds};

/// How the windows without rows are filled.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Fill {
    pub(crate) mode: FillMode,
    /// Whether all windows of the time range are returned even if none has a row. Only without keys: a group without
    /// rows is unknown.
    pub(crate) is_forced: bool,
    pub(crate) windows: Windows,
    /// Number of keys. Keys are the first columns; the start of the window follows.
    pub(crate) keys: usize,
}

/// The value for a window without one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum FillMode {
    Null,
    /// These constants, one per value, in the type of its column.
    Values(Vec<ScalarValue>),
    /// The last value before the window.
    Previous,
    /// The first value after the window.
    Next,
    /// The previous or next value, whichever is nearer in time; the previous one if both are equally near.
    Near,
    /// Linear interpolation between both; NULL if one is missing or the values are neither numbers nor times.
    Linear,
}

impl fmt::Display for FillMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "NULL",
            Self::Values(_) => "VALUE",
            Self::Previous => "PREV",
            Self::Next => "NEXT",
            Self::Near => "NEAR",
            Self::Linear => "LINEAR",
        })
    }
}

/// Fills the gaps of an aggregation.
///
/// # Errors
/// Invalid if the number of constants differs from the number of values, or a constant does not have its column's type.
pub(crate) fn fill_gaps(input: LogicalPlan, fill: Fill) -> Result<LogicalPlan> {
    let bounds = range::bounds(&input, fill.keys);
    let node = FillGaps::try_new(input, fill, bounds)?;
    node.constants()?;
    let has_keys = node.fill.keys > 0;
    let filled = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    if has_keys {
        return Ok(filled);
    }
    // A condition without columns, such as one on a parameter, must not be pushed below this node: the windows would
    // still be returned. Conditions are not pushed below a limit.
    let all = Some(Box::new(lit(i64::MAX)));
    Ok(LogicalPlan::Limit(Limit { skip: None, fetch: all, input: Arc::new(filled) }))
}

/// The logical node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct FillGaps {
    input: LogicalPlan,
    fill: Fill,
    /// Bounds on the time of rows, from the conditions below.
    bounds: Vec<Bound>,
    schema: DFSchemaRef,
}

impl FillGaps {
    fn try_new(input: LogicalPlan, fill: Fill, bounds: Vec<Bound>) -> Result<Self> {
        let fields = input.schema().iter().enumerate().map(|(i, (qualifier, field))| {
            let is_value = i > fill.keys;
            let field = if is_value { Arc::new(field.as_ref().clone().with_nullable(true)) } else { field.clone() };
            (qualifier.cloned(), field)
        });
        let schema = DFSchema::new_with_metadata(fields.collect(), input.schema().metadata().clone())?;
        match schema.fields().get(fill.keys).map(|field| field.data_type()) {
            Some(DataType::Timestamp(..)) => {}
            other => return internal_err!("FILL needs the start of windows as column {}, found {other:?}", fill.keys),
        }
        Ok(Self { input, fill, bounds, schema: Arc::new(schema) })
    }

    fn values(&self) -> impl Iterator<Item = &Arc<Field>> {
        self.schema.fields().iter().skip(self.fill.keys + 1)
    }

    /// The constants of [`FillMode::Values`] in the types of their columns; NULL for each value in other modes.
    fn constants(&self) -> Result<Vec<ScalarValue>> {
        let FillMode::Values(constants) = &self.fill.mode else {
            return self.values().map(|field| ScalarValue::try_from(field.data_type())).collect();
        };
        let expected = self.values().count();
        if constants.len() != expected {
            let message = "FILL(VALUE, …) takes one constant for each column with an aggregate, in their order";
            let error = Error::invalid(message).with("expected", expected).with("found", constants.len());
            return Err(to_datafusion(error));
        }
        let cast = |(constant, field): (&ScalarValue, &Arc<Field>)| {
            let wrong = || {
                let error = Error::invalid("constant of FILL(VALUE, …) has another type than its column");
                to_datafusion(error.with("expected", field.data_type()).with("found", constant))
            };
            match (field.data_type(), constant.try_as_str().flatten()) {
                (DataType::Timestamp(unit, _), Some(text)) => {
                    let nanos = parse_instant(text, self.fill.windows.zone).ok_or_else(wrong)?;
                    let ticks = i64::try_from(nanos.div_euclid(nanoseconds(*unit).into())).map_err(|_| wrong())?;
                    ScalarValue::Int64(Some(ticks)).cast_to(field.data_type())
                }
                (data_type, _) => constant.cast_to(data_type).map_err(|_| wrong()),
            }
        };
        constants.iter().zip(self.values()).map(cast).collect()
    }
}

impl PartialOrd for FillGaps {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input).filter(|order| *order != Ordering::Equal || self == other)
    }
}

impl UserDefinedLogicalNodeCore for FillGaps {
    fn name(&self) -> &str {
        "FillGaps"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.bounds.iter().map(|bound| bound.instant.clone()).collect()
    }

    /// Conditions on keys select groups, so they may be applied before the gaps are filled.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema.fields().iter().skip(self.fill.keys).map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FillGaps: {}, every {}", self.fill.mode, self.fill.windows.step)?;
        self.bounds.iter().try_for_each(|bound| write!(f, ", {bound}"))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let [input] = <[LogicalPlan; 1]>::try_from(inputs).or_else(|_| internal_err!("FILL has one input"))?;
        if exprs.len() != self.bounds.len() {
            return internal_err!("FILL needs {} time bounds, found {}", self.bounds.len(), exprs.len());
        }
        let bounds = self.bounds.iter().zip(exprs).map(|(bound, instant)| Bound { side: bound.side, instant });
        Self::try_new(input, self.fill.clone(), bounds.collect())
    }
}

/// Creates the physical node of a logical node.
///
/// # Errors
/// Invalid if the time range has more windows than [`group::MOST_WINDOWS`].
pub(super) fn physical(
    node: &FillGaps,
    inputs: &[Arc<dyn ExecutionPlan>],
    planner: &dyn PhysicalPlanner,
    session: &dyn Session,
    context: &PhysicalPlanningContext,
) -> Result<Arc<dyn ExecutionPlan>> {
    let [input] = inputs else { return internal_err!("FILL has one input") };
    let range = Range::of(&node.bounds, node.unit()?, |instant| {
        planner.create_physical_expr(instant, &DFSchema::empty(), session, context)
    })?;
    let starts = node.fill.windows.of_unit(node.unit()?).map_err(to_datafusion)?;
    let exec = FillGapsExec::try_new(input.clone(), node.fill.clone(), starts, range, node.constants()?)?;
    Ok(Arc::new(exec))
}

impl FillGaps {
    fn unit(&self) -> Result<arrow::datatypes::TimeUnit> {
        match self.schema.field(self.fill.keys).data_type() {
            DataType::Timestamp(unit, _) => Ok(*unit),
            other => internal_err!("the start of a window is a time, found {other}"),
        }
    }
}
