//! `tick_floor(instant, unit)` and `tick_ceil(instant, unit)`: convert an instant to a coarser unit, rounded down or
//! up.
//!
//! They turn `ts >= now() - 1h` over a millisecond column into a comparison with a millisecond literal that selects
//! exactly the same rows, so that it is pushed down to the scan.

use std::sync::Arc;

use arrow::{
    array::{ArrayRef, AsArray},
    compute::cast,
    datatypes::{DataType, Field, FieldRef, Int64Type, TimeUnit},
};
use datafusion::{
    common::{ScalarValue, exec_err, internal_err, plan_err},
    error::Result as DfResult,
    logical_expr::{
        ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
    },
};

use super::window::nanoseconds;

/// Rounding direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Round {
    Floor,
    Ceil,
}

/// Creates one of the two functions.
pub(crate) fn function(round: Round) -> ScalarUDF {
    ScalarUDF::from(Tick { round, signature: Signature::any(2, Volatility::Immutable) })
}

/// Creates both functions.
pub(crate) fn functions() -> [ScalarUDF; 2] {
    [function(Round::Floor), function(Round::Ceil)]
}

/// Text of a unit, as an argument of the functions.
pub(crate) fn unit_text(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}

fn unit_of(text: &str) -> Option<TimeUnit> {
    [TimeUnit::Second, TimeUnit::Millisecond, TimeUnit::Microsecond, TimeUnit::Nanosecond]
        .into_iter()
        .find(|unit| unit_text(*unit) == text)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Tick {
    round: Round,
    signature: Signature,
}

impl ScalarUDFImpl for Tick {
    fn name(&self) -> &str {
        match self.round {
            Round::Floor => "tick_floor",
            Round::Ceil => "tick_ceil",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        internal_err!("return_type called instead of return_field_from_args")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> DfResult<FieldRef> {
        let unit = args.scalar_arguments.get(1).copied().flatten().and_then(|v| v.try_as_str().flatten());
        let Some(unit) = unit.and_then(unit_of) else {
            return plan_err!("{} needs a unit: 's', 'ms', 'us' or 'ns'", self.name());
        };
        let DataType::Timestamp(_, zone) = args.arg_fields[0].data_type() else {
            return plan_err!("{} needs a TIMESTAMP, found {}", self.name(), args.arg_fields[0].data_type());
        };
        let nullable = args.arg_fields[0].is_nullable();
        Ok(Arc::new(Field::new(self.name(), DataType::Timestamp(unit, zone.clone()), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let (DataType::Timestamp(from, _), target @ DataType::Timestamp(to, _)) =
            (args.args[0].data_type(), args.return_field.data_type().clone())
        else {
            return exec_err!("{} needs a TIMESTAMP", self.name());
        };
        let scalar = matches!(args.args[0], ColumnarValue::Scalar(_));
        let input = args.args[0].to_array(if scalar { 1 } else { args.number_rows })?;
        let ticks = cast(&input, &DataType::Int64)?;
        let (mul, div) = (i128::from(nanoseconds(from)), i128::from(nanoseconds(to)));
        let rounded: arrow::array::Int64Array = ticks
            .as_primitive::<Int64Type>()
            .iter()
            .map(|t| {
                t.map(|t| {
                    let nanos = i128::from(t) * mul;
                    let floor = nanos.div_euclid(div);
                    let up = self.round == Round::Ceil && nanos.rem_euclid(div) != 0;
                    (floor + i128::from(up)).clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
                })
            })
            .collect();
        let output: ArrayRef = cast(&rounded, &target)?;
        Ok(match scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&output, 0)?),
            false => ColumnarValue::Array(output),
        })
    }
}
