//! Bounds every scalar function: the bytes it produces, their reservation in the statement's memory, and its computing
//! time.
//!
//! A few bytes of SQL must not use gigabytes outside any memory pool, nor a thread for minutes. [`bound`] wraps a
//! function of any origin; [`register`](super::register) wraps every function of the registry, and [`rule`] those that
//! the planner takes from elsewhere and the operator `
//!
//! `. A wrapped function
//!
//! - estimates the bytes of its result from its arguments ([`size`]) and fails above [`most_bytes`],
//! - computes large results in slices of rows; between slices it reserves their bytes in the statement's pool and
//!   checks its deadline ([`crate::budget`]),
//! - fails for arguments that would take too long to compute without a pause ([`work`]),
//! - returns no large constant during planning: such a call is left to execution.
//!
//! [`window`] does the same for aggregates and window functions called with OVER.

mod concat;
mod pattern;
mod rule;
mod size;
mod window;
mod work;

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    compute::concat as concat_arrays,
    datatypes::{DataType, FieldRef, Int64Type},
};
use datafusion::{
    common::{ExprSchema, ScalarValue, config::ConfigOptions, exec_datafusion_err},
    error::Result as DfResult,
    logical_expr::{
        ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
        ScalarUDFImpl, Signature, StructFieldMapping,
        interval_arithmetic::Interval,
        preimage::PreimageResult,
        simplify::{ExprSimplifyResult, SimplifyContext},
        sort_properties::{ExprProperties, SortProperties},
    },
    physical_expr::{PhysicalExpr, ScalarFunctionExpr, expressions::Literal},
};
use tidelake_format::Error;

pub(crate) use self::rule::BoundFunctions;
use self::{
    size::{Growth, Sizes},
    work::Work,
};
use crate::{
    budget::{self, FOLD_BYTES, MOST_BYTES, Phase},
    error::{no_room, to_datafusion},
    pace::beside_the_runtime,
    sizes::bytes_of,
};

/// Approximate bytes computed between two deadline checks.
const SLICE_BYTES: u64 = 1 << 20;
/// Results below this size are not counted: few of them exist at once during an evaluation.
const SMALL_BYTES: u64 = 64 << 10;
/// More slices than these occupy the thread for tens of milliseconds: the runtime continues without it.
const FEW_SLICES: u64 = 2;
/// One row of this many bytes may occupy the thread for a tenth of a second: the runtime continues without it.
const LONG_BYTES: u64 = 1 << 20;

/// Bounds a function; returns it unchanged if it is already bounded.
pub(crate) fn bound(function: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    if is_bounded(&function) {
        return function;
    }
    let (growth, work) = (Growth::of(function.name()), Work::of(function.name()));
    Arc::new(ScalarUDF::from(Bounded { inner: function, growth, work }))
}

/// Whether the results of a call may be much larger than its arguments, judged by its constant arguments.
pub(crate) fn makes_large(call: &ScalarFunctionExpr) -> bool {
    let constant = |at: usize| call.args().get(at).and_then(|arg| arg.downcast_ref::<Literal>()).map(Literal::value);
    call.fun().inner().downcast_ref::<Bounded>().is_some_and(|bounded| bounded.growth.is_large(constant))
}

/// Bytes of the result of a call whose arguments are constants, or calls of constants; `known` returns those of an
/// argument.
pub(crate) fn constant_bytes(
    call: &ScalarFunctionExpr,
    known: impl Fn(&Arc<dyn PhysicalExpr>) -> Option<u64>,
) -> Option<u64> {
    let growth = call.fun().inner().downcast_ref::<Bounded>()?.growth;
    let constant =
        |arg: &Arc<dyn PhysicalExpr>| Some(ColumnarValue::Scalar(arg.downcast_ref::<Literal>()?.value().clone()));
    if let Some(constants) = call.args().iter().map(constant).collect::<Option<Vec<_>>>() {
        return Sizes::new(growth, &constants, 1).ok().map(|sizes| sizes.largest());
    }
    let all: Option<u64> = call.args().iter().map(known).sum();
    Some(all?.saturating_mul(growth.usual()))
}

/// Whether a function is bounded.
pub(crate) fn is_bounded(function: &ScalarUDF) -> bool {
    function.inner().is::<Bounded>()
}

/// A bounded function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
    work: Option<Work>,
}

impl Bounded {
    fn refused(&self, bytes: u64, rows: usize) -> datafusion::error::DataFusionError {
        let of = match rows {
            0 | 1 => "one row; select a shorter value".to_owned(),
            _ => format!("{rows} rows; select shorter values, or fewer rows in a subquery with LIMIT"),
        };
        to_datafusion(
            Error::invalid(format!("result of {} would have {bytes} bytes for {of}", self.name()))
                .with("limit", format!("{} bytes", most_bytes(rows))),
        )
    }

    /// Reserves bytes in the statement's memory.
    fn reserve(&self, bytes: u64) -> DfResult<()> {
        let counted = usize::try_from(bytes).unwrap_or(usize::MAX);
        let what = || {
            format!(
                "query memory exhausted: no room for {bytes} bytes of the result of {}; select shorter values or fewer rows",
                self.name()
            )
        };
        budget::reserve(counted).map_err(|full| to_datafusion(no_room(what(), full)))
    }

