//! Window functions over whole series, such as `lag(v) OVER (PARTITION BY host ORDER BY ts)`.
//!
//! A scan by series returns the rows of each partition of the window one after another, in the order of time, and knows where one
//! ends. So each function is computed over the rows of one series at once, without a sort, a comparison of tags or a state a row.

use std::{fmt, sync::Arc};

use arrow::{
    array::{Array, ArrayRef, NullArray, RecordBatch, RecordBatchOptions},
    compute::{concat, concat_batches},
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
};
use datafusion::{
    common::{
        DataFusionError, Result, internal_datafusion_err,
        tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion},
    },
    execution::{
        SendableRecordBatchStream, TaskContext,
        memory_pool::{MemoryConsumer, MemoryReservation},
    },
    physical_expr::{
        EquivalenceProperties, PhysicalExpr,
        expressions::Column,
        utils::collect_columns,
        window::{StandardWindowExpr, WindowExpr},
    },
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        coop::CooperativeExec,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet},
        projection::ProjectionExec,
        stream::RecordBatchStreamAdapter,
        windows::{BoundedWindowAggExec, WindowAggExec},
    },
};
use futures::{
    StreamExt,
    stream::{self, BoxStream},
};

use crate::{
    error::to_datafusion,
    scan::{
        Asked, Columns, Decoded, OutputColumn, SeriesScan, Spent,
        output::{Run, append_runs, assemble},
    },
    sizes::{batch_bytes, sliced},
};

/// Most rows of one series, which are in memory at once.
const MOST_ROWS: u64 = 1 << 20;
/// Rows of short series that are computed together.
const ROWS_TOGETHER: usize = 1 << 13;

/// Computes window functions of each series over a scan by series.
#[derive(Debug, Clone)]
pub(crate) struct SeriesWindow {
    scan: Arc<dyn ExecutionPlan>,
    /// The columns of the window's input, as columns of the scan.
    input: Vec<usize>,
    functions: Vec<Arc<dyn WindowExpr>>,
    /// The columns of the result: of the input, then of the functions.
    output: Vec<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SeriesWindow {
    /// Replaces a window operator over a scan by series; `None` for other plans.
    fn of(plan: &Arc<dyn ExecutionPlan>) -> Result<Option<Self>> {
        let (functions, mut below) = if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
            (window.window_expr(), window.input())
        } else if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
            (window.window_expr(), window.input())
        } else {
            return Ok(None);
        };
        let mut input: Vec<usize> = (0..below.schema().fields().len()).collect();
        let scan = loop {
            if let Some(projection) = below.downcast_ref::<ProjectionExec>() {
                let column = |at: &usize| Some(projection.expr().get(*at)?.expr.downcast_ref::<Column>()?.index());
                let Some(columns) = input.iter().map(column).collect() else { return Ok(None) };
                input = columns;
                below = projection.input();
            } else if below.is::<CooperativeExec>() {
                below = below.children()[0];
            } else {
                break below.downcast_ref::<SeriesScan>();
            }
        };
        let Some(scan) = scan.filter(|scan| is_by_short_series(scan)) else { return Ok(None) };
        for function in functions {
            if !is_of_series(function, scan, &input)? {
                return Ok(None);
            }
        }
        let fields = plan.schema().fields().len();
        let (scan, functions) = (Arc::new(scan.clone()), functions.to_vec());
        Ok(Some(Self::new(scan, input, functions, (0..fields).collect(), &plan.schema())))
    }

    fn new(
        scan: Arc<dyn ExecutionPlan>,
        input: Vec<usize>,
        functions: Vec<Arc<dyn WindowExpr>>,
        output: Vec<usize>,
        schema: &SchemaRef,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            scan.properties().partitioning.clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Self { scan, input, functions, output, properties: Arc::new(properties), metrics }
    }

    /// The same with only these columns of the result.
    fn with_output(&self, columns: &[usize]) -> Result<Self> {
        let schema = Arc::new(self.schema().project(columns)?);
        let output = columns.iter().map(|at| self.output[*at]).collect();
        Ok(Self::new(self.scan.clone(), self.input.clone(), self.functions.clone(), output, &schema))
    }

    fn scan(&self) -> Result<&SeriesScan> {
        let scan = self.scan.downcast_ref::<SeriesScan>().filter(|scan| is_by_short_series(scan));
        scan.ok_or_else(|| internal_datafusion_err!("window functions of series over a plan that is no scan by series"))
    }

    /// Which columns of the input the functions read or the result has.
    fn used(&self) -> Vec<bool> {
        let mut used = vec![false; self.input.len()];
        let orders = |function: &Arc<dyn WindowExpr>| {
            function.order_by().iter().map(|key| key.expr.clone()).chain(function.expressions()).collect::<Vec<_>>()
        };
        for expr in self.functions.iter().flat_map(orders) {
            for column in collect_columns(&expr) {
                used[column.index()] = true;
            }
        }
        for at in &self.output {
            if let Some(used) = used.get_mut(*at) {
                *used = true;
            }
        }
        used
    }
}

