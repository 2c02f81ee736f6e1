//! The plan node that reads groups and returns them with their gaps filled.

use std::{collections::VecDeque, fmt, sync::Arc};

use arrow::{
    array::RecordBatch,
    compute::{SortOptions, concat_batches},
    datatypes::{Field, Schema, SchemaRef},
    row::{OwnedRow, RowConverter, SortField},
};
use datafusion::{
    common::{Result, ScalarValue, tree_node::TreeNodeRecursion},
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::{
        Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, PhysicalExpr, PhysicalSortExpr,
        expressions::Column,
    },
    physical_plan::{
        DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
        PlanProperties,
        execution_plan::{Boundedness, EmissionType},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, stream};

use super::{
    Fill,
    group::{Group, refuse_many},
    range::Range,
};
use crate::{pace::paced, plan::windows::Starts, sizes::batch_bytes};

/// A group is held as received and, concatenated, as one batch.
const COPIES: usize = 2;

/// The physical node. Its input is sorted by the keys and the window, with all rows of a group in one partition.
#[derive(Debug, Clone)]
pub(crate) struct FillGapsExec {
    input: Arc<dyn ExecutionPlan>,
    shared: Arc<Shared>,
    properties: Arc<PlanProperties>,
}

/// Settings shared by all partitions.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) fill: Fill,
    pub(super) starts: Starts,
    pub(super) range: Range,
    /// The value for a window without one, one per value column.
    pub(super) constants: Vec<ScalarValue>,
    pub(super) schema: SchemaRef,
}

impl FillGapsExec {
    /// # Errors
    /// Invalid if a range has more windows than one group may have.
    pub(super) fn try_new(
        input: Arc<dyn ExecutionPlan>,
        fill: Fill,
        starts: Starts,
        range: Range,
        constants: Vec<ScalarValue>,
    ) -> Result<Self> {
        if let (Some(first), Some(last)) = (range.first, range.last)
            && let Some(start) = starts.first(first)
        {
            refuse_many(starts.count(start, last.into()))?;
        }
        let schema = schema_of(&input.schema(), fill.keys);
        let shared = Arc::new(Shared { fill, starts, range, constants, schema });
        let properties = properties_of(&input, &shared);
        Ok(Self { input, shared, properties })
    }
}

/// Schema of the input, with nullable values.
fn schema_of(input: &Schema, keys: usize) -> SchemaRef {
    let fields = input
        .fields()
        .iter()
        .enumerate()
        .map(|(i, field)| if i > keys { Arc::new(Field::clone(field).with_nullable(true)) } else { field.clone() });
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), input.metadata().clone()))
}

fn properties_of(input: &Arc<dyn ExecutionPlan>, shared: &Shared) -> Arc<PlanProperties> {
    let order = order_of(shared);
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new_with_orderings(shared.schema.clone(), order),
        input.output_partitioning().clone(),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

/// Columns of the keys and of the window.
fn key_columns(shared: &Shared, count: usize) -> Vec<Arc<dyn PhysicalExpr>> {
    let fields = shared.schema.fields().iter().take(count).enumerate();
    fields.map(|(i, field)| Arc::new(Column::new(field.name(), i)) as _).collect()
}

/// Order by the keys, then by the window.
fn order_of(shared: &Shared) -> Option<LexOrdering> {
    let ascending = SortOptions { descending: false, nulls_first: false };
    let columns = key_columns(shared, shared.fill.keys + 1);
    LexOrdering::new(columns.into_iter().map(|column| PhysicalSortExpr::new(column, ascending)))
}

impl DisplayAs for FillGapsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { fill, range, .. } = self.shared.as_ref();
        write!(f, "FillGapsExec: {}, every {}", fill.mode, fill.windows.step)?;
        for (name, tick) in [("first", range.first), ("last", range.last)] {
            if let Some(tick) = tick {
                write!(f, ", {name}={tick}")?;
            }
        }
        Ok(())
    }
}

impl ExecutionPlan for FillGapsExec {
    fn name(&self) -> &str {
        "FillGapsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        let keys = key_columns(&self.shared, self.shared.fill.keys);
        let wanted = if keys.is_empty() { Distribution::SinglePartition } else { Distribution::KeyPartitioned(keys) };
        InputDistributionRequirements::new(vec![wanted])
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        vec![order_of(&self.shared).map(OrderingRequirements::from)]
    }

