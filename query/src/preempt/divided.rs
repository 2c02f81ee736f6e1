//! Divides an aggregation of many groups into parts.
//!
//! If its groups do not fit into memory, DataFusion sorts and spills everything the operator holds without yielding.
//! For hundreds of megabytes that takes seconds, during which a killed query keeps computing. Parts, by the hash of the
//! keys, hold less each and are sorted one at a time.

use std::{fmt, sync::Arc, task::Poll, time::Instant};

use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::{
    common::{
        Result,
        config::ConfigOptions,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation},
    },
    physical_expr::PhysicalExpr,
    physical_optimizer::PhysicalOptimizerRule,
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, InputOrderMode,
        Partitioning, PlanProperties, ReplaceChildrenOptions,
        aggregates::{AggregateExec, AggregateMode},
        coalesce_partitions::CoalescePartitionsExec,
        joins::{CrossJoinExec, NestedLoopJoinExec},
        repartition::RepartitionExec,
        statistics::{StatisticsArgs, StatisticsContext},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{
    StreamExt,
    future::ready,
    stream::{self, select_all},
};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::passing::{passes, with_pool};
use crate::{
    levels::SeriesAggregate,
    pace::{SLICE, paced},
    plan::{AssignWindowsExec, FillGapsExec},
};

/// Maximum bytes of a part: sorted within some hundredths of a second.
const PART_BYTES: usize = 16 << 20;
/// Aggregations below this row count are rarely divided.
pub(crate) const UNDIVIDED_ROWS: usize = PART_BYTES / 64;
/// Maximum parts of an aggregation: each has a small fixed cost, even with few groups.
const MOST_PARTS: usize = 256;
/// Bytes a part may always hold, so that it can begin.
const FEW_BYTES: usize = 128 << 10;
/// Estimated bytes per group in addition to its keys and aggregates; then the estimated bytes of a text.
const GROUP_BYTES: usize = 24;
const TEXT_BYTES: usize = 40;
const USUAL_ROW: usize = 128;

/// Divides aggregations that may hold too much memory.
#[derive(Debug)]
pub(crate) struct DivideGroups {
    /// Memory limit of all queries together.
    memory_bytes: usize,
    part_bytes: usize,
}

impl PhysicalOptimizerRule for DivideGroups {
    fn name(&self) -> &str {
        "divide_groups"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| self.divide(plan)).data()
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl DivideGroups {
    /// Creates the rule for a memory limit of all queries.
    pub(crate) fn new(memory_bytes: usize) -> Self {
        Self { memory_bytes, part_bytes: PART_BYTES }
    }

    fn divide(&self, plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
        let Some(aggregate) = plan.downcast_ref::<AggregateExec>() else { return Ok(Transformed::no(plan)) };
        let keys = aggregate.group_expr();
        let is_plain = !keys.is_true_no_grouping()
            && keys.is_single()
            && aggregate.limit_options().is_none()
            && *aggregate.input_order_mode() == InputOrderMode::Linear
            && plan.output_ordering().is_none();
        let parts = self.parts(aggregate);
        if !is_plain || parts < 2 {
            return Ok(Transformed::no(plan));
        }
        // Repartitioning mixes the rows of several partitions.
        let wanted = aggregate.required_input_ordering().into_iter().flatten().next();
        let is_ordered = wanted.is_some() || aggregate.input().output_ordering().is_some();
        let all = parts * plan.output_partitioning().partition_count();
        let input = aggregate.input();
        let (input, keys) = match aggregate.mode() {
            AggregateMode::FinalPartitioned => match input.downcast_ref::<RepartitionExec>() {
                Some(dealt) => match dealt.partitioning() {
                    Partitioning::Hash(keys, _) => (dealt.input(), keys.clone()),
                    _ => return Ok(Transformed::no(plan)),
                },
                None => return Ok(Transformed::no(plan)),
            },
            AggregateMode::Final => match input.downcast_ref::<CoalescePartitionsExec>() {
                Some(all) if all.fetch().is_none() => (all.input(), keys.input_exprs()),
                _ => (input, keys.input_exprs()),
            },
            AggregateMode::Single => (input, keys.input_exprs()),
            // Use the keys of the input's partitioning, a subset of the group keys: operators above may rely on it.
            AggregateMode::SinglePartitioned => match input.output_partitioning() {
                Partitioning::Hash(keys, _) if !is_ordered => (input, keys.clone()),
                _ => return Ok(Transformed::no(plan)),
            },
            AggregateMode::Partial | AggregateMode::PartialReduce => return Ok(Transformed::no(plan)),
        };
        let input = Arc::new(Apart { input: input.clone() });
        let dealt = RepartitionExec::try_new(input, Partitioning::Hash(keys, all))?;
        let dealt = Arc::new(EndInTurn { input: Arc::new(dealt) });
        let aggregate = plan.replace_children(vec![dealt], recompute())?;
        Ok(Transformed::yes(Arc::new(Divided::new(aggregate, parts))))
    }

    /// Number of parts per partition of an aggregation. Wide rows get fewer, since each part waits for whole batches of
    /// them.
    fn parts(&self, aggregate: &AggregateExec) -> usize {
        let width = |schema: SchemaRef| {
            let of = |field: &FieldRef| field.data_type().primitive_width().unwrap_or(TEXT_BYTES);
            schema.fields().iter().map(of).sum::<usize>() + GROUP_BYTES
        };
        let row = width(aggregate.schema()).max(width(aggregate.input().schema()));
        let bytes = most_rows(aggregate.input()).saturating_mul(row).min(self.memory_bytes);
        let of_part = self.part_bytes.saturating_mul(row.div_ceil(USUAL_ROW));
        let partitions = aggregate.properties().partitioning.partition_count();
        let parts = (bytes / of_part).min(MOST_PARTS) / partitions.max(1);
        parts.checked_ilog2().map_or(1, |doublings| 1 << doublings)
    }
}

fn recompute() -> ReplaceChildrenOptions {
    ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute)
}

