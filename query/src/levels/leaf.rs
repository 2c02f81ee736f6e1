//! The plan node that replaces a partial aggregation and its scan.

use std::{fmt, sync::Arc};

use arrow::{array::RecordBatch, datatypes::DataType};
use datafusion::{
    common::{DataFusionError, Result, Statistics, stats::Precision, tree_node::TreeNodeRecursion},
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr},
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};
use tidelake_format::{ids::ColumnId, store::Store};

use super::{
    AggregateLevels, AnswerFromLevels,
    cells::{self, Cells, Groups},
    divide::{Answered, Needed, buckets, divide, needed, roll},
    rolled,
    shape::Shape,
};
use crate::{
    error::to_datafusion,
    scan::{
        Asked, Columns, Decoded, Keep, Origin, Piece, Reading, SeriesScan, Spent, TimeRange, Unit, deal, over_leaf,
        partitions,
    },
    sizes::sliced,
};

/// Rows decoded at a time, at most and at least: large enough to make the per-batch work negligible.
const BATCH_ROWS: (usize, usize) = (1 << 16, 1 << 13);
/// Values of all columns decoded at a time. They are aggregated while they are in the cache of the processor.
const BATCH_VALUES: usize = 1 << 17;
/// Rollup buckets that justify another partition.
const BUCKETS_PER_PARTITION: u64 = 100_000;
/// Rows of chunks with cut buckets that make another partition worthwhile: the rows before the end are skipped, which takes a
/// quarter of decoding them.
const CUT_ROWS_PER_PARTITION: u64 = 1 << 20;
/// Rollups read concurrently.
const ROLLUPS_AT_ONCE: usize = 8;
/// Buckets added before the number of cells is checked again.
const BUCKETS_OF_PART: u64 = 1 << 17;
/// Rows of an average span from which accumulators are used: each call costs as much as some rows do otherwise.
const ROWS_PER_SPAN: u64 = if cfg!(test) { 1 } else { 64 };

/// Returns the partial states of an aggregation, one row per group and bucket (and, rarely, more).
#[derive(Debug, Clone)]
pub(crate) struct SeriesAggregate {
    /// The partial aggregation it replaces, with its scan.
    replaced: Arc<dyn ExecutionPlan>,
    levels: AggregateLevels,
    shape: Arc<Shape>,
    groups: Arc<Groups>,
    columns: Columns,
    needed: Arc<Vec<Needed>>,
    answered: Arc<Answered>,
    /// Per partition: chunks whose whole buckets rollups answer.
    rolled: Arc<Vec<Vec<rolled::Part>>>,
    partitions: Arc<Vec<Vec<Unit>>>,
    hull: TimeRange,
    read: (usize, u64),
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SeriesAggregate {
    /// Creates the node for the aggregation `replaced`; `None` if the enabled levels cannot answer all of it.
    pub(super) fn try_new(
        shape: Shape,
        levels: &AggregateLevels,
        partitions: usize,
        replaced: Arc<dyn ExecutionPlan>,
    ) -> Result<Option<Self>> {
        let reading = shape.scan.reading().clone();
        let hull = hull(&reading);
        let needed = needed(&shape);
        // What manifests and rollups hold is of all rows of a series.
        let is_of_all = reading.predicate.is_none() && shape.row_key.is_none() && shape.accumulated.is_empty();
        let (answered, mut rest) = match levels.manifests && is_of_all {
            true => divide(&reading, &needed, shape.bucket.as_ref()),
            false => (Vec::new(), reading.selection.clone()),
        };
        let rolled = match levels.rollups && is_of_all {
            true => roll(&reading, &needed, shape.bucket.as_ref(), &mut rest),
            false => Vec::new(),
        };
        if !levels.scan && (rest.chunks() > 0 || !all_whole(&rolled)) {
            return Ok(None);
        }
        let time = shape.scan.columns().time();
        let is_read =
            |time| shape.computed.reads(time) || shape.accumulated.iter().any(|of| of.reads().any(|at| at == time));
        let needs_no_times = needed.iter().all(is_timeless) && !time.is_some_and(is_read);
        let series = reading.sources.united.series.len();
        let groups = Groups::new(&shape.keys, series).map_err(to_datafusion)?;
        let buckets = cells::Buckets::new(shape.bucket.as_ref(), hull).count;
        if !shape.accumulated.is_empty() {
            // Each chunk has rows of at least one bucket.
            let spans = buckets.saturating_mul(reading.selection.series as u64).max(reading.selection.chunks() as u64);
            if reading.selection.rows() < spans.saturating_mul(ROWS_PER_SPAN) {
                return Ok(None);
            }
        }
        if let Some(key) = &shape.row_key {
            let cells = buckets.saturating_mul((groups.len() * key.len()) as u64);
            if cells > cells::MOST_CELLS as u64 {
                return Ok(None);
            }
        }
        // The scan's data columns are those of keys and arguments; time is read only if needed.
        let together = groups.len() == 1 && needed.iter().all(is_known_together);
        let mut rolled = share(&reading, rolled, partitions, together);
        let mut units = deal(&rest, &reading.sources.list, partitions, None);
        let partitions = units.len().max(rolled.len());
        units.resize(partitions, Vec::new());
        rolled.resize(partitions, Vec::new());
        let partitions = Arc::new(units);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(shape.schema.clone()),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Ok(Some(Self {
            replaced,
            levels: levels.clone(),
            hull,
            groups: Arc::new(groups),
            columns: shape.scan.columns().clone().coded(reading.predicate.is_none() && needs_no_times),
            needed: Arc::new(needed),
            read: (rest.chunks(), rest.rows()),
            answered: Arc::new(answered),
            rolled: Arc::new(rolled),
            partitions,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            shape: Arc::new(shape),
        }))
    }

    /// The same aggregation over another scan of the table; `None` if the levels cannot answer it.
    pub(crate) fn with_scan(&self, scan: &Arc<dyn ExecutionPlan>) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let same = |leaf: &Arc<dyn ExecutionPlan>| {
            Ok((leaf.is::<SeriesScan>() && partitions(leaf) == partitions(scan)).then(|| scan.clone()))
        };
        let Some(node) = over_leaf(&self.replaced, &same)? else { return Ok(None) };
        let answered = AnswerFromLevels::replace(node, &self.levels)?;
        Ok(answered.transformed.then_some(answered.data))
    }

