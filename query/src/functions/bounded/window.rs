//! Bounds functions that are called with OVER.
//!
//! A window operator computes all rows of a batch, or of a whole partition, in one call, and keeps every result in
//! memory. `array_agg(v) OVER ()` makes as many lists as there are rows, each as long as there are rows; `median(v)
//! OVER (ORDER BY ts)` sorts all rows before each row. A wrapped function reserves the bytes of its results in the
//! statement's pool and checks its deadline ([`crate::budget`]); if one result takes long, the runtime continues
//! without the thread.

use std::{
    fmt,
    ops::Range,
    sync::Arc,
    time::{Duration, Instant},
};

use arrow::{
    array::{Array, ArrayRef, AsArray},
    compute::filter,
    datatypes::{DataType, FieldRef},
};
use datafusion::{
    common::{ScalarValue, tree_node::Transformed},
    error::Result as DfResult,
    logical_expr::{
        Accumulator, AggregateUDF, AggregateUDFImpl, Documentation, GroupsAccumulator, LimitEffect, PartitionEvaluator,
        ReversedUDAF, ReversedUDWF, SetMonotonicity, Signature, StatisticsArgs, WindowFrame, WindowFrameBound,
        WindowFrameUnits, WindowFunctionDefinition, WindowUDF, WindowUDFImpl,
        expr::{AggregateFunctionParams, WindowFunction, WindowFunctionParams},
        function::{AccumulatorArgs, ExpressionArgs, PartitionEvaluatorArgs, StateFieldsArgs, WindowUDFFieldArgs},
        utils::AggregateOrderSensitivity,
        window_state::WindowAggState,
    },
    physical_expr::{PhysicalExpr, expressions::Literal},
};

use super::{bytes_of, is_fixed, scalar_bytes};
use crate::{
    budget,
    error::{no_room, to_datafusion},
    pace::beside_the_runtime,
};

/// If the last result took longer than this, every result is timed and computed with `block_in_place`.
const LONG: Duration = Duration::from_micros(10);
/// Of a faster function, one call in this number is timed.
const WATCHED: u32 = 16;
/// Largest result that is not reserved here: the window operator reserves as much for each row.
const SMALL: u64 = 64;

/// Bounds the function of a call with OVER.
pub(super) fn bound_call(mut call: WindowFunction) -> Transformed<WindowFunction> {
    let params = &mut call.params;
    call.fun = match call.fun {
        WindowFunctionDefinition::AggregateUDF(inner) if !inner.inner().is::<Aggregate>() => {
            let is_constant = is_constant(params);
            // Rows excluded by FILTER have a result too: the wrapped function counts them.
            let filter = if is_constant { params.filter.take() } else { None };
            // Types are already resolved, and the function's own signature lacks this argument.
            let filtered = filter.is_some().then(|| Signature::user_defined(inner.signature().volatility));
            params.args.extend(filter.map(|filter| *filter));
            let bounded = Aggregate { inner, is_constant, filtered };
            WindowFunctionDefinition::AggregateUDF(Arc::new(AggregateUDF::from(bounded)))
        }
        WindowFunctionDefinition::WindowUDF(inner) if !inner.inner().is::<Window>() => {
            WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::from(Window { inner })))
        }
        bounded => {
            call.fun = bounded;
            return Transformed::no(call);
        }
    };
    Transformed::yes(call)
}

/// Whether all rows of a partition have the same frame: the single result is then copied for each row.
fn is_constant(params: &WindowFunctionParams) -> bool {
    let WindowFrame { units, start_bound, end_bound, .. } = &params.window_frame;
    let is_constant = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => *units == WindowFrameUnits::Range && params.order_by.is_empty(),
        _ => bound.is_unbounded(),
    };
    is_constant(start_bound) && is_constant(end_bound)
}

/// State of one function with OVER in one partition.
#[derive(Debug, Default)]
struct Results {
    calls: u32,
    is_long: bool,
}

impl Results {
    /// Computes one result. The window operator makes `copies` copies of it, one per row.
    fn one(
        &mut self,
        name: &str,
        copies: usize,
        compute: impl FnOnce() -> DfResult<ScalarValue>,
    ) -> DfResult<ScalarValue> {
        let is_watched = self.is_long || self.calls.is_multiple_of(WATCHED);
        self.calls = self.calls.wrapping_add(1);
        let value = if is_watched {
            budget::check()?;
            let began = Instant::now();
            let value = if self.is_long { beside_the_runtime(compute) } else { compute() }?;
            self.is_long = began.elapsed() > LONG;
            value
        } else {
            compute()?
        };
        let bytes = scalar_bytes(&value)?;
        if bytes > SMALL || copies > 1 {
            reserve(name, bytes.saturating_mul(copies as u64))?;
        }
        Ok(value)
    }
}

