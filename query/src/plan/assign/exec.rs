//! The plan node that repeats rows for each of the overlapping windows that contain them.

use std::{fmt, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array},
    compute::{cast, take_record_batch},
    datatypes::{DataType, Field, Int64Type, Schema, SchemaRef},
};
use datafusion::{
    common::{Result, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, PhysicalExpr},
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
        execution_plan::{Boundedness, EmissionType},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, stream};

use super::START;
use crate::{pace::paced, plan::windows::Starts, sizes::bytes_of};

/// Target bytes of a result batch, unless one row has more.
const BATCH_BYTES: u64 = 1 << 20;

/// The physical node for overlapping windows.
#[derive(Debug, Clone)]
pub(crate) struct AssignWindowsExec {
    input: Arc<dyn ExecutionPlan>,
    /// Index of the time column.
    time: usize,
    starts: Starts,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl AssignWindowsExec {
    /// # Errors
    /// Not expected.
    pub(super) fn try_new(input: Arc<dyn ExecutionPlan>, time: usize, starts: Starts) -> Result<Self> {
        let of = input.schema();
        let start = Field::new(START, of.field(time).data_type().clone(), true);
        let fields = of.fields().iter().cloned().chain([Arc::new(start)]);
        let schema = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), of.metadata().clone()));
        let properties = properties_of(&input, &schema);
        Ok(Self { input, time, starts, schema, properties })
    }

    /// Maximum number of windows that contain one row.
    pub(crate) fn most_windows(&self) -> usize {
        match &self.starts {
            Starts::Fixed { width, step, .. } => usize::try_from(width / step + 1).unwrap_or(usize::MAX),
            Starts::Calendar { .. } => 1,
        }
    }
}

fn properties_of(input: &Arc<dyn ExecutionPlan>, schema: &SchemaRef) -> Arc<PlanProperties> {
    let order = input.output_ordering().cloned();
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new_with_orderings(schema.clone(), order),
        input.output_partitioning().clone(),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

impl DisplayAs for AssignWindowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AssignWindowsExec: {:?}", self.starts)
    }
}

impl ExecutionPlan for AssignWindowsExec {
    fn name(&self) -> &str {
        "AssignWindowsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let mut node = Self::clone(&self);
        node.input = children.into_iter().next().unwrap_or(node.input);
        node.properties = properties_of(&node.input, &node.schema);
        Ok(Arc::new(node))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size();
        let (time, starts, schema) = (self.time, self.starts.clone(), self.schema.clone());
        let assigned = self.input.execute(partition, context)?.map(move |batch| {
            let assigned = batch.and_then(|batch| Assigning::try_new(batch, time, &starts, &schema, batch_rows));
            match assigned {
                Ok(parts) => stream::iter(parts).left_stream(),
                Err(error) => stream::iter([Err(error)]).right_stream(),
            }
        });
        let assigned = paced(assigned.flatten().boxed());
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), assigned)))
    }
}

/// Returns the rows of a batch, once for each window that contains them; a row without a time is dropped. Result
/// batches have few rows and few bytes: a row can have a thousand copies, and no operator counts them before it
/// receives them.
struct Assigning {
    batch: RecordBatch,
    /// Time of each row, in ticks.
    ticks: ArrayRef,
    starts: Starts,
    schema: SchemaRef,
    batch_rows: usize,
    /// The next row, and the first of its windows still to emit; `None` if the row is new.
    row: usize,
    window: Option<i128>,
}

impl Assigning {
    fn try_new(
        batch: RecordBatch,
        time: usize,
        starts: &Starts,
        schema: &SchemaRef,
        batch_rows: usize,
    ) -> Result<Self> {
        let ticks = cast(batch.column(time), &DataType::Int64)?;
        let (starts, schema) = (starts.clone(), schema.clone());
        Ok(Self { batch, ticks, starts, schema, batch_rows, row: 0, window: None })
    }

    /// Rows of the next batch, and the window start of each; both empty at the end.
    fn pairs(&mut self) -> (Vec<u64>, Vec<i64>) {
        let ticks = self.ticks.as_primitive::<Int64Type>();
        let (mut rows, mut starts, mut bytes) = (Vec::new(), Vec::new(), 0_u64);
        while self.row < ticks.len() {
            let tick = ticks.is_valid(self.row).then(|| ticks.value(self.row));
            let of_row = self.row_bytes();
            let mut next = self.window.take().or_else(|| tick.and_then(|tick| self.starts.first(tick)));
            while let Some(start) = next.filter(|start| tick.is_some_and(|tick| *start <= i128::from(tick))) {
                let is_full = rows.len() >= self.batch_rows || bytes.saturating_add(of_row) > BATCH_BYTES;
                if is_full && !rows.is_empty() {
                    self.window = Some(start);
                    return (rows, starts);
                }
                // A window that begins before the first tick is not returned.
                if let Ok(start) = i64::try_from(start) {
                    rows.push(self.row as u64);
                    starts.push(start);
                    bytes = bytes.saturating_add(of_row);
                }
                next = self.starts.next(start);
            }
            self.row += 1;
        }
        (rows, starts)
    }

    fn row_bytes(&self) -> u64 {
        self.batch.columns().iter().map(|column| bytes_of(column.as_ref(), self.row, 1)).sum()
    }

    fn assigned(&self, rows: Vec<u64>, starts: Vec<i64>) -> Result<RecordBatch> {
        let taken = take_record_batch(&self.batch, &UInt64Array::from(rows))?;
        let starts = cast(&Int64Array::from(starts), self.schema.field(self.schema.fields().len() - 1).data_type())?;
        let columns = taken.columns().iter().cloned().chain([starts]).collect();
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }
}

impl Iterator for Assigning {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let (rows, starts) = self.pairs();
        (!rows.is_empty()).then(|| self.assigned(rows, starts))
    }
}

#[cfg(test)]
mod tests;
