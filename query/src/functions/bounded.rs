//! DataFusion's functions whose result may be far larger than what they are given: a few bytes of SQL must not take gigabytes,
//! which no memory pool sees. Each counts first what it would make of a batch.

use std::sync::Arc;

use arrow::{
    array::{Array, ArrayRef, AsArray},
    compute::{cast, kernels::length::length},
    datatypes::{DataType, FieldRef, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit},
};
use datafusion::{
    common::{ExprSchema, exec_err},
    error::Result as DfResult,
    logical_expr::{
        ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
        simplify::{ExprSimplifyResult, SimplifyContext},
    },
};

/// The most that one of them makes of a batch of rows, in bytes.
const MOST_BYTES: u128 = 64 << 20;

/// The functions by their names, where `known` has them.
pub(super) fn functions(known: &[Arc<ScalarUDF>]) -> impl Iterator<Item = ScalarUDF> {
    const GROWING: [(&str, Growth); 8] = [
        ("repeat", Growth::Repeat),
        ("lpad", Growth::Pad),
        ("rpad", Growth::Pad),
        ("replace", Growth::Replace),
        ("array_repeat", Growth::Elements),
        ("array_resize", Growth::Elements),
        ("range", Growth::Series),
        ("generate_series", Growth::Series),
    ];
    GROWING.into_iter().filter_map(|(name, growth)| {
        let inner = known.iter().find(|function| function.name() == name)?.clone();
        Some(ScalarUDF::from(Bounded { inner, growth }))
    })
}

/// How large a function's result is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Growth {
    /// A text so many times.
    Repeat,
    /// A text of so many characters.
    Pad,
    /// A text with another one in place of each that is found.
    Replace,
    /// A list of so many elements.
    Elements,
    /// A list of all from one to another, by steps.
    Series,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    growth: Growth,
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> DfResult<String> {
        self.inner.schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn is_nullable(&self, args: &[Expr], schema: &dyn ExprSchema) -> bool {
        #[expect(deprecated, reason = "whoever still asks gets the same answer")]
        self.inner.is_nullable(args, schema)
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        self.inner.coerce_types(types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> DfResult<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let bytes = self.growth.bytes(&args.args)?;
        if bytes > MOST_BYTES {
            return exec_err!(
                "{} would make {bytes} bytes of a batch of {} rows; a function makes {MOST_BYTES} at most",
                self.name(),
                args.number_rows
            );
        }
        self.inner.invoke_with_args(args)
    }
}

impl Growth {
    /// About so many bytes come of a batch.
    fn bytes(self, args: &[ColumnarValue]) -> DfResult<u128> {
        let rows = args.iter().map(|arg| match arg {
            ColumnarValue::Array(array) => array.len(),
            ColumnarValue::Scalar(_) => 1,
        });
        let rows = rows.max().unwrap_or(0);
        let total = |of: &dyn Fn(usize) -> u128| (0..rows).map(of).fold(0, u128::saturating_add);
        Ok(match (self, args) {
            (Growth::Repeat, [text, count]) => {
                let (text, count) = (Numbers::lengths(text)?, Numbers::of(count)?);
                total(&|i| text.at(i) * count.at(i))
            }
            (Growth::Pad, [_, count, ..]) => {
                let count = Numbers::of(count)?;
                total(&|i| count.at(i))
            }
            (Growth::Replace, [text, from, to]) => {
                let (text, from, to) = (Numbers::lengths(text)?, Numbers::lengths(from)?, Numbers::lengths(to)?);
                total(&|i| text.at(i) + text.at(i).checked_div(from.at(i)).unwrap_or(0) * to.at(i))
            }
            (Growth::Elements, [element, count, ..]) => {
                let each = element.to_array(1)?;
                let each = (each.to_data().get_slice_memory_size()? / each.len().max(1)).max(1) as u128;
                let count = Numbers::of(count)?;
                total(&|i| each * count.at(i))
            }
            (Growth::Series, [end]) => {
                let end = Numbers::of(end)?;
                total(&|i| 8 * end.at(i))
            }
            (Growth::Series, [start, end, rest @ ..]) => {
                let (start, end) = (Numbers::of(start)?, Numbers::of(end)?);
                let step = rest.first().map(Numbers::of).transpose()?;
                let step = |i| step.as_ref().map_or(1, |step| step.signed(i).unsigned_abs().max(1));
                total(&|i| 8 * u128::from(end.signed(i).abs_diff(start.signed(i)) / step(i)))
            }
            _ => 0,
        })
    }
}

/// An argument as numbers: one for each row, or one for all.
struct Numbers(ArrayRef);

impl Numbers {
    /// Times and steps between them in nanoseconds, a month as its least.
    fn of(arg: &ColumnarValue) -> DfResult<Self> {
        let array = arg.to_array(1)?;
        let array = match array.data_type() {
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                const DAY: i64 = 86_400_000_000_000;
                let steps = array.as_primitive::<IntervalMonthDayNanoType>();
                let days = |months: i32, days: i32| i64::from(months) * 28 + i64::from(days);
                let ns = |days: i64, ns: i64| days.saturating_mul(DAY).saturating_add(ns);
                Arc::new(steps.unary::<_, Int64Type>(|step| ns(days(step.months, step.days), step.nanoseconds)))
            }
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
                cast(&cast(&array, &DataType::Timestamp(TimeUnit::Nanosecond, None))?, &DataType::Int64)?
            }
            _ => cast(&array, &DataType::Int64)?,
        };
        Ok(Self(array))
    }

    /// Of texts, in bytes.
    fn lengths(arg: &ColumnarValue) -> DfResult<Self> {
        let array = arg.to_array(1)?;
        match array.data_type() {
            DataType::Null => Ok(Self(cast(&array, &DataType::Int64)?)),
            _ => Ok(Self(cast(&length(&array)?, &DataType::Int64)?)),
        }
    }

    fn signed(&self, row: usize) -> i64 {
        let values = self.0.as_primitive::<Int64Type>();
        let row = if values.len() == 1 { 0 } else { row };
        if values.is_null(row) { 0 } else { values.value(row) }
    }

    fn at(&self, row: usize) -> u128 {
        u128::try_from(self.signed(row)).unwrap_or(0)
    }
}
