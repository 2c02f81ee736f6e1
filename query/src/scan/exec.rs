//! The physical plan of a scan.

use std::{fmt, sync::Arc};

use arrow::{
    compute::cast,
    datatypes::{DataType, Schema, SchemaRef},
};
use datafusion::{
    common::{Result, Statistics, stats::Precision, tree_node::TreeNodeRecursion},
    execution::{SendableRecordBatchStream, TaskContext},
    physical_expr::{EquivalenceProperties, LexOrdering, Partitioning, PhysicalExpr},
    physical_plan::{
        ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
        execution_plan::{Boundedness, EmissionType},
        metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet},
        stream::RecordBatchStreamAdapter,
    },
};
use futures::{StreamExt, TryStreamExt, future, stream};

use super::{
    first::{self, First},
    order::Order,
    output::{OutputColumn, assemble, joined},
    read::{Asked, Columns, Reading},
    select::{End, Piece},
    source::Origin,
    spent::Spent,
    units::{Unit, deal},
};
use crate::{error::to_datafusion, pace::paced, wire::tag_dictionary};

/// A predicate is expected to keep one row in this many, as DataFusion expects of a filter.
const KEPT: usize = 5;

/// Reads the chunks of a [`Selection`](super::select::Selection). Without an [`Order`], rows have no guaranteed order across or
/// within partitions.
#[derive(Debug, Clone)]
pub(crate) struct SeriesScan {
    reading: Arc<Reading>,
    columns: Columns,
    output: Vec<OutputColumn>,
    partitions: Arc<Vec<Vec<Unit>>>,
    limit: Option<usize>,
    first: Option<First>,
    end: Option<End>,
    order: Option<Arc<Order>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SeriesScan {
    /// Creates a scan with the columns `output`, whose types are in `schema`; it reads the data columns `columns`.
    pub(crate) fn new(
        reading: Arc<Reading>,
        columns: Columns,
        output: Vec<OutputColumn>,
        schema: SchemaRef,
        partitions: usize,
        limit: Option<usize>,
    ) -> Self {
        // How many rows a predicate keeps is not known before they are read.
        let sure = limit.filter(|_| reading.predicate.is_none());
        let partitions = Arc::new(deal(&reading.selection, &reading.sources.list, partitions, sure));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Self {
            reading,
            columns,
            output,
            partitions,
            limit,
            first: None,
            end: None,
            order: None,
            properties: Arc::new(properties),
            metrics,
        }
    }

    /// State shared by all partitions.
    pub(crate) fn reading(&self) -> &Arc<Reading> {
        &self.reading
    }

    /// Where each output column comes from.
    pub(crate) fn output(&self) -> &[OutputColumn] {
        &self.output
    }

    /// Data columns that are read.
    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    /// Memory held by the scan, in bytes; sources shared with others count in full.
    pub(crate) fn memory_bytes(&self) -> usize {
        // Other tags are parts of the sources.
        let coded = self.output.iter().map(|column| match column {
            OutputColumn::Series(tags) if matches!(tags.data_type(), DataType::Dictionary(_, _)) => {
                tags.get_array_memory_size()
            }
            _ => 0,
        });
        self.reading.memory_bytes() + self.reading.selection.chunks() * size_of::<Piece>() + coded.sum::<usize>()
    }

    /// The same scan, but each partition returns the first rows by time, and others that it reads with them.
    pub(crate) fn with_first(&self, first: Option<First>) -> Self {
        Self { first, metrics: ExecutionPlanMetricsSet::new(), ..self.clone() }
    }

    /// The same scan in the order of `keys` and in `partitions` partitions; `None` if that is not possible. Rows with equal values
    /// of the first `together` keys are in one partition.
    ///
    /// # Errors
    /// Arrow's, for tags that cannot be compared.
    pub(crate) fn in_order(
        &self,
        keys: &LexOrdering,
        partitions: usize,
        together: Option<usize>,
    ) -> Result<Option<Self>> {
        if self.limit.is_some() || self.first.is_some() || self.end.is_some() {
            return Ok(None);
        }
        let Some((order, partitions)) = Order::new(self, keys, partitions, together)? else { return Ok(None) };
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(self.schema(), [order.keys.clone()]),
            Partitioning::UnknownPartitioning(partitions.len()),
            self.properties.emission_type,
            self.properties.boundedness,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Some(Self {
            order: Some(Arc::new(order)),
            partitions: Arc::new(partitions),
            properties: Arc::new(properties),
            metrics,
            ..self.clone()
        }))
    }