/// Upper bound of the rows a plan returns; filters are assumed to keep all rows, and equi-joins to return as many rows
/// as they read.
pub(crate) fn most_rows(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let of_children = || plan.children().into_iter().map(most_rows);
    let rows = if let Some(levels) = plan.downcast_ref::<SeriesAggregate>() {
        levels.most_rows()
    } else if plan.is::<FillGapsExec>() {
        usize::MAX
    } else if let Some(windows) = plan.downcast_ref::<AssignWindowsExec>() {
        of_children().fold(0, usize::saturating_add).saturating_mul(windows.most_windows())
    } else if plan.children().is_empty() {
        let known = StatisticsContext::new().compute(plan.as_ref(), &StatisticsArgs::new()).ok();
        known.and_then(|known| known.num_rows.get_value().copied()).unwrap_or(0)
    } else if plan.is::<CrossJoinExec>() || plan.is::<NestedLoopJoinExec>() {
        of_children().fold(1, usize::saturating_mul)
    } else {
        of_children().fold(0, usize::saturating_add)
    };
    plan.fetch().map_or(rows, |most| rows.min(most))
}

/// The parts of an aggregation, with the partition count of the undivided aggregation.
#[derive(Debug)]
pub(crate) struct Divided {
    /// Part `i` of partition `p` of `n` is partition `i * n + p`: the hash modulo all parts, taken modulo `n`, equals
    /// the hash modulo `n`.
    aggregate: Arc<dyn ExecutionPlan>,
    parts: usize,
    properties: Arc<PlanProperties>,
}

impl Divided {
    fn new(aggregate: Arc<dyn ExecutionPlan>, parts: usize) -> Self {
        let of_parts = aggregate.properties();
        let partitioning = match &of_parts.partitioning {
            Partitioning::Hash(keys, all) => Partitioning::Hash(keys.clone(), all / parts),
            other => Partitioning::UnknownPartitioning(other.partition_count() / parts),
        };
        let properties = Arc::new(of_parts.as_ref().clone().with_partitioning(partitioning));
        Self { aggregate, parts, properties }
    }
}

impl DisplayAs for Divided {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Divided: parts={}", self.parts)
    }
}

impl ExecutionPlan for Divided {
    fn name(&self) -> &str {
        "Divided"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.aggregate]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let aggregate = children.into_iter().next().unwrap_or_else(|| self.aggregate.clone());
        Ok(Arc::new(Self::new(aggregate, self.parts)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.partitioning.partition_count();
        let register = |name: &str| {
            let consumer = MemoryConsumer::new(format!("{name}[{partition}]")).with_can_spill(true);
            Arc::new(consumer.register(context.memory_pool()))
        };
        let queues = Together { outer: context.clone(), held: register("Queues"), part: None };
        let turns = Arc::new(Turns::new(self.parts, Arc::new(queues)));
        let held = register("Divided");
        let of_part = |part| {
            let turns = turns.clone();
            let pool = Together { outer: context.clone(), held: held.clone(), part: Some((part, turns.clone())) };
            let groups = self.aggregate.execute(part * partitions + partition, with_pool(&context, Arc::new(pool)))?;
            let ended = stream::once(async move { turns.end(part) }).filter_map(|()| ready(None));
            Ok(groups.chain(ended).boxed())
        };
        let parts = (0..self.parts).map(of_part).collect::<Result<Vec<_>>>()?;
        let mut parts = select_all(parts);
        let groups = stream::poll_fn(move |cx| {
            *turns.since.lock() = Instant::now();
            parts.poll_next_unpin(cx)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), groups)))
    }
}