    /// Calls the function, with `block_in_place` if it takes long.
    fn call(&self, args: ScalarFunctionArgs, bytes: u64) -> DfResult<ColumnarValue> {
        if bytes >= LONG_BYTES && args.number_rows <= 1 {
            return beside_the_runtime(|| self.inner.invoke_with_args(args));
        }
        self.inner.invoke_with_args(args)
    }

    /// Bytes of a result, counted as a column.
    fn made(&self, result: &ColumnarValue, rows: usize) -> DfResult<u64> {
        Ok(match result {
            ColumnarValue::Array(array) => bytes_of(array.as_ref(), 0, array.len()),
            ColumnarValue::Scalar(value) => scalar_bytes(value)?.saturating_mul(rows.max(1) as u64),
        })
    }

    /// Computes all rows in one call.
    fn at_once(&self, args: ScalarFunctionArgs, estimate: u64) -> DfResult<ColumnarValue> {
        let rows = args.number_rows;
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if budget::phase() == Phase::Plan && is_constant && estimate > FOLD_BYTES as u64 {
            return Err(left_to_execution(self.name()));
        }
        let reserved = if estimate >= SMALL_BYTES { estimate } else { 0 };
        self.reserve(reserved)?;
        let result = self.call(args, estimate)?;
        let made = self.made(&result, rows)?;
        if made > SMALL_BYTES && made > most_bytes(rows) {
            return Err(self.refused(made, rows));
        }
        if budget::phase() == Phase::Plan && is_constant && !budget::fold(usize::try_from(made).unwrap_or(usize::MAX)) {
            return Err(left_to_execution(self.name()));
        }
        let counted = if made >= SMALL_BYTES { made } else { 0 };
        match counted.checked_sub(reserved) {
            Some(more) => self.reserve(more)?,
            None => budget::release(usize::try_from(reserved - counted).unwrap_or(usize::MAX)),
        }
        Ok(result)
    }

    /// Computes the rows slice by slice.
    fn in_slices(&self, args: &ScalarFunctionArgs, sizes: &Sizes, work: &[u64]) -> DfResult<ColumnarValue> {
        let rows = args.number_rows;
        let mut parts: Vec<ArrayRef> = Vec::new();
        let (mut start, mut total) = (0, 0_u64);
        while start < rows {
            budget::check()?;
            let (mut end, mut bytes, mut steps) = (start, 0_u64, 0_u64);
            while end < rows {
                let (of_row, steps_of_row) = (sizes.of(end), work.get(end).copied().unwrap_or(0));
                let is_full = bytes.saturating_add(of_row) > SLICE_BYTES
                    || steps.saturating_add(steps_of_row) > work::STEPS_PER_SLICE;
                if is_full && end > start {
                    break;
                }
                bytes = bytes.saturating_add(of_row);
                steps = steps.saturating_add(steps_of_row);
                end += 1;
            }
            self.reserve(bytes)?;
            let slice = ScalarFunctionArgs {
                args: args.args.iter().map(|arg| slice_of(arg, start, end - start)).collect(),
                arg_fields: args.arg_fields.clone(),
                number_rows: end - start,
                return_field: args.return_field.clone(),
                config_options: args.config_options.clone(),
            };
            let part = self.call(slice, bytes)?.into_array(end - start)?;
            let made = bytes_of(part.as_ref(), 0, part.len());
            match made.checked_sub(bytes) {
                Some(more) => self.reserve(more)?,
                None => budget::release(usize::try_from(bytes - made).unwrap_or(usize::MAX)),
            }
            total = total.saturating_add(made);
            if total > MOST_BYTES {
                return Err(self.refused(total, end));
            }
            parts.push(part);
            start = end;
        }
        if let [part] = parts.as_slice() {
            return Ok(ColumnarValue::Array(part.clone()));
        }
        self.reserve(total)?;
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let whole = concat_arrays(&parts)?;
        budget::release(usize::try_from(total).unwrap_or(usize::MAX));
        Ok(ColumnarValue::Array(whole))
    }
}

/// Limit on the bytes of a result of this many rows.
fn most_bytes(rows: usize) -> u64 {
    if rows > 1 { MOST_BYTES } else { budget::most_of_a_row() }
}

/// The error that keeps the planner from folding a call. Users see it only for VALUES, whose rows the planner computes.
fn left_to_execution(name: &str) -> datafusion::error::DataFusionError {
    to_datafusion(
        Error::invalid(format!("result of {name} is too large to compute during planning; in VALUES write SELECT"))
            .with("limit", format!("{FOLD_BYTES} bytes")),
    )
}

fn slice_of(arg: &ColumnarValue, start: usize, rows: usize) -> ColumnarValue {
    match arg {
        ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(start, rows)),
        scalar @ ColumnarValue::Scalar(_) => scalar.clone(),
    }
}

