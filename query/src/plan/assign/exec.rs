//! The plan node that repeats rows for each of the overlapping windows that hold them.

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
use crate::{pace::paced, plan::windows::Starts};

/// The physical node of overlapping windows.
#[derive(Debug, Clone)]
pub(crate) struct AssignWindowsExec {
    input: Arc<dyn ExecutionPlan>,
    /// The place of the time column.
    time: usize,
    starts: Starts,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl AssignWindowsExec {
    /// # Errors
    /// None is expected.
    pub(super) fn try_new(input: Arc<dyn ExecutionPlan>, time: usize, starts: Starts) -> Result<Self> {
        let of = input.schema();
        let start = Field::new(START, of.field(time).data_type().clone(), true);
        let fields = of.fields().iter().cloned().chain([Arc::new(start)]);
        let schema = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), of.metadata().clone()));
        let properties = properties_of(&input, &schema);
        Ok(Self { input, time, starts, schema, properties })
    }

    /// The most windows that hold one row.
    pub(crate) fn most_windows(&self) -> usize {
        match &self.starts {
            Starts::Fixed { width, step, .. } => usize::try_from(width / step + 1).unwrap_or(usize::MAX),
            Starts::Calendar { .. } => 1,
        }
    }

    /// The rows of a batch, each as often as there are windows that hold it. A row without a time is in none.
    fn assign(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let time = batch.column(self.time);
        let ticks = cast(time, &DataType::Int64)?;
        let (mut rows, mut starts) = (Vec::with_capacity(batch.num_rows()), Vec::with_capacity(batch.num_rows()));
        for (row, tick) in ticks.as_primitive::<Int64Type>().iter().enumerate() {
            let Some(tick) = tick else { continue };
            let mut next = self.starts.first(tick);
            while let Some(start) = next.filter(|start| *start <= i128::from(tick)) {
                // A window that begins before the first tick is in no result.
                if let Ok(start) = i64::try_from(start) {
                    rows.push(row as u64);
                    starts.push(start);
                }
                next = self.starts.next(start);
            }
        }
        let taken = take_record_batch(batch, &UInt64Array::from(rows))?;
        let starts: ArrayRef = cast(&Int64Array::from(starts), time.data_type())?;
        let columns = taken.columns().iter().cloned().chain([starts]).collect();
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
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
        // A batch of rows in many windows is divided, so that no batch of the result is much larger than one of the input.
        let rows = (context.session_config().batch_size() / self.most_windows()).max(1);
        let node = self.clone();
        let parts = self.input.execute(partition, context)?.map(move |batch| {
            let node = node.clone();
            match batch {
                Ok(batch) => {
                    let places = (0..batch.num_rows()).step_by(rows);
                    let parts = places.map(move |at| node.assign(&batch.slice(at, rows.min(batch.num_rows() - at))));
                    stream::iter(parts).left_stream()
                }
                Err(error) => stream::iter([Err(error)]).right_stream(),
            }
        });
        let assigned = paced(parts.flatten().boxed());
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), assigned)))
    }
}