    /// The partial aggregation that this node replaces, with its scan.
    pub(crate) fn replaced(&self) -> &Arc<dyn ExecutionPlan> {
        &self.replaced
    }

    /// Upper bound of the number of groups × buckets.
    pub(crate) fn most_rows(&self) -> usize {
        let buckets = cells::Buckets::new(self.shape.bucket.as_ref(), self.hull).count;
        let rows = self.shape.scan.reading().selection.rows();
        let groups = self.groups.len() * self.shape.row_key.as_ref().map_or(1, |key| key.len());
        usize::try_from(buckets.saturating_mul(groups as u64).min(rows)).unwrap_or(usize::MAX)
    }

    /// Memory held by the node, in bytes; sources shared with others count in full.
    pub(crate) fn memory_bytes(&self) -> usize {
        let answered =
            chunks_and_rows(&self.answered).0 + self.rolled.iter().flatten().map(|p| p.pieces.len()).sum::<usize>();
        self.shape.scan.memory_bytes() + (answered + self.read.0) * size_of::<Piece>() + self.groups.memory_bytes()
    }

    /// Returns the parts of a partition that rollups answer, with the rollups read; several are read concurrently,
    /// since a remote store has high latency.
    fn read_rollups(&self, partition: usize, store: &Store) -> BoxStream<'static, tidelake_format::Result<Read>> {
        let (reading, needed, store) = (self.shape.scan.reading().clone(), self.needed.clone(), store.clone());
        let parts = self.rolled[partition].clone();
        let read = move |part: rolled::Part| {
            let (reading, needed, store) = (reading.clone(), needed.clone(), store.clone());
            async move {
                let rolled = match &reading.sources.list[part.at].origin {
                    Origin::File(file) => rolled::read(&reading.reader, &store, file, &needed, part.together).await?,
                    Origin::Tail(_) => None,
                };
                Ok((part, rolled))
            }
        };
        stream::iter(parts).map(read).buffered(ROLLUPS_AT_ONCE).boxed()
    }

    /// How to read the rows that no other level answers.
    fn asked(&self, store: &Store) -> Asked {
        let columns = self.columns.schema().fields().len() + self.shape.computed.len();
        let batch_rows = (BATCH_VALUES / columns.max(1)).clamp(BATCH_ROWS.1, BATCH_ROWS.0);
        Asked::new(self.columns.clone(), batch_rows, store.clone())
    }

    fn cells(&self) -> Cells {
        let bucket = self.shape.bucket.clone();
        let cells = Cells::new(self.groups.clone(), bucket, self.hull, &self.needed, self.columns.time());
        cells.divided(self.shape.row_key.clone()).with_accumulators(&self.shape.accumulated)
    }
}

/// Whether every chunk counts as a whole, so that no rows need decoding.
fn all_whole(rolled: &Answered) -> bool {
    rolled.iter().flat_map(|(_, pieces)| pieces).all(|p| p.keep == Keep::All)
}