/// Reserves bytes of results: as values and, once all exist, as a column.
fn reserve(name: &str, bytes: u64) -> DfResult<()> {
    let counted = usize::try_from(bytes.saturating_mul(2)).unwrap_or(usize::MAX);
    let what = || {
        format!(
            "query memory exhausted: no room for the results of {name} with OVER; select fewer rows or shorter frames"
        )
    };
    budget::reserve(counted).map_err(|full| to_datafusion(no_room(what(), full)))
}

/// An aggregate function called with OVER.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Aggregate {
    inner: Arc<AggregateUDF>,
    is_constant: bool,
    /// The signature, if the last argument is the filter of the rows to aggregate.
    filtered: Option<Signature>,
}

impl Aggregate {
    /// Removes the filter argument from a list with one item per argument.
    fn own<'a, T>(&self, all: &'a [T]) -> &'a [T] {
        match all.split_last() {
            Some((_, own)) if self.filtered.is_some() => own,
            _ => all,
        }
    }

    fn own_args<'a>(&self, args: AccumulatorArgs<'a>) -> AccumulatorArgs<'a> {
        AccumulatorArgs { exprs: self.own(args.exprs), expr_fields: self.own(args.expr_fields), ..args }
    }

    fn counted(&self, inner: Box<dyn Accumulator>, args: &AccumulatorArgs<'_>) -> Box<dyn Accumulator> {
        Box::new(Counted {
            name: self.inner.name().to_owned(),
            inner,
            is_copied: self.is_constant && !is_fixed(args.return_field.data_type()),
            is_filtered: self.filtered.is_some(),
            rows: 0,
            results: Results::default(),
        })
    }

    fn wrapped(&self, inner: Arc<AggregateUDF>) -> Self {
        Self { inner, is_constant: self.is_constant, filtered: self.filtered.clone() }
    }
}

impl AggregateUDFImpl for Aggregate {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, params: &AggregateFunctionParams) -> DfResult<String> {
        self.inner.schema_name(params)
    }

    fn human_display(&self, params: &AggregateFunctionParams) -> DfResult<String> {
        self.inner.human_display(params)
    }

    fn window_function_schema_name(&self, params: &WindowFunctionParams) -> DfResult<String> {
        self.inner.window_function_schema_name(params)
    }

    fn display_name(&self, params: &AggregateFunctionParams) -> DfResult<String> {
        self.inner.display_name(params)
    }

    fn window_function_display_name(&self, params: &WindowFunctionParams) -> DfResult<String> {
        self.inner.window_function_display_name(params)
    }

    fn signature(&self) -> &Signature {
        self.filtered.as_ref().unwrap_or(self.inner.signature())
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        self.inner.return_type(self.own(types))
    }

    fn return_field(&self, fields: &[FieldRef]) -> DfResult<FieldRef> {
        self.inner.return_field(self.own(fields))
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        let args = self.own_args(args);
        Ok(self.counted(self.inner.accumulator(args.clone())?, &args))
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> DfResult<Vec<FieldRef>> {
        self.inner.state_fields(StateFieldsArgs { input_fields: self.own(args.input_fields), ..args })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs<'_>) -> bool {
        self.inner.groups_accumulator_supported(self.own_args(args))
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(self.own_args(args))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        let args = self.own_args(args);
        Ok(self.counted(self.inner.create_sliding_accumulator(args.clone())?, &args))
    }

    fn with_beneficial_ordering(self: Arc<Self>, is_ordered: bool) -> DfResult<Option<Arc<dyn AggregateUDFImpl>>> {
        let ordered = self.inner.as_ref().clone().with_beneficial_ordering(is_ordered)?;
        Ok(ordered.map(|ordered| Arc::new(self.wrapped(Arc::new(ordered))) as _))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Reversed(reversed) => {
                ReversedUDAF::Reversed(Arc::new(AggregateUDF::from(self.wrapped(reversed))))
            }
            other => other,
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        if self.filtered.is_some() { Ok(types.to_vec()) } else { self.inner.coerce_types(types) }
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, _: &StatisticsArgs<'_>) -> Option<ScalarValue> {
        None
    }

    fn default_value(&self, data_type: &DataType) -> DfResult<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn set_monotonicity(&self, data_type: &DataType) -> SetMonotonicity {
        self.inner.inner().set_monotonicity(data_type)
    }
}