/// Bytes of one value.
fn scalar_bytes(value: &ScalarValue) -> DfResult<u64> {
    Ok(match value {
        ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => {
            text.as_ref().map_or(0, |text| text.len() as u64)
        }
        ScalarValue::Binary(bytes) | ScalarValue::LargeBinary(bytes) | ScalarValue::BinaryView(bytes) => {
            bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)
        }
        other if other.data_type().is_nested() => {
            let array = other.to_array()?;
            bytes_of(array.as_ref(), 0, array.len())
        }
        _ => 16,
    })
}

/// Whether all values of a type have the same few bytes.
fn is_fixed(data_type: &DataType) -> bool {
    data_type.is_primitive() || matches!(data_type, DataType::Boolean | DataType::Null)
}

impl ScalarUDFImpl for Bounded {
    called_as_inner!();

    fn display_name(&self, args: &[Expr]) -> DfResult<String> {
        #[expect(deprecated, reason = "callers that still use it get the answer of the function")]
        self.inner.inner().display_name(args)
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        self.inner.schema_name(args)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let updated = self.inner.inner().with_updated_config(config)?;
        Some(bound(Arc::new(updated)).as_ref().clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_nullable(&self, args: &[Expr], schema: &dyn ExprSchema) -> bool {
        #[expect(deprecated, reason = "callers that still use it get the answer of the function")]
        self.inner.is_nullable(args, schema)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        Ok(match self.inner.simplify(args, info)? {
            ExprSimplifyResult::Simplified(expr) => ExprSimplifyResult::Simplified(rule::bound_within(expr)?.data),
            original => original,
        })
    }

    fn preimage(&self, args: &[Expr], literal: &Expr, info: &SimplifyContext) -> DfResult<PreimageResult> {
        self.inner.preimage(args, literal, info)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    /// Functions such as `abs` fail for an operand without a known range, such as CASE. Such an error would make the planner
    /// take the order of a sort for unknown and refuse the statement: then the result has no known range either.
    fn evaluate_bounds(&self, inputs: &[&Interval]) -> DfResult<Interval> {
        self.inner.evaluate_bounds(inputs).or_else(|_| Interval::make_unbounded(&DataType::Null))
    }

    fn propagate_constraints(&self, interval: &Interval, inputs: &[&Interval]) -> DfResult<Option<Vec<Interval>>> {
        self.inner.propagate_constraints(interval, inputs)
    }

    /// Unordered where the function fails, for the reason given at [`Bounded::evaluate_bounds`].
    fn output_ordering(&self, inputs: &[ExprProperties]) -> DfResult<SortProperties> {
        Ok(self.inner.output_ordering(inputs).unwrap_or(SortProperties::Unordered))
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> DfResult<bool> {
        self.inner.preserves_lex_ordering(inputs)
    }

    fn strictly_order_preserving(&self, inputs: &[ExprProperties]) -> DfResult<bool> {
        self.inner.inner().strictly_order_preserving(inputs)
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn struct_field_mapping(&self, literals: &[Option<ScalarValue>]) -> Option<StructFieldMapping> {
        self.inner.struct_field_mapping(literals)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.inner.placement(args)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        if self.growth == Growth::Pad
            && let Some(length) = args.args.get_mut(1)
        {
            not_negative(length);
        }
        let work = match &self.work {
            Some(work) => work.of_rows(self.name(), &args.args, args.number_rows)?,
            None => Vec::new(),
        };
        let steps = work.iter().fold(0_u64, |sum, steps| sum.saturating_add(*steps));
        let is_short = steps <= work::STEPS_PER_SLICE;
        budget::check()?;
        if is_fixed(args.return_field.data_type()) && is_short {
            return self.call(args, 0);
        }
        let sizes = Sizes::new(self.growth, &args.args, args.number_rows)?;
        let (largest, total) = (sizes.largest(), sizes.total());
        if largest > SMALL_BYTES && largest > budget::most_of_a_row() {
            return Err(self.refused(largest, 1));
        }
        if self.growth.is_exact() && total > MOST_BYTES {
            return Err(self.refused(total, args.number_rows));
        }
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        if is_short && (is_constant || total <= SLICE_BYTES) {
            return self.at_once(args, if is_constant { largest } else { total });
        }
        if is_constant {
            return beside_the_runtime(|| self.at_once(args, largest));
        }
        let slices = (total / SLICE_BYTES).max(steps / work::STEPS_PER_SLICE);
        if slices > FEW_SLICES {
            return beside_the_runtime(|| self.in_slices(&args, &sizes, &work));
        }
        self.in_slices(&args, &sizes, &work)
    }
}

/// Replaces lengths below zero by zero: `lpad` and `rpad` panic on a column with one (`capacity overflow`, in
/// DataFusion 55.2).
fn not_negative(lengths: &mut ColumnarValue) {
    if let ColumnarValue::Array(array) = lengths
        && let Some(numbers) = array.as_primitive_opt::<Int64Type>()
        && numbers.iter().flatten().any(|length| length < 0)
    {
        *array = Arc::new(numbers.unary::<_, Int64Type>(|length| length.max(0)));
    }
}

/// The error of a missing argument.
fn missing(name: &str) -> datafusion::error::DataFusionError {
    exec_datafusion_err!("{name}: missing argument")
}

#[cfg(test)]
mod tests;