/// Whether a scan returns the rows of one series after those of another, and no series has many rows.
fn is_by_short_series(scan: &SeriesScan) -> bool {
    let Some(order) = scan.order().filter(|order| order.is_by_series && order.keys.len() > order.tags) else {
        return false;
    };
    let selection = &scan.reading().selection;
    let mut rows = vec![0; scan.reading().sources.united.series.len()];
    selection.plain.iter().flatten().for_each(|piece| rows[piece.rank as usize] += piece.len());
    selection.merged.iter().for_each(|component| rows[component.rank as usize] += component.len());
    order.tags > 0 && rows.into_iter().all(|rows| rows <= MOST_ROWS)
}

/// Whether a function's partitions are the series of a scan in the order of time, and the function has no frame.
fn is_of_series(function: &Arc<dyn WindowExpr>, scan: &SeriesScan, input: &[usize]) -> Result<bool> {
    let Some(standard) = function.as_any().downcast_ref::<StandardWindowExpr>() else { return Ok(false) };
    if standard.get_standard_func_expr().create_evaluator()?.uses_window_frame() {
        return Ok(false);
    }
    let column = |expr: &Arc<dyn PhysicalExpr>| Some(input[expr.downcast_ref::<Column>()?.index()]);
    let Some(order) = scan.order() else { return Ok(false) };
    let tags: Option<Vec<usize>> =
        order.keys.iter().take(order.tags).map(|key| Some(key.expr.downcast_ref::<Column>()?.index())).collect();
    let by: Option<Vec<usize>> = function.partition_by().iter().map(column).collect();
    let (Some(mut tags), Some(mut by)) = (tags, by) else { return Ok(false) };
    tags.sort_unstable();
    by.sort_unstable();
    by.dedup();
    let is_by_time = function.order_by().first().is_none_or(|key| {
        let output = column(&key.expr).and_then(|at| scan.output().get(at));
        !key.options.descending && matches!(output, Some(OutputColumn::Data(at)) if scan.columns().time() == Some(*at))
    });
    Ok(tags == by && is_by_time)
}

/// Replaces a window operator; drops columns of the result that the projection above it does not read.
pub(super) fn rewrite(node: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(window) = SeriesWindow::of(&node)? {
        return Ok(Transformed::yes(Arc::new(window)));
    }
    let Some(projection) = node.downcast_ref::<ProjectionExec>() else { return Ok(Transformed::no(node)) };
    let Some(window) = projection.input().downcast_ref::<SeriesWindow>() else { return Ok(Transformed::no(node)) };
    let read = projection.expr().iter().flat_map(|expr| collect_columns(&expr.expr));
    let mut columns: Vec<usize> = read.map(|column| column.index()).collect();
    columns.sort_unstable();
    columns.dedup();
    if columns.len() == window.output.len() {
        return Ok(Transformed::no(node));
    }
    let mut exprs = projection.expr().to_vec();
    for expr in &mut exprs {
        expr.expr = moved(&expr.expr, &columns)?;
    }
    let narrow = ProjectionExec::try_new(exprs, Arc::new(window.with_output(&columns)?))?;
    Ok(Transformed::yes(Arc::new(narrow)))
}

/// The expression over a batch with only these columns.
fn moved(expr: &Arc<dyn PhysicalExpr>, columns: &[usize]) -> Result<Arc<dyn PhysicalExpr>> {
    let expr = expr.clone().transform(|expr| {
        let Some(column) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        let at = columns.binary_search(&column.index());
        let at = at.map_err(|_| internal_datafusion_err!("a column of a projection was dropped: {column}"))?;
        Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as _))
    });
    expr.data()
}

impl DisplayAs for SeriesWindow {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.functions.iter().map(|function| function.name()).collect();
        write!(f, "SeriesWindow: functions=[{}]", names.join(", "))
    }
}