    /// What a partition reads.
    pub(super) fn units(&self, partition: usize) -> Vec<Unit> {
        self.partitions[partition].clone()
    }

    /// The order of the rows of each partition, if they have one.
    pub(crate) fn order(&self) -> Option<&Arc<Order>> {
        self.order.as_ref()
    }

    /// The same scan, with what the rules of the optimizer made of `other`, a scan of other rows of the same table; `None` if that
    /// is not possible.
    ///
    /// # Errors
    /// As for [`SeriesScan::in_order`].
    pub(crate) fn like(&self, other: &Self) -> Result<Option<Self>> {
        let scan = self.with_end(other.end, other.reading.answered.is_some()).with_first(other.first);
        let scan = match &other.order {
            Some(order) => scan
                .in_order(&order.keys, other.partitions.len(), Some(order.tags))?
                .filter(|scan| scan.order.as_ref().is_some_and(|new| new.is_by_series == order.is_by_series)),
            None => Some(scan),
        };
        scan.map(|scan| scan.with_tag_dictionaries(&other.tag_dictionaries())).transpose()
    }

    /// The same scan, for a plan that needs only the first or last row of each series; returns others too. With a filter it returns
    /// all rows, as the last of them may not pass it. Tag manifests answer rows if `manifests` are allowed.
    pub(crate) fn with_end(&self, end: Option<End>, manifests: bool) -> Self {
        let Some(end) = end.filter(|_| self.reading.predicate.is_none()) else { return self.clone() };
        let (selection, answered) = (self.reading.selection.ends(end), manifests.then_some(end));
        let reading = Reading { selection, answered, ..self.reading.as_ref().clone() };
        let count = self.partitions.len();
        let mut partitions = deal(&reading.selection, &reading.sources.list, count, None);
        partitions.resize(count, Vec::new());
        let metrics = ExecutionPlanMetricsSet::new();
        Self { reading: Arc::new(reading), end: Some(end), partitions: Arc::new(partitions), metrics, ..self.clone() }
    }

    /// The same scan, with dictionaries for those text tags and series names among the columns at which `dictionaries` is true.
    ///
    /// # Errors
    /// Arrow's.
    pub(crate) fn with_tag_dictionaries(&self, dictionaries: &[bool]) -> Result<Self> {
        let schema = self.schema();
        let columns = schema.fields().iter().zip(&self.output).zip(dictionaries);
        let fields = columns.map(|((field, column), wanted)| match column {
            OutputColumn::Series(_) if *wanted && *field.data_type() == DataType::Utf8 => {
                Arc::new(field.as_ref().clone().with_data_type(tag_dictionary()))
            }
            _ => field.clone(),
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        // A scan of few rows of a table with many series makes dictionaries of the series that it finds.
        let are_shared = self.reading.sources.united.series.len() as u64 <= self.reading.selection.rows();
        let output = self.output.iter().zip(schema.fields()).map(|(column, field)| match column {
            OutputColumn::Series(values) if are_shared && values.data_type() != field.data_type() => {
                Ok(OutputColumn::Series(cast(values, field.data_type())?))
            }
            _ => Ok(column.clone()),
        });
        let output = output.collect::<Result<Vec<_>>>()?;
        let orderings = self.order.iter().map(|order| order.keys.clone());
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, orderings),
            self.properties.partitioning.clone(),
            self.properties.emission_type,
            self.properties.boundedness,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { output, properties: Arc::new(properties), metrics, ..self.clone() })
    }

    /// Which columns are tags or series names as dictionaries.
    pub(crate) fn tag_dictionaries(&self) -> Vec<bool> {
        self.schema().fields().iter().map(|field| matches!(field.data_type(), DataType::Dictionary(_, _))).collect()
    }

    /// The row of each series that the plan needs, if it does not need all.
    pub(crate) fn end(&self) -> Option<End> {
        self.end
    }

    /// The maximum number of rows to return.
    pub(crate) fn limit(&self) -> Option<usize> {
        self.limit
    }
}