/// Whether a column needs a row's time only to find its bucket.
fn is_timeless(column: &Needed) -> bool {
    column.id != Some(ColumnId::TS) && !column.wants.first && !column.wants.last
}

/// Whether totals over all series answer a column. They do not for sums of 64-bit integers, which may wrap, nor for
/// extremes of floats, which are known only per series.
fn is_known_together(column: &Needed) -> bool {
    let sums = column.wants.sum || column.wants.float_sum;
    let wraps = sums && matches!(column.data_type, DataType::Int64 | DataType::UInt64);
    let of_floats = (column.wants.min || column.wants.max) && column.data_type.is_floating();
    !wraps && !of_floats
}

fn chunks_and_rows(of: &Answered) -> (usize, u64) {
    let pieces = || of.iter().flat_map(|(_, pieces)| pieces);
    (pieces().count(), pieces().map(Piece::len).sum())
}

/// Distributes the chunks whose buckets rollups answer over at most `partitions` lists, in parts of bounded memory, by the number
/// of buckets and of the rows of chunks of which a range of times cuts buckets: these are read to its ends. A
/// file whose rows are all included stays whole if series are aggregated `together`.
fn share(reading: &Reading, rolled: Answered, partitions: usize, together: bool) -> Vec<Vec<rolled::Part>> {
    let part_of = |at, pieces, together| rolled::Part { at, pieces: Arc::new(pieces), together };
    let of_file = |at: usize| match &reading.sources.list[at].origin {
        Origin::File(file) => Some(file),
        Origin::Tail(_) => None,
    };
    let is_together = |at: usize, pieces: &[Piece]| {
        let is_whole = || pieces.iter().all(|p| p.keep == Keep::All);
        let rows = || pieces.iter().map(Piece::len).sum::<u64>();
        together && is_whole() && of_file(at).is_some_and(|file| rows() == file.entry.rows)
    };
    let (mut all, mut cut) = (0, 0);
    for (at, pieces) in &rolled {
        if let Some(file) = of_file(*at).filter(|_| !is_together(*at, pieces)) {
            all += pieces.iter().map(|piece| buckets(file, piece)).sum::<u64>();
            cut += pieces.iter().filter(|piece| piece.keep != Keep::All).map(Piece::len).sum::<u64>();
        }
    }
    let shares = partitions.min((all / BUCKETS_PER_PARTITION + cut / CUT_ROWS_PER_PARTITION) as usize).max(1);
    let most = BUCKETS_OF_PART.min(all.div_ceil(shares as u64));
    let mut parts = Vec::new();
    for (at, pieces) in rolled {
        let Some(file) = of_file(at) else { continue };
        if is_together(at, &pieces) {
            parts.push(part_of(at, pieces, true));
            continue;
        }
        let (mut part, mut of_part) = (Vec::new(), 0);
        for piece in pieces {
            let of_piece = buckets(file, &piece);
            if of_part + of_piece > most && !part.is_empty() {
                parts.push(part_of(at, std::mem::take(&mut part), false));
                of_part = 0;
            }
            of_part += of_piece;
            part.push(piece);
        }
        parts.push(part_of(at, part, false));
    }
    let shares = shares.clamp(1, parts.len().max(1));
    let mut shared = vec![Vec::new(); shares];
    let size = parts.len().div_ceil(shares).max(1);
    for (i, part) in parts.into_iter().enumerate() {
        shared[i / size].push(part);
    }
    shared
}

/// Time range of all possible rows.
fn hull(reading: &Reading) -> TimeRange {
    let spans = reading.sources.list.iter().map(|s| s.origin.span().and(reading.range)).filter(|s| !s.is_empty());
    spans.fold(TimeRange::NONE, |a, b| TimeRange { first: a.first.min(b.first), last: a.last.max(b.last) })
}

impl DisplayAs for SeriesAggregate {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (chunks, rows) = chunks_and_rows(&self.answered);
        let rolled = self.rolled.iter().flatten().fold((0, 0), |(chunks, rows), part| {
            (chunks + part.pieces.len(), rows + part.pieces.iter().map(Piece::len).sum::<u64>())
        });
        write!(
            f,
            "SeriesAggregate: {}, manifests=[chunks={chunks}, rows={rows}], rollups=[chunks={}, rows={}, totals={}], decoded=[chunks={}, rows={}], groups={}, partitions={}",
            self.shape.scan.reading(),
            rolled.0,
            rolled.1,
            self.rolled.iter().flatten().filter(|part| part.together).count(),
            self.read.0,
            self.read.1,
            self.groups.len(),
            self.partitions.len(),
        )?;
        self.shape.row_key.as_ref().map_or(Ok(()), |key| write!(f, ", keys_of_rows={}", key.len()))
    }
}