impl ExecutionPlan for SeriesWindow {
    fn name(&self) -> &str {
        "SeriesWindow"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.scan]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let scan = children.pop().ok_or_else(|| internal_datafusion_err!("a window without an input"))?;
        let new = Self { scan, metrics: ExecutionPlanMetricsSet::new(), ..self.as_ref().clone() };
        new.scan()?;
        Ok(Arc::new(new))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let scan = self.scan()?;
        let reading = scan.reading();
        let spent = Spent::new(reading.reader.store(), &self.metrics, partition);
        let used = self.used();
        // Only the columns that are used are read; the others are null for the functions.
        let schema = scan.schema();
        let (mut data, mut columns) = (Vec::new(), Vec::new());
        let (mut read, mut of_functions) = (Vec::<FieldRef>::new(), Vec::<FieldRef>::new());
        for (at, is_used) in self.input.iter().zip(&used) {
            let field = &schema.fields()[*at];
            if !is_used {
                of_functions.push(Arc::new(Field::new(field.name(), DataType::Null, true)));
                continue;
            }
            of_functions.push(field.clone());
            read.push(field.clone());
            columns.push(match &scan.output()[*at] {
                OutputColumn::Data(of) => {
                    data.push(scan.columns().schema().fields()[*of].clone());
                    OutputColumn::Data(data.len() - 1)
                }
                tag => tag.clone(),
            });
        }
        let batch_rows = context.session_config().batch_size();
        let asked = Asked::new(Columns::new(data), batch_rows, spent.store().clone());
        let reservation = MemoryConsumer::new(format!("SeriesWindow[{partition}]")).register(context.memory_pool());
        let run = Windows {
            node: self.clone(),
            rows: reading.units_in_order(scan.units(partition), asked),
            columns,
            read: Arc::new(Schema::new(read)),
            used,
            of_functions: Arc::new(Schema::new(of_functions)),
            pending: Vec::new(),
            runs: Vec::new(),
            is_ended: false,
            reservation,
            spent,
            metrics: BaselineMetrics::new(&self.metrics, partition),
            rows_read: MetricBuilder::new(&self.metrics).counter("rows_read", partition),
        };
        let batches = stream::try_unfold(run, |mut run| async move {
            Ok::<_, DataFusionError>(run.next().await?.map(|batch| (batch, run)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), sliced(batches, batch_rows))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Execution state of one partition.
struct Windows {
    node: SeriesWindow,
    rows: BoxStream<'static, tidelake_format::Result<Decoded>>,
    /// The columns read, of which `read` is the schema.
    columns: Vec<OutputColumn>,
    read: SchemaRef,
    /// Which columns of the input are read.
    used: Vec<bool>,
    /// The schema of the input, with nulls for the columns that are not read.
    of_functions: SchemaRef,
    /// Rows read of which functions are not computed, and their series.
    pending: Vec<RecordBatch>,
    runs: Vec<Run>,
    is_ended: bool,
    reservation: MemoryReservation,
    spent: Spent,
    metrics: BaselineMetrics,
    rows_read: Count,
}

impl Windows {
    /// Returns the next series with their functions.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while !self.is_ended {
            match self.rows.next().await {
                None => self.is_ended = true,
                Some(decoded) => {
                    let decoded = decoded.map_err(to_datafusion)?;
                    let time = self.metrics.elapsed_compute().clone();
                    let timer = time.timer();
                    self.rows_read.add(decoded.batch.num_rows());
                    self.add(&decoded)?;
                    timer.done();
                }
            }
            self.spent.count();
            // The last series may have more rows.
            let runs = if self.is_ended { self.runs.len() } else { self.runs.len().saturating_sub(1) };
            let rows: usize = self.runs[..runs].iter().map(|run| run.rows).sum();
            if rows >= ROWS_TOGETHER || (self.is_ended && rows > 0) {
                let time = self.metrics.elapsed_compute().clone();
                let timer = time.timer();
                let batch = self.compute(runs, rows)?;
                timer.done();
                self.metrics.record_output(batch.num_rows());
                return Ok(Some(batch));
            }
            tokio::task::yield_now().await;
        }
        Ok(None)
    }

    fn add(&mut self, decoded: &Decoded) -> Result<()> {
        let batch = assemble(decoded, &self.columns, &self.read).map_err(to_datafusion)?;
        // The rows as read, together, and in the result.
        self.reservation.try_grow(3 * batch_bytes(&batch))?;
        append_runs(&mut self.runs, &decoded.runs);
        self.pending.push(batch);
        Ok(())
    }

    /// Computes the functions of the first series, which have these many rows together.
    fn compute(&mut self, runs: usize, rows: usize) -> Result<RecordBatch> {
        let all = concat_batches(&self.read, &self.pending)?;
        let series: Vec<Run> = self.runs.drain(..runs).collect();
        let rest = all.slice(rows, all.num_rows() - rows);
        self.reservation.try_resize(3 * batch_bytes(&rest))?;
        self.pending = if rest.num_rows() > 0 { vec![rest] } else { Vec::new() };
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let mut read = all.columns().iter().map(|column| column.slice(0, rows));
        let nulls: ArrayRef = Arc::new(NullArray::new(rows));
        let input = self.used.iter().map(|used| used.then(|| read.next()).flatten().unwrap_or_else(|| nulls.clone()));
        let input = RecordBatch::try_new_with_options(self.of_functions.clone(), input.collect(), &options)?;
        let mut columns: Vec<ArrayRef> = input.columns().to_vec();
        for function in &self.node.functions {
            let mut start = 0;
            let mut parts = Vec::with_capacity(series.len());
            for run in &series {
                parts.push(function.evaluate(&input.slice(start, run.rows))?);
                start += run.rows;
            }
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            columns.push(concat(&parts)?);
        }
        let output = self.node.output.iter().map(|at| columns[*at].clone()).collect();
        Ok(RecordBatch::try_new_with_options(self.node.schema(), output, &options)?)
    }
}