impl DisplayAs for SeriesScan {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            self.properties.eq_properties.schema().fields().iter().map(|x| x.name().as_str()).collect();
        write!(
            f,
            "SeriesScan: {}, columns=[{}], partitions={}",
            self.reading,
            names.join(", "),
            self.partitions.len()
        )?;
        if let Some(limit) = self.limit {
            write!(f, ", limit={limit}")?;
        }
        if let Some(end) = self.end {
            write!(f, ", {}", if end == End::Last { "last_rows" } else { "first_rows" })?;
        }
        if let Some(order) = &self.order {
            write!(f, ", order=[{}]", order.keys)?;
        }
        let schema = self.schema();
        let dictionaries =
            schema.fields().iter().filter(|field| matches!(field.data_type(), DataType::Dictionary(_, _)));
        let dictionaries: Vec<&str> = dictionaries.map(|field| field.name().as_str()).collect();
        if !dictionaries.is_empty() {
            write!(f, ", dictionaries=[{}]", dictionaries.join(", "))?;
        }
        if let Some(first) = self.first {
            write!(f, ", {}={}", if first.descending { "newest" } else { "oldest" }, first.rows)?;
        }
        Ok(())
    }
}

impl fmt::Display for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (list, selection) = (&self.sources.list, &self.selection);
        let files = list.iter().filter(|s| matches!(s.origin, Origin::File(_))).count();
        write!(
            f,
            "{}, files={files}/{}, log_blocks={}, series={}/{}, chunks={}, rows={}",
            self.name,
            self.sources.files,
            list.len() - files,
            selection.series,
            self.sources.united.series.len(),
            selection.chunks(),
            selection.rows(),
        )?;
        let merged: u64 = selection.merged.iter().map(|c| c.len()).sum();
        if merged > 0 {
            write!(f, ", merged_rows={merged}")?;
        }
        if self.range != super::filters::TimeRange::ALL {
            write!(f, ", ticks={}..={}", self.range.first, self.range.last)?;
        }
        if let Some(predicate) = &self.predicate {
            write!(f, ", filter=[{predicate}]")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for SeriesScan {
    fn name(&self) -> &str {
        "SeriesScan"
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
        let schema = self.schema();
        let batch_rows = context.session_config().batch_size();
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let decoded_rows = MetricBuilder::new(&self.metrics).counter("rows_read", partition);
        let mut spent = Spent::new(self.reading.reader.store(), &self.metrics, partition);
        let asked = Asked::new(self.columns.clone(), batch_rows, spent.store().clone());
        let decoded = match self.first {
            Some(first) => {
                let part = (partition, self.partitions.len());
                first::read(&self.reading, first, part, asked, decoded_rows.clone())
            }
            None if self.order.is_some() => self.reading.units_in_order(self.partitions[partition].clone(), asked),
            None => self.reading.units(self.partitions[partition].clone(), asked),
        };
        // Where a filter leaves few rows of each batch, they are joined: a batch costs the same for each column and each message.
        let is_joined = self.reading.predicate.is_some() && self.first.is_none();
        let least = self.limit.map_or(batch_rows, |limit| limit.min(batch_rows));
        let decoded = if is_joined { joined(decoded, least) } else { decoded };
        let (output, out_schema) = (self.output.clone(), schema.clone());
        // The first rows are counted before others are dropped.
        let is_counted = self.first.is_some();
        let batches = decoded.map_err(to_datafusion).and_then(move |decoded| {
            let timer = metrics.elapsed_compute().timer();
            if !is_counted {
                decoded_rows.add(decoded.batch.num_rows());
            }
            spent.count();
            let batch = assemble(&decoded, &output, &out_schema).map_err(to_datafusion);
            timer.done();
            if let Ok(batch) = &batch {
                metrics.record_output(batch.num_rows());
            }
            future::ready(batch)
        });
        // A filter may leave nothing of many batches.
        let batches = paced(batches).try_filter(|b| future::ready(b.num_rows() > 0));
        let batches = match self.limit {
            None => batches.boxed(),
            Some(limit) => {
                let mut left = limit;
                let cut = batches.map_ok(move |batch| {
                    let rows = batch.num_rows().min(left);
                    left -= rows;
                    (left == 0, batch.slice(0, rows))
                });
                // End with the batch that fills the limit, without polling for another one.
                let ended = cut.scan(false, |ended, next| {
                    let stop = *ended;
                    *ended |= !matches!(next, Ok((false, _)));
                    future::ready((!stop).then(|| next.map(|(_, batch)| batch)))
                });
                if limit == 0 { stream::empty().boxed() } else { ended.boxed() }
            }
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn partition_statistics(&self, _: Option<usize>) -> Result<Arc<Statistics>> {
        // Never exact: overlapping or clipped chunks return fewer rows.
        let rows = self.reading.selection.rows() as usize;
        let rows = if self.reading.predicate.is_some() { rows / KEPT } else { rows };
        let rows = self.limit.map_or(rows, |limit| rows.min(limit));
        Ok(Arc::new(Statistics { num_rows: Precision::Inexact(rows), ..Statistics::new_unknown(&self.schema()) }))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit
    }
}