impl ExecutionPlan for SeriesAggregate {
    fn name(&self) -> &str {
        "SeriesAggregate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self { metrics: ExecutionPlanMetricsSet::new(), ..self.as_ref().clone() }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let reservation = MemoryConsumer::new(format!("SeriesAggregate[{partition}]")).register(context.memory_pool());
        let reading = self.shape.scan.reading();
        let spent = Spent::new(reading.reader.store(), &self.metrics, partition);
        let run = Run {
            cells: self.cells(),
            answered: (partition == 0).then(|| self.answered.clone()),
            rolled: Some(self.read_rollups(partition, spent.store())),
            decoded: reading.units(self.partitions[partition].clone(), self.asked(spent.store())),
            spent,
            node: self.clone(),
            reservation,
            metrics: BaselineMetrics::new(&self.metrics, partition),
            rows_read: MetricBuilder::new(&self.metrics).counter("rows_read", partition),
            ends: Vec::new(),
        };
        let batch_size = context.session_config().batch_size();
        let batches = stream::try_unfold(run, |mut run| async move {
            Ok::<_, DataFusionError>(run.next().await?.map(|batch| (batch, run)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), sliced(batches, batch_size))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, _: Option<usize>) -> Result<Arc<Statistics>> {
        Ok(Arc::new(Statistics { num_rows: Precision::Absent, ..Statistics::new_unknown(&self.schema()) }))
    }
}

/// Chunks of a source, and its rollup if it has one.
type Read = (rolled::Part, Option<rolled::Rolled>);

/// Execution state of one partition.
struct Run {
    node: SeriesAggregate,
    cells: Cells,
    answered: Option<Arc<Answered>>,
    /// `None` at its end.
    rolled: Option<BoxStream<'static, tidelake_format::Result<Read>>>,
    /// Reads the rows that rollups leave.
    ends: Vec<Unit>,
    decoded: BoxStream<'static, tidelake_format::Result<Decoded>>,
    reservation: MemoryReservation,
    metrics: BaselineMetrics,
    spent: Spent,
    rows_read: datafusion::physical_plan::metrics::Count,
}

impl Run {
    /// Returns the next batch of partial states.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let reading = self.node.shape.scan.reading().clone();
        if let Some(answered) = self.answered.take() {
            let timer = self.metrics.elapsed_compute().timer();
            for (at, pieces) in answered.iter() {
                let source = &reading.sources.list[*at];
                if let Origin::File(file) = &source.origin {
                    self.cells.add_chunks(file, &source.ranks, pieces).map_err(to_datafusion)?;
                }
            }
            timer.done();
        }
        while !self.cells.is_full()
            && let Some(parts) = &mut self.rolled
        {
            let Some(part) = parts.next().await else {
                self.rolled = None;
                break;
            };
            let (part, rolled) = part.map_err(to_datafusion)?;
            let timer = self.metrics.elapsed_compute().timer();
            let source = &reading.sources.list[part.at];
            let rest = rolled::add(&mut self.cells, &reading, part.at, source, &part.pieces, rolled.as_ref());
            self.ends.extend(rest.map_err(to_datafusion)?);
            timer.done();
            self.reservation.try_resize(self.cells.bytes())?;
            // Let other tasks and cancellation run.
            tokio::task::yield_now().await;
        }
        if self.rolled.is_none() && !self.ends.is_empty() {
            let ends = reading.units(std::mem::take(&mut self.ends), self.node.asked(self.spent.store()));
            self.decoded = std::mem::replace(&mut self.decoded, stream::empty().boxed()).chain(ends).boxed();
        }
        while !self.cells.is_full() && self.rolled.is_none() {
            let Some(decoded) = self.decoded.next().await else { break };
            let decoded = decoded.map_err(to_datafusion)?;
            let timer = self.metrics.elapsed_compute().timer();
            self.rows_read.add(decoded.batch.num_rows());
            let decoded = self.node.shape.computed.extend(decoded).map_err(to_datafusion)?;
            self.cells.add(&decoded).map_err(to_datafusion)?;
            timer.done();
            self.reservation.try_resize(self.cells.bytes())?;
            // Many rows give few batches: let other tasks and cancellation run.
            tokio::task::yield_now().await;
        }
        self.spent.count();
        if self.cells.len() == 0 && self.rolled.is_none() {
            return Ok(None);
        }
        let shape = &self.node.shape;
        let batch = self.cells.finish(&shape.keys, &shape.states, &shape.schema).map_err(to_datafusion)?;
        self.reservation.resize(self.cells.bytes());
        self.metrics.record_output(batch.num_rows());
        Ok(Some(batch))
    }
}