/// The accumulator of a function called with OVER.
#[derive(Debug)]
struct Counted {
    name: String,
    inner: Box<dyn Accumulator>,
    /// Whether its result is copied for each row of the partition and is larger than a number.
    is_copied: bool,
    is_filtered: bool,
    /// Number of input rows so far.
    rows: usize,
    results: Results,
}

impl Counted {
    /// The values of the rows that pass the filter.
    fn own(&self, values: &[ArrayRef]) -> DfResult<Vec<ArrayRef>> {
        match values.split_last() {
            Some((chosen, values)) if self.is_filtered => {
                let chosen = chosen.as_boolean();
                values.iter().map(|values| Ok(filter(values.as_ref(), chosen)?)).collect()
            }
            _ => Ok(values.to_vec()),
        }
    }
}

impl Accumulator for Counted {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.rows += values.first().map_or(0, |values| values.len());
        if self.is_filtered {
            return self.inner.update_batch(&self.own(values)?);
        }
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let copies = if self.is_copied { self.rows.max(1) } else { 1 };
        self.results.one(&self.name, copies, || self.inner.evaluate())
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        self.inner.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        self.inner.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        if self.is_filtered {
            return self.inner.retract_batch(&self.own(values)?);
        }
        self.inner.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.inner.supports_retract_batch()
    }
}

/// A pure window function, such as `lag` and `first_value`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Window {
    inner: Arc<WindowUDF>,
}

impl WindowUDFImpl for Window {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, args: ExpressionArgs<'_>) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs<'_>) -> DfResult<Box<dyn PartitionEvaluator>> {
        let mut constant = 0;
        for literal in args.input_exprs().iter().filter_map(|expr| expr.downcast_ref::<Literal>()) {
            let bytes = scalar_bytes(literal.value())?;
            constant = constant.max(if bytes > SMALL { bytes } else { 0 });
        }
        let inner = self.inner.partition_evaluator_factory(args)?;
        let name = self.inner.name().to_owned();
        Ok(Box::new(Evaluator { name, inner, constant, results: Results::default() }))
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> DfResult<FieldRef> {
        self.inner.field(args)
    }

    fn sort_options(&self) -> Option<arrow::compute::SortOptions> {
        self.inner.sort_options()
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.reverse_expr() {
            ReversedUDWF::Reversed(inner) => ReversedUDWF::Reversed(Arc::new(WindowUDF::from(Self { inner }))),
            other => other,
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(args)
    }
}

/// Evaluates a window function in one partition.
struct Evaluator {
    name: String,
    inner: Box<dyn PartitionEvaluator>,
    /// Bytes of the largest constant argument, which may be the result of each row.
    constant: u64,
    results: Results,
}

impl fmt::Debug for Evaluator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evaluator").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Evaluator {
    /// Reserves memory for `rows` results of the size of the largest constant argument, such as the default value of
    /// `lag`.
    fn begin(&self, rows: usize) -> DfResult<()> {
        budget::check()?;
        reserve(&self.name, self.constant.saturating_mul(rows as u64))
    }

    fn counted(&self, all: ArrayRef) -> DfResult<ArrayRef> {
        if !is_fixed(all.data_type()) {
            reserve(&self.name, bytes_of(all.as_ref(), 0, all.len()))?;
        }
        Ok(all)
    }
}

impl PartitionEvaluator for Evaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> DfResult<()> {
        self.inner.memoize(state)
    }

    fn get_range(&self, row: usize, rows: usize) -> DfResult<Range<usize>> {
        self.inner.get_range(row, rows)
    }

    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> DfResult<ArrayRef> {
        self.begin(rows)?;
        let all = self.inner.evaluate_all(values, rows)?;
        self.counted(all)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> DfResult<ScalarValue> {
        self.results.one(&self.name, 1, || self.inner.evaluate(values, range))
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> DfResult<ArrayRef> {
        self.begin(rows)?;
        self.counted(self.inner.evaluate_all_with_rank(rows, ranks)?)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.inner.include_rank()
    }
}