/// Schedules the parts of one partition, which compute in one task: they yield to other tasks, and only one part at a
/// time emits its groups, since parts that spilled need memory for that.
#[derive(Debug)]
struct Turns {
    turn: Arc<Semaphore>,
    taken: Vec<Mutex<Option<OwnedSemaphorePermit>>>,
    /// Start of the current time slice of the task of all parts.
    since: Mutex<Instant>,
    /// Pool for rows queued for parts.
    queues: Arc<dyn MemoryPool>,
}

impl Turns {
    fn new(parts: usize, queues: Arc<dyn MemoryPool>) -> Self {
        let taken = (0..parts).map(|_| Mutex::default()).collect();
        Self { turn: Arc::new(Semaphore::new(1)), taken, since: Mutex::new(Instant::now()), queues }
    }

    /// Waits for a part's turn.
    async fn begin(&self, part: usize) {
        let turn = self.turn.clone().acquire_owned().await.ok();
        *self.taken[part].lock() = turn;
    }

    /// Whether all parts together have used up their time slice.
    fn is_over(&self) -> bool {
        self.since.lock().elapsed() > SLICE
    }

    /// Whether it is a part's turn.
    fn has(&self, part: usize) -> bool {
        self.taken[part].lock().is_some()
    }

    fn end(&self, part: usize) {
        self.taken[part].lock().take();
    }
}

/// Input of a part; ends for one part at a time.
#[derive(Debug, Clone)]
struct EndInTurn {
    input: Arc<dyn ExecutionPlan>,
}

passes!(EndInTurn);

impl EndInTurn {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let part = context.memory_pool().downcast_ref::<Together>().and_then(|together| together.part.clone());
        let Some((part, turns)) = part else { return self.input.execute(partition, context) };
        let batches = self.input.execute(partition, with_pool(&context, turns.queues.clone()))?;
        let slices = turns.clone();
        let end = stream::once(async move { turns.begin(part).await });
        let mut batches = batches.chain(end.filter_map(|()| ready(None)).boxed());
        let batches = stream::poll_fn(move |cx| match slices.is_over() {
            true => {
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            false => batches.poll_next_unpin(cx),
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// Input of the repartitioning to parts; reserves memory in the query's pool, not in the parts' pool.
#[derive(Debug, Clone)]
struct Apart {
    input: Arc<dyn ExecutionPlan>,
}

passes!(Apart);

impl Apart {
    fn stream(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let outer = context.memory_pool().downcast_ref::<Together>().map(|together| together.outer.clone());
        let context = outer.unwrap_or(context);
        let batches = paced(self.input.execute(partition, context)?);
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), batches)))
    }
}

/// Memory of the parts of one partition, or of their queues: the outer pool sees one consumer with one share, for any
/// number of parts.
#[derive(Debug)]
struct Together {
    outer: Arc<TaskContext>,
    held: Arc<MemoryReservation>,
    /// The part that uses this pool; `None` for the pool of all queues.
    part: Option<(usize, Arc<Turns>)>,
}

impl fmt::Display for Together {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parts in {}", self.outer.memory_pool())
    }
}

impl MemoryPool for Together {
    fn name(&self) -> &str {
        "together"
    }

    fn grow(&self, _: &MemoryReservation, additional: usize) {
        self.held.grow(additional);
    }

    fn shrink(&self, _: &MemoryReservation, shrink: usize) {
        self.held.shrink(shrink);
    }

    /// If there is no room, a part that holds much must spill. A part with less than half of the parts' average
    /// continues: spilling it would free little, and others spill soon. The part whose turn it is reads back its spill
    /// files, some rows of each at a time, and always gets memory for that.
    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.held.try_grow(additional).or_else(|full| {
            let Some((part, turns)) = &self.part else { return Err(full) };
            let few = FEW_BYTES.max(self.held.size() / turns.taken.len() / 2);
            if reservation.size().saturating_add(additional) > few && !turns.has(*part) {
                return Err(full);
            }
            self.held.grow(additional);
            Ok(())
        })
    }

    fn reserved(&self) -> usize {
        self.held.size()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.outer.memory_pool().memory_limit()
    }
}

#[cfg(test)]
mod tests;