    /// False, since the node defines its own order: otherwise the optimizer would replace the sort that this node needs
    /// by a sort for the order required above it.
    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
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
        node.properties = properties_of(&node.input, &node.shared);
        Ok(Arc::new(node))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context.clone())?;
        let reservation = MemoryConsumer::new(format!("FillGaps[{partition}]")).register(context.memory_pool());
        let groups = Groups {
            keys: KeyOf::try_new(&self.shared)?,
            input: paced(input).boxed(),
            pieces: VecDeque::new(),
            open: None,
            has_any: false,
            is_over: false,
            shared: self.shared.clone(),
            reservation,
        };
        let filling = Filling { groups, group: None, batch_rows: context.session_config().batch_size() };
        let filled = stream::try_unfold(filling, |mut filling| async move {
            let next = filling.next().await;
            next.map(|batch| batch.map(|batch| (batch, filling)))
        });
        let filled = paced(filled.boxed());
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.shared.schema.clone(), filled)))
    }
}

/// Output of a partition.
struct Filling {
    groups: Groups,
    /// The group being emitted.
    group: Option<Group>,
    batch_rows: usize,
}

impl Filling {
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(group) = &mut self.group
                && let Some(batch) = group.next(self.batch_rows)?
            {
                return Ok(Some(batch));
            }
            self.group = None;
            self.group = self.groups.next().await?;
            if self.group.is_none() {
                return Ok(None);
            }
        }
    }
}

/// Keys of a group; `None` without keys, if all rows are one group.
type Key = Option<OwnedRow>;

/// The groups of a partition, in order.
struct Groups {
    shared: Arc<Shared>,
    input: stream::BoxStream<'static, Result<RecordBatch>>,
    keys: KeyOf,
    /// Rows of one group each, not yet consumed.
    pieces: VecDeque<(Key, RecordBatch)>,
    /// The group being read: rows of the next batch may belong to it.
    open: Option<(Key, Vec<RecordBatch>)>,
    has_any: bool,
    is_over: bool,
    /// Memory of the group being read and of the group returned last.
    reservation: MemoryReservation,
}

impl Groups {
    /// Returns the next whole group; the previous group must no longer be used.
    async fn next(&mut self) -> Result<Option<Group>> {
        self.reservation.free();
        if let Some((_, rows)) = &self.open {
            self.reservation.try_grow(COPIES * rows.iter().map(batch_bytes).sum::<usize>())?;
        }
        loop {
            while let Some((key, rows)) = self.pieces.pop_front() {
                self.has_any = true;
                match &mut self.open {
                    Some((open, pieces)) if *open == key => {
                        self.reservation.try_grow(COPIES * batch_bytes(&rows))?;
                        pieces.push(rows);
                    }
                    Some(_) => {
                        let whole = self.open.replace((key, vec![rows]));
                        return whole.map(|(_, pieces)| self.group(&pieces)).transpose();
                    }
                    None => {
                        self.reservation.try_grow(COPIES * batch_bytes(&rows))?;
                        self.open = Some((key, vec![rows]));
                    }
                }
            }
            if self.is_over {
                return self.last();
            }
            match self.input.next().await.transpose()? {
                Some(batch) => self.pieces = self.keys.divide(&batch)?,
                None => self.is_over = true,
            }
        }
    }

    /// Returns the group at the end; for a forced fill, the single group without rows if there is no other.
    fn last(&mut self) -> Result<Option<Group>> {
        if let Some((_, pieces)) = self.open.take() {
            return self.group(&pieces).map(Some);
        }
        let fill = &self.shared.fill;
        if self.has_any || !fill.is_forced || fill.keys > 0 {
            return Ok(None);
        }
        self.has_any = true;
        self.group(&[]).map(Some)
    }

    fn group(&self, pieces: &[RecordBatch]) -> Result<Group> {
        Group::try_new(self.shared.clone(), concat_batches(&self.shared.schema, pieces)?)
    }
}

/// Finds the group boundaries of a batch.
struct KeyOf {
    columns: usize,
    converter: RowConverter,
}

impl KeyOf {
    fn try_new(shared: &Shared) -> Result<Self> {
        let columns = shared.fill.keys;
        let fields = shared.schema.fields().iter().take(columns);
        let converter = RowConverter::new(fields.map(|field| SortField::new(field.data_type().clone())).collect())?;
        Ok(Self { columns, converter })
    }

    /// Splits a batch into the rows of each group, in order, with their keys.
    fn divide(&self, batch: &RecordBatch) -> Result<VecDeque<(Key, RecordBatch)>> {
        if batch.num_rows() == 0 {
            return Ok(VecDeque::new());
        }
        if self.columns == 0 {
            return Ok(VecDeque::from([(None, batch.clone())]));
        }
        let keys = self.converter.convert_columns(&batch.columns()[..self.columns])?;
        let (mut pieces, mut start) = (VecDeque::new(), 0);
        for end in 1..=batch.num_rows() {
            if end == batch.num_rows() || keys.row(start) != keys.row(end) {
                pieces.push_back((Some(keys.row(start).owned()), batch.slice(start, end - start)));
                start = end;
            }
        }
        Ok(pieces)
    }
}
