//! Parses a partial aggregation: its keys, its aggregates and the scan below.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, new_null_array},
    datatypes::{DataType, Schema, SchemaRef},
};
use datafusion::logical_expr::Volatility;
use datafusion::{
    common::{
        Result,
        tree_node::{Transformed, TreeNode, TreeNodeRecursion},
    },
    physical_expr::{
        PhysicalExpr, ScalarFunctionExpr,
        aggregate::AggregateFunctionExpr,
        expressions::{CastExpr, Column, Literal},
    },
    physical_plan::{
        ExecutionPlan,
        aggregates::{AggregateExec, AggregateMode},
        projection::ProjectionExec,
    },
};

use super::{
    accumulated::{Accumulated, Argument},
    computed::Computed,
    row_key::RowKey,
};
use crate::{
    functions::{
        Keep, as_first_last,
        sum::PARTIAL,
        window::{FixedBucket, as_fixed_bucket},
    },
    scan::{OutputColumn, SeriesScan},
};

/// A group key.
#[derive(Debug, Clone)]
pub(super) enum Key {
    /// A property of the series: one value per rank.
    Series(ArrayRef),
    /// Start of the row's time bucket.
    Bucket,
    /// The [`RowKey`] of the shape.
    Row,
}

/// Content of a column of the partial state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Int64: number of rows.
    Rows,
    /// Int64: number of non-null values of the data column at this index.
    Count(usize),
    /// UInt64: the same count, as kept by an average: null without values.
    AverageCount(usize),
    /// DECIMAL(38, 0) for integers, otherwise Float64.
    Sum(usize),
    /// Float64, for any number.
    FloatSum(usize),
    /// In the column's type, by total order.
    Min(usize),
    /// In the column's type, by total order.
    Max(usize),
    /// Value at the smallest time.
    First(usize),
    /// The smallest time.
    FirstTime(usize),
    /// Value at the largest time.
    Last(usize),
    /// The largest time.
    LastTime(usize),
    /// Part of the state of the [`Accumulated`] at this index of the shape.
    Accumulated(usize, usize),
}

/// A partial aggregation over a scan that the levels can answer.
#[derive(Debug)]
pub(super) struct Shape {
    /// The scan.
    pub(super) scan: SeriesScan,
    /// The keys, in order.
    pub(super) keys: Vec<Key>,
    /// The time buckets, if a key is the bucket.
    pub(super) bucket: Option<FixedBucket>,
    /// The key of rows, if one of the keys is of rows.
    pub(super) row_key: Option<Arc<RowKey>>,
    /// Columns behind the scan's data columns, which states may index.
    pub(super) computed: Computed,
    /// Aggregates by accumulators.
    pub(super) accumulated: Vec<Arc<Accumulated>>,
    /// The columns after the keys in the schema of the partial state.
    pub(super) states: Vec<State>,
    /// Schema of the partial state.
    pub(super) schema: SchemaRef,
}

impl Shape {
    /// Parses a plan node; `None` if it contains something unsupported.
    pub(super) fn of(aggregate: &AggregateExec) -> Result<Option<Self>> {
        let group = aggregate.group_expr();
        if *aggregate.mode() != AggregateMode::Partial
            || !(group.is_single() || group.is_empty())
            || group.has_grouping_set()
            || aggregate.limit_options().is_some()
            || aggregate.filter_expr().iter().any(Option::is_some)
        {
            return Ok(None);
        }
        let (projections, scan) = below(aggregate.input());
        let Some(scan) = scan.filter(|s| s.limit().is_none() && s.end().is_none()) else { return Ok(None) };
        let reader = Resolver { projections, scan };
        let schema = aggregate.schema();
        let (mut keys, mut bucket, mut row_key) = (Vec::new(), None, None);
        for (i, (expr, _)) in group.expr().iter().enumerate() {
            let data_type = schema.field(i).data_type();
            if let Some(key) = reader.key(expr, data_type, &mut bucket)? {
                keys.push(key);
                continue;
            }
            let key = RowKey::new(&reader.inline(expr)?, scan)?.filter(|key| key.data_type() == data_type);
            // One key of rows is supported.
            let (Some(key), None) = (key, &row_key) else { return Ok(None) };
            row_key = Some(Arc::new(key));
            keys.push(Key::Row);
        }
        let (mut states, mut accumulated) = (Vec::new(), Vec::new());
        let mut computed = Computed::new(scan);
        for expr in aggregate.aggr_expr() {
            if let Some(some) = reader.aggregate(expr, &mut computed)? {
                states.extend(some);
                continue;
            }
            // Accumulators get the rows of a run at once: those of a key of rows have no runs.
            let by_runs = if row_key.is_none() { reader.accumulated(expr, &mut computed)? } else { None };
            let Some(new) = by_runs else { return Ok(None) };
            states.extend((0..expr.state_fields()?.len()).map(|part| State::Accumulated(accumulated.len(), part)));
            accumulated.push(Arc::new(new));
        }
        if schema.fields().len() != keys.len() + states.len() {
            return Ok(None);
        }
        let fits =
            |(field, state): (&Arc<arrow::datatypes::Field>, &State)| reader.fits(field.data_type(), *state, &computed);
        if !schema.fields().iter().skip(keys.len()).zip(&states).all(fits) {
            return Ok(None);
        }
        Ok(Some(Self { scan: scan.clone(), keys, bucket, row_key, computed, accumulated, states, schema }))
    }
}

/// The projections between a node and the scan below, topmost first.
pub(super) fn below(input: &Arc<dyn ExecutionPlan>) -> (Vec<&ProjectionExec>, Option<&SeriesScan>) {
    let (mut projections, mut node) = (Vec::new(), input);
    while let Some(projection) = node.downcast_ref::<ProjectionExec>() {
        projections.push(projection);
        node = projection.input();
    }
    (projections, node.downcast_ref::<SeriesScan>())
}

/// Rewrites expressions over the projections as expressions over the scan.
pub(super) struct Resolver<'a> {
    pub(super) projections: Vec<&'a ProjectionExec>,
    pub(super) scan: &'a SeriesScan,
}

impl Resolver<'_> {
    pub(super) fn inline(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        self.projections.iter().try_fold(expr.clone(), |expr, projection| {
            let replaced = expr.transform_down(|e| {
                let Some(column) = e.downcast_ref::<Column>() else { return Ok(Transformed::no(e)) };
                let inner = projection.expr()[column.index()].expr.clone();
                // The inlined expression must not be rewritten again.
                Ok(Transformed::new(inner, true, TreeNodeRecursion::Jump))
            });
            Ok(replaced?.data)
        })
    }

    fn key(
        &self,
        expr: &Arc<dyn PhysicalExpr>,
        data_type: &DataType,
        bucket: &mut Option<FixedBucket>,
    ) -> Result<Option<Key>> {
        let expr = self.inline(expr)?;
        if let Some(found) = as_fixed_bucket(expr.as_ref()) {
            let on_time = matches!(self.scan.output().get(found.column.index()), Some(OutputColumn::Data(at))
                if self.scan.columns().time() == Some(*at));
            let same = self.scan.schema().field(found.column.index()).data_type() == data_type;
            if !on_time || !same || bucket.as_ref().is_some_and(|b| *b != found) {
                return Ok(None);
            }
            *bucket = Some(found);
            return Ok(Some(Key::Bucket));
        }
        Ok(self.on_series(&expr)?.filter(|v| v.data_type() == data_type).map(Key::Series))
    }

    /// Whether an expression over the scan is the time column.
    pub(super) fn is_time(&self, expr: &Arc<dyn PhysicalExpr>) -> bool {
        self.data_column(expr).is_some_and(|at| self.scan.columns().time() == Some(at))
    }

    /// Whether an expression over the scan depends on the series alone.
    pub(super) fn is_of_series(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<bool> {
        let (mut data, mut columns) = (false, 0);
        expr.apply(|e| {
            if let Some(column) = e.downcast_ref::<Column>() {
                columns += 1;
                data |= !matches!(self.scan.output().get(column.index()), Some(OutputColumn::Series(_)));
            }
            if let Some(call) = e.downcast_ref::<ScalarFunctionExpr>() {
                data |= call.fun().signature().volatility == Volatility::Volatile;
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(!data && columns > 0)
    }

    /// Value per rank of an expression that depends on the series alone.
    fn on_series(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<ArrayRef>> {
        if !self.is_of_series(expr)? {
            return Ok(None);
        }
        let series = self.scan.reading().sources.united.series.len();
        let schema = self.scan.schema();
        let columns = self.scan.output().iter().zip(schema.fields()).map(|(from, field)| match from {
            OutputColumn::Series(values) => values.clone(),
            OutputColumn::Data(_) => new_null_array(field.data_type(), series),
        });
        let columns: Vec<ArrayRef> = columns.collect();
        let fields = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect::<Vec<_>>();
        let options = RecordBatchOptions::new().with_row_count(Some(series));
        let batch = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
        Ok(Some(expr.evaluate(&batch)?.into_array(series)?))
    }

    /// States of one aggregate.
    fn aggregate(&self, expr: &AggregateFunctionExpr, computed: &mut Computed) -> Result<Option<Vec<State>>> {
        if expr.is_distinct() || !expr.order_bys().is_empty() || expr.is_reversed() || expr.ignore_nulls() {
            return Ok(None);
        }
        let args = expr.expressions().iter().map(|e| self.inline(e)).collect::<Result<Vec<_>>>()?;
        if let Some(keep) = as_first_last(expr) {
            let [value, time] = args.as_slice() else { return Ok(None) };
            let (Some(value), Some(time)) = (self.data_column(value), self.data_column(time)) else { return Ok(None) };
            if Some(time) != self.scan.columns().time() {
                return Ok(None);
            }
            // The first and last times are the smallest and greatest.
            if value == time && keep != Keep::LastRow {
                let state = if keep == Keep::First { State::Min(time) } else { State::Max(time) };
                return Ok(Some(vec![state, state]));
            }
            if !is_number(&self.data_type(value, computed)) {
                return Ok(None);
            }
            return Ok(match keep {
                Keep::First => Some(vec![State::First(value), State::FirstTime(value)]),
                Keep::Last => Some(vec![State::Last(value), State::LastTime(value)]),
                Keep::LastRow => None,
            });
        }
        let [arg] = args.as_slice() else { return Ok(None) };
        let name = expr.fun().name();
        if name == "count" {
            if let Some(literal) = arg.downcast_ref::<Literal>() {
                return Ok((!literal.value().is_null()).then(|| vec![State::Rows]));
            }
            let at = self.widened(arg).map_or_else(|| computed.add(arg, self.scan), |at| Ok(Some(at)))?;
            return Ok(at.map(|at| vec![State::Count(at)]));
        }
        let at = match name {
            "sum" | "avg" => self.widened(arg),
            // A cast changes the type of the result.
            "min" | "max" => self.data_column(arg),
            _ => return Ok(None),
        };
        let Some(at) = at.map_or_else(|| computed.add(arg, self.scan), |at| Ok(Some(at)))? else { return Ok(None) };
        let of = self.data_type(at, computed);
        let is_ordered = is_number(&of) || matches!(of, DataType::Timestamp(..));
        Ok(match name {
            "sum" if is_number(&of) => Some(vec![State::Sum(at)]),
            "avg" if is_number(&of) => Some(vec![State::AverageCount(at), State::FloatSum(at)]),
            "min" if is_ordered => Some(vec![State::Min(at)]),
            "max" if is_ordered => Some(vec![State::Max(at)]),
            _ => None,
        })
    }

    /// An aggregate by accumulators.
    fn accumulated(&self, expr: &Arc<AggregateFunctionExpr>, computed: &mut Computed) -> Result<Option<Accumulated>> {
        let mut arguments = Vec::new();
        for argument in expr.expressions() {
            let argument = self.inline(&argument)?;
            if let Some(literal) = argument.downcast_ref::<Literal>() {
                arguments.push(Argument::Literal(literal.value().clone()));
                continue;
            }
            let at = match self.data_column(&argument) {
                Some(at) => Some(at),
                None => computed.add(&argument, self.scan)?,
            };
            let Some(at) = at else { return Ok(None) };
            arguments.push(Argument::Column(at));
        }
        Ok(Accumulated::new(expr, arguments))
    }

    /// The data column, if the expression is one.
    fn data_column(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        let column = expr.downcast_ref::<Column>()?;
        match self.scan.output().get(column.index())? {
            OutputColumn::Data(at) => Some(*at),
            OutputColumn::Series(_) => None,
        }
    }

    /// The data column, if the expression is one or casts one to the widest type of its kind.
    fn widened(&self, expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
        let Some(cast) = expr.downcast_ref::<CastExpr>() else { return self.data_column(expr) };
        let at = self.data_column(cast.expr())?;
        let from = self.scan.columns().schema().field(at).data_type();
        let widens = match cast.cast_type() {
            DataType::Int64 => from.is_signed_integer(),
            DataType::UInt64 => from.is_unsigned_integer(),
            DataType::Float64 => from.is_integer() || from.is_floating(),
            _ => false,
        };
        widens.then_some(at)
    }

    /// Type of a data column or a computed one.
    fn data_type(&self, at: usize, computed: &Computed) -> DataType {
        let of_data = || self.scan.columns().schema().field(at).data_type();
        computed.data_type(at).unwrap_or_else(of_data).clone()
    }

    /// Whether a state column has the type that its state produces.
    fn fits(&self, data_type: &DataType, state: State, computed: &Computed) -> bool {
        let of = |at: usize| self.data_type(at, computed);
        match state {
            State::Rows | State::Count(_) => *data_type == DataType::Int64,
            State::AverageCount(_) => *data_type == DataType::UInt64,
            State::FloatSum(_) => *data_type == DataType::Float64,
            State::Sum(at) => *data_type == if of(at).is_integer() { PARTIAL } else { DataType::Float64 },
            State::Min(at) | State::Max(at) | State::First(at) | State::Last(at) => *data_type == of(at),
            State::Accumulated(..) => true,
            State::FirstTime(_) | State::LastTime(_) => {
                self.scan.columns().time().is_some_and(|at| *data_type == of(at))
            }
        }
    }
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || data_type.is_floating()
}
